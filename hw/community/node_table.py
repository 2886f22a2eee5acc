"""Node table: offsets of features and scales of all vertices, kept on the chip during a layer."""

from amaranth.hdl import Array, Cover, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import SCALE
from hw.block_memory import NO_BYPASS, registered_read
from hw.contracts import struct
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeSplitter

__all__ = ["ARRAYS", "Lookup", "NodeTable"]

#: Arrays of the table: first entry of a vertex's features, s_src, s_dst.
ARRAYS = ("offsets", "source", "destination")
_WORD = 32
#: Bursts under way, enough for a latency of 128 cycles. All of the table's would keep weights waiting behind them.
_BURSTS = 8

#: Entry of a vertex.
Lookup = data.StructLayout({"offset": _WORD, "source": struct(SCALE), "destination": struct(SCALE)})


class NodeTable(wiring.Component):
    """Reads three arrays of words, a beat a cycle, then answers look-ups; not while it is busy.

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
        Read the missing arrays; only while not busy.
    forget : In(1)
        Invalidate all arrays: the memory may have changed, or a read may have failed.
    addresses : In
        Start of each of the `ARRAYS`, in words, aligned to a beat.
    words : In
        Their lengths, at most those of all vertices; an array of length 0 is left unchanged.
    busy : Out(1)
        Arrays are being read.
    vertex, found
        A vertex, and in the next cycle its entry.
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
                "busy": Out(1),
                "vertex": In(range(2 * nodes)).array(ports),
                "found": Out(Lookup).array(ports),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Store whole beats; select a word of a beat after the read."""
        m = Module()
        m.submodules.splitter = splitter = self._splitter
        under_way = Signal(range(_BURSTS + 1))
        m.d.comb += [
            self.request.payload.eq(splitter.request.payload),
            self.request.valid.eq(splitter.request.valid & (under_way != _BURSTS)),
            splitter.request.ready.eq(self.request.ready & (under_way != _BURSTS)),
        ]
        m.d.sync += under_way.eq(
            under_way + (self.request.valid & self.request.ready) - (self.beat.valid & self.beat.payload.last)
        )
        words = self.data_width // _WORD
        beat_bits = exact_log2(words)
        # Only the array of offsets has an entry more than there are vertices.
        depth, place = self.nodes // words, Signal(range(self.nodes // words + 1))
        # Arrays to request, and those with outstanding beats; both in order.
        to_ask, to_come = Signal(len(ARRAYS)), Signal(len(ARRAYS))
        asking, coming = Signal(range(len(ARRAYS))), Signal(range(len(ARRAYS)))
        for n in reversed(range(len(ARRAYS))):
            with m.If(to_ask[n]):
                m.d.comb += asking.eq(n)
            with m.If(to_come[n]):
                m.d.comb += coming.eq(n)
        final = Signal.like(place)
        m.d.comb += [
            splitter.i.payload.address.eq(Array(self.addresses)[asking]),
            splitter.i.payload.words.eq(Array(self.words)[asking]),
            splitter.i.valid.eq(to_ask.any()),
            splitter.part.ready.eq(1),
            final.eq((Array(self.words)[coming] - 1) >> beat_bits),
            self.busy.eq(to_come.any()),
        ]
        with m.If(splitter.i.valid & splitter.i.ready):
            m.d.sync += to_ask.eq(to_ask & ~(1 << asking))
        # Every beat has its place in the table, so none needs a queue.
        comes, beat = self.beat.valid, self.beat.payload
        with m.If(comes):
            m.d.sync += place.eq(place + 1)
            with m.If(place == final):
                m.d.sync += [place.eq(0), to_come.eq(to_come & ~(1 << coming))]
        there, missing, asked = Signal(len(ARRAYS)), Signal(len(ARRAYS)), Signal(len(ARRAYS))
        # One array is both scales: it is read for the first and also written for the second.
        source, destination = ARRAYS.index("source"), ARRAYS.index("destination")
        both, for_both = Signal(), Signal()
        m.d.comb += [
            both.eq(
                missing[source]
                & missing[destination]
                & (self.addresses[source] == self.addresses[destination])
                & (self.words[source] == self.words[destination])
            ),
            asked.eq(missing & ~(both << destination)),
        ]
        for n in range(len(ARRAYS)):
            # The beats of the array.
            wanted = self.addresses[n][beat_bits:]
            address, words_there = Signal.like(wanted), Signal.like(self.words[n])
            same = there[n] & (address == wanted) & (words_there == self.words[n])
            m.d.comb += missing[n].eq((self.words[n] != 0) & ~same)
            with m.If(self.start & missing[n]):
                m.d.sync += [there[n].eq(1), address.eq(wanted), words_there.eq(self.words[n])]
        with m.If(self.start):
            m.d.sync += [to_ask.eq(asked), to_come.eq(asked), for_both.eq(both)]
        with m.If(self.forget):
            m.d.sync += there.eq(0)

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
            wanted = coming == number
            if number == destination:
                wanted |= for_both & (coming == source)
            m.d.comb += [
                write.en.eq(comes & wanted & ~place[-1]),
                # Nothing is looked up while arrays are read, so the first look-up shares its port with the beats.
                write.addr.eq(Mux(self.busy, place, rows[0])),
                write.data.eq(beat.data),
            ]
            for port in range(self.ports):
                read = registered_read(m, kept, f"{name}_{port}")
                m.d.comb += read.addr.eq(write.addr if port == 0 else rows[port])
                field = "offset" if name == "offsets" else name
                m.d.comb += self.found[port][field].eq(read.data[low[port]])
        for port, vertex in enumerate(self.vertex):
            m.d.sync += [low[port].eq(vertex), is_behind[port].eq(vertex[-1])]
            with m.If(is_behind[port]):
                m.d.comb += self.found[port].offset.eq(behind)
        m.d.sync += [
            Cover(comes & (place != final), "an array of several beats"),
            Cover(self.start & there.all(), "every array may be there"),
            Cover(self.start & both, "one array is both scales"),
        ]
        return m
