"""Ring unit: all of a chiplet that has to do with the ring, and the commands that use it."""

from typing import Any

from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from golden.contracts import (
    COMMAND_BYTES,
    COMMANDS,
    LINE_BYTES,
    PACKET_HEADER,
    ROW_BYTES,
    VALUE_BITS,
    Error,
    Opcode,
    PacketKind,
)
from hw.chiplet.gather import GatherUnit
from hw.contracts import struct
from hw.graph.csr_reader import CsrReader, ErrorReport
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest, WriteRequest, line_address_width
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.ring.filter_array import FilterArray
from hw.ring.formats import POSITION_BITS, LinkSignature, RingConfig
from hw.ring.halo_writer import HaloWriter
from hw.ring.needed_list import NeededList
from hw.ring.packet_queue import PacketQueue
from hw.ring.reducer import Reducer
from hw.ring.remote_array import RemoteArray
from hw.ring.sender import RowSettings, Sender
from hw.ring.share_adder import ShareAdder
from hw.ring.station import Station
from hw.ring.tokens import Tokens
from hw.ring.word_writer import WordWriter

__all__ = ["RING_OPCODES", "RingUnit"]

#: Commands that the ring unit carries out.
RING_OPCODES = (Opcode.SCATTER, Opcode.REDUCE, Opcode.BARRIER)
_WORDS_OF_LINE = exact_log2(LINE_BYTES // WORD_BYTES)
_ELEMENTS_OF_GRANULE = exact_log2(ROW_BYTES * 8 // VALUE_BITS)
#: Beats that a reader of lists may have asked for.
_LIST_DEPTH = 64


class _Phase(enum.Enum, shape=3):  # type: ignore[call-arg]
    """What the readers and the way to memory are used for."""

    NONE = 0
    LOAD = 1
    BUILD = 2
    FLOW = 3
    REDUCE = 4


def connect_stream(m: Module, source: stream.Interface, target: stream.Interface) -> None:
    """Connect two streams under a condition."""
    m.d.comb += [
        target.valid.eq(source.valid),
        target.payload.eq(source.payload),
        source.ready.eq(target.ready),
    ]


class RingUnit(wiring.Component):
    """Carries out SCATTER, REDUCE and BARRIER; between commands it still passes packets on.

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
        self._write = WriteRequest(address_width, data_width)
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
                "write": Out(stream.Signature(self._write)),
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
        """Connect the units; one command at a time sets them to work."""
        m = Module()
        config, link = self.config, self.config.link_width
        port = (self.address_width, self.data_width)
        most = config.chiplets
        m.submodules.station = station = Station(link, config.slots, config.max_flits)
        m.submodules.packets = packets = PacketQueue(link, 3, config.max_flits)
        m.submodules.tokens = tokens = Tokens(link, most)
        m.submodules.remote_array = remote = RemoteArray()
        m.submodules.needed = needed = NeededList(self.address_width, most, config.bitmap)
        m.submodules.filter = filter_ = FilterArray(self.address_width, most, config.window)
        m.submodules.sender = sender = Sender(*port, link, self.max_beats, self.depth)
        m.submodules.halo = halo = HaloWriter(*port, link, self.max_beats)
        m.submodules.list_writer = list_writer = WordWriter(*port)
        m.submodules.csr = csr = CsrReader(*port, self.depth, _LIST_DEPTH)
        m.submodules.gather = gather = GatherUnit(*port, self.max_beats, self.depth)
        m.submodules.adder = adder = ShareAdder(self.data_width, link, self.max_beats)
        m.submodules.reducer = reducer = Reducer(*port, link, self.max_beats)
        # Lists: boundaries, then sources, then needed VIDs; offsets or hubs.
        readers = [RangeReader(*port, _LIST_DEPTH) for _ in range(2)]
        words = [WordSerialiser(self.data_width) for _ in range(2)]
        m.submodules.source_words = source_words = WordSerialiser(self.data_width)
        for n, (reader, serialiser) in enumerate(zip(readers, words, strict=True)):
            m.submodules[f"reader_{n}"], m.submodules[f"words_{n}"] = reader, serialiser
            connect(m, reader.o, serialiser.i)
        clients = [
            *((reader.request, reader.beat) for reader in readers),
            (csr.requests[0], csr.beats[0]),
            (csr.requests[1], csr.beats[1]),
            (gather.request, gather.beat),
            (sender.request, sender.beat),
        ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        stopped = Signal()
        connect(m, flipped(self.s_axis), station.s_axis)
        connect(m, station.m_axis, flipped(self.m_axis))
        connect(m, tokens.o, packets.i[0])
        connect(m, sender.o, packets.i[1])
        # A partial sum of which the rest does not come is ended, because it would hold up the tokens.
        unfinished = Signal()
        sums = packets.i[2]
        m.d.comb += [
            sums.valid.eq(Mux(stopped, unfinished, reducer.o.valid)),
            sums.payload.data.eq(reducer.o.payload.data),
            sums.payload.last.eq(reducer.o.payload.last | stopped),
            reducer.o.ready.eq(sums.ready & ~stopped),
        ]
        with m.If(sums.valid & sums.ready):
            m.d.sync += unfinished.eq(~sums.payload.last)
        connect(m, packets.o, station.i)
        connect(m, remote.o, sender.i)
        connect(m, needed.o, list_writer.i)
        connect(m, source_words.o, gather.i)
        connect(m, gather.o, adder.i)
        connect(m, adder.o, reducer.share)
        m.d.comb += [
            source_words.i.valid.eq(csr.o.valid),
            csr.o.ready.eq(source_words.i.ready),
            source_words.i.payload.data.eq(csr.o.payload.data),
            source_words.i.payload.mask.eq(csr.o.payload.mask),
            source_words.i.payload.last.eq(csr.o.payload.last),
        ]

        # The command, and what it fixes.
        bits = Signal(8 * COMMAND_BYTES)
        head = data.View(struct(COMMANDS[Opcode.NOP]), bits)
        scatter = data.View(struct(COMMANDS[Opcode.SCATTER]), bits)
        reduce = data.View(struct(COMMANDS[Opcode.REDUCE]), bits)
        boundaries = Signal(data.ArrayLayout(32, most + 1))
        rows = Signal(RowSettings(*port, self.max_beats))
        last_sum_flit = Signal(12)
        f_out = Signal(16)
        phase = Signal(_Phase)
        receiving, reducing = phase == _Phase.FLOW, phase == _Phase.REDUCE
        building = phase == _Phase.BUILD
        beats_of_line = exact_log2(8 * LINE_BYTES // self.data_width)
        granules = ((f_out - 1) >> _ELEMENTS_OF_GRANULE) + 1

        def in_words(line: object) -> object:
            return (self.base + line) << _WORDS_OF_LINE

        def in_beats(line: object) -> object:
            return (self.base + line) << beats_of_line

        before, after = Signal(POSITION_BITS), Signal(POSITION_BITS)
        m.d.comb += [
            before.eq(Mux(self.position == 0, self.chiplets, self.position) - 1),
            after.eq(Mux(self.position == self.chiplets - 1, 0, self.position + 1)),
        ]

        # Errors: the first one counts, and stops everything that is not passing on.
        report = Signal(ErrorReport)
        failed, told = Signal(), Signal()
        header = data.View(struct(PACKET_HEADER), station.header[: PACKET_HEADER.bits])
        verdict_error = Signal(ErrorReport)
        errors = [
            *((error.valid, error.payload) for error in self.errors),
            *((unit.error.valid, unit.error.payload) for unit in (remote, needed, csr, gather, halo, reducer)),
            (station.begins & (verdict_error.code != 0) & ~stopped, verdict_error),
        ]
        m.d.comb += [failed.eq(report.code != Error.NONE), self.executed.payload.eq(report)]
        m.d.sync += [stopped.eq(stopped | failed | self.stop.valid), told.eq(told | self.stop.valid)]
        m.d.comb += [station.begin.eq(self.command.valid & self.command.ready), station.stop.eq(stopped)]
        with m.If(station.lost.any() & ~failed):
            m.d.sync += [
                report.code.eq(Error.LINK),
                report.info.eq(Mux(station.lost[0], before, after)),
            ]
        with m.If(tokens.failed & ~failed):
            m.d.sync += [
                report.code.eq(Error.PEER),
                report.info.eq(tokens.peer),
            ]
        for valid, payload in reversed(errors):
            with m.If(valid & ~failed):
                m.d.sync += report.eq(payload)
        m.d.comb += [
            # An error that another chiplet began has been told already.
            tokens.stop.eq(self.stop.valid & ~told & (self.stop.payload.code != Error.PEER)),
            tokens.code.eq(self.stop.payload.code),
        ]

        self._judge(m, station, filter_, boundaries, rows, header, verdict_error, receiving, reducing, stopped)
        self._deliver(m, station, halo, reducer, tokens, stopped)

        # Settings of the units.
        for unit in (remote, sender, tokens, reducer):
            m.d.comb += unit.position.eq(self.position)
        for unit in (remote, tokens, reducer):
            m.d.comb += unit.chiplets.eq(self.chiplets)
        for unit in (sender, halo, reducer):
            m.d.comb += unit.rows.eq(rows)
        m.d.comb += [
            remote.first_vertex.eq(scatter.first_vertex),
            needed.position.eq(self.position),
            needed.boundaries.eq(boundaries),
            needed.edges.address.eq(in_words(scatter.edges)),
            needed.edges.words.eq(scatter.edge_count),
            needed.partials.eq(scatter.partials),
            list_writer.address.eq(in_beats(scatter.needed)),
            list_writer.end.eq(needed.done),
            filter_.address.eq(in_words(scatter.needed)),
            filter_.counts.eq(needed.counts),
            filter_.in_order.eq(scatter.in_order),
            sender.backward.eq(scatter.backward),
            reducer.first_partial.eq(reduce.first_partial),
            gather.settings.first_vertex.eq(reduce.first_source),
            gather.settings.first_source.eq(reduce.first_source),
            gather.settings.sources.eq(reduce.sources),
            gather.settings.combined.eq(rows.base + reduce.first_source * rows.stride),
            gather.settings.stride.eq(rows.stride),
            gather.settings.last_beat.eq(rows.last_beat),
            adder.last_beat.eq(rows.last_beat),
            adder.last_flit.eq(last_sum_flit),
            csr.i.payload.offsets.eq(in_words(reduce.offsets)),
            csr.i.payload.array.eq(in_words(reduce.edges)),
            csr.i.payload.words.eq(reduce.edge_count),
            csr.i.payload.rows.eq(reduce.hub_count),
            csr.i.payload.tiles.eq(1),
        ]

        # Readers and the way to memory belong to what the phase needs.
        lists = readers[0].i
        loaded = Signal(range(most + 2))
        loads = Signal()
        with m.Switch(phase):
            with m.Case(_Phase.LOAD):
                m.d.comb += [
                    lists.payload.address.eq(in_words(scatter.boundaries)),
                    lists.payload.words.eq(self.chiplets + 1),
                    lists.valid.eq(loads),
                    words[0].o.ready.eq(1),
                ]
                with m.If(words[0].o.valid):
                    m.d.sync += loaded.eq(loaded + 1)
                    # Entries behind the table hold its last one, the number of vertices.
                    for n in range(most + 1):
                        with m.If(loaded <= n):
                            m.d.sync += boundaries[n].eq(words[0].o.payload.data)
            with m.Case(_Phase.BUILD):
                connect_stream(m, needed.request, lists)
                connect_stream(m, words[0].o, needed.i)
            with m.Default():
                connect_stream(m, filter_.request, lists)
                connect_stream(m, words[0].o, filter_.i)
        with m.If(reducing):
            connect_stream(m, words[1].o, reducer.hubs)
            connect_stream(m, reducer.write, self.write)
        with m.Elif(building):
            connect_stream(m, list_writer.o, self.write)
        with m.Else():
            connect_stream(m, words[1].o, remote.i)
            connect_stream(m, halo.o, self.write)

        asked, row_asked = Signal(), Signal()
        table = readers[1].i
        m.d.comb += [
            table.payload.address.eq(in_words(Mux(reducing, reduce.hub_homes, scatter.offsets))),
            table.payload.words.eq(Mux(reducing, reduce.hub_count, scatter.vertices * self.chiplets + 1)),
        ]

        def refuse(code: Error, info: object) -> None:
            m.d.sync += [report.code.eq(code), report.info.eq(info)]
            m.next = "ANSWER"

        def unless_failed() -> None:
            with m.If(failed):
                m.next = "ANSWER"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [bits.eq(self.command.payload), asked.eq(0), row_asked.eq(0), loaded.eq(0)]
                with m.If(self.command.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
                with m.Switch(head.opcode):
                    with m.Case(Opcode.SCATTER):
                        m.d.sync += f_out.eq(scatter.f_out)
                        m.next = "CHECK"
                    with m.Case(Opcode.REDUCE):
                        m.d.sync += f_out.eq(reduce.f_out)
                        m.next = "CHECK"
                    with m.Case(Opcode.BARRIER):
                        m.d.comb += tokens.arrive.eq(1)
                        m.next = "BARRIER"
                    with m.Default():
                        refuse(Error.BAD_OPCODE, head.opcode)
                unless_failed()
            with m.State("CHECK"):
                m.d.sync += [
                    rows.stride.eq(granules * (8 * ROW_BYTES // self.data_width)),
                    rows.last_beat.eq((f_out - 1) >> exact_log2(self.data_width // VALUE_BITS)),
                    rows.last_flit.eq((f_out - 1) >> exact_log2(config.values)),
                    rows.elements.eq(f_out),
                    last_sum_flit.eq((f_out - 1) >> exact_log2(config.sums)),
                    rows.base.eq(in_beats(Mux(head.opcode == Opcode.REDUCE, reduce.combined, scatter.combined))),
                ]
                with m.If((f_out == 0) | (f_out > config.max_out)):
                    refuse(Error.BAD_OPERAND, f_out)
                with m.Elif(head.opcode == Opcode.REDUCE):
                    m.next = "REDUCE"
                    with m.If(reduce.hub_count == 0):
                        m.next = "ANSWER"
                with m.Elif(scatter.tiles != self.chiplets):
                    refuse(Error.BAD_OPERAND, scatter.tiles)
                with m.Else():
                    m.d.sync += phase.eq(_Phase.LOAD)
                    m.next = "BOUNDARIES"

            # SCATTER: boundary table, list of what is needed, then rows both ways, then everybody has drained.
            with m.State("BOUNDARIES"):
                m.d.comb += loads.eq(~asked)
                m.d.sync += asked.eq(asked | lists.ready)
                with m.If(loaded == self.chiplets + 1):
                    m.d.sync += asked.eq(0)
                    m.next = "FLOW_START"
                    with m.If(scatter.build):
                        m.d.comb += [needed.start.eq(1), list_writer.start.eq(1)]
                        m.d.sync += phase.eq(_Phase.BUILD)
                        m.next = "BUILD"
                unless_failed()
            with m.State("BUILD"):
                with m.If(list_writer.done & ~self.writing):
                    m.next = "FLOW_START"
                unless_failed()
            with m.State("FLOW_START"):
                m.d.comb += [filter_.start.eq(1), remote.start.eq(1)]
                m.d.sync += phase.eq(_Phase.FLOW)
                m.next = "FLOW"
            with m.State("FLOW"):
                m.d.comb += table.valid.eq(~asked)
                m.d.sync += asked.eq(asked | table.ready)
                with m.If(remote.done & sender.idle):
                    m.d.comb += tokens.drain.eq(1)
                    m.next = "DRAIN"
                unless_failed()
            with m.State("DRAIN"):
                with m.If(tokens.drained & halo.idle & ~self.writing):
                    m.d.comb += tokens.forget.eq(1)
                    m.d.sync += phase.eq(_Phase.NONE)
                    m.next = "ANSWER"
                    with m.If(filter_.waiting.any() | ~filter_.exhausted.all()):
                        refuse(Error.MISSING, filter_.lowest)
                unless_failed()

            # REDUCE.
            with m.State("REDUCE"):
                m.d.comb += [reducer.start.eq(1), adder.start.eq(1), gather.start.eq(1)]
                m.d.sync += phase.eq(_Phase.REDUCE)
                m.next = "HUBS"
            with m.State("HUBS"):
                m.d.comb += [table.valid.eq(~asked), csr.i.valid.eq(~row_asked)]
                m.d.sync += [asked.eq(asked | table.ready), row_asked.eq(row_asked | csr.i.ready)]
                with m.If(reducer.done & ~self.writing & ~csr.busy):
                    m.d.sync += phase.eq(_Phase.NONE)
                    m.next = "ANSWER"
                unless_failed()

            with m.State("BARRIER"):
                with m.If(tokens.arrived):
                    m.d.comb += tokens.passed.eq(1)
                    m.next = "ANSWER"
                unless_failed()
            with m.State("ANSWER"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.next = "IDLE"
        return m

    def _judge(
        self,
        m: Module,
        station: Station,
        filter_: FilterArray,
        boundaries: Any,
        rows: Any,
        header: Any,
        error: Any,
        receiving: Any,
        reducing: Any,
        stopped: Any,
    ) -> None:
        """Decide what happens to the packet at the head of the station."""
        owner = Signal(range(self.config.chiplets))
        starts = Array(boundaries[n] for n in range(self.config.chiplets))
        ends = Array(boundaries[n + 1] for n in range(self.config.chiplets))
        here = (header.destination == self.position) | (header.destination >= self.chiplets)
        stray = (header.source >= self.chiplets) | (header.source == self.position)
        outside = (header.vid < starts[owner]) | (header.vid >= ends[owner])
        misfit = header.elements != rows.elements
        bad = Signal()
        m.d.comb += [
            owner.eq(header.source),
            filter_.owner.eq(owner),
            filter_.vid.eq(header.vid),
            bad.eq(stray | (header.destination >= self.chiplets)),
            error.info.eq(header.vid),
            # What has come full circle, or goes nowhere, is taken off the ring.
            station.verdict.forward.eq(~here & ~stray),
        ]
        with m.If(bad):
            m.d.comb += error.code.eq(Error.BAD_PACKET)
        with m.Switch(header.kind):
            with m.Case(PacketKind.FEATURE):
                m.d.comb += station.decided.eq(bad | stopped)
                with m.If(receiving & ~bad & ~stopped):
                    with m.If(misfit):
                        m.d.comb += [station.decided.eq(1), error.code.eq(Error.BAD_PACKET)]
                    with m.Elif(outside):
                        m.d.comb += [station.decided.eq(1), error.code.eq(Error.VID_RANGE)]
                    with m.Else():
                        m.d.comb += [
                            station.decided.eq(filter_.decided),
                            station.verdict.take.eq(filter_.hit),
                            filter_.take.eq(station.begins),
                        ]
                        with m.If(filter_.late):
                            m.d.comb += error.code.eq(Error.BAD_PACKET)
            with m.Case(PacketKind.PARTIAL):
                # Goes on as a packet of its own, with this chiplet's share.
                m.d.comb += [
                    station.decided.eq(bad | stopped | reducing),
                    station.verdict.forward.eq(0),
                    station.verdict.take.eq(reducing & ~bad & ~stopped & ~misfit),
                ]
                with m.If(reducing & misfit):
                    m.d.comb += error.code.eq(Error.BAD_PACKET)
            with m.Case(PacketKind.CONTROL):
                m.d.comb += [station.decided.eq(1), station.verdict.take.eq(~bad)]
                with m.If(header.elements != 0):
                    m.d.comb += [station.verdict.take.eq(0), error.code.eq(Error.BAD_PACKET)]
            with m.Default():
                m.d.comb += [station.decided.eq(1), error.code.eq(Error.BAD_PACKET)]

    def _deliver(
        self, m: Module, station: Station, halo: HaloWriter, reducer: Reducer, tokens: Tokens, stopped: Any
    ) -> None:
        """Hand what was taken to the unit that its header names."""
        header = data.View(struct(PACKET_HEADER), station.o.payload.data[: PACKET_HEADER.bits])
        inside = Signal()
        kind, held = Signal(PacketKind), Signal(PacketKind)
        m.d.comb += kind.eq(Mux(inside, held, header.kind))
        with m.If(station.o.valid & station.o.ready):
            m.d.sync += [inside.eq(~station.o.payload.last), held.eq(kind)]
        for which, target in (
            (PacketKind.FEATURE, halo.i),
            (PacketKind.PARTIAL, reducer.i),
            (PacketKind.CONTROL, tokens.i),
        ):
            m.d.comb += [target.payload.eq(station.o.payload), target.valid.eq(station.o.valid & (kind == which))]
            with m.If(kind == which):
                m.d.comb += station.o.ready.eq(target.ready)
        # Partial sums that nobody waits for any more.
        with m.If(stopped & (kind == PacketKind.PARTIAL)):
            m.d.comb += station.o.ready.eq(1)
