"""Slot planner: slots for requests that are known ahead, as a compiler gives registers to variables (A4)."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import VID_BITS
from contracts.planning import FIRST_REACH, GROUPS, LANES, REACH_STEP, SLACK
from hw.attributes.formats import AttributeConfig
from hw.attributes.plan_memories import Memories, Shapes
from hw.attributes.target_address import Placed
from hw.stream.slice import Slice

__all__ = ["SlotPlanner"]


class SlotPlanner(wiring.Component):
    """Holds requests back until those behind them are known, and gives each the slot that serves them best.

    A row that is in a slot stays there until its last request; a new one takes the slot whose row is requested last
    among the next requests, or not at all. What is in a slot is what the planner has put there: the attribute RAM
    decides by itself what it finds, so no plan can be wrong, only useless.

    Requests are numbered as they enter a ring of `depth` places. *Entering* looks the ID up in a table that has, for
    each hash, the last request that is in the ring or the slot that it left its row in, and links what it finds to the
    new request. *Leaving* needs no table: the request before has left the slot in its place of the ring. Both are
    one after the other where they would meet, and a request leaves only when `reach` requests behind it have
    entered, and sees no more than these. So slots depend on the requests alone, not on when they come.

    Parameters
    ----------
    config : AttributeConfig
    depth
        Requests in the ring, a power of two, more than `SLACK` and `FIRST_REACH` together.
    processors
        Attribute processors that share the requests by the lowest bits of their IDs, each with slots of its own.

    Attributes
    ----------
    start : In(1)
        A list of `count` requests comes; all of earlier ones have left.
    count : In
    forget : In(1)
        With `start` at the latest: all slots are empty.
    i, o : streams of `Placed`
        Requests in order, numbered from 0; a slot that comes in is not looked at.

    Raises
    ------
    ValueError
        If `depth` is no power of two or too small, or there are no more than `LANES` slots.
    """

    def __init__(self, config: AttributeConfig, depth: int = 1024, processors: int = 1) -> None:
        if depth < SLACK + FIRST_REACH or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two from {SLACK + FIRST_REACH}, not {depth!r}")
        if config.slots <= LANES:
            raise ValueError(f"slots must be more than {LANES} to be planned, not {config.slots!r}")
        self.config, self.depth, self.processors = config, depth, processors
        super().__init__(
            {
                "start": In(1),
                "count": In(range((1 << config.tag_bits) + 1)),
                "forget": In(1),
                "i": In(stream.Signature(Placed(config))),
                "o": Out(stream.Signature(Placed(config))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk between entering, leaving and searching; each memory has one reader and one writer at a time."""
        m = Module()
        config, depth = self.config, self.depth
        m.submodules.out = out = Slice(Placed(config))
        connect(m, out.o, flipped(self.o))
        shapes = Shapes(config, depth, self.processors)
        at = Memories(m, shapes)
        # The oldest request in the ring, the next one to enter, how many of the list are still to come.
        head, tail = Signal(shapes.number), Signal(shapes.number)
        left, number = Signal.like(self.count), Signal(config.tag_bits, reset_less=True)
        reach = Signal(range(depth), reset_less=True)
        held = Signal(range(depth + 1))
        entering, first, second, third, leaving, gives = (
            Signal(name=name) for name in ("entering", "first", "second", "third", "leaving", "gives")
        )
        filling, satisfied, room, calm = (Signal(name=name) for name in ("filling", "satisfied", "room", "calm"))
        m.d.comb += [
            held.eq((tail - head)[: len(held)]),
            satisfied.eq((held != 0) & ((held >= reach) | (left == 0))),
            room.eq((left != 0) & (held < reach + SLACK)),
            calm.eq(~first & ~second & ~third),
        ]
        with m.If(~satisfied):
            m.d.sync += filling.eq(1)
        with m.Elif(~room):
            m.d.sync += filling.eq(0)

        node = Signal(shapes.key, reset_less=True)
        m.d.comb += node.eq(shapes.key_of(self.i.payload.id))
        self._enter(m, at, shapes, _Entering(entering, first, second, third, node, head, tail))
        seen = Signal(shapes.key, reset_less=True)
        plan = self._leave(m, at, shapes, _Leaving(leaving, gives, seen, head, reach))
        m.d.comb += [
            out.i.valid.eq(gives),
            out.i.payload.id.eq(Mux(seen.beyond, (1 << VID_BITS) - 1, seen.id)),
            out.i.payload.tag.eq(number),
            out.i.payload.slot.eq(plan),
        ]
        with m.If(self.start):
            m.d.sync += [left.eq(self.count), number.eq(0), reach.eq(FIRST_REACH), filling.eq(1)]
        with m.If(entering):
            m.d.sync += [left.eq(left - 1), tail.eq(tail + 1)]
        with m.If(gives):
            m.d.sync += [head.eq(head + 1), number.eq(number + 1)]
            with m.If(reach < depth - SLACK - REACH_STEP):
                m.d.sync += reach.eq(reach + REACH_STEP)
            with m.Else():
                m.d.sync += reach.eq(depth - SLACK)

        clearing, last = Signal(range(shapes.cleared)), shapes.cleared - 1
        with m.FSM(init="CLEAR"):
            with m.State("CLEAR"):
                at.clear(m, clearing)
                m.d.sync += clearing.eq(clearing + 1)
                with m.If(clearing == last):
                    m.next = "RUN"
            with m.State("RUN"):
                turn = Signal()
                m.d.comb += [
                    turn.eq(filling | ~(satisfied & out.i.ready)),
                    self.i.ready.eq(room & turn),
                    entering.eq(self.i.valid & self.i.ready),
                    leaving.eq(satisfied & calm & out.i.ready & ~entering),
                ]
                with m.If(self.forget):
                    # Nobody is in the ring, so its links are gone.
                    m.d.sync += clearing.eq(shapes.cleared - shapes.owners)
                    m.next = "CLEAR"
                with m.Elif(leaving):
                    m.next = "LEAVE"
            with m.State("LEAVE"):
                with m.If(gives):
                    m.next = "RUN"
        m.d.sync += [
            Assert(~self.start | (calm & (held == 0)), "a list comes before the last one has left"),
            Cover(self.i.valid & ~room & (left != 0), "the ring is full"),
            Cover(entering & third, "requests enter one after another"),
        ]
        return m

    def _enter(self, m: Module, at: Memories, shapes: Shapes, here: "_Entering") -> None:
        """Look up what the table says of the ID, see whether that is true, and link: a cycle each."""
        hashed, number = Signal(shapes.hash_bits, reset_less=True), Signal(shapes.number, reset_less=True)
        node, repeats = Signal(shapes.key, reset_less=True), Signal(reset_less=True)
        m.d.sync += [here.first.eq(here.now), here.second.eq(here.first), here.third.eq(here.second)]
        with m.If(here.now):
            at.latest.look(m, shapes.hash_of(here.node))
            at.requests.put(m, here.tail, here.node)
        m.d.sync += [
            hashed.eq(shapes.hash_of(here.node)),
            # The table is written as the next request reads it.
            repeats.eq(here.first & (shapes.hash_of(here.node) == hashed)),
            number.eq(here.tail),
            node.eq(here.node),
        ]
        said = Signal(shapes.latest)
        m.d.comb += said.eq(at.latest.data)
        with m.If(repeats):
            m.d.comb += [said.left.eq(0), said.of.eq(number - 1)]
        before, slot = said.of[: len(number)], said.of[: shapes.slot_bits]
        with m.If(here.first):
            at.latest.put(m, hashed, shapes.position(number))
            at.requests.look(m, before)
            at.owner.look(m, shapes.place(node, slot))
            at.uses.look(m, shapes.row(node, slot))
        # What it says is true if the ID stands there.
        request = data.StructLayout(
            {"node": shapes.key, "number": shapes.number, "before": shapes.number, "slot": len(slot)}
        )
        asked, linked = Signal(request, reset_less=True), Signal(request, reset_less=True)
        held, left = Signal(reset_less=True), Signal(reset_less=True)
        waits, stays, again = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            asked.node.eq(node),
            asked.number.eq(number),
            asked.before.eq(before),
            asked.slot.eq(slot),
            left.eq(said.left),
            held.eq(~said.left & ((number - before - 1)[: len(number)] < (number - here.head)[: len(number)])),
            linked.eq(asked),
            waits.eq(held & (at.requests.data == asked.node)),
            stays.eq(left & (at.owner.data == shapes.owned(asked.node))),
            again.eq(at.uses.lane(asked.slot).again),
        ]
        with m.If(here.third):
            with m.If(waits):
                at.following.put(m, linked.before, shapes.link(linked.number))
            with m.If(stays):
                at.uses.put_use(m, shapes.row(linked.node, linked.slot), linked.slot, 1, linked.number, again)
            at.holder.put(m, linked.number, shapes.held(stays, linked.slot))

    def _leave(self, m: Module, at: Memories, shapes: Shapes, here: "_Leaving") -> Value:
        """Read the oldest request, see whether its slot has its row, search a slot if not; return the slot."""
        follows, holds = Signal(shapes.following, reset_less=True), Signal(shapes.holder, reset_less=True)
        read, known, told, searching = Signal(), Signal(), Signal(), Signal()
        resident, chosen, done = Signal(reset_less=True), Signal(shapes.slot_bits, reset_less=True), Signal()
        slot = Signal(range(self.config.slots))
        with m.If(here.now):
            at.requests.look(m, here.head)
            at.following.look(m, here.head)
            at.holder.look(m, here.head)
        m.d.sync += [read.eq(here.now), known.eq(read), told.eq(known)]
        with m.If(read):
            m.d.sync += [here.seen.eq(at.requests.data), follows.eq(at.following.data), holds.eq(at.holder.data)]
            at.latest.look(m, shapes.hash_of(at.requests.data))
            at.owner.look(m, shapes.place(at.requests.data, at.holder.data.slot))
        newest, found = Signal(reset_less=True), Signal()
        m.d.comb += found.eq(holds.valid & (at.owner.data == shapes.owned(here.seen)))
        with m.If(known):
            m.d.sync += [
                newest.eq(at.latest.data == shapes.position(here.head)),
                resident.eq(found),
                searching.eq(~found),
            ]
        hands = Array(Signal(range(self.config.slots), name=f"hand_{n}") for n in range(self.processors))
        hand = hands[shapes.share(here.seen)]
        self._search(m, at, shapes, here, searching, hand, chosen, done)
        m.d.comb += [
            here.gives.eq((told & resident) | done),
            slot.eq(Mux(done, chosen, holds.slot)),
        ]
        with m.If(here.gives):
            at.uses.put_use(m, shapes.row(here.seen, slot), slot, follows.valid, follows.number, ~done)
            at.following.put(m, here.head, 0)
            with m.If(follows.valid):
                at.holder.put(m, follows.number, shapes.held(1, slot))
            with m.Elif(newest):
                at.latest.put(m, shapes.hash_of(here.seen), shapes.left(slot))
        with m.If(done):
            at.owner.put(m, shapes.place(here.seen, slot), shapes.owned(here.seen))
            m.d.sync += hand.eq(Mux(slot == self.config.slots - 1, 0, slot + 1))
        with m.If(self.forget):
            m.d.sync += [each.eq(0) for each in hands]
        m.d.sync += Cover(done & follows.valid, "a row comes that is requested again")
        return slot

    def _search(
        self,
        m: Module,
        at: Memories,
        shapes: Shapes,
        here: "_Leaving",
        searching: Signal,
        hand: Value,
        chosen: Signal,
        done: Signal,
    ) -> None:
        """Compare `GROUPS` groups of `LANES` slots from the hand on, up to the first one that nobody wants."""
        slots, rows = self.config.slots, shapes.rows
        group, step, over = Signal(range(rows)), Signal(range(GROUPS + 1)), Signal()
        started, current = Signal(), Signal.like(group)
        m.d.sync += started.eq(searching & ~over)
        m.d.comb += current.eq(Mux(started, group, hand >> exact_log2(LANES)))
        looks = Signal()
        m.d.comb += looks.eq(searching & (~started | (step != GROUPS)))
        worth = data.StructLayout({"distance": shapes.number, "unknown": 1, "once": 1})
        candidate = data.StructLayout({"valid": 1, "worth": worth, "slot": shapes.slot_bits})

        def better(left: Any, right: Any) -> Value:
            """Whether `right` is to go rather than `left`, which is the earlier one."""
            return right.valid & (~left.valid | (right.worth.as_value() > left.worth.as_value()))

        with m.If(looks):
            at.uses.look(m, Cat(current, shapes.share(here.seen)))
            m.d.sync += [
                group.eq(Mux(current == rows - 1, 0, current + 1)),
                step.eq(Mux(started, step + 1, 1)),
            ]
        looked, initial, of = Signal(), Signal(reset_less=True), Signal.like(group)
        m.d.sync += [looked.eq(looks & ~over), initial.eq(~started), of.eq(current)]
        lanes = [Signal(candidate, name=f"lane_{n}", reset_less=True) for n in range(LANES)]
        compared, best = Signal(), Signal(candidate, reset_less=True)
        winner, decided = Signal(candidate, reset_less=True), Signal()
        for n, lane in enumerate(lanes):
            use = at.uses.data[n]
            distance, place = Signal(shapes.number, name=f"distance_{n}"), Cat(Const(n, exact_log2(LANES)), of)
            wanted = Signal(name=f"wanted_{n}")
            m.d.comb += [distance.eq(use.number - here.head), wanted.eq(use.linked & (distance < here.reach))]
            m.d.sync += [
                lane.valid.eq(looked & (place < slots) & (~initial | (hand[: exact_log2(LANES)] <= n))),
                lane.slot.eq(place),
                lane.worth.distance.eq(Mux(wanted, distance, 0)),
                lane.worth.unknown.eq(~wanted),
                lane.worth.once.eq(~wanted & ~use.again),
            ]
        pairs = []
        for left, right in zip(lanes[::2], lanes[1::2], strict=True):
            pairs.append(data.View(candidate, Mux(better(left, right), right.as_value(), left.as_value())))
        left, right = pairs
        m.d.sync += [
            compared.eq(looked & ~over),
            decided.eq(compared & ~over),
            winner.eq(Mux(better(left, right), right.as_value(), left.as_value())),
        ]
        final = Signal(candidate)
        m.d.comb += final.eq(Mux(better(best, winner), winner.as_value(), best.as_value()))
        with m.If(decided):
            m.d.sync += best.eq(final)
        with m.If(here.now):
            m.d.sync += best.valid.eq(0)
        # The last group has been compared, or none of the others can be better.
        ends = Signal()
        m.d.comb += [
            ends.eq(~looks & ~looked & ~compared),
            over.eq(decided & (ends | (final.valid & final.worth.once))),
        ]
        with m.If(over):
            m.d.sync += searching.eq(0)
        m.d.sync += [done.eq(over), chosen.eq(final.slot), Cover(over & ~final.worth.unknown, "all slots are wanted")]


@dataclass(frozen=True)
class _Entering:
    """A request on its way in.

    ``now``, ``first``, ``second``, ``third``: it enters in this cycle, or did so many before. ``node``: who enters now.
    ``head``, ``tail``: numbers of the oldest request in the ring, and of the one that enters.
    """

    now: Signal
    first: Signal
    second: Signal
    third: Signal
    node: Any
    head: Signal
    tail: Signal


@dataclass(frozen=True)
class _Leaving:
    """A request on its way out.

    ``now``: its way begins. ``gives``: it has a slot. ``seen``: its ID. ``head``: its number. ``reach``: requests, from
    it on, that it may know of.
    """

    now: Signal
    gives: Signal
    seen: Any
    head: Signal
    reach: Signal
