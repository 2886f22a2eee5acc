"""Community PE: sums the combined rows of a record with shared sums (I6-I9)."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.community.filler import Filler
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import MultiReadMemory
from hw.community.planner import Planner
from hw.community.record_reader import RecordReader
from hw.community.row_accumulator import RowAccumulator
from hw.community.row_sender import RowSender
from hw.community.scanner import Scanner
from hw.community.step_source import StepSource
from hw.community.vector_marks import VectorMarks
from hw.locator.formats import RecordBeat
from hw.stream.queue import Queue

__all__ = ["CommunityPE"]

#: Tasks between planner and scanner: the planner goes on while the adders wait for a vector, and the adders go on while
#: the planner splits a column or begins a record.
_TASKS = 64


class CommunityPE(wiring.Component):
    """Pipelines records: while the rows of one are combined, another one is planned and summed, and a third sent.

    Records of which some rows are combined are summed as well: additions begin with the first vectors, in the order of
    columns, and each one waits for its own vector only.

    Rows of records occupy slots of a ring, from the request of their vertices until their sums are taken.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    first, vertices : In
        VIDs that are summed, constant while there are records.
    records
        Beats of records.
    node_request, hub_request : streams of ``config.request`` and ``config.pe_request``
        Requests for combined rows of nodes and of hubs.
    rows : stream of ``config.pe.row_beat``
        Combined rows of the requested nodes in any order, with a ``config.tag`` as address. In a rooted layer each
        node's own row comes first, then its combined row. ``ready`` is a register.
    hub_rows : stream of ``config.hub_row``
        Combined rows of the requested hubs, each whole, in any order.
    finish : stream of ``config.node_chunk``
        Rows of nodes, without meaning where a node is not summed.
    partial : stream of ``config.partial``
        Partial sums of hubs.
    refused : stream of unsigned(32), always ready
        See `hw.community.record_reader.RecordReader`.
    asking : Out(1)
        The records taken so far may still request hubs.
    busy : Out(1)
        Work is in progress.
    retired : Out(1)
        Pulse: a record is done.
    adding : Out(1)
        The adders add rows.
    gross : Out(2)
        Rows to which a vector is added, or from which it is subtracted, in this cycle; one that is forwarded counts.
    formed : Out(1)
        Pulse: a sum is formed.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        pe = config.pe
        super().__init__(
            {
                "settings": In(config.settings),
                "first": In(config.vid_bits),
                "vertices": In(config.vid_bits + 1),
                "records": In(stream.Signature(RecordBeat)),
                "node_request": Out(stream.Signature(config.request)),
                "hub_request": Out(stream.Signature(config.pe_request)),
                "rows": In(stream.Signature(pe.row_beat)),
                "hub_rows": In(stream.Signature(config.hub_row)),
                "finish": Out(stream.Signature(config.node_chunk)),
                "partial": Out(stream.Signature(config.partial)),
                "refused": Out(stream.Signature(32, always_ready=True)),
                "asking": Out(1),
                "busy": Out(1),
                "retired": Out(1),
                "adding": Out(1),
                "gross": Out(2),
                "formed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the parts around the memories they share."""
        m = Module()
        config = self.config
        m.submodules.reader = reader = RecordReader(config)
        m.submodules.filler = filler = Filler(config)
        m.submodules.marks = marks = VectorMarks(config.slots)
        m.submodules.planner = planner = Planner(config)
        m.submodules.scanner = scanner = Scanner(config)
        m.submodules.source = source = StepSource(config)
        m.submodules.accumulator = accumulator = RowAccumulator(config)
        m.submodules.sender = sender = RowSender(config)
        # Memories by slot: columns, vectors and sums of the rows of records.
        m.submodules.columns = columns = MultiReadMemory(config.width, config.slots)
        depth = config.slots * config.chunks
        m.submodules.vectors = vectors = MultiReadMemory(config.kept_vector, depth)
        m.submodules.sums = sums = MultiReadMemory(config.chunk, depth, 2)
        # All records, and those to be planned. Neither queue is ever full.
        m.submodules.read = read = Queue(config.read_record, RECORDS)
        m.submodules.planned = planned = Queue(config.record, RECORDS)
        m.submodules.tasks = tasks = Queue(config.task, _TASKS)

        connect(m, flipped(self.records), reader.i)
        connect(m, reader.node_request, flipped(self.node_request))
        connect(m, reader.hub_request, flipped(self.hub_request))
        m.d.comb += [
            read.i.valid.eq(reader.o.valid),
            read.i.payload.eq(reader.o.payload),
            planned.i.valid.eq(reader.o.valid & reader.o.payload.planned),
            *(planned.i.payload[name].eq(reader.o.payload[name]) for name in config.record.members),
        ]
        connect(m, reader.vertex, sender.vertex)
        connect(m, reader.vectors, sender.vectors)
        if config.shares:
            connect(m, reader.kept, sender.kept)
        connect(m, reader.refused, flipped(self.refused))
        connect(m, flipped(self.rows), filler.rows)
        connect(m, flipped(self.hub_rows), filler.hub_rows)
        connect(m, filler.own, sender.own)
        connect(m, filler.scale, sender.scale)
        connect(m, filler.came, marks.came)
        connect(m, planned.o, planner.i)
        connect(m, planner.o, tasks.i)
        connect(m, tasks.o, scanner.i)
        connect(m, scanner.o, source.steps)
        connect(m, read.o, source.i)
        connect(m, source.o, accumulator.i)
        connect(m, accumulator.o, sender.i)
        connect(m, sender.finish, flipped(self.finish))
        connect(m, sender.partial, flipped(self.partial))

        connect(m, reader.columns, columns.write)
        connect(m, reader.column, columns.reads[0])
        connect(m, filler.vectors, vectors.write)
        connect(m, accumulator.vectors, vectors.reads[0])
        connect(m, accumulator.sums, sums.write)
        connect(m, accumulator.total, sums.reads[0])
        connect(m, sender.sums, sums.reads[1])
        m.d.comb += [
            reader.first.eq(self.first),
            reader.vertices.eq(self.vertices),
            marks.slot.eq(accumulator.slot),
            accumulator.there.eq(marks.there),
            sender.there.eq(marks.oldest),
            marks.passes.eq(sender.passes),
            reader.freed.eq(sender.freed),
            reader.retired.eq(sender.retired),
            *(unit.settings.eq(self.settings) for unit in (reader, filler, planner, accumulator, sender)),
            self.busy.eq(reader.busy | sender.busy | self.records.valid),
            self.retired.eq(sender.retired),
            self.asking.eq(reader.asking),
            self.adding.eq(accumulator.worked),
            self.gross.eq(accumulator.gross + sender.forwarded),
            self.formed.eq(accumulator.formed),
        ]
        # The planner keeps columns for itself, a cycle later: they come from memory.
        m.d.sync += [
            planner.columns.enable.eq(reader.columns.enable),
            planner.columns.address.eq(reader.columns.address),
            planner.columns.data.eq(reader.columns.data),
        ]
        return m
