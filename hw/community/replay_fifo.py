"""Replay FIFO: a queue of a PE's records that can emit all of them again (I4, I9)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.formats import RecordBeat

__all__ = ["ReplayFifo"]


class ReplayFifo(wiring.Component):
    """A queue that keeps its beats after they have been read, until newer ones overwrite them.

    So the next layer of an inference replays the records of the same graph if all of them fit; otherwise this is an
    ordinary queue.

    Parameters
    ----------
    depth
        Beats, a power of two from 4.

    Attributes
    ----------
    i, o : streams of `RecordBeat`
    start : In(1)
        Drop the kept records; only while ``empty``.
    replay : In(1)
        Emit again all beats since `start`; only while ``empty`` and ``whole``.
    empty : Out(1)
        No beat is left to emit.
    whole : Out(1)
        All beats since `start` are still stored.

    Raises
    ------
    ValueError
        If `depth` is out of range.
    """

    def __init__(self, depth: int) -> None:
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two from 4, not {depth!r}")
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(RecordBeat)),
                "o": Out(stream.Signature(RecordBeat)),
                "start": In(1),
                "replay": In(1),
                "empty": Out(1),
                "whole": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep two pointers into a circular memory, and a register behind its read port."""
        m = Module()
        depth = self.depth
        # The addresses are equal only while it is empty or full, so no beat is read while it is written.
        m.submodules.beats = beats = memory.Memory(shape=RecordBeat, depth=depth, init=[], attrs=dict(NO_BYPASS))
        write, read = beats.write_port(), registered_read(m, beats)
        # One bit wider than an address; their difference is the fill level.
        written, given = Signal(range(2 * depth)), Signal(range(2 * depth))
        full, lost = Signal(), Signal()
        valid, moves, takes = Signal(), Signal(), Signal()
        m.d.comb += [
            full.eq((written ^ given) == depth),
            self.i.ready.eq(~full),
            moves.eq(self.i.valid & self.i.ready),
            write.en.eq(moves),
            write.addr.eq(written),
            write.data.eq(self.i.payload),
            takes.eq((written != given) & (~valid | self.o.ready)),
            read.en.eq(takes),
            read.addr.eq(given),
            self.o.valid.eq(valid),
            self.o.payload.eq(read.data),
            self.empty.eq((written == given) & ~valid),
            self.whole.eq(~lost),
        ]
        m.d.sync += [
            written.eq(written + moves),
            given.eq(given + takes),
            valid.eq(Mux(takes, 1, valid & ~self.o.ready)),
        ]
        # The highest bit is 0 until the memory wraps.
        with m.If(moves & written[-1]):
            m.d.sync += lost.eq(1)
        with m.If(self.replay):
            m.d.sync += given.eq(0)
        with m.If(self.start):
            m.d.sync += [written.eq(0), given.eq(0), lost.eq(0)]
        m.d.sync += [
            Cover(full, "full"),
            Cover(self.replay & (written == depth), "exactly full and given out again"),
            Cover(moves & lost, "older records are lost"),
        ]
        return m
