"""Records that name others wait, by groups, and all others pass them; each passes once, whole, also without room."""

from collections import Counter
from typing import Any

import cocotb
import pytest

from hw.community.record_gate import RecordGate
from hw.community.record_words import WordFormat
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from tb.community.pairs import Record, random_record, whole


class Gate:
    """The gate, records for it, and what has passed."""

    def __init__(self, bench: Bench, gate: RecordGate) -> None:
        self.bench, self.rng, self.sizes = bench, bench.random, gate.sizes
        self.depth, self.unordered, self.groups = gate.depth, gate.unordered, gate.groups
        self.passed: list[dict[str, Any]] = []
        bench.take("o", self.passed.append)

    def make(self, pairs: int | None = None) -> Record:
        """Return a record of so many pairs of words; most are short."""
        return random_record(self.rng, self.sizes, pairs)

    def drive(self, records: list[tuple[Record, int]]) -> None:
        """Send records, each with its group, or 0."""
        self.bench.drive("i", [pair for record, _ in records for pair in record])
        self.bench.drive("others", [others for _, others in records])

    def group(self) -> int:
        """Return 0, or as often a group."""
        return self.rng.choice((0, self.rng.randrange(1, self.groups + 1)))

    def records(self) -> list[Record]:
        """Return the records that have passed."""
        return whole(self.passed)

    async def count(self, pairs: int) -> None:
        """Wait until so many pairs have passed."""
        await self.bench.until(lambda: len(self.passed) >= pairs, 20_000)

    async def get(self, records: list[tuple[Record, int]]) -> None:
        """Wait until so much has passed, and compare; own records stay in their order."""
        wanted = [record for record, _ in records]
        await self.count(sum(map(len, wanted)))
        found = self.records()
        assert Counter(map(repr, found)) == Counter(map(repr, wanted))
        own = [record for record, others in records if not others]
        assert [record for record in found if record in own] == own
        self.passed.clear()


async def begin(dut: Any, **pace: Any) -> tuple[Bench, Gate]:
    given = parameters()
    gate = RecordGate(WordFormat(given["width"], given["vid_bits"]), given["depth"], given["groups"])
    dut.holds.value = dut.full.value = dut.come.value = 0
    dut.ordered.value = 1
    bench = await start(dut, gate, **pace)
    return bench, Gate(bench, gate)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def others_wait_and_own_ones_pass(dut: Any, idle: float, stall: float) -> None:
    bench, gate = await begin(dut, idle=idle, stall=stall)
    for layer in range(8):
        dut.holds.value = int(layer != 3)
        await bench.cycles(2)
        records = [(gate.make(), gate.group()) for _ in range(30)]
        # There is room for what is put aside.
        room = gate.depth - gate.sizes.longest
        for n, (record, others) in enumerate(records):
            room -= len(record) if others else 0
            records[n] = (record, others if room > 0 else 0)
        gate.drive(records)
        if layer != 3:
            own = [entry for entry in records if not entry[1]]
            await gate.count(sum(len(record) for record, _ in own))
            await bench.cycles(20)
            assert gate.records() == [record for record, _ in own]
            assert not int(dut.empty.value) or len(own) == len(records)
            # The end may come while others come in.
            late = [(gate.make(), gate.group()) for _ in range(9)]
            gate.drive(late)
            records += late
            await bench.cycles(bench.random.randrange(20))
            dut.holds.value = 0
        await gate.get(records)
        await bench.cycles(2)
        assert int(dut.empty.value)


@cocotb.test()
@cocotb.parametrize(ordered=[0, 1])
async def without_room_the_first_ones_pass(dut: Any, ordered: int) -> None:
    """So a gate that never opens stops nobody who could go on, and those of a group stay in order."""
    bench, gate = await begin(dut)
    dut.holds.value, dut.ordered.value = 1, ordered
    room = gate.depth if ordered else gate.unordered
    await bench.cycles(2)
    records = [(gate.make(), 1) for _ in range(4 * gate.depth)]
    gate.drive(records)
    # As soon as the longest record fits, no more leave.
    aside = room - 2 * gate.sizes.longest
    pairs = sum(len(record) for record, _ in records)
    await gate.count(pairs - room)
    await bench.cycles(50)
    assert aside <= pairs - len(gate.passed) <= room
    first = gate.records()
    assert first == [record for record, _ in records[: len(first)]]
    dut.holds.value = 0
    await gate.get(records)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def records_leave_with_their_group(dut: Any, stall: float) -> None:
    """One group after the other comes, also while records come; what is there leaves from the lowest group on."""
    bench, gate = await begin(dut, stall=stall)
    for _ in range(4):
        dut.holds.value, dut.come.value = 1, 0
        await bench.cycles(2)
        records = [(gate.make(), 1 + n % gate.groups) for n in range(4 * gate.groups)]
        bench.random.shuffle(records)
        # There is room for all.
        room, kept = gate.depth - gate.sizes.longest, []
        for record, group in records:
            room -= len(record)
            if room > 0:
                kept.append((record, group))
        gate.drive(kept)
        await bench.cycles(4 * gate.depth)
        assert not gate.passed
        for come in range(1, gate.groups + 1):
            dut.come.value = come
            before = [record for record, group in kept if group <= come]
            await gate.count(sum(map(len, before)))
            await bench.cycles(20)
            assert gate.records() == [
                record for number in range(1, come + 1) for record, group in kept if group == number
            ]
        assert int(dut.empty.value)
        gate.passed.clear()


@cocotb.test()
async def a_record_waits_for_its_flag(dut: Any) -> None:
    bench, gate = await begin(dut)
    record = gate.make()
    bench.drive("i", record)
    await bench.cycles(20)
    assert not gate.passed
    bench.drive("others", [1])
    await gate.get([(record, 1)])


@cocotb.test()
async def where_nothing_more_comes_its_last_pair_waits(dut: Any) -> None:
    """Whatever its flag says then: its beginning has passed."""
    bench, gate = await begin(dut)
    dut.full.value = dut.holds.value = 1
    await bench.cycles(2)
    for others in (0, 1):
        record = gate.make(gate.sizes.longest)
        bench.drive("i", record)
        await gate.count(len(record) - 1)
        await bench.cycles(20)
        assert len(gate.passed) == len(record) - 1
        bench.drive("others", [others])
        await gate.get([(record, others)])
    single = gate.make(1)
    bench.drive("i", single)
    await bench.cycles(20)
    assert not gate.passed
    bench.drive("others", [0])
    await gate.get([(single, 0)])


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    bench, gate = await begin(dut)
    for cycles in (3, 8, 20):
        dut.holds.value = 1
        await bench.cycles(2)
        gate.drive([(gate.make(), gate.group()) for n in range(20)])
        await bench.cycles(cycles)
        await bench.reset()
        gate.passed.clear()
        dut.holds.value = 0
        await bench.cycles(5)
        assert not gate.passed
        assert int(dut.empty.value)
        records = [(gate.make(), gate.group()) for n in range(9)]
        gate.drive(records)
        await gate.get(records)


@pytest.mark.parametrize(("width", "depth", "groups"), [(4, 20, 2), (40, 128, 8)])
def test_record_gate(width: int, depth: int, groups: int) -> None:
    sizes = {"width": width, "vid_bits": 5, "depth": depth, "groups": groups}
    design = RecordGate(WordFormat(width, 5), depth, groups)
    simulate(design, __name__, parameters=sizes, name=f"record_gate_{width}")


def test_a_gate_has_room_for_a_record() -> None:
    with pytest.raises(ValueError, match="depth must be more than 4, the longest record's pairs, not 4"):
        RecordGate(WordFormat(4, 5), 4)
