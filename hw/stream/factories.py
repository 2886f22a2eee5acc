"""Factories of blocks of streams whose parameters are not representable in JSON."""

from amaranth.lib import data

from hw.stream.crossbar import Crossbar

__all__ = ["crossbar"]


def crossbar(width: int, inputs: int, outputs: int) -> Crossbar:
    """Return a crossbar for rows of words of `width` bits, whose outputs are named by a field ``to``."""
    shape = data.StructLayout({"to": max(1, (outputs - 1).bit_length()), "word": width, "last": 1})
    return Crossbar(shape, inputs, outputs, "to", whole=True)
