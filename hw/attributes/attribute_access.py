"""Attribute access: carries out FETCH commands, and fetches for a SAMPLE that asks for it (A3-A9)."""

from typing import Any

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Error, Targets
from hw.attributes.attribute_processors import processors_of
from hw.attributes.fetch_walk import FetchWalk
from hw.attributes.formats import AccessSettings, AttributeCoreConfig
from hw.attributes.header_writer import HeaderWriter
from hw.attributes.node_reader import NodeReader
from hw.attributes.request_counts import RequestCounts, RequestTotals
from hw.attributes.row_window import RowWindow
from hw.attributes.row_writer import RowWriter
from hw.attributes.slot_planner import SlotPlanner
from hw.attributes.target_address import Placed, TargetAddress
from hw.chiplet.unit import command_members
from hw.graph.formats import ErrorReport
from hw.memory.formats import WriteRequest
from hw.memory.unit_port import client_members
from hw.memory.window import window_members

__all__ = ["AttributeAccess", "core_window"]


def core_window(config: AttributeCoreConfig) -> dict[str, wiring.Member]:
    """Return the member ``window`` of a core that has one: rows for the engine, and why some of them are errors."""
    if not config.window:
        return {}
    report = stream.Signature(ErrorReport, always_ready=True)
    port = (config.attribute.address_width, config.attribute.data_width)
    return {"window": Out(wiring.Signature({**window_members(*port), "failure": Out(report)}))}


class AttributeAccess(wiring.Component):
    """Attribute RAM with the ways that requests take to it and rows from it; one command at a time.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    command, executed, base, writing, errors, requests, beats, window
        As of `AttributeCore`.
    writes : streams of `WriteRequest`
        Rows, and reports.
    placed, access, flush, counts, positions, totals, settled
        Requests of a SAMPLE and what became of them, see `BatchSampler`; only between `counts` and `settled`.
    idle : Out(1)
        A SAMPLE may fetch.
    ending : In(1)
        Drop the rows that nobody has read.
    busy : Out(1)
        A FETCH is carried out, answered or not.
    """

    #: Streams in `writes`.
    WRITES = 2

    def __init__(self, config: AttributeCoreConfig) -> None:
        self.config = config
        attribute = config.attribute
        self._port = port = (attribute.address_width, attribute.data_width)
        self._processor = processors_of(attribute, config.processors)
        #: Read clients: attribute processors, node reader.
        self.clients = self._processor.clients + 1
        super().__init__(
            {
                **command_members(port[0]),
                **client_members(port, self.clients),
                "writes": Out(stream.Signature(WriteRequest(*port))).array(self.WRITES),
                "placed": In(stream.Signature(Placed(attribute))),
                "access": In(AccessSettings(attribute)),
                "flush": In(1),
                "counts": In(1),
                "positions": In(range((1 << attribute.tag_bits) + 1)),
                "totals": Out(RequestTotals(attribute)),
                "settled": Out(1),
                "idle": Out(1),
                "ending": In(1),
                "busy": Out(1),
                **core_window(config),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect command walk, attribute processor and writers."""
        m = Module()
        config, attribute = self.config, self.config.attribute
        m.submodules.walk = walk = FetchWalk(config)
        m.submodules.node_reader = nodes = NodeReader(attribute)
        m.submodules.target = target = TargetAddress(attribute)
        requests = stream.Signature(Placed(attribute)).create(path=("requests_to_place",))
        m.submodules.processor = processor = self._processor
        m.submodules.counts = counts = RequestCounts(attribute)
        m.submodules.row_writer = row_writer = RowWriter(attribute)
        m.submodules.header = header = HeaderWriter(*self._port)
        settings = walk.settings

        connect(m, flipped(self.command), walk.command)
        connect(m, walk.executed, flipped(self.executed))
        for source, end in zip(self.errors, walk.errors, strict=True):
            connect(m, flipped(source), end)
        self._load(m, walk, nodes, processor)
        # While a FETCH is carried out there is no SAMPLE that fetches.
        access = Signal(AccessSettings(attribute))
        m.d.comb += [
            access.eq(Mux(walk.busy, settings.access, self.access)),
            requests.valid.eq(Mux(walk.busy, nodes.o.valid & ~walk.loading, self.placed.valid)),
            requests.payload.eq(Mux(walk.busy, nodes.o.payload, self.placed.payload)),
            nodes.o.ready.eq(Mux(walk.loading, 1, requests.ready & walk.busy)),
            self.placed.ready.eq(requests.ready & ~walk.busy),
            nodes.i.valid.eq(walk.begin | walk.load),
            nodes.i.payload.eq(settings.nodes),
        ]
        m.d.sync += [
            Assert(nodes.i.ready | ~nodes.i.valid, "the node reader is not idle"),
            Assert(~(walk.busy & (self.placed.valid | self.counts)), "a SAMPLE fetches beside a FETCH"),
        ]
        passes = Signal(init=1)
        self._place(m, walk, requests, target, passes)
        connect(m, target.o, processor.i)
        connect(m, processor.responses, counts.response)
        handed_on, waits = self._hand_on(m, walk, processor, row_writer, target, passes)
        m.d.comb += [
            walk.base.eq(self.base),
            walk.idle.eq(processor.idle),
            walk.settled.eq(self.settled),
            walk.reported.eq(header.done),
            walk.writing.eq(self.writing),
            target.hashed.eq(access.targets == Targets.HASH),
            processor.settings.eq(access.attribute),
            processor.flush.eq(walk.flush | self.flush),
            counts.start.eq(walk.begin | self.counts),
            counts.event_valid.eq(processor.event_valid),
            counts.event.eq(processor.event),
            counts.row_written.eq(handed_on),
            counts.positions.eq(Mux(walk.busy, settings.nodes.count, self.positions)),
            row_writer.base.eq(access.rows << exact_log2(8 * LINE_BYTES // attribute.data_width)),
            row_writer.beats.eq(access.attribute.beats),
            header.line.eq(settings.report),
            header.header.positions.eq(settings.nodes.count),
            *(header.header[name].eq(counts.totals[name]) for name, _ in counts.totals.shape()),
            header.write.eq(walk.report),
            self.totals.eq(counts.totals),
            self.settled.eq(counts.settled & processor.idle & ~waits),
            self.idle.eq(processor.idle & ~walk.busy),
            self.busy.eq(walk.busy),
        ]

        clients = [*zip(processor.requests, processor.beats, strict=True), (nodes.request, nodes.beat)]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        for source, end in zip((row_writer.o, header.o), self.writes, strict=True):
            connect(m, source, flipped(end))
        return m

    def _load(self, m: Module, walk: FetchWalk, nodes: NodeReader, processor: Any) -> None:
        """Fill tables of replicas with a list of IDs, which is read like that of a batch."""
        cells, entry, comes = self.config.attribute.replicas, nodes.o.payload, Signal(name="replica_comes")
        if not cells:
            return
        m.d.comb += [
            comes.eq(nodes.o.valid & walk.loading),
            processor.replica.valid.eq(comes),
            processor.replica.payload.cell.eq(entry.tag),
            processor.replica.payload.id.eq(entry.id),
            walk.loaded.eq(comes & (entry.tag == cells - 1)),
        ]

    def _place(self, m: Module, walk: FetchWalk, requests: Any, target: TargetAddress, passes: Signal) -> None:
        """Lead requests to their target addresses while they may pass, past the plan if a FETCH has none."""
        placed = stream.Signature(Placed(self.config.attribute)).create(path=("placed_requests",))
        m.d.comb += [
            target.i.payload.eq(placed.payload),
            target.i.valid.eq(placed.valid & passes),
            placed.ready.eq(target.i.ready & passes),
        ]
        if not self.config.ahead:
            connect(m, requests, flipped(placed))
            return
        planned = Signal()
        m.submodules.planner = planner = SlotPlanner(self.config.attribute, self.config.ahead, self.config.processors)
        m.d.comb += [
            planned.eq(walk.busy & (walk.settings.access.targets == Targets.AHEAD)),
            planner.start.eq(walk.begin & planned),
            planner.count.eq(walk.settings.nodes.count),
            planner.forget.eq(walk.flush),
            planner.i.payload.eq(requests.payload),
            planner.i.valid.eq(requests.valid & planned),
            planner.o.ready.eq(placed.ready & planned),
            requests.ready.eq(Mux(planned, planner.i.ready, placed.ready)),
            placed.valid.eq(Mux(planned, planner.o.valid, requests.valid)),
            placed.payload.eq(Mux(planned, planner.o.payload, requests.payload)),
        ]

    def _hand_on(
        self, m: Module, walk: FetchWalk, processor: Any, row_writer: Any, target: Any, passes: Signal
    ) -> tuple[Any, Any]:
        """Lead rows to memory or to the window, which lets requests through when it has a place for their rows.

        Returns
        -------
        tuple
            Whether the last beat of a row is handed on, and whether beats wait.
        """
        rows, settings = processor.rows, walk.settings
        if not self.config.window:
            connect(m, rows, row_writer.i)
            return row_writer.written, row_writer.o.valid
        streamed = settings.streamed
        m.submodules.row_window = window = RowWindow(self.config.attribute, self.config.window)
        m.d.comb += [
            row_writer.i.payload.eq(rows.payload),
            row_writer.i.valid.eq(rows.valid & ~streamed),
            window.i.payload.eq(rows.payload),
            window.i.valid.eq(rows.valid & streamed),
            rows.ready.eq(Mux(streamed, window.i.ready, row_writer.i.ready)),
            window.start.eq(walk.begin & streamed),
            window.settings.rows.eq(settings.access.rows),
            window.settings.count.eq(settings.nodes.count),
            window.settings.beats.eq(settings.access.attribute.beats),
            window.abandon.eq(self.ending),
            window.asks.eq(target.i.valid & target.i.ready & streamed),
        ]
        m.d.comb += passes.eq(~streamed | window.room)
        for name, member in self.window.signature.members.items():
            outer, inner = getattr(self.window, name), getattr(window, name)
            if member.is_signature:
                connect(m, flipped(outer), inner)
            else:
                m.d.comb += outer.eq(inner)
        # The port says which line it could not read, the processor that a row does not come.
        response, line, unread = processor.responses, Signal.like(self.base, reset_less=True), Signal()
        with m.If(walk.begin):
            m.d.sync += unread.eq(0)
        with m.Elif(self.errors[0].valid & ~unread):
            m.d.sync += [unread.eq(1), line.eq(self.errors[0].payload.info)]
        m.d.comb += [
            window.failed.valid.eq(streamed & response.valid & (response.payload.error != Error.NONE)),
            window.failed.payload.code.eq(Mux(unread, Error.MEMORY_READ, response.payload.error)),
            window.failed.payload.info.eq(Mux(unread, line, response.payload.tag)),
        ]
        return row_writer.written | window.taken, row_writer.o.valid | window.open
