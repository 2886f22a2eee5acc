"""Attention unit: coefficients and reciprocals of all magnitudes, long rows, stalls, exact cycles, resets."""

from dataclasses import dataclass
from typing import Any

import cocotb
import pytest

from contracts import SCALE
from contracts.attention import COEFFICIENT_MAX, MARGIN_MAX
from golden.model.attention import exponentials, logarithms, reciprocals
from hw.chiplet.factories import attention
from hw.chiplet.reciprocal import SUM_BITS
from hw.pe.formats import Coefficient
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from sim.harness.formal import prove_all
from tb.chiplet.formal_attention import PROOFS

#: Data bits and beats of the longest row.
CONFIGURATIONS = {"narrow": (64, 4), "wide": (256, 8)}


@dataclass
class Work:
    """What the unit is set to, and what must come of destinations."""

    bench: Bench
    margin: int = 4
    positive: int = 1 << 12
    negative: int = 819
    beats: int = 1

    async def begin(self) -> None:
        """Set the unit up, a cycle before the first beat."""
        unit = attention(**parameters())
        settings = {"margin": self.margin, "positive": self.positive, "negative": self.negative}
        self.bench.dut.settings.value = Codec(unit.settings.shape()).pack({**settings, "last_beat": self.beats - 1})
        await self.bench.cycles(2)

    def run(self, scores: list[tuple[int, int]]) -> None:
        """Send a destination with the scores of its own row and of its neighbours' rows, and expect its beats."""
        random, bench = self.bench.random, self.bench
        pairs = [source + scores[0][1] for source, _ in scores]
        relative = logarithms(pairs, self.positive, self.negative)
        relative -= relative[0]
        others = random.choices(list(Coefficient), k=len(scores) - 1)
        kinds = [Coefficient.SELF, *others]
        if self.margin:
            coefficients = exponentials(relative, self.margin) * [kind != Coefficient.ZERO for kind in kinds]
            scale = reciprocals(coefficients.sum().reshape(1))
            factor = {"mantissa": int(scale.mantissa[0]), "exponent": int(scale.exponent[0])}
        for row, (source, target) in enumerate(scores):
            for number in range(self.beats):
                given = {"scalar": random.randrange(-(1 << 15), 1 << 15), "coefficient": kinds[row].value}
                given["data"] = random.getrandbits(parameters()["data_width"])
                if not number:
                    given["data"] = given["data"] >> 32 << 32 | (target & 0xFFFF) << 16 | source & 0xFFFF
                last = row == len(scores) - 1 and number == self.beats - 1
                given |= {"first": int(not row and not number), "last": int(last)}
                scale_given = SCALE.unpack(random.getrandbits(32))
                bench.drive("i", [{**given, "scale": scale_given}])
                if not self.margin:
                    bench.expect("o", [{**given, "scale": scale_given}])
                    continue
                wanted = {**given, "scalar": int(coefficients[row])}
                bench.expect("o", [{**wanted, "scale": factor if last else scale_given}])

    def scores(self, rows: int, spread: int) -> list[tuple[int, int]]:
        """Return random scores up to a magnitude of `spread`."""
        random = self.bench.random
        return [(random.randint(-spread, spread - 1), random.randint(-spread, spread - 1)) for _ in range(rows)]


async def make(dut: Any, *, idle: float = 0.0, stall: float = 0.0, **settings: int) -> Work:
    work = Work(await start(dut, attention(**parameters()), idle=idle, stall=stall), **settings)
    await work.begin()
    return work


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def random_destinations_under_stalls(dut: Any, idle: float, stall: float) -> None:
    """All margins, with and without attention between, rows of all lengths, scores from close to far apart."""
    work = await make(dut, idle=idle, stall=stall)
    for margin in (*range(MARGIN_MAX + 1), 0, 3):
        work.margin, work.beats = margin, work.bench.random.randint(1, parameters()["max_beats"])
        work.positive, work.negative = (work.bench.random.randint(-(1 << 15), (1 << 15) - 1) for _ in range(2))
        await work.begin()
        for _ in range(8):
            work.run(work.scores(work.bench.random.choice((1, 1, 2, 3, 9)), 1 << work.bench.random.randint(1, 15)))
        await work.bench.drain(20_000)


@cocotb.test()
async def extreme_scores_and_slopes_saturate(dut: Any) -> None:
    work = await make(dut)
    low, high = -(1 << 15), (1 << 15) - 1
    for positive, negative in ((high, low), (low, high), (high, high), (low, low), (0, 0), (1, -1)):
        work.positive, work.negative = positive, negative
        for margin in (1, 8, MARGIN_MAX):
            work.margin = margin
            await work.begin()
            for own in ((low, low), (high, high), (low, high), (0, 0)):
                work.run([own, (low, 0), (high, 0), (min(-own[1], high), 0), (-1 - own[1], 5), own])
            await work.bench.drain()


@cocotb.test()
async def every_step_of_the_table_is_exact(dut: Any) -> None:
    """Differences of all steps round the own row's, with every remainder's rounding."""
    work = await make(dut, positive=1 << 10, negative=1 << 10, margin=3)
    work.run([(0, 0), *((step, 0) for step in range(-8 * 4096, 4 * 4096, 3))])
    await work.bench.drain(40_000)
    # Slopes of one step of 2^-22: the last bit below half a step decides.
    work.positive = work.negative = 1
    await work.begin()
    for source in (2047, 2048, 2049, -2048, -2049, 6143, 6144, 6145):
        work.run([(0, 0), (source, 0)])
    await work.bench.drain()


@cocotb.test()
async def the_last_bits_of_logarithms_round(dut: Any) -> None:
    """With slopes of any bits, differences that lie from a few units to many below and above half a step."""
    work, step = await make(dut, margin=6), 1 << 12
    random = work.bench.random
    distances = (*range(-4, 5), *(sign * 3 << place for place in range(1, 9) for sign in (-1, 1)))
    for _ in range(12):
        slope = random.randrange(1, 1 << 13, 2)
        work.positive = work.negative = slope
        await work.begin()
        own = random.randrange(-step, step)
        # The scores whose products have the wanted remainders: an odd slope has an inverse.
        wanted = [own * slope + step // 2 + distance for distance in distances]
        sources = [value * pow(slope, -1, step) % step + step * random.randint(-4, 3) for value in wanted]
        work.run([(own, 0), *((source, 0) for source in sources)])
        await work.bench.drain()


@cocotb.test()
@cocotb.parametrize(margin=[0, 5])
async def a_beat_a_cycle_is_sustained(dut: Any, margin: int) -> None:
    """Destinations of one beat each too: the last beat waits for the reciprocal, the others are not held up."""
    work = await make(dut, margin=margin)
    for rows in (1, 3):
        began = work.bench.cycle
        for _ in range(120 // rows):
            work.run(work.scores(rows, 1 << 12))
        assert await work.bench.drain() - began <= 121 + (19 if margin else 0)


@cocotb.test()
async def a_stalled_output_loses_nothing(dut: Any) -> None:
    """As many beats as there is room for, of one row each and of destinations of one row."""
    work = await make(dut)
    for rows, beats in ((1, 1), (40, 1), (20, parameters()["max_beats"])):
        work.beats = beats
        await work.begin()
        work.bench.pace(stall=1.0)
        for _ in range(80 // rows):
            work.run(work.scores(rows, 1 << 12))
        await work.bench.cycles(100)
        work.bench.pace(stall=0.0)
        await work.bench.drain()


@cocotb.test()
async def reset_in_the_middle_is_followed_by_right_rows(dut: Any) -> None:
    work = await make(dut)
    for cycles in (*range(1, 24), 40):
        work.beats = work.bench.random.randint(1, parameters()["max_beats"])
        await work.begin()
        for rows in (1, 2, 5, 9, 30):
            work.run(work.scores(rows, 1 << 12))
        await work.bench.cycles(cycles)
        await work.bench.reset()
        await work.begin()
        for rows in (3, 1):
            work.run(work.scores(rows, 1 << 12))
        await work.bench.drain()


@cocotb.test()
async def the_sum_of_the_longest_destination_is_exact(dut: Any) -> None:
    """As many rows as a sum has room for, of the largest coefficient or none."""
    work = await make(dut, margin=1)
    work.run([(0, 0)] + [(0x7FFF, 0)] * ((1 << SUM_BITS) // COEFFICIENT_MAX - 1))
    await work.bench.drain(80_000)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_attention(configuration: str) -> None:
    data_width, max_beats = CONFIGURATIONS[configuration]
    sizes = {"data_width": data_width, "max_beats": max_beats}
    simulate(attention(**sizes), __name__, name=f"attention_{configuration}", parameters=sizes)


def test_attention_proofs() -> None:
    prove_all("chiplet.attention", PROOFS)
