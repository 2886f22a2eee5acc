"""Gate count of a neural chip without its memories, beside the paper's 60,000 (D14)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from contracts.dnp.config import ProcessorConfig
from hw.dnp.address import AddressGenerator
from hw.dnp.arithmetic import Arithmetic
from hw.dnp.ccb import ChipControl
from hw.dnp.chip import NeuralChip
from hw.dnp.core import Core
from hw.dnp.decoder import Decoder
from hw.dnp.instruction_issue import InstructionIssue
from hw.dnp.port import Port
from scripts.flows.yosys import yosys
from sim.harness.build import ROOT, digest, to_rtlil

__all__ = ["CELLS", "PAPER", "Gates", "chip_gates", "gates_of"]

#: Gates of the paper's chip, without memories.
PAPER = 60_000
#: Cells: size in NAND2 equivalents, as in a usual 0.8 µm standard-cell library, and function. They are chosen by size.
CELLS = {
    "NOT": (0.67, "!A"),
    "BUF": (1.33, "A"),
    "NAND": (1.0, "!(A*B)"),
    "NOR": (1.0, "!(A+B)"),
    "AND": (1.33, "A*B"),
    "OR": (1.33, "A+B"),
    "XOR": (2.33, "A*!B+!A*B"),
    "XNOR": (2.33, "A*B+!A*!B"),
    "MUX": (2.33, "A*!S+B*S"),
    # Compound gates by their transistors: 6 and 8, of which a NAND2 has 4.
    "AOI3": (1.5, "!(A*B+C)"),
    "OAI3": (1.5, "!((A+B)*C)"),
    "AOI4": (2.0, "!(A*B+C*D)"),
    "OAI4": (2.0, "!((A+B)*(C+D))"),
}
#: The same for ABC, where every pin is as slow as any other.
_LIBRARY = "GATE ZERO 0 Y=CONST0;\nGATE ONE 0 Y=CONST1;\n" + "".join(
    f"GATE {name} {size} Y={function}; PIN * UNKNOWN 1 999 1 0 1 0\n" for name, (size, function) in CELLS.items()
)
#: A flip-flop, and what an enable (a multiplexer) and a synchronous reset (an AND) add.
_FLIP_FLOP, _ENABLE, _RESET = 4.67, 2.33, 1.33

# The memories stay as cells of their own, so that what drives and reads them is counted.
_SCRIPT = """
read_rtlil model.il
hierarchy -top {top}
proc
flatten
opt
wreduce
peepopt
opt_clean
booth -lowpower
alumacc
share
opt
memory -nomap
opt -full
techmap
opt -fast
dfflegalize -cell $_DFF_P_ 01
opt
abc -genlib cells.genlib
opt_clean
tee -q -o raw.json stat -json
"""


def _size(kind: str) -> float:
    if "DFF" in kind:
        return _FLIP_FLOP + _ENABLE * ("DFFE" in kind) + _RESET * ("SDFF" in kind)
    return CELLS[kind][0] if kind in CELLS else 0.0


@dataclass(frozen=True)
class Gates:
    """Gates of a module, in NAND2 equivalents: all of them, those in flip-flops, and how many flip-flops there are."""

    gates: int
    flip_flop_gates: int
    flip_flops: int


def gates_of(component: Any, top: str) -> Gates:
    """Count the gates of a component without its memories."""
    model = to_rtlil(component, top)
    script = _SCRIPT.format(top=top)
    folder = ROOT / "build" / "dnp" / f"gates-{digest(model, script, _LIBRARY)}"
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "stat.json"
    if not known.exists():
        (folder / "model.il").write_text(model)
        (folder / "cells.genlib").write_text(_LIBRARY)
        yosys(script, cwd=folder, name="gates")
        (folder / "raw.json").replace(known)
    cells = json.loads(known.read_text())["design"]["num_cells_by_type"]
    flip_flops = {kind: count for kind, count in cells.items() if "DFF" in kind}
    in_flip_flops = sum(count * _size(kind) for kind, count in flip_flops.items())
    total = sum(count * _size(kind) for kind, count in cells.items())
    return Gates(round(total), round(in_flip_flops), sum(flip_flops.values()))


def chip_gates(config: ProcessorConfig | None = None) -> dict[str, Gates]:
    """Return the gates of a chip of four processors with its control block, and of modules synthesised apart.

    Counters of clocks are left out: the paper's chip has none.
    """
    config = config or ProcessorConfig()
    return {
        "chip": gates_of(NeuralChip(config, counters=0), "neural_chip"),
        "processor": gates_of(Core(config, counters=0), "core"),
        "arithmetic pipeline": gates_of(Arithmetic(config), "arithmetic"),
        "issue stage": gates_of(InstructionIssue(config), "issue"),
        "address generator of WM": gates_of(AddressGenerator(config.wm_depth, past_start=1), "wm"),
        "address generator of XM": gates_of(AddressGenerator(config.xm_depth, past_start=0, step=1), "xm"),
        "decoder": gates_of(Decoder(), "decoder"),
        "port": gates_of(Port(), "port"),
        "control block": gates_of(ChipControl(4), "control"),
    }
