"""Readable Verilog: names that need no escape, and one file for each part of a design."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["plain_names", "split"]

#: A public name in RTLIL, alone or in a string.
_NAME = re.compile(r"\\([A-Za-z_][^\s\"\\]*)")
_MODULE = re.compile(r"^(?:\(\*.*\*\)\n)*module (\w+)\b.*?^endmodule\n", re.M | re.S)
#: Identifiers that Verilog has for itself, as far as a name in a design could be one.
_WORDS = """
    always and assign begin buf case cell config default design disable edge else end endcase event for force forever
    fork function generate if include initial inout input instance integer join large liblist library medium module nand
    negedge nor not or output parameter posedge real reg release repeat scalared signed small specify strong0 strong1
    supply0 supply1 table task time tri unsigned use vectored wait wand weak0 weak1 while wire wor xnor xor"""
_RESERVED = frozenset(_WORDS.split())
#: Stands between the names of a module and of the instance inside it, as between those of a port and its signals.
_JOINT = "__"


def plain_names(model: str) -> str:
    """Return RTLIL in which every public name is a plain identifier of Verilog.

    A dot becomes two underscores: module ``chiplet.engine`` becomes ``chiplet__engine``, field ``o__payload.vid``
    ``o__payload__vid``. Everything else that needs an escape becomes one, a keyword gets one behind it, and names that
    would meet get a number.
    """
    names = dict.fromkeys(_NAME.findall(model))
    taken = {name for name in names if re.fullmatch(r"\w+", name) and name not in _RESERVED}
    plain = {}
    for name in names:
        if name in taken:
            continue
        wanted = free = re.sub(r"\W+", "_", name.replace(".", _JOINT)).rstrip("_") or "_"
        if free in _RESERVED:
            free = f"{wanted}_"
        number = 1
        while free in taken:
            number += 1
            free = f"{wanted}_{number}"
        taken.add(free)
        plain[name] = free
    return _NAME.sub(lambda found: "\\" + plain.get(found[1], found[1]), model)


def split(verilog: str, top: str, depth: int = 2) -> Iterator[tuple[str, str]]:
    """Yield name and text of the files of a design, that of its top first.

    Parameters
    ----------
    verilog
        All modules, with names of `plain_names`.
    top
        Name of the top module, with which those of the others begin, or which are files of their own.
    depth
        Instances that lie so deep begin a file, with all that is inside them.
    """
    files: dict[str, list[str]] = {top: []}
    for found in _MODULE.finditer(verilog):
        name = found[1]
        inner = name.removeprefix(f"{top}{_JOINT}").split(_JOINT) if name.startswith(f"{top}{_JOINT}") else []
        part = _JOINT.join([top, *inner[:depth]]) if inner or name == top else name.partition(_JOINT)[0]
        files.setdefault(part, []).append(found[0])
    for name, modules in files.items():
        yield name, "\n".join(modules)
