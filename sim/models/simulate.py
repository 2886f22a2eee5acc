"""Running a bench on a design with AXI4 memories at its ports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim.harness import BuildOptions, Result
from sim.harness.build import Build, build
from sim.harness.ports import stream_ports
from sim.harness.run import default_seed, passing, run
from sim.models.memory import plusargs
from sim.models.recorders import recorder_plusargs
from sim.models.wrap import MemoryModel, sources_of, wrapper

#: With `--coverage`, Verilator 5.048's search for state machines fails on some memories; it finds none in any design.
NO_FSM = ("--no-coverage-fsm",)

__all__ = ["build_with_memory", "run_with_memory", "simulate_with_memory"]


def build_with_memory(
    component: Any,
    name: str,
    *,
    memories: Mapping[str, MemoryModel] | None = None,
    sources: Sequence[Path] = (),
    options: BuildOptions | None = None,
) -> Build:
    """Build the simulator of a design within its `wrapper`, which is called ``{name}_with_memory``.

    Parameters
    ----------
    component
        The design, as for `wrapper`.
    name
        Name of its module.
    memories
        As for `wrapper`.
    sources, options
        As for `sim.harness.build.build`.
    """
    top = f"{name}_with_memory"
    options = options or BuildOptions()
    return build(
        component,
        name,
        sources=[*sources, *sources_of(memories or {})],
        toplevel=top,
        texts={f"{top}.sv": wrapper(component, name, top, memories)},
        ports=stream_ports(component),
        options=replace(options, arguments=(*options.arguments, *NO_FSM)),
    )


def simulate_with_memory(
    component: Any,
    bench: str,
    directory: Path,
    *,
    name: str,
    memories: Mapping[str, MemoryModel] | None = None,
    parameters: Mapping[str, Any] | None = None,
    testcase: str | Sequence[str] | None = None,
    seed: int | None = None,
    sources: Sequence[Path] = (),
    options: BuildOptions | None = None,
) -> Result:
    """Build a design with its memories and run every cocotb test of a bench on it.

    Parameters
    ----------
    component, name, memories, sources, options
        As for `build_with_memory`.
    bench, parameters, testcase, seed
        As for `sim.harness.simulate`; the bench finds `directory` among its parameters.
    directory
        Where images and dumps of the memories are, for `sim.models.memory.Memory`.

    Returns
    -------
    Result
        What was run.

    Raises
    ------
    AssertionError
        If a test fails, none ran, or the simulator ended abnormally.
    """
    made = build_with_memory(component, name, memories=memories, sources=sources, options=options)
    models = [model.name for model in (memories or {"m_axi": MemoryModel()}).values()]
    return run_with_memory(made, bench, directory, models=models, parameters=parameters, testcase=testcase, seed=seed)


def run_with_memory(
    made: Build,
    bench: str,
    directory: Path,
    *,
    models: Sequence[str] = ("mem",),
    parameters: Mapping[str, Any] | None = None,
    testcase: str | Sequence[str] | None = None,
    seed: int | None = None,
) -> Result:
    """Run every cocotb test of a bench on what `build_with_memory` has built.

    Parameters
    ----------
    made
        The simulator.
    bench, directory, parameters, testcase, seed
        As for :func:`simulate_with_memory`.
    models
        Names of the memories.

    Raises
    ------
    AssertionError
        As there.
    """
    if seed is None:
        # The directory is another one every time; it must not decide.
        seed = default_seed(made.toplevel, bench, json.dumps(dict(parameters or {}), sort_keys=True), str(testcase))
    result = run(
        made,
        bench,
        parameters={**(parameters or {}), "directory": str(directory)},
        testcase=testcase,
        seed=seed,
        scratch=directory,
        plusargs=[
            *(argument for model in models for argument in plusargs(directory, model)),
            *recorder_plusargs(directory),
        ],
    )
    return passing(result)
