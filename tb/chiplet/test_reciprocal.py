"""Reciprocal: every divisor, every power of two, random sums, latency, one a cycle, reset in the middle."""

from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt

from golden.model.attention import reciprocals
from hw.chiplet.reciprocal import SUM_BITS, Reciprocal
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start


def exercise(bench: Bench, sums: npt.NDArray[np.int64]) -> None:
    """Send sums and expect their reciprocals."""
    scales = reciprocals(sums)
    bench.drive("i", sums.tolist())
    given = zip(scales.mantissa.tolist(), scales.exponent.tolist(), strict=True)
    bench.expect("o", [{"mantissa": mantissa, "exponent": exponent} for mantissa, exponent in given])


def random_sums(bench: Bench, count: int) -> npt.NDArray[np.int64]:
    """Return sums of all magnitudes: int64 [count]."""
    rng = np.random.default_rng(bench.random.getrandbits(64))
    return np.maximum(rng.integers(0, 1 << SUM_BITS, count) >> rng.integers(0, SUM_BITS, count), 1)


@cocotb.test()
async def powers_of_two_and_their_neighbours_are_exact(dut: Any) -> None:
    """Put the first bit at every place, alone, and with all or none of the bits behind it."""
    bench = await start(dut, Reciprocal())
    powers = 1 << np.arange(SUM_BITS)
    sums = np.concatenate([powers, powers + 1, 2 * powers - 1, powers + (powers >> 1)])
    exercise(bench, np.unique(sums))
    await bench.drain()


@cocotb.test()
async def every_normalised_sum_is_exact(dut: Any) -> None:
    """Give the 17 highest bits all values, at any place; bits behind them mean nothing."""
    bench = await start(dut, Reciprocal())
    rng = np.random.default_rng(bench.random.getrandbits(64))
    shift = rng.integers(0, SUM_BITS - 16, 1 << 16)
    exercise(bench, (rng.permutation(1 << 16) + (1 << 16) << shift) + (rng.integers(0, 1 << 14, 1 << 16) >> 14 - shift))
    await bench.drain(100_000)


@cocotb.test()
async def random_sums_are_exact(dut: Any) -> None:
    bench = await start(dut, Reciprocal(), idle=0.3)
    exercise(bench, random_sums(bench, parameters()["count"]))
    await bench.drain(40_000)


@cocotb.test()
async def a_result_comes_after_the_latency_and_one_a_cycle(dut: Any) -> None:
    bench = await start(dut, Reciprocal())
    for count in (1, 2, 50):
        began = bench.cycle
        exercise(bench, random_sums(bench, count))
        # The word driven now enters at the next edge.
        assert await bench.drain() - began == 1 + Reciprocal.LATENCY + count - 1


@cocotb.test()
async def reset_empties_the_pipeline(dut: Any) -> None:
    bench = await start(dut, Reciprocal())
    for cycles in range(1, Reciprocal.LATENCY + 3):
        exercise(bench, random_sums(bench, 100))
        await bench.cycles(cycles)
        await bench.reset()
        await bench.cycles(Reciprocal.LATENCY + 1)
        exercise(bench, random_sums(bench, 20))
        await bench.drain()


def test_reciprocal() -> None:
    simulate(Reciprocal(), __name__, parameters={"count": 4_000})
