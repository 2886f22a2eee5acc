"""Words between a host and an array of DNP-IIs behind AXI4-Stream: interface board and buffer board (D10).

Each beat is a word with the place that it is for or from, so words of all edge ports and of the G-bus may follow each
other in any order. A packet that a host sends holds whole frames of the G-bus (`contracts.dnp.gbus`).
"""

from collections.abc import Iterable
from enum import IntEnum

from contracts.dnp.config import WORD
from contracts.layout import Field, Layout

__all__ = ["BEAT", "BeatKind", "beats"]


class BeatKind(IntEnum):
    """Where a word goes to or comes from."""

    EDGE = 0
    G_BUS = 1
    END = 2


BEAT = Layout(
    "ArrayBeat",
    "Beat of the streams to and from an array of DNP-IIs: kind 0 a word of an edge port; 1 a word of a frame on the "
    "G-bus, or of an answer to one; 2, from the array only: the run has ended, its word is 1 if the host stopped it.",
    (
        Field("word", WORD, "the word"),
        Field("port", 12, "edge port in the order north by column, east by row, south, west; otherwise 0"),
        Field("kind", 4, "where the word goes to or comes from", enum=BeatKind),
    ),
)
_WORD = (1 << WORD) - 1


def beats(kind: BeatKind, words: Iterable[int], port: int = 0) -> list[int]:
    """Return a beat for each word, signed or not."""
    return [BEAT.pack({"kind": kind, "port": port, "word": int(word) & _WORD}) for word in words]
