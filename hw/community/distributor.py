"""Distributor: gives records to PEs as the allocator says, and counts what they have done (I4, I5)."""

from amaranth.hdl import Array, Cat, Cover, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from golden.contracts import RECORD_HEADER
from hw.contracts import struct
from hw.islands.allocator import Allocator, AllocatorSettings, WorkTask
from hw.islands.formats import RecordBeat
from hw.stream.queue import Queue

__all__ = ["Distributor"]

#: Beats of records that wait to be given out, beats that wait for a PE, and records of a PE under way.
_WAITING, _BEATS, _RECORDS = 512, 64, 8
#: Difference of loads that no record exceeds: records are never split, since a PE takes whole ones.
_NEVER_SPLIT = 1 << 31


class Distributor(wiring.Component):
    """Records wait in a queue while it is decided who does them, each as it comes.

    Parameters
    ----------
    pes
        PEs, 1 to 64.

    Attributes
    ----------
    hops : In(2)
        Reach of smoothing; constant while there are records.
    i
        Beats of records, and the end of the stream.
    o
        Beats for every PE, without the end.
    retired : In
        For every PE: it has done a record.
    begin : In(1)
        Forget that a stream has ended.
    ended : Out(1)
        The stream has ended and all of its records have been given out.
    smoothed : Out(1)
        Pulse: a record went to another PE than the one in turn.

    Raises
    ------
    ValueError
        If `pes` is out of range.
    """

    def __init__(self, pes: int) -> None:
        if not 1 <= pes <= 64:
            raise ValueError(f"pes must be in 1..64, not {pes!r}")
        self.pes = pes
        super().__init__(
            {
                "hops": In(2),
                "i": In(stream.Signature(RecordBeat)),
                "o": Out(stream.Signature(RecordBeat)).array(pes),
                "retired": In(1).array(pes),
                "begin": In(1),
                "ended": Out(1),
                "smoothed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Ask the allocator with every header; its answer opens the way for the record."""
        m = Module()
        m.submodules.waiting = waiting = Queue(RecordBeat, _WAITING)
        queues = [Queue(RecordBeat, _BEATS, storage="block") for _ in range(self.pes)]
        for n, queue in enumerate(queues):
            m.submodules[f"queue_{n}"] = queue
            connect(m, queue.o, flipped(self.o[n]))

        header = Signal(struct(RECORD_HEADER))
        inside, stopped = Signal(), Signal()
        end = ~inside & header.end
        m.submodules.tasks = tasks = Queue(WorkTask, 4)
        columns = header.nodes + header.hubs
        asks = ~inside & ~header.end
        m.d.comb += [
            header.eq(self.i.payload.data),
            waiting.i.payload.eq(self.i.payload),
            waiting.i.valid.eq(self.i.valid & ~end & (tasks.i.ready | ~asks)),
            tasks.i.valid.eq(self.i.valid & asks & waiting.i.ready),
            tasks.i.payload.rows.eq(header.nodes),
            tasks.i.payload.columns.eq(columns),
            self.i.ready.eq(end | (waiting.i.ready & (tasks.i.ready | ~asks))),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += inside.eq(~self.i.payload.last)
            with m.If(end):
                m.d.sync += stopped.eq(1)
        with m.If(self.begin):
            m.d.sync += stopped.eq(0)

        taken = Signal()  # the record at the head of the queue is through
        chosen, decided = Signal(range(max(2, self.pes))), Signal()
        if self.pes == 1:
            m.d.comb += [decided.eq(tasks.o.valid), tasks.o.ready.eq(taken)]
        else:
            m.submodules.allocator = allocator = Allocator(self.pes)
            connect(m, tasks.o, allocator.i)
            # What each PE has been given, in order, so that it can be taken off its load.
            works = [Queue(32, _RECORDS) for _ in range(self.pes)]
            m.submodules.sizes = sizes = Queue(32, 8)
            share = allocator.o.payload
            fresh = Signal(init=1)
            room = Array(work.i.ready for work in works)[share.pe]
            m.d.comb += [
                allocator.settings.eq(
                    AllocatorSettings.const({"hops": 0, "threshold": _NEVER_SPLIT, "grain": (1 << 16) - 1})
                ),
                allocator.settings.hops.eq(self.hops),
                sizes.i.valid.eq(tasks.o.valid & tasks.o.ready),
                sizes.i.payload.eq(tasks.o.payload.rows * tasks.o.payload.columns),
                decided.eq(allocator.o.valid & (room | ~fresh)),
                chosen.eq(share.pe),
                allocator.o.ready.eq(taken),
                sizes.o.ready.eq(taken),
                self.smoothed.eq(allocator.smoothed),
            ]
            done = [Signal(range(_RECORDS + 1), name=f"done_{n}") for n in range(self.pes)]
            retires = Signal(self.pes)
            for n in reversed(range(self.pes)):
                with m.If(done[n] != 0):
                    m.d.comb += retires.eq(1 << n)
            retired = allocator.retired
            m.d.comb += retired.valid.eq(retires.any())
            for n, work in enumerate(works):
                m.submodules[f"work_{n}"] = work
                m.d.comb += [
                    work.i.valid.eq(taken & (chosen == n)),
                    work.i.payload.eq(sizes.o.payload),
                    work.o.ready.eq(retires[n]),
                ]
                with m.If(retires[n]):
                    m.d.comb += [retired.payload.pe.eq(n), retired.payload.work.eq(work.o.payload)]
                m.d.sync += done[n].eq(done[n] + self.retired[n] - retires[n])
            with m.If(decided & waiting.o.valid & waiting.o.ready):
                m.d.sync += fresh.eq(waiting.o.payload.last)

        moves = waiting.o.valid & waiting.o.ready
        m.d.comb += [
            waiting.o.ready.eq(decided & Array(queue.i.ready for queue in queues)[chosen]),
            taken.eq(moves & waiting.o.payload.last),
            self.ended.eq(stopped & ~waiting.o.valid & ~Cat(queue.o.valid for queue in queues).any()),
        ]
        for n, queue in enumerate(queues):
            m.d.comb += [
                queue.i.payload.eq(waiting.o.payload),
                queue.i.valid.eq(waiting.o.valid & decided & (chosen == n)),
            ]
        m.d.sync += Cover(self.i.valid & asks & ~tasks.i.ready, "a record waits for a decision")
        return m
