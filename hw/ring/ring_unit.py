"""Ring unit: all of a chiplet that has to do with the ring, and the commands that use it."""

from dataclasses import dataclass, fields
from typing import Any, Self

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import PACKET_CONTROL, PACKET_HEADER, ROW_BYTES, VALUE_BITS, Error, Opcode, Token
from hw.chiplet.gather import GatherUnit
from hw.chiplet.unit import unit_members
from hw.contracts import struct
from hw.graph.csr_reader import CsrReader, ErrorReport
from hw.memory.range_reader import RangeReader
from hw.memory.unit_port import UNIT_ID_WIDTH
from hw.memory.word_serialiser import WordSerialiser
from hw.memory.word_writer import WordWriter
from hw.memory.write_fence import FENCE
from hw.ring.boundary_table import BoundaryTable
from hw.ring.control import RING_OPCODES, Control
from hw.ring.filter_array import FilterArray
from hw.ring.formats import POSITION_BITS, Clocks, HaloRows, LinkFlit, MadeRows, Phase, RingConfig
from hw.ring.halo_limits import HaloLimits
from hw.ring.halo_writer import HaloWriter
from hw.ring.halt import Halt
from hw.ring.local_adder import LocalAdder
from hw.ring.needed_list import NeededList
from hw.ring.packet_guard import PacketGuard
from hw.ring.packet_queue import PacketQueue
from hw.ring.packet_router import PacketRouter
from hw.ring.reducer import Reducer
from hw.ring.remote_array import RemoteArray
from hw.ring.route_decision import RouteDecision
from hw.ring.row_gate import RowGate
from hw.ring.send_queue import SendQueue
from hw.ring.sender import Sender
from hw.ring.shared_lines import SharedLines, lines_members, reader_members
from hw.ring.shared_reader import SharedReader
from hw.ring.station import Station
from hw.ring.tokens import Tokens
from hw.ring.unpacker import Unpacker
from hw.stream.queue import Queue

__all__ = ["RING_OPCODES", "RingUnit"]

#: Beats that may have been asked for: of lists; of VIDs of others, for which all rows wait; of the tiles that need the
#: rows that are sent, of which few are needed, so that the engine does not wait for its own.
_LIST_DEPTH, _OTHERS_DEPTH, _TILES_DEPTH = 64, 512, 32
#: Flits for this chiplet that may wait. A link brings a row a cycle, but units take it in two flits or more.
_RECEIVED = 16
#: Clients of the reader of lists.
_BOUNDARIES, _NEEDED, _HUBS, _LINES = range(4)
_READ_CLIENTS = 7
#: Inputs for reports: of the memory port, of the units, of other chiplets and of the links.
_REPORTS = 2 + 7 + 2


@dataclass(frozen=True)
class _Units:
    """Units inside, for the methods that connect them."""

    # On the ring.
    control: Control
    station: Station
    decision: RouteDecision
    filter: FilterArray
    received: Queue
    unpacker: Unpacker
    router: PacketRouter
    tokens: Tokens
    packets: PacketQueue
    # Rows: what must travel and what is needed, from memory to the ring and back.
    boundaries: BoundaryTable
    needed: NeededList
    list_writer: WordWriter
    parts: SendQueue
    remote_array: RemoteArray
    gate: RowGate
    sender: Sender
    halo: HaloWriter
    limits: HaloLimits
    # Partial sums.
    csr: CsrReader
    source_words: WordSerialiser
    gather: GatherUnit
    adder: LocalAdder
    reducer: Reducer
    guard: PacketGuard
    lists: SharedReader
    others: RangeReader
    out_tiles: RangeReader
    # A divided graph.
    shared: SharedLines | None


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
    divided
        Whether it also carries out SHARE, for a unit beside it that reads a graph divided among the chiplets.

    Attributes
    ----------
    position, chiplets : In
        Where this chiplet is; constant.
    command, executed, ...
        As for `hw.chiplet.unit.Unit`.
    stop : stream of `ErrorReport`, always ready
        A run of the chiplet has ended with this error, which is reported to the others, once.
    halo : Out(HaloRows)
        Which rows the engine can read.
    made : In(MadeRows)
        Which rows can be sent.
    sending : Out(1)
        Own rows are sent beside other commands, and stay as they are until all of a pass have come.
    s_axis, m_axis : LinkSignature
    shared_lines, readers
        If there is SHARE, ``lines`` and ``readers`` of `SharedLines`.
    """

    OPCODES = RING_OPCODES
    OUTER = ("position", "chiplets", "s_axis", "m_axis")
    id_width = 3

    def __init__(
        self,
        config: RingConfig,
        address_width: int = 32,
        data_width: int = 256,
        depth: int = 64,
        *,
        divided: bool = False,
    ) -> None:
        self.config, self.address_width, self.data_width, self.depth = config, address_width, data_width, depth
        self.port, self.clients, self.outstanding = (address_width, data_width), _READ_CLIENTS, depth
        self.divided = divided
        #: Domains, in the order of ports of a generated module.
        self.domains = ("sync", "link") if config.clocks is Clocks.OWN else ("sync",)
        if divided:
            self.OPCODES = (*RING_OPCODES, Opcode.SHARE)
            # With the readers of shared lines there are more than eight clients.
            self.id_width = UNIT_ID_WIDTH
        super().__init__(
            {
                **unit_members(self.port, self.clients),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "stop": In(stream.Signature(ErrorReport, always_ready=True)),
                "exchanging": Out(1),
                "halo": Out(HaloRows(*self.port)),
                "made": In(MadeRows()),
                "sending": Out(1),
                **FENCE,
                "s_axis": In(config.link),
                "m_axis": Out(config.link),
                **(
                    {
                        "shared_lines": Out(lines_members(*self.port)),
                        "readers": Out(reader_members(*self.port)).array(2),
                    }
                    if divided
                    else {}
                ),
            }
        )

    @classmethod
    def beside(cls, engine: Any, config: RingConfig, *, divided: bool = False) -> Self:
        """Return the ring unit of a chiplet.

        Parameters
        ----------
        engine
            Sizes of the chiplet's engine.
        config
            Sizes of the ring interface.
        divided
            As of the unit.

        Raises
        ------
        ValueError
            If these do not fit each other.
        """
        max_out, data_width = engine.pe.max_out, engine.port[1]
        if config.max_out != max_out:
            raise ValueError(f"max_out of the ring must be {max_out}, that of the PE, not {config.max_out!r}")
        if not engine.partials:
            raise ValueError("community.partials must be True: halves of sums come round the ring")
        return cls(config, engine.port[0], data_width, engine.depth, divided=divided)

    @property
    def max_beats(self) -> int:
        """Beats of the longest row."""
        return -(-self.config.max_out * VALUE_BITS // (8 * ROW_BYTES)) * 8 * ROW_BYTES // self.data_width

    def elaborate(self, platform: object) -> Elaboratable:
        """Make the units and connect them."""
        m = Module()
        units = self._make_units(m)
        self._connect_memory(m, units)
        self._connect_commands(m, units)
        self._connect_packets(m, units)
        self._connect_sums(m, units)
        self._share_by_phase(m, units)
        self._connect_errors(m, units)
        self._decide(m, units)
        self._report_progress(m, units)
        self._spread_position(m, units)
        self._follow_rows(m, units)
        self._start_units(m, units)
        if units.shared is not None:
            self._share(m, units, units.shared)
        return m

    def _make_units(self, m: Module) -> _Units:
        """Make all units and add them."""
        config, width, most = self.config, self.config.width(self.data_width), self.config.chiplets
        port, divided = self.port, self.divided
        max_flits = max(config.max_flits, config.reply_flits(self.data_width) if divided else 0)
        units = _Units(
            control=Control(config, *port, self.max_beats, _REPORTS + divided, divided=divided),
            station=Station(config.link_width, config.slots, max_flits, fills=divided, clocks=config.clocks),
            decision=RouteDecision(divided=divided),
            filter=FilterArray(self.address_width, most, config.window),
            received=Queue(LinkFlit(config.link_width), _RECEIVED),
            unpacker=Unpacker(width, config.link_width),
            router=PacketRouter(width, divided=divided),
            tokens=Tokens(width, most),
            packets=PacketQueue(width, config.link_width, 5 if divided else 3, max_flits),
            boundaries=BoundaryTable(self.address_width, most),
            needed=NeededList(self.address_width, most, config.bitmap, self.data_width),
            list_writer=WordWriter(*port),
            parts=SendQueue(self.address_width),
            remote_array=RemoteArray(self.data_width),
            gate=RowGate(),
            sender=Sender(*port, width, self.max_beats, self.depth),
            halo=HaloWriter(*port, width, self.max_beats),
            limits=HaloLimits(*port, most, self.max_beats),
            csr=CsrReader(*port, self.depth, _LIST_DEPTH),
            source_words=WordSerialiser(self.data_width),
            gather=GatherUnit(*port, self.max_beats, self.depth),
            adder=LocalAdder(self.data_width, width, self.max_beats),
            reducer=Reducer(*port, width, self.max_beats),
            guard=PacketGuard(width),
            lists=SharedReader(4 if divided else 3, *port, _LIST_DEPTH),
            others=RangeReader(*port, _OTHERS_DEPTH),
            out_tiles=RangeReader(*port, _TILES_DEPTH),
            shared=SharedLines(config, *port, self.depth) if divided else None,
        )
        for unit in fields(units):
            if getattr(units, unit.name) is not None:
                m.submodules[unit.name] = getattr(units, unit.name)
        return units

    def _connect_memory(self, m: Module, units: _Units) -> None:
        """Give every reader its client's end of the arbiter."""
        readers = (units.lists, units.others, units.out_tiles, units.sender, units.gather)
        ends = [(unit.request, unit.beat) for unit in readers]
        ends += [(units.csr.requests[n], units.csr.beats[n]) for n in range(2)]
        for n, (request, beat) in enumerate(ends):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)

    def _connect_commands(self, m: Module, units: _Units) -> None:
        """Let the control carry commands out."""
        control = units.control
        connect(m, flipped(self.command), control.command)
        connect(m, control.executed, flipped(self.executed))
        m.d.comb += [
            control.base.eq(self.base),
            self.exchanging.eq(control.exchanging),
            units.tokens.drain.eq(control.drain),
            units.tokens.forget.eq(control.forget),
            units.tokens.arrive.eq(control.arrive),
            units.tokens.passed.eq(control.pass_),
        ]

    def _connect_packets(self, m: Module, units: _Units) -> None:
        """Lead packets from the ring to those that take them, and from those that send them to the ring."""
        station, router, packets = units.station, units.router, units.packets
        connect(m, flipped(self.s_axis), station.s_axis)
        connect(m, station.m_axis, flipped(self.m_axis))
        connect(m, station.o, units.received.i)
        connect(m, units.received.o, units.unpacker.i)
        connect(m, units.unpacker.o, router.i)
        connect(m, router.features, units.halo.i)
        connect(m, router.partials, units.reducer.i)
        connect(m, router.control, units.tokens.i)
        for n, source in enumerate((units.tokens.o, units.sender.o, units.guard.o)):
            connect(m, source, packets.i[n])
        connect(m, packets.o, station.i)
        connect(m, units.control.parts, units.parts.i)
        connect(m, units.remote_array.o, units.gate.i)
        connect(m, units.gate.o, units.sender.i)
        for unit in (units.sender, units.halo, units.reducer):
            m.d.comb += unit.rows.eq(units.control.rows)

    def _connect_sums(self, m: Module, units: _Units) -> None:
        """Add up the rows of this chiplet, and what comes round the ring to them."""
        csr, source_words = units.csr, units.source_words
        connect(m, units.control.shares, csr.i)
        connect(m, units.gather.o, units.adder.i)
        connect(m, units.adder.o, units.reducer.share)
        connect(m, units.reducer.o, units.guard.i)
        m.d.comb += [
            source_words.i.valid.eq(csr.o.valid),
            csr.o.ready.eq(source_words.i.ready),
            source_words.i.payload.data.eq(csr.o.payload.data),
            source_words.i.payload.mask.eq(csr.o.payload.mask),
            source_words.i.payload.last.eq(csr.o.payload.last),
            units.gather.i.valid.eq(source_words.o.valid),
            source_words.o.ready.eq(units.gather.i.ready),
            *(units.gather.i.payload[name].eq(source_words.o.payload[name]) for name in ("data", "last", "empty")),
        ]

    def _share_by_phase(self, m: Module, units: _Units) -> None:
        """Give the reader of lists and the way to memory to the units that need them in a phase."""
        lists, phase = units.lists, units.control.phase
        for client, request, unit in (
            (_BOUNDARIES, units.boundaries.request, units.boundaries.i),
            (_HUBS, units.control.hubs, units.reducer.hubs),
        ):
            connect(m, request, lists.asks[client])
            connect(m, lists.o[client], unit)
        for request, reader, user in (
            (units.needed.request, units.others, units.needed.i),
            (units.parts.out_tiles, units.out_tiles, units.remote_array.i),
        ):
            connect(m, request, reader.i)
            connect(m, reader.o, user)
        connect(m, units.needed.o, units.list_writer.i)
        self._read_needed(m, units)
        m.d.comb += lists.select.eq(Mux(phase == Phase.LOAD, _BOUNDARIES, Mux(phase == Phase.REDUCE, _HUBS, _NEEDED)))
        if units.shared is not None:
            with m.If(units.control.tabling):
                m.d.comb += lists.select.eq(_LINES)
        with m.If(phase == Phase.REDUCE):
            self._writes(m, units.reducer.write)
        with m.Elif(phase == Phase.BUILD):
            self._writes(m, units.list_writer.o)
        with m.Else():
            self._writes(m, units.halo.o)

    def _read_needed(self, m: Module, units: _Units) -> None:
        """Have the needed list read from where it is: kept by its unit, or in memory."""
        needed, lists, asks, words = units.needed, units.lists, units.filter.request, units.filter.i
        memory, found = lists.asks[_NEEDED], lists.o[_NEEDED]
        m.d.comb += [
            units.filter.address.eq(Mux(needed.kept, 0, units.control.exchange.needed)),
            needed.asks.payload.eq(asks.payload),
            memory.payload.eq(asks.payload),
            needed.asks.valid.eq(asks.valid & needed.kept),
            memory.valid.eq(asks.valid & ~needed.kept),
            asks.ready.eq(Mux(needed.kept, needed.asks.ready, memory.ready)),
            words.payload.eq(Mux(needed.kept, needed.words.payload, found.payload)),
            words.valid.eq(Mux(needed.kept, needed.words.valid, found.valid)),
            needed.words.ready.eq(words.ready & needed.kept),
            found.ready.eq(words.ready & ~needed.kept),
        ]

    def _writes(self, m: Module, source: stream.Interface) -> None:
        """Let `source` write."""
        m.d.comb += [
            self.write.valid.eq(source.valid),
            self.write.payload.eq(source.payload),
            source.ready.eq(self.write.ready),
        ]

    def _connect_errors(self, m: Module, units: _Units) -> None:
        """Lead reports to the control; with an error, stop what takes part in the ring and tell the other chiplets."""
        control, station, tokens = units.control, units.station, units.tokens
        # From the most telling to the least.
        reports = [flipped(error) for error in self.errors]
        failing = (units.remote_array, units.needed, units.csr, units.gather, units.halo, units.reducer, units.decision)
        reports += [unit.error for unit in (*failing, *((units.shared,) if units.shared else ()))]
        *inputs, peer, lost = control.errors
        for report, port in zip(reports, inputs, strict=True):
            connect(m, report, port)
        m.submodules.halt = halt = Halt()
        connect(m, flipped(self.stop), halt.halt)
        before, after = Signal(POSITION_BITS), Signal(POSITION_BITS)
        m.d.comb += [
            before.eq(Mux(self.position == 0, self.chiplets, self.position) - 1),
            after.eq(Mux(self.position == self.chiplets - 1, 0, self.position + 1)),
            peer.valid.eq(tokens.failed),
            peer.payload.code.eq(Error.PEER),
            peer.payload.info.eq(tokens.peer),
            lost.valid.eq(station.lost.any()),
            lost.payload.code.eq(Error.LINK),
            lost.payload.info.eq(Mux(station.lost[0], before, after)),
            halt.failed.eq(control.failed),
            tokens.stop.eq(halt.tell.valid),
            tokens.code.eq(halt.tell.payload.code),
            # A list concerns this chiplet alone; the others may still be in reset.
            station.works.eq(self.command.valid & self.command.ready & (self.command.payload[:8] != Opcode.LIST)),
            *(unit.stopped.eq(halt.stopped) for unit in (units.decision, units.router, units.guard)),
            # Only with the token that says why; an error of a list is reported by the command after it.
            station.stop.eq(halt.halted),
        ]
        if units.shared is not None:
            # A run on a shared graph that fails concerns no other chiplet, and this one still serves them.
            with m.If(control.shared):
                m.d.comb += halt.halt.valid.eq(0)
            self._break(m, units, units.shared)

    def _decide(self, m: Module, units: _Units) -> None:
        """Decide about the packet at the station's head: take it, forward it, or both."""
        station, decision, filter_, control = units.station, units.decision, units.filter, units.control
        header, following = (
            data.View(struct(PACKET_HEADER), flit[: PACKET_HEADER.bits]) for flit in (station.header, station.following)
        )
        m.d.comb += [
            decision.header.eq(header),
            decision.begins.eq(station.begins),
            decision.elements.eq(control.rows.elements),
            # What comes behind the last token is a row of the next exchange.
            decision.receiving.eq((control.phase == Phase.FLOW) & ~units.tokens.drained),
            decision.reducing.eq(control.phase == Phase.REDUCE),
            decision.found.eq(filter_.decided),
            decision.hit.eq(filter_.hit),
            decision.late.eq(filter_.late),
            decision.outside.eq(filter_.outside),
            filter_.owner.eq(header.source),
            filter_.vid.eq(header.vid),
            filter_.next_owner.eq(following.source),
            filter_.next_vid.eq(following.vid),
            filter_.advances.eq(station.advances),
            filter_.take.eq(decision.take),
            station.decided.eq(decision.decided),
            station.verdict.eq(decision.verdict),
        ]

    def _report_progress(self, m: Module, units: _Units) -> None:
        """Report to the control what has been done of a phase."""
        control, filter_, tokens = units.control, units.filter, units.tokens
        m.d.comb += [
            control.loaded.eq(units.boundaries.done),
            control.listed.eq(units.list_writer.done & ~self.writing),
            units.parts.sent.eq(units.remote_array.done),
            control.sent.eq(units.parts.idle & units.sender.idle),
            # The filter has read its list to the end by then, or a window of it waits for a row that is missing.
            control.drained.eq(
                tokens.drained & units.halo.idle & ~self.writing & (control.missing | filter_.exhausted.all())
            ),
            control.missing.eq(filter_.waiting.any()),
            control.lowest.eq(filter_.lowest),
            control.reduced.eq(units.reducer.done & ~self.writing & ~units.csr.busy),
            control.arrived.eq(tokens.arrived),
        ]

    def _spread_position(self, m: Module, units: _Units) -> None:
        """Tell units the place on the ring and the boundaries of chiplets."""
        remote, reducer = units.remote_array, units.reducer
        for unit in (units.decision, remote, units.sender, units.tokens, reducer, units.needed):
            m.d.comb += unit.position.eq(self.position)
        for unit in (units.control, units.decision, units.boundaries, remote, units.tokens, reducer):
            m.d.comb += unit.chiplets.eq(self.chiplets)
        for unit in (units.needed, units.filter):
            m.d.comb += unit.boundaries.eq(units.boundaries.boundaries)

    def _follow_rows(self, m: Module, units: _Units) -> None:
        """Follow own rows and those that come until they can be read."""
        limits, control, filter_, gate = units.limits, units.control, units.filter, units.gate
        m.d.comb += [
            gate.made.eq(self.made),
            gate.follows.eq(control.follows),
            gate.failed.eq(control.failed),
            control.expects.eq(gate.expects),
            control.reports.eq(self.made.known),
            self.sending.eq(self.exchanging & ~gate.expects),
            limits.start.eq(control.flow),
            limits.flows.eq(control.phase == Phase.FLOW),
            limits.rows.eq(control.rows),
            limits.boundaries.eq(units.boundaries.boundaries),
            limits.count.eq(self.chiplets),
            limits.taken.eq(filter_.take & filter_.hit),
            limits.least.eq(filter_.least),
            limits.owner.eq(filter_.owner),
            limits.vid.eq(filter_.vid),
            limits.written.eq(units.halo.written),
            limits.answered.eq(self.answered),
            self.mark.eq(limits.mark),
            self.halo.going.eq(self.exchanging),
            self.halo.own.eq(self.position),
            self.halo.known.eq(limits.known),
            self.halo.starts.eq(limits.starts),
            self.halo.limits.eq(limits.limits),
            self.halo.come.eq(limits.come),
        ]

    def _share(self, m: Module, units: _Units, shared: SharedLines) -> None:
        """Lead lines of a divided graph from the ring and the own memory to those that read it, and to the ring."""
        control, given = units.control, shared.given
        connect(m, units.router.lines, shared.i)
        for n, source in enumerate((shared.requests, shared.replies)):
            connect(m, source, units.packets.i[3 + n])
        connect(m, shared.table, units.lists.asks[_LINES])
        connect(m, units.lists.o[_LINES], shared.words)
        connect(m, shared.lines, flipped(self.shared_lines))
        for inner, outer in zip(shared.readers, self.readers, strict=True):
            connect(m, inner, flipped(outer))
        m.d.comb += [
            shared.position.eq(self.position),
            shared.chiplets.eq(self.chiplets),
            shared.start.eq(control.share),
            control.tabled.eq(shared.done),
            given.table.eq(control.words(Opcode.SHARE, "table")),
            given.graph.eq(control.line(Opcode.SHARE, "graph")),
            *(
                given.own[n].eq(control.line(Opcode.SHARE, name))
                for n, name in enumerate(("offsets", "edges", "attributes"))
            ),
        ]

    def _break(self, m: Module, units: _Units, shared: SharedLines) -> None:
        """Give up what is read over a ring that has lost a chiplet, and tell the others, whether a run is on or not."""
        tokens, lost, told = units.tokens, units.station.lost.any(), Signal()
        flit = units.router.control
        header = data.View(struct(PACKET_HEADER), flit.payload.data[: PACKET_HEADER.bits])
        token = data.View(struct(PACKET_CONTROL), header.vid)
        with m.If(lost | (flit.valid & (token.token == Token.ERROR) & (token.error == Error.LINK))):
            m.d.sync += shared.cut.eq(1)
        m.d.sync += told.eq(told | (lost & units.control.shared))
        with m.If(lost):
            m.d.comb += tokens.code.eq(Error.LINK)
            with m.If(units.control.shared & ~told):
                m.d.comb += tokens.stop.eq(1)

    def _start_units(self, m: Module, units: _Units) -> None:
        """Start units in their phases, with the command's operands."""
        control, rows = units.control, units.control.rows
        reduce, list_, parts = control.view(Opcode.REDUCE), control.list_settings, units.parts
        needed, list_writer, filter_, gather = units.needed, units.list_writer, units.filter, units.gather
        first_row = rows.base + reduce.first_source * rows.stride
        m.d.comb += [
            units.boundaries.start.eq(control.load),
            units.boundaries.address.eq(list_.boundaries),
            needed.start.eq(control.build),
            needed.others.eq(list_.others),
            list_writer.start.eq(control.build),
            list_writer.address.eq(list_.needed),
            list_writer.ended.eq(needed.done),
            filter_.start.eq(control.flow),
            filter_.in_order.eq(control.exchange.in_order),
            parts.go.eq((control.phase == Phase.FLOW) & ~control.failed),
            units.remote_array.start.eq(parts.start),
            units.remote_array.first_vertex.eq(parts.part.first_vertex),
            units.sender.backward.eq(control.exchange.backward),
            gather.start.eq(control.reduce),
            gather.settings.first_own.eq(0),
            gather.settings.own.eq(first_row),
            gather.settings.first_source.eq(reduce.first_source),
            gather.settings.sources.eq(reduce.sources),
            gather.settings.combined.eq(first_row),
            gather.settings.stride.eq(rows.stride),
            gather.settings.last_beat.eq(rows.last_beat),
            units.adder.last_beat.eq(rows.last_beat),
            units.adder.last_flit.eq(control.last_sum_flit),
            units.reducer.start.eq(control.reduce),
            units.reducer.first_partial.eq(reduce.first_partial),
        ]
