"""Vertices apart: every hub and every vertex of a range goes to one PE, in turn, the hungry ones first."""

from collections import Counter
from functools import partial
from typing import Any

import cocotb
import pytest

from hw.community.vertex_dispatcher import VertexDispatcher
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

_VIDS = 1 << 32


class PEs:
    """Takes vertices and gives their rows back some time later."""

    def __init__(self, bench: Bench, design: VertexDispatcher) -> None:
        self.bench, self.pes, self.units = bench, design.pes, design.units
        self.taken: list[list[int]] = [[] for _ in range(self.pes)]
        self.order: list[int] = []
        self.owed = [0] * self.pes
        for n in range(self.pes):
            bench.take(f"o__{n}", partial(self._take, n))
        cocotb.start_soon(self._return())

    def _take(self, pe: int, vid: int) -> None:
        self.taken[pe].append(vid)
        self.order.append(pe)
        self.owed[pe] += 1

    async def _return(self) -> None:
        """Now and then a row comes back; it is busy as long as one has not."""
        while True:
            for n in range(self.pes):
                # No PE owes as many as cannot be counted.
                gives = self.owed[n] and (self.owed[n] > 60 or self.bench.random.random() < 0.3)
                self.owed[n] -= bool(gives)
                getattr(self.bench.dut, f"returned__{n}").value = int(bool(gives))
            owed = sum(self.owed)
            await self.bench.cycles(1)
            assert int(self.bench.dut.busy.value) or not owed or not sum(self.owed)

    def all(self) -> Counter[int]:
        """Return how often each vertex was taken."""
        return Counter(vid for taken in self.taken for vid in taken)


async def begin(dut: Any, **pace: Any) -> tuple[Bench, PEs]:
    design = VertexDispatcher(**parameters())
    dut.start.value = dut.first.value = dut.vertices.value = dut.go.value = 0
    for n in range(design.pes):
        getattr(dut, f"hungry__{n}").value = getattr(dut, f"returned__{n}").value = 0
    bench = await start(dut, design, **pace)
    return bench, PEs(bench, design)


async def begin_range(bench: Bench, first: int, vertices: int) -> None:
    dut = bench.dut
    dut.first.value, dut.vertices.value, dut.start.value = first, vertices, 1
    await bench.cycles(1)
    dut.start.value = 0
    await bench.cycles(1)


async def rest(bench: Bench) -> None:
    """Wait until nothing is under way."""
    while not int(bench.dut.ended.value) or int(bench.dut.busy.value):
        await bench.cycles(1)
        assert bench.cycle < 100_000
    await bench.cycles(5)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def every_vertex_once(dut: Any, idle: float, stall: float) -> None:
    """Ranges, hubs of all units, and both at the same time."""
    bench, pes = await begin(dut, idle=idle, stall=stall)
    dut.go.value = 1
    wanted: Counter[int] = Counter()
    some = (bench.random.randrange(_VIDS - 300), bench.random.randrange(300))
    for first, vertices in ((0, 1), (7, 0), (5, 2), (100, 40), (_VIDS - 90, 90), (0, 0), (3, 300), (9, 200), some):
        for n in range(pes.units):
            hubs = [bench.random.randrange(_VIDS) for _ in range(bench.random.randrange(60))]
            wanted.update(hubs)
            bench.drive(f"wanted__{n}", hubs)
        wanted.update(range(first, first + vertices))
        for n in range(pes.pes):
            getattr(dut, f"hungry__{n}").value = bench.random.getrandbits(1)
        await begin_range(bench, first, vertices)
        await rest(bench)
        await bench.drain(quiet=1)
        await rest(bench)
        assert pes.all() == wanted


@cocotb.test()
async def in_turn_and_the_hungry_first(dut: Any) -> None:
    """Without stalls a vertex a cycle; PEs have their turns, of those that are hungry if there are any."""
    bench, pes = await begin(dut)
    dut.go.value = 1
    for hungry in range(1 << pes.pes):
        for n in range(pes.pes):
            getattr(dut, f"hungry__{n}").value = hungry >> n & 1
        pes.order.clear()
        began = bench.cycle
        await begin_range(bench, 50, 60)
        await bench.until(lambda: len(pes.order) == 60, 1000)
        chosen = [n for n in range(pes.pes) if hungry >> n & 1] or list(range(pes.pes))
        # One PE takes a vertex in every cycle only if its queue is never full.
        assert bench.cycle - began < 60 + 10
        after = {n: chosen[(k + 1) % len(chosen)] for k, n in enumerate(chosen)}
        assert set(pes.order) == set(chosen)
        assert all(after[a] == b for a, b in zip(pes.order, pes.order[1:], strict=False))
        await rest(bench)


@cocotb.test()
async def a_range_waits_and_hubs_do_not(dut: Any) -> None:
    bench, pes = await begin(dut)
    await begin_range(bench, 10, 20)
    bench.drive("wanted__0", [1000, 1001])
    await bench.cycles(50)
    assert pes.all() == Counter([1000, 1001])
    assert not int(dut.ended.value)
    dut.go.value = 1
    await rest(bench)
    assert pes.all() == Counter([1000, 1001, *range(10, 30)])


@cocotb.test()
async def a_full_pe_is_left_out(dut: Any) -> None:
    """One that takes nothing gets as many as wait in front of it; the others get the rest."""
    bench, pes = await begin(dut)
    bench.pace(stall={"o__0": 1.0})
    dut.go.value = 1
    await begin_range(bench, 0, 50)
    await bench.cycles(80)
    assert sum(map(len, pes.taken)) == (48 if pes.pes > 1 else 0)
    assert not pes.taken[0]
    assert int(dut.busy.value)
    bench.pace(stall={"o__0": 0.0})
    await rest(bench)
    assert pes.all() == Counter(range(50))


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    bench, pes = await begin(dut, stall=0.9)
    dut.go.value = 1
    await begin_range(bench, 0, 500)
    bench.drive("wanted__0", range(600, 620))
    await bench.cycles(30)
    pes.owed = [0] * pes.pes
    await bench.reset()
    pes.owed = [0] * pes.pes
    assert not int(dut.busy.value)
    assert int(dut.ended.value)


@pytest.mark.parametrize(("pes", "units"), [(3, 2), (1, 1), (8, 4)])
def test_vertex_dispatcher(pes: int, units: int) -> None:
    sizes = {"pes": pes, "units": units, "nodes": 300}
    simulate(VertexDispatcher(**sizes), __name__, parameters=sizes, name=f"vertex_dispatcher_{pes}")
