"""Tiled-CSR reader: rows of an array whose boundaries lie in another array (R9, R10)."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from golden.contracts import Error
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.slice import Slice

__all__ = ["CsrReader", "CsrRequest", "ErrorReport", "RowBeat"]

_WORD_BITS = 8 * WORD_BYTES

#: What a block says of bad data: a code of `golden.contracts.Error` and its info.
ErrorReport = data.StructLayout({"code": unsigned(8), "info": unsigned(32)})


class CsrRequest(data.StructLayout):
    """A request to read all rows of an array.

    ``offsets``, ``array``: word addresses (byte address / 4) of lines. ``words``: length of the array.
    ``rows``, ``tiles``: the offsets array has ``rows * tiles + 1`` entries, less than 2^32, in words of the array.
    ``tiles`` is at least 1; without rows, nothing is read.
    ``uniform``: there are no offsets, every row has ``stride`` words, and ``tiles`` is 1.
    """

    def __init__(self, address_width: int) -> None:
        word_address = address_width - exact_log2(WORD_BYTES)
        super().__init__(
            {
                "offsets": word_address,
                "array": word_address,
                "words": 32,
                "rows": 32,
                "tiles": 8,
                "uniform": 1,
                "stride": 24,
            }
        )


class RowBeat(data.StructLayout):
    """Part of a row.

    ``data``: a beat as it lies in memory. ``mask``: which of its words belong to this tile of the row; none if the
    tile is empty. ``first``, ``last``: first and last beat of the row. ``tile``: source tile.
    ``tile_last``: last beat of the tile.
    """

    def __init__(self, data_width: int) -> None:
        super().__init__(
            {
                "data": data_width,
                "mask": data_width // _WORD_BITS,
                "first": 1,
                "last": 1,
                "tile": 8,
                "tile_last": 1,
            }
        )


#: One tile of one row: where it ends in the array, in words. It begins where the one before ended.
_Segment = data.StructLayout({"end": 32, "tile": 8, "first": 1, "last": 1, "final": 1})


class Segmenter(wiring.Component):
    """Turns offsets, or a constant stride, into the ends of segments.

    Attributes
    ----------
    start : In(1)
        The request begins; `request` is constant from here on.
    request : In(CsrRequest)
    offset : stream of unsigned(32)
        The offsets array.
    o : stream of segments, in order and never past the array's end
    error : stream of `ErrorReport`, always ready
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "start": In(1),
                "request": In(CsrRequest(address_width)),
                "offset": In(stream.Signature(unsigned(32))),
                "o": Out(stream.Signature(_Segment)),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count rows and tiles; replace an offset that is out of order by the one before it."""
        m = Module()
        m.submodules.out = out = Slice(_Segment)
        connect(m, out.o, flipped(self.o))
        request = self.request

        row, tile, position = Signal(32), Signal(8), Signal(32)
        running = Signal()
        primed = Signal()  # the first offset, which must be 0, has been read
        offset, end = Signal(33), Signal(32)
        step = Signal()
        last_tile = tile == request.tiles - 1
        final = last_tile & (row == request.rows - 1)
        wanted = running & out.i.ready
        m.d.comb += [
            offset.eq(Mux(request.uniform, position + request.stride, self.offset.payload)),
            step.eq(wanted & (request.uniform | self.offset.valid)),
            self.offset.ready.eq(wanted & ~request.uniform),
            out.i.valid.eq(step & primed),
            out.i.payload.end.eq(end),
            out.i.payload.tile.eq(tile),
            out.i.payload.first.eq(tile == 0),
            out.i.payload.last.eq(last_tile),
            out.i.payload.final.eq(final),
            self.error.payload.info.eq(row),
        ]
        past = offset > request.words
        with m.If(~primed):
            m.d.comb += [self.error.valid.eq(step & (offset != 0)), self.error.payload.code.eq(Error.OFFSET_ORDER)]
        with m.Elif(offset < position):
            m.d.comb += [end.eq(position), self.error.valid.eq(step), self.error.payload.code.eq(Error.OFFSET_ORDER)]
        with m.Else():
            m.d.comb += [
                end.eq(Mux(past, request.words, offset)),
                self.error.valid.eq(step & (past | (final & (offset != request.words)))),
                self.error.payload.code.eq(Error.EDGE_RANGE),
            ]

        with m.If(step):
            m.d.sync += primed.eq(1)
            with m.If(primed):
                m.d.sync += [
                    position.eq(end),
                    tile.eq(Mux(last_tile, 0, tile + 1)),
                    row.eq(row + last_tile),
                    running.eq(~final),
                ]
        with m.If(self.start):
            m.d.sync += [running.eq(1), primed.eq(request.uniform), row.eq(0), tile.eq(0), position.eq(0)]
        return m


class CsrReader(wiring.Component):
    """Streams an array row by row, cut where the offsets say.

    Offsets and array are both read ahead in order, so a row costs as many cycles as it has beats. Rows
    that the offsets put out of order, or past the end, are reported and read as empty or cut short: every
    request yields exactly ``rows`` rows and ends.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats of the array asked for or waiting, see `hw.memory.fetcher.Fetcher`.
    offsets_depth
        The same for the offsets, of which a beat serves many rows.

    Attributes
    ----------
    i : stream of `CsrRequest`
        Taken when the one before has ended.
    o : stream of `RowBeat`
        At least one beat a tile of every row.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER``, or ``EDGE_RANGE`` also where the last offset is not the length of the array; the info is
        the row.
    busy : Out(1)
        A request is under way.
    requests, beats
        Two clients' ends of the read arbiter: 0 for the offsets, 1 for the array.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(
        self, address_width: int = 32, data_width: int = 256, depth: int = 128, offsets_depth: int = 32
    ) -> None:
        self.data_width = data_width
        self._offsets = RangeReader(address_width, data_width, offsets_depth)
        self._array = RangeReader(address_width, data_width, depth)
        self._segmenter = Segmenter(address_width)
        super().__init__(
            {
                "i": In(stream.Signature(CsrRequest(address_width))),
                "o": Out(stream.Signature(RowBeat(data_width))),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "busy": Out(1),
                "requests": Out(stream.Signature(ReadRequest(address_width, data_width))).array(2),
                "beats": In(stream.Signature(ReadBeat(data_width), always_ready=True)).array(2),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the two range readers, the segmenter and the cutter."""
        m = Module()
        m.submodules.offsets = offsets = self._offsets
        m.submodules.array = array = self._array
        m.submodules.serialiser = serialiser = WordSerialiser(self.data_width)
        # Between choosing a word of a beat and comparing it.
        m.submodules.cut = cut = Slice(unsigned(32))
        m.submodules.segmenter = segmenter = self._segmenter
        m.submodules.out = out = Slice(RowBeat(self.data_width))
        connect(m, offsets.o, serialiser.i)
        connect(m, out.o, flipped(self.o))
        connect(m, segmenter.error, flipped(self.error))
        for client, reader in enumerate((offsets, array)):
            connect(m, reader.request, flipped(self.requests[client]))
            connect(m, flipped(self.beats[client]), reader.beat)
        connect(m, cut.o, segmenter.offset)
        m.d.comb += [
            cut.i.valid.eq(serialiser.o.valid),
            cut.i.payload.eq(serialiser.o.payload.data),
            serialiser.o.ready.eq(cut.i.ready),
        ]

        request = Signal.like(self.i.payload)
        m.d.comb += [segmenter.request.eq(request), self.busy.eq(1)]
        # Both readers take their range in their own time.
        array_asked, offsets_asked = Signal(), Signal()
        entries = Signal(32)  # of the offsets array, but for the last
        m.d.comb += [
            array.i.payload.address.eq(request.array),
            array.i.payload.words.eq(request.words),
            offsets.i.payload.address.eq(request.offsets),
            offsets.i.payload.words.eq(entries + 1),
        ]

        segment, beat = segmenter.o.payload, array.o.payload
        # Words already passed on: `low` of the beat before beat `ahead`. A segment never ends before them, so one
        # comparison tells all.
        words = self.data_width // _WORD_BITS
        word_bits = exact_log2(words)
        low, ahead = Signal(word_bits), Signal(33 - word_bits)
        end_low, end_beat = segment.end[:word_bits], segment.end[word_bits:]
        none, full, ends = Signal(), Signal(), Signal()
        stop = Signal(range(words + 1))
        m.d.comb += [
            full.eq(end_beat >= ahead),  # the segment takes the rest of the beat
            ends.eq(~full | ((end_beat == ahead) & (end_low == 0))),
            none.eq(~full & (end_low == low)),
            stop.eq(Mux(full, words, end_low)),
        ]
        piece = Signal()
        m.d.comb += [
            out.i.payload.data.eq(beat.data),
            out.i.payload.mask.eq(Cat((word >= low) & (word < stop) for word in range(words))),
            out.i.payload.tile.eq(segment.tile),
            out.i.payload.tile_last.eq(ends),
            out.i.payload.last.eq(ends & segment.last),
            piece.eq(out.i.valid & out.i.ready),
        ]
        fresh = Signal(init=1)  # nothing of the segment has been passed on
        m.d.comb += out.i.payload.first.eq(segment.first & fresh)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.i.ready.eq(1), self.busy.eq(0)]
                m.d.sync += [request.eq(self.i.payload), low.eq(0), ahead.eq(1)]
                with m.If(self.i.valid & (self.i.payload.rows != 0)):
                    m.d.sync += [array_asked.eq(0), offsets_asked.eq(self.i.payload.uniform)]
                    m.next = "COUNT"
            with m.State("COUNT"):
                m.d.sync += entries.eq(request.rows * request.tiles)
                m.next = "START"
            with m.State("START"):
                m.d.comb += [array.i.valid.eq(~array_asked), offsets.i.valid.eq(~offsets_asked)]
                m.d.sync += [
                    array_asked.eq(array_asked | array.i.ready),
                    offsets_asked.eq(offsets_asked | offsets.i.ready),
                ]
                with m.If((array_asked | array.i.ready) & (offsets_asked | offsets.i.ready)):
                    m.d.comb += segmenter.start.eq(1)
                    m.next = "CUT"
            with m.State("CUT"):
                m.d.comb += [
                    out.i.valid.eq(segmenter.o.valid & (none | array.o.valid)),
                    segmenter.o.ready.eq(out.i.ready & (none | array.o.valid) & ends),
                    # A beat is used up when its last word has been passed on; the rest is left to the flush.
                    array.o.ready.eq(out.i.ready & segmenter.o.valid & full & ~(beat.last & ends)),
                ]
                with m.If(piece):
                    m.d.sync += [low.eq(Mux(full, 0, end_low)), ahead.eq(ahead + full), fresh.eq(ends)]
                with m.If(piece & ends & segment.final):
                    m.next = "FLUSH"
            with m.State("FLUSH"):
                # The array's last beat is still there, and more if the offsets ended early.
                m.d.comb += array.o.ready.eq(1)
                with m.If(array.o.valid & beat.last):
                    m.next = "IDLE"
        return m
