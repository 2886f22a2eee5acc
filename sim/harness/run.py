"""Running a bench's coroutines in a simulator, and failing loudly when one of them fails."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sim.harness.build import SIM_DIR, Build, BuildOptions, build
from sim.harness.override import active
from sim.harness.ports import StreamPort

#: Period of the one clock, in nanoseconds of simulated time.
CLOCK_NS = 10
#: Environment variables by which a bench's two halves talk.
PARAMETERS_VARIABLE = "ATOLL_PARAMETERS"
PORTS_VARIABLE = "ATOLL_PORTS"
#: Module that simulators load before the bench.
_FIRST = "sim.inside"
#: A run that makes no progress for this long is ended, in seconds.
WALL_LIMIT = 1800


@dataclass(frozen=True)
class Result:
    """What one call of :func:`simulate` did.

    Attributes
    ----------
    block
        Name of the design, for the summary.
    tests, failed
        How many cocotb tests ran and how many of them failed.
    cycles
        Simulated clock cycles.
    seconds
        Wall time of the simulation, build excluded.
    seed
        Seed of all random choices.
    directory
        Where log, results and waveform are.
    message
        Why it failed; empty when it did not.
    """

    block: str
    tests: int
    failed: int
    cycles: int
    seconds: float
    seed: int
    directory: Path
    message: str = ""


#: Results of this process in order; ``tb/conftest.py`` takes them for its summary.
completed: list[Result] = []


def parameters() -> dict[str, Any]:
    """Return, inside the simulator, the `parameters` that :func:`simulate` was called with."""
    return dict(json.loads(os.environ.get(PARAMETERS_VARIABLE, "{}")))


def ports() -> tuple[StreamPort, ...]:
    """Return, inside the simulator, the stream ports of the design under test."""
    return tuple(StreamPort(**port) for port in json.loads(os.environ.get(PORTS_VARIABLE, "[]")))


def simulate(
    component: Any,
    bench: str,
    *,
    name: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    testcase: str | Sequence[str] | None = None,
    seed: int | None = None,
    sources: Sequence[Path] = (),
    toplevel: str | None = None,
    ports: Sequence[StreamPort] | None = None,
    options: BuildOptions | None = None,
    plusargs: Sequence[str] = (),
) -> Result:
    """Build a design and run every cocotb test of a bench on it.

    Parameters
    ----------
    component
        Amaranth component under test, or `None` if `sources` hold the whole design.
    bench
        Dotted name of the module with the tests, usually ``__name__``.
    name
        Name of the design; default: the component's class in snake case.
    parameters
        What :func:`parameters` returns inside the simulator; must be representable in JSON.
    testcase
        Names of the tests to run; default: all.
    seed
        Seed of random stimuli and of the contents of registers and memories at the start. By default it
        follows from the name of the test; `ATOLL_SEED` overrides both.
    sources, toplevel, ports, options
        As for :func:`sim.harness.build.build`.
    plusargs
        More plusargs for the simulator.

    Returns
    -------
    Result
        What was run.

    Raises
    ------
    AssertionError
        If a test fails, none ran, or the simulator ended abnormally.
    """
    name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(component).__name__).lower()
    made = build(component, name, sources=sources, toplevel=toplevel, options=options, ports=ports)
    result = run(made, bench, parameters=parameters, testcase=testcase, seed=seed, plusargs=plusargs)
    return passing(result)


def passing(result: Result) -> Result:
    """Keep the result of a run for the summary and return it.

    Raises
    ------
    AssertionError
        If the run failed.
    """
    completed.append(result)
    if result.message:
        raise AssertionError(result.message)
    return result


def default_seed(*parts: str) -> int:
    """Return `ATOLL_SEED` if it is set, else a number that depends only on `parts`."""
    given = os.environ.get("ATOLL_SEED")
    return int(given) if given else zlib.crc32("\0".join(parts).encode()) % 1_000_000


def run(
    made: Build,
    bench: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    testcase: str | Sequence[str] | None = None,
    seed: int | None = None,
    plusargs: Sequence[str] = (),
    directory: Path | None = None,
    scratch: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit: float = WALL_LIMIT,
) -> Result:
    """Run a bench on a finished build; like :func:`simulate` but returns failures instead of raising them.

    Its log and results are in `directory`. By default that is a folder of `scratch` if there is one and pytest runs no
    test, else one in `build/` by the name of the test.
    """
    from sim.harness.verilator import FastVerilator  # takes long to load, and simulators have no use for it

    given = json.dumps(dict(parameters or {}), sort_keys=True)
    if seed is None or os.environ.get("ATOLL_SEED"):
        seed = default_seed(made.toplevel, bench, given, str(testcase))
    override = active()
    limit = override.limit or limit
    if scratch is not None and "PYTEST_CURRENT_TEST" not in os.environ:
        directory = directory or scratch.resolve() / "simulator"
    directory = override.directory or directory or _run_directory(made)
    directory.mkdir(parents=True, exist_ok=True)
    results_file = directory / "results.xml"
    results_file.unlink(missing_ok=True)
    log = directory / "run.log"
    rewritten = "test_*.py" if bench.rpartition(".")[2].startswith("test_") else ""
    runner = FastVerilator()
    runner.timeout = limit
    forks = {}
    if override.mutants:
        runner.timeout = None  # each mutant has the limit for itself
        bench = f"{bench},sim.harness.forked"
        task = {"numbers": override.mutants, "folder": str(directory), "workers": override.workers, "limit": limit}
        forks["ATOLL_MUTANTS"] = json.dumps(task)
    waves = made.options.waves
    began = time.perf_counter()
    ended = ""
    with _outside_pytest():
        try:
            runner.test(
                test_module=f"{_FIRST},{bench}",
                hdl_toplevel=made.toplevel,
                hdl_toplevel_lang="verilog",
                build_dir=made.directory / "obj",
                test_dir=directory,
                results_xml=str(results_file),
                testcase=testcase,
                seed=seed,
                plusargs=[
                    "+verilator+rand+reset+2",
                    f"+verilator+seed+{seed % 0x7FFFFFFF or 1}",
                    *plusargs,
                ],
                extra_env={
                    PARAMETERS_VARIABLE: given,
                    PORTS_VARIABLE: json.dumps([port.as_dict() for port in made.ports]),
                    "PYTHONHASHSEED": "0",
                    "COCOTB_ANSI_OUTPUT": "0",
                    # cocotb borrows pytest's assertion messages; its plugins would only cost time to load, and so
                    # would messages for assertions in libraries, which is most of a short run.
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                    "COCOTB_REWRITE_ASSERTION_FILES": rewritten,
                    # NumPy's and SciPy's threads wait for work by spinning, on another simulator's core.
                    "OPENBLAS_NUM_THREADS": "1",
                    **(environment or {}),
                    **override.environment,
                    **forks,
                },
                waves=waves,
                log_file=log,
            )
        except subprocess.CalledProcessError as error:
            ended = f"the simulator ended with status {error.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"the simulator was stopped after {limit:.0f} s"
        except SystemExit as error:
            ended = f"the simulator ended with status {error.code}"
    seconds = time.perf_counter() - began
    if override.mutants:
        return Result(made.toplevel, len(override.mutants), 0, 0, seconds, seed, directory, ended)
    if waves:
        print(f"waveform: {waveform(directory)}")
    return _read(made, seed, directory, results_file, log, seconds, ended)


def waveform(directory: Path) -> Path | None:
    """Return the waveform a run left in its `directory`, if any."""
    return next((directory / name for name in ("dump.fst", "dump.vcd") if (directory / name).exists()), None)


def _run_directory(made: Build) -> Path:
    """Return a directory of its own for each pytest test, so that what a failure leaves can be found."""
    # Parameters may have spaces; behind the last one is the stage of the test.
    test = os.environ.get("PYTEST_CURRENT_TEST", f"plain-{os.getpid()} ()").rpartition(" ")[0]
    base = SIM_DIR / "runs" / made.directory.name / re.sub(r"[^\w.-]+", "_", test.removeprefix("tb/"))
    count = sum(1 for result in completed if result.directory.parent == base)
    return base / str(count)


@contextlib.contextmanager
def _outside_pytest() -> Any:
    """Hide pytest from cocotb's runner, which would end the process by itself when a test fails."""
    current = os.environ.pop("PYTEST_CURRENT_TEST", None)
    try:
        yield
    finally:
        if current is not None:
            os.environ["PYTEST_CURRENT_TEST"] = current


def _cases(xml: Path) -> list[ElementTree.Element]:
    try:
        cases = list(ElementTree.parse(xml).getroot().iter("testcase"))
    except (FileNotFoundError, ElementTree.ParseError):  # the simulator ended before, or found no room on the disk
        return []
    return [case for case in cases if case.find("skipped") is None]


def passed(xml: Path) -> bool:
    """Return whether a results file tells of tests and of none that failed."""
    cases = _cases(xml)
    return bool(cases) and all(case.find("failure") is None and case.find("error") is None for case in cases)


def _read(made: Build, seed: int, directory: Path, xml: Path, log: Path, seconds: float, ended: str) -> Result:
    """Count tests and cycles in the results file and say what failed."""
    ran = _cases(xml)
    failed = [
        case.get("name", "?") for case in ran if case.find("failure") is not None or case.find("error") is not None
    ]
    durations = (case.find("properties/property[@name='sim_time_duration']") for case in ran)
    nanoseconds = sum(float(duration.get("value", 0)) for duration in durations if duration is not None)
    message = ""
    if failed:
        message = f"{made.toplevel}: failed {', '.join(failed)}"
    elif ended:
        message = f"{made.toplevel}: {ended}"
    elif not ran:
        message = f"{made.toplevel}: no cocotb test was run"
    if message:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:]) if log.exists() else "(no log)"
        message = f"{message}; seed {seed} (repeat with ATOLL_SEED={seed}), log in {log}\n{tail}"
    else:
        print(
            f"{made.toplevel}: {len(ran)} tests, seed {seed}, {round(nanoseconds / CLOCK_NS)} cycles in {seconds:.1f} s"
        )
    return Result(
        block=made.toplevel,
        tests=len(ran),
        failed=len(failed) if failed or not message else max(1, len(failed)),
        cycles=round(nanoseconds / CLOCK_NS),
        seconds=seconds,
        seed=seed,
        directory=directory,
        message=message,
    )
