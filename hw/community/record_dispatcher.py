"""Record dispatcher: issues records to the PEs that the allocator selects, and counts completed work (I4, I5)."""

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

#: Beats of records that wait for dispatch, for each stream.
_WAITING = 1024
#: Load of a PE above which it gets no more records: enough to keep it full.
_AHEAD = 512
#: Work of combining a node, relative to that of a row; rows are planned and summed in parallel.
_NODE = 8
#: Reach of work stealing during a replay.
_REACH = 3
#: Threshold of the allocator that no record exceeds: records are never split, since PEs take whole ones.
_NEVER_SPLIT = 1 << 31
_WORK_BITS = 16


class RecordQueue(wiring.Component):
    """Holds the records of a stream until their PEs are selected.

    Parameters
    ----------
    pes
        PEs.

    Attributes
    ----------
    i
        Beats of records, and the end of the stream.
    work : stream of unsigned(16)
        Work of each record.
    chosen : stream of range(pes)
        PE of each record.
    o
        Beats, without the end; valid once their PE is selected.
    pe : Out
        PE of the beat.
    start : In(1)
        Clear ``ended``: a new stream begins.
    ended : Out(1)
        The stream has ended and all its records have left.
    community, hub : Out(1)
        Pulses: the first part of a community, or of a hub's edges, has arrived.
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
        """Compute a record's work from its header; release its beats when its PE is selected."""
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
            # Work grows with the rows, most with rows of nodes.
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
    """Issues several streams of records in parallel, as the allocator decides, and keeps them for the next layer.

    Records are issued late, when a PE will soon need them, since completed work is a better guide than estimates.

    Parameters
    ----------
    pes
        PEs, 1 to 64.
    depth
        Beats of records that are kept for each PE, see `hw.community.replay_fifo.ReplayFifo`.
    streams
        Streams of records, at least 1.
    counter_bits
        Width of counters.

    Attributes
    ----------
    hops : In(2)
        Reach of smoothing; constant while there are records.
    i
        Beats of records, and the end of every stream.
    o
        Beats for every PE, without the end.
    retired : In
        For each PE: it has retired a record.
    start : In(1)
        New streams begin: drop the previous records and clear ``ended``.
    replay : In(1)
        Replay all records to the PEs that had them; see `hw.community.work_stealer.WorkStealer`. Only after `ended`,
        and only if they are `whole`.
    whole : Out(1)
        All records of the streams are still stored.
    ended : Out(1)
        The streams have ended and all of their records have been issued.
    smoothed : Out(range(pes + 1))
        Number of records that, in this cycle, went to a PE other than their turn's.
    communities, hubs : Out(counter_bits)
        Numbers of communities and hubs in the streams since `start`.

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
        """Connect the record queues to the allocator, and a crossbar to the PEs' FIFOs."""
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

        # A FIFO completes a record before it accepts another; of two first beats, the lower stream's wins.
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
        # Work of each PE's records, to be subtracted from its load: a record has at least a header, an ID and a row.
        # The number of a task is that of its source.
        records = self.depth // 3 + 1
        works = [Queue(_WORK_BITS, records) for _ in range(self.pes)]
        m.submodules.sizes = sizes = Queue(_WORK_BITS, 4)
        task, assignment = allocator.i.payload, allocator.o.payload
        room = Array(queue.i.ready for queue in works)[assignment.pe]
        listens = Array(source.chosen.ready for source in incoming)[assignment.task]
        answers = allocator.o.valid & room & listens
        needed = Signal()
        # Upper bound of a load: the records that can be counted, and one that waits for that.
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

        # The lowest PE is subtracted first; the others wait for lower numbers.
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
            # Replayed records have already been subtracted.
            m.d.sync += done[n].eq(done[n] + (self.retired[n] & ~replaying) - retires[n])
        m.d.sync += [
            Cover(allocator.o.valid & ~room, "a PE has as many records as can be counted"),
            Cover(asked.valid & ~needed, "every PE has enough to do"),
        ]
        return allocator.smoothed
