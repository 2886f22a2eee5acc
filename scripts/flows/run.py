"""One inference: train or load a network, quantise it, run it in RTL, compare bit by bit, write `result.json`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from golden.datasets import load
from golden.graph import Graph
from golden.head import HeadProblem
from golden.model.float_model import FloatModel
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.model.training import train
from golden.model.weights import model_of, read_weights
from hw.community.chiplet import MachineConfig
from scripts.config import Sizes, load_ring
from scripts.flows.batch import plan_batches
from scripts.flows.checks import check, head_wanted, used
from scripts.flows.doctor import require_simulator
from scripts.flows.outputs import checked_folder, keep, publishing, scratch
from scripts.flows.plan import introduce, kind_of, steps_of
from scripts.flows.predictions import write_predictions
from scripts.flows.progress import Steps
from scripts.flows.request import Request
from scripts.flows.result import Learnt, make_result
from scripts.flows.simulations import Placed, classes_of, place, simulate, simulate_head
from scripts.flows.summary import print_summary
from scripts.flows.yosys import ToolError
from scripts.report import Run, Timeline, write_report
from tb.attributes.batch_jobs import Ran
from tb.models.activity import WINDOW

__all__ = ["Prepared", "Request", "prepare", "run"]


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
        If the data set, weights, configuration or folder cannot be used.
    UserError
        If no simulator can be built here.
    ToolError
        If the simulation ends without a result. What it left is kept, as it is if a value differs.
    """
    checked_folder(request.out)
    sizes = load_ring(request.config, request.chiplets)
    if request.rtl:
        require_simulator()
    plan = Steps(steps_of(request), kind_of(request, sizes))
    introduce(request, sizes, plan)
    with scratch(request.out) as folder, plan as steps:
        try:
            result = _carry_out(request, sizes, folder, steps)
        except AssertionError as error:
            # The simulation's own message ends in its log.
            what, kept = str(error).splitlines()[0], keep(folder, request.out)
            raise ToolError(what.replace(str(folder.resolve()), str(kept))) from None
        if result["bit_exact"] is False:
            keep(folder, request.out)
    print_summary(result, request.out / "result.json")
    return result


class Prepared(NamedTuple):
    """What a run computes: a network on a graph, quantised, and shared out to the chiplets."""

    graph: Graph
    network: FloatModel
    problem: Problem
    placed: Placed


def prepare(request: Request, sizes: Sizes, step: Callable[[str], None]) -> Prepared:
    """Load, train, quantise and place what a request names; `step` is called with the name of each step.

    Raises
    ------
    InputError
        If the data set or weights cannot be used, or the machine cannot carry them out.
    """
    step("data set")
    neural = sizes.units.neural
    graph = load(request.dataset)
    asked = model_of(request.model) if request.model else None
    given = read_weights(str(request.model_file), asked) if request.model_file else None
    check(request, graph, given, sizes)
    step("training" if given is None else "weights")
    network = given or train(graph, request.network, request.training)
    step("quantisation")
    problem = quantise(network, graph, core=neural.core if neural else None)
    community = sizes.chiplet if isinstance(sizes.chiplet, MachineConfig) else None
    placed = place(problem, sizes.chiplets, request.placement, community, request.choice)
    return Prepared(graph, network, problem, placed)


def _carry_out(request: Request, sizes: Sizes, folder: Path, steps: Steps) -> dict[str, Any]:
    """Go through all steps, with `folder` for what is needed on the way, and write the results."""
    graph, network, problem, placed = prepare(request, sizes, steps.step)
    head = head_wanted(request, graph, network, sizes)
    sizes = used(sizes, bool(problem.model.ends), head is not None, request.sampling is not None)
    batches = None
    if request.sampling:
        batches = plan_batches(request.sampling, placed, sizes, request.config, request.seed)
    steps.step("golden model")
    exact = infer(problem)
    simulated = None
    if request.rtl:
        simulated = simulate(
            sizes, problem, exact, _part(folder, "network"), steps, placed=placed, hidden=head is not None
        )
    learnt = None
    if head is not None and not (simulated and simulated.differences):
        # What the machine left is learnt from, not what the model of it says.
        features = simulated.hidden if simulated else exact[-2].results
        to_learn, on_chip = HeadProblem(problem, features, head, request.head or 0), None
        if simulated:
            on_chip = simulate_head(sizes, to_learn.image(), _part(folder, "head"), steps)
        learnt = Learnt(to_learn, on_chip)
    ran: list[Ran] = []
    if batches is not None and not (simulated and simulated.differences):
        if simulated:
            ran = batches.simulate(_part(folder, "batches"), steps)
    else:
        batches = None
    steps.step("report")
    result = make_result(request, sizes, network, problem, exact, simulated, learnt, batches, ran)
    rows, floating = simulated.results if simulated else exact[-1].results, network.predictions(graph)
    timeline = Timeline(simulated.phases, sizes.chiplet.parts, simulated.working, WINDOW) if simulated else None
    with publishing(request.out) as results:
        (results / "result.json").write_text(json.dumps(result, indent=2) + "\n")
        write_predictions(results / "predictions.npz", problem, rows, floating)
        search = placed.search
        shown = Run(
            graph,
            classes_of(rows),
            timeline,
            floating=floating,
            records=simulated.records if simulated else None,
            schedule=search.schedule if search else None,
            limits=search.limits if search else None,
        )
        write_report(results / "report.html", result, shown)
    return result


def _part(folder: Path, name: str) -> Path:
    """Make a folder for a simulation."""
    (folder / name).mkdir()
    return folder / name
