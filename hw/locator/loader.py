"""Loader: reads offsets and edges into the chip's memories and checks them (I10)."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Error
from hw.graph.csr_reader import ErrorReport
from hw.locator.adjacency_store import LineWrite
from hw.locator.config import LocatorConfig
from hw.locator.formats import Row, location_command, name_line
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader

__all__ = ["Loader", "Rows", "row_of"]

_LINE_WORDS = LINE_BYTES // WORD_BYTES


class Rows(data.StructLayout):
    """``rows`` of neighbouring vertices, of those with a bit in ``mask``: the ``group``-th ``load_words`` of them."""

    def __init__(self, config: LocatorConfig) -> None:
        words = config.load_words
        group = config.node_bits - exact_log2(words)
        super().__init__({"group": group, "mask": words, "rows": data.ArrayLayout(Row(config), words)})


def row_of(config: LocatorConfig, rows: data.View, bank: int) -> tuple[Value, Value]:
    """Return whether a group has a row for a bank, and that row's place in the bank.

    Neighbouring vertices are in neighbouring banks, so a lane's rows go to the banks of its number and those that are
    multiples of the lanes behind.
    """
    lane, turn = bank % config.load_words, bank // config.load_words
    low = exact_log2(config.banks // config.load_words)
    place = rows.group[low:]
    return (rows.mask[lane] & (rows.group[:low] == turn) if low else rows.mask[lane]), place


class _Offsets(data.StructLayout):
    """A group of offsets: whether each is ``there`` and is ``far`` behind the edges that fit; ``last`` of all."""

    def __init__(self, config: LocatorConfig) -> None:
        words = config.load_words
        super().__init__(
            {"at": data.ArrayLayout(config.edge_bits, words), "far": words, "there": words, "last": 1},
        )


class Loader(wiring.Component):
    """Reads the array of offsets, then that of edges, as they are in the image.

    The degree of a vertex is the difference of two offsets. Bad data is reported, and both arrays are still read to
    their end.

    Parameters
    ----------
    config
        Sizes.
    depth
        Beats requested or waiting; see `hw.memory.fetcher.Fetcher`.

    Attributes
    ----------
    start, command
        Begin to read the arrays of the command, which is constant until ``busy`` is low.
    reading
        Beats are left to request, a bit for each client.
    rows_busy, busy
        Rows are left to send; anything is left to read. Errors come before.
    requests, beats
        Clients of the read arbiter: one for both arrays, or with ``config.apart`` one for each.
    rows
        Rows of vertices in their order, from the first on.
    write
        Lines, to the adjacency store.
    error
        ``OFFSET_ORDER`` and ``EDGE_RANGE`` (info: row), ``VID_RANGE`` (info: VID).
    """

    def __init__(self, config: LocatorConfig, depth: int = 128) -> None:
        self.config, self.depth = config, depth
        widths = (config.address_width, config.data_width)
        super().__init__(
            {
                "start": In(1),
                "command": In(location_command(config.address_width)),
                "reading": Out(config.loaders),
                "rows_busy": Out(1),
                "busy": Out(1),
                "requests": Out(stream.Signature(ReadRequest(*widths))).array(config.loaders),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(config.loaders),
                "rows": Out(stream.Signature(Rows(config))),
                "write": Out(stream.Signature(LineWrite(config), always_ready=True)),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Read two ranges: rows are made of the first one, lines of the second one."""
        m = Module()
        in_edges, edges_busy = Signal(), Signal()
        offsets, edges = self._read(m, in_edges)
        outside, worst = self._lines(m, edges, edges_busy)
        given, next_, held = (
            Signal(_Offsets(self.config), name=name, reset_less=True) for name in ("given", "next", "held")
        )
        comes, holds, shifts, leaves = Signal(), Signal(), Signal(), Signal()
        group, rows_busy, wrong = self.rows.payload.group, Signal(), Signal(ErrorReport)
        # The last row of a group ends with the first offset of the next one.
        complete = holds & (comes | held.last)
        some = self.rows.payload.mask.any()
        m.d.comb += [
            self.rows.valid.eq(complete & some),
            leaves.eq(complete & (self.rows.ready | ~some)),
            shifts.eq(comes & (~holds | leaves)),
        ]
        taken = self._select(m, offsets, given, ~comes | shifts)
        self._measure(m, held, next_, comes, wrong)
        counted, first = Signal.like(group), Signal()
        m.d.comb += group.eq(counted)
        # The last group of as many vertices as there can be has the number of the first one.
        with m.If(first & (held.far[0] | (held.at[0] != 0))):
            m.d.comb += [wrong.code.eq(Error.OFFSET_ORDER), wrong.info.eq(0)]
        with m.If(leaves):
            m.d.sync += [holds.eq(0), counted.eq(counted + 1), rows_busy.eq(~held.last), first.eq(0)]
        with m.If(shifts):
            m.d.sync += [comes.eq(0), holds.eq(1), held.eq(next_)]
        with m.If(taken):
            m.d.sync += [comes.eq(1), next_.eq(given)]
        with m.If(offsets.valid & offsets.ready & offsets.payload.last):
            m.d.sync += in_edges.eq(1)
        with m.If(self.start):
            m.d.sync += [in_edges.eq(0), rows_busy.eq(1), edges_busy.eq(1), counted.eq(0), first.eq(1)]

        # Errors are registered, because the comparisons are long.
        report = self.error.payload
        m.d.comb += [
            self.rows_busy.eq(rows_busy | self.error.valid),
            self.busy.eq(self.rows_busy | edges_busy),
        ]
        m.d.sync += [self.error.valid.eq(outside | (leaves & (wrong.code != Error.NONE))), report.eq(wrong)]
        with m.If(outside):
            m.d.sync += [report.code.eq(Error.VID_RANGE), report.info.eq(worst)]
        return m

    def _read(self, m: Module, in_edges: Signal) -> tuple[stream.Interface, stream.Interface]:
        """Request the range of offsets and that of edges once after the start; return their beats.

        With one reader edges come behind the offsets, when these have all been taken (`in_edges`).
        """
        config, command = self.config, self.command
        readers = [RangeReader(config.address_width, config.data_width, self.depth) for _ in range(config.loaders)]
        for n, reader in enumerate(readers):
            m.submodules[f"reader_{n}" if n else "reader"] = reader
            wiring.connect(m, reader.request, wiring.flipped(self.requests[n]))
            wiring.connect(m, wiring.flipped(self.beats[n]), reader.beat)
        ranges = ((command.offsets, command.vertices + 1), (command.edges, command.edge_count))
        for n, reader in enumerate(readers):
            # Those of the reader, the first one highest.
            mine = ranges if len(readers) == 1 else ranges[n : n + 1]
            left, words = Signal(range(len(mine) + 1), name=f"left_{n}"), reader.i.payload
            (place, count), (last_place, last_count) = mine[0], mine[-1]
            m.d.comb += [
                self.reading[n].eq((left != 0) | ~reader.i.ready),
                reader.i.valid.eq(left != 0),
                words.address.eq(Mux(left == len(mine), place, last_place) * _LINE_WORDS),
                words.words.eq(Mux(left == len(mine), count, last_count)),
            ]
            with m.If(reader.i.valid & reader.i.ready):
                m.d.sync += left.eq(left - 1)
            with m.If(self.start):
                m.d.sync += left.eq(len(mine))
        if config.apart:
            m.d.comb += readers[1].o.ready.eq(1)
            return readers[0].o, readers[1].o
        beats = readers[0].o
        offsets, edges = (beats.signature.create(path=(name,)) for name in ("offsets", "edges"))
        m.d.comb += [
            offsets.payload.eq(beats.payload),
            edges.payload.eq(beats.payload),
            offsets.valid.eq(beats.valid & ~in_edges),
            edges.valid.eq(beats.valid & in_edges),
            beats.ready.eq(in_edges | offsets.ready),
        ]
        return offsets, edges

    def _lines(self, m: Module, beats: stream.Interface, busy: Signal) -> tuple[Signal, Signal]:
        """Store the lines of edges; return whether a VID is out of range, and that VID."""
        config = self.config
        # A cycle after their arrival, because comparing the VIDs takes a cycle.
        line, beat, comes = Signal(config.line_bits), Signal.like(beats.payload, reset_less=True), Signal()
        outside, worst = Signal(), Signal(32)
        first, vertices = self.command.first_vertex[: config.node_bits], self.command.vertices[: config.node_bits + 1]
        m.d.sync += [beat.eq(beats.payload), comes.eq(beats.valid)]
        m.d.comb += [
            self.write.valid.eq(comes),
            self.write.payload.address.eq(line),
            *name_line(self.write.payload.line, beat.data, first, vertices),
        ]
        for word in range(config.line_words):
            vid = beat.data.word_select(word, 32)
            with m.If(beat.mask[word] & (vid >= config.nodes)):
                m.d.comb += [outside.eq(comes), worst.eq(vid)]
        with m.If(comes):
            m.d.sync += line.eq(line + 1)
            with m.If(beat.last):
                m.d.sync += busy.eq(0)
        with m.If(self.start):
            m.d.sync += line.eq(0)
        return outside, worst

    def _select(self, m: Module, beats: stream.Interface, given: Signal, room: object) -> Signal:
        """Give a group of the offsets in a beat after the other; return whether one is taken."""
        config = self.config
        words, beat = config.load_words, beats.payload
        groups = config.line_words // words
        part, taken, final = Signal(range(max(2, groups))), Signal(), Signal()
        block, mask = Signal(32 * words), Signal(words)
        with m.Switch(part):
            for n in range(groups):
                with m.Case(n):
                    # Offsets of a beat have no gaps: if the next group is empty, so are those behind it.
                    m.d.comb += [
                        block.eq(beat.data.word_select(n, 32 * words)),
                        mask.eq(beat.mask.word_select(n, words)),
                        final.eq(~beat.mask[(n + 1) * words] if n + 1 < groups else 1),
                    ]
        for lane in range(words):
            word = block.word_select(lane, 32)
            m.d.comb += [given.at[lane].eq(word), given.far[lane].eq(word[config.edge_bits :].any())]
        m.d.comb += [
            given.there.eq(mask),
            given.last.eq(beat.last & final),
            taken.eq(beats.valid & room),
            beats.ready.eq(room & final),
        ]
        with m.If(taken):
            m.d.sync += part.eq(Mux(final, 0, part + 1))
        return taken

    def _measure(self, m: Module, held: Signal, next_: Signal, comes: Signal, wrong: Signal) -> None:
        """Make the rows between the offsets of a group and find the first wrong one; the last ends with the edges."""
        config, command, rows = self.config, self.command, self.rows.payload
        words = config.load_words
        end, row = Signal(config.edge_bits), Signal(32)
        m.d.comb += row.eq(rows.group << exact_log2(words))
        with m.If(held.last & (command.vertices != 0)):
            for lane in range(words):
                with m.If(held.there[lane]):
                    m.d.comb += end.eq(held.at[lane])
            with m.If(end != command.edge_count):
                m.d.comb += [wrong.code.eq(Error.EDGE_RANGE), wrong.info.eq(command.vertices - 1)]
        for lane in reversed(range(words)):
            inner = lane + 1 < words
            there = held.there[lane + 1] if inner else comes
            after = held.at[lane + 1] if inner else next_.at[0]
            far = held.far[lane + 1] if inner else next_.far[0]
            length = Signal(config.edge_bits + 1, name=f"length{lane}")
            m.d.comb += [
                length.eq(after - held.at[lane]),
                rows.mask[lane].eq(there),
                rows.rows[lane].start.eq(held.at[lane]),
                rows.rows[lane].degree.eq(length),
            ]
            with m.If(there & length[-1]):
                m.d.comb += [wrong.code.eq(Error.OFFSET_ORDER), wrong.info.eq(row + lane)]
            with m.If(there & far):
                m.d.comb += [wrong.code.eq(Error.EDGE_RANGE), wrong.info.eq(row + lane)]
