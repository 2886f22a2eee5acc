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
#: Words of nine bits in a block RAM, the shape that Yosys prefers: deeper memories are several behind a choice.
_DEEP = 2048


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
        for n, (request, line) in enumerate(zip(self.requests, self.lines, strict=True)):
            m.d.comb += request.ready.eq(1)
            m.d.sync += line.valid.eq(request.valid)
            if n % READERS == 0:
                # The same signal for both, so that they share a side of the block RAM.
                shared = Signal(config.line_bits, name=f"shared{n}")
                m.d.comb += shared.eq(Mux(written.valid, written.payload.address, request.payload))
                self._copy(m, n, shared)
        return m

    def _copy(self, m: Module, first: int, shared: Signal) -> None:
        """Keep all lines once more, in one memory, or an edge in each.

        Of many whole lines Yosys would make memories of `_DEEP` words behind a choice: of 8,192 lines of eight edges
        104 block RAMs with 1,822 LUTs, and of their edges 112 with 26.
        """
        config, written, depth = self.config, self.write.payload.line, 1 << self.config.line_bits
        step = 1 if depth > _DEEP else config.line_words
        shape = data.StructLayout({"names": data.ArrayLayout(config.node_bits, step), "remote": step})
        for place in range(0, config.line_words, step):
            copy = memory.Memory(shape=shape, depth=depth, init=[], attrs=dict(NO_BYPASS))
            m.submodules[f"copy{first // READERS}_{place}"] = copy
            write = copy.write_port()
            m.d.comb += [
                write.addr.eq(shared),
                write.en.eq(self.write.valid),
                write.data.remote.eq(written.remote[place : place + step]),
                *(write.data.names[edge].eq(written.names[place + edge]) for edge in range(step)),
            ]
            for n in range(first, min(first + READERS, config.engines)):
                line, read = self.lines[n].payload, registered_read(m, copy, f"read{n}_{place}")
                m.d.comb += [
                    read.addr.eq(shared if n == first else self.requests[n].payload),
                    line.remote[place : place + step].eq(read.data.remote),
                    *(line.names[place + edge].eq(read.data.names[edge]) for edge in range(step)),
                ]
