"""Line splitter: cuts bursts of a divided graph into pieces that one chiplet has."""

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import LINE_BYTES
from hw.memory.formats import BURST_BEATS, line_address_width
from hw.memory.window import WindowRead
from hw.ring.line_formats import ARRAYS, Piece

__all__ = ["LineSplitter"]


class LineSplitter(wiring.Component):
    """Compares the line of each piece with the table of chiplets; a piece takes four cycles.

    A piece ends with its burst, with the lines of its chiplet, or when it has `beats` beats. Lines behind the graph
    are those of the last chiplet.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    chiplets
        Most chiplets of a ring.
    beats
        Most beats of a piece.

    Attributes
    ----------
    first : In
        Line address of the graph.
    firsts, total : In
        As of `LineTable`; constant while there are bursts.
    i : stream of `WindowRead`
    o : stream of `Piece`
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, chiplets: int = 4, beats: int = 8) -> None:
        self.most, self.beats = chiplets, beats
        self._beats_of_line = exact_log2(8 * LINE_BYTES // data_width)
        self._piece = Piece(address_width, data_width)
        super().__init__(
            {
                "first": In(line_address_width(address_width)),
                "firsts": In(data.ArrayLayout(data.ArrayLayout(32, chiplets), ARRAYS)),
                "total": In(32),
                "i": In(stream.Signature(WindowRead(address_width, data_width))),
                "o": Out(stream.Signature(self._piece)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Take a burst; compare, find and offer piece by piece."""
        m = Module()
        burst, piece, bits = self.i.payload, Signal(self._piece, reset_less=True), self._beats_of_line
        left = Signal(range(BURST_BEATS), reset_less=True)  # beats of the burst, less one
        reached = [Signal(self.most, name=f"reached_{n}", reset_less=True) for n in range(ARRAYS)]
        room = Signal.like(left, reset_less=True)  # beats of the chiplet from here on, less one
        found = self._find(m, piece, reached)
        length, ends = Signal.like(left), Signal()
        most = Mux(room < self.beats - 1, room, self.beats - 1)
        m.d.comb += [
            ends.eq(left <= most),
            length.eq(Mux(ends, left, most)),
            self.o.payload.eq(piece),
            self.o.payload.last_beat.eq(length),
            self.o.payload.last.eq(ends),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    piece.address.eq(burst.address - (self.first << bits)),
                    piece.client.eq(burst.client),
                    left.eq(burst.length),
                ]
                with m.If(self.i.valid):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                line = piece.address >> bits
                for array in range(ARRAYS):
                    m.d.sync += reached[array].eq(Cat(line >= first for first in self.firsts[array]))
                m.next = "FIND"
            with m.State("FIND"):
                m.d.sync += [piece.owner.eq(found["owner"]), piece.array.eq(found["array"]), room.eq(found["room"])]
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [piece.address.eq(piece.address + length + 1), left.eq(left - length - 1)]
                    m.next = "COMPARE"
                    with m.If(ends):
                        m.next = "TAKE"
        m.d.sync += Cover(self.o.valid & ~ends & (room < self.beats - 1), "a burst crosses a border")
        return m

    def _find(self, m: Module, piece: data.View, reached: list[Signal]) -> dict[str, Signal]:
        """Return array and owner of a piece, and how far the owner's lines go."""
        array, owner = Signal(range(ARRAYS)), Signal.like(piece.owner)
        border, room = Signal(32), Signal(range(BURST_BEATS))
        m.d.comb += [array.eq(sum(one[0] for one in reached[1:])), border.eq(self.total)]
        for a in reversed(range(ARRAYS)):
            for c in reversed(range(self.most)):
                with m.If(~reached[a][c]):
                    m.d.comb += border.eq(self.firsts[a][c])
        for a in range(ARRAYS):
            for c in range(self.most):
                with m.If((array == a) & reached[a][c]):
                    m.d.comb += owner.eq(c)
        bits = self._beats_of_line
        ahead = Signal(33 + bits)
        m.d.comb += [
            ahead.eq((border << bits) - piece.address - 1),
            room.eq(Mux(ahead < BURST_BEATS, ahead, BURST_BEATS - 1)),
        ]
        return {"array": array, "owner": owner, "room": room}
