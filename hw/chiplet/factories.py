"""Small parts of a chiplet by name, for the list of blocks and the benches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hw.chiplet.attention import AttentionUnit
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.command_reader import CommandReader
from hw.chiplet.executor import Executor
from hw.chiplet.gather import GatherBeat, gather_unit
from hw.chiplet.gather_engine import GatherEngine
from hw.chiplet.read_gate import ReadGate
from hw.chiplet.reciprocal import Reciprocal
from hw.chiplet.task_builder import TaskBuilder
from hw.chiplet.weight_loader import WeightLoader
from hw.pe.formats import PEConfig

__all__ = [
    "AHEAD",
    "ERROR_SOURCES",
    "FETCH_DEPTH",
    "GATE_CLIENTS",
    "GATE_MOST",
    "PARTS",
    "attention",
    "gather_chiplet",
    "part",
    "reciprocal",
]

#: Units that report to the executor.
ERROR_SOURCES = 3
#: Commands read ahead, by the width of the port.
AHEAD = {64: 3, 256: 1}
#: Beats the gather unit may have asked for: the fewest.
FETCH_DEPTH = 16
GATE_CLIENTS = 3
GATE_MOST = 5
PARTS: dict[str, Callable[[PEConfig], Any]] = {
    "gather": lambda pe: gather_unit(pe, FETCH_DEPTH),
    "builder": TaskBuilder,
    "loader": WeightLoader,
    "commands": lambda pe: CommandReader(pe.address_width, pe.data_width, AHEAD[pe.data_width]),
    "executor": lambda pe: Executor(pe, ERROR_SOURCES),
    "gate": lambda pe: ReadGate(pe.address_width, pe.data_width, GATE_CLIENTS, GATE_MOST),
}


def reciprocal(**_: Any) -> Reciprocal:
    """Return the pipeline; how long its bench runs is the bench's own business."""
    return Reciprocal()


def attention(data_width: int, max_beats: int) -> AttentionUnit:
    """Return an attention unit for the beats of the gather unit."""
    return AttentionUnit(GatherBeat(data_width), max_beats)


def part(name: str, **sizes: Any) -> Any:
    """Return one part for a PE of these `sizes` (of `PEConfig`)."""
    return PARTS[name](PEConfig(**sizes))


def gather_chiplet() -> Chiplet:
    """Return a chiplet with gather PEs as ``configs/default.toml`` has it, alone and without units."""
    return Chiplet(GatherEngine())
