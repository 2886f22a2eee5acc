"""Record dispatcher: gives records to PEs as the allocator says, and counts what they have done (I4, I5)."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Cover, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import RECORD_HEADER
from hw.community.replay_fifo import ReplayFifo
from hw.community.work_stealer import WorkStealer
from hw.contracts import struct
from hw.locator.allocator import Allocator, AllocatorSettings
from hw.locator.formats import RecordBeat
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue

__all__ = ["RecordDispatcher", "RecordQueue"]

#: Beats of records that wait to be given out, of a stream.
_WAITING = 1024
#: Work of a PE above which it is given no more: enough to have as many records under way as it can have.
_AHEAD = 512
#: Work of a node, which is combined, beside that of a row; rows are planned and summed meanwhile.
_NODE = 8
#: How far PEs turn for records that are given out again.
_REACH = 3
#: Difference of loads that no record exceeds: records are never split, since a PE takes whole ones.
_NEVER_SPLIT = 1 << 31
_WORK_BITS = 16


class RecordQueue(wiring.Component):
    """Records of a stream wait until it is decided who does them.

    Parameters
    ----------
    pes
        PEs.

    Attributes
    ----------
    i
        Beats of records, and the end of the stream.
    work : stream of unsigned(16)
        Of every record, its work.
    chosen : stream of range(pes)
        Who does it.
    o
        Beats, without the end; valid when it is known whose they are.
    pe : Out
        Who.
    start : In(1)
        Forget that the stream has ended.
    ended : Out(1)
        It has, and nothing is left of it.
    community, hub : Out(1)
        Pulses: the first part of a community, or of a hub's edges, has come.
    """

    def __init__(self, pes: int) -> None:
        self.pes = pes
        number = range(max(2, pes))
        super().__init__(
            {
                "i": In(stream.Signature(RecordBeat)),
                "work": Out(stream.Signature(_WORK_BITS)),
                "chosen": In(stream.Signature(number)),
                "o": Out(stream.Signature(RecordBeat)),
                "pe": Out(number),
                "start": In(1),
                "ended": Out(1),
                "community": Out(1),
                "hub": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Weigh a record by its header; its beats follow when the answer has come."""
        m = Module()
        m.submodules.waiting = waiting = Queue(RecordBeat, _WAITING)
        m.submodules.works = works = Queue(_WORK_BITS, 4)
        m.submodules.answers = answers = Queue(self.pe.shape(), 4)
        connect(m, works.o, flipped(self.work))
        connect(m, flipped(self.chosen), answers.i)
        header = Signal(struct(RECORD_HEADER))
        inside, stopped = Signal(), Signal()
        end, asks = ~inside & header.end, ~inside & ~header.end
        begins = self.i.valid & self.i.ready & asks & (header.part == 0)
        m.d.comb += [
            header.eq(self.i.payload.data),
            waiting.i.payload.eq(self.i.payload),
            waiting.i.valid.eq(self.i.valid & ~end & (works.i.ready | ~asks)),
            works.i.valid.eq(self.i.valid & asks & waiting.i.ready),
            # It grows with the rows, most with those of nodes.
            works.i.payload.eq(header.nodes + header.hubs + Mux(header.hub_edges, 0, header.nodes * _NODE)),
            self.i.ready.eq(waiting.i.ready & (works.i.ready | ~asks)),
            self.o.payload.eq(waiting.o.payload),
            self.o.valid.eq(waiting.o.valid & answers.o.valid),
            self.pe.eq(answers.o.payload),
            waiting.o.ready.eq(self.o.ready & answers.o.valid),
            answers.o.ready.eq(self.o.valid & self.o.ready & self.o.payload.last),
            self.ended.eq(stopped & ~waiting.o.valid),
            self.community.eq(begins & ~header.hub_edges),
            self.hub.eq(begins & header.hub_edges),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += inside.eq(~self.i.payload.last)
            with m.If(end):
                m.d.sync += stopped.eq(1)
        with m.If(self.start):
            m.d.sync += stopped.eq(0)
        m.d.sync += [
            Cover(self.i.valid & asks & ~works.i.ready, "a record waits for a decision"),
            Cover(self.o.valid & ~self.o.ready, "a record waits for its PE"),
        ]
        return m


class RecordDispatcher(wiring.Component):
    """Streams of records go side by side to PEs as the allocator says, and are kept for the next layer.

    They are given out late, when a PE will soon need them: what PEs have done by then says more than any estimate.

    Parameters
    ----------
    pes
        PEs, 1 to 64.
    depth
        Beats of records that are kept for each PE, see `hw.community.replay_fifo.ReplayFifo`.
    streams
        Streams of records, at least 1.
    counter_bits
        Width of what is counted.

    Attributes
    ----------
    hops : In(2)
        Reach of smoothing; constant while there are records.
    i
        Beats of records, and the end of every stream.
    o
        Beats for every PE, without the end.
    retired : In
        For every PE: it has done a record.
    start : In(1)
        Other streams come: forget those before and that they have ended.
    replay : In(1)
        Replay all records to the PEs that had them; see `hw.community.work_stealer.WorkStealer`. Only after `ended`,
        and only if they are `whole`.
    whole : Out(1)
        All records of the streams are there.
    ended : Out(1)
        The streams have ended and all of their records have been given out.
    smoothed : Out(range(pes + 1))
        Records that went, in this cycle, to another PE than the one in turn.
    communities, hubs : Out(counter_bits)
        How many the streams have had since `start`.

    Raises
    ------
    ValueError
        If `pes` is out of range.
    """

    def __init__(self, pes: int, depth: int = 2048, streams: int = 1, counter_bits: int = 32) -> None:
        if not 1 <= pes <= 64:
            raise ValueError(f"pes must be in 1..64, not {pes!r}")
        self.pes, self.depth, self.streams = pes, depth, streams
        super().__init__(
            {
                "hops": In(2),
                "i": In(stream.Signature(RecordBeat)).array(streams),
                "o": Out(stream.Signature(RecordBeat)).array(pes),
                "retired": In(1).array(pes),
                "start": In(1),
                "replay": In(1),
                "whole": Out(1),
                "ended": Out(1),
                "smoothed": Out(range(self.pes + 1)),
                "communities": Out(counter_bits),
                "hubs": Out(counter_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Record queues that share the allocator, and a switch to the PEs' fifos."""
        m = Module()
        m.submodules.stealer = stealer = WorkStealer(self.pes, min(_REACH, self.pes - 1))
        fifos = [ReplayFifo(self.depth) for _ in range(self.pes)]
        incoming = [RecordQueue(self.pes) for _ in range(self.streams)]
        for n, fifo in enumerate(fifos):
            m.submodules[f"replay_fifo_{n}"] = fifo
            connect(m, fifo.o, stealer.i[n])
            connect(m, stealer.o[n], flipped(self.o[n]))
            m.d.comb += [
                fifo.start.eq(self.start),
                fifo.replay.eq(self.replay),
                stealer.ended[n].eq(fifo.empty),
                stealer.retired[n].eq(self.retired[n]),
            ]
        for n, source in enumerate(incoming):
            m.submodules[f"record_queue_{n}"] = source
            connect(m, flipped(self.i[n]), source.i)
            m.d.comb += source.start.eq(self.start)
        replaying = Signal()
        with m.If(self.start | self.replay):
            m.d.sync += replaying.eq(self.replay)
        m.d.comb += [
            stealer.steals.eq(replaying),
            self.smoothed.eq(self._decide(m, incoming, replaying) + stealer.stolen),
        ]

        # A fifo that has the beginning of a record takes the rest of it first; of two first beats, that of the lower.
        accepts = [Signal(self.pes, name=f"accepts_{n}") for n in range(self.streams)]
        for n, fifo in enumerate(fifos):
            held, holder = Signal(name=f"held_{n}"), Signal(range(max(2, self.streams)), name=f"holder_{n}")
            taken: Value = Const(0)
            for number, source in enumerate(incoming):
                wants = source.o.valid & (source.pe == n)
                mine = Mux(held, holder == number, ~taken) if self.streams > 1 else Const(1)
                taken = taken | wants
                m.d.comb += accepts[number][n].eq(fifo.i.ready & mine)
                with m.If(wants & mine):
                    m.d.comb += [fifo.i.valid.eq(1), fifo.i.payload.eq(source.o.payload)]
                    if self.streams > 1:
                        with m.If(fifo.i.ready):
                            m.d.sync += [held.eq(~source.o.payload.last), holder.eq(number)]
        for number, source in enumerate(incoming):
            m.d.comb += source.o.ready.eq(accepts[number].bit_select(source.pe, 1))
        for counter, pulses in ((self.communities, "community"), (self.hubs, "hub")):
            m.d.sync += counter.eq(Mux(self.start, 0, counter + sum(getattr(source, pulses) for source in incoming)))
        m.d.comb += [
            self.ended.eq(Cat(source.ended for source in incoming).all() & Cat(fifo.empty for fifo in fifos).all()),
            self.whole.eq(Cat(fifo.whole for fifo in fifos).all()),
        ]
        return m

    def _decide(self, m: Module, incoming: list[RecordQueue], replaying: Signal) -> Value:
        """Connect the allocator to all record queues; return its pulse for smoothed records."""
        if self.pes == 1:
            for source in incoming:
                m.d.comb += [source.chosen.valid.eq(source.work.valid), source.work.ready.eq(source.chosen.ready)]
            return Const(0)
        m.submodules.allocator = allocator = Allocator(self.pes)
        asked: Any = incoming[0].work
        work, number = asked.payload, 0
        if self.streams > 1:
            m.submodules.asking = asking = Arbiter(_WORK_BITS, self.streams)
            for source, port in zip(incoming, asking.i, strict=True):
                connect(m, source.work, port)
            asked = asking.o
            work, number = asked.payload.payload, asked.payload.source
        # What each PE has been given, so that it can be taken off its load: a record has a header, an ID and a row at
        # least. The number of a task is that of its source.
        records = self.depth // 3 + 1
        works = [Queue(_WORK_BITS, records) for _ in range(self.pes)]
        m.submodules.sizes = sizes = Queue(_WORK_BITS, 4)
        task, assignment = allocator.i.payload, allocator.o.payload
        room = Array(queue.i.ready for queue in works)[assignment.pe]
        listens = Array(source.chosen.ready for source in incoming)[assignment.task]
        answers = allocator.o.valid & room & listens
        needed = Signal()
        # More than that no load can be: what can be counted, and a record that waits for that.
        bits = ((records + 1) * ((1 << _WORK_BITS) - 1)).bit_length()
        m.d.sync += needed.eq(Cat(load[:bits] < _AHEAD for load in allocator.loads).any())
        takes = sizes.i.ready & needed
        m.d.comb += [
            allocator.settings.eq(
                AllocatorSettings.const({"hops": 0, "threshold": _NEVER_SPLIT, "grain": (1 << 16) - 1})
            ),
            allocator.settings.hops.eq(self.hops),
            allocator.i.valid.eq(asked.valid & takes),
            task.task.eq(number),
            task.rows.eq(work),
            task.columns.eq(1),
            asked.ready.eq(allocator.i.ready & takes),
            sizes.i.valid.eq(asked.valid & allocator.i.ready & needed),
            sizes.i.payload.eq(work),
            allocator.o.ready.eq(answers),
            sizes.o.ready.eq(answers),
        ]
        for n, source in enumerate(incoming):
            m.d.comb += [
                source.chosen.valid.eq(answers & (assignment.task == n)),
                source.chosen.payload.eq(assignment.pe),
            ]

        # Those of the first are taken off at once, those of others wait for lower numbers.
        done = [Signal(range(records + 1 if n else 2), name=f"done_{n}") for n in range(self.pes)]
        retires = Signal(self.pes)
        for n in reversed(range(self.pes)):
            with m.If(done[n] != 0):
                m.d.comb += retires.eq(1 << n)
        retired = allocator.retired
        m.d.comb += retired.valid.eq(retires.any())
        for n, queue in enumerate(works):
            m.submodules[f"work_{n}"] = queue
            m.d.comb += [
                queue.i.valid.eq(answers & (assignment.pe == n)),
                queue.i.payload.eq(sizes.o.payload),
                queue.o.ready.eq(retires[n]),
            ]
            with m.If(retires[n]):
                m.d.comb += [retired.payload.pe.eq(n), retired.payload.work.eq(queue.o.payload)]
            # What is given out again has been taken off before.
            m.d.sync += done[n].eq(done[n] + (self.retired[n] & ~replaying) - retires[n])
        m.d.sync += [
            Cover(allocator.o.valid & ~room, "a PE has as many records as can be counted"),
            Cover(asked.valid & ~needed, "every PE has enough to do"),
        ]
        return allocator.smoothed
