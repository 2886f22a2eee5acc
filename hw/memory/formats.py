"""Payloads of the streams of the memory side."""

from amaranth.lib import data
from amaranth.utils import exact_log2

from contracts import COMMANDS, LINE_BYTES, ROW_BYTES, Opcode
from hw.contracts import struct

__all__ = [
    "BURST_BEATS",
    "CLIENTS_MAX",
    "LINE_BYTES",
    "RangeBeat",
    "RangeRequest",
    "ReadBeat",
    "ReadRequest",
    "Word",
    "WriteRequest",
    "beat_address_width",
    "check_port",
    "line_address_width",
    "row_beats_width",
]

#: Beats of the longest burst.
BURST_BEATS = 16
#: Most read clients of a unit.
CLIENTS_MAX = 16
#: Bytes of a word, the unit of ranges.
WORD_BYTES = 4

_DATA_WIDTHS = (64, 128, 256)
_ADDRESS_WIDTHS = range(13, 65)


def check_port(address_width: int, data_width: int) -> None:
    """Check the widths of a memory port.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    data_width
        Width of a beat, in bits.

    Raises
    ------
    ValueError
        If a width is not supported.
    """
    if address_width not in _ADDRESS_WIDTHS:
        raise ValueError(f"address_width must be in 13..64, not {address_width!r}")
    if data_width not in _DATA_WIDTHS:
        raise ValueError(f"data_width must be 64, 128 or 256, not {data_width!r}")


def beat_address_width(address_width: int, data_width: int) -> int:
    """Width of beat addresses, in bits."""
    return address_width - exact_log2(data_width // 8)


def line_address_width(address_width: int) -> int:
    """Width of line addresses, in bits."""
    return address_width - exact_log2(LINE_BYTES)


def row_beats_width(data_width: int) -> int:
    """Width of the distance of result rows of any length, in bits; the distance is in beats."""
    granules: int = struct(COMMANDS[Opcode.AGGREGATE])["row_granules"].width
    return granules + exact_log2(8 * ROW_BYTES // data_width)


class ReadRequest(data.StructLayout):
    """A burst to read.

    ``address``: of its first beat, in beats (byte address / bytes of a beat). ``length``: beats - 1. A burst
    must not cross 4 KiB.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        super().__init__({"address": beat_address_width(address_width, data_width), "length": 4})


class ReadBeat(data.StructLayout):
    """A beat that was read.

    ``data``: as it lies in memory, lowest byte lowest. ``error``: the memory answered SLVERR or DECERR and
    ``data`` is meaningless. ``last``: last beat of its burst.
    """

    def __init__(self, data_width: int) -> None:
        super().__init__({"data": data_width, "error": 1, "last": 1})


class RangeRequest(data.StructLayout):
    """A range of 32-bit words to read.

    ``address``: of the first word, in words (byte address / 4). ``words``: their number; an empty range is
    answered too.
    """

    def __init__(self, address_width: int) -> None:
        super().__init__({"address": address_width - exact_log2(WORD_BYTES), "words": 32})


class RangeBeat(data.StructLayout):
    """A beat of a range.

    ``data``: as it lies in memory. ``mask``: for every word of the beat whether it belongs to the range, lowest
    word lowest; the words are neighbours. ``last``: last beat of the range. ``error``: the memory failed.
    An empty range is one beat with ``mask`` 0 and ``last`` 1; its ``data`` are undefined and may change while it waits.
    """

    def __init__(self, data_width: int) -> None:
        super().__init__({"data": data_width, "mask": data_width // (8 * WORD_BYTES), "last": 1, "error": 1})


class Word(data.StructLayout):
    """A word of a range.

    ``data``: the word. ``last``: last of its range. ``error``: the memory failed. ``empty``: the range had no
    words; ``data`` is 0 and ``last`` is 1.
    """

    def __init__(self) -> None:
        super().__init__({"data": 8 * WORD_BYTES, "last": 1, "error": 1, "empty": 1})


class WriteRequest(data.StructLayout):
    """A beat to write.

    ``address``: in beats. ``data``: lowest byte lowest. ``strobe``: for every byte whether it is written.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        super().__init__(
            {"address": beat_address_width(address_width, data_width), "data": data_width, "strobe": data_width // 8}
        )
