"""`atoll asm`, `atoll disasm` and `atoll dnp`: the command line of the DNP-II."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError
from golden.dnp.array import DeadlockError
from scripts.dnp import programs
from scripts.dnp.perceptron_cli import add_to as add_perceptron_to
from scripts.flows.outputs import checked_file, write
from scripts.options import Strict

__all__ = ["add_to"]

#: Exit status of a comparison that failed.
FAILED = 1

dnp = typer.Typer(help="Programs and layered networks on neural processors.", no_args_is_help=True)

_Program = Annotated[Path, typer.Argument(help="Assembly text, or a .json dump of `atoll asm`.", metavar="PROGRAM")]
#: Words of the largest memory.
_LARGEST = 65536
_WmDepth = Annotated[int, typer.Option(help="Words of WM.", min=2, max=_LARGEST)]
_XmDepth = Annotated[int, typer.Option(help="Words of XM.", min=2, max=_LARGEST)]
_PDepth = Annotated[int, typer.Option(help="Words of program memory.", min=2, max=_LARGEST)]
_DEFAULTS = ProcessorConfig()


def asm(
    program: _Program,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="JSON file to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a listing.")] = False,
    wm_depth: _WmDepth = _DEFAULTS.wm_depth,
    xm_depth: _XmDepth = _DEFAULTS.xm_depth,
    p_depth: _PDepth = _DEFAULTS.p_depth,
) -> None:
    """Assemble a program of the neural processor."""
    if out is not None:
        checked_file(out)
    image = programs.load(program, ProcessorConfig(wm_depth, xm_depth, p_depth))
    if out is not None:
        write(out, programs.dump(image) + "\n")
    elif as_json:
        print(programs.dump(image))
    else:
        print(programs.listing(image.program))


def disasm(program: _Program) -> None:
    """Turn program words (JSON of `atoll asm`) back into text."""
    print(programs.listing(programs.load(program, ProcessorConfig(*[_LARGEST] * 3)).program))


@dnp.command("run")
def run(
    program: _Program,
    rtl: Annotated[bool, typer.Option("--rtl", help="Run in RTL too, and compare everything.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="A line for every instruction carried out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    inputs: Annotated[
        list[str] | None, typer.Option("--in", help="Words that arrive at a port: W=1,2,3. Again for other ports.")
    ] = None,
    clocks: Annotated[
        int, typer.Option(help="Clocks after which a program is thought not to end.", min=1)
    ] = programs.LIMIT,
    wm_depth: _WmDepth = _DEFAULTS.wm_depth,
    xm_depth: _XmDepth = _DEFAULTS.xm_depth,
    p_depth: _PDepth = _DEFAULTS.p_depth,
) -> None:
    """Run a program and show registers and memories afterwards."""
    config = ProcessorConfig(wm_depth, xm_depth, p_depth)
    image = programs.load(program, config)
    words = programs.parse_inputs(inputs or [])
    machine = programs.prepared(image, words, config)
    try:
        if trace:
            for line in programs.trace(machine, image, clocks):
                print(line)
        found = programs.finished(machine) if trace else programs.run_golden(machine, clocks)
    except TimeoutError:
        raise InputError(program, f"is still running after {clocks:,} clocks", "HALT, or more --clocks") from None
    except DeadlockError as error:
        raise programs.stuck(str(program), error) from None
    print(json.dumps(found, indent=1) if as_json else programs.show(found))
    if rtl:
        try:
            programs.run_rtl(image, words, config)
        except AssertionError as error:
            print(f"RTL and golden machine differ: {error}")
            raise typer.Exit(FAILED) from error
        print("RTL agrees in every register, memory word and clock")


def add_to(app: typer.Typer) -> None:
    """Give the commands to the program."""
    app.command(cls=Strict)(asm)
    app.command()(disasm)
    add_perceptron_to(dnp)
    app.add_typer(dnp, name="dnp")
