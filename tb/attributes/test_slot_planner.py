"""Slot planner: slots are those of the golden planner whatever the stalls, the lists before, and what was reset."""

from typing import Any

import cocotb
import pytest

from contracts.planning import FIRST_REACH
from golden.attributes.planner import SlotPlanner as GoldenPlanner
from hw.attributes.formats import AttributeConfig
from hw.attributes.slot_planner import SlotPlanner
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

#: What an ID of too many bits becomes.
_WIDEST = (1 << 32) - 1


def sizes(slots: int, id_bits: int) -> AttributeConfig:
    return AttributeConfig(slots=slots, ways=2, row_beats=8, id_bits=id_bits, tag_bits=11, address_width=20)


def slot_planner(slots: int, depth: int, processors: int = 1, id_bits: int = 14) -> SlotPlanner:
    return SlotPlanner(sizes(slots, id_bits), depth, processors)


class World:
    """A planner and its golden twin, which get the same lists."""

    def __init__(self, dut: Any, bench: Bench) -> None:
        self.dut, self.bench = dut, bench
        given = parameters()
        self.config, self.processors = sizes(given["slots"], given["id_bits"]), given["processors"]
        self.golden = GoldenPlanner(given["slots"], given["depth"], self.processors)
        self.most = (1 << given["id_bits"]) - 1

    async def begin(self, nodes: list[int], forget: bool = False) -> None:
        """Begin a list of requests, which come with any slots."""
        self.dut.count.value = len(nodes)
        self.dut.forget.value = int(forget)
        await self.bench.pulse(self.dut.start)
        self.dut.forget.value = 0
        self.bench.drive("i", [{"id": node, "tag": 77, "slot": n % self.config.slots} for n, node in enumerate(nodes)])

    async def plan(self, nodes: list[int], forget: bool = False) -> None:
        """Plan a list as a whole."""
        if forget:
            self.golden.forget()
        # An ID of too many bits is one of one more.
        slots = self.golden.plan([min(node, self.most + 1) | node & self.most for node in nodes])
        self.bench.expect(
            "o",
            [
                {"id": node if node <= self.most else _WIDEST, "tag": n, "slot": slot}
                for n, (node, slot) in enumerate(zip(nodes, slots, strict=True))
            ],
        )
        await self.begin(nodes, forget)
        await self.bench.drain(40_000)


def lists(bench: Bench, most: int, slots: int) -> list[list[int]]:
    """Return lists with few and many IDs, near and far repeats, equal ones in a row, and IDs of too many bits."""
    random = bench.random
    some = [random.randint(0, most) for _ in range(3 * slots)]
    return [
        [random.choice(some[: slots // 2]) for _ in range(300)],
        [random.choice(some) for _ in range(700)],
        [random.randint(0, most) for _ in range(200)],
        [node for node in some[:40] for _ in range(random.randint(1, 4))],
        [some[(n * n // 16 + random.randrange(slots)) % len(some)] for n in range(600)],
        [random.choice([*some, most + 1, _WIDEST]) for _ in range(150)],
        some[:1],
        # The same bits of the table's addresses, so that IDs put each other out.
        [random.choice(some) ^ random.choice((0, 1, 3)) * 0x0801 & most for _ in range(400)],
    ]


async def begin(dut: Any, **pace: Any) -> World:
    dut.start.value = dut.forget.value = dut.count.value = 0
    return World(dut, await start(dut, slot_planner(**parameters()), **pace))


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.6, 0.0), (0.0, 0.8), (0.4, 0.4)])
async def slots_depend_on_requests_alone(dut: Any, pace: tuple[float, float]) -> None:
    """Plan lists one after another, with idle cycles of who asks and stalls of who takes."""
    world = await begin(dut, idle=pace[0], stall=pace[1])
    for nodes in lists(world.bench, world.most, world.config.slots):
        await world.plan(nodes)


@cocotb.test()
async def slots_can_be_forgotten(dut: Any) -> None:
    world = await begin(dut, idle=0.2)
    for n, nodes in enumerate(lists(world.bench, world.most, world.config.slots)):
        await world.plan(nodes, forget=bool(n & 1))


@cocotb.test()
async def nothing_comes_without_requests(dut: Any) -> None:
    """Wait before the first list, and have an empty one."""
    world = await begin(dut)
    await world.bench.cycles(3 * parameters()["depth"])
    await world.plan([])
    await world.bench.cycles(100)
    await world.plan(list(range(90)))


@cocotb.test()
@cocotb.parametrize(after=[3, 70, 400, 900])
async def a_reset_forgets_everything(dut: Any, after: int) -> None:
    """Links of requests that never left are gone, though the memories have them."""
    world = await begin(dut)
    for nodes in lists(world.bench, world.most, world.config.slots)[:3]:
        world.bench.take("o", lambda word: None)
        await world.begin(nodes)
        await world.bench.cycles(parameters()["depth"] + after)
        world = World(dut, world.bench)
        await world.bench.reset()
    world = await begin(dut)
    for nodes in lists(world.bench, world.most, world.config.slots):
        await world.plan(nodes)


@cocotb.test()
async def requests_wait_for_those_they_know(dut: Any) -> None:
    """Let the first one leave when as many have come as it knows."""
    world = await begin(dut)
    nodes = list(range(FIRST_REACH + 50))
    world.bench.take("o", lambda word: None)
    await world.begin(nodes)
    world.bench.drivers["i"].stop()
    world.bench.drive("i", [{"id": node, "tag": 0, "slot": 0} for node in nodes[: FIRST_REACH - 1]])
    await world.bench.cycles(2 * max(parameters()["depth"], 4 * parameters()["slots"]) + 300)
    assert world.bench.received("o") == 0
    world.bench.drive("i", [{"id": FIRST_REACH, "tag": 0, "slot": 0}])
    await world.bench.cycles(50)
    assert world.bench.received("o") == 1


@cocotb.test()
async def rates(dut: Any) -> None:
    """Bound cycles: of a request whose row has a slot, of one that takes the first slot, of a search to its end."""
    world = await begin(dut)
    # No list is longer.
    count = 1 << world.config.tag_bits
    slots, all_slots = world.config.slots, world.config.slots * world.processors
    held = [n % (slots // 2) for n in range(count)]
    free = list(range(count))
    wanted = [n % (all_slots + all_slots // 2) for n in range(count)]
    # Until slots are empty, and until the ring is as full as it may be.
    begins = 4 * all_slots + 2 * parameters()["depth"]
    for nodes, most in ((held, 5.3), (free, 9.3), (wanted, 12.3)):
        began = world.bench.cycle
        await world.plan(nodes, forget=True)
        assert world.bench.cycle - began < most * count + begins
    await world.plan([])


@pytest.mark.parametrize(("slots", "depth", "processors"), [(6, 128, 1), (11, 256, 2), (40, 128, 4), (200, 1024, 1)])
def test_slot_planner(slots: int, depth: int, processors: int) -> None:
    given = {"slots": slots, "depth": depth, "processors": processors, "id_bits": 14}
    simulate(slot_planner(**given), __name__, parameters=given)


def test_depths_and_slots_are_checked() -> None:
    with pytest.raises(ValueError, match="depth must be a power of two from 96, not 64"):
        slot_planner(40, 64)
    with pytest.raises(ValueError, match="slots must be more than 4 to be planned, not 4"):
        slot_planner(4, 128)
