"""One inference: train or load a network, quantise it, run it in RTL, compare bit by bit, write `result.json`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from golden.datasets import load
from golden.head import HeadProblem
from golden.model.network import infer
from golden.model.quantise import quantise
from golden.model.training import train
from golden.model.weights import model_of, read_weights
from hw.community.chiplet import MachineConfig
from scripts.config import load_ring
from scripts.flows.batch import plan_batches
from scripts.flows.checks import check, head_wanted, used
from scripts.flows.predictions import write_predictions
from scripts.flows.request import Request
from scripts.flows.result import Learnt, make_result
from scripts.flows.simulations import classes_of, place, simulate, simulate_head
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
        sizes = load_ring(request.config, request.chiplets)
        neural = sizes.units.neural
        graph = load(request.dataset)
        asked = model_of(request.model) if request.model else None
        given = read_weights(str(request.model_file), asked) if request.model_file else None
        check(request, graph, given, sizes)
        stage("training" if given is None else "weights")
        network = given or train(graph, request.network, request.training)
        stage("quantisation")
        problem = quantise(network, graph, core=neural.core if neural else None)
        head = head_wanted(request, graph, network, sizes)
        community = sizes.chiplet if isinstance(sizes.chiplet, MachineConfig) else None
        placed = place(problem, sizes.chiplets, request.placement, community)
        sizes = used(sizes, bool(problem.model.ends), head is not None, request.sampling is not None)
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
    floating = network.predictions(graph)
    rows = simulated.results if simulated else exact[-1].results
    write_predictions(request.out / "predictions.npz", problem, rows, floating)
    timeline = Timeline(simulated.phases, sizes.chiplet.parts, simulated.working, WINDOW) if simulated else None
    write_report(request.out / "report.html", result, Run(graph, classes_of(rows), timeline, floating=floating))
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
