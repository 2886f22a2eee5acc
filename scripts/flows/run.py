"""One inference: train or load a network, quantise it, run it in RTL, compare bit by bit, write `result.json`."""

import json
import shutil
from pathlib import Path
from typing import Any

from golden.datasets import load
from golden.dnp.head import Head
from golden.errors import InputError
from golden.graph import Graph
from golden.head import HeadProblem, check_head, head_of
from golden.model.activation import RELU
from golden.model.float_model import FloatModel
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of, read_weights
from hw.chiplet.config import ChipletConfig
from hw.community.chiplet import MachineConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.machine import Units
from scripts.config import Sizes, load_ring
from scripts.flows.batch import plan_batches
from scripts.flows.doctor import require_simulator
from scripts.flows.outputs import checked_folder, keep, publishing, scratch
from scripts.flows.plan import introduce, kind_of, steps_of
from scripts.flows.progress import Steps
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
from scripts.flows.yosys import ToolError
from scripts.report import Run, Timeline, write_report
from tb.attributes.batch_jobs import Ran
from tb.models.activity import WINDOW

__all__ = ["Request", "run"]

#: Bytes below which a disk is full for a simulation.
_LITTLE = 1 << 16


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
    if request.placement not in PLACEMENTS:
        raise InputError("placement", f"there is no {request.placement!r}", " or ".join(PLACEMENTS))
    sizes = load_ring(request.config, request.chiplets)
    if request.rtl:
        require_simulator()
    plan = Steps(steps_of(request), kind_of(request, sizes))
    introduce(request, sizes, plan)
    with scratch(request.out) as folder, plan as steps:
        try:
            result = _carry_out(request, sizes, folder, steps)
        except AssertionError as error:
            if shutil.disk_usage(folder).free < _LITTLE:
                raise ToolError(
                    f"{request.out}: no space left on the disk; the simulation ended without a result"
                ) from None
            # The simulation's own message ends in its log.
            what, kept = str(error).splitlines()[0], keep(folder, request.out)
            raise ToolError(what.replace(str(folder.resolve()), str(kept))) from None
        if result["bit_exact"] is False:
            keep(folder, request.out)
    print_summary(result, request.out / "result.json")
    return result


def _carry_out(request: Request, sizes: Sizes, folder: Path, steps: Steps) -> dict[str, Any]:
    """Go through all steps, with `folder` for what is needed on the way, and write the results."""
    steps.step("data set")
    neural = sizes.units.neural
    graph = load(request.dataset)
    steps.step("training" if request.model_file is None else "weights")
    network = _network(request, graph)
    steps.step("quantisation")
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
    predicted = simulated.predictions if simulated else classes_of(exact[-1].results)
    timeline = Timeline(simulated.phases, sizes.chiplet.parts, simulated.working, WINDOW) if simulated else None
    with publishing(request.out) as results:
        (results / "result.json").write_text(json.dumps(result, indent=2) + "\n")
        write_report(results / "report.html", result, Run(graph, predicted, timeline))
    return result


def _part(folder: Path, name: str) -> Path:
    """Make a folder for a simulation."""
    (folder / name).mkdir()
    return folder / name


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
