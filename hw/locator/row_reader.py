"""Row reader: fetches the lines of rows of the adjacency and emits their neighbours in bundles."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LINES, LocatorConfig
from hw.locator.formats import Bundle, KeptRow, Line, Work
from hw.stream.queue import Queue

__all__ = ["NumberedRow", "RowReader"]

#: Most lines that are prefetched from the chip: the rows of a slice of distributed RAM.
_NEAR = 16


class NumberedRow(data.StructLayout):
    """A row that was ``kept``, for a ``context``: a hub's if it ``reads``, else that of the ``index``-th node.

    ``void``: it has no neighbours, or they are no longer wanted.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {"kept": KeptRow(config), "context": config.context_bits, "reads": 1, "index": config.list_bits, "void": 1}
        )


class _Piece(data.StructLayout):
    """Neighbours in a line, words ``first`` to ``final``; ``void``: no line comes. The rest as in `NumberedRow`."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "context": config.context_bits,
                "reads": 1,
                "index": config.list_bits,
                "void": 1,
                "first": exact_log2(config.line_words),
                "final": exact_log2(config.line_words),
            }
        )


class RowReader(wiring.Component):
    """Prefetches up to `LINES` lines a search and emits a bundle a cycle: neighbours in one line, one for each lane.

    Searches share the queue of lines, so neighbours of one that is dead are dropped as they come out, one line a cycle:
    a bundle without vertices stands for the rest of the line.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    i
        Rows; taken when their last line has been requested.
    may_ask, further
        A line may be requested for the search of the row at ``i``; one that is not the row's last is requested.
    request, line
        Addresses of lines, and the lines in the same order.
    dead, waits
        One bit for each search: its neighbours are dropped; they are not offered.
    o
        Neighbours in order.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(NumberedRow(config))),
                "may_ask": In(1),
                "further": Out(1),
                "request": Out(stream.Signature(config.line_bits)),
                "line": In(stream.Signature(Line(config), always_ready=True)),
                "dead": In(config.searches),
                "waits": In(config.searches),
                "o": Out(stream.Signature(Bundle(config))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Request lines and keep which of their words belong to the row."""
        m = Module()
        config = self.config
        # There are no more lines than pieces, so a line always finds room.
        depth = LINES * config.searches
        if not config.external:
            depth = min(depth, _NEAR)  # lines come at once
        m.submodules.lines = lines = Queue(Line(config), depth, storage="distributed")
        # A piece is registered well before its line arrives; its first word then selects from the line.
        m.submodules.pieces = pieces = Queue(_Piece(config), depth, storage="block")
        self._request(m, pieces.i)
        m.d.comb += [lines.i.valid.eq(self.line.valid), lines.i.payload.eq(self.line.payload)]
        self._emit(m, pieces.o, lines.o)
        return m

    def _request(self, m: Module, pieces: stream.Interface) -> None:
        """Request the lines of a row one by one, each with the piece of the row in it."""
        config, in_line = self.config, exact_log2(self.config.line_words)
        row = self.i.payload.kept.row
        # Of a row's lines behind the first: the one that is requested next, whether it is the last, and the neighbours
        # from there on. The next row is not offered before `ready`.
        later, final = Signal(), Signal()
        line, rest = Signal(config.line_bits), Signal(config.node_bits)
        number, left, room = Signal.like(line), Signal.like(rest), Signal(range(config.line_words + 1))
        last, takes, void = Signal(), Signal(), self.i.payload.void
        m.d.comb += [
            number.eq(Mux(later, line, row.start[in_line:])),
            left.eq(Mux(later, rest, row.degree)),
            room.eq(config.line_words - pieces.payload.first),
            last.eq(Mux(later, final, self.i.payload.kept.short)),
            self.request.valid.eq(self.i.valid & pieces.ready & self.may_ask & ~void),
            self.request.payload.eq(number),
            pieces.valid.eq(self.i.valid & self.may_ask & (void | self.request.ready)),
            takes.eq(pieces.valid & pieces.ready),
            self.i.ready.eq(takes & (last | void)),
            self.further.eq(takes & ~last & ~void),
            pieces.payload.context.eq(self.i.payload.context),
            pieces.payload.reads.eq(self.i.payload.reads),
            pieces.payload.index.eq(self.i.payload.index),
            pieces.payload.void.eq(void),
            pieces.payload.first.eq(Mux(later, 0, row.start)),
            pieces.payload.final.eq(Mux(last, row.start + row.degree - 1, config.line_words - 1)),
        ]
        with m.If(takes):
            m.d.sync += [
                line.eq(number + 1),
                rest.eq(left - room),
                later.eq(~last & ~void),
                final.eq(left <= room + config.line_words),
            ]

    def _emit(self, m: Module, pieces: stream.Interface, lines: stream.Interface) -> None:
        """Emit the words of the piece in front, a bundle at a time."""
        config, in_line, in_bundle = self.config, exact_log2(self.config.line_words), exact_log2(self.config.lanes)
        # A line is cut at multiples of the lanes, so each lane selects from few of its words.
        piece, bundle, within = pieces.payload, self.o.payload, Signal()
        following, group = Signal(max(1, in_line - in_bundle)), Signal(max(1, in_line - in_bundle))
        dead, waits, drops, ends, final = (
            Signal(name=name) for name in ("is_dead", "is_waiting", "drops", "ends", "final")
        )
        m.d.comb += [
            group.eq(Mux(within, following, piece.first >> in_bundle)),
            final.eq(group == piece.final >> in_bundle),
            dead.eq(self.dead.bit_select(piece.context, 1)),
            waits.eq(self.waits.bit_select(piece.context, 1)),
            drops.eq(dead | piece.void),
            self.o.valid.eq(pieces.valid & (lines.valid | piece.void) & (dead | ~waits)),
            bundle.context.eq(piece.context),
            bundle.work.eq(Mux(piece.reads, Work.READ, Work.SEARCH)),
            bundle.last.eq(drops | final),
            bundle.index.eq(piece.index),
            bundle.vertices.eq(lines.payload.names.as_value().word_select(group, config.node_bits * config.lanes)),
            bundle.remote.eq(lines.payload.remote.word_select(group, config.lanes)),
            ends.eq(self.o.valid & self.o.ready & bundle.last),
            lines.ready.eq(ends & ~piece.void),
            pieces.ready.eq(ends),
        ]
        for lane in range(config.lanes):
            begun = within | (lane >= piece.first[:in_bundle])
            m.d.comb += bundle.mask[lane].eq(begun & (~final | (lane <= piece.final[:in_bundle])) & ~drops)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [within.eq(~bundle.last), following.eq(group + 1)]
