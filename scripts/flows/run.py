"""One inference: train or load a network, quantise it, run it in RTL, compare bit by bit, write `result.json`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from golden.datasets import load
from golden.dnp.head import Head
from golden.errors import InputError, unknown
from golden.graph import Graph
from golden.head import HeadProblem, check_head, head_of
from golden.model.activation import RELU
from golden.model.float_model import FloatModel
from golden.model.hints import hints, hints_of_weights
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of, read_weights
from hw.chiplet.config import ChipletConfig
from hw.community.chiplet import MachineConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.machine import Units
from scripts.config import load_ring
from scripts.flows.batch import plan_batches
from scripts.flows.request import Request
from scripts.flows.result import Learnt, make_result
from scripts.flows.simulations import (
    PLACEMENTS,
    classes_of,
    place,
    simulate,
    simulate_head,
)
from scripts.flows.summary import print_summary
from scripts.flows.table import console
from scripts.report import Run, Timeline, write_report
from tb.attributes.batch_jobs import Ran
from tb.models.activity import WINDOW

__all__ = ["Request", "run"]


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
            raise unknown("placement", request.placement, PLACEMENTS, " or ".join(PLACEMENTS))
        sizes = load_ring(request.config, request.chiplets)
        neural = sizes.units.neural
        graph = load(request.dataset)
        _show(hints(graph))
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
            learnt = Learnt(to_learn, on_chip)
        ran: list[Ran] = []
        if batches is not None and not (simulated and simulated.differences):
            stage("mini-batches")
            if simulated:
                folder = request.out / "batches"
                folder.mkdir(exist_ok=True)
                ran = batches.simulate(folder)
        else:
            batches = None
    result = make_result(request, sizes, network, problem, exact, simulated, learnt, batches, ran)
    (request.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    predicted = simulated.predictions if simulated else classes_of(exact[-1].results)
    timeline = Timeline(simulated.phases, sizes.chiplet.parts, simulated.working, WINDOW) if simulated else None
    write_report(request.out / "report.html", result, Run(graph, predicted, timeline))
    print_summary(result, request.out / "result.json")
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


def _show(hints: list[str]) -> None:
    for line in hints:
        console.print(f"[yellow]hint[/yellow] {escape(line)}", soft_wrap=True)


def _network(request: Request, graph: Graph) -> FloatModel:
    model = model_of(request.model) if request.model else None
    if request.model_file is not None:
        network = read_weights(str(request.model_file), model, graph)
        _show(hints_of_weights(network, graph))
        return network
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
