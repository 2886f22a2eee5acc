"""Types of the streams around an array of DNP-IIs (D10)."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from contracts import ArrayError
from contracts.dnp.board import BEAT
from contracts.dnp.config import WORD
from hw.contracts import struct

__all__ = ["INFO_BITS", "Beat", "FrameWord", "Refusal"]

#: Bits of what an error says beside its code.
INFO_BITS = 32


class Beat(data.StructLayout):
    """A beat of the outer streams with its TLAST."""

    def __init__(self) -> None:
        super().__init__({"beat": struct(BEAT), "last": 1})


class FrameWord(data.StructLayout):
    """A word of a frame or of an answer; ``last``: the packet or the answer ends with it."""

    def __init__(self) -> None:
        super().__init__({"word": unsigned(WORD), "last": 1})


class Refusal(data.StructLayout):
    """Something is refused in this clock if ``code`` is not 0."""

    def __init__(self) -> None:
        super().__init__({"code": unsigned(max(ArrayError).bit_length()), "info": unsigned(INFO_BITS)})
