"""Formats of the graph readers: requests, rows, segments and error reports."""

from typing import Any

from amaranth import unsigned
from amaranth.lib import data
from amaranth.utils import exact_log2

from hw.memory.formats import WORD_BYTES

__all__ = ["WORD_BITS", "CsrRequest", "ErrorReport", "RowBeat", "Segment", "is_high_half"]

#: Bits of a word of an array.
WORD_BITS = 8 * WORD_BYTES

#: Report of bad data: a code of `contracts.Error` and its info.
ErrorReport = data.StructLayout({"code": unsigned(8), "info": unsigned(32)})


class CsrRequest(data.StructLayout):
    """A request to read all rows of an array.

    ``offsets``, ``array``: word addresses (byte address / 4) of lines. ``words``: length of the array.
    ``rows``, ``tiles``: the offsets array has ``rows * tiles + 1`` entries, less than 2^32, in words of the array.
    ``tiles`` is at least 1; without rows, nothing is read.
    ``paired``: the offsets count pairs of words.
    ``uniform``: there are no offsets, every row has ``stride`` words, and ``tiles`` is 1.
    """

    def __init__(self, address_width: int) -> None:
        word_address = address_width - exact_log2(WORD_BYTES)
        super().__init__(
            {
                "offsets": word_address,
                "array": word_address,
                "words": 32,
                "rows": 32,
                "tiles": 8,
                "paired": 1,
                "uniform": 1,
                "stride": 24,
            }
        )


class RowBeat(data.StructLayout):
    """Part of a row.

    ``data``: a beat of memory. ``mask``: its words that belong to this tile of the row; 0 for an empty tile. ``first``,
    ``last``: first and last beat of the row. ``tile``: source tile. ``tile_last``: last beat of the tile.
    """

    def __init__(self, data_width: int) -> None:
        super().__init__(
            {
                "data": data_width,
                "mask": data_width // WORD_BITS,
                "first": 1,
                "last": 1,
                "tile": 8,
                "tile_last": 1,
            }
        )


#: One tile of one row: where it ends in the array, in words. It begins where the previous one ended.
Segment = data.StructLayout({"end": 32, "tile": 8, "first": 1, "last": 1, "final": 1})


def is_high_half(vid: Any, first_partial: Any) -> Any:
    """Return whether the row of a vertex holds the high halves of a partial sum, which count 2^16 times.

    Parameters
    ----------
    vid
        Of the vertex.
    first_partial
        VID of the first row of halves. Such rows lie behind those of all vertices, for each hub its low halves and then
        its high halves.
    """
    return (vid >= first_partial) & (vid[0] != first_partial[0])
