"""Adjacency on the chip: lines of edges, a copy for every two engines."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.config import LocatorConfig
from hw.locator.formats import Line

__all__ = ["READERS", "AdjacencyStore", "LineWrite"]

#: Engines that read a copy: a block RAM has two sides, one of which writes as well.
READERS = 2


class LineWrite(data.StructLayout):
    """A ``line`` to write at an ``address``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"address": config.line_bits, "line": Line(config)})


class AdjacencyStore(wiring.Component):
    """Keeps the array of edges; every engine reads a line a cycle, and none waits for another one.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    requests
        Line addresses, one stream for each engine; always ready.
    lines
        Line for each engine, in the cycle after its request.
    write
        Lines to store, while no engine requests any.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "requests": In(stream.Signature(config.line_bits)).array(config.engines),
                "lines": Out(stream.Signature(Line(config), always_ready=True)).array(config.engines),
                "write": In(stream.Signature(LineWrite(config), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Let the first engine's side of a copy write, too."""
        m = Module()
        config, written = self.config, self.write
        for first in range(0, config.engines, READERS):
            copy = memory.Memory(shape=Line(config), depth=1 << config.line_bits, init=[], attrs=dict(NO_BYPASS))
            m.submodules[f"copy{first // READERS}"] = copy
            write = copy.write_port()
            # The same signal for both, so that they share a side of the block RAM.
            shared = Signal(config.line_bits, name=f"shared{first}")
            m.d.comb += [
                shared.eq(Mux(written.valid, written.payload.address, self.requests[first].payload)),
                write.addr.eq(shared),
                write.en.eq(written.valid),
                write.data.eq(written.payload.line),
            ]
            for n in range(first, min(first + READERS, config.engines)):
                request, line = self.requests[n], self.lines[n]
                read = registered_read(m, copy, f"read{n}")
                m.d.comb += [
                    request.ready.eq(1),
                    read.addr.eq(shared if n == first else request.payload),
                    line.payload.eq(read.data),
                ]
                m.d.sync += line.valid.eq(request.valid)
        return m
