"""Adjacency off the chip: lines of edges are read through the memory port when engines ask for them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Line, Settings, name_line
from hw.memory.formats import ReadBeat, ReadRequest, beat_address_width
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue

__all__ = ["AdjacencyPort"]


class AdjacencyPort(wiring.Component):
    """Sends the engines' requests to the memory in turn, one a cycle, and returns each line to its requester, in order.

    Engines request only lines that they have room for, so a returning line never stalls.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    base
        Address of the first line, in beats.
    settings
        Of the round.
    requests, lines
        As in `hw.locator.adjacency_store.AdjacencyStore`, but with any latency.
    request, beat
        Port of the read arbiter.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        widths = (config.address_width, config.data_width)
        super().__init__(
            {
                "base": In(beat_address_width(*widths)),
                "settings": In(Settings(config)),
                "requests": In(stream.Signature(config.line_bits)).array(config.engines),
                "lines": Out(stream.Signature(Line(config), always_ready=True)).array(config.engines),
                "request": Out(stream.Signature(ReadRequest(*widths))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the requesters in a queue until their lines arrive."""
        m = Module()
        config = self.config
        address, source = Signal(config.line_bits), Signal(range(max(2, config.engines)))
        valid, ready = Signal(), Signal()
        if config.engines == 1:
            m.d.comb += [
                address.eq(self.requests[0].payload),
                valid.eq(self.requests[0].valid),
                self.requests[0].ready.eq(ready),
            ]
        else:
            m.submodules.arbiter = arbiter = Arbiter(config.line_bits, config.engines)
            for request, port in zip(self.requests, arbiter.i, strict=True):
                m.d.comb += [
                    port.payload.eq(request.payload),
                    port.valid.eq(request.valid),
                    request.ready.eq(port.ready),
                ]
            m.d.comb += [
                address.eq(arbiter.o.payload.payload),
                source.eq(arbiter.o.payload.source),
                valid.eq(arbiter.o.valid),
                arbiter.o.ready.eq(ready),
            ]
        m.submodules.order = order = Queue(source.shape(), config.lines_asked, storage="distributed")
        m.d.comb += [
            self.request.valid.eq(valid & order.i.ready),
            self.request.payload.address.eq(self.base + address),
            self.request.payload.length.eq(0),
            ready.eq(self.request.ready & order.i.ready),
            order.i.valid.eq(valid & self.request.ready),
            order.i.payload.eq(source),
            order.o.ready.eq(self.beat.valid),
        ]
        came, settings = Signal(Line(config)), self.settings
        m.d.comb += name_line(came, self.beat.payload.data, settings.first, settings.vertices)
        for n, line in enumerate(self.lines):
            m.d.comb += [line.valid.eq(self.beat.valid & (order.o.payload == n)), line.payload.eq(came)]
        return m
