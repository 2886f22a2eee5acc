"""Replay FIFO: a queue of a PE's records that can give all of them out again (I4, I9)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.formats import RecordBeat

__all__ = ["ReplayFifo"]


class ReplayFifo(wiring.Component):
    """Beats stay where they are after they have been read, until others need the place.

    So the next layer of an inference has the records of the same graph again if all of them fit; otherwise this is a
    queue like any other.

    Parameters
    ----------
    depth
        Beats, a power of two from 4.

    Attributes
    ----------
    i, o : streams of `RecordBeat`
    start : In(1)
        Other records come from now on; only while there is nothing to give out.
    replay : In(1)
        Give out once more what has come since `start`; likewise, and only if it is there.
    empty : Out(1)
        There is nothing to give out.
    whole : Out(1)
        All that has come since `start` is there.

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
        """Two pointers round a memory, and a register behind its read port."""
        m = Module()
        depth = self.depth
        m.submodules.beats = beats = memory.Memory(shape=RecordBeat, depth=depth, init=[])
        write, read = beats.write_port(), beats.read_port()
        # With a bit more than an address has; which of them are in the memory is their difference.
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
        # The first time round, the highest bit is 0 before a write.
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
