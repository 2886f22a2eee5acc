# mypy: disable-error-code="attr-defined,index"
"""Edge collector: one stream of all that an array gives its host (D6, D7, D10)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from contracts.dnp.board import BEAT, BeatKind
from hw.contracts import struct
from hw.dnp.formats import Beat, FrameWord
from hw.dnp.port import WORD_STREAM
from hw.stream.arbiter import Arbiter

__all__ = ["EdgeCollector"]


class EdgeCollector(wiring.Component):
    """The way out of the interface board: results of all edge ports, answers and ends of runs, merged in turn.

    Words of a port stay in order. `end` comes when no result waits any more, so it is the last word of its run.

    Parameters
    ----------
    edges
        Edge ports.
    bits
        Of the number of results in a packet.

    Attributes
    ----------
    packet : In
        Results after which a packet ends; 0: with the run.
    i : streams of signed(16)
        From the edge ports; ``ready`` is a register.
    answer : stream of `FrameWord`
        Words that were read over the G-bus.
    end : stream of unsigned(1)
        A run has ended.
    o : stream of `Beat`
    given, read : Out(1)
        A result leaves; a word of an answer leaves.
    """

    def __init__(self, edges: int, bits: int = 16) -> None:
        self.edges = edges
        super().__init__(
            {
                "packet": In(bits),
                "i": In(WORD_STREAM).array(edges),
                "answer": In(stream.Signature(FrameWord())),
                "end": In(stream.Signature(unsigned(1))),
                "o": Out(stream.Signature(Beat())),
                "given": Out(1),
                "read": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Merge all that leaves; say for each word where it comes from and whether a packet ends."""
        m = Module()
        edges = self.edges
        m.submodules.arbiter = arbiter = Arbiter(FrameWord(), edges + 2)
        for number, edge in enumerate(self.i):
            into = arbiter.i[number]
            m.d.comb += [into.valid.eq(edge.valid), into.payload.word.eq(edge.payload), edge.ready.eq(into.ready)]
        connect(m, wiring.flipped(self.answer), arbiter.i[edges])
        into = arbiter.i[edges + 1]
        m.d.comb += [
            into.valid.eq(self.end.valid),
            into.payload.word.eq(self.end.payload),
            into.payload.last.eq(1),
            self.end.ready.eq(into.ready),
        ]
        source, found = arbiter.o.payload.source, arbiter.o.payload.payload
        beat = data.View(struct(BEAT), self.o.payload.beat)
        result, leaves, full = Signal(), Signal(), Signal()
        count = Signal.like(self.packet)  # results of the packet under way
        m.d.comb += [
            result.eq(source < edges),
            leaves.eq(arbiter.o.valid & arbiter.o.ready),
            full.eq(result & (count + 1 == self.packet)),
            beat.word.eq(found.word),
            beat.port.eq(Mux(result, source, 0)),
            beat.kind.eq(Mux(result, BeatKind.EDGE, Mux(source == edges, BeatKind.G_BUS, BeatKind.END))),
            self.o.payload.last.eq(found.last | full),
            self.o.valid.eq(arbiter.o.valid),
            arbiter.o.ready.eq(self.o.ready),
            self.given.eq(leaves & result),
            self.read.eq(leaves & (source == edges)),
        ]
        with m.If(leaves & (result | (source == edges + 1))):
            m.d.sync += count.eq(Mux(self.o.payload.last, 0, count + 1))
        return m
