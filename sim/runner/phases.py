"""The time of a chiplet between its commands, under names: together with the commands it is every cycle of a run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from hw.ring.control import RING_OPCODES

__all__ = ["Gap", "Phase", "every_cycle"]

_RING = frozenset(opcode.name.lower() for opcode in RING_OPCODES)


class Phase(NamedTuple):
    """A command's time, or that of a gap between commands.

    Attributes
    ----------
    layer, opcode
        Layer and lower-case opcode of the command. A gap has one of the names of `Gap`, and may belong to no layer.
    cycles
        Cycles in which it was under way.
    began
        Cycle of the simulation in which it began.
    """

    layer: int | None
    opcode: str
    cycles: int
    began: int


class Gap(StrEnum):
    """Time in which no command is under way."""

    #: From the start to the first command: the image's header and the first commands are read.
    START = "start"
    #: Commands are handed on and answered.
    BETWEEN = "between"
    #: The ring unit still carries out a SCATTER that has been answered, and takes no command.
    SCATTER = "scatter_background"
    #: From the last command to the completion.
    END = "end"


#: Commands that the ring unit answers before it has carried them out, and behind which it takes none of the others.
_IN_BACKGROUND = {"scatter": Gap.SCATTER}


def every_cycle(phases: Sequence[Phase], began: int, ended: int) -> list[Phase]:
    """Put the gaps between commands among them.

    The ring unit takes a command only when it has carried out the one before. A gap in front of a command of the ring
    that is longer than it takes to hand a command on is therefore due to the ring's command before, which goes on.

    Parameters
    ----------
    phases
        Of a chiplet's commands, in order.
    began, ended
        Cycles of the simulation in which the chiplet was started and completed.

    Returns
    -------
    list of Phase
        In order, each beginning where the one before ends; their cycles are ``ended - began`` in all. The layer of
        `Gap.START`, `Gap.BETWEEN` and `Gap.END` is None.
    """
    inner = [after.began - before.began - before.cycles for before, after in pairwise(phases)]
    hand_over = min((gap for gap in inner if gap > 0), default=0)
    filled: list[Phase] = []
    at = began

    def fill(layer: int | None, gap: Gap, cycles: int) -> None:
        nonlocal at
        if cycles > 0:
            filled.append(Phase(layer, gap.value, cycles, at))
            at += cycles

    last: Phase | None = None  # of the ring
    for number, phase in enumerate(phases):
        # A command that fails ends with the run.
        phase = phase._replace(cycles=min(phase.cycles, ended - phase.began))
        gap = phase.began - at
        rest = _IN_BACKGROUND.get(last.opcode) if last and phase.opcode in _RING else None
        if number == 0:
            fill(None, Gap.START, gap)
        elif rest and last:
            fill(last.layer, rest, gap - hand_over)
            fill(None, Gap.BETWEEN, phase.began - at)
        else:
            fill(None, Gap.BETWEEN, gap)
        filled.append(phase)
        at = phase.began + phase.cycles
        if phase.opcode in _RING:
            last = phase
    fill(None, Gap.END if phases else Gap.START, ended - at)
    return filled
