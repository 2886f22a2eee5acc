"""Bit layouts: the little language in which every contract between blocks is written.

A layout is a list of named fields, the first at the least significant bit, as in
``amaranth.lib.data.StructLayout``. ``hw.contracts`` turns a layout into that class, the golden
models pack and unpack it as a Python integer, the image writer as a NumPy record, and
``atoll contracts`` prints it, all from the same object.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

__all__ = ["Field", "Layout"]


@dataclass(frozen=True)
class Field:
    """One field of a layout.

    Attributes
    ----------
    name
        Identifier, the same in hardware, models and benches; ``reserved`` fields are written as 0.
    bits
        Width in bits.
    doc
        What it carries, with its unit.
    signed
        Two's complement if true.
    enum
        The values it can have, if they have names.
    line
        Whether it is the address of a line of the image.
    """

    name: str
    bits: int
    doc: str
    signed: bool = False
    enum: type[IntEnum] | None = None
    line: bool = False

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value."""
        if self.signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


@dataclass(frozen=True)
class Layout:
    """A named, ordered set of fields, packed without gaps from the least significant bit.

    Attributes
    ----------
    name
        CamelCase name, used for classes and headings.
    doc
        One or two sentences for the documentation.
    fields
        The fields, least significant first.

    Raises
    ------
    ValueError
        If two fields have the same name.
    """

    name: str
    doc: str
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if len(set(names)) != len(names):
            raise ValueError(f"layout {self.name}: duplicate field names in {names}")

    @property
    def bits(self) -> int:
        """Width of the whole, in bits."""
        return sum(field.bits for field in self.fields)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Bit offset of every field."""
        offsets, at = {}, 0
        for field in self.fields:
            offsets[field.name] = at
            at += field.bits
        return offsets

    def pack(self, values: Mapping[str, int]) -> int:
        """Pack values into an integer of ``bits`` bits; fields that are not named are 0.

        Raises
        ------
        KeyError
            If a value has no field.
        ValueError
            If a value does not fit its field.
        """
        unknown = set(values) - set(self.offsets)
        if unknown:
            raise KeyError(f"{self.name} has no field {sorted(unknown)}")
        word = 0
        for field in self.fields:
            value = int(values.get(field.name, 0))
            low, high = field.range
            if not low <= value <= high:
                raise ValueError(f"{self.name}.{field.name}: {value} is not in {low}..{high}")
            word |= (value & ((1 << field.bits) - 1)) << self.offsets[field.name]
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Values of all fields of a packed integer."""
        values = {}
        for field in self.fields:
            value = (word >> self.offsets[field.name]) & ((1 << field.bits) - 1)
            if field.signed and value >> (field.bits - 1):
                value -= 1 << field.bits
            values[field.name] = value
        return values

    def to_bytes(self, values: Mapping[str, int]) -> bytes:
        """Pack values into little-endian bytes; the layout must be a whole number of bytes."""
        return self.pack(values).to_bytes(self.bytes, "little")

    def from_bytes(self, data: bytes) -> dict[str, int]:
        """Values of all fields of little-endian bytes."""
        return self.unpack(int.from_bytes(data[: self.bytes], "little"))

    @property
    def bytes(self) -> int:
        """Size in bytes.

        Raises
        ------
        ValueError
            If the layout is not a whole number of bytes.
        """
        if self.bits % 8:
            raise ValueError(f"layout {self.name} has {self.bits} bits, not a whole number of bytes")
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype:
        """NumPy record of the same bytes, for layouts whose fields are all 8, 16, 32 or 64 bits wide."""
        kinds = [(f.name, f"<{'i' if f.signed else 'u'}{f.bits // 8}") for f in self.fields]
        return np.dtype(kinds)
