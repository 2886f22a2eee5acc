"""Community PE: combines the nodes of a record, sums its rows with shared sums, finishes them (I6-I9)."""

from amaranth.hdl import Module, Mux, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.community.feeder import Feeder
from hw.community.filler import Filler
from hw.community.finisher import Finisher
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import MultiReadMemory
from hw.community.planner import Planner
from hw.community.record_reader import RecordReader
from hw.community.row_accumulator import RowAccumulator
from hw.community.scanner import Scanner
from hw.locator.formats import RecordBeat
from hw.pe.pe import PE
from hw.stream.queue import Queue

__all__ = ["CommunityPE"]

#: Counters of the adders' work.
_COUNTERS = ("worked", "gross", "formed")


class CommunityPE(wiring.Component):
    """Pipelines records: while one is combined, an earlier one is planned and summed, and another one finished.

    Rows of records occupy slots of a ring, from the request of their vertices until they are finished.

    Parameters
    ----------
    config : CommunityConfig
    counter_bits
        Bits of counters.

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    combination : In
        ``config.pe.settings`` of the combining PE, likewise.
    first, vertices : In(32)
        VIDs that are summed, constant while there are records.
    weight_write, bias_write : streams, always ready
        Written before the first record of a layer. Biases are those of the second rounding point.
    records
        Beats of records.
    node_request, hub_request : streams of ``config.request``
        Requests for features of nodes, and for combined rows of hubs.
    features : stream of ``config.pe.task_beat``
        Features of the requested nodes, in order, with a ``config.tag`` as address; interleaved with those of separate
        vertices. In a rooted layer each node's own row comes first, then its combined row.
    apart : stream of ``config.pe.row_beat``
        Combined rows of separate vertices, with their tags.
    hub_rows : stream of ``config.hub_row``
        Combined rows of the requested hubs, in order.
    o : stream of ``config.result``
        Result rows of nodes, without meaning where a node is not summed.
    partial : stream of ``config.partial``
        Partial sums of hubs.
    index_error : stream of unsigned(17), always ready
        See `hw.pe.lane_issue.LaneIssue`.
    refused : stream of unsigned(32), always ready
        See `hw.community.record_reader.RecordReader`.
    asking : Out(1)
        The records taken so far may still request hubs.
    busy : Out(1)
        Work is in progress.
    retired : Out(1)
        Pulse: a record is done.
    multiplying, adding : Out(1)
        The lanes multiply; the adders add rows.
    worked, gross, formed : Out(counter_bits)
        Cycles in which the adders worked; vectors added to rows or subtracted; sums formed. All since reset.
    """

    def __init__(self, config: CommunityConfig, counter_bits: int = 32) -> None:
        self.config = config
        pe = config.pe
        super().__init__(
            {
                "settings": In(config.settings),
                "combination": In(pe.settings),
                "first": In(32),
                "vertices": In(32),
                "weight_write": In(stream.Signature(pe.weight_write, always_ready=True)),
                "bias_write": In(stream.Signature(pe.bias_write, always_ready=True)),
                "records": In(stream.Signature(RecordBeat)),
                "node_request": Out(stream.Signature(config.request)),
                "hub_request": Out(stream.Signature(config.request)),
                "features": In(stream.Signature(pe.task_beat)),
                "apart": Out(stream.Signature(pe.row_beat)),
                "hub_rows": In(stream.Signature(config.hub_row)),
                "o": Out(stream.Signature(config.result)),
                "partial": Out(stream.Signature(config.partial)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
                "refused": Out(stream.Signature(32, always_ready=True)),
                "asking": Out(1),
                "busy": Out(1),
                "retired": Out(1),
                "multiplying": Out(1),
                "adding": Out(1),
                **{name: Out(counter_bits) for name in _COUNTERS},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the parts around the memories they share."""
        m = Module()
        config = self.config
        m.submodules.reader = reader = RecordReader(config)
        m.submodules.feeder = feeder = Feeder(config)
        m.submodules.pe = pe = PE(config.pe)
        m.submodules.filler = filler = Filler(config)
        m.submodules.planner = planner = Planner(config)
        m.submodules.scanner = scanner = Scanner(config)
        m.submodules.accumulator = accumulator = RowAccumulator(config)
        m.submodules.finisher = finisher = Finisher(config)
        # Memories by slot: columns, vectors and sums of the rows of records.
        m.submodules.columns = columns = MultiReadMemory(config.width, config.slots)
        depth = config.slots * config.chunks
        m.submodules.vectors = vectors = MultiReadMemory(config.kept_vector, depth)
        m.submodules.sums = sums = MultiReadMemory(config.chunk, depth, 2)
        m.submodules.read = read = Queue(config.record, RECORDS)

        connect(m, flipped(self.records), reader.i)
        connect(m, reader.node_request, flipped(self.node_request))
        connect(m, reader.hub_request, flipped(self.hub_request))
        connect(m, reader.vertex, finisher.vertex)
        connect(m, reader.refused, flipped(self.refused))
        for taker in (feeder.begun, filler.begun):
            m.d.comb += [taker.valid.eq(reader.begun.valid), taker.payload.eq(reader.begun.payload)]
        connect(m, flipped(self.features), feeder.i)
        connect(m, feeder.o, pe.i)
        connect(m, feeder.scale, finisher.scale)
        connect(m, flipped(self.weight_write), pe.weight_write)
        connect(m, pe.index_error, flipped(self.index_error))
        apart = config.tag_of(pe.o.payload).apart
        m.d.comb += [
            filler.rows.payload.eq(pe.o.payload),
            filler.rows.valid.eq(pe.o.valid & ~apart),
            self.apart.payload.eq(pe.o.payload),
            self.apart.valid.eq(pe.o.valid & apart),
            pe.o.ready.eq(Mux(apart, self.apart.ready, filler.rows.ready)),
        ]
        connect(m, flipped(self.hub_rows), filler.hub_rows)
        connect(m, filler.own, finisher.own)
        connect(m, filler.o, accumulator.record)
        connect(m, reader.o, read.i)
        connect(m, read.o, planner.i)
        connect(m, planner.o, scanner.i)
        connect(m, scanner.o, accumulator.i)
        connect(m, accumulator.o, finisher.i)
        connect(m, flipped(self.bias_write), finisher.bias_write)
        connect(m, finisher.o, flipped(self.o))
        connect(m, finisher.partial, flipped(self.partial))

        connect(m, reader.columns, columns.write)
        connect(m, reader.column, columns.reads[0])
        connect(m, filler.vectors, vectors.write)
        connect(m, accumulator.vectors, vectors.reads[0])
        connect(m, accumulator.sums, sums.write)
        connect(m, accumulator.total, sums.reads[0])
        connect(m, finisher.sums, sums.reads[1])
        m.d.comb += [
            # The planner keeps columns for itself.
            planner.columns.enable.eq(reader.columns.enable),
            planner.columns.address.eq(reader.columns.address),
            planner.columns.data.eq(reader.columns.data),
            reader.first.eq(self.first),
            reader.vertices.eq(self.vertices),
            reader.freed.eq(finisher.freed),
            reader.retired.eq(finisher.retired),
            pe.settings.eq(self.combination),
            *(unit.settings.eq(self.settings) for unit in (reader, filler, planner, accumulator, finisher)),
            self.busy.eq(reader.busy | finisher.busy | self.records.valid),
            self.retired.eq(finisher.retired),
            self.asking.eq(reader.asking),
            self.multiplying.eq(pe.working),
            self.adding.eq(accumulator.worked),
        ]
        for name in _COUNTERS:
            counter = getattr(self, name)
            m.d.sync += counter.eq(counter + getattr(accumulator, name))
        return m
