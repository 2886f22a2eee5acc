"""Node table: offsets of features and scales of all vertices, kept on the chip during a layer."""

from typing import NamedTuple, Self

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from contracts import SCALE
from hw.block_memory import NO_BYPASS, registered_read
from hw.contracts import struct
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeSplitter
from hw.stream.slice import Slice

__all__ = ["ARRAYS", "Lookup", "NodeTable"]

#: Arrays of the table: first entry of a vertex's features, s_src, s_dst.
ARRAYS = ("offsets", "source", "destination")
_WORD = 32
#: Bursts under way, enough for a latency of 128 cycles. All of the table's would keep weights waiting behind them.
_BURSTS = 8

#: Entry of a vertex.
Lookup = data.StructLayout({"offset": _WORD, "source": struct(SCALE), "destination": struct(SCALE)})


class _Array(NamedTuple):
    """Where an array is from: its first beat, and its words."""

    begin: Signal
    words: Signal


class _Part(NamedTuple):
    """A part of an array: which one, whether it is its rest, and its bit among all parts."""

    array: Signal
    rest: Signal
    bit: Signal

    @classmethod
    def lowest(cls, m: Module, name: str, parts: Signal) -> Self:
        """Return the first of `parts`."""
        count = len(ARRAYS)
        part = cls(Signal(range(count), name=f"{name}_array"), Signal(name=f"{name}_rest"), Signal.like(parts))
        m.d.comb += part.bit.eq(parts & -parts)
        for n in range(len(parts)):
            with m.If(part.bit[n]):
                m.d.comb += [part.array.eq(n % count), part.rest.eq(n // count)]
        return part


class NodeTable(wiring.Component):
    """Reads three arrays of words, a beat a cycle, then answers look-ups; not while it is busy.

    The entries of some vertices come first, and are looked up while those of the others are read.

    An array kept from the previous layer is not read again, and one that serves as both scales is read once.

    Parameters
    ----------
    nodes
        Capacity in vertices, a power of two, of at least two beats of scales.
    address_width, data_width
        Of the memory port, in bits.
    ports
        Simultaneous look-ups, at least 1.

    Attributes
    ----------
    start : In(1)
        Read the missing arrays, once those before have been read; only while not busy.
    forget : In(1)
        Invalidate all arrays: the memory may have changed, or a read may have failed.
    addresses : In
        Start of each of the `ARRAYS`, in words, aligned to a beat.
    words : In
        Their lengths, at most those of all vertices; an array of length 0 is left unchanged.
    first : In
        Number of the vertices whose entries come first; 0: all come first. Constant, like `addresses` and `words`,
        in the cycle of `start` and while `busy`.
    busy, reading : Out(1)
        Entries of these vertices, of any vertices, are being read.
    vertex, found
        A vertex whose entry is there, and in the next cycle the entry.
    request, beat
        Port of the read arbiter.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, nodes: int, address_width: int = 32, data_width: int = 256, ports: int = 2) -> None:
        if nodes < 2 * data_width // _WORD or nodes & (nodes - 1):
            raise ValueError(f"nodes must be a power of two from {2 * data_width // _WORD}, not {nodes!r}")
        if ports < 1:
            raise ValueError(f"ports must be at least 1, not {ports!r}")
        self.nodes, self.data_width, self.ports = nodes, data_width, ports
        self._splitter = RangeSplitter(address_width, data_width)
        request = RangeRequest(address_width)
        super().__init__(
            {
                "start": In(1),
                "forget": In(1),
                "addresses": In(request["address"].shape).array(len(ARRAYS)),
                "words": In(range(2 * nodes)).array(len(ARRAYS)),
                "first": In(range(2 * nodes)),
                "busy": Out(1),
                "reading": Out(1),
                "vertex": In(range(2 * nodes)).array(ports),
                "found": Out(Lookup).array(ports),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Store whole beats; select a word of a beat after the read."""
        m = Module()
        words = self.data_width // _WORD
        beat_bits = exact_log2(words)
        # Only the array of offsets has an entry more than there are vertices.
        depth, place = self.nodes // words, Signal(range(self.nodes // words + 1))
        begins, for_both = Signal(), Signal()
        arrays, wanted = self._missing(m, begins, for_both)
        coming = self._read(m, arrays, wanted, begins, place)
        # Every beat has its place in the table, so none needs a queue.
        comes, beat = self.beat.valid, self.beat.payload

        low = [Signal(beat_bits, name=f"low_{port}") for port in range(self.ports)]
        rows = [vertex >> beat_bits for vertex in self.vertex]
        # The offset behind that of the last vertex.
        behind, is_behind = Signal(_WORD, reset_less=True), Signal(self.ports)
        with m.If(comes & (coming == ARRAYS.index("offsets")) & place[-1]):
            m.d.sync += behind.eq(beat.data[:_WORD])
        for number, name in enumerate(ARRAYS):
            m.submodules[name] = kept = memory.Memory(
                shape=data.ArrayLayout(_WORD, words), depth=depth, init=[], attrs=dict(NO_BYPASS)
            )
            write = kept.write_port()
            mine = coming == number
            if name == "destination":
                mine |= for_both & (coming == ARRAYS.index("source"))
            m.d.comb += [
                write.en.eq(comes & mine & ~place[-1]),
                write.addr.eq(place),
                write.data.eq(beat.data),
            ]
            for port in range(self.ports):
                read = registered_read(m, kept, f"{name}_{port}")
                m.d.comb += read.addr.eq(rows[port])
                field = "offset" if name == "offsets" else name
                m.d.comb += self.found[port][field].eq(read.data[low[port]])
        for port, vertex in enumerate(self.vertex):
            m.d.sync += [low[port].eq(vertex), is_behind[port].eq(vertex[-1])]
            with m.If(is_behind[port]):
                m.d.comb += self.found[port].offset.eq(behind)
        return m

    def _missing(self, m: Module, begins: Value, for_both: Signal) -> tuple[list[_Array], Signal]:
        """Note what is in the table; return where its arrays are from, and those to be read.

        One array that is both scales is read for s_src, and also written as s_dst (`for_both`).
        """
        beat_bits, count = exact_log2(self.data_width // _WORD), len(ARRAYS)
        there, missing, both = Signal(count), Signal(count), Signal()
        arrays = []
        for n, name in enumerate(ARRAYS):
            # The beats of the array.
            wanted = self.addresses[n][beat_bits:]
            begin, words = Signal.like(wanted, name=f"{name}_begin"), Signal.like(self.words[n], name=f"{name}_words")
            same = there[n] & (begin == wanted) & (words == self.words[n])
            m.d.comb += missing[n].eq((self.words[n] != 0) & ~same)
            with m.If(begins & missing[n]):
                m.d.sync += [there[n].eq(1), begin.eq(wanted), words.eq(self.words[n])]
            arrays.append(_Array(begin, words))
        source, destination = ARRAYS.index("source"), ARRAYS.index("destination")
        m.d.comb += both.eq(
            missing[source]
            & missing[destination]
            & (self.addresses[source] == self.addresses[destination])
            & (self.words[source] == self.words[destination])
        )
        with m.If(begins):
            m.d.sync += for_both.eq(both)
        with m.If(self.forget):
            m.d.sync += there.eq(0)
        m.d.sync += [
            Cover(self.start & there.all(), "every array may be there"),
            Cover(self.start & both, "one array is both scales"),
        ]
        return arrays, (missing & ~(both << destination))[:count]

    def _read(self, m: Module, arrays: list[_Array], wanted: Value, begins: Signal, place: Signal) -> Signal:
        """Read of each array what comes first, then of each the rest; return whose beat comes next, for `place`."""
        m.submodules.splitter = splitter = self._splitter
        m.submodules.ranges = ranges = Slice(splitter.i.payload.shape())
        connect(m, ranges.o, splitter.i)
        comes, beat_bits, count = self.beat.valid, exact_log2(self.data_width // _WORD), len(ARRAYS)
        under_way = Signal(range(_BURSTS + 1))
        m.d.comb += [
            self.request.payload.eq(splitter.request.payload),
            self.request.valid.eq(splitter.request.valid & (under_way != _BURSTS)),
            splitter.request.ready.eq(self.request.ready & (under_way != _BURSTS)),
        ]
        m.d.sync += under_way.eq(
            under_way + (self.request.valid & self.request.ready) - (comes & self.beat.payload.last)
        )
        # Parts to request, and those with outstanding beats; both in order: first parts, then rests.
        to_ask, to_come = Signal(2 * count), Signal(2 * count)
        asking, coming = _Part.lowest(m, "asking", to_ask), _Part.lowest(m, "coming", to_come)
        # The beat in which rests begin. An array that ends before has none.
        split, after = Signal(range(2 * self.nodes)), Signal(range(2 * self.nodes))
        m.d.comb += after.eq(Mux(self.first == 0, ~0, (self.first >> beat_bits) + 1))
        asked, waits = Array(arrays)[asking.array], Signal()
        # The last beat of each part, which is there before the first beat is: that is only asked for meanwhile.
        lasts = [Signal.like(place, name=f"last_{n}", reset_less=True) for n in range(2 * count)]
        for n, array in enumerate(arrays):
            whole = _last_beat(array.words, beat_bits)
            m.d.sync += [lasts[n].eq(_least(whole, split - 1)), lasts[n + count].eq(whole)]
        m.d.comb += [
            begins.eq((self.start | waits) & ~self.reading),
            ranges.i.payload.address.eq((asked.begin + Mux(asking.rest, split, 0)) << beat_bits),
            ranges.i.payload.words.eq(
                Mux(asking.rest, asked.words - (split << beat_bits), _least(asked.words, split << beat_bits))
            ),
            ranges.i.valid.eq(to_ask.any()),
            splitter.part.ready.eq(1),
            self.busy.eq(waits | to_come[:count].any()),
            self.reading.eq(to_come.any()),
        ]
        m.d.sync += waits.eq((self.start | waits) & self.reading)
        with m.If(ranges.i.valid & ranges.i.ready):
            m.d.sync += to_ask.eq(to_ask & ~asking.bit)
        ends, left = Signal(), to_come & ~coming.bit
        final = Signal.like(place)
        m.d.comb += ends.eq(place == final)
        for n, last in enumerate(lasts):
            with m.If(coming.bit[n]):
                m.d.comb += final.eq(last)
        with m.If(comes):
            m.d.sync += place.eq(place + 1)
            with m.If(ends):
                m.d.sync += [to_come.eq(left), place.eq(Mux(left[:count].any(), 0, split))]
        with m.If(begins):
            parts = Cat(wanted, *(wanted[n] & (_last_beat(self.words[n], beat_bits) >= after) for n in range(count)))
            m.d.sync += [to_ask.eq(parts), to_come.eq(parts), split.eq(after), place.eq(0)]
        m.d.sync += [
            Cover(comes & ~ends, "an array of several beats"),
            Cover(comes & coming.rest, "the rest of an array"),
            Cover(self.start & self.reading, "arrays wait for the rest of those before"),
        ]
        return coming.array


def _last_beat(words: Value, beat_bits: int) -> Value:
    """Return the last beat of an array that is not empty."""
    return (words - 1) >> beat_bits


def _least(one: Value, other: Value) -> Value:
    return Mux(one < other, one, other)
