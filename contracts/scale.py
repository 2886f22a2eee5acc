"""Normalisation factors as unsigned mantissa and right shift: mantissa * 2^-(15 + exponent)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from contracts.errors import InputError

__all__ = ["EXPONENT_MAX", "GIN_FRACTION", "MANTISSA_FRACTION", "Scales", "scales_of"]

#: Fraction bits that 1 + eps adds to the aggregation sums of GIN.
GIN_FRACTION = 8

#: Fraction bits of a mantissa: 1.0 is 0x8000.
MANTISSA_FRACTION = 15
#: Largest exponent, of 5 bits.
EXPONENT_MAX = 31
_TOP = 1 << MANTISSA_FRACTION


@dataclass(frozen=True, eq=False)
class Scales:
    """One factor per node.

    Attributes
    ----------
    mantissa
        uint16 [nodes], top bit set, or 0 for the factor 0.
    exponent
        uint8 [nodes], 0..31.

    Raises
    ------
    InputError
        If types or shapes differ from these, a mantissa is not normalised or an exponent exceeds 31.
    """

    mantissa: npt.NDArray[np.uint16]
    exponent: npt.NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.mantissa.dtype != np.uint16 or self.exponent.dtype != np.uint8:
            raise InputError("scales", f"are {self.mantissa.dtype} and {self.exponent.dtype}", "uint16 and uint8")
        if self.mantissa.ndim != 1 or self.mantissa.shape != self.exponent.shape:
            raise InputError("scales", f"have shapes {self.mantissa.shape} and {self.exponent.shape}", "[nodes] twice")
        if ((self.mantissa < _TOP) & (self.mantissa != 0)).any():
            raise InputError("scales", "a mantissa is not normalised", "the top bit set, or 0")
        if (self.exponent > EXPONENT_MAX).any():
            raise InputError("scales", f"an exponent is {self.exponent.max()}", f"0..{EXPONENT_MAX}")

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.mantissa.size

    def real(self) -> npt.NDArray[np.float64]:
        """float64 [nodes], the factors, exactly."""
        return np.ldexp(self.mantissa.astype(np.float64), -(MANTISSA_FRACTION + self.exponent.astype(np.int32)))

    def fraction(self, node: int) -> Fraction:
        """Factor of one node as a fraction."""
        return Fraction(int(self.mantissa[node]), 1 << (MANTISSA_FRACTION + int(self.exponent[node])))

    def take(self, nodes: npt.ArrayLike) -> "Scales":
        """Scales of some nodes, in the order given."""
        chosen = np.asarray(nodes)
        return Scales(self.mantissa[chosen], self.exponent[chosen])


def scales_of(factors: npt.ArrayLike) -> Scales:
    """Nearest scales of real factors.

    Parameters
    ----------
    factors
        float [nodes], each 0 or from 2^-31 to 2 - 2^-15.

    Raises
    ------
    InputError
        If a factor has no scale.
    """
    values = np.asarray(factors, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError("scales", "the factor is not finite", "0, or 2^-31 up to 2 - 2^-15")
    parts, powers = np.frexp(values)
    mantissa = np.rint(parts * (2 * _TOP)).astype(np.int64)
    exponent = np.where(values == 0, 0, 1 - powers.astype(np.int64))
    # Rounding up may carry into the next power of two.
    carried = mantissa == 2 * _TOP
    mantissa, exponent = np.where(carried, _TOP, mantissa), np.where(carried, exponent - 1, exponent)
    bad = (values < 0) | (exponent < 0) | (exponent > EXPONENT_MAX)
    if bad.any():
        raise InputError("scales", f"the factor {values[np.argmax(bad)]}", "0, or 2^-31 up to 2 - 2^-15")
    return Scales(mantissa.astype(np.uint16), exponent.astype(np.uint8))
