"""Room for weights in a PE, and the blocks of columns in which a layer that exceeds it is computed."""

from dataclasses import dataclass

from contracts import ROW_BYTES, VALUE_BITS
from contracts.errors import InputError

__all__ = ["GRANULE", "WeightRoom"]

#: Elements of a granule, at which a block of columns begins.
GRANULE = 8 * ROW_BYTES // VALUE_BITS


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

    def blocks(self, f_in: int, f_out: int) -> list[range]:
        """Return the blocks of columns of a layer: one if it has room, else as few as possible.

        All blocks begin at a multiple of `GRANULE` and are as wide as the first, but for the last.

        Parameters
        ----------
        f_in, f_out
            Rows and columns of the weight matrix.

        Raises
        ------
        InputError
            If not even `GRANULE` columns have room.
        """
        if self._fits(f_in, f_out):
            return [range(f_out)]
        width = min(self.columns, f_out) // GRANULE * GRANULE
        while width and not self._fits(f_in, width):
            width -= GRANULE
        if not width:
            what = f"has {f_in} input features"
            raise InputError("layer", what, f"at most {self.rows // self._chunks(GRANULE)}")
        return [range(first, min(first + width, f_out)) for first in range(0, f_out, width)]

    def _fits(self, f_in: int, f_out: int) -> bool:
        return f_out <= self.columns and f_in * self._chunks(f_out) <= self.rows

    def _chunks(self, f_out: int) -> int:
        return 1 << (-(-f_out // self.lanes) - 1).bit_length()
