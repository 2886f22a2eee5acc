"""Frames on the G-bus, by which programs and data reach a chip and results come back (D7, D10).

A frame is a header, and for WRITE and READ an address, a number of words and, for WRITE, the words. What READ asks
for comes back on the outgoing G-bus in order.
"""

from collections.abc import Sequence
from enum import IntEnum

from contracts import Field, Layout

__all__ = ["HEADER", "Operation", "Space", "off", "on", "read", "write"]


class Operation(IntEnum):
    """What a frame asks for."""

    NOP = 0
    WRITE = 1
    READ = 2
    ON = 3
    OFF = 4


class Space(IntEnum):
    """What is written or read; memories only off-line."""

    PROGRAM = 0
    WM = 1
    XM = 2
    STATUS = 3


HEADER = Layout(
    "GBusHeader",
    "First word of a frame on the G-bus (D7).",
    (
        Field("core", 2, "processor of the chip: 2·row + column"),
        Field("chip", 8, "chip, counted row by row"),
        Field("space", 2, "memory or status", enum=Space),
        Field("all", 1, "1: every processor of every chip; not with READ"),
        Field("operation", 3, "what to do", enum=Operation),
    ),
)
_WORD = 0xFFFF


def _header(operation: Operation, target: tuple[int, int] | None, space: Space = Space.PROGRAM) -> int:
    chip, core = target or (0, 0)
    return HEADER.pack({"core": core, "chip": chip, "space": space, "all": target is None, "operation": operation})


def write(target: tuple[int, int] | None, space: Space, address: int, words: Sequence[int]) -> list[int]:
    """Frame that writes `words` to a processor ``(chip, core)``, or to all of them for ``None``."""
    return [_header(Operation.WRITE, target, space), address, len(words), *(int(word) & _WORD for word in words)]


def read(target: tuple[int, int], space: Space, address: int, count: int) -> list[int]:
    """Frame that asks a processor for `count` words."""
    return [_header(Operation.READ, target, space), address, count]


def on(target: tuple[int, int] | None = None) -> list[int]:
    """Frame that starts the programs of a chip, or of all chips."""
    return [_header(Operation.ON, target)]


def off(target: tuple[int, int] | None = None) -> list[int]:
    """Frame that takes a chip, or all chips, off-line."""
    return [_header(Operation.OFF, target)]
