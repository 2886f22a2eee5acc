"""State look-up: requests the states of a bundle's vertices, one port for each lane, and returns them in order."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Bundle, Operation, Outcome, Owner, Request, Work

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
    i
        Bundles; an offered bundle stays until it is taken. ``ready`` depends on grants of the same cycle.
    number, epochs
        Number of the engine; epoch of each search. Free vertices are claimed for the search, but those of a hub's
        row are not.
    request, owner, answer
        Requests of each lane to the state store, for which search, and answers in the cycle after a request was taken.
    o, ahead_context, ahead
        Bundles with their answers, two cycles after ``i`` at the earliest; depends on answers of the same cycle.
        Context and vertices of the bundle that may be offered next; depends on ``o.ready`` and ``i``.
    holding
        Part of the bundle at ``i`` has been requested.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Bundle(config))),
                "number": In(range(max(2, config.engines))),
                "epochs": In(config.epoch_bits).array(config.searches),
                "request": Out(stream.Signature(Request(config))).array(config.lanes),
                "owner": Out(Owner(config)),
                "answer": In(Answer(config)).array(config.lanes),
                "o": Out(stream.Signature(LookupResult(config))),
                "ahead_context": Out(config.context_bits),
                "ahead": Out(config.node_bits).array(config.lanes),
                "holding": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill two slots in turn."""
        m = Module()
        config = self.config
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
            self.owner.worker.eq(bundle.context * config.engines + self.number),
            self.owner.epoch.eq(Array(self.epochs)[bundle.context]),
        ]
        for lane in lanes:
            request = self.request[lane]
            m.d.comb += [
                request.valid.eq(self.i.valid & room & need[lane]),
                request.payload.node.eq(bundle.vertices[lane]),
                request.payload.operation.eq(Mux(bundle.work == Work.READ, Operation.LOOK, Operation.CLAIM)),
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

        def ahead(old: Value, new: Value, offered: Value) -> Value:
            """Select from the two slots and the input what may be offered next."""
            after = Mux(follows, Mux(takes, old, new), offered)
            return Mux(stays, Mux(takes, new, old), after)

        old, new = (slot.bundle for slot in slots)
        m.d.comb += self.ahead_context.eq(ahead(old.context, new.context, bundle.context))
        for lane in lanes:
            m.d.comb += self.ahead[lane].eq(ahead(old.vertices[lane], new.vertices[lane], bundle.vertices[lane]))
            kept = Array(slot.answers[lane].as_value() for slot in slots)[takes]
            answer = self.o.payload.answers[lane]
            m.d.comb += answer.eq(Mux(arrives[lane] & (where == takes), self.answer[lane].as_value(), kept))
            with m.If(remote[lane]):
                m.d.comb += answer.outcome.eq(Const(Outcome.OLD_HUB, Outcome))
        return m
