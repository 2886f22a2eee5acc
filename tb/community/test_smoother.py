"""Smoother: the golden allocator's decisions, extreme records, room, loads at their limits, resets."""

from typing import Any

import cocotb
import pytest

from golden.locator.allocator import Allocator
from hw.community.smoother import LOAD_BITS, Smoother
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

_MOST = (1 << LOAD_BITS) - 1


class Ring:
    """Loads and turn by definition, with room, for what `Allocator` does not have."""

    def __init__(self, pes: int) -> None:
        self.pes, self.turn, self.loads = pes, 0, [0] * pes

    def choose(self, hops: int, room: int) -> int | None:
        """Return the PE of the next record, None if none has room."""
        order = [self.turn]
        order += [(self.turn + sign * hop) % self.pes for hop in range(1, hops + 1) for sign in (1, -1)]
        able = [pe for pe in order if room >> pe & 1]
        return min(able, key=lambda pe: self.loads[pe]) if able else None

    def extreme(self, pe: int, work: int, split: int) -> bool:
        """Return whether a record of so much work is extreme for its PE."""
        return self.loads[pe] + work > min(self.loads) + split

    def give(self, pe: int, work: int) -> None:
        """Give a record of so much work to a PE."""
        self.loads[pe] = min(_MOST, self.loads[pe] + work)
        self.turn = (self.turn + 1) % self.pes
        if min(self.loads) >= (_MOST + 1) // 2:
            self.loads = [load - (_MOST + 1) // 2 for load in self.loads]


async def begin(dut: Any) -> tuple[Bench, Smoother, Ring]:
    model = Smoother(**({"pes": 5, "work_bits": 8} | parameters()))
    bench = await start(dut, model)
    dut.take.value = dut.work.value = dut.done.value = 0
    if model.remaps:
        dut.whole.value = dut.split.value = 0
    dut.hops.value = 3
    dut.room.value = (1 << model.pes) - 1
    return bench, model, Ring(model.pes)


async def look(bench: Bench, ring: Ring, hops: int, room: int, whole: int) -> tuple[int, bool]:
    """Return the PE of the next record, which should get it, and whether it is extreme, being of so much work."""
    dut = bench.dut
    dut.room.value = room
    remaps = hasattr(dut, "split")
    if remaps:
        dut.whole.value = whole
    await bench.pulse(dut.done, then=2)
    wanted = ring.choose(hops, room)
    assert wanted is not None
    assert int(dut.pe.value) == 1 << wanted
    assert int(dut.moved.value) == (wanted != ring.turn)
    extreme = remaps and ring.extreme(wanted, whole, int(dut.split.value))
    assert not remaps or int(dut.extreme.value) == extreme
    return wanted, extreme


async def decide(bench: Bench, ring: Ring, hops: int, room: int, work: int) -> int:
    """Have a record of so much work go where it should; return the PE."""
    wanted, _ = await look(bench, ring, hops, room, work)
    dut = bench.dut
    # Room may be gone again.
    dut.room.value = bench.random.getrandbits(len(dut.room))
    dut.work.value = work
    await bench.pulse(dut.take)
    ring.give(wanted, work)
    return wanted


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 2, 3])
async def decisions_are_those_of_the_allocator(dut: Any, hops: int) -> None:
    bench, model, ring = await begin(dut)
    dut.hops.value = hops
    golden, everybody = Allocator(model.pes, hops, 1 << 31, 1 << 15), (1 << model.pes) - 1
    for _ in range(300):
        work = bench.random.choice((1, 2, 3, bench.random.randrange(1 << len(dut.work))))
        golden.add(0, work, 1)
        # Without hops loads drift apart, and neither is asked for them.
        assert await decide(bench, ring, hops, everybody, work) == golden.allocation.assignments[-1].pe


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 2, 3])
async def extreme_records_are_split_as_the_allocator_splits_them(dut: Any, hops: int) -> None:
    """Have those that are found extreme go in pieces, by thresholds of all sizes."""
    bench, model, ring = await begin(dut)
    if not model.remaps:
        return
    everybody, most = (1 << model.pes) - 1, (1 << len(dut.work)) - 1
    dut.hops.value = hops
    for split in (0, 1, most // 8, most // 2, most, _MOST // 2):
        dut.split.value = split
        await bench.reset()
        grain, ring = max(1, most // 16), Ring(model.pes)
        golden = Allocator(model.pes, hops, split, grain, _MOST)
        for number in range(100):
            nodes = bench.random.choice((1, 2, bench.random.randint(1, most // 2)))
            hubs = bench.random.randint(0, most - 2 * nodes)
            golden.add(number, nodes, 2, hubs)
            shares = [one for one in golden.allocation.assignments if one.task == number]
            _, extreme = await look(bench, ring, hops, everybody, 2 * nodes + hubs)
            assert len(shares) == (-(-nodes // grain) if extreme else 1)
            for share in shares:
                assert await decide(bench, ring, hops, everybody, 2 * share.rows + hubs) == share.pe


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 3])
async def only_pes_with_room_get_records(dut: Any, hops: int) -> None:
    bench, model, ring = await begin(dut)
    dut.hops.value = hops
    for _ in range(300):
        if model.remaps:
            dut.split.value = bench.random.randrange(_MOST // 2 + 1)
        room = bench.random.getrandbits(model.pes)
        if ring.choose(hops, room) is None:
            dut.room.value = room
            await bench.pulse(dut.done, then=2)
            assert not int(dut.pe.value)
            # The record that waits gets the first one that has room.
            room |= 1 << ring.turn
            dut.room.value = room
            await bench.cycles(2)
            assert int(dut.pe.value) == 1 << ring.turn
        await decide(bench, ring, hops, room, bench.random.randrange(1 << len(dut.work)))


@cocotb.test()
async def a_decision_stays_until_the_next_is_asked_for(dut: Any) -> None:
    """Change room while a record waits, and while it goes: the rest of it follows to the same PE."""
    bench, model, ring = await begin(dut)
    for _ in range(60):
        work = bench.random.randrange(1 << len(dut.work))
        wanted, _ = await look(bench, ring, 3, (1 << model.pes) - 1, work)
        dut.work.value = work
        for taken in (False, True):
            if taken:
                await bench.pulse(dut.take)
                ring.give(wanted, work)
            for _ in range(3):
                dut.room.value = bench.random.getrandbits(model.pes)
                await bench.cycles(1)
                assert int(dut.pe.value) == 1 << wanted


@cocotb.test()
async def a_record_may_end_as_it_begins(dut: Any) -> None:
    """Ask for the next decision in the cycle in which a record goes: it sees the loads with that record."""
    bench, model, ring = await begin(dut)
    everybody = (1 << model.pes) - 1
    wanted, _ = await look(bench, ring, 3, everybody, 0)
    for _ in range(60):
        work = bench.random.randrange(1 << len(dut.work))
        dut.work.value, dut.take.value, dut.done.value = work, 1, 1
        await bench.cycles(1)
        dut.take.value = dut.done.value = 0
        ring.give(wanted, work)
        found = ring.choose(3, everybody)
        assert found is not None
        wanted = found
        await bench.cycles(2)
        assert int(dut.pe.value) == 1 << wanted


@cocotb.test()
async def loads_stay_at_their_largest_value(dut: Any) -> None:
    """One PE gets all of the work, then another, then the others catch up."""
    bench, model, ring = await begin(dut)
    most = (1 << len(dut.work)) - 1
    everybody = (1 << model.pes) - 1
    for pe in (0, model.pes - 1):
        for _ in range(min(600, 3 * _MOST // most)):
            room = 1 << pe if ring.choose(3, 1 << pe) is not None else everybody
            await decide(bench, ring, 3, room, most)
    for _ in range(200):
        await decide(bench, ring, 3, everybody, bench.random.randrange(most + 1))


@cocotb.test()
@cocotb.parametrize(words=[1, 2, 3])
async def a_decision_comes_soon_after_another(dut: Any, words: int) -> None:
    """Take a cycle for each word of a record, however few it has."""
    bench, model, ring = await begin(dut)
    most = (1 << len(dut.work)) - 1
    if model.remaps:
        dut.split.value = most // 4
    await bench.cycles(2)
    for _ in range(200):
        wanted = ring.choose(3, (1 << model.pes) - 1)
        assert wanted is not None
        assert int(dut.pe.value) == 1 << wanted
        if model.remaps:
            assert int(dut.extreme.value) == ring.extreme(wanted, int(dut.whole.value), most // 4)
        work = bench.random.randrange(most + 1)
        dut.work.value = work
        ring.give(wanted, work)
        for word in range(words):
            dut.take.value, dut.done.value = int(word == 0), int(word == words - 1)
            await bench.cycles(1)
        dut.take.value = dut.done.value = 0
        if model.remaps:
            # Work of the next record, which is there as soon as its PE.
            dut.whole.value = bench.random.randrange(most + 1)
        # The bench drives and reads behind an edge.
        await bench.cycles(1)


@cocotb.test()
async def a_reset_forgets_loads_and_turn(dut: Any) -> None:
    bench, model, ring = await begin(dut)
    for _ in range(3):
        for _ in range(7):
            await decide(bench, ring, 3, (1 << model.pes) - 1, bench.random.randrange(1 << len(dut.work)))
        await bench.reset()
        ring = Ring(model.pes)
    for _ in range(2 * model.pes):
        await decide(bench, ring, 3, (1 << model.pes) - 1, 1)


@pytest.mark.parametrize(("pes", "remaps"), [(1, False), (3, True), (8, True)])
def test_smoother(pes: int, remaps: bool) -> None:
    sizes: dict[str, Any] = {"pes": pes, "work_bits": 8, "remaps": remaps}
    simulate(Smoother(**sizes), __name__, parameters=sizes)


@pytest.mark.parametrize(
    ("pes", "work_bits", "what"), [(0, 8, "pes"), (65, 8, "pes"), (4, 0, "work_bits"), (4, 11, "work_bits")]
)
def test_sizes_are_checked(pes: int, work_bits: int, what: str) -> None:
    with pytest.raises(ValueError, match=f"{what} must be in 1"):
        Smoother(pes, work_bits)
