"""Wishes for others' rows wait until these have come; own ones pass them; each passes once."""

from collections import Counter
from typing import Any

import cocotb
import pytest

from hw.community.halo_gate import HaloGate
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start


async def begin(dut: Any, **pace: Any) -> tuple[Bench, HaloGate, list[int]]:
    design = HaloGate(**parameters())
    dut.exchanging.value = dut.first.value = dut.vertices.value = 0
    bench = await start(dut, design, **pace)
    passed: list[int] = []
    bench.take("o", passed.append)
    return bench, design, passed


async def _passes(bench: Bench, passed: list[int], count: int) -> None:
    """Wait until so many have passed."""
    await bench.until(lambda: len(passed) == count)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def others_wait_and_own_ones_pass(dut: Any, idle: float, stall: float) -> None:
    """Layer after layer with other own vertices, of which some have no exchange."""
    bench, design, passed = await begin(dut, idle=idle, stall=stall)
    rng, vids = bench.random, 1 << design.vid_bits
    for layer in range(12):
        first, exchanges = rng.randrange(vids), bool(layer % 3)
        vertices = rng.choice((0, 1, vids // 3, vids - first))
        own = {vid for vid in range(first, first + vertices) if vid < vids}
        dut.first.value, dut.vertices.value, dut.exchanging.value = first, vertices, int(exchanges)
        await bench.cycles(2)
        wishes = [rng.randrange(vids) for _ in range(rng.randrange(2 * design.depth))]
        others = [vid for vid in wishes if vid not in own]
        # There is room for what is put aside.
        wishes = [vid for vid in wishes if vid in own] + others[: design.depth]
        rng.shuffle(wishes)
        passed.clear()
        bench.drive("i", wishes)
        if exchanges:
            mine = [vid for vid in wishes if vid in own]
            await _passes(bench, passed, len(mine))
            await bench.cycles(20)
            assert Counter(passed) == Counter(mine)
            # The end may come at any time.
            late = [rng.randrange(vids) for _ in range(rng.randrange(20))]
            wishes += late
            bench.drive("i", late)
            dut.exchanging.value = 0
        await _passes(bench, passed, len(wishes))
        assert Counter(passed) == Counter(wishes)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    bench, design, passed = await begin(dut)
    dut.exchanging.value = 1
    await bench.cycles(2)
    bench.drive("i", list(range(min(design.depth, 6))))
    await bench.cycles(20)
    assert passed == []
    await bench.reset()
    dut.exchanging.value = 0
    await bench.cycles(20)
    assert passed == []
    assert not int(dut.o__valid.value)


@pytest.mark.parametrize(("vid_bits", "depth"), [(7, 24), (3, 3), (13, 512)])
def test_halo_gate(vid_bits: int, depth: int) -> None:
    sizes = {"vid_bits": vid_bits, "depth": depth}
    simulate(HaloGate(**sizes), __name__, parameters=sizes, name=f"halo_gate_{depth}")


def test_a_gate_needs_room() -> None:
    with pytest.raises(ValueError, match="depth must be at least 3, not 2"):
        HaloGate(4, 2)
