"""Shared reader: one reader of word ranges that serves one of several units at a time."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest, Word
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser

__all__ = ["SharedReader"]


class SharedReader(wiring.Component):
    """Reads for the client that is selected.

    Parameters
    ----------
    clients
        Number of clients, at least 2.
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Most beats requested or waiting.

    Attributes
    ----------
    select : In
        Client that is served; changes only when all requested beats have arrived.
    asks : streams of `RangeRequest`
    o : streams of `Word`
    request, beat
        A client's end of the read arbiter.

    Raises
    ------
    ValueError
        If there are fewer than 2 clients.
    """

    def __init__(self, clients: int, address_width: int = 32, data_width: int = 256, depth: int = 64) -> None:
        if clients < 2:
            raise ValueError(f"clients must be at least 2, not {clients!r}")
        self.clients, self.address_width, self.data_width, self.depth = clients, address_width, data_width, depth
        super().__init__(
            {
                "select": In(range(clients)),
                "asks": In(stream.Signature(RangeRequest(address_width))).array(clients),
                "o": Out(stream.Signature(Word())).array(clients),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the reader to the selected client."""
        m = Module()
        m.submodules.reader = reader = RangeReader(self.address_width, self.data_width, self.depth)
        m.submodules.serialiser = serialiser = WordSerialiser(self.data_width)
        connect(m, reader.o, serialiser.i)
        source = serialiser.o
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        for n in range(self.clients):
            m.d.comb += self.o[n].payload.eq(source.payload)
            with m.If(self.select == n):
                m.d.comb += [
                    reader.i.valid.eq(self.asks[n].valid),
                    reader.i.payload.eq(self.asks[n].payload),
                    self.asks[n].ready.eq(reader.i.ready),
                    self.o[n].valid.eq(source.valid),
                    source.ready.eq(self.o[n].ready),
                ]
        return m
