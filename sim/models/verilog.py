"""Pieces of hand-made tops, as Verilog text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Pin", "held", "instance", "module", "vector"]

_SEPARATOR = ",\n  "


class Pin(NamedTuple):
    """A port of a Verilog module.

    Attributes
    ----------
    name
        In Verilog.
    inward
        Whether it is an input.
    width
        In bits.
    """

    name: str
    inward: bool
    width: int = 1

    def declared(self, suffix: str = "") -> str:
        """Return its declaration, the name followed by `suffix`."""
        return f"{'input' if self.inward else 'output'} {vector(self.width)}{self.name}{suffix}"


def vector(width: int) -> str:
    """Return the range of a Verilog declaration of `width` bits; none for a single bit."""
    return "" if width == 1 else f"[{width - 1}:0] "


def instance(
    module: str, name: str, connections: Mapping[str, str], parameters: Mapping[str, int | str] | None = None
) -> str:
    """Return an instance of a module with a value for each port, and for each parameter if there are any."""
    settings = ", ".join(f".{parameter}({value})" for parameter, value in (parameters or {}).items())
    pins = _SEPARATOR.join(f"  .{pin}({value})" for pin, value in connections.items())
    return f"  {module} {f'#({settings}) ' if settings else ''}{name} (\n  {pins});"


def module(name: str, pins: Sequence[Pin], body: Iterable[str]) -> str:
    """Return a module with these ports, ``clk`` before them, and these lines."""
    ports = [pin.declared() for pin in (Pin("clk", True), *pins)]
    return "\n".join([f"module {name} (\n  {_SEPARATOR.join(ports)});", *body, "endmodule"])


def held(toplevel: str, pins: Sequence[Pin], body: Iterable[str], *, lively: Collection[str] = ()) -> str:
    """Return a module with these lines, of which only what depends on a changed input is simulated.

    Verilator takes every input of a top, or of a block compiled by itself, for changed whenever it is called, several
    times a cycle. With the reset among the inputs that is nearly all of a design. Here inputs pass through variables
    that a change triggers; they lie one level deeper, because all that is public counts as input. Until the first edge
    they are 0, whatever inputs are at random; from then on they have their values, even if those never change.

    Parameters
    ----------
    toplevel
        Name of the module.
    pins
        Its ports but ``clk``, which it has too.
    body
        Its contents, which know all ports by name.
    lively
        Inputs that are not held, because they change in most cycles. Between blocks compiled by themselves they have to
        be: an input that triggers is a clock of its block.

    Returns
    -------
    str
        Verilog.
    """
    held_module, lively = f"{toplevel}_held", {"clk", *lively}
    inner = [Pin("clk", True), *pins]
    caught = {pin for pin in inner if pin.inward and pin.name not in lively}
    inside = [pin.declared("_given" if pin in caught else "") for pin in inner]
    passed = {f"{pin.name}_given" if pin in caught else pin.name: pin.name for pin in inner}
    return "\n".join(
        [
            # To Verilator, what triggers is an asynchronous reset.
            "// verilator lint_off SYNCASYNCNET",
            f"module {held_module} (\n  {_SEPARATOR.join(inside)});",
            *(
                f"  reg {vector(pin.width)}{pin.name};\n"
                f"  initial {pin.name} = 0;\n"
                f"  always @({pin.name}_given or posedge clk) {pin.name} <= {pin.name}_given;"
                for pin in inner
                if pin in caught
            ),
            *body,
            "endmodule",
            module(toplevel, pins, [instance(held_module, "held", passed)]),
            "// verilator lint_on SYNCASYNCNET",
            "",
        ]
    )
