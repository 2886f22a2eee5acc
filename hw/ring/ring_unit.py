"""Ring unit: all of a chiplet that has to do with the ring, and the commands that use it."""

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, LINE_BYTES, PACKET_HEADER, ROW_BYTES, VALUE_BITS, Error, Opcode
from hw.chiplet.gather import GatherUnit
from hw.contracts import struct
from hw.graph.csr_reader import CsrReader, ErrorReport
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest, WriteRequest, line_address_width
from hw.memory.word_serialiser import WordSerialiser
from hw.memory.word_writer import WordWriter
from hw.ring.boundary_table import BoundaryTable
from hw.ring.control import RING_OPCODES, Control, Phase, operands
from hw.ring.filter_array import FilterArray
from hw.ring.first_error import FirstError
from hw.ring.formats import POSITION_BITS, LinkSignature, RingConfig
from hw.ring.halo_writer import HaloWriter
from hw.ring.local_adder import LocalAdder
from hw.ring.needed_list import NeededList
from hw.ring.packet_guard import PacketGuard
from hw.ring.packet_queue import PacketQueue
from hw.ring.packet_router import PacketRouter
from hw.ring.reducer import Reducer
from hw.ring.remote_array import RemoteArray
from hw.ring.route_decision import RouteDecision
from hw.ring.sender import Sender
from hw.ring.shared_reader import SharedReader
from hw.ring.station import Station
from hw.ring.tokens import Tokens

__all__ = ["RING_OPCODES", "RingUnit"]

_WORDS_OF_LINE = exact_log2(LINE_BYTES // WORD_BYTES)
#: Beats that a reader of lists may have asked for.
_LIST_DEPTH = 64
#: Clients of the reader of lists, in the order of the phases; of the reader of offsets and hubs.
_BOUNDARIES, _EDGES, _NEEDED = range(3)
_OFFSETS, _HUBS = range(2)


class RingUnit(wiring.Component):
    """Carries out LIST, SCATTER, REDUCE and BARRIER; between commands it still passes packets on.

    A packet that this chiplet may have to take waits at the head of its station until the command has come that takes
    it. What the command needs for that comes from the own memory only, so the wait ends. After an error, here or in
    another chiplet, everything passes and nothing is taken; the ring then wants a reset of all chiplets.

    Parameters
    ----------
    config : RingConfig
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats that the readers of rows may have asked for.

    Attributes
    ----------
    position, chiplets : In
        Where this chiplet is; constant.
    base : In
        Line address that a command's addresses count from.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        Answers a command.
    stop : stream of `ErrorReport`, always ready
        The chiplet has stopped with this error; tells the others, once.
    requests, beats
        Clients' ends of a read arbiter.
    errors : streams of `ErrorReport`, always ready
        What the memory port reports.
    write : stream of `WriteRequest`
    writing : In(1)
        What was handed on has not been written yet.
    s_axis, m_axis : LinkSignature
    """

    #: Read clients.
    CLIENTS = 6

    def __init__(self, config: RingConfig, address_width: int = 32, data_width: int = 256, depth: int = 64) -> None:
        self.config, self.address_width, self.data_width, self.depth = config, address_width, data_width, depth
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "base": In(line_address_width(address_width)),
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "stop": In(stream.Signature(ErrorReport, always_ready=True)),
                "requests": Out(stream.Signature(ReadRequest(address_width, data_width))).array(self.CLIENTS),
                "beats": In(stream.Signature(ReadBeat(data_width), always_ready=True)).array(self.CLIENTS),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(2),
                "write": Out(stream.Signature(WriteRequest(address_width, data_width))),
                "writing": In(1),
                "s_axis": In(LinkSignature(config.link_width)),
                "m_axis": Out(LinkSignature(config.link_width)),
            }
        )

    @property
    def max_beats(self) -> int:
        """Beats of the longest row."""
        return -(-self.config.max_out * VALUE_BITS // (8 * ROW_BYTES)) * 8 * ROW_BYTES // self.data_width

    def elaborate(self, platform: object) -> Elaboratable:
        """Make the units and connect them."""
        m = Module()
        config, link, most = self.config, self.config.link_width, self.config.chiplets
        port = (self.address_width, self.data_width)
        m.submodules.control = control = Control(config, *port, self.max_beats)
        # On the ring.
        m.submodules.station = station = Station(link, config.slots, config.max_flits)
        m.submodules.decision = decision = RouteDecision()
        m.submodules.filter = filter_ = FilterArray(self.address_width, most, config.window)
        m.submodules.router = router = PacketRouter(link)
        m.submodules.tokens = tokens = Tokens(link, most)
        m.submodules.packets = packets = PacketQueue(link, 3, config.max_flits)
        # Rows: what must travel and what is needed, from memory to the ring and back.
        m.submodules.boundaries = boundaries = BoundaryTable(self.address_width, most)
        m.submodules.needed = needed = NeededList(self.address_width, most, config.bitmap)
        m.submodules.list_writer = list_writer = WordWriter(*port)
        m.submodules.remote_array = remote = RemoteArray()
        m.submodules.sender = sender = Sender(*port, link, self.max_beats, self.depth)
        m.submodules.halo = halo = HaloWriter(*port, link, self.max_beats)
        # Partial sums.
        m.submodules.csr = csr = CsrReader(*port, self.depth, _LIST_DEPTH)
        m.submodules.source_words = source_words = WordSerialiser(self.data_width)
        m.submodules.gather = gather = GatherUnit(*port, self.max_beats, self.depth)
        m.submodules.adder = adder = LocalAdder(self.data_width, link, self.max_beats)
        m.submodules.reducer = reducer = Reducer(*port, link, self.max_beats)
        m.submodules.guard = guard = PacketGuard(link)
        m.submodules.lists = lists = SharedReader(3, *port, _LIST_DEPTH)
        m.submodules.table = table = SharedReader(2, *port, _LIST_DEPTH)

        self._connect_memory(m, [lists, table, sender], csr, gather)
        connect(m, flipped(self.command), control.command)
        connect(m, control.executed, flipped(self.executed))
        connect(m, flipped(self.s_axis), station.s_axis)
        connect(m, station.m_axis, flipped(self.m_axis))
        connect(m, station.o, router.i)
        connect(m, router.features, halo.i)
        connect(m, router.partials, reducer.i)
        connect(m, router.control, tokens.i)
        for n, source in enumerate((tokens.o, sender.o, guard.o)):
            connect(m, source, packets.i[n])
        connect(m, packets.o, station.i)
        for client, unit in ((_BOUNDARIES, boundaries), (_EDGES, needed), (_NEEDED, filter_)):
            connect(m, unit.request, lists.asks[client])
            connect(m, lists.words[client], unit.i)
        connect(m, control.offsets, table.asks[_OFFSETS])
        connect(m, table.words[_OFFSETS], remote.i)
        connect(m, control.hubs, table.asks[_HUBS])
        connect(m, table.words[_HUBS], reducer.hubs)
        connect(m, needed.o, list_writer.i)
        connect(m, remote.o, sender.i)
        connect(m, control.shares, csr.i)
        connect(m, source_words.o, gather.i)
        connect(m, gather.o, adder.i)
        connect(m, adder.o, reducer.share)
        connect(m, reducer.o, guard.i)
        m.d.comb += [
            source_words.i.valid.eq(csr.o.valid),
            csr.o.ready.eq(source_words.i.ready),
            source_words.i.payload.data.eq(csr.o.payload.data),
            source_words.i.payload.mask.eq(csr.o.payload.mask),
            source_words.i.payload.last.eq(csr.o.payload.last),
        ]

        # Readers and the way to memory belong to what the phase needs.
        phase = control.phase
        receiving, reducing = phase == Phase.FLOW, phase == Phase.REDUCE
        m.d.comb += [
            lists.select.eq(Mux(phase == Phase.LOAD, _BOUNDARIES, Mux(phase == Phase.BUILD, _EDGES, _NEEDED))),
            table.select.eq(Mux(reducing, _HUBS, _OFFSETS)),
        ]
        with m.If(reducing):
            self._writes(m, reducer.write)
        with m.Elif(phase == Phase.BUILD):
            self._writes(m, list_writer.o)
        with m.Else():
            self._writes(m, halo.o)

        # Errors, from the most telling to the least.
        reports = [control.refused, *(flipped(error) for error in self.errors)]
        reports += [unit.error for unit in (remote, needed, csr, gather, halo, reducer, decision)]
        m.submodules.first_error = first_error = FirstError(len(reports) + 2)
        for n, report in enumerate(reports):
            connect(m, report, first_error.i[n])
        connect(m, flipped(self.stop), first_error.halt)
        peer, lost = first_error.i[-2:]
        before, after = Signal(POSITION_BITS), Signal(POSITION_BITS)
        stopped = first_error.stopped
        m.d.comb += [
            before.eq(Mux(self.position == 0, self.chiplets, self.position) - 1),
            after.eq(Mux(self.position == self.chiplets - 1, 0, self.position + 1)),
            peer.valid.eq(tokens.failed),
            peer.payload.code.eq(Error.PEER),
            peer.payload.info.eq(tokens.peer),
            lost.valid.eq(station.lost.any()),
            lost.payload.code.eq(Error.LINK),
            lost.payload.info.eq(Mux(station.lost[0], before, after)),
            tokens.stop.eq(first_error.tell.valid),
            tokens.code.eq(first_error.tell.payload.code),
            # What is listed is the chiplet's own affair; the others may still be in reset.
            station.works.eq(self.command.valid & self.command.ready & (self.command.payload[:8] != Opcode.LIST)),
            *(unit.stopped.eq(stopped) for unit in (decision, router, guard)),
            # Only with the token that says why; what goes wrong with a list is told by the command after it.
            station.stop.eq(first_error.halted),
        ]

        # What the route decision and the control look at.
        rows = control.rows
        header, following = (
            data.View(struct(PACKET_HEADER), flit[: PACKET_HEADER.bits]) for flit in (station.header, station.following)
        )
        m.d.comb += [
            decision.header.eq(header),
            decision.begins.eq(station.begins),
            decision.elements.eq(rows.elements),
            decision.receiving.eq(receiving),
            decision.reducing.eq(reducing),
            decision.found.eq(filter_.decided),
            decision.hit.eq(filter_.hit),
            decision.late.eq(filter_.late),
            decision.outside.eq(filter_.outside),
            filter_.boundaries.eq(boundaries.boundaries),
            filter_.owner.eq(header.source),
            filter_.vid.eq(header.vid),
            filter_.next_owner.eq(following.source),
            filter_.next_vid.eq(following.vid),
            filter_.advances.eq(station.advances),
            filter_.take.eq(decision.take),
            station.decided.eq(decision.decided),
            station.verdict.eq(decision.verdict),
            control.base.eq(self.base),
            control.failed.eq(first_error.failed),
            control.report.eq(first_error.report),
            control.loaded.eq(boundaries.done),
            control.listed.eq(list_writer.done & ~self.writing),
            control.sent.eq(remote.done & sender.idle),
            control.drained.eq(tokens.drained & halo.idle & ~self.writing),
            control.missing.eq(filter_.waiting.any() | ~filter_.exhausted.all()),
            control.lowest.eq(filter_.lowest),
            control.reduced.eq(reducer.done & ~self.writing & ~csr.busy),
            control.arrived.eq(tokens.arrived),
        ]
        self._settings(m, control, boundaries, needed, list_writer, filter_, remote, sender, gather, adder, reducer)
        for unit in (decision, remote, sender, tokens, reducer, needed):
            m.d.comb += unit.position.eq(self.position)
        for unit in (control, decision, boundaries, remote, tokens, reducer):
            m.d.comb += unit.chiplets.eq(self.chiplets)
        for unit in (sender, halo, reducer):
            m.d.comb += unit.rows.eq(rows)
        m.d.comb += [
            needed.boundaries.eq(boundaries.boundaries),
            tokens.drain.eq(control.drain),
            tokens.forget.eq(control.forget),
            tokens.arrive.eq(control.arrive),
            tokens.passed.eq(control.pass_),
        ]
        return m

    def _connect_memory(self, m: Module, units: list[Any], csr: CsrReader, gather: GatherUnit) -> None:
        """Give every reader its client's end of the arbiter."""
        ends = [(unit.request, unit.beat) for unit in (*units, gather)]
        ends += [(csr.requests[n], csr.beats[n]) for n in range(2)]
        for n, (request, beat) in enumerate(ends):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)

    def _writes(self, m: Module, source: stream.Interface) -> None:
        """Let `source` write."""
        m.d.comb += [
            self.write.valid.eq(source.valid),
            self.write.payload.eq(source.payload),
            source.ready.eq(self.write.ready),
        ]

    def _settings(
        self,
        m: Module,
        control: Control,
        boundaries: BoundaryTable,
        needed: NeededList,
        list_writer: WordWriter,
        filter_: FilterArray,
        remote: RemoteArray,
        sender: Sender,
        gather: GatherUnit,
        adder: LocalAdder,
        reducer: Reducer,
    ) -> None:
        """Start units in their phases, with the command's operands."""
        rows = control.rows
        scatter, reduce = operands(control.bits, Opcode.SCATTER), operands(control.bits, Opcode.REDUCE)
        list_ = operands(control.bits, Opcode.LIST)

        def in_words(line: Any) -> Any:
            return (self.base + line) << _WORDS_OF_LINE

        m.d.comb += [
            boundaries.start.eq(control.load),
            boundaries.address.eq(in_words(list_.boundaries)),
            needed.start.eq(control.build),
            needed.edges.address.eq(in_words(list_.edges)),
            needed.edges.words.eq(list_.edge_count),
            needed.partials.eq(list_.partials),
            list_writer.start.eq(control.build),
            list_writer.address.eq((self.base + list_.needed) << exact_log2(8 * LINE_BYTES // self.data_width)),
            list_writer.ended.eq(needed.done),
            filter_.start.eq(control.flow),
            filter_.address.eq(in_words(scatter.needed)),
            filter_.counts.eq(needed.counts),
            filter_.in_order.eq(scatter.in_order),
            remote.start.eq(control.send),
            remote.first_vertex.eq(scatter.first_vertex),
            sender.backward.eq(scatter.backward),
            gather.start.eq(control.reduce),
            gather.settings.first_vertex.eq(reduce.first_source),
            gather.settings.first_source.eq(reduce.first_source),
            gather.settings.sources.eq(reduce.sources),
            gather.settings.combined.eq(rows.base + reduce.first_source * rows.stride),
            gather.settings.stride.eq(rows.stride),
            gather.settings.last_beat.eq(rows.last_beat),
            adder.last_beat.eq(rows.last_beat),
            adder.last_flit.eq(control.last_sum_flit),
            reducer.start.eq(control.reduce),
            reducer.first_partial.eq(reduce.first_partial),
        ]
