"""Adjacency on the chip: lines of edges in banks."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.bank_arbiter import BankArbiter
from hw.locator.config import LocatorConfig

__all__ = ["AdjacencyStore", "LineWrite"]


class LineWrite(data.StructLayout):
    """A ``line`` to write at an ``address``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"address": config.line_bits, "line": config.data_width})


class AdjacencyStore(wiring.Component):
    """Keeps the array of edges in banks of lines; every bank serves one engine a cycle.

    Only the bits of an edge that name a vertex are stored; the other bits of a line read as 0.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    requests
        Line addresses, one stream for each engine; ``ready`` depends on all requests of the cycle.
    lines
        Line for each engine, in the cycle after its request was taken.
    write
        Lines to store.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "requests": In(stream.Signature(config.line_bits)).array(config.engines),
                "lines": Out(stream.Signature(config.data_width, always_ready=True)).array(config.engines),
                "write": In(stream.Signature(LineWrite(config), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect banks through the crossbar."""
        m = Module()
        config = self.config
        low = exact_log2(config.line_banks)
        m.submodules.arbiter = arbiter = BankArbiter(config.engines, config.line_banks)
        for n, request in enumerate(self.requests):
            m.d.comb += [
                arbiter.valid[n].eq(request.valid),
                arbiter.bank[n].eq(request.payload[:low]),
                request.ready.eq(arbiter.grant[n]),
            ]
        kept, word_bits = config.node_bits, config.data_width // config.line_words
        written = self.write.payload.line
        names = Cat(written.word_select(n, word_bits)[:kept] for n in range(config.line_words))
        ports = []
        for number, chosen in enumerate(arbiter.chosen):
            depth = (1 << config.line_bits) // config.line_banks
            bank = memory.Memory(shape=kept * config.line_words, depth=depth, init=[])
            m.submodules[f"bank{number}"] = bank
            write, read = bank.write_port(), bank.read_port()
            ports.append(read)
            m.d.comb += [
                read.addr.eq(reduce(or_, (Mux(chosen[n], r.payload[low:], 0) for n, r in enumerate(self.requests)))),
                write.en.eq(self.write.valid & (self.write.payload.address[:low] == number)),
                write.addr.eq(self.write.payload.address[low:]),
                write.data.eq(names),
            ]
        for n, (request, line) in enumerate(zip(self.requests, self.lines, strict=True)):
            asked = Signal(low, name=f"asked{n}")
            m.d.sync += [asked.eq(request.payload[:low]), line.valid.eq(request.valid & request.ready)]
            held = Array(port.data for port in ports)[asked]
            m.d.comb += [
                line.payload.word_select(word, word_bits).eq(held.word_select(word, kept))
                for word in range(config.line_words)
            ]
        return m
