"""A register behind a stream, for words that may wait one at a time."""

from typing import Any

from amaranth.hdl import Cover, Module, ShapeLike, Signal
from amaranth.lib import stream

__all__ = ["hold"]


def hold(m: Module, name: str, source: Any, shape: ShapeLike) -> Any:
    """Return the stream behind a register, which takes a word while the one before leaves.

    Words cost no LUTs, unlike in a `hw.stream.slice.Slice`, but ``ready`` of the source depends on that of the stream.

    Parameters
    ----------
    m
        Gets the register.
    name
        Of the register.
    source
        Stream to take words from.
    shape
        Of a word.
    """
    held, word = stream.Signature(shape).create(path=(name,)), Signal(shape, name=name, reset_less=True)
    m.d.comb += [held.payload.eq(word), source.ready.eq(~held.valid | held.ready)]
    with m.If(source.ready):
        m.d.sync += [held.valid.eq(source.valid), word.eq(source.payload)]
    m.d.sync += Cover(held.valid & ~held.ready & source.valid, "a word waits behind another one")
    return held
