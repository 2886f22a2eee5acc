"""Modules that a design leaves to be generated apart, once, however often they stand in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hw.stream.black_box import black_boxes_of
from sim.harness.build import RECIPE, ROOT, digest, locked, to_rtlil, to_verilog

__all__ = ["module_source", "module_sources"]


def module_source(component: Any, name: str) -> Path:
    """Generate a module that a design instantiates, once, and return its file."""
    text = to_rtlil(component, name)
    return _written(f"{name}.v", text, lambda: to_verilog(text))


def module_sources(component: Any, design: str) -> list[Path]:
    """Return the files of all modules that a component leaves to be generated apart.

    Behind them is a control file that lets connections between them look like loops: seen from outside, every output of
    a module that is compiled apart depends on every input. Inside the modules the rule stands.

    Parameters
    ----------
    component
        The design, or what instantiates the modules in it.
    design
        Name of the module that instantiates them.
    """
    sources = [module_source(part, name) for name, part in black_boxes_of(component).items()]
    # Where the design is compiled apart itself, its stand-in uses the reset in two ways.
    control = (
        f'`verilator_config\nlint_off -rule UNOPTFLAT -file "*/{design}.v"\n'
        f'lint_off -rule SYNCASYNCNET -file "*/{design}.sv"\n'
    )
    return [*sources, _written("loops.vlt", control, lambda: control)] if sources else []


def _written(name: str, key: str, make: Callable[[], str]) -> Path:
    path = ROOT / "build" / "modules" / digest(str(RECIPE), key) / name
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            path.write_text(make())
    return path
