"""Block RAM without logic around it: reads for which nobody uses a word that is written in the same cycle."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory

__all__ = ["IN_BLOCK_RAM", "NO_BYPASS", "RegisteredRead", "few_words", "registered_read", "wide_style"]

#: Bits of a word in a block RAM of an ECP5.
_BLOCK_BITS = 36
#: Words from which on a memory belongs in block RAM.
_FEWEST = 64
#: Words that take fewer LUTs in registers: a choice of two takes one a bit, a distributed RAM one and a half.
_FEW_WORDS = 2

#: Attribute of a memory. With it, and with a read port whose register stands apart, synthesis adds no logic that
#: returns the old word when a word is read in the cycle in which it is written. That logic is two registers, a
#: multiplexer and a comparison of addresses: 262 LUTs and 523 flip-flops around a queue of 257 bits.
NO_BYPASS = {"no_rw_check": 1}
#: The same for a memory that Yosys would make from LUTs: 145 of them for 128 words of seven bits.
IN_BLOCK_RAM = {**NO_BYPASS, "ram_style": "block"}


def few_words(depth: int) -> dict[str, str]:
    """Return the attributes of a memory of `depth` words that is no block RAM: up to `_FEW_WORDS` are registers."""
    return {"ram_style": "logic"} if depth <= _FEW_WORDS else {}


def wide_style(width: int, depth: int) -> dict[str, str]:
    """Return the attributes of a memory whose words may be wider than a block RAM.

    Yosys by itself makes 64 words of 41 bits from 350 LUTs and not from two block RAMs.

    Parameters
    ----------
    width, depth
        Bits of a word, and words.
    """
    return {"ram_style": "block"} if width > _BLOCK_BITS and depth >= _FEWEST else {}


@dataclass(frozen=True)
class RegisteredRead:
    """A read port like that of the library's memory in the domain ``sync``.

    Attributes
    ----------
    addr, en
        Word to read, and whether to read it; 1 unless it is driven.
    data
        The word, from the next cycle on. Undefined if it was written in the cycle in which it was read.
    """

    addr: Signal
    en: Signal
    data: Any


def registered_read(m: Module, words: Memory, name: str = "read") -> RegisteredRead:
    """Return a read port of `words`, a memory with the attributes `NO_BYPASS`.

    Parameters
    ----------
    m
        Module that the register belongs to.
    words
        The memory.
    name
        Of the register, where there are several.
    """
    port = words.read_port(domain="comb")
    read = RegisteredRead(
        addr=Signal.like(port.addr, name=f"{name}_addr"),
        en=Signal(init=1, name=f"{name}_en"),
        data=Signal(words.shape, reset_less=True, name=f"{name}_data"),
    )
    m.d.comb += port.addr.eq(read.addr)
    with m.If(read.en):
        m.d.sync += read.data.eq(port.data)
    return read
