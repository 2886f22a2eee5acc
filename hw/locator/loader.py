"""Loader: brings offsets, degrees and edges onto the chip and checks them (I10)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import COMMANDS, LINE_BYTES, Error, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.locator.adjacency_store import LineWrite
from hw.locator.config import LocatorConfig
from hw.locator.state_store import Entry
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser

__all__ = ["Loader"]

_LINE_WORDS = LINE_BYTES // WORD_BYTES


class Loader(wiring.Component):
    """Reads the arrays in parallel, as they are; the host prepares nothing.

    Degrees may be left out of the memory where they are the differences of the offsets, as on a single chiplet.

    Bad data is reported, and all arrays are still read to their ends.

    Parameters
    ----------
    config
        Sizes.
    depth
        Beats requested or waiting, for each array; see `hw.memory.fetcher.Fetcher`.

    Attributes
    ----------
    start, command
        Read the arrays of the command, which is constant until ``busy`` is low.
    busy
        The arrays are being read.
    requests, beats
        Clients of the read arbiter: offsets, degrees, edges.
    entry
        Rows of vertices, to the state store.
    write
        Lines, to the adjacency store.
    error
        ``OFFSET_ORDER`` and ``EDGE_RANGE`` (info: row), ``DEGREE`` and ``VID_RANGE`` (info: VID).
    """

    def __init__(self, config: LocatorConfig, depth: int = 64) -> None:
        self.config, self.depth = config, depth
        widths = (config.address_width, config.data_width)
        super().__init__(
            {
                "start": In(1),
                "command": In(struct(COMMANDS[Opcode.LOCATE])),
                "busy": Out(1),
                "requests": Out(stream.Signature(ReadRequest(*widths))).array(3),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(3),
                "entry": Out(stream.Signature(Entry(config))),
                "write": Out(stream.Signature(LineWrite(config), always_ready=True)),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Three readers; rows where offsets and degrees meet."""
        m = Module()
        config, command = self.config, self.command
        readers = []
        for client, name in enumerate(("offsets", "degrees", "edges")):
            reader = RangeReader(config.address_width, config.data_width, self.depth)
            m.submodules[name] = reader
            wiring.connect(m, reader.request, wiring.flipped(self.requests[client]))
            wiring.connect(m, wiring.flipped(self.beats[client]), reader.beat)
            asked = Signal(name=f"{name}_asked", init=1)
            m.d.comb += reader.i.valid.eq(~asked)
            with m.If(reader.i.ready):
                m.d.sync += asked.eq(1)
            with m.If(self.start):
                m.d.sync += asked.eq(0)
            readers.append(reader)
        offsets, degrees, edges = readers
        m.submodules.offset_words = offset_words = WordSerialiser(config.data_width)
        m.submodules.degree_words = degree_words = WordSerialiser(config.data_width)
        wiring.connect(m, offsets.o, offset_words.i)
        wiring.connect(m, degrees.o, degree_words.i)
        m.d.comb += [
            offsets.i.payload.address.eq(command.offsets * _LINE_WORDS),
            offsets.i.payload.words.eq(command.vertices * command.tiles + 1),
            degrees.i.payload.address.eq(command.degrees * _LINE_WORDS),
            degrees.i.payload.words.eq(Mux(command.differences, 0, command.vertices)),
            edges.i.payload.address.eq(command.edges * _LINE_WORDS),
            edges.i.payload.words.eq(command.edge_count),
        ]

        # Lines are registered before their VIDs are checked: the path from the memory is long.
        edges_busy, line = Signal(), Signal(config.line_bits)
        beat, comes = Signal.like(edges.o.payload, reset_less=True), Signal()
        outside, worst = Signal(), Signal(32)
        m.d.sync += [beat.eq(edges.o.payload), comes.eq(edges.o.valid)]
        m.d.comb += [
            edges.o.ready.eq(1),
            self.write.valid.eq(comes & edges_busy),
            self.write.payload.address.eq(line),
            self.write.payload.line.eq(beat.data),
        ]
        for word in range(config.line_words):
            vid = beat.data.word_select(word, 32)
            with m.If(beat.mask[word] & (vid >= config.nodes)):
                m.d.comb += [outside.eq(self.write.valid), worst.eq(vid)]
        with m.If(self.write.valid):
            m.d.sync += line.eq(line + 1)
            with m.If(beat.last):
                m.d.sync += edges_busy.eq(0)

        # Rows: a row ends at every `tiles`-th offset.
        rows_busy, row, tile = Signal(), Signal(32), Signal(8)
        start, before = Signal(32), Signal(32)
        offset, degree = offset_words.o.payload.data, degree_words.o.payload.data
        difference = (offset - start)[:32]
        first, ends, last = Signal(), Signal(), Signal()
        none_left = Signal()  # the degrees of a graph without vertices, or unused ones
        m.d.comb += [
            ends.eq(~first & (tile == command.tiles - 1)),
            last.eq(row == command.vertices - 1),
            none_left.eq(degree_words.o.payload.empty),
        ]
        step, ready, known = Signal(), Signal(), Signal()
        m.d.comb += [
            known.eq(degree_words.o.valid | command.differences),
            ready.eq(~ends | (known & self.entry.ready)),
            step.eq(rows_busy & offset_words.o.valid & ready),
            offset_words.o.ready.eq(step),
            degree_words.o.ready.eq(rows_busy & (none_left | (step & ends))),
            self.entry.valid.eq(rows_busy & offset_words.o.valid & known & ends),
            self.entry.payload.node.eq(row),
            self.entry.payload.row.start.eq(start),
            self.entry.payload.row.degree.eq(Mux(command.differences, difference, degree)),
        ]
        with m.If(step):
            m.d.sync += [before.eq(offset), first.eq(0), tile.eq(Mux(first | ends, 0, tile + 1))]
            with m.If(first | ends):
                m.d.sync += [start.eq(offset), row.eq(row + ends)]
            with m.If(Mux(command.vertices == 0, first, ends & last)):
                m.d.sync += rows_busy.eq(0)

        # Registered for the same reason.
        report, wrong = self.error.payload, Signal(4)
        m.d.comb += [
            wrong[0].eq(offset < Mux(first, 0, before)),
            wrong[1].eq((offset > command.edge_count) | (ends & last & (offset != command.edge_count))),
            wrong[2].eq(first & (offset != 0)),
            wrong[3].eq(ends & ~command.differences & (degree != difference)),
            self.busy.eq(edges_busy | rows_busy | (degree_words.o.valid & none_left) | self.error.valid),
        ]
        m.d.sync += [self.error.valid.eq(outside | (step & wrong.any())), report.info.eq(row)]
        with m.If(outside):
            m.d.sync += [report.code.eq(Error.VID_RANGE), report.info.eq(worst)]
        with m.Elif(wrong[0] | wrong[2]):
            m.d.sync += report.code.eq(Error.OFFSET_ORDER)
        with m.Elif(wrong[1]):
            m.d.sync += report.code.eq(Error.EDGE_RANGE)
        with m.Else():
            m.d.sync += [report.code.eq(Error.DEGREE), report.info.eq(row + command.first_vertex)]
        with m.If(self.start):
            m.d.sync += [
                edges_busy.eq(1),
                rows_busy.eq(1),
                line.eq(0),
                row.eq(0),
                tile.eq(0),
                first.eq(1),
                start.eq(0),
                before.eq(0),
            ]
        return m
