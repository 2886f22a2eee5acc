"""Runs of a core and of the golden machine side by side, compared in all that can be seen."""

import os
import random
from dataclasses import dataclass
from functools import cache

from golden.dnp.assembler import assemble
from golden.dnp.config import CoreConfig
from golden.dnp.machine import EdgePort, Machine
from hw.dnp.core import Space
from tb.dnp.driver import CoreDriver, expected

__all__ = ["CONFIG", "FOR_MANY", "LIMIT", "Golden", "compare", "ends", "golden"]

CONFIG = CoreConfig()
#: Words every port has to offer; more than any program takes.
SUPPLY = 1500
LIMIT = 20_000
#: Whether the process is going to fork for many mutants (`tb.harness.forked`, which forks when it is imported): what is
#: the same for all of them is made before.
FOR_MANY = "ATOLL_MUTANTS" in os.environ


def ends(rng: random.Random, pace: float) -> dict[int, EdgePort]:
    """Four neighbours that offer and accept in random clocks."""
    pattern = lambda: [rng.random() < pace for _ in range(61)] + [True]  # noqa: E731
    return {
        port: EdgePort([rng.randrange(-32768, 32768) for _ in range(SUPPLY)], pattern(), pattern()) for port in range(4)
    }


@dataclass(frozen=True)
class Golden:
    """What the golden machine makes of a program; ``clocks`` until it stood still."""

    program: list[int]
    wm: dict[int, int]
    xm: dict[int, int]
    machine: Machine
    clocks: int


@cache
def golden(text: str, seed: int, pace: float, supply: tuple[tuple[int, ...], ...] | None = None) -> Golden:
    """Run a program in the golden machine; `supply` has the words that arrive, by port."""
    image = assemble(text)
    rng = random.Random(seed)
    wm = [rng.choice([rng.randrange(-32768, 32768), -32768, 32767]) for _ in range(CONFIG.wm_depth)]
    xm = [rng.choice([rng.randrange(-32768, 32768), -32768, 32767]) for _ in range(CONFIG.xm_depth)]
    wm_image, xm_image = dict(enumerate(wm)) | image.wm, dict(enumerate(xm)) | image.xm
    machine = Machine(CONFIG)
    machine.load(0, image.program, wm_image, xm_image)
    machine.start()
    for port, end in ends(random.Random(seed), pace).items():
        machine.edges[(port, 0)] = end
        if supply is not None:
            end.words = list(supply[port])
    clocks = machine.run(LIMIT)
    machine.step()  # the bench sees the halt one clock later; ports go on meanwhile
    return Golden(image.program, wm_image, xm_image, machine, clocks)


async def compare(
    driver: CoreDriver, text: str, seed: int, pace: float, supply: tuple[tuple[int, ...], ...] | None = None
) -> Machine:
    """Run a program in both worlds and compare all that can be seen."""
    run = golden(text, seed, pace, supply)
    await driver.reset_again()
    await driver.write(Space.PROGRAM, 0, run.program)
    await driver.write(Space.WM, 0, [run.wm[a] for a in range(CONFIG.wm_depth)])
    await driver.write(Space.XM, 0, [run.xm[a] for a in range(CONFIG.xm_depth)])
    ends_of_dut = ends(random.Random(seed), pace)
    for port, end in ends_of_dut.items():
        end.words = run.machine.edges[(port, 0)].words
    taken = await driver.run(ends_of_dut, LIMIT)
    await driver.stop()
    assert taken == run.clocks, f"{taken} clocks, golden {run.clocks}"
    found, wanted = await driver.state(), expected(run.machine)
    for name, values in wanted.items():
        different = [(i, f, w) for i, (f, w) in enumerate(zip(found[name], values, strict=True)) if f != w]
        assert not different, f"{name}: (index, found, expected) {different[:8]}"
    for port, other in ends_of_dut.items():
        end = run.machine.edges[(port, 0)]
        assert other.received == end.received, f"port {port} sent other words"
        assert other.sent == end.sent, f"port {port} took {other.sent} words, golden {end.sent}"
    return run.machine
