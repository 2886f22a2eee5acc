"""One inference: prepare it, run it in RTL, compare bit by bit, write the results."""

import json
import shutil
from pathlib import Path

from rich.markup import escape

from golden.head import HeadProblem
from golden.model.network import infer
from hw.config import MachineConfig
from scripts.config import load_machine
from scripts.flows.batch import plan_batches
from scripts.flows.doctor import require_simulator
from scripts.flows.outputs import checked_folder, keep, publishing, scratch
from scripts.flows.plan import introduce, kind_of, steps_of
from scripts.flows.predictions import write_predictions
from scripts.flows.prepare import Examined, examine, prepare
from scripts.flows.progress import Steps
from scripts.flows.request import Request
from scripts.flows.result import Learnt, make_result
from scripts.flows.schema import Result
from scripts.flows.session import session_of
from scripts.flows.simulations import classes_of, simulate, simulate_head
from scripts.flows.summary import print_summary
from scripts.flows.typed_json import plain, schema_of
from scripts.flows.yosys import ToolError
from scripts.report import Run, Timeline, write_report
from sim.models.activity import WINDOW
from sim.runner.batches import Ran
from sim.runner.jobs import Outcome

__all__ = ["Request", "run"]

#: Bytes below which a disk is full for a simulation.
_LITTLE = 1 << 16


def run(request: Request) -> Result:
    """Carry out a request.

    Returns
    -------
    Result
        Contents of `result.json`. ``bit_exact`` is False if a value differs or the run ended with an error, None
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
    sizes = load_machine(request.config, request.chiplets)
    if request.rtl:
        require_simulator()
    # What is refused ends in one line, before anything else is said.
    examined = examine(request, sizes)
    request, sizes = examined.request, examined.sizes
    plan = Steps(steps_of(request), kind_of(request, sizes))
    introduce(request, sizes, plan)
    for hint in examined.hints:
        plan.console.print(f"[yellow]hint[/yellow] {escape(hint)}", soft_wrap=True)
    with scratch(request.out) as folder, plan as steps:
        try:
            result = _carry_out(request, sizes, examined, folder, steps)
        except AssertionError as error:
            if shutil.disk_usage(folder).free < _LITTLE:
                raise ToolError(
                    f"{request.out}: no space left on the disk; the simulation ended without a result"
                ) from None
            # The simulation's own message ends in its log.
            what, kept = str(error).splitlines()[0], keep(folder, request.out)
            raise ToolError(what.replace(str(folder.resolve()), str(kept))) from None
        if result.bit_exact is False:
            keep(folder, request.out)
    print_summary(result, request.out / "result.json")
    return result


def _carry_out(request: Request, sizes: MachineConfig, examined: Examined, folder: Path, steps: Steps) -> Result:
    """Go through all steps, with `folder` for what is needed on the way, and write the results."""
    sizes, graph, network, problem, head, placed = prepare(examined, steps.step)
    batches = None
    if request.sampling:
        batches = plan_batches(request.sampling, placed, sizes, request.config, request.seed)
    session = session_of(request, problem, network, sizes)
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
    ran: list[list[Ran]] = []
    if batches is not None and not (simulated and simulated.differences):
        if simulated:
            ran = batches.simulate(_part(folder, "batches"), steps)
    else:
        batches = None
    streamed: list[Outcome] = []
    if session is not None and not (simulated and simulated.differences):
        if simulated:
            streamed = session.simulate(sizes, _part(folder, "session"), steps)
    else:
        session = None
    steps.step("report")
    result = make_result(request, sizes, network, problem, exact, simulated, learnt, batches, ran, session, streamed)
    rows, floating = simulated.results if simulated else exact[-1].results, network.predictions(graph)
    timeline = Timeline(simulated.phases, sizes.chiplet.parts, simulated.working, WINDOW) if simulated else None
    with publishing(request.out) as results:
        (results / "result.json").write_text(json.dumps(plain(result), indent=2) + "\n")
        (results / "result.schema.json").write_text(json.dumps(schema_of(Result), indent=1) + "\n")
        # The order of VIDs as given: `problem` has it, whatever VIDs the chiplets know.
        answers, fraction = problem.graph.answers, problem.model.output_fraction
        write_predictions(results / "predictions.npz", rows[answers], floating[answers], fraction)
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
