"""The choice of a power-of-two scale."""

import numpy as np

from contracts.errors import InputError
from contracts.scale import MANTISSA_FRACTION
from golden.model.rounding import VALUE_MAX

__all__ = ["fraction_of"]


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
