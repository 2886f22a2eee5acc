"""Remote array: finds the vertices of a chiplet that must travel, and how far (R3, R5, R6)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import Word
from hw.ring.formats import POSITION_BITS
from hw.stream.slice import Slice

__all__ = ["Departure", "RemoteArray"]

#: An entry: a vertex and the chiplet where it leaves the ring.
Departure = data.StructLayout({"vid": 32, "destination": POSITION_BITS})


class RemoteArray(wiring.Component):
    """Finds departures in the tiled offsets of the out-edges, one offset a cycle.

    A tile that is not empty is a chiplet that needs the vertex; the vertex leaves the ring at the one with the most
    hops. Entries are made as fast as they are used, so the array is never stored.

    Attributes
    ----------
    start : In(1)
        The next word is the first offset.
    position, chiplets : In
        Position of this chiplet on the ring; number of chiplets, which is that of tiles.
    first_vertex : In(32)
        VID of the first row.
    i : stream of `Word`
        ``vertices * chiplets + 1`` offsets.
    o : stream of `Departure`
        Ascending VIDs, each once.
    done : Out(1)
        The last offset has been used and all entries have been taken.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER`` with the row; that tile counts as empty.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "first_vertex": In(32),
                "i": In(stream.Signature(Word())),
                "o": Out(stream.Signature(Departure)),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk through the tiles of every row, counting hops instead of computing them."""
        m = Module()
        m.submodules.out = out = Slice(Departure)
        connect(m, out.o, flipped(self.o))
        word = self.i.payload
        primed, ended = Signal(), Signal()
        before = Signal(32)
        row = Signal(32)
        tile, hops, farthest, reach = (Signal(range(16), name=n) for n in ("tile", "hops", "farthest", "reach"))
        last_tile = tile == self.chiplets - 1
        wanted = (word.data > before) & (tile != self.position)
        sum_ = Signal(range(2 * 16))
        step = Signal()
        m.d.comb += [
            reach.eq(Mux(wanted & (hops > farthest), hops, farthest)),
            sum_.eq(self.position + reach),
            out.i.valid.eq(self.i.valid & primed & last_tile & (reach != 0)),
            out.i.payload.vid.eq(self.first_vertex + row),
            out.i.payload.destination.eq(Mux(sum_ >= self.chiplets, sum_ - self.chiplets, sum_)),
            self.i.ready.eq(out.i.ready),
            step.eq(self.i.valid & self.i.ready),
            self.error.valid.eq(step & primed & (word.data < before)),
            self.error.payload.code.eq(Error.OFFSET_ORDER),
            self.error.payload.info.eq(row),
            self.done.eq(ended & ~self.o.valid),
        ]
        with m.If(step):
            m.d.sync += [primed.eq(1), ended.eq(word.last)]
            with m.If(~primed | (word.data > before)):
                m.d.sync += before.eq(word.data)
            with m.If(primed):
                m.d.sync += [
                    tile.eq(Mux(last_tile, 0, tile + 1)),
                    row.eq(row + last_tile),
                    hops.eq(Mux(hops == self.chiplets - 1, 0, hops + 1)),
                    farthest.eq(Mux(last_tile, 0, reach)),
                ]
        with m.If(self.start):
            m.d.sync += [
                primed.eq(0),
                ended.eq(0),
                row.eq(0),
                tile.eq(0),
                farthest.eq(0),
                # Hops to tile 0. Each tile is one hop further, so a row of tiles ends where it began.
                hops.eq(Mux(self.position == 0, 0, self.chiplets - self.position)),
            ]
        m.d.sync += Cover(step & last_tile & (reach == 0))
        return m
