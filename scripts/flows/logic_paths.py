"""`atoll synth --paths`: the longest paths of a design that is mapped but not placed, as of one that no device holds.

Blocks that are fast alone may be slow together: what one decides late another one waits for. A path counts what cells
take and, for each wire, a delay that grows with what it drives. That is an estimate: it ranks paths, and is no
frequency.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from math import log2
from typing import Any

from hw.stream.black_box import black_boxes_of
from scripts.blocks import Block
from scripts.flows.longest_path import plain_name
from scripts.flows.synth import SHELL, flat_model, folder_of, in_shell
from scripts.flows.table import show
from sim.harness.build import locked

__all__ = ["LogicPath", "logic_paths", "paths_of", "report"]

_BLOCK_RAM, _MULTIPLIER = "DP16KD", "MULT18X18D"
_LUT, _CARRY, _RAM = "LUT4", "CCU2C", "TRELLIS_DPR16X4"
#: What cells of an ECP5 take, in ns: a LUT, into and out of a carry chain, and from one pair of it to the next.
_OF_LUT, _OF_CARRY, _OF_PAIR = 0.24, 0.45, 0.07
#: From the clock: of a flip-flop, and of a block RAM without and with its output register or of a multiplier with one.
_OF_CLOCK, _OF_BLOCK_RAM, _OF_REGISTER = 0.5, 5.8, 1.0
#: Through a multiplier without registers.
_OF_PRODUCT = 4.0
#: Of a wire to one input, and for each time that it drives twice as many.
_OF_WIRE, _OF_TWICE = 0.7, 0.25


@dataclass(frozen=True)
class LogicPath:
    """A path between two registers.

    Attributes
    ----------
    start, end
        Names of the registers.
    levels
        LUTs and carry chains between them.
    delay
        Estimated, in ns.
    """

    start: str
    end: str
    levels: int
    delay: float


@dataclass(frozen=True)
class _Arrival:
    """When a net settles, behind how many levels, and the net at the start of its longest path."""

    delay: float
    levels: int
    start: int


class _Paths:
    """The longest path to each net of a flat module of Yosys' JSON."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        self.cells: dict[str, dict[str, Any]] = module["cells"]
        self.driver: dict[int, str] = {}
        self.fan_out: Counter[int] = Counter()
        for name, cell in self.cells.items():
            self.driver.update({bit: name for _, bit in _nets(cell, "output")})
            self.fan_out.update(bit for _, bit in _nets(cell, "input"))
        self.arrivals: dict[int, _Arrival] = {}
        through: TopologicalSorter[str] = TopologicalSorter()
        for name, cell in self.cells.items():
            if _is_logic(cell):
                through.add(name, *(self.driver[bit] for bit in _inputs(cell) if bit in self.driver))
            else:
                self._begin(cell)
        for name in through.static_order():
            if _is_logic(self.cells[name]):
                self._pass(self.cells[name])

    def _begin(self, cell: dict[str, Any]) -> None:
        for port, bit in _nets(cell, "output"):
            self.arrivals[bit] = _Arrival(_from_clock(cell, port), 0, bit)

    def _pass(self, cell: dict[str, Any]) -> None:
        """Let the outputs of a cell settle behind the last of its inputs."""
        for port, bit in _nets(cell, "output"):
            ways = [
                _Arrival(before.delay + delay, before.levels + (delay > _OF_PAIR), before.start)
                for source, delay in _ways(cell, port)
                if (before := self.at_input(source))
            ]
            if ways:
                self.arrivals[bit] = max(ways, key=lambda way: way.delay)

    def at_input(self, bit: int) -> _Arrival | None:
        """Return when a net settles where it is read; carries have no wires between them."""
        found = self.arrivals.get(bit)
        if found is None:
            return None
        driver = self.cells[self.driver[bit]]
        if driver["type"] == _CARRY and bit in driver["connections"].get("COUT", ()):
            return found
        wire = _OF_WIRE + _OF_TWICE * log2(max(1, self.fan_out[bit]))
        return _Arrival(found.delay + wire, found.levels, found.start)

    def ends(self) -> Iterator[tuple[_Arrival, str]]:
        """Yield the path to each input of a register, and the cell."""
        for name, cell in self.cells.items():
            if not _is_logic(cell) or cell["type"] == _RAM:
                for bit in _inputs(cell, ends=True):
                    if found := self.at_input(bit):
                        yield found, name


def _nets(cell: Mapping[str, Any], direction: str) -> Iterator[tuple[str, int]]:
    """Yield the nets at the inputs or outputs of a cell, each with its port; constants are none."""
    for port, bits in cell["connections"].items():
        if cell["port_directions"].get(port) == direction:
            yield from ((port, bit) for bit in bits if isinstance(bit, int))


def _is_logic(cell: Mapping[str, Any]) -> bool:
    kind = cell["type"]
    if kind == _MULTIPLIER:
        return bool(cell["parameters"].get("REG_OUTPUT_CLK", "NONE") == "NONE")
    return kind in (_LUT, _CARRY, _RAM)


def _from_clock(cell: Mapping[str, Any], port: str) -> float:
    if cell["type"] == _BLOCK_RAM:
        registered = cell["parameters"].get(f"REGMODE_{port[2]}") == "OUTREG"
        return _OF_REGISTER if registered else _OF_BLOCK_RAM
    return _OF_REGISTER if cell["type"] == _MULTIPLIER else _OF_CLOCK


def _inputs(cell: Mapping[str, Any], *, ends: bool = False) -> Iterator[int]:
    """Yield the nets that a cell reads; of a distributed RAM those of its write port at the `ends` of paths."""
    for port, bit in _nets(cell, "input"):
        if "CLK" not in port and port != "WCK" and (cell["type"] != _RAM or (port == "RAD") != ends):
            yield bit


def _ways(cell: Mapping[str, Any], output: str) -> Iterator[tuple[int, float]]:
    """Yield the nets on which an output depends, and what the cell takes from each."""
    kind = cell["type"]
    if kind != _CARRY:
        taken = _OF_PRODUCT if kind == _MULTIPLIER else _OF_LUT
        yield from ((bit, taken) for bit in _inputs(cell))
        return
    for port, bit in _nets(cell, "input"):
        if not (output == "S0" and port[-1] == "1"):
            yield bit, _OF_PAIR if (port, output) == ("CIN", "COUT") else _OF_CARRY


def logic_paths(netlist: Mapping[str, Any], top: str, count: int) -> list[LogicPath]:
    """Return the longest paths of the flat module `top`, at most `count` and of each pair of registers one.

    Parameters
    ----------
    netlist
        Of cells of ECP5, as Yosys writes it in JSON.
    top
        Name of the module.
    count
        Most paths. Bits of a register, and registers that differ in their numbers, count as one.
    """
    module = netlist["modules"][top]
    names: dict[int, str] = {}
    for name, net in module["netnames"].items():
        for bit in net["bits"]:
            if isinstance(bit, int) and (bit not in names or _rank(name) < _rank(names[bit])):
                names[bit] = name
    longest: dict[tuple[str, str], LogicPath] = {}
    paths = _Paths(module)
    for arrival, cell in paths.ends():
        start, end = plain_name(names.get(arrival.start, "")), plain_name(cell)
        pair = re.sub(r"\d+", "", start), re.sub(r"\d+", "", end)
        if pair not in longest or longest[pair].delay < arrival.delay:
            longest[pair] = LogicPath(start, end, arrival.levels, arrival.delay)
    return sorted(longest.values(), key=lambda path: -path.delay)[:count]


def _rank(name: str) -> tuple[bool, int]:
    """Rank names of a net: those of the source first, and short ones."""
    return name.startswith("$"), len(name)


def paths_of(block: Block, count: int) -> list[LogicPath]:
    """Map `block` for speed, in a shell of registers, and return its longest paths; see :func:`logic_paths`.

    Raises
    ------
    ToolError
        If Yosys fails.
    """
    component = block.make()
    model = flat_model(component, block.module)
    folder = folder_of(block.module, model, "paths")
    with locked(folder.with_name(f"{folder.name}.lock")):
        (folder / "model.il").write_text(model)
        netlist = in_shell(component, folder, block.module, large=bool(black_boxes_of(component)))
    return logic_paths(json.loads(netlist.read_text()), SHELL, count)


def report(block: Block, paths: list[LogicPath]) -> None:
    """Print paths as a table."""
    rows = [(path.start, path.end, path.levels, path.delay) for path in paths]
    show(f"{block.name}: longest paths before placing", ["from", "to", "levels", "about ns"], rows)
