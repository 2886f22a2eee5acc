"""Step source: steps of planned records are passed on, those of others add up to their columns, in order of records."""

from typing import Any

import cocotb
import pytest

from hw.community.factories import step_source
from hw.community.formats import CommunityConfig
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

SIZES: tuple[dict[str, Any], ...] = ({"width": 8, "columns": 16}, {"width": 64, "columns": 128})

Step = dict[str, int]


class Source:
    """A bench around a step source: sends records and the steps of planned ones, compares all that comes.

    Parameters
    ----------
    bench
        Its streams.
    config
        Sizes.
    """

    def __init__(self, bench: Bench, config: CommunityConfig) -> None:
        self.bench, self.config = bench, config
        #: Records that have not ended, each with its steps, or with its columns if it is not planned.
        self.left: list[tuple[dict[str, int], list[Any]]] = []
        self.had: list[tuple[int, int]] = []
        bench.take("o", self._take)

    def send(self, rows: int, *, planned: bool, wanted: bool, own: bool) -> int:
        """Send a record, with random steps if it is planned; return the cycles that it takes."""
        rng, config = self.bench.random, self.config
        record = {"base": rng.randrange(config.slots), "rows": rows, "nodes": rng.randint(0, rows)}
        record["single"], record["later"] = rng.getrandbits(1) if planned else 1, rng.getrandbits(1)
        self.bench.drive("i", [{**record, "planned": int(planned), "wanted": int(wanted), "own": int(own)}])
        if planned:
            step = config.step.members
            steps = [
                {name: rng.randrange(1 << (bits if isinstance(bits, int) else 1)) for name, bits in step.items()}
                for _ in range(rng.randint(1, 6))
            ]
            for number, one in enumerate(steps):
                one["last"] = int(number == len(steps) - 1)
            self.bench.drive("steps", steps)
            self.left.append((record, steps))
            return len(steps)
        adds = [(0, 0)] * own + [(column, 0) for column in range(1, rows)] * wanted + [(0, rows - 1)] * (rows > 1)
        self.left.append((record, sorted(adds)))
        return max(1, len(adds))

    def _take(self, word: dict[str, Any]) -> None:
        record, wanted = self.left[0]
        assert word["record"] == record
        step = word["step"]
        if isinstance(next(iter(wanted), None), dict):
            assert step == wanted.pop(0)
        else:
            if step["active"]:
                assert not step["form"]
                assert not step["negative"]
                self.had.append((step["right"], step["row"]))
            assert step["active"] or not wanted, "an empty step of a record with operations"
            if step["last"]:
                # Vectors are added in the order of columns.
                assert [column for column, _ in self.had] == [column for column, _ in wanted]
                assert sorted(self.had) == wanted
                self.had = []
        if step["last"]:
            self.left.pop(0)

    def any(self) -> int:
        """Send any record; return the cycles that it takes."""
        rng = self.bench.random
        rows = rng.choice((1, 2, 3, rng.randint(1, self.config.width), self.config.width))
        wanted = rng.random() < 0.7
        return self.send(rows, planned=rng.random() < 0.4, wanted=wanted, own=wanted and rng.random() < 0.7)


async def begin(dut: Any, **pace: Any) -> Source:
    bench = await start(dut, step_source(**parameters()), **pace)
    return Source(bench, CommunityConfig(**parameters()))


async def done(source: Source) -> int:
    """Wait for the end of all records; return its cycle."""
    await source.bench.until(lambda: not source.left, 20_000)
    cycle = source.bench.cycle
    await source.bench.cycles(3)
    return cycle


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def records_have_their_steps(dut: Any, idle: float, stall: float) -> None:
    """Each record in turn, planned or not, of any size."""
    source = await begin(dut, idle=idle, stall=stall)
    for _ in range(8):
        for _ in range(15):
            source.any()
        await done(source)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.6])
async def every_single_node_has_its_steps(dut: Any, stall: float) -> None:
    """Each number of hubs, the node wanted or not, added to itself or not."""
    source = await begin(dut, stall=stall)
    for rows in range(1, source.config.width + 1):
        for wanted, own in ((False, False), (True, False), (True, True)):
            source.send(rows, planned=False, wanted=wanted, own=own)
        await done(source)


@cocotb.test()
async def a_step_comes_in_every_cycle(dut: Any) -> None:
    source = await begin(dut)
    for _ in range(10):
        began = source.bench.cycle
        cycles = sum(source.any() for _ in range(12))
        # A cycle to begin the first record.
        assert await done(source) - began == cycles + 1


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    source = await begin(dut, stall=0.3)
    for _ in range(12):
        for _ in range(6):
            source.any()
        await source.bench.cycles(source.bench.random.randrange(40))
        await source.bench.reset()
        source = Source(source.bench, source.config)
        for _ in range(6):
            source.any()
        await done(source)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_step_source(sizes: dict[str, Any]) -> None:
    simulate(step_source(**sizes), __name__, parameters=sizes)
