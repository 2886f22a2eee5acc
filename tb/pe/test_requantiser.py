"""Requantiser: every corner of its operands, random ones, latency, one element a cycle, reset in the middle."""

from itertools import product
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
import pytest

from golden.model.rounding import VALUE_MAX, VALUE_MIN, requantise
from hw.pe.factories import requantiser
from hw.pe.requantiser import Requantiser
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec

#: Columns of the operands: signed 48 or fewer and 32 bits, then unsigned 16, 5, 6 and 1 bit.
FIELDS = ("value", "bias", "mantissa", "exponent", "shift", "relu")
Operands = npt.NDArray[np.int64]

VALUES = (0, 1, -1, 2, 3, 5, -3, 0x7FFF, 0x8000, -0x8000, (1 << 47) - 1, -(1 << 47))
BIASES = (0, 1, -1, (1 << 31) - 1, -(1 << 31))
MANTISSAS = (0, 1, 0x8000, 0xFFFF)


def expected(rows: Operands) -> npt.NDArray[np.int16]:
    """Return the golden results of rows of operands, int16 [n]."""
    results = np.zeros(len(rows), np.int16)
    for shift in np.unique(rows[:, 4]):
        chosen = rows[:, 4] == shift
        value, bias, mantissa, exponent, _, relu = rows[chosen].T
        results[chosen] = requantise(value, mantissa, exponent, int(shift), bias)
        results[chosen] = np.where(relu == 1, np.maximum(results[chosen], 0), results[chosen])
    return results


def block() -> Requantiser:
    """Return the requantiser of this bench."""
    return requantiser(**parameters())


def exercise(bench: Bench, rows: Operands) -> None:
    """Send `rows`, as far as this requantiser has their operands, and expect their results."""
    design, rows = block(), rows.copy()
    spare = 64 - design.value_bits
    rows[:, 0] = rows[:, 0] << spare >> spare
    if not design.bias:
        rows[:, [1, 5]] = 0
    codec = Codec(design.i.payload.shape())
    words = (dict(zip(FIELDS, map(int, row), strict=True)) for row in rows)
    scales = ({**word, "scale": word["exponent"] << 16 | word["mantissa"]} for word in words)
    bench.drive("i", [codec.pack({name: word[name] for name in design.i.payload.shape().members}) for word in scales])
    bench.expect("o", expected(rows).tolist())


def generator(bench: Bench) -> np.random.Generator:
    return np.random.default_rng(bench.random.getrandbits(64))


def random_rows(rng: np.random.Generator, count: int) -> Operands:
    """Return operands of all magnitudes whose results spread over the range and past it, int64 [count, 6]."""
    bits = rng.integers(1, 49, count)
    value = rng.integers(-(1 << 47), 1 << 47, count) >> (48 - bits)
    bias = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)
    mantissa = rng.integers(0x8000, 0x10000, count)
    exponent = rng.integers(0, 32, count)
    aimed = np.clip(bits + 16 - rng.integers(8, 20, count) - exponent, 0, 63)
    shift = np.where(rng.random(count) < 0.2, rng.integers(0, 64, count), aimed)
    return np.stack([value, bias, mantissa, exponent, shift, rng.integers(0, 2, count)], axis=1)


@cocotb.test()
async def corner_operands_are_exact(dut: Any) -> None:
    """Every combination of extreme operands, at shifts and exponents round the steps of the shifter."""
    bench = await start(dut, block())
    shifts = sorted({0, 1, 14, 15, 16, 17, 31, 32, 46, 47, 48, 62, 63})
    rows = [
        row
        for row in product(VALUES, BIASES, MANTISSAS, (0, 15, 31), shifts, (0,))
        if row[1] in (0, -1) or row[3] != 15
    ]
    rng = generator(bench)
    chosen = np.array(rows, np.int64)[rng.permutation(len(rows))[: parameters()["corners"]]]
    chosen[:, 5] = rng.integers(0, 2, len(chosen))
    exercise(bench, chosen)
    await bench.drain(len(chosen) + 100)


@cocotb.test()
async def every_shift_and_exponent_rounds_ties_to_even(dut: Any) -> None:
    """Odd and even quotients exactly half way, and one unit below and above."""
    bench = await start(dut, block())
    rows = []
    for shift, exponent in product(range(64), range(32)):
        total = shift + exponent
        quotient = bench.random.randrange(-0x8000, 0x8000)
        # 2^15 * value is the numerator, so a value of (2 q + 1) * 2^(total - 16) lies half way.
        if 16 <= total <= 47:
            half = (2 * quotient + 1) << (total - 16)
            rows += [(half + nudge, 0, 0x8000, exponent, shift, 0) for nudge in (-1, 0, 1)]
        # The same from the bias alone: bias / 2^shift.
        if 1 <= shift <= 15:
            rows.append((0, (2 * quotient + 1) << (shift - 1), 0x8000, exponent, shift, 0))
        rows.append((bench.random.getrandbits(40), 0, 0x8001, exponent, shift, 1))
    exercise(bench, np.array(rows, np.int64))
    await bench.drain(len(rows) + 100)


@cocotb.test()
async def results_saturate_on_both_sides(dut: Any) -> None:
    """Try the last values that fit, those that round up to one that does not, and those far beyond."""
    bench = await start(dut, block())
    rows = []
    for shift, relu in product((16, 20, 24, 30), (0, 1)):
        unit = 1 << (shift - 15)
        for edge in (VALUE_MAX, VALUE_MIN, 0):
            for offset in (-unit, -unit // 2 - 1, -unit // 2, -1, 0, 1, unit // 2 - 1, unit // 2, unit // 2 + 1, unit):
                rows.append((edge * unit + offset, 0, 0x8000, 0, shift, relu))
    # One bit of the sum beyond the result at a time, both signs.
    rows += [(sign << bit, 0, 0x8000, 0, 0, 0) for bit in range(47) for sign in (1, -1)]
    exercise(bench, np.array(rows, np.int64))
    await bench.drain(len(rows) + 100)


@cocotb.test()
async def one_bit_decides_wherever_it_lies(dut: Any) -> None:
    """Try a tie with one more bit below the half, and a sum with one bit beyond the result that is not its sign's."""
    bench = await start(dut, block())
    rows = []
    for shift in range(1, 46):
        for bit in range(shift - 1):
            sign = bench.random.choice((1, -1))
            half = (2 * bench.random.getrandbits(min(8, 45 - shift)) << shift) + (1 << shift - 1)
            rows.append((sign * half + (1 << bit), 0, 1, 0, shift, 0))
    for total in range(0, 2 * 47, 15):
        shift, exponent = min(total, 63), max(0, total - 63)
        for bit in range(62):
            # Beyond 46 bits the value alone does not reach; the bias turns -2^bit into its complement.
            value, mantissa = 1 << min(bit, 46), 1 << max(0, bit - 46)
            rows += [(value, 0, mantissa, exponent, shift, 0), (-value, -1, mantissa, exponent, shift, 0)]
    exercise(bench, np.array(rows, np.int64))
    await bench.drain(len(rows) + 100)


@cocotb.test()
async def random_operands_are_exact(dut: Any) -> None:
    bench = await start(dut, block(), idle=parameters()["idle"])
    rows = random_rows(generator(bench), parameters()["count"])
    exercise(bench, rows)
    await bench.drain(3 * len(rows) + 100)


@cocotb.test()
async def a_result_comes_after_the_latency_and_one_a_cycle(dut: Any) -> None:
    bench = await start(dut, block())
    for count in (1, 2, 50):
        began = bench.cycle
        exercise(bench, random_rows(generator(bench), count))
        # The word driven now enters at the next edge.
        assert await bench.drain() - began == 1 + block().latency + count - 1


@cocotb.test()
async def reset_empties_the_pipeline(dut: Any) -> None:
    bench = await start(dut, block())
    rng = generator(bench)
    for cycles in range(1, block().latency + 3):
        exercise(bench, random_rows(rng, 100))
        await bench.cycles(cycles)
        await bench.reset()
        await bench.cycles(block().latency + 1)
        exercise(bench, random_rows(rng, 20))
        await bench.drain()


@pytest.mark.parametrize("sizes", [{}, {"value_bits": 41}, {"bias": False}], ids=["whole", "narrow", "unbiased"])
def test_requantiser(sizes: dict[str, Any]) -> None:
    simulate(requantiser(**sizes), __name__, parameters={**sizes, "count": 50_000, "corners": 1 << 20, "idle": 0.0})


@pytest.mark.parametrize("bits", [32, 49])
def test_widths_of_values_are_checked(bits: int) -> None:
    with pytest.raises(ValueError, match=rf"^value_bits must be in 33\.\.48, not {bits}$"):
        Requantiser(bits)
