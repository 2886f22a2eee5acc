"""Gate count of a neural chip without its memories, beside the paper's 60,000 (D14)."""

from __future__ import annotations

import json
from typing import Any

from contracts.dnp.config import ProcessorConfig
from hw.dnp.chip import NeuralChip
from scripts.flows.yosys import yosys
from sim.harness.build import ROOT, digest, to_rtlil

__all__ = ["PAPER", "WEIGHTS", "chip_gates"]

#: Gates of the paper's chip, without memories.
PAPER = 60_000
#: Size of a cell in NAND2 equivalents, as in a usual 0.8 µm standard-cell library.
WEIGHTS = {
    "$_NOT_": 0.67,
    "$_NAND_": 1.0,
    "$_NOR_": 1.0,
    "$_AND_": 1.33,
    "$_OR_": 1.33,
    "$_XOR_": 2.33,
    "$_XNOR_": 2.33,
    "$_MUX_": 2.33,
    # Compound gates by their transistors: 6 and 8, of which a NAND2 has 4.
    "$_AOI3_": 1.5,
    "$_OAI3_": 1.5,
    "$_AOI4_": 2.0,
    "$_OAI4_": 2.0,
}
#: A flip-flop, and what an enable (a multiplexer) and a synchronous reset (an AND) add.
_FLIP_FLOP, _ENABLE, _RESET = 4.67, 2.33, 1.33

# The memories stay as cells of their own, so that what drives and reads them is counted.
_SCRIPT = """
read_rtlil model.il
hierarchy -top neural_chip
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
abc -g AND,NAND,OR,NOR,XOR,XNOR,MUX,AOI3,OAI3,AOI4,OAI4
opt_clean
tee -q -o raw.json stat -json
"""


def _size(kind: str) -> float:
    if "DFF" in kind:
        return _FLIP_FLOP + _ENABLE * ("DFFE" in kind) + _RESET * ("SDFF" in kind)
    return WEIGHTS.get(kind, 0.0)


def chip_gates(config: ProcessorConfig | None = None) -> dict[str, Any]:
    """Return NAND2 equivalents of a chip of four processors with its control block, and the cells behind them.

    Counters of clocks are left out: the paper's chip has none.
    """
    model = to_rtlil(NeuralChip(config, counters=0), "neural_chip")
    folder = ROOT / "build" / "dnp" / f"gates-{digest(model, _SCRIPT)}"
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "stat.json"
    if not known.exists():
        (folder / "model.il").write_text(model)
        yosys(_SCRIPT, cwd=folder, name="gates")
        (folder / "raw.json").replace(known)
    cells = json.loads(known.read_text())["design"]["num_cells_by_type"]
    flip_flops = sum(count for kind, count in cells.items() if "DFF" in kind)
    total = sum(count * _size(kind) for kind, count in cells.items())
    in_flip_flops = sum(count * _size(kind) for kind, count in cells.items() if "DFF" in kind)
    return {
        "gates": round(total),
        "paper": PAPER,
        "flip_flops": flip_flops,
        "flip_flop_gates": round(in_flip_flops),
        "cells": cells,
    }
