"""Row finisher: rows of every length against NumPy, extremes, what waits, exact cycles, resets."""

from typing import Any

import cocotb
import numpy as np
import pytest

from golden.model.rounding import requantise
from hw.community.factories import row_finisher
from hw.community.formats import CommunityConfig
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from tb.community.beside import settings_of
from tb.harness.marks import full

SIZES: tuple[dict[str, Any], ...] = (
    {"lanes": 4, "width": 8, "columns": 16, "max_out": 6, "weight_rows": 16, "data_width": 64, "ways": 4},
    {"lanes": 8, "width": 32, "columns": 64, "max_out": 35, "weight_rows": 64, "ways": 2},
)
MORE: tuple[dict[str, Any], ...] = (
    {**SIZES[0], "ways": 1},
    {**SIZES[1], "lanes": 2, "data_width": 128},
    {**SIZES[1], "ways": 8},
)
#: From the cycle in which a group is taken to that in which its beat can be.
LATENCY = 14
#: Groups that are on the way at most, and beats at the output.
WAITING, STANDING = 16, 2


def weight_of(own: int, power: int) -> int:
    """Return the weight of a row, of 17 bits."""
    return ((own << power) + (1 << 16)) % (1 << 17) - (1 << 16)


class Rows:
    """A bench around a row finisher: sends rows and knows what must become of them.

    Parameters
    ----------
    bench
        Its streams.
    config
        Sizes.
    """

    def __init__(self, bench: Bench, config: CommunityConfig) -> None:
        self.bench, self.config = bench, config
        self.settings: dict[str, int] = {}
        self.beats = 0

    async def set(self, f_out: int, **settings: int) -> None:
        """Write random biases and settings, but for those given."""
        bench, config = self.bench, self.config
        rng = bench.random
        self.biases = [rng.getrandbits(32) - (1 << 31) >> rng.choice((0, rng.randrange(32))) for _ in range(f_out)]
        words = [{"address": n, "data": bias} for n, bias in enumerate(self.biases)]
        bench.drive("bias_write", rng.sample(words, f_out))
        self.magnitude = rng.randint(1, 32)
        wide = rng.getrandbits(1)
        low = max(0, self.magnitude + 8 * wide - 6)
        self.settings = {
            "relu": rng.getrandbits(1),
            "bias": rng.getrandbits(1),
            "wide": wide,
            "own": rng.choice((0, rng.randrange(-600, 600), rng.randrange(-(1 << 16), 1 << 16))),
            "rooted": rng.getrandbits(1),
            "f_out": f_out,
            "last_chunk": -(-f_out // config.lanes) - 1,
            "shift": rng.choice((rng.randrange(low, low + 24), rng.getrandbits(6))),
            **settings,
        }
        bench.dut.settings.value = settings_of(config, rng, **self.settings)
        await bench.drain(quiet=1)

    def send(self, count: int) -> None:
        """Send rows and expect their results; what lies behind the end of a row means nothing."""
        bench, config, rng = self.bench, self.config, self.bench.random
        f_out, lanes, elements = self.settings["f_out"], config.lanes, config.pe.elements
        chunks, low = self.settings["last_chunk"] + 1, -(1 << self.magnitude - 1)
        for _ in range(count):
            sums = [rng.choice((low, ~low, rng.randrange(low, -low))) for _ in range(chunks * lanes)]
            own = [rng.choice((-(1 << 15), (1 << 15) - 1, rng.randrange(-(1 << 15), 1 << 15))) for _ in sums]
            mantissa, exponent = rng.randrange(1 << 15, 1 << 16), rng.choice((0, rng.randrange(4), rng.getrandbits(5)))
            head = {"vid": rng.getrandbits(32), "mantissa": mantissa, "exponent": exponent}
            for chunk in range(chunks):
                part = slice(chunk * lanes, (chunk + 1) * lanes)
                last = int(chunk == chunks - 1)
                bench.drive("i", [{**head, "chunk": chunk, "sums": sums[part], "own": own[part], "last": last}])
            results = self._results(sums[:f_out], own[:f_out], mantissa, exponent)
            beats = [results[at : at + elements] for at in range(0, f_out, elements)]
            for number, beat in enumerate(beats):
                data, last = beat + [0] * (elements - len(beat)), int(number == len(beats) - 1)
                bench.expect("o", [{"vid": head["vid"], "beat": number, "data": data, "last": last}])
            self.beats += len(beats)

    def _results(self, sums: list[int], own: list[int], mantissa: int, exponent: int) -> list[int]:
        settings = self.settings
        weighed = np.array(sums, np.int64) * (256 if settings["wide"] else 1)
        power = exponent % 16 if settings["rooted"] else 0
        weighed += np.array(own, np.int64) * weight_of(settings["own"], power)
        biases = self.biases if settings["bias"] else [0] * len(sums)
        results = requantise(weighed, mantissa, exponent, settings["shift"], np.array(biases, np.int64))
        return [max(0, int(value)) if settings["relu"] else int(value) for value in results]

    async def done(self) -> int:
        """Wait until all is finished; return the cycle of the last word."""
        dut, bench = self.bench.dut, self.bench
        while bench.expected["o"]:
            await bench.cycles(1)
            if bench.expected["o"] and not bench.drivers["i"].busy_words:
                assert int(dut.busy.value), "not busy with results to come"
        cycle = await bench.drain(50_000)
        assert not int(dut.busy.value)
        return cycle


async def begin(dut: Any, **pace: Any) -> Rows:
    bench = await start(dut, row_finisher(**parameters()), **pace)
    return Rows(bench, CommunityConfig(**parameters()))


def lengths(config: CommunityConfig) -> list[int]:
    """Return numbers of output features: around those of lanes and of a beat, the smallest and the largest."""
    around = (config.lanes, config.pe.elements)
    return sorted({1, 2, config.max_out, *(n + d for n in around for d in (-1, 0, 1) if n + d <= config.max_out)})


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def rows_are_exact(dut: Any, idle: float, stall: float) -> None:
    """Finish rows of every length, layer after layer."""
    rows = await begin(dut, idle=idle, stall=stall)
    for f_out in lengths(rows.config):
        await rows.set(f_out)
        rows.send(rows.bench.random.choice((1, 5, 25)))
        await rows.done()


@cocotb.test()
@cocotb.parametrize(wide=[0, 1], own=[0, -(1 << 16), (1 << 16) - 1])
async def extremes_are_exact(dut: Any, wide: int, own: int) -> None:
    """Finish sums as large as they can be, whatever the node itself counts, with and without biases and ReLU."""
    rows = await begin(dut)
    for case in range(4):
        for shift in (0, 16 + 8 * wide, 32 + 8 * wide, 63):
            await rows.set(rows.config.max_out, wide=wide, own=own, shift=shift, relu=case & 1, bias=case >> 1)
            rows.magnitude = 32
            rows.send(4)
            await rows.done()


@cocotb.test()
async def a_group_passes_every_cycle(dut: Any) -> None:
    """So does the first one of the next row."""
    rows = await begin(dut)
    config = rows.config
    for f_out in lengths(config):
        groups = -(-f_out // config.ways)
        for count in (1, 2, 30):
            await rows.set(f_out)
            began = rows.bench.cycle
            rows.send(count)
            assert await rows.done() - began == count * groups + LATENCY, f"{count} rows of {f_out}"


@cocotb.test()
async def no_more_is_taken_than_can_wait(dut: Any) -> None:
    """Refused for long, results fill a beat and the queue behind it; what is behind them waits, and none is lost."""
    rows = await begin(dut)
    config = rows.config
    for f_out in (1, config.max_out):
        await rows.set(f_out)
        groups, in_beat = -(-f_out // config.ways), config.pe.elements // config.ways
        rows.bench.pace(stall=1.0)
        await rows.bench.cycles(1)
        sent = 3 * WAITING
        rows.send(sent)
        await rows.bench.cycles(4 * WAITING)
        # The first beats stand at the output; their groups were taken, and those that wait.
        beats = [min(in_beat, groups - at) for at in range(0, groups, in_beat)]
        taken = WAITING + sum((beats * STANDING)[:STANDING])
        whole, rest = divmod(taken, groups)
        chunks = whole * (rows.settings["last_chunk"] + 1) + rest // (config.lanes // config.ways)
        left = sent * (rows.settings["last_chunk"] + 1) - chunks
        assert rows.bench.drivers["i"].busy_words == left
        rows.bench.pace(stall=0.0)
        await rows.done()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    rows = await begin(dut, stall=0.3)
    rng, config = rows.bench.random, rows.config
    for _ in range(12):
        await rows.set(rng.choice(lengths(config)))
        rows.send(20)
        await rows.bench.cycles(rng.randrange(60))
        await rows.bench.reset()
        await rows.set(rng.choice(lengths(config)))
        rows.send(5)
        await rows.done()


@pytest.mark.parametrize("sizes", [*SIZES, *(pytest.param(one, marks=full) for one in MORE)], ids=str)
def test_row_finisher(sizes: dict[str, Any]) -> None:
    simulate(row_finisher(**sizes), __name__, parameters=sizes)
