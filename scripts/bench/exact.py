"""Many networks on one machine in one simulation, each bit-exact."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from contracts.errors import InputError
from golden.locator.schedule import ANY, Choice
from golden.model.network import LayerResult, Problem
from hw.config import MachineConfig
from scripts.config import load_machine
from scripts.flows.simulations import images_of, place
from sim.runner.jobs import Job, Outcome, Settings, mismatches
from sim.runner.run import run_jobs

__all__ = ["Done", "Exact", "run_exactly"]

#: Cycles after which a run hangs: the longest of the benchmarks takes an eighth.
_LIMIT = 5_000_000


class Done(NamedTuple):
    """A network that ran, as it was placed, and what came out."""

    job: Job
    outcome: Outcome

    @property
    def moved(self) -> int:
        """Bytes across all memory ports."""
        return sum(run.memory["bytes_read"] + run.memory["bytes_written"] for run in self.outcome.runs)


class Exact(NamedTuple):
    """A machine, what it did by the name of each network, and why it refused the others."""

    sizes: MachineConfig
    done: Mapping[str, Done]
    refused: Mapping[str, str]


def run_exactly(
    config: str | MachineConfig,
    chiplets: int,
    networks: Mapping[str, tuple[Problem, Sequence[LayerResult]]],
    placement: str = "tiles",
    choices: Mapping[str, Choice] | None = None,
) -> Exact:
    """Run all networks that a machine has room for, without the units beside its chiplets.

    Parameters
    ----------
    config, chiplets
        The machine.
    networks
        By name: a network on a graph, and its exact results in the order of the graph.
    placement
        As for `scripts.flows.simulations.place`.
    choices
        By name: thresholds, sizes of communities and shared sums of networks that do not have the default ones.

    Raises
    ------
    AssertionError
        If a run ends with an error, or a result differs from the golden model.
    """
    machine = load_machine(config, chiplets) if isinstance(config, str) else config
    sizes = replace(machine, neural=None, attributes=None)
    settings = Settings(limit=_LIMIT, settle=sizes.chiplet.settling)
    placed, jobs, refused = {}, dict[str, Job](), dict[str, str]()
    for name, (problem, _) in networks.items():
        try:
            placed[name] = place(sizes, problem, placement, (choices or {}).get(name, ANY))
            jobs[name] = Job(images_of(sizes, placed[name]), settings)
        except InputError as error:
            refused[name] = str(error)
    with tempfile.TemporaryDirectory() as folder:
        outcomes, _ = run_jobs(sizes.chiplet, list(jobs.values()), Path(folder), ring=sizes.ring)
    done = {name: Done(job, outcome) for (name, job), outcome in zip(jobs.items(), outcomes, strict=True)}
    for name, (_, outcome) in done.items():
        problem, exact = networks[name]
        moved = placed[name].problem
        wrong = mismatches(exact if moved is problem else moved, outcome)
        assert not any(outcome.errors), f"{name} on {chiplets} {sizes.name}: errors {outcome.errors}"
        assert not wrong, f"{name} on {chiplets} {sizes.name}: {wrong[0]}"
    return Exact(sizes, done, refused)
