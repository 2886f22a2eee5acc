"""Remote array: finds the vertices of a chiplet that must travel, and how far (R3, R5, R6)."""

from functools import reduce
from typing import Any

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES, RangeBeat
from hw.ring.formats import POSITION_BITS
from hw.stream.slice import Slice

__all__ = ["Departure", "RemoteArray"]

_WORD = 8 * WORD_BYTES
#: Cycles until an error has been told: nobody may take the rows for sent before.
_TOLD = 3
#: An entry: a vertex and the chiplet where it leaves the ring.
Departure = data.StructLayout({"vid": 32, "destination": POSITION_BITS})


class RemoteArray(wiring.Component):
    """Finds departures in the tiled offsets of the out-edges, a row in a cycle for each beat that it lies in.

    A tile that is not empty is a chiplet that needs the vertex; the vertex leaves the ring at the one with the most
    hops. Entries are made as fast as they are used, so the array is never stored.

    Parameters
    ----------
    data_width
        Bits of a beat.

    Attributes
    ----------
    start : In(1)
        The next word is the first offset.
    position, chiplets : In
        Position of this chiplet on the ring; number of chiplets, which is that of tiles.
    first_vertex : In(32)
        VID of the first row.
    i : stream of `RangeBeat`
        ``vertices * chiplets + 1`` offsets.
    o : stream of `Departure`
        Ascending VIDs, each once.
    done : Out(1)
        The last offset has been used and all entries have been taken.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER`` with the row; from it on no vertex travels.
    """

    def __init__(self, data_width: int = 256) -> None:
        self.words = data_width // _WORD
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
        """Take the words of a beat that belong to the row in turn, at once."""
        m = Module()
        m.submodules.taken = taken = Slice(self.i.payload.shape())
        m.submodules.out = out = Slice(Departure)
        connect(m, flipped(self.i), taken.i)
        connect(m, out.o, flipped(self.o))
        beat, words = taken.o.payload, self.words
        values = [beat.data.word_select(n, _WORD) for n in range(words)]
        # The first offset begins the first row and ends none. `at`: first word of the beat that has not been used.
        primed, ended, at, carried = Signal(), Signal(_TOLD), Signal(range(words + 1)), Signal(_WORD)
        row, tile, farthest, fell = Signal(32), Signal(range(16)), Signal(range(16)), Signal()
        first, end = _bounds(m, beat.mask)
        begin, stop, left, count = (Signal(range(2 * words + 16), name=n) for n in ("begin", "stop", "left", "count"))
        rest = Signal.like(begin)
        m.d.comb += [
            begin.eq(Mux(primed, at, first + 1)),
            left.eq(self.chiplets - tile),
            rest.eq(Mux(beat.mask.any(), end - begin, 0)),
            count.eq(Mux(rest < left, rest, left)),
            stop.eq(begin + count),
        ]
        used = Cat((begin <= n) & (n < stop) for n in range(words))
        before = [carried, *values[:-1]]
        falls = Cat(value < last for value, last in zip(values, before, strict=True)) & used
        hops = self._hops(m, tile, begin)
        wanted = [Mux(used[n] & (values[n] > before[n]), hop, 0) for n, hop in enumerate(hops)]
        reach, row_end, sends, sum_ = Signal(range(16)), Signal(), Signal(), Signal(range(2 * 16))
        m.d.comb += [
            reach.eq(reduce(lambda one, other: _larger(m, one, other), [farthest, *wanted])),
            row_end.eq((count == left) & (count != 0)),
            sends.eq(row_end & (reach != 0) & ~fell & ~falls.any()),
            sum_.eq(self.position + reach),
            out.i.valid.eq(taken.o.valid & sends),
            out.i.payload.vid.eq(self.first_vertex + row),
            out.i.payload.destination.eq(Mux(sum_ >= self.chiplets, sum_ - self.chiplets, sum_)),
        ]
        moves, consumed = Signal(), Signal()
        m.d.comb += [
            moves.eq(taken.o.valid & (out.i.ready | ~sends)),
            consumed.eq(moves & (count == rest)),
            taken.o.ready.eq(consumed),
            self.error.valid.eq(moves & falls.any()),
            self.error.payload.code.eq(Error.OFFSET_ORDER),
            self.error.payload.info.eq(row),
            self.done.eq(ended[-1] & ~self.o.valid),
        ]
        m.d.sync += ended[1:].eq(ended[:-1])
        with m.If(moves):
            m.d.sync += [
                primed.eq(1),
                at.eq(Mux(consumed, 0, stop)),
                tile.eq(Mux(row_end, 0, tile + count)),
                row.eq(row + row_end),
                farthest.eq(Mux(row_end, 0, reach)),
                fell.eq(fell | falls.any()),
            ]
        with m.If(consumed):
            m.d.sync += [carried.eq(values[-1]), ended[0].eq(beat.last)]
        with m.If(self.start):
            m.d.sync += [primed.eq(0), ended.eq(0), at.eq(0), row.eq(0), tile.eq(0), farthest.eq(0), fell.eq(0)]
        m.d.sync += [
            Cover(moves & row_end & (reach == 0), "nobody needs a vertex"),
            Cover(moves & ~consumed, "a beat with more than one row"),
            Cover(moves & (count != 0) & ~row_end, "a row of more than one beat"),
        ]
        return m

    def _hops(self, m: Module, tile: Value, begin: Value) -> list[Signal]:
        """Return the hops to the tile of each word of the beat, if the word at `begin` is that of `tile`."""
        hops = []
        for n in range(self.words):
            apart, hop = Signal(range(-32, 32), name=f"apart_{n}"), Signal(range(16), name=f"hop_{n}")
            m.d.comb += [
                apart.eq(tile + n - begin - self.position),
                hop.eq(Mux(apart[-1], apart + self.chiplets, apart)),
            ]
            hops.append(hop)
        return hops


def _larger(m: Module, one: Any, other: Any) -> Signal:
    """Return the larger of two numbers of hops."""
    larger = Signal(range(16))
    m.d.comb += larger.eq(Mux(one < other, other, one))
    return larger


def _bounds(m: Module, mask: Value) -> tuple[Value, Value]:
    """Return the first word of a mask of neighbours, and the one behind its last."""
    first, end = Signal(range(len(mask))), Signal(range(len(mask) + 1))
    for n in reversed(range(len(mask))):
        with m.If(mask[n]):
            m.d.comb += first.eq(n)
    for n in range(len(mask)):
        with m.If(mask[n]):
            m.d.comb += end.eq(n + 1)
    return first, end
