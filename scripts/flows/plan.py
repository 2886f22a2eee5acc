"""The steps of `atoll run` by name, and the announcement of a run before it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hw.config import MachineConfig
from scripts.flows.progress import Steps, building, duration, simulating
from scripts.flows.request import Request

__all__ = ["introduce", "kind_of", "steps_of"]

#: Minutes to build a simulator on two cores, of gather and of community PEs, from and to.
_MINUTES = ("about a minute", "2 to 8 minutes")


def steps_of(request: Request) -> list[str]:
    """Return the names of the steps of a run, in order."""
    names = ["training"] * (request.model_file is None) + ["quantisation", "golden model"]
    if request.rtl:
        names += [building(), simulating(), "comparison"]
        asked = {"the head": request.head is not None, "mini-batches": request.sampling is not None}
        for what in (name for name, wanted in {**asked, "the session": request.streams}.items() if wanted):
            names += [building(what), simulating(what)]
    return [*names, "report"]


def kind_of(request: Request, sizes: MachineConfig) -> str:
    """Return what decides how long a run takes, for `scripts.flows.progress.former`."""
    return repr((replace(request, out=Path()), sizes))


def introduce(request: Request, sizes: MachineConfig, steps: Steps) -> None:
    """Say what a run is going to do, and how long that takes.

    Parameters
    ----------
    request, sizes
        What was asked for, and the machine.
    steps
        Of the run, with those of a former one.
    """
    model = request.model or ("GraphSAGE" if request.sampling else "gcn")
    first = f"trains a {model} network" if request.model_file is None else f"reads {request.model_file}"
    chiplets = "1 chiplet" if sizes.chiplets == 1 else f"a ring of {sizes.chiplets} chiplets"
    machine = (
        f"{chiplets} with {sizes.chiplets * sizes.chiplet.lanes} multipliers in all (configuration {request.config})"
    )
    then = "simulates the Verilog of" if request.rtl else "computes what comes out of"
    last = ", and compares every bit with the golden model" if request.rtl else ", without simulating it"
    lines = [f"atoll run {request.dataset}: {first}, {then} {machine}{last}"]
    took = sum(step.seconds for name, step in steps.former.items() if name not in (building(), *_others()))
    built = max((step.seconds for name, step in steps.former.items() if name in (building(), *_others())), default=0)
    if steps.former:
        more = f", up to {duration(built)} more if the simulator has to be built" if built > took / 10 else ""
        lines.append(f"{len(steps.names)} steps, about {duration(took)} by the last such run{more}")
    elif request.rtl:
        minutes = _MINUTES[sizes.community is not None]
        lines.append(
            f"{len(steps.names)} steps; the first time most of it is building the simulator, {minutes} on two cores"
        )
    for line in lines:
        steps.console.print(line, highlight=False, soft_wrap=True, markup=False)


def _others() -> tuple[str, ...]:
    return building("the head"), building("mini-batches"), building("the session")
