"""`atoll synth --tree`: area of a design by its hierarchy.

Every module is mapped apart, once, so nothing is optimised across its border; the whole is therefore larger than the
figures of `atoll synth`, by some percent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.blocks import Block
from scripts.flows.devices import Device
from scripts.flows.outputs import write
from scripts.flows.synth import PREPARE, flat_model, folder_of
from scripts.flows.table import show
from scripts.flows.yosys import yosys
from sim.harness.build import locked

__all__ = ["Node", "area_tree", "report", "rows"]

#: Share of the whole below which a part is not listed by itself.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Node:
    """A part of a design.

    Attributes
    ----------
    name
        Of the instance; that of the design for its top.
    module
        Its module.
    cells
        All cells in it and below it, by type.
    parts
        The instances in it.
    """

    name: str
    module: str
    cells: Mapping[str, int]
    parts: tuple[Node, ...]


def area_tree(block: Block, device: Device) -> Node:
    """Map `block` for `device`, module by module; return its area by instance.

    Raises
    ------
    ToolError
        If Yosys fails.
    """
    model = flat_model(block.make(), block.module)
    folder = folder_of(f"{block.module}-tree", model, device.name, device.apart)
    known = folder / "tree.json"
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not known.exists():
            (folder / "model.il").write_text(model)
            _map(folder, block.module, device)
            modules = json.loads((folder / "mapped.json").read_text())["modules"]
            (folder / "mapped.json").unlink()
            kept = {name: {at: cell["type"] for at, cell in m["cells"].items()} for name, m in modules.items()}
            write(known, json.dumps({name: _short(cells, kept) for name, cells in kept.items()}))
    return _node(block.name, block.module, json.loads(known.read_text()))


def _map(folder: Path, top: str, device: Device) -> None:
    """Map ``model.il`` into ``mapped.json``."""
    prepare = PREPARE.replace("flatten\n", "")
    yosys(
        f"read_rtlil model.il\nhierarchy -top {top}\n{prepare}{device.apart.format(top=top)}\nwrite_json mapped.json\n",
        cwd=folder,
        name="tree",
    )


def _short(cells: Mapping[str, str], modules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the instances of a module, and how many cells of each type it has besides."""
    return {
        "parts": {at: kind for at, kind in cells.items() if _hardware(kind, modules)},
        "cells": Counter(kind for kind in cells.values() if not _hardware(kind, modules)),
    }


def _hardware(kind: str, modules: Mapping[str, Any]) -> bool:
    """Return whether cells of this type are instances of a module of the design, not of a library of the device."""
    return kind in modules and bool(modules[kind])


def _node(name: str, module: str, modules: Mapping[str, Any]) -> Node:
    own = modules[module]
    parts = tuple(_node(at, kind, modules) for at, kind in own["parts"].items())
    total = Counter(own["cells"])
    for part in parts:
        total.update(part.cells)
    return Node(name, re.sub(r"^\\+", "", module), dict(total), parts)


def rows(top: Node, device: Device, least: float = LEAST_SHARE) -> Iterator[tuple[Any, ...]]:
    """Yield a row for `top` and every part with at least the share `least` of its LUTs, parts behind their whole.

    Parts of one kind at one place that have the same area are one row, with their number.
    """
    whole = max(1, device.luts(top.cells))

    def walk(node: Node, number: int, depth: int) -> Iterator[tuple[Any, ...]]:
        luts, ffs, dsps, brams = device.figures(node.cells)
        name = f"{'  ' * depth}{node.name}" + (f" ×{number}" if number > 1 else "")
        yield (name, number * luts, number * ffs, number * dsps, number * brams, f"{100 * number * luts / whole:.1f}")
        groups: dict[tuple[str, int], list[Node]] = {}
        for part in node.parts:
            groups.setdefault((re.sub(r"_?\d+$", "", part.name), device.luts(part.cells)), []).append(part)
        for group in sorted(groups.values(), key=lambda parts: -len(parts) * device.luts(parts[0].cells)):
            if number * len(group) * device.luts(group[0].cells) >= least * whole:
                yield from walk(group[0], number * len(group), depth + 1)

    yield from walk(top, 1, 0)


def report(top: Node, device: Device) -> None:
    """Print the table."""
    show(f"{device.title} by hierarchy", ["part", *device.columns, "%"], list(rows(top, device)))
