"""`atoll soc sim`: an inference by firmware on a simulated system, from the data set to the exit status."""

from __future__ import annotations

import importlib.util
import re

import numpy as np

from contracts.errors import InputError
from golden.image_format import Region
from golden.model.layer import Int16Array
from golden.model.network import infer
from hw.config import MachineConfig
from scripts.config import load_machine
from scripts.flows.doctor import require_simulator
from scripts.flows.generate import generate
from scripts.flows.outputs import checked_folder, scratch, write
from scripts.flows.prepare import examine, prepare
from scripts.flows.request import Request
from scripts.flows.simulations import images_of
from scripts.flows.yosys import BUILD
from scripts.machine import machine_block
from soc.job import Run

__all__ = ["need_soc", "run_of", "sim"]

#: Packages of the extra `soc`, by the names that they are imported by.
_PACKAGES = ("litex", "litedram", "litex_boards", "migen")


def missing_packages() -> list[str]:
    """Return the packages of the extra `soc` that are not installed."""
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


def need_soc() -> None:
    """Refuse what cannot be done without the extra `soc`.

    Raises
    ------
    InputError
        If a package is missing.
    """
    if missing := missing_packages():
        raise InputError("atoll soc", f"has no {', '.join(missing)}", "`make soc`, or pip install '.[soc]'")


def run_of(request: Request) -> tuple[Run, MachineConfig]:
    """Train or read a network, and return its image with all results that the golden model has for it, and the machine.

    Raises
    ------
    InputError
        As for `scripts.flows.run.run`; and if the machine is a ring.
    """
    sizes = load_machine(request.config, request.chiplets)
    ready = prepare(examine(request, sizes))
    (image,) = images_of(ready.sizes, ready.placed, hidden=True)
    problem = ready.placed.problem
    exact = infer(problem)
    expected: list[tuple[Region, Int16Array]] = []
    for number, layer in enumerate(exact):
        region = image.results_region(number)
        expected.append((region, layer.results[: region.rows]))
    graph = problem.graph
    return Run(image, expected, np.where(graph.test, graph.labels, -1)), ready.sizes


def sim(request: Request, *, runs: int = 1, prepared: bool = False) -> int:
    """Run an inference by firmware in RTL.

    Parameters
    ----------
    request
        What to run, on a chiplet that is alone.
    runs
        How often the inference is queued.
    prepared
        Whether the job lies in the DRAM from the start, as a boot loader leaves it; otherwise it comes over the serial
        port.

    Returns
    -------
    int
        Exit status: what the firmware sent last, or 1 if it sent nothing.

    Raises
    ------
    InputError
        If the input cannot be used, or packages are missing.
    """
    need_soc()
    require_simulator()
    checked_folder(request.out)
    from soc.simulation import simulate_system

    run, sizes = run_of(request)
    block = machine_block(request.config, 1)
    machine = generate(block, BUILD / "soc" / "machines" / re.sub(r"\W+", "-", block.name)).verilog
    with scratch(request.out) as folder:
        ended = simulate_system(machine, [run] * runs, folder, databits=sizes.chiplet.port[1] // 8, prepared=prepared)
    print("".join(f"  | {line}\n" for line in ended.said.splitlines()), end="")
    write(request.out / "soc.log", ended.said)
    rate = ended.cycles / ended.seconds
    print(f"{ended.cycles:,} cycles of the system in {ended.seconds:.0f} s, {rate:,.0f} a second")
    if ended.status is None:
        print("the firmware did not end")
    return 1 if ended.status is None else ended.status
