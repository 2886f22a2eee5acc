"""Moves flip-flops into the registers that block RAMs and multipliers of ECP5 have, in a netlist mapped by Yosys.

Yosys maps reads of block RAM without its output register (``REGMODE=NOREG``), which nextpnr counts with 5.8 ns from
the clock, and multipliers without theirs. A flip-flop directly behind a block RAM, or directly beside a multiplier,
does the same work inside it: no cycle changes, and with the register a block RAM answers in 1 ns.

Flip-flops move only if all those of a port may: the same clock, enable and reset, no constant from the start, and
nothing else that reads the value in front of them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Folded", "fold", "fold_file"]

_BLOCK_RAM, _MULTIPLIER, _FLIP_FLOP = "DP16KD", "MULT18X18D", "TRELLIS_FF"
_ZERO, _ONE = "0", "1"
#: Width of the words of a block RAM that has one port for writing and one for reading.
WIDE = 36
#: A net of the netlist: a number, or a constant.
_Net = int | str


@dataclass
class Folded:
    """What was done.

    Attributes
    ----------
    ports
        Ports that got their register, by kind: ``"DP16KD.DO"``, ``"MULT18X18D.A"``, ``.B`` and ``.P``.
    refused
        Ports that kept outside what follows or precedes them, by kind and reason.
    flip_flops
        Flip-flops that are gone.
    """

    ports: Counter[str]
    refused: Counter[tuple[str, str]]
    flip_flops: int = 0


@dataclass(frozen=True)
class _Control:
    """Clock, enable and synchronous reset of a flip-flop; constants where it has none."""

    clock: _Net
    enable: _Net
    reset: _Net


class _Netlist:
    """A flat module of Yosys' JSON, with what drives and what reads each net."""

    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: dict[str, dict[str, Any]] = module["cells"]
        self.readers: dict[_Net, list[str]] = defaultdict(list)
        self.flip_flop_of: dict[_Net, str] = {}
        for name, cell in self.cells.items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"].get(port) == "input":
                    for bit in bits:
                        self.readers[bit].append(name)
            if cell["type"] == _FLIP_FLOP:
                self.flip_flop_of[net(cell, "Q")] = name
        for port in module["ports"].values():
            if port["direction"] == "output":
                for bit in port["bits"]:
                    self.readers[bit].append("")

    def control(self, name: str) -> _Control | str:
        """Return what controls a flip-flop, or why it cannot move; an unused port counts as its inactive level."""
        cell = self.cells[name]
        parameters = {key: str(value).strip() for key, value in cell["parameters"].items()}
        reset = net(cell, "LSR")
        if parameters.get("CLKMUX", "CLK") != "CLK" or parameters.get("CEMUX", "1") not in ("CE", "1"):
            return "an inverted clock or enable"
        if parameters.get("REGSET", "RESET") != "RESET":
            return "one at the start"
        if reset != _ZERO and (parameters.get("LSRMUX", "LSR"), parameters.get("SRMODE")) != ("LSR", "LSR_OVER_CE"):
            return "an inverted or asynchronous reset"
        enable = net(cell, "CE", _ONE) if parameters.get("CEMUX") == "CE" else _ONE
        return _Control(clock=net(cell, "CLK"), enable=enable, reset=reset)

    def remove(self, name: str) -> dict[str, Any]:
        """Take out a flip-flop and return it."""
        cell = self.cells.pop(name)
        del self.flip_flop_of[net(cell, "Q")]
        return cell


def net(cell: dict[str, Any], port: str, otherwise: _Net = _ZERO) -> _Net:
    """Return the net of a port of one bit."""
    bits = cell["connections"].get(port) or [otherwise]
    return otherwise if bits[0] == "x" else bits[0]


def fold(netlist: dict[str, Any], top: str) -> Folded:
    """Fold flip-flops of the flat module `top` into its block RAMs and multipliers, in place."""
    module = netlist["modules"][top]
    design = _Netlist(module)
    done = Folded(Counter(), Counter())
    for name, cell in list(design.cells.items()):
        if cell["type"] == _BLOCK_RAM:
            # A word of 36 bits leaves through the outputs of both ports; port B reads it.
            for sides in ["AB"] if int(str(cell["parameters"]["DATA_WIDTH_B"]), 2) == WIDE else "AB":
                _count(done, f"{_BLOCK_RAM}.DO", _fold_read(design, cell, sides, done))
        elif cell["type"] == _MULTIPLIER:
            _fold_multiplier(design, name, done)
    return done


def fold_file(path: Path, top: str, report: Path) -> None:
    """Fold the module `top` of a JSON netlist in place, and write to `report` what was done."""
    netlist = json.loads(path.read_text())
    done = fold(netlist, top)
    path.write_text(json.dumps(netlist))
    refused = {f"{kind}: {reason}": count for (kind, reason), count in sorted(done.refused.items())}
    report.write_text(json.dumps({"folded": done.ports, "refused": refused, "flip_flops": done.flip_flops}, indent=1))


def _count(done: Folded, kind: str, reason: str | None) -> None:
    """Count a port: folded for "", not at all for `None` (nothing is connected)."""
    if reason == "":
        done.ports[kind] += 1
    elif reason is not None:
        done.refused[kind, reason] += 1


def _ports(cell: dict[str, Any], prefix: str, count: int) -> list[str]:
    return [f"{prefix}{n}" for n in range(count) if f"{prefix}{n}" in cell["connections"]]


def _behind(design: _Netlist, cell: dict[str, Any], ports: Sequence[str]) -> tuple[list[tuple[str, str]], str | None]:
    """Return output ports that are read with the flip-flop behind each, or why there is not one behind each."""
    pairs = []
    for port in ports:
        bit = net(cell, port)
        readers = design.readers.get(bit, [])
        if isinstance(bit, str) or not readers:
            continue
        first = readers[0]
        if len(readers) != 1:
            return [], "more than one reader"
        if not first or design.cells[first]["type"] != _FLIP_FLOP or net(design.cells[first], "DI") != bit:
            return [], "no flip-flop behind it"
        pairs.append((port, first))
    return pairs, None if pairs else ""


def _agreed(design: _Netlist, flip_flops: Iterable[str]) -> tuple[_Control | None, str]:
    """Return what controls all of the flip-flops, or why they differ or cannot move."""
    found = {design.control(name) for name in flip_flops}
    reasons = sorted(reason for reason in found if isinstance(reason, str))
    if reasons:
        return None, reasons[0]
    if len(found) != 1:
        return None, "different clocks, enables or resets"
    control = found.pop()
    assert isinstance(control, _Control)
    return control, ""


def _fold_read(design: _Netlist, cell: dict[str, Any], sides: str, done: Folded) -> str | None:
    """Fold what is behind a read port of a block RAM; the last of its `sides` has its clock and its enable."""
    side = sides[-1]
    pairs, reason = _behind(design, cell, [port for at in sides for port in _ports(cell, f"DO{at}", 18)])
    if reason is not None:
        return reason or None
    parameters = cell["parameters"]
    if any(parameters.get(f"REGMODE_{at}", "NOREG") != "NOREG" for at in sides):
        return "registered already"
    control, reason = _agreed(design, (name for _, name in pairs))
    if control is None:
        return reason
    for clock in (f"CLK{at}" for at in sides):
        if control.clock != net(cell, clock) or parameters.get(f"{clock}MUX", clock) != clock:
            return "another clock"
    # RST clears the word read as well.
    if control.reset != _ZERO or any(net(cell, f"RST{at}") != _ZERO for at in sides):
        return "a reset"
    # Whether the clock enable of the port stops its output register too differs between descriptions of the device.
    # Where it is always 1, or is that of the register, the answer does not matter.
    if net(cell, f"CE{side}", _ONE) not in (_ONE, control.enable):
        return "another enable"
    for at in sides:
        parameters[f"REGMODE_{at}"] = "OUTREG"
        cell["connections"][f"OCE{at}"] = [control.enable]
    _replace(design, cell, pairs, done)
    return ""


def _replace(design: _Netlist, cell: dict[str, Any], pairs: Iterable[tuple[str, str]], done: Folded) -> None:
    """Let output ports drive what the flip-flops behind them drove, and remove these."""
    for port, name in pairs:
        cell["connections"][port] = [net(design.remove(name), "Q")]
        done.flip_flops += 1


def _fold_multiplier(design: _Netlist, name: str, done: Folded) -> None:
    """Fold what is before each factor of a multiplier and behind its product.

    Each of the three may have a clock, enable and reset of its own: CLK0, CE0 and RST0 serve A, those of number 1 serve
    B, those of number 2 the product.
    """
    cell = design.cells[name]
    before = {factor: _before(design, cell, factor) for factor in "AB"}
    # With one of two registers nextpnr would count the path from what is in front of it through the product.
    both = all(reason == "" for _, reason in before.values())
    for number, (factor, (flip_flops, reason)) in enumerate(before.items()):
        if both:
            _fold_factor(design, name, factor, number, flip_flops, done)
        _count(done, f"{_MULTIPLIER}.{factor}", reason if both or reason != "" else "none before the other factor")
    pairs, reason = _behind(design, cell, _ports(cell, "P", 36))
    if reason is None:
        reason = _register(design, cell, "OUTPUT", 2, [flip_flop for _, flip_flop in pairs])
        if reason == "":
            _replace(design, cell, pairs, done)
        _count(done, f"{_MULTIPLIER}.P", reason)
    else:
        _count(done, f"{_MULTIPLIER}.P", reason or None)


def _before(design: _Netlist, cell: dict[str, Any], factor: str) -> tuple[dict[_Net, str], str | None]:
    """Return the flip-flops before the bits of a factor, or why they cannot move; `None`: it is a constant."""
    bits = {net(cell, port) for port in _ports(cell, factor, 18)} - {_ZERO}
    if not bits - {_ONE}:
        return {}, None
    before = {bit: design.flip_flop_of[bit] for bit in bits if bit in design.flip_flop_of}
    if len(before) != len(bits):
        return {}, "no flip-flop before it"
    return before, _registrable(design, cell, f"INPUT{factor}", before.values())[1]


def _fold_factor(
    design: _Netlist, name: str, factor: str, number: int, before: Mapping[_Net, str], done: Folded
) -> None:
    """Fold the flip-flops before one factor."""
    cell = design.cells[name]
    _register(design, cell, f"INPUT{factor}", number, before.values())
    for port in _ports(cell, factor, 18):
        bit = net(cell, port)
        if bit == _ZERO:
            continue
        source = net(design.cells[before[bit]], "DI")
        cell["connections"][port] = [source]
        design.readers[bit].remove(name)
        design.readers[source].append(name)
    # A flip-flop that others read stays for them.
    for bit, flip_flop in before.items():
        if not design.readers[bit]:
            design.readers[net(design.remove(flip_flop), "DI")].remove(flip_flop)
            done.flip_flops += 1


def _registrable(
    design: _Netlist, cell: dict[str, Any], part: str, flip_flops: Iterable[str]
) -> tuple[_Control | None, str]:
    """Return what controls flip-flops that a register of a multiplier can replace, or why it cannot."""
    control, reason = _agreed(design, flip_flops)
    if control is None:
        return None, reason
    if cell["parameters"].get(f"REG_{part}_CLK", "NONE") != "NONE":
        return None, "registered already"
    if control.reset != _ZERO and control.enable != _ONE:
        return None, "an enable and a reset"
    return control, ""


def _register(design: _Netlist, cell: dict[str, Any], part: str, number: int, flip_flops: Iterable[str]) -> str:
    """Use a register of a multiplier in place of flip-flops; return why that is not possible, or ""."""
    control, reason = _registrable(design, cell, part, flip_flops)
    if control is None:
        return reason
    names = {"CLK": f"CLK{number}", "CE": f"CE{number}", "RST": f"RST{number}"}
    cell["parameters"].update({f"REG_{part}_{kind}": name for kind, name in names.items()})
    cell["parameters"].update({f"CLK{number}_DIV": "ENABLED", "RESETMODE": "SYNC"})
    for kind, value in (("CLK", control.clock), ("CE", control.enable), ("RST", control.reset)):
        cell["connections"][names[kind]] = [value]
        cell["port_directions"][names[kind]] = "input"
    return ""
