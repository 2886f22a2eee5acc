"""Decision: the flow of a request, and whether it takes effect in this cycle (A7)."""

from amaranth import Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.hdl import Assert, Cover
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts import Flow
from hw.attributes.flows import Effect, Found, Marks
from hw.attributes.formats import FLOW_BITS, AttributeConfig

__all__ = ["Decision"]


class Decision(wiring.Component):
    """Combines the results of a look-up with the state of all that the request needs.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    valid : In(1)
        A request is to be decided.
    hold : In(1)
        No request is decided in this cycle, because an earlier one or a row that has failed changes the state.
    landing : In(1)
        A row has landed; it takes the row store and the response.
    refused : In(1)
        The ID lies outside the graph.
    read : In(1)
        The row is to be read.
    found : In
        `Found`, the results of its look-up.
    marks : In
        `Marks`.
    response_ready, move_ready, fetch_ready : In(1)
        There is room for a response, a move of rows, a row to fetch.
    flow : Out
        `contracts.Flow` of the request.
    effect : Out
        `Effect`.
    waits : Out(1)
        The request needs a row that is under way, and is looked up again.
    stays : Out(1)
        It is decided again in the next cycle.
    search : Out(1)
        A search has to begin.
    """

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__(
            {
                "valid": In(1),
                "hold": In(1),
                "landing": In(1),
                "refused": In(1),
                "read": In(1),
                "found": In(Found(config)),
                "marks": In(Marks),
                "response_ready": In(1),
                "move_ready": In(1),
                "fetch_ready": In(1),
                "flow": Out(FLOW_BITS),
                "effect": Out(Effect),
                "waits": Out(1),
                "stays": Out(1),
                "search": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Decide the flow; then compare what the request needs with what is ready."""
        m = Module()
        found, marks, effect, met = self.found, self.marks, self.effect, self.effect.met
        m.d.comb += [
            met.refused.eq(self.refused),
            met.in_place.eq(~self.refused & found.in_place),
            met.cached.eq(~self.refused & ~found.in_place & found.cached),
            met.moved.eq(~self.refused & ~found.in_place & ~found.cached & found.elsewhere),
            met.missed.eq(~self.refused & ~found.in_place & ~found.cached & ~found.elsewhere),
        ]
        flow: Value = Const(Flow.MISSED, FLOW_BITS)
        for each in (Flow.MOVED, Flow.CACHED, Flow.IN_PLACE, Flow.REFUSED):
            flow = Mux(met[each.name.lower()], each, flow)
        m.d.comb += self.flow.eq(flow)

        # The mark of an address is read one cycle late: a request whose address may be marked is decided again.
        deciding, checked, unsure, conflict, unknown, able = (
            Signal(name=name) for name in ("deciding", "checked", "unsure", "conflict", "unknown", "able")
        )
        displaces = met.missed & found.occupied
        m.d.comb += [
            deciding.eq(self.valid & ~self.hold),
            unsure.eq(met.moved & marks.any & ~checked),
            conflict.eq(marks.target | (met.moved & marks.any & marks.address)),
            unknown.eq(met.missed & found.unlisted),
            effect.moves.eq(met.cached | met.moved | displaces | (met.in_place & self.read)),
            effect.answers.eq(~met.missed),
            able.eq(
                (~effect.answers | self.response_ready)
                & (~effect.moves | self.move_ready)
                & (~met.missed | self.fetch_ready)
                & (~displaces | found.room)
                & ~unsure
            ),
            self.waits.eq(deciding & ~met.refused & ~unsure & conflict),
            effect.commits.eq(deciding & (met.refused | ~conflict) & ~unknown & ~self.landing & able),
            effect.change.eq(effect.commits & (met.cached | met.moved | met.missed)),
            self.stays.eq(deciding & ~effect.commits & ~self.waits),
            self.search.eq(deciding & unknown & ~conflict),
        ]
        m.d.sync += checked.eq(self.stays)
        m.d.sync += [
            Assert(
                ~self.valid | self.refused | ~found.cached | ~(found.in_place | found.elsewhere),
                "an ID is in both levels",
            ),
            Cover(self.waits, "a request waits for a row on its way"),
        ]
        return m
