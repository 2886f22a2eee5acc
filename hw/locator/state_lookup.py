"""State look-up: requests the states of a bundle's vertices, one port for each lane, and returns them in order."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Bundle, Operation, Outcome, Owner, Request, Settings

__all__ = ["LookupResult", "StateLookup"]


class LookupResult(data.StructLayout):
    """A ``bundle`` with the ``answers`` about its vertices."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"bundle": Bundle(config), "answers": data.ArrayLayout(Answer(config), config.lanes)})


class StateLookup(wiring.Component):
    """Requests one bundle while up to two others wait for their answers or to be taken.

    A lane whose bank is busy does not hold up the others of its bundle. Vertices of other chiplets are hubs and
    are not looked up.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    i
        Bundles; an offered bundle stays until it is taken. ``ready`` depends on grants of the same cycle.
    claim, owner
        Whether free vertices are claimed, and the owner; belongs to ``i``.
    request, answer
        Requests of each lane to the state store, and answers in the cycle after the request was taken.
    o, ahead
        Bundles with their answers, two cycles after ``i`` at the earliest; depends on answers of the same cycle.
        Vertices of the bundle that may be offered next; depends on ``o.ready`` and ``i``.
    holding
        Part of the bundle at ``i`` has been requested.
    busy
        A bundle has been taken and not yet emitted.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "i": In(stream.Signature(Bundle(config))),
                "claim": In(1),
                "owner": In(Owner(config)),
                "request": Out(stream.Signature(Request(config))).array(config.lanes),
                "answer": In(Answer(config)).array(config.lanes),
                "o": Out(stream.Signature(LookupResult(config))),
                "ahead": Out(config.node_bits).array(config.lanes),
                "holding": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill two slots in turn."""
        m = Module()
        config, settings = self.config, self.settings
        lanes = range(config.lanes)
        slots = [Signal(LookupResult(config), name=f"slot{n}", reset_less=True) for n in range(2)]
        occupied, fills, takes = Signal(2), Signal(), Signal()

        granted, need, got = (Signal(config.lanes, name=n) for n in ("granted", "need", "got"))
        room, ends = Signal(), Signal()
        bundle = self.i.payload
        m.d.comb += [
            room.eq(~occupied.bit_select(fills, 1)),
            need.eq(bundle.mask & ~bundle.remote & ~granted),
            ends.eq(self.i.valid & room & ((need & ~got) == 0)),
            self.i.ready.eq(ends),
            self.holding.eq(granted.any()),
            self.busy.eq(occupied.any()),
        ]
        for lane in lanes:
            request, local = self.request[lane], Signal(config.node_bits, name=f"local{lane}")
            m.d.comb += [
                local.eq(bundle.vertices[lane] - settings.first),
                request.valid.eq(self.i.valid & room & need[lane]),
                request.payload.node.eq(local),
                request.payload.operation.eq(Mux(self.claim, Operation.CLAIM, Operation.LOOK)),
                request.payload.value.eq(self.owner),
                got[lane].eq(request.valid & request.ready),
            ]
        m.d.sync += granted.eq(granted | got)
        with m.If(ends):
            m.d.sync += [granted.eq(0), fills.eq(~fills), occupied.bit_select(fills, 1).eq(1)]

        # Answers come a cycle later and wait in the slot for those of the other lanes.
        arrives, where = Signal(config.lanes), Signal()
        m.d.sync += [arrives.eq(got), where.eq(fills)]
        for n, slot in enumerate(slots):
            with m.If(ends & (fills == n)):
                m.d.sync += slot.bundle.eq(bundle)
            for lane in lanes:
                with m.If(arrives[lane] & (where == n)):
                    m.d.sync += slot.answers[lane].eq(self.answer[lane])
        m.d.comb += [
            self.o.valid.eq(occupied.bit_select(takes, 1)),
            self.o.payload.bundle.eq(Mux(takes, slots[1].bundle, slots[0].bundle)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [takes.eq(~takes), occupied.bit_select(takes, 1).eq(0)]
        remote = Mux(takes, slots[1].bundle.remote, slots[0].bundle.remote)
        stays, follows = self.o.valid & ~self.o.ready, occupied.bit_select(~takes, 1)
        for lane in lanes:
            first, second = (slot.bundle.vertices[lane] for slot in slots)
            after = Mux(follows, Mux(takes, first, second), bundle.vertices[lane])
            m.d.comb += self.ahead[lane].eq(Mux(stays, Mux(takes, second, first), after))
            kept = Array(slot.answers[lane].as_value() for slot in slots)[takes]
            answer = self.o.payload.answers[lane]
            m.d.comb += answer.eq(Mux(arrives[lane] & (where == takes), self.answer[lane].as_value(), kept))
            with m.If(remote[lane]):
                m.d.comb += answer.outcome.eq(Const(Outcome.OLD_HUB, Outcome))
        return m
