"""Loader: reads offsets, degrees and edges into the chip's memories and checks them (I10)."""

from typing import NamedTuple

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


class _Rows(NamedTuple):
    """Walk through the rows.

    ``busy``: rows are left. ``row``: row in turn. ``step``: an offset is used. ``wrong``: its errors, a bit each.
    """

    busy: Signal
    row: Signal
    step: Signal
    wrong: Signal


class Loader(wiring.Component):
    """Reads the arrays in parallel, as they are in the image.

    Degrees that are the differences of the offsets, as on one chiplet with the whole graph, need not be in memory. Bad
    data is reported, and all arrays are still read to their end.

    Parameters
    ----------
    config
        Sizes.
    depth
        Beats requested or waiting, of each array; see `hw.memory.fetcher.Fetcher`.

    Attributes
    ----------
    start, command
        Begin to read the arrays of the command, which is constant until ``busy`` is low.
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
        """Read the three arrays; store lines of edges, and rows where offsets and degrees meet."""
        m = Module()
        offsets, degrees, edges = self._readers(m)
        m.submodules.offset_words = offset_words = WordSerialiser(self.config.data_width)
        m.submodules.degree_words = degree_words = WordSerialiser(self.config.data_width)
        wiring.connect(m, offsets.o, offset_words.i)
        wiring.connect(m, degrees.o, degree_words.i)
        edges_busy, outside, worst = self._edges(m, edges.o)
        rows = self._rows(m, offset_words.o, degree_words.o)
        none_left = degree_words.o.payload.empty
        m.d.comb += self.busy.eq(edges_busy | rows.busy | (degree_words.o.valid & none_left) | self.error.valid)

        # Errors are registered, because the comparisons are long.
        report = self.error.payload
        m.d.sync += [self.error.valid.eq(outside | (rows.step & rows.wrong.any())), report.info.eq(rows.row)]
        with m.If(outside):
            m.d.sync += [report.code.eq(Error.VID_RANGE), report.info.eq(worst)]
        with m.Elif(rows.wrong[0] | rows.wrong[2]):
            m.d.sync += report.code.eq(Error.OFFSET_ORDER)
        with m.Elif(rows.wrong[1]):
            m.d.sync += report.code.eq(Error.EDGE_RANGE)
        with m.Else():
            m.d.sync += [report.code.eq(Error.DEGREE), report.info.eq(rows.row + self.command.first_vertex)]
        return m

    def _readers(self, m: Module) -> list[RangeReader]:
        """Connect a reader for each array, which is requested once after the start."""
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
        m.d.comb += [
            offsets.i.payload.address.eq(command.offsets * _LINE_WORDS),
            offsets.i.payload.words.eq(command.vertices * command.tiles + 1),
            degrees.i.payload.address.eq(command.degrees * _LINE_WORDS),
            degrees.i.payload.words.eq(Mux(command.differences, 0, command.vertices)),
            edges.i.payload.address.eq(command.edges * _LINE_WORDS),
            edges.i.payload.words.eq(command.edge_count),
        ]
        return readers

    def _edges(self, m: Module, edges: stream.Interface) -> tuple[Signal, Signal, Signal]:
        """Store the lines of edges; return whether some are left, whether a VID is out of range, and that VID."""
        config = self.config
        # A cycle after their arrival, because comparing the VIDs takes a cycle.
        edges_busy, line = Signal(), Signal(config.line_bits)
        beat, comes = Signal.like(edges.payload, reset_less=True), Signal()
        outside, worst = Signal(), Signal(32)
        m.d.sync += [beat.eq(edges.payload), comes.eq(edges.valid)]
        m.d.comb += [
            edges.ready.eq(1),
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
        with m.If(self.start):
            m.d.sync += [edges_busy.eq(1), line.eq(0)]
        return edges_busy, outside, worst

    def _rows(self, m: Module, offsets: stream.Interface, degrees: stream.Interface) -> _Rows:
        """Store a row at every `tiles`-th offset; check offsets and degrees."""
        command = self.command
        rows_busy, row, tile = Signal(), Signal(32), Signal(8)
        start, before = Signal(32), Signal(32)
        offset, degree = offsets.payload.data, degrees.payload.data
        difference = (offset - start)[:32]
        first, ends, last = Signal(), Signal(), Signal()
        none_left = Signal()  # the graph has no vertices, or its degrees are not read
        m.d.comb += [
            ends.eq(~first & (tile == command.tiles - 1)),
            last.eq(row == command.vertices - 1),
            none_left.eq(degrees.payload.empty),
        ]
        step, ready, known = Signal(), Signal(), Signal()
        m.d.comb += [
            known.eq(degrees.valid | command.differences),
            ready.eq(~ends | (known & self.entry.ready)),
            step.eq(rows_busy & offsets.valid & ready),
            offsets.ready.eq(step),
            degrees.ready.eq(rows_busy & (none_left | (step & ends))),
            self.entry.valid.eq(rows_busy & offsets.valid & known & ends),
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
        wrong = Signal(4)
        m.d.comb += [
            wrong[0].eq(offset < Mux(first, 0, before)),
            wrong[1].eq((offset > command.edge_count) | (ends & last & (offset != command.edge_count))),
            wrong[2].eq(first & (offset != 0)),
            wrong[3].eq(ends & ~command.differences & (degree != difference)),
        ]
        with m.If(self.start):
            m.d.sync += [rows_busy.eq(1), row.eq(0), tile.eq(0), first.eq(1), start.eq(0), before.eq(0)]
        return _Rows(rows_busy, row, step, wrong)
