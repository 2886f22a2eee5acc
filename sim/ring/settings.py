"""How the memories of a simulated ring behave, and what goes wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.models.memory import MemorySettings

__all__ = ["RingSettings"]


@dataclass(frozen=True, kw_only=True)
class RingSettings(MemorySettings):
    """How all memories behave, and what goes wrong.

    Attributes
    ----------
    read_errors, write_errors
        Chiplet, first and last byte address whose reads or writes fail; or None.
    origin
        Byte address at which the memories, and so the images, begin; a multiple of 4,096.
    settle
        Cycles between reset and start.
    late
        Cycles after the others until a chiplet is started, by chiplet.
    reset_after
        Cycles after which all are reset and the run is begun again, or 0.
    reset_one
        A chiplet, and the cycles after which it alone is reset; or None. What it does then: stay so, or begin again
        after as many cycles more, if they are not 0.
    limit
        Cycles after which a chiplet without a completion is an error.
    """

    latency: int = 20
    read_errors: tuple[int, int, int] | None = None
    write_errors: tuple[int, int, int] | None = None
    origin: int = 0
    settle: int = 0
    late: dict[int, int] = field(default_factory=dict)
    reset_after: int = 0
    reset_one: tuple[int, int, int] | None = None
    limit: int = 2_000_000
