"""Vector marks: vectors come in any order, slots are passed in turn and used again, against a plain model; resets."""

from collections import deque
from typing import Any

import cocotb
import pytest

from hw.community.vector_marks import VectorMarks
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

SIZES = (2, 16, 64)


class Ring:
    """A bench around the marks: gives slots away in turn, has vectors come in any order, looks at slots in use.

    Parameters
    ----------
    bench
        Its streams.
    slots
        Slots.
    """

    def __init__(self, bench: Bench, slots: int) -> None:
        self.bench, self.slots = bench, slots
        #: Slots in use, oldest first; those of them whose vector has come.
        self.used: deque[int] = deque()
        self.there: set[int] = set()
        self.next = 0

    async def cleared(self) -> None:
        """Wait until vectors may come; none is there before."""
        dut = self.bench.dut
        for _ in range(self.slots + 2):
            if int(dut.came__ready.value):
                return
            dut.slot.value = self.bench.random.randrange(self.slots)
            await self.bench.cycles(1)
            assert not int(dut.there.value)
            assert not int(dut.oldest.value)
        raise AssertionError("no vector may come")

    async def turn(self, come: float, leave: float, *, in_turn: bool = False) -> None:
        """Do a cycle: use a slot, have a vector come, pass a slot, each perhaps; compare what is there."""
        dut, rng = self.bench.dut, self.bench.random
        missing = [slot for slot in self.used if slot not in self.there]
        comes = missing and rng.random() < come
        slot = (missing[0] if in_turn else rng.choice(missing)) if comes else rng.randrange(self.slots)
        dut.came__valid.value, dut.came__payload.value = int(bool(comes)), slot
        passes = bool(self.used) and self.used[0] in self.there and rng.random() < leave
        dut.passes.value = int(passes)
        await self.bench.cycles(1)
        assert int(dut.came__ready.value)
        if comes:
            self.there.add(slot)
        if passes:
            self.there.remove(self.used.popleft())
        dut.came__valid.value = dut.passes.value = 0
        while len(self.used) < self.slots and rng.random() < 0.8:
            self.used.append(self.next)
            self.next = (self.next + 1) % self.slots
        if self.used:
            looked = rng.choice(self.used)
            dut.slot.value = looked
            await self.bench.cycles(1)
            assert int(dut.there.value) == (looked in self.there), f"slot {looked} of {self.used}, {self.there}"
            assert int(dut.oldest.value) == (self.used[0] in self.there)


async def begin(dut: Any) -> Ring:
    slots = parameters()["slots"]
    dut.came__valid.value = dut.came__payload.value = dut.slot.value = dut.passes.value = 0
    ring = Ring(await start(dut, VectorMarks(slots), manual=["came"]), slots)
    await ring.cleared()
    return ring


@cocotb.test()
@cocotb.parametrize(come=[0.2, 0.6, 1.0], leave=[0.1, 0.6, 1.0], in_turn=[False, True])
async def vectors_are_there_from_their_coming_to_their_end(dut: Any, come: float, leave: float, in_turn: bool) -> None:
    """Pass many rounds of the ring, full and nearly empty."""
    ring = await begin(dut)
    for _ in range(12 * ring.slots):
        await ring.turn(come, leave, in_turn=in_turn)


@cocotb.test()
async def an_old_vector_holds_up_no_other(dut: Any) -> None:
    """Each other slot has its vector, the oldest one has not; then it comes, and all are passed without a pause."""
    ring = await begin(dut)
    for _ in range(3):
        while len(ring.used) < ring.slots:
            await ring.turn(0.0, 0.0)
        oldest, *others = ring.used
        for slot in ring.bench.random.sample(others, len(others)):
            dut.came__valid.value, dut.came__payload.value = 1, slot
            await ring.bench.cycles(1)
            dut.came__valid.value = 0
            dut.slot.value = slot
            await ring.bench.cycles(1)
            assert int(dut.there.value)
            assert not int(dut.oldest.value)
        dut.came__valid.value, dut.came__payload.value = 1, oldest
        await ring.bench.cycles(1)
        dut.came__valid.value = 0
        dut.passes.value = 1
        for _ in range(ring.slots):
            await ring.bench.cycles(1)
            assert int(dut.oldest.value)
        dut.passes.value = 0
        ring.used.clear()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    """Reset in the middle of a round, when bits have either meaning."""
    ring = await begin(dut)
    for _ in range(6):
        for _ in range(ring.bench.random.randrange(4 * ring.slots)):
            await ring.turn(0.7, 0.7)
        await ring.bench.reset()
        ring = Ring(ring.bench, ring.slots)
        await ring.cleared()
    for _ in range(4 * ring.slots):
        await ring.turn(0.7, 0.7)


def test_sizes_are_checked() -> None:
    for slots in (0, 1, 3, 48):
        with pytest.raises(ValueError, match=f"slots must be a power of two from 2 on, not {slots}"):
            VectorMarks(slots)


@pytest.mark.parametrize("slots", SIZES)
def test_vector_marks(slots: int) -> None:
    simulate(VectorMarks(slots), __name__, parameters={"slots": slots})
