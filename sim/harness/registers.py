"""Verilog in which a register is written where its next value is decided.

Amaranth gives every register a process that computes its next value, and a flip-flop that takes it. A simulator then
computes and copies the value of each register in every cycle, also of those that keep theirs, which are most. Here the
process writes the register itself, at the clock edge: ``if (enable) row <= data;``.
"""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["written_in_place"]

_MODULE = re.compile(r"^module .*?^endmodule\n", re.M | re.S)
#: A name that Yosys made for a next value, with the blank that ends it.
_NEXT = r"\\\$\d+ "
_USED = re.compile(_NEXT)
_FLIP_FLOP = re.compile(rf"  always @\(posedge (?P<clock>.+)\)\n    (?P<register>[^\[{{\n]+?) +<= (?P<next>{_NEXT});\n")
#: The empty condition makes simulators run the process once at the beginning.
_PROCESS = re.compile(
    rf"  always @\* begin\n    if \(.+\) begin end\n"
    rf"    (?P<next>{_NEXT}) = (?P<first>.+);\n(?P<rest>(?:    .*\n)*)  end\n"
)
_DECLARATION = re.compile(rf"  reg (?:signed )?(?:\[\d+:\d+\] )?(?P<next>{_NEXT});\n")


def written_in_place(verilog: str) -> str:
    """Return `verilog`, as Yosys writes Amaranth's modules, with each register written where its next value is decided.

    A process stays as it is where anything else reads the next value.
    """
    return _MODULE.sub(lambda module: _module(module[0]), verilog)


def _module(text: str) -> str:
    uses = Counter(_USED.findall(text))
    flip_flops = {found["next"]: found for found in _FLIP_FLOP.finditer(text)}
    moved = set()

    def at_the_edge(process: re.Match[str]) -> str:
        value, rest = process["next"], process["rest"]
        # The declaration, the first assignment and the flip-flop name it besides.
        if value not in flip_flops or uses[value] != rest.count(value) + 3:
            return process[0]
        moved.add(value)
        register, first = flip_flops[value]["register"], process["first"].strip()
        blank = " " if register.startswith("\\") else ""  # ends an escaped name
        kept = "" if first == register else f"    {register} <= {process['first']};\n"
        assigned = re.compile(rf"^( *(?:[^ ].*: )?){re.escape(value)}(?:(\[.+?\]) )? ?= ", re.M)
        body = assigned.sub(lambda found: f"{found[1]}{register}{blank + found[2] if found[2] else ''} <= ", rest)
        return f"  always @(posedge {flip_flops[value]['clock']}) begin\n{kept}{body}  end\n"

    def without(found: re.Match[str]) -> str:
        return "" if found["next"] in moved else found[0]

    text = _PROCESS.sub(at_the_edge, text)
    return _DECLARATION.sub(without, _FLIP_FLOP.sub(without, text))
