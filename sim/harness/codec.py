"""Packing of payloads: Python values to the one flat vector a payload is in Verilog, and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data


class Codec:
    """Packs and unpacks values of one shape.

    A structure is a mapping by field name, an array a sequence, an enumeration or number an integer. The bits
    are those of ``layout.const(value).as_bits()``, without building Amaranth objects for each word.

    Parameters
    ----------
    shape
        Amaranth shape, layout, structure class or enumeration.
    """

    def __init__(self, shape: Any) -> None:
        self.width: int = Shape.cast(shape).width
        self.signed: bool = Shape.cast(shape).signed
        self.mask = (1 << self.width) - 1
        self.fields: list[tuple[Any, int, Codec]] | None = None
        layout = data.Layout.cast(shape) if _is_layout(shape) else None
        self.array = isinstance(layout, data.ArrayLayout)
        if layout is not None:
            self.fields = [(key, part.offset, Codec(part.shape)) for key, part in layout]

    def pack(self, value: Any) -> int:
        """Return the bits of `value` as an unsigned integer; plain integers are taken as bits already.

        Raises
        ------
        ValueError
            If a number does not fit its field or a field is unknown.
        """
        if self.fields is None or isinstance(value, int):
            number = int(value)
            low = -(1 << (self.width - 1)) if self.signed and self.width else 0
            if not low <= number <= self.mask:
                raise ValueError(f"{number} does not fit {self.width} bits")
            return number & self.mask
        if isinstance(value, Mapping):
            unknown = set(value) - {key for key, _, _ in self.fields}
            if unknown:
                raise ValueError(f"no field {', '.join(map(str, sorted(unknown)))}")
            return sum(codec.pack(value[key]) << offset for key, offset, codec in self.fields if key in value)
        if len(value) != len(self.fields):
            raise ValueError(f"{len(value)} elements given, {len(self.fields)} expected")
        return sum(codec.pack(item) << offset for item, (_, offset, codec) in zip(value, self.fields, strict=True))

    def unpack(self, bits: int) -> Any:
        """Return the value with these `bits`: a dictionary, a list or an integer."""
        if self.fields is None:
            bits &= self.mask
            return bits - (1 << self.width) if self.signed and bits >> (self.width - 1) else bits
        if self.array:
            return [codec.unpack(bits >> offset & codec.mask) for _, offset, codec in self.fields]
        return {key: codec.unpack(bits >> offset & codec.mask) for key, offset, codec in self.fields}


def _is_layout(shape: Any) -> bool:
    return isinstance(shape, data.Layout) or (isinstance(shape, type) and issubclass(shape, (data.Struct, data.Union)))


@cache
def codec(shape: Any) -> Codec:
    """Return the codec of a hashable `shape`, made once."""
    return Codec(shape)
