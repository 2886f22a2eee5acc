"""Sizes of a DNP-II, shared by hardware, model, assembler and mapper."""

from dataclasses import dataclass

from contracts.parameters import Parameters, size

__all__ = ["FRACTION", "HIGHEST", "LOWEST", "WORD", "ProcessorConfig", "pointer_bits"]

#: Bits of a word.
WORD = 16
#: Bits of the product that are dropped (D2).
FRACTION = 15
HIGHEST = (1 << (WORD - 1)) - 1
LOWEST = -(1 << (WORD - 1))

#: Addresses travel on 16-bit buses (D1).
_ADDRESSES = 1 << 16


def pointer_bits(depth: int) -> int:
    """Return the bits of a register that points into a memory of `depth` words.

    They are those of an address inside, and above them one that is set where the register's value lies beyond these:
    all that is asked of such a value is that it lies outside the memory. The widest have the 16 bits of a bus.
    """
    return min(WORD, (depth - 1).bit_length() + 1)


@dataclass(frozen=True)
class ProcessorConfig(Parameters):
    """Memory sizes of one processor.

    Attributes
    ----------
    wm_depth
        Words of the weight memory of each processor: biases of a layer and the table (D3 prints 526).
    xm_depth
        Words of the input memory of each processor (D3).
    p_depth
        Words of the program memory of each processor.
    table_bits
        Logarithm of the entries of the activation's table.

    Raises
    ------
    ValueError
        If a size is out of range.
    """

    wm_depth: int = size(526, 2, _ADDRESSES)
    xm_depth: int = size(128, 2, _ADDRESSES)
    p_depth: int = size(1024, 2, _ADDRESSES)
    # A table of 2 entries is the smallest that depends on its argument; one of 2^12 is finer than the sums it maps.
    table_bits: int = size(8, 1, 12)

    @property
    def table_size(self) -> int:
        """Words of the table of the non-linear function."""
        return 1 << self.table_bits
