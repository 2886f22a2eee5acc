"""Sweeper: writes the states of a search's vertices when it has ended."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.formats import Operation, Request
from hw.locator.searcher import End
from hw.locator.turns import in_turn, number_of
from hw.stream.slice import Slice

__all__ = ["Sweeper"]


class Sweeper(wiring.Component):
    """Sweeps one search after the other, a vertex for each lane at a time.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    wants, ends, halves, nodes, listed
        Of each search: whether it is to be swept; how it has ended; its half of the buffer; its numbers of nodes and of
        all vertices claimed. The last three are used when it is ``taken``.
    context, half, group, swept
        Read of the record buffer; its data come in the next cycle.
    request, urgent
        Requests of each lane, and whether they have waited for long.
    taken, sweeps
        One bit for each search: it is next; its states are being written.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        searches, count = config.searches, config.list_bits + 1
        super().__init__(
            {
                "wants": In(searches),
                "ends": In(End).array(searches),
                "halves": In(searches),
                "nodes": In(count).array(searches),
                "listed": In(count).array(searches),
                "context": Out(config.context_bits),
                "half": Out(1),
                "group": Out(config.list_bits - exact_log2(config.lanes)),
                "swept": In(config.node_bits).array(config.lanes),
                "request": Out(stream.Signature(Request(config))).array(config.lanes),
                "urgent": Out(1),
                "taken": Out(searches),
                "sweeps": Out(searches),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Select a search, then step through its groups."""
        m = Module()
        config, lanes = self.config, self.config.lanes
        # Vertices come from memory, and a bank that is chosen by them says whether the next ones can.
        cuts = [Slice(Request(config)) for _ in range(lanes)]
        for lane, (cut, request) in enumerate(zip(cuts, self.request, strict=True)):
            m.submodules[f"cut_{lane}"] = cut
            wiring.connect(m, cut.o, wiring.flipped(request))
        waits = Cat(request.valid & ~request.ready for request in self.request).any()
        left = Cat(request.valid for request in self.request).any()
        # All requests of the search have been made; those of the last group are on their way.
        ends = Signal()
        working, context, half, group = Signal(), Signal.like(self.context), Signal(), Signal.like(self.group)
        end, nodes, listed = Signal(End), Signal.like(self.nodes[0]), Signal.like(self.listed[0])
        written, now = Signal(lanes), Signal(lanes)
        chosen = in_turn(m, "turn", self.wants, ~working)
        m.d.comb += [
            working.eq(self.sweeps.any()),
            self.taken.eq(Mux(working, 0, chosen)),
            self.context.eq(context),
            self.half.eq(half),
            self.group.eq(group),
        ]
        m.d.sync += [group.eq(self.group), context.eq(self.context), half.eq(self.half)]
        m.d.sync += written.eq(Mux(working & ~now.all(), now, 0))
        waited = Signal(4)
        m.d.comb += self.urgent.eq(waited[-1])
        m.d.sync += waited.eq(Mux(waits, waited + ~self.urgent, 0))
        with m.If(~working):
            m.d.comb += [
                self.context.eq(number_of(chosen)),
                self.half.eq(self.halves.bit_select(self.context, 1)),
                self.group.eq(0),
            ]
            m.d.sync += [
                self.sweeps.eq(chosen),
                end.eq(Array(self.ends)[self.context]),
                nodes.eq(Array(self.nodes)[self.context]),
                listed.eq(Array(self.listed)[self.context]),
                ends.eq(0),
            ]
        with m.Elif(ends):
            with m.If(~left):
                m.d.sync += self.sweeps.eq(0)
        with m.Elif(now.all()):
            m.d.comb += self.group.eq(group + 1)
            m.d.sync += ends.eq(((group + 1) << exact_log2(lanes)) >= listed)
        for lane, request in enumerate(cut.i for cut in cuts):
            at, exists = Signal(config.list_bits + 1, name=f"at{lane}"), Signal(name=f"exists{lane}")
            m.d.comb += [
                at.eq((group << exact_log2(lanes)) + lane),
                exists.eq(at < listed),
                request.valid.eq(working & ~ends & exists & ~written[lane]),
                now[lane].eq(~exists | written[lane] | request.ready),
                request.payload.node.eq(self.swept[lane]),
            ]
            with m.If(end == End.COMPLETE):
                m.d.comb += request.payload.operation.eq(Operation.FINISH)
            with m.Elif((end == End.MARK) & (at < nodes)):
                m.d.comb += request.payload.operation.eq(Operation.MARK)
            with m.Else():
                m.d.comb += request.payload.operation.eq(Operation.RELEASE)
        m.d.sync += Cover(working & (nodes != listed), "a vertex was claimed late")
        return m
