"""Functions between the layers of a network, by name: in floating point, with slopes and table formats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.errors import unknown

__all__ = ["FUNCTIONS", "RELU", "Function", "function_of"]

_Floats = npt.NDArray[np.float64]
#: The only function of a PE; the others are tables of the neural chip.
RELU = "relu"
#: Largest exponent of e in float64.
_EXPONENT_MAX = 700


@dataclass(frozen=True)
class Function:
    """An activation.

    Attributes
    ----------
    value
        Of sums, element by element.
    slope
        Of values: the function's slope where it has them.
    fraction
        Fraction bits of a table's entries, 0..15: sums are within -8..8.
    """

    value: Callable[[_Floats], _Floats]
    slope: Callable[[_Floats], _Floats]
    fraction: int


#: By name.
FUNCTIONS: Mapping[str, Function] = {
    RELU: Function(lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(np.float64), 12),
    "sigmoid": Function(lambda x: 1 / (1 + np.exp(np.minimum(-x, _EXPONENT_MAX))), lambda y: y * (1 - y), 15),
    "tanh": Function(np.tanh, lambda y: 1 - y * y, 15),
    "elu": Function(lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), lambda y: np.where(y > 0, 1, y + 1), 12),
}


def function_of(name: str) -> Function:
    """Return the function of a name.

    Raises
    ------
    InputError
        If there is no such function.
    """
    if name not in FUNCTIONS:
        raise unknown("activation", name, FUNCTIONS, ", ".join(FUNCTIONS))
    return FUNCTIONS[name]
