"""How a network is calibrated on a graph: which share of the values fits, and how many bits they have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts import VALUE_BITS
from contracts.errors import InputError
from contracts.scale import MANTISSA_FRACTION
from golden.model.rounding import VALUE_MAX

__all__ = ["BITS", "HEADROOM", "Calibration", "fraction_of", "integers", "magnitudes"]

#: Bits left free above the largest value seen, for graphs that change between inferences.
HEADROOM = 1
#: Widths of features and weights.
BITS = (8, VALUE_BITS)


@dataclass(frozen=True)
class Calibration:
    """Settings of a calibration.

    Attributes
    ----------
    percentile
        Share of the magnitudes of a tensor, without its zeros, that its scale leaves room for, in percent; larger ones
        saturate. 100: all.
    bits
        Of features and weights, and of what a layer hands to the next one. Fewer than 16 are values of so many bits in
        lanes of 16. Combined rows and the last results always have 16.
    headroom
        Bits of combined rows and results to spare, 0 to 8.

    Raises
    ------
    InputError
        If one is out of range.
    """

    percentile: float = 100.0
    bits: int = VALUE_BITS
    headroom: int = HEADROOM

    def __post_init__(self) -> None:
        if not 50 <= self.percentile <= 100:
            raise InputError("percentile", f"is {self.percentile:g}", "50..100")
        if self.bits not in BITS:
            raise InputError("bits", f"is {self.bits}", " or ".join(map(str, BITS)))
        if not 0 <= self.headroom <= 8:
            raise InputError("headroom", f"is {self.headroom}", "0..8 bits")

    @property
    def given_limit(self) -> int:
        """Largest feature or weight."""
        return (1 << (self.bits - 1)) - 1

    def limit(self, *, last: bool) -> int:
        """Return the largest result of a layer that is kept free of the headroom."""
        return (VALUE_MAX if last else self.given_limit) >> self.headroom

    @property
    def combined_limit(self) -> int:
        """Largest element of a combined row that is kept free of the headroom."""
        return VALUE_MAX >> self.headroom

    def peak(self, values: Any) -> float:
        """Magnitude that a scale has to leave room for; 0 without values.

        Parameters
        ----------
        values
            Numbers, dense or sparse.
        """
        found = magnitudes(values)
        if self.percentile == 100 or not found.size:
            return float(found.max(initial=0))
        if not np.isfinite(found).all():
            return float("inf")
        some = found[found > 0]
        return float(np.percentile(some, self.percentile)) if some.size else 0.0


def magnitudes(values: Any) -> npt.NDArray[np.float64]:
    """float64, magnitudes of all numbers that are stored."""
    return np.abs(np.asarray(values.data if sparse.issparse(values) else values, dtype=np.float64))


def fraction_of(peak: float, limit: int = VALUE_MAX) -> int:
    """Most fraction bits with which a number of magnitude ``peak`` rounds to at most ``limit``; 15 for 0.

    The result may be negative or exceed the width of a value.

    Raises
    ------
    InputError
        If the number is not finite.
    """
    if not np.isfinite(peak):
        raise InputError("quantisation", "a sum overflows", "smaller weights or features: rescale them")
    if peak == 0:
        return MANTISSA_FRACTION
    fraction = int(np.floor(np.log2(limit) - np.log2(peak))) + 1
    while np.rint(np.ldexp(peak, fraction)) > limit:
        fraction -= 1
    return fraction


def integers(values: Any, fraction: int, limit: int = VALUE_MAX) -> Any:
    """Round to nearest, ties to even, and saturate at ``limit``; entries of a sparse matrix that become 0 are dropped.

    Parameters
    ----------
    values
        Numbers, dense or sparse.
    fraction
        Fraction bits.
    limit
        Largest magnitude of the result; the most negative one is one more.
    """
    numbers = values.data if sparse.issparse(values) else values
    scaled = np.rint(np.ldexp(numbers.astype(np.float64), fraction))
    whole = np.clip(scaled, -limit - 1, limit).astype(np.int16)
    if not sparse.issparse(values):
        return whole
    rows = sparse.csr_array((whole, values.indices.copy(), values.indptr.copy()), shape=values.shape)
    rows.eliminate_zeros()
    return rows
