"""Records leave whole, those of each group in their order, the lowest group first, none at or above the limit."""

from typing import Any

import cocotb
import pytest

from hw.community.arrival_queue import ArrivalQueue
from hw.community.record_words import WordFormat
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from tb.community.pairs import Record, random_record, whole


class Groups:
    """The queue, and what has left it."""

    def __init__(self, bench: Bench, queue: ArrivalQueue) -> None:
        self.bench, self.queue = bench, queue
        self.left: list[dict[str, Any]] = []
        bench.take("o", self.left.append)

    def make(self) -> Record:
        """Return a record."""
        return random_record(self.bench.random, self.queue.sizes)

    def short(self) -> Record:
        """Return a record of which there is room for three."""
        return random_record(self.bench.random, self.queue.sizes, self.bench.random.randrange(1, 4))

    async def fill(self) -> list[tuple[Record, int]]:
        """Send records of random groups for which there is room; return them when they are there."""
        room, sent = self.queue.depth, list[tuple[Record, int]]()
        while True:
            record = self.make()
            room -= len(record)
            if room < 0:
                break
            sent.append((record, self.bench.random.randrange(self.queue.groups)))
        self.send(sent)
        await self.bench.cycles(8 * self.queue.depth)
        assert int(self.bench.dut.level.value) == sum(len(record) for record, _ in sent)
        assert not self.left
        return sent

    def send(self, records: list[tuple[Record, int]]) -> None:
        """Send records, each with its group."""
        self.bench.drive("i", [{"pair": pair, "group": group} for record, group in records for pair in record])

    async def take(self, records: list[tuple[Record, int]]) -> None:
        """Wait until exactly these have left, in this order."""
        wanted = [pair for record, _ in records for pair in record]
        await self.bench.until(lambda: len(self.left) >= len(wanted), 20_000)
        await self.bench.cycles(20)
        assert self.left == wanted
        self.left.clear()


async def begin(dut: Any, **pace: Any) -> Groups:
    given = parameters()
    queue = ArrivalQueue(WordFormat(given["width"], given["vid_bits"]), given["depth"], given["groups"])
    dut.limit.value = 0
    return Groups(await start(dut, queue, **pace), queue)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def the_lowest_group_leaves_first(dut: Any, idle: float, stall: float) -> None:
    """As the limit rises; cells are used again from round to round."""
    groups = await begin(dut, idle=idle, stall=stall)
    for _ in range(6):
        dut.limit.value = 0
        sent = await groups.fill()
        limit = 0
        while limit < groups.queue.groups:
            below, limit = limit, groups.bench.random.randrange(limit + 1, groups.queue.groups + 1)
            dut.limit.value = limit
            await groups.take(
                [(record, group) for number in range(below, limit) for record, group in sent if group == number]
            )
        assert not int(dut.level.value)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.3])
async def a_group_stays_in_order_while_others_come(dut: Any, stall: float) -> None:
    """Many more than there is room for, of groups that lie close together."""
    groups = await begin(dut, stall=stall)
    dut.limit.value = groups.queue.groups
    sent = [(groups.make(), groups.bench.random.choice((0, 0, 1, groups.queue.groups - 1))) for _ in range(300)]
    groups.send(sent)
    pairs = sum(len(record) for record, _ in sent)
    await groups.bench.until(lambda: len(groups.left) == pairs, 40_000)
    found = whole(groups.left)
    for number in range(groups.queue.groups):
        alike = [record for record, group in sent if group == number]
        assert [record for record in found if record in alike] == alike
    assert sum(map(len, found)) == pairs


@cocotb.test()
async def what_follows_is_chosen_anew(dut: Any) -> None:
    """While a record leaves, one of a lower group comes, or the limit falls."""
    groups = await begin(dut)
    bench, last = groups.bench, groups.queue.groups - 1
    for _ in range(5):
        first, second, lower = ((groups.short(), group) for group in (last, last, 0))
        bench.pace(stall=1.0)
        dut.limit.value = last + 1
        groups.send([first, second])
        await bench.cycles(8 * groups.queue.sizes.longest)
        groups.send([lower])
        await bench.cycles(8 * groups.queue.sizes.longest)
        bench.pace(stall=0.0)
        await groups.take([first, lower, second])
        bench.pace(stall=1.0)
        groups.send([first, second])
        await bench.cycles(8 * groups.queue.sizes.longest)
        dut.limit.value = last
        bench.pace(stall=0.0)
        await groups.take([first])
        dut.limit.value = last + 1
        await groups.take([second])


@cocotb.test()
async def it_holds_what_it_has_room_for(dut: Any) -> None:
    groups = await begin(dut)
    for _ in range(3):
        groups.send([(groups.make(), n % groups.queue.groups) for n in range(groups.queue.depth + 1)])
        await groups.bench.cycles(4 * groups.queue.depth)
        assert int(dut.level.value) == groups.queue.depth
        assert not groups.left
        await groups.bench.reset()
        assert not int(dut.level.value)
    sent = await groups.fill()
    dut.limit.value = groups.queue.groups
    await groups.take(sorted(sent, key=lambda entry: entry[1]))


@pytest.mark.parametrize(("width", "depth", "groups"), [(4, 20, 2), (40, 128, 8)])
def test_arrival_queue(width: int, depth: int, groups: int) -> None:
    sizes = {"width": width, "vid_bits": 5, "depth": depth, "groups": groups}
    simulate(ArrivalQueue(WordFormat(width, 5), depth, groups), __name__, parameters=sizes, name=f"arrival_{width}")


def test_a_queue_has_room_for_a_record_and_groups() -> None:
    with pytest.raises(ValueError, match="depth must be at least 4, the longest record's pairs, not 3"):
        ArrivalQueue(WordFormat(4, 5), 3, 2)
    with pytest.raises(ValueError, match="groups must be a power of two from 2 on, not 3"):
        ArrivalQueue(WordFormat(4, 5), 8, 3)
