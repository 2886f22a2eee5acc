"""Modules that are compiled once and simulated as objects of one class, however often they stand in a design.

Verilator's own stand-in for a module that is compiled apart leads every input to every output, so a mesh of such
modules looks like loops and is evaluated many times a clock. A module whose outputs are all registers needs one step a
clock: its instances take their inputs at the clock edge, step side by side in threads, and show their outputs after it.
That no output follows an input within a clock is checked in every clock.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw.stream.ports import flat_ports
from sim.harness.build import BuildError, digest, locked, verilator_headers, verilator_path
from sim.harness.compiler import AR, CPP, make_variables
from sim.harness.modules import module_source

__all__ = ["THREADS_VARIABLE", "Stepped", "stepped_module"]

#: Environment variable with the number of threads that step the instances; by default all processors of the computer.
THREADS_VARIABLE = "ATOLL_THREADS"
#: Bits of a word between SystemVerilog and C.
_WORD = 32


@dataclass(frozen=True)
class Stepped:
    """A module compiled apart.

    Attributes
    ----------
    wrapper
        SystemVerilog that stands for the module.
    library
        Archive to link.
    """

    wrapper: Path
    library: Path


def stepped_module(component: Any, name: str, parts: Sequence[Path] = ()) -> Stepped:
    """Compile a module, once, to be stepped.

    Parameters
    ----------
    component
        The module; none of its outputs depends on an input within a clock.
    name
        Its name.
    parts
        Verilog of the modules it instantiates.

    Raises
    ------
    BuildError
        If Verilator or the compiler fails.
    """
    source = module_source(component, name)
    inputs, outputs = _ports(component)
    wrapper, shim = _wrapper(name, inputs, outputs), _shim(name, inputs, outputs)
    options = ["--cc", "-O3", "--x-initial", "unique", "--assert", "-Wno-fatal", "--top-module", name]
    builds = ["--build", *(part for given in make_variables() for part in ("-MAKEFLAGS", shlex.quote(given)))]
    texts = [*options, *builds, wrapper, shim, *(part.read_text() for part in parts)]
    folder = source.parent / digest(*texts)
    made = Stepped(folder / f"{name}.sv", folder / f"lib{name}.a")
    with locked(folder.with_suffix(".lock")):
        if not (folder / "built").exists():
            folder.mkdir(exist_ok=True)
            made.wrapper.write_text(wrapper)
            (folder / "shim.cpp").write_text(shim)
            _run(["verilator", *options, *builds, "--Mdir", str(folder), str(source), *map(str, parts)], name)
            include = verilator_headers()
            paths = [f"-I{path}" for path in (folder, include, include / "vltstd")]
            shim_object = str(folder / "shim.o")
            _run([*CPP, "-std=c++20", *paths, "-c", str(folder / "shim.cpp"), "-o", shim_object], name)
            (folder / f"V{name}__ALL.a").rename(made.library)
            _run([*AR, "q", str(made.library), shim_object], name)
            (folder / "built").touch()
    return made


def _run(command: list[str], name: str) -> None:
    environment = {**os.environ, "PATH": verilator_path()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{name}: {command[0]} failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


#: Name and width of a port.
_Port = tuple[str, int]


def _ports(component: Any) -> tuple[list[_Port], list[_Port]]:
    """Return inputs and outputs, reset included and clock left out."""
    inputs: list[_Port] = [("rst", 1)]
    outputs: list[_Port] = []
    for port in flat_ports(component):
        (inputs if port.inward else outputs).append((port.name, port.width))
    return inputs, outputs


def _bits(ports: Sequence[_Port]) -> int:
    return sum(width for _, width in ports)


def _wrapper(name: str, inputs: Sequence[_Port], outputs: Sequence[_Port]) -> str:
    """Stand-in: what the C side computes in a clock is shown when all instances have been given their inputs."""
    ways = [*(("input", port) for port in inputs), *(("output", port) for port in outputs)]
    ports = ", ".join(["input clk", *(f"{way} [{width - 1}:0] {port}" for way, (port, width) in ways)])
    given = ", ".join(port for port, _ in reversed(inputs))
    shown = ", ".join(port for port, _ in reversed(outputs))
    return f"""module {name}({ports});
  import "DPI-C" function chandle {name}_create();
  import "DPI-C" function void {name}_give(input chandle instance_, input bit [{_bits(inputs) - 1}:0] words);
  import "DPI-C" function void {name}_take(input chandle instance_, output bit [{_bits(outputs) - 1}:0] words);
  chandle instance_;
  bit [{_bits(outputs) - 1}:0] shown;
  bit turn = 0;
  initial begin
    instance_ = {name}_create();
    {name}_take(instance_, shown);
  end
  always @(posedge clk) begin
    {name}_give(instance_, {{{given}}});
    turn <= ~turn;
  end
  always @(posedge turn or negedge turn) {name}_take(instance_, shown);
  assign {{{shown}}} = shown;
endmodule
"""


def _copies(ports: Sequence[_Port], line: str) -> str:
    """C++ for every port, at its place among the bits."""
    low, lines = 0, []
    for name, width in ports:
        if width > _WORD:
            raise ValueError(f"port {name} has {width} bits; a stepped module's have at most {_WORD}")
        # Verilator writes two underscores in a row otherwise.
        lines.append("        " + line.format(name=name.replace("__", "___05F"), low=low, width=width))
        low += width
    return "\n".join(lines)


def _shim(name: str, inputs: Sequence[_Port], outputs: Sequence[_Port]) -> str:
    """Return the C++ behind the wrapper."""
    template = Path(__file__).with_name("stepped.cpp").read_text()
    for key, value in {
        "MODULE": name,
        "VARIABLE": THREADS_VARIABLE,
        "INPUT_WORDS": str(-(-_bits(inputs) // _WORD)),
        "OUTPUT_WORDS": str(-(-_bits(outputs) // _WORD)),
        "READ_INPUTS": _copies(inputs, "model.{name} = bits(in, {low}, {width});"),
        "WRITE_OUTPUTS": _copies(outputs, "put(words, {low}, {width}, model.{name});"),
    }.items():
        template = template.replace(f"@{key}@", value)
    return template
