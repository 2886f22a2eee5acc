"""Room for weights in a PE, and the blocks of columns and rows in which a layer that exceeds it is computed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from contracts import COMMANDS, DIGIT_BITS, DIGIT_FEATURES, LINE_BYTES, ROW_BYTES, VALUE_BITS, Opcode
from contracts.errors import InputError

__all__ = ["GRANULE", "WEIGHT_PAGES", "Blocks", "Traffic", "WeightRoom", "page_bits"]

#: Elements of a granule, at which a block of columns begins.
GRANULE = 8 * ROW_BYTES // VALUE_BITS
#: Features of a line, at which a block of rows begins.
_LINE = 8 * LINE_BYTES // VALUE_BITS
#: Most granules between two rows of digits.
_MOST_GRANULES = next(
    (1 << field.bits) - 1 for field in COMMANDS[Opcode.COMBINE].fields if field.name == "row_granules"
)
#: Pages of a weight memory, in any of which a matrix may begin.
WEIGHT_PAGES = next(1 << field.bits for field in COMMANDS[Opcode.LOAD_WEIGHTS].fields if field.name == "page")


def page_bits(rows: int) -> int:
    """Return the logarithm of the rows of a page of a weight memory of so many `rows`."""
    return max(0, (rows - 1).bit_length() - WEIGHT_PAGES.bit_length() + 1)


class Traffic(NamedTuple):
    """Bytes that a layer in blocks moves through the memory port.

    Attributes
    ----------
    again
        Read once for each block of columns: features, and what sums are formed along.
    vertices
        Number of rows that are combined.
    """

    again: int
    vertices: int

    def of(self, f_out: int, columns: int, rows: int) -> int:
        """Return the bytes that depend on the blocks: `rows` of them, of `columns` columns each but for the last."""
        digits = 0
        if rows > 1:
            # They are written and read.
            digits = 2 * len(DIGIT_BITS) * rows * -(-f_out // GRANULE) * ROW_BYTES * self.vertices
        return -(-f_out // columns) * self.again + digits


class Blocks(NamedTuple):
    """Blocks of the weights of a layer.

    Attributes
    ----------
    columns
        Outputs; they begin at multiples of `GRANULE` and are as wide as the first, but for the last.
    rows
        Inputs. If there are several, the sums of each are kept as digits; they begin at lines.
    """

    columns: list[range]
    rows: list[range]


@dataclass(frozen=True)
class WeightRoom:
    """Weights that every PE of a chiplet has room for.

    Attributes
    ----------
    lanes
        Weights of a row of the memory.
    rows
        Rows of the memory: an input feature takes as many as an output row has chunks of `lanes`, rounded up to a power
        of two.
    columns
        Output features that are computed at a time, at most.
    """

    lanes: int
    rows: int
    columns: int

    def blocks(self, f_in: int, f_out: int, traffic: Traffic | None = None) -> Blocks:
        """Return the blocks of a layer: those that move the fewest bytes, and of these the widest.

        Weights are read once in any case: each block of them is loaded for all vertices. Nothing else stays on the
        chip, so features are read once for each block of columns, whatever the order of the blocks.

        Parameters
        ----------
        f_in, f_out
            Rows and columns of the weight matrix.
        traffic
            Cost of blocks; default: blocks of rows cost more than any number of blocks of columns.

        Raises
        ------
        InputError
            If there is no room for `GRANULE` columns of 32 features, digits would lie too far apart, or fewer than
            `GRANULE` outputs are computed at a time, which no block of a wider layer is.
        """
        cost: Callable[[Blocks], tuple[int, ...]]
        if traffic is None:
            cost = _fewest
        else:
            cost = lambda blocks: (traffic.of(f_out, len(blocks.columns[0]), len(blocks.rows)),)  # noqa: E731
        found = min(self._choices(f_in, f_out), key=cost, default=None)
        if found is None:
            if self.columns < min(f_out, GRANULE):
                raise InputError("layer", f"has {f_out} outputs", f"at most {self.columns}")
            width = min(f_out, GRANULE)
            most = max(self.rows // self._chunks(width), _MOST_GRANULES // len(DIGIT_BITS) * self._height(width))
            raise InputError("layer", f"has {f_in} input features", f"at most {most}")
        return found

    def pages(self, sizes: Sequence[tuple[int, int]]) -> list[int]:
        """Return the pages in which matrices begin, so that all of them stay: 0 for each if there is no room for all.

        Parameters
        ----------
        sizes
            Rows and columns of each matrix.
        """
        bits = page_bits(self.rows)
        wanted = [1 << max(bits, (f_in * self._chunks(f_out) - 1).bit_length()) for f_in, f_out in sizes]
        # In falling order each begins at a multiple of its own size.
        order = sorted(range(len(wanted)), key=lambda n: -wanted[n])
        first, found = 0, [0] * len(wanted)
        for number in order:
            found[number] = first >> bits
            first += wanted[number]
        return found if first <= self.rows else [0] * len(wanted)

    def _choices(self, f_in: int, f_out: int) -> Iterator[Blocks]:
        """Yield the blocks for every width, the widest first."""
        most = min(self.columns, f_out)
        for width in (*([f_out] if most == f_out else []), *range(most // GRANULE * GRANULE, 0, -GRANULE)):
            columns = [range(first, min(first + width, f_out)) for first in range(0, f_out, width)]
            height = f_in if f_in * self._chunks(width) <= self.rows else self._height(width)
            if height:
                rows = [range(first, min(first + height, f_in)) for first in range(0, f_in, height)]
                if len(rows) == 1 or len(DIGIT_BITS) * len(rows) * -(-width // GRANULE) <= _MOST_GRANULES:
                    yield Blocks(columns, rows)

    def _height(self, width: int) -> int:
        """Return the features of a block of rows, if there are several."""
        return min(self.rows // self._chunks(width), DIGIT_FEATURES) // _LINE * _LINE

    def _chunks(self, f_out: int) -> int:
        return 1 << (-(-f_out // self.lanes) - 1).bit_length()


def _fewest(blocks: Blocks) -> tuple[int, ...]:
    return len(blocks.rows), len(blocks.columns)
