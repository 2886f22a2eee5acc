"""The contracts of ``contracts`` as Amaranth layouts."""

from functools import cache

from amaranth import signed, unsigned
from amaranth.lib import data

from contracts.layout import Layout

__all__ = ["struct"]


@cache
def struct(layout: Layout) -> data.StructLayout:
    """Amaranth structure with the fields, widths and order of a contract's layout.

    The same layout always yields the same object, so that ports built from it can be connected.
    """
    return data.StructLayout(
        {field.name: (signed if field.signed else unsigned)(field.bits) for field in layout.fields}
    )
