"""Makes the PE's blocks from plain numbers, for the list of blocks."""

from typing import Any

from contracts import ACCUMULATOR_BITS
from hw.pe.chain import Chain
from hw.pe.drain import Drain
from hw.pe.formats import PEConfig
from hw.pe.group import PEGroup
from hw.pe.lane_issue import LaneIssue
from hw.pe.lanes import LaneArray
from hw.pe.pe import PE
from hw.pe.requantiser import Requantiser
from hw.pe.router import TaskRouter
from hw.pe.weight_memory import WeightMemory


def requantiser(value_bits: int = ACCUMULATOR_BITS, *, bias: bool = True, **_: Any) -> Requantiser:
    """Return a requantiser; how long its bench runs is the bench's own business."""
    return Requantiser(value_bits, bias=bias)


def lane_issue(**config: Any) -> LaneIssue:
    """Return an issue unit for ``PEConfig(**config)``."""
    return LaneIssue(PEConfig(**config))


def lanes(**config: Any) -> LaneArray:
    """Return a lane array for ``PEConfig(**config)``; the field `lanes` is one of its numbers."""
    return LaneArray(PEConfig(**config))


def chain(width: int, depth: int) -> Chain:
    """Return a chain of `depth` words of `width` bits."""
    return Chain(width, depth)


def drain(**config: Any) -> Drain:
    """Return a drain for ``PEConfig(**config)``."""
    return Drain(PEConfig(**config))


def pe(**config: Any) -> PE:
    """Return a PE for ``PEConfig(**config)``."""
    return PE(PEConfig(**config))


def router(takers: int, **config: Any) -> TaskRouter:
    """Return a router for ``PEConfig(**config)``."""
    return TaskRouter(PEConfig(**config), takers)


def group(pes: int, **config: Any) -> PEGroup:
    """Return a group of `pes` for ``PEConfig(**config)``."""
    return PEGroup(PEConfig(**config), pes)


def weight_memory(readers: int, **config: Any) -> WeightMemory:
    """Return a weight memory for ``PEConfig(**config)``."""
    return WeightMemory(PEConfig(**config), readers)
