"""Replay FIFO: a queue of records that can emit all of them again (I4, I9)."""

from amaranth.hdl import Assert, Cover, Module, Mux, Shape, ShapeLike, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read

__all__ = ["ReplayFifo"]


class ReplayFifo(wiring.Component):
    """A queue that keeps its words after they have been read, until newer ones overwrite them.

    So the next layer of an inference replays the records of the same graph if all of them fit; otherwise this is an
    ordinary queue. Its ready and valid are registers, and so is its output, which moves into the block RAM.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words, a power of two from 4.

    Attributes
    ----------
    i, o : streams of `shape`
    start : In(1)
        Drop the kept words; only while ``empty``.
    replay : In(1)
        Emit again all words since `start`; only while ``empty`` and ``whole``.
    empty : Out(1)
        No word is left to emit.
    level : Out(range(depth + 1))
        Words that have not been read.
    whole : Out(1)
        All words since `start` are still stored.

    Raises
    ------
    ValueError
        If `depth` is out of range.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two from 4, not {depth!r}")
        self.shape, self.depth = shape, depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "start": In(1),
                "replay": In(1),
                "empty": Out(1),
                "level": Out(range(depth + 1)),
                "whole": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep two pointers into a circular memory, and two registers behind its read port."""
        m = Module()
        depth, level = self.depth, self.level
        m.submodules.words = words = memory.Memory(
            shape=Shape.cast(self.shape).width, depth=depth, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = words.write_port(), registered_read(m, words)
        # One bit wider than an address; their difference is the level.
        written, given = Signal(range(2 * depth)), Signal(range(2 * depth))
        some, room, lost = Signal(), Signal(init=1), Signal()
        front, puts, takes, moves = Signal(), Signal(), Signal(), Signal()
        held = Signal(len(read.data), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(room),
            puts.eq(self.i.valid & room),
            write.en.eq(puts),
            write.addr.eq(written),
            write.data.eq(self.i.payload),
            moves.eq(~self.o.valid | self.o.ready),
            takes.eq(some & (~front | moves)),
            read.en.eq(takes),
            read.addr.eq(given),
            self.o.payload.eq(held),
            self.empty.eq(~some & ~front & ~self.o.valid),
            self.whole.eq(~lost),
        ]
        m.d.sync += [written.eq(written + puts), given.eq(given + takes)]
        with m.If(puts & ~takes):
            m.d.sync += [level.eq(level + 1), some.eq(1), room.eq(level != depth - 1)]
        with m.Elif(takes & ~puts):
            m.d.sync += [level.eq(level - 1), some.eq(level != 1), room.eq(1)]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(front), held.eq(read.data)]
        m.d.sync += front.eq(Mux(takes, 1, front & ~moves))
        # The highest bit is 0 until the memory wraps.
        with m.If(puts & written[-1]):
            m.d.sync += lost.eq(1)
        with m.If(self.replay):
            m.d.sync += [given.eq(0), level.eq(written), some.eq(written != 0), room.eq(written != depth)]
        with m.If(self.start):
            m.d.sync += [written.eq(0), given.eq(0), lost.eq(0)]
            m.d.sync += [level.eq(0), some.eq(0), room.eq(1)]
        # The addresses are equal only while it is empty or full, so no word is read while it is written.
        m.d.sync += [
            Assert(~(puts & takes & (write.addr == read.addr)), "a word is read while it is written"),
            Cover(~room, "full"),
            Cover(self.replay & (written == depth), "exactly full and replayed"),
            Cover(puts & lost, "older records are lost"),
        ]
        return m
