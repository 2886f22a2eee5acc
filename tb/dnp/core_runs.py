# mypy: disable-error-code="attr-defined"
"""Runs of a core and of the golden machine side by side, compared in all that can be seen.

The golden machine costs as much for a hundred processors as for a few, so programs that are known beforehand run there
together, as processors that no link joins.
"""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import PORTS, StopCode
from contracts.dnp.topology import Grid
from golden.dnp.arithmetic import signed
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import assemble
from hw.dnp.core import Space
from sim.dnp.driver import CoreDriver, expected

__all__ = ["CONFIG", "FOR_MANY", "LIMIT", "Job", "Run", "check", "compare", "ends", "run_all", "run_texts"]

CONFIG = ProcessorConfig()
#: Words every port has to offer; more than any program takes.
SUPPLY = 1500
LIMIT = 20_000
#: Whether the process will fork for many mutants (`sim.harness.forked`, which forks when it is imported): what is
#: the same for all of them is made before.
FOR_MANY = "ATOLL_MUTANTS" in os.environ

#: What a program is known by: its text, a seed of memories and neighbours, and the neighbours' pace.
_Key = tuple[str, int, float]


class Apart(Grid):
    """As many processors as rows, and no link; edge ports are (port, processor)."""

    def edge(self, side: int, place: int) -> tuple[int, int]:
        """Processor and port of an edge port."""
        return place, side

    def places(self, side: int) -> int:
        """Every processor has an edge port on each side."""
        return self.rows

    def sources(self) -> npt.NDArray[np.int64]:
        """Everything comes from the host."""
        return np.full((self.rows, len(PORTS)), -1, dtype=np.int64)


@dataclass(frozen=True)
class Job:
    """A program, what its memories hold, and its neighbours by port."""

    program: list[int]
    wm: list[int]
    xm: list[int]
    neighbours: Mapping[int, EdgePort]

    def ends(self) -> dict[int, EdgePort]:
        """Neighbours that have not sent a word yet."""
        return {port: EdgePort(end.words, end.offers, end.accepts) for port, end in self.neighbours.items()}


@dataclass(frozen=True)
class Run:
    """What the golden machine makes of a job: clocks until it stood still, what can be read back, words that passed.

    Registers and memory words are unsigned, as they are read.
    """

    job: Job
    clocks: int
    state: dict[str, list[int]]
    received: dict[int, list[int]]
    sent: dict[int, int]

    @property
    def code(self) -> StopCode:
        """Why it stands still."""
        return StopCode(self.state["state"][0] >> 7)

    @property
    def stop_pc(self) -> int:
        """Where."""
        return self.state["state"][1]

    @property
    def instructions(self) -> int:
        """How many it issued."""
        return self.state["instructions"][0]


def run_all(jobs: Sequence[Job]) -> list[Run]:
    """Run jobs in the golden machine, together."""
    if not jobs:
        return []
    machine = ArrayModel(CONFIG, Apart(len(jobs), 1))
    for number, job in enumerate(jobs):
        machine.load(number, job.program)
        machine.state.wm[number], machine.state.xm[number] = signed(np.array(job.wm)), signed(np.array(job.xm))
        for port, end in job.ends().items():
            machine.edges[(port, number)] = end
    machine.start()
    runs: dict[int, Run] = {}
    while len(runs) < len(jobs):
        assert machine.clock <= LIMIT, "a program does not end"
        halted = np.flatnonzero(machine.state.halted)
        assert machine.step(), machine.explain()
        # The bench sees the halt one clock later; ports go on meanwhile.
        for number in set(halted.tolist()) - set(runs):
            edges = {port: machine.edges[(port, number)] for port in jobs[number].neighbours}
            received = {port: list(end.received) for port, end in edges.items()}
            sent = {port: end.sent for port, end in edges.items()}
            state = expected(machine, number)
            runs[number] = Run(jobs[number], state["clocks"][0], state, received, sent)
    return [runs[number] for number in range(len(jobs))]


def ends(rng: random.Random, pace: float) -> dict[int, EdgePort]:
    """Four neighbours that offer and accept in random clocks."""
    pattern = lambda: [rng.random() < pace for _ in range(61)] + [True]  # noqa: E731
    return {
        port: EdgePort([rng.randrange(-32768, 32768) for _ in range(SUPPLY)], pattern(), pattern()) for port in range(4)
    }


def _job(text: str, seed: int, pace: float) -> Job:
    image = assemble(text)
    rng = random.Random(seed)
    word = lambda: rng.choice([rng.randrange(-32768, 32768), -32768, 32767])  # noqa: E731
    wm, xm = [word() for _ in range(CONFIG.wm_depth)], [word() for _ in range(CONFIG.xm_depth)]
    for memory, words in ((wm, image.wm), (xm, image.xm)):
        for address, value in words.items():
            memory[address] = value
    return Job(image.program, wm, xm, ends(random.Random(seed), pace))


_RUNS: dict[_Key, Run] = {}


def run_texts(keys: Iterable[_Key]) -> None:
    """Run programs that are going to be compared."""
    new = [key for key in dict.fromkeys(keys) if key not in _RUNS]
    if new:
        _RUNS.update(zip(new, run_all([_job(*key) for key in new]), strict=True))


async def compare(
    driver: CoreDriver, text: str, seed: int, pace: float, supply: Mapping[int, Sequence[int]] | None = None
) -> Run:
    """Run a program in both worlds and compare all that can be seen; `supply` has the words that arrive, by port."""
    if supply is None:
        run_texts([(text, seed, pace)])
        run = _RUNS[text, seed, pace]
    else:
        job = _job(text, seed, pace)
        for port, end in job.neighbours.items():
            end.words = list(supply.get(port, []))
        (run,) = run_all([job])
    await driver.reset_again()
    await driver.write(Space.PROGRAM, 0, run.job.program)
    await driver.write(Space.WM, 0, run.job.wm)
    await driver.write(Space.XM, 0, run.job.xm)
    await check(driver, run)
    return run


async def check(driver: CoreDriver, run: Run) -> None:
    """Run a job that is loaded, and compare all that can be seen."""
    neighbours = run.job.ends()
    taken = await driver.run(neighbours, LIMIT)
    await driver.stop()
    assert taken == run.clocks, f"{taken} clocks, golden {run.clocks}"
    found = await driver.state()
    for name, values in run.state.items():
        different = [(i, f, w) for i, (f, w) in enumerate(zip(found[name], values, strict=True)) if f != w]
        assert not different, f"{name}: (index, found, expected) {different[:8]}"
    for port, end in neighbours.items():
        assert end.received == run.received[port], f"port {port} sent other words"
        assert end.sent == run.sent[port], f"port {port} took {end.sent} words, golden {run.sent[port]}"
