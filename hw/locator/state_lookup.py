"""State look-up: requests the states of a bundle's vertices, one port for each lane, and returns them in order."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import following
from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Bundle, Operation, Outcome, Owner, Request, Work

__all__ = ["LookupResult", "StateLookup"]

#: Bundles that wait for answers or to be taken: as many as the cycles from a request to its answer, and one.
_SLOTS = 3


class LookupResult(data.StructLayout):
    """A ``bundle`` with the ``answers`` about its vertices."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"bundle": Bundle(config), "answers": data.ArrayLayout(Answer(config), config.lanes)})


class StateLookup(wiring.Component):
    """Requests one bundle while up to three others wait for their answers or to be taken.

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
        Requests of each lane to the state store, for which search, and answers two cycles after a request was taken.
    o, ahead_context, ahead
        Bundles with their answers, two cycles after ``i`` at the earliest; depends on answers of the same cycle.
        Context and vertices of the bundle that may be offered next; depends on ``o.ready``.
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
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill the slots in turn."""
        m = Module()
        config = self.config
        lanes = range(config.lanes)
        slots = [Signal(LookupResult(config), name=f"slot{n}", reset_less=True) for n in range(_SLOTS)]
        # Slots that have a bundle; those of which all lanes are answered, too. The slots to fill and to offer next.
        occupied, answered = Signal(_SLOTS), Signal(_SLOTS)
        fills, takes = (Signal(range(_SLOTS), name=name) for name in ("fills", "takes"))

        granted, need, got = (Signal(config.lanes, name=n) for n in ("granted", "need", "got"))
        room, ends = Signal(), Signal()
        bundle = self.i.payload
        m.d.comb += [
            room.eq(~occupied.bit_select(fills, 1)),
            need.eq(bundle.mask & ~bundle.remote & ~granted),
            ends.eq(self.i.valid & room & ((need & ~got) == 0)),
            self.i.ready.eq(ends),
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
            m.d.sync += [granted.eq(0), fills.eq(following(fills, _SLOTS)), occupied.bit_select(fills, 1).eq(1)]

        # Answers come two cycles later and wait in the slot for those of the other lanes.
        asked, arrives = (Signal(config.lanes, name=name) for name in ("asked", "arrives"))
        ended, asks_for, where = Signal(), Signal.like(fills), Signal.like(fills)
        m.d.sync += [asked.eq(got), arrives.eq(asked), ended.eq(ends), asks_for.eq(fills), where.eq(asks_for)]
        with m.If(ended):
            m.d.sync += answered.bit_select(asks_for, 1).eq(1)
        for n, slot in enumerate(slots):
            with m.If(ends & (fills == n)):
                m.d.sync += slot.bundle.eq(bundle)
            for lane in lanes:
                with m.If(arrives[lane] & (where == n)):
                    m.d.sync += slot.answers[lane].eq(self.answer[lane])
        offered, leaves = self.o.payload, Signal()
        m.d.comb += [
            self.o.valid.eq(answered.bit_select(takes, 1)),
            leaves.eq(self.o.valid & self.o.ready),
            offered.eq(Array(slot.as_value() for slot in slots)[takes]),
        ]
        with m.If(leaves):
            m.d.sync += [
                takes.eq(following(takes, _SLOTS)),
                *(of.bit_select(takes, 1).eq(0) for of in (occupied, answered)),
            ]
        for lane in lanes:
            answer = offered.answers[lane]
            with m.If(arrives[lane] & (where == takes)):
                m.d.comb += answer.eq(self.answer[lane])
            with m.If(offered.bundle.remote[lane]):
                m.d.comb += answer.outcome.eq(Const(Outcome.OLD_HUB, Outcome))
        # A bundle lies in its slot for a cycle before it is offered.
        ahead = Signal(Bundle(config))
        m.d.comb += [
            ahead.eq(Array(slot.bundle.as_value() for slot in slots)[Mux(leaves, following(takes, _SLOTS), takes)]),
            self.ahead_context.eq(ahead.context),
            *(place.eq(vertex) for place, vertex in zip(self.ahead, ahead.vertices, strict=True)),
        ]
        return m
