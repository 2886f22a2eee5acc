"""Modules that a design leaves to be generated apart, once, however often they stand in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hw.stream.black_box import black_boxes_of
from sim.harness.build import RECIPE, ROOT, digest, locked, to_rtlil, to_verilog
from sim.models.verilog import Pin, held, instance
from sim.models.wrap import ports_of

__all__ = ["module_source", "module_sources"]


def module_source(component: Any, name: str) -> Path:
    """Generate a module that a design instantiates, once, and return its file."""
    text = to_rtlil(component, name)
    return _written(f"{name}.v", text, lambda: to_verilog(text))


def module_sources(component: Any, design: str) -> list[Path]:
    """Return the files of all modules that a component leaves to be generated apart.

    Behind them is a control file that lets connections between them look like loops: seen from outside, every output of
    a module that is compiled apart depends on every input. Inside the modules the rule stands.

    Each module passes its reset through a variable (`sim.models.verilog.held`): compiled apart it takes all of its
    inputs for changed in every call, and nearly all in it depends on the reset. Community chiplets take half the time
    so.

    Parameters
    ----------
    component
        The design, or what instantiates the modules in it.
    design
        Name of the module that instantiates them.
    """
    sources = []
    for name, part in black_boxes_of(component).items():
        sources += [module_source(part, f"{name}_whole"), _with_held_reset(part, name)]
    # What stands in for a module that is compiled apart uses the reset in two ways, also where that is the design.
    control = (
        f'`verilator_config\nlint_off -rule UNOPTFLAT -file "*/{design}.v"\n'
        f'lint_off -rule SYNCASYNCNET -file "*/{design}.v"\nlint_off -rule SYNCASYNCNET -file "*/{design}.sv"\n'
    )
    return [*sources, _written("loops.vlt", control, lambda: control)] if sources else []


def _with_held_reset(component: Any, name: str) -> Path:
    """Write the module `name` around the one that `module_sources` generates."""
    pins = [Pin("rst", True), *ports_of(component)]
    whole = instance(f"{name}_whole", "whole", {"clk": "clk", **{pin.name: pin.name for pin in pins}})
    text = held(name, pins, [whole], lively=[pin.name for pin in pins if pin.name != "rst"])
    return _written(f"{name}.sv", text, lambda: text)


def _written(name: str, key: str, make: Callable[[], str]) -> Path:
    path = ROOT / "build" / "modules" / digest(str(RECIPE), key) / name
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            path.write_text(make())
    return path
