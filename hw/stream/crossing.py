"""Crossing: a queue whose two ends have clocks of their own, with Gray pointers between them."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Crossing", "gray"]

#: Registers that a pointer passes before the other side's logic sees it.
STAGES = 2


def gray(value: Value) -> Value:
    """Return the Gray code of a number: consecutive numbers differ in one bit."""
    return value ^ value.shift_right(1)


class Crossing(wiring.Component):
    """A stream from the domain ``write`` into the domain ``read``, whatever their clocks.

    Each side counts its words; the other side sees the count in Gray code through two registers, late but never wrong.
    A word passes in every clock of the slower side from a depth of 8 on. The oldest word is in a register, so no path
    leads from one side's memory into the logic behind the other.

    Both sides are reset together: each reset lasts for ``STAGES`` clocks of either side after both have taken effect.
    Which of them is released first does not matter, and a side may send at once. (The crossing of ``amaranth.lib.fifo``
    resets its reading side from the writing one, asynchronously, and keeps its words when the reading side alone is
    reset.)

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words that the memory holds, a power of 2 from 4 on; one more waits in the register.

    Attributes
    ----------
    i : stream, domain ``write``
    o : stream, domain ``read``
    stored, sent, stored_seen, sent_seen, writes, reads, words
        Counts of both sides in Gray code, the registers in which they reach the other side, the counts as
        numbers, and the memory. Internal, named for proofs.

    Raises
    ------
    ValueError
        If `depth` is no power of 2 or below 4.
    """

    #: Domains, in the order of ports of a generated module.
    domains = ("write", "read")

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike, depth: int = 8) -> None:
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of 2 from 4 on, not {depth!r}")
        self.shape, self.depth = shape, depth
        bits = depth.bit_length()
        self.writes, self.reads = Signal(bits), Signal(bits)
        self.stored, self.sent = Signal(bits), Signal(bits)
        # Not reset: a reset of both sides goes through them.
        self.stored_seen, self.sent_seen = (
            [Signal(bits, name=f"{name}_seen_{stage}", reset_less=True) for stage in range(STAGES)]
            for name in ("stored", "sent")
        )
        self.words = Memory(shape=Shape.cast(shape).width, depth=depth, init=[])
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        """Count on both sides, carry the counts across, keep the words between."""
        m = Module()
        bits = len(self.stored)
        writes, reads = self.writes, self.reads
        put, move = Signal(), Signal()
        m.submodules.words = words = self.words
        write = words.write_port(domain="write")
        # A word is read long after it was written: its count takes STAGES clocks to come across.
        read = words.read_port(domain="comb")
        for count, seen, domain in ((self.stored, self.stored_seen, "read"), (self.sent, self.sent_seen, "write")):
            for before, after in pairwise((count, *seen)):
                m.d[domain] += after.eq(before)
        stored, sent = self.stored_seen[-1], self.sent_seen[-1]

        # The memory is full when the counts differ by `depth`: in Gray code by the two upper bits.
        full = self.stored == Cat(sent[:-2], ~sent[-2:])
        after_write, after_read = Signal(bits), Signal(bits)
        m.d.comb += [
            self.i.ready.eq(~full),
            put.eq(self.i.valid & ~full),
            write.en.eq(put),
            write.addr.eq(writes),
            write.data.eq(self.i.payload),
            after_write.eq(writes + put),
            move.eq((self.sent != stored) & (~self.o.valid | self.o.ready)),
            read.addr.eq(reads),
            after_read.eq(reads + move),
        ]
        m.d.write += [writes.eq(after_write), self.stored.eq(gray(after_write))]
        m.d.read += [reads.eq(after_read), self.sent.eq(gray(after_read))]
        with m.If(move):
            m.d.read += [self.o.valid.eq(1), Value.cast(self.o.payload).eq(read.data)]
        with m.Elif(self.o.ready):
            m.d.read += self.o.valid.eq(0)
        return m
