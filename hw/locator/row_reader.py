"""Row reader: fetches the lines of a row of the adjacency and emits its neighbours in bundles."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LINES, LocatorConfig
from hw.locator.formats import Bundle, Row, Settings
from hw.stream.queue import Queue

__all__ = ["NumberedRow", "RowReader"]

_WORD_BITS = 32


class NumberedRow(data.StructLayout):
    """A ``row`` to read, and the ``index`` of its node in the record."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"row": Row(config), "index": config.list_bits})


class _Line(data.StructLayout):
    """The ``names`` of vertices in a line, and which are ``remote``, of another chiplet."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"names": data.ArrayLayout(config.node_bits, config.line_words), "remote": config.line_words})


class _Piece(data.StructLayout):
    """``count`` neighbours of the ``index``-th node in a line, from word ``first``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "index": config.list_bits,
                "first": exact_log2(config.line_words),
                "count": range(config.line_words + 1),
            }
        )


class RowReader(wiring.Component):
    """Prefetches up to `LINES` lines and emits a bundle a cycle: neighbours in one line, one for each lane.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    i
        Rows of at least one edge; taken when their last line has been requested.
    request, line
        Addresses of lines, and the lines in the same order.
    o
        Neighbours in order.
    flush
        Withdraw the offered bundle and drop all outstanding lines, until ``busy`` is low. No row may be offered
        meanwhile.
    busy
        Lines are outstanding or held.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "i": In(stream.Signature(NumberedRow(config))),
                "request": Out(stream.Signature(config.line_bits)),
                "line": In(stream.Signature(config.data_width, always_ready=True)),
                "o": Out(stream.Signature(Bundle(config))),
                "flush": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Request lines and keep which of their words belong to the row."""
        m = Module()
        config = self.config
        # There are no more lines than pieces, so a line always finds room.
        m.submodules.lines = lines = Queue(_Line(config), LINES, storage="distributed")
        # A piece is registered well before its line arrives; its first word then selects from the line.
        m.submodules.pieces = pieces = Queue(_Piece(config), LINES, storage="block")
        self._request(m, pieces.i)
        m.d.comb += [lines.i.valid.eq(self.line.valid), self.busy.eq(pieces.level != 0)]
        # Remote vertices are marked in the line, so that local ones can be looked up at once.
        end = Signal(config.node_bits + 1)
        m.d.sync += end.eq(self.settings.first + self.settings.vertices)
        for n in range(config.line_words):
            name = Signal(config.node_bits, name=f"name{n}")
            m.d.comb += [
                name.eq(self.line.payload.word_select(n, _WORD_BITS)),
                lines.i.payload.names[n].eq(name),
                lines.i.payload.remote[n].eq((name < self.settings.first) | (name >= end)),
            ]
        self._emit(m, pieces.o, lines.o)
        return m

    def _request(self, m: Module, pieces: stream.Interface) -> None:
        """Request the lines of a row one by one, each with the piece of the row in it."""
        config, in_line = self.config, exact_log2(self.config.line_words)
        passed = Signal(config.node_bits)  # edges of the row already requested
        row, address, left = self.i.payload.row, Signal(config.edge_bits), Signal(config.node_bits)
        room, count = Signal(range(config.line_words + 1)), Signal(range(config.line_words + 1))
        # Whether the first line is the last follows from the row's low bits; for later lines it is registered, as
        # the next row is not offered before `ready`.
        first_room, later, final = Signal.like(room), Signal(), Signal()
        last, asks = Signal(), Signal()
        m.d.comb += [
            address.eq(row.start + passed),
            left.eq(row.degree - passed),
            room.eq(config.line_words - address[:in_line]),
            first_room.eq(config.line_words - row.start[:in_line]),
            last.eq(Mux(later, final, ~row.degree[len(room) :].any() & (row.degree[: len(room)] <= first_room))),
            count.eq(Mux(last, left, room)),
            self.request.valid.eq(self.i.valid & pieces.ready & ~self.flush),
            self.request.payload.eq(address[in_line:]),
            asks.eq(self.request.valid & self.request.ready),
            self.i.ready.eq(asks & last),
            pieces.valid.eq(asks),
            pieces.payload.index.eq(self.i.payload.index),
            pieces.payload.first.eq(address[:in_line]),
            pieces.payload.count.eq(count),
        ]
        with m.If(asks):
            m.d.sync += [
                passed.eq(Mux(last, 0, passed + count)),
                later.eq(~last),
                final.eq(left <= room + config.line_words),
            ]
        with m.If(self.flush):
            m.d.sync += [passed.eq(0), later.eq(0)]

    def _emit(self, m: Module, pieces: stream.Interface, lines: stream.Interface) -> None:
        """Emit the words of the piece in front, a bundle at a time; a flush drops them."""
        config, in_line = self.config, exact_log2(self.config.line_words)
        piece, done = pieces.payload, Signal(in_line)  # words of the piece already emitted
        first, over = Signal(in_line), Signal(range(config.line_words + 1))
        moves, ends = Signal(), Signal()
        m.d.comb += [
            first.eq(piece.first + done),
            over.eq(piece.count - done),
            self.o.valid.eq(lines.valid & ~self.flush),
            self.o.payload.index.eq(piece.index),
            moves.eq(self.o.valid & self.o.ready),
            ends.eq((moves & (over <= config.lanes)) | (self.flush & lines.valid)),
            lines.ready.eq(ends),
            pieces.ready.eq(ends),
        ]
        for lane in range(config.lanes):
            word = Signal(in_line, name=f"word{lane}")
            m.d.comb += [
                word.eq(first + lane),
                self.o.payload.mask[lane].eq(lane < over),
                self.o.payload.vertices[lane].eq(lines.payload.names[word]),
                self.o.payload.remote[lane].eq(lines.payload.remote.bit_select(word, 1)),
            ]
        with m.If(ends):
            m.d.sync += done.eq(0)
        with m.Elif(moves):
            m.d.sync += done.eq(done + config.lanes)
