"""The processor's 16-bit arithmetic (D1, D2), on integers or arrays of them.

Activations are Q0.15, weights and sums Q3.12; a product of the two, shifted right by 15, is Q3.12 again.
Every function takes and returns values in -32,768..32,767 (int64 arrays or Python integers) unless it says otherwise.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import FRACTION, HIGHEST, LOWEST, WORD, pointer_bits

__all__ = ["Ints", "invert", "pointer", "product", "product_rounded", "saturate", "signed"]

Ints: TypeAlias = npt.NDArray[np.int64]


def saturate(value: Ints) -> Ints:
    """Return the nearest word: the largest or smallest one on overflow (D2)."""
    return np.clip(value, LOWEST, HIGHEST)


def signed(value: Ints) -> Ints:
    """Read the low 16 bits as two's complement."""
    return ((value + (1 << (WORD - 1))) & ((1 << WORD) - 1)) - (1 << (WORD - 1))


def pointer(value: Ints, depth: int) -> Ints:
    """Return what a pointer into a memory of `depth` words keeps of the low 16 bits, see `pointer_bits`."""
    address, beyond = value % (1 << WORD), 1 << (pointer_bits(depth) - 1)
    return address % beyond + beyond * (address >= beyond)


def product(a: Ints, b: Ints) -> Ints:
    """Multiply without its low 15 bits, rounded down; 17 bits wide, for -1 times -1 is +1 (D2)."""
    return (a * b) >> FRACTION


def product_rounded(a: Ints, b: Ints) -> Ints:
    """Product without its low 15 bits, rounded to nearest, halves up; 17 bits wide."""
    return (a * b + (1 << (FRACTION - 1))) >> FRACTION


def invert(value: Ints) -> Ints:
    """``NOT``: 1 - value as Q0.15, 0x7FFF - value; a negative value saturates to 0x7FFF (D8)."""
    return saturate(HIGHEST - value)
