"""Sizes of a DNP-II, shared by hardware, model, assembler and mapper."""

from dataclasses import dataclass

__all__ = ["FRACTION", "HIGHEST", "LOWEST", "WORD", "ProcessorConfig"]

#: Bits of a word.
WORD = 16
#: Bits of the product that are dropped (D2).
FRACTION = 15
HIGHEST = (1 << (WORD - 1)) - 1
LOWEST = -(1 << (WORD - 1))

#: Addresses travel on 16-bit buses (D1).
_ADDRESSES = 1 << 16
#: A table of 2 entries is the smallest that depends on its argument; one of 2^12 is finer than the sums it maps.
_TABLE_BITS = (1, 12)


@dataclass(frozen=True)
class ProcessorConfig:
    """Memory sizes of one processor.

    Attributes
    ----------
    wm_depth
        Words of the weight memory, 2..65,536 (D3 prints 526).
    xm_depth
        Words of the input memory, 2..65,536 (D3).
    p_depth
        Words of the program memory, 2..65,536.
    table_bits
        Logarithm of the size of the non-linear function's table, 1..12.

    Raises
    ------
    ValueError
        If a size is out of range.
    """

    wm_depth: int = 526
    xm_depth: int = 128
    p_depth: int = 1024
    table_bits: int = 8

    def __post_init__(self) -> None:
        for name in ("wm_depth", "xm_depth", "p_depth"):
            value = getattr(self, name)
            if not 2 <= value <= _ADDRESSES:
                raise ValueError(f"{name} must be in 2..{_ADDRESSES}, not {value!r}")
        low, high = _TABLE_BITS
        if not low <= self.table_bits <= high:
            raise ValueError(f"table_bits must be in {low}..{high}, not {self.table_bits!r}")

    @property
    def table_size(self) -> int:
        """Words of the table of the non-linear function."""
        return 1 << self.table_bits
