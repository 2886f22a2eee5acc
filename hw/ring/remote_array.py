"""Remote array: finds the vertices of a chiplet that must travel, and how far (R3, R5, R6)."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from hw.graph.csr_reader import ErrorReport
from hw.lowest import next_one
from hw.memory.formats import RangeBeat, Word
from hw.memory.word_serialiser import WordSerialiser
from hw.ring.formats import OWNERS, POSITION_BITS
from hw.stream.slice import Slice

__all__ = ["Departure", "RemoteArray"]

#: Cycles until an error has been told: nobody may take the rows for sent before.
_TOLD = 3
#: Highest position on a ring.
_LAST = OWNERS - 1
#: An entry: a vertex and the chiplet where it leaves the ring.
Departure = data.StructLayout({"vid": 32, "destination": POSITION_BITS})


class RemoteArray(wiring.Component):
    """Finds departures in the tiles into which vertices have out-edges, a vertex a cycle.

    A tile is a chiplet that needs the vertex; the vertex leaves the ring at the one with the most hops. Entries are
    made as fast as they are used, so the array is never stored.

    Parameters
    ----------
    data_width
        Bits of a beat.

    Attributes
    ----------
    start : In(1)
        The next word is that of the first vertex.
    position, chiplets : In
        Position of this chiplet on the ring; number of chiplets, which is that of tiles.
    first_vertex : In(32)
        VID of the first vertex.
    i : stream of `RangeBeat`
        A word a vertex, bit t for tile t.
    o : stream of `Departure`
        Ascending VIDs, each once.
    done : Out(1)
        The last word has been used and all entries have been taken.
    error : stream of `ErrorReport`, always ready
        ``TILE_RANGE`` with the row of a vertex that has edges into a tile of no chiplet; from it on none travels.
    """

    def __init__(self, data_width: int = 256) -> None:
        self.data_width = data_width
        super().__init__(
            {
                "start": In(1),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "first_vertex": In(32),
                "i": In(stream.Signature(RangeBeat(data_width))),
                "o": Out(stream.Signature(Departure)),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Take a word a cycle; that of an empty range is 0, like that of a vertex that stays."""
        m = Module()
        m.submodules.words = words = WordSerialiser(self.data_width)
        m.submodules.taken = taken = Slice(Word())
        m.submodules.out = out = Slice(Departure)
        connect(m, flipped(self.i), words.i)
        connect(m, words.o, taken.i)
        connect(m, out.o, flipped(self.o))
        word, row, failed, ended = taken.o.payload, Signal(32), Signal(), Signal(_TOLD)
        others, outside, sends, moves = Signal(OWNERS), Signal(), Signal(), Signal()
        m.d.comb += [
            others.eq(word.data & ~(1 << self.position)),
            outside.eq((word.data >> self.chiplets).any()),
            sends.eq(others.any() & ~outside & ~failed),
            out.i.valid.eq(taken.o.valid & sends),
            out.i.payload.vid.eq(self.first_vertex + row),
            # Backwards, the farthest chiplet is the next one in turn.
            out.i.payload.destination.eq(_LAST - next_one(others[::-1], _LAST - self.position)),
            moves.eq(taken.o.valid & (out.i.ready | ~sends)),
            taken.o.ready.eq(moves),
            self.error.valid.eq(moves & outside),
            self.error.payload.code.eq(Error.TILE_RANGE),
            self.error.payload.info.eq(row),
            self.done.eq(ended[-1] & ~self.o.valid),
        ]
        m.d.sync += ended[1:].eq(ended[:-1])
        with m.If(moves):
            m.d.sync += [row.eq(row + 1), failed.eq(failed | self.error.valid), ended[0].eq(word.last)]
        with m.If(self.start):
            m.d.sync += [row.eq(0), failed.eq(0), ended.eq(0)]
        m.d.sync += [
            Cover(moves & ~sends & ~word.empty, "a vertex stays"),
            Cover(sends & (out.i.payload.destination < self.position), "a row passes chiplet 0"),
        ]
        return m
