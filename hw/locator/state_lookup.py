"""State look-up: requests the states of a bundle's vertices, one port for each lane, and returns them in order."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Bundle, Operation, Outcome, Owner, Request, Work
from hw.stream.slice import Slice

__all__ = ["LookupResult", "StateLookup"]

#: Bundles that are looked up at a time: as many as the cycles from one's place to its answers, and one.
_SLOTS = 4


class LookupResult(data.StructLayout):
    """A ``bundle`` with the ``answers`` about its vertices."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"bundle": Bundle(config), "answers": data.ArrayLayout(Answer(config), config.lanes)})


class _Asked(data.StructLayout):
    """Requests of the lanes in the mask ``asks`` for the bundle of a ``slot``."""

    def __init__(self, config: LocatorConfig) -> None:
        vertices = data.ArrayLayout(config.node_bits, config.lanes)
        members = {"slot": range(_SLOTS), "asks": config.lanes, "vertices": vertices, "operation": Operation}
        super().__init__({**members, "owner": Owner(config)})


class StateLookup(wiring.Component):
    """Requests one bundle while others wait for their answers or to be taken.

    A lane whose bank is busy does not hold up the others of its bundle, but those of the next one: what a search claims
    first is first in its record. Vertices of other chiplets are hubs and are not looked up.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    i
        Bundles.
    number, epochs
        Number of the engine; epoch of each search. Free vertices are claimed for the search, but those of a hub's
        row are not.
    request, owner, answer
        Requests of each lane to the state store, for which search, and answers two cycles after a request was taken.
    o, ahead_context, ahead
        Bundles with their answers, three cycles after ``i`` at the earliest; depends on answers of the same cycle.
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
        """Give each bundle a slot in turn, then request its vertices."""
        m = Module()
        config = self.config
        lanes = range(config.lanes)
        slots = [Signal(LookupResult(config), name=f"slot{n}", reset_less=True) for n in range(_SLOTS)]
        # Slots that have a bundle; those of which all lanes are answered, too. The slots to fill and to offer next.
        occupied, answered = Signal(_SLOTS), Signal(_SLOTS)
        fills, takes = Signal(range(_SLOTS)), Signal(range(_SLOTS))

        # Vertices come from memories, and banks that they choose say when the next ones are requested: a register is
        # between the two.
        m.submodules.asked = asked = Slice(_Asked(config))
        bundle, asking, comes = self.i.payload, asked.i.payload, Signal()
        m.d.comb += [
            asked.i.valid.eq(self.i.valid & ~occupied.bit_select(fills, 1)),
            comes.eq(asked.i.valid & asked.i.ready),
            self.i.ready.eq(asked.i.ready & ~occupied.bit_select(fills, 1)),
            asking.slot.eq(fills),
            asking.asks.eq(bundle.mask & ~bundle.remote),
            asking.vertices.eq(bundle.vertices),
            asking.operation.eq(Mux(bundle.work == Work.READ, Operation.LOOK, Operation.CLAIM)),
            asking.owner.worker.eq(bundle.context * config.engines + self.number),
            asking.owner.epoch.eq(Array(self.epochs)[bundle.context]),
        ]
        with m.If(comes):
            m.d.sync += [fills.eq(fills + 1), occupied.bit_select(fills, 1).eq(1)]
        granted, need, got = (Signal(config.lanes, name=n) for n in ("granted", "need", "got"))
        asks = asked.o.payload
        m.d.comb += [
            need.eq(asks.asks & ~granted),
            asked.o.ready.eq((need & ~got) == 0),
            self.owner.eq(asks.owner),
        ]
        for lane, request in enumerate(self.request):
            m.d.comb += [
                request.valid.eq(asked.o.valid & need[lane]),
                request.payload.node.eq(asks.vertices[lane]),
                request.payload.operation.eq(asks.operation),
                got[lane].eq(request.valid & request.ready),
            ]
        m.d.sync += granted.eq(Mux(asked.o.ready, 0, granted | got))

        # Answers come two cycles later and wait in the slot for those of the other lanes.
        gone, arrives, goes, where = Signal(config.lanes), Signal(config.lanes), Signal.like(fills), Signal.like(fills)
        m.d.sync += [gone.eq(got), goes.eq(asks.slot), arrives.eq(gone), where.eq(goes)]
        for n, slot in enumerate(slots):
            # Lanes that wait for their answer, and those that do in the next cycle.
            waits, left = Signal(config.lanes, name=f"waits{n}"), Signal(config.lanes, name=f"left{n}")
            m.d.comb += left.eq(waits & ~Mux(goes == n, gone, 0))
            m.d.sync += [waits.eq(left), answered[n].eq(occupied[n] & (left == 0))]
            with m.If(comes & (fills == n)):
                m.d.sync += [slot.bundle.eq(bundle), waits.eq(asking.asks)]
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
            m.d.sync += [takes.eq(takes + 1), *(of.bit_select(takes, 1).eq(0) for of in (occupied, answered))]
        for lane in lanes:
            answer = offered.answers[lane]
            with m.If(arrives[lane] & (where == takes)):
                m.d.comb += answer.eq(self.answer[lane])
            with m.If(offered.bundle.remote[lane]):
                m.d.comb += answer.outcome.eq(Const(Outcome.OLD_HUB, Outcome))
        # A bundle lies in its slot for a cycle before it is offered. Whether the one before it is taken is known late.
        first, second, ahead = (Signal(Bundle(config), name=name) for name in ("first", "next", "ahead"))
        bundles = Array(slot.bundle.as_value() for slot in slots)
        m.d.comb += [
            first.eq(bundles[takes]),
            second.eq(bundles[(takes + 1)[: len(takes)]]),
            ahead.eq(Mux(leaves, second.as_value(), first.as_value())),
            self.ahead_context.eq(ahead.context),
            *(place.eq(vertex) for place, vertex in zip(self.ahead, ahead.vertices, strict=True)),
        ]
        return m
