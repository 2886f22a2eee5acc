"""Design under test: every block of the memory side at one AXI4 port, and how it is run with a memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.fetcher import Fetcher
from hw.memory.formats import RangeBeat, RangeRequest, ReadBeat, ReadRequest, Word, WriteRequest, line_address_width
from hw.memory.range_reader import RangeReader
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.word_serialiser import WordSerialiser
from hw.memory.write_port import WritePort

__all__ = ["CLIENTS", "CONFIGURATIONS", "MemorySide", "configured"]

#: Names of the arbiter's clients, in the order of their IDs.
CLIENTS = ("fetch", "range", "word")


#: A word as the serialiser sends it, and the second word of its pair.
PairedWord = data.StructLayout({**Word().members, "second": 32})


class MemorySide(wiring.Component):
    """A fetcher, a range reader, a range reader with a word serialiser, and a write port.

    Parameters
    ----------
    data_width
        Width of a beat, in bits.
    depth
        Depth of fetchers, in beats.
    outstanding
        Outstanding bursts of a client, and outstanding writes.
    address_width
        Width of byte addresses, in bits.

    Attributes
    ----------
    fetch_i, fetch_o, range_i, range_o, word_i, word_o, write_i
        Streams of the blocks.
    read_failure, write_failure
        Line addresses of failures.
    mark, answered, busy
        Of the write port.
    """

    def __init__(self, data_width: int = 64, depth: int = 16, outstanding: int = 16, address_width: int = 32) -> None:
        self.data_width, self.depth, self.outstanding = data_width, depth, outstanding
        self.address_width = address_width
        line = line_address_width(address_width)
        id_width = 2
        super().__init__(
            {
                "fetch_i": In(stream.Signature(ReadRequest(address_width, data_width))),
                "fetch_o": Out(stream.Signature(ReadBeat(data_width))),
                "range_i": In(stream.Signature(RangeRequest(address_width))),
                "range_o": Out(stream.Signature(RangeBeat(data_width))),
                "word_i": In(stream.Signature(RangeRequest(address_width))),
                "word_o": Out(stream.Signature(PairedWord)),
                "paired": In(1),
                "write_i": In(stream.Signature(WriteRequest(address_width, data_width))),
                "read_failure": Out(stream.Signature(line, always_ready=True)),
                "write_failure": Out(stream.Signature(line, always_ready=True)),
                "mark": In(1),
                "answered": Out(1),
                "busy": Out(1),
                **flat_members("m_axi", Out(AXI4Signature(address_width, data_width, id_width))),
            }
        )
        self.id_width = id_width

    @cached_property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.data_width // 8

    def elaborate(self, platform: object) -> Module:
        """Build the design."""
        m = Module()
        widths: dict[str, Any] = {"address_width": self.address_width, "data_width": self.data_width}
        m.submodules.arbiter = arbiter = ReadArbiter(**widths, clients=len(CLIENTS), outstanding=self.outstanding)
        m.submodules.fetcher = fetcher = Fetcher(**widths, depth=self.depth)
        m.submodules.ranges = ranges = RangeReader(**widths, depth=self.depth)
        m.submodules.words = words = RangeReader(**widths, depth=self.depth)
        m.submodules.serialiser = serialiser = WordSerialiser(self.data_width)
        m.submodules.writer = writer = WritePort(**widths, id_width=self.id_width, outstanding=self.outstanding)
        clients: list[Any] = [fetcher, ranges, words]
        for i, client in enumerate(clients):
            wiring.connect(m, client.request, arbiter.requests[i])
            wiring.connect(m, arbiter.beats[i], client.beat)
        connect_flat(m, self, "m_axi", arbiter.m_axi)
        connect_flat(m, self, "m_axi", writer.m_axi)

        wiring.connect(m, wiring.flipped(self.fetch_i), fetcher.i)
        wiring.connect(m, fetcher.o, wiring.flipped(self.fetch_o))
        wiring.connect(m, wiring.flipped(self.range_i), ranges.i)
        # The data of an empty range mean nothing, and may change while its beat waits.
        m.d.comb += [
            self.range_o.valid.eq(ranges.o.valid),
            ranges.o.ready.eq(self.range_o.ready),
            self.range_o.payload.eq(ranges.o.payload),
        ]
        with m.If(ranges.o.payload.mask == 0):
            m.d.comb += self.range_o.payload.data.eq(0)
        wiring.connect(m, wiring.flipped(self.word_i), words.i)
        wiring.connect(m, words.o, serialiser.i)
        m.d.comb += [
            serialiser.paired.eq(self.paired),
            self.word_o.valid.eq(serialiser.o.valid),
            serialiser.o.ready.eq(self.word_o.ready),
            *(self.word_o.payload[name].eq(field) for name, field in _fields(serialiser.o.payload)),
            self.word_o.payload.second.eq(serialiser.second),
        ]
        wiring.connect(m, wiring.flipped(self.write_i), writer.i)
        m.d.comb += [self.busy.eq(writer.busy), self.answered.eq(writer.answered), writer.mark.eq(self.mark)]
        for name, block in (("read_failure", arbiter), ("write_failure", writer)):
            wiring.connect(m, block.failure, wiring.flipped(getattr(self, name)))
        return m


def _fields(word: Any) -> list[tuple[str, Any]]:
    return [(name, word[name]) for name in Word().members]


#: Designs that all benches of the area run on: narrow and shallow, so that every limit is met, and the machine's.
CONFIGURATIONS: dict[str, Callable[[], MemorySide]] = {
    "narrow": lambda: MemorySide(data_width=64, depth=16, outstanding=4, address_width=18),
    "wide": lambda: MemorySide(data_width=256, depth=128, outstanding=128),
}


def configured(configuration: str) -> MemorySide:
    """Return the design under test by the name of its configuration."""
    return CONFIGURATIONS[configuration]()
