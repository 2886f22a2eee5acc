"""Tiled-CSR reader: rows of an array whose boundaries lie in another array (R9, R10)."""

from amaranth import Assert, Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.graph.formats import WORD_BITS, CsrRequest, ErrorReport, RowBeat
from hw.graph.segmenter import Segmenter
from hw.memory.formats import RangeBeat, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.slice import Slice

__all__ = ["CsrReader", "CsrRequest", "ErrorReport", "RowBeat"]


class CsrReader(wiring.Component):
    """Streams an array row by row, cut at the offsets.

    Offsets and array are both prefetched in order, so a row costs as many cycles as it has beats. Rows whose offsets
    are out of order or past the end are reported and read as empty or truncated: every request yields exactly ``rows``
    rows and ends.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats of the array requested or waiting, see `hw.memory.fetcher.Fetcher`.
    offsets_depth
        The same for the offsets, of which a beat serves many rows.

    Attributes
    ----------
    i : stream of `CsrRequest`
        Taken when the previous request has ended.
    o : stream of `RowBeat`
        At least one beat a tile of every row.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER``, or ``EDGE_RANGE`` also where the last offset is not the length of the array; the info is
        the row.
    busy : Out(1)
        A request is in progress.
    requests, beats
        Two ports of the read arbiter: 0 for the offsets, 1 for the array.

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
        # Between the selection of a word from a beat and its comparison.
        m.submodules.cut = cut = Slice(unsigned(32))
        # Between a beat and the search for its segments' ends: the end of a beat is decided late in the cycle.
        m.submodules.beats = beats = Slice(RangeBeat(self.data_width))
        m.submodules.segmenter = segmenter = self._segmenter
        m.submodules.out = out = Slice(RowBeat(self.data_width))
        connect(m, offsets.o, serialiser.i)
        connect(m, out.o, flipped(self.o))
        connect(m, segmenter.error, flipped(self.error))
        for client, reader in enumerate((offsets, array)):
            connect(m, reader.request, flipped(self.requests[client]))
            connect(m, flipped(self.beats[client]), reader.beat)
        connect(m, array.o, beats.i)
        connect(m, cut.o, segmenter.offset)
        m.d.comb += [
            cut.i.valid.eq(serialiser.o.valid),
            cut.i.payload.eq(serialiser.o.payload.data),
            serialiser.o.ready.eq(cut.i.ready),
        ]

        request = Signal.like(self.i.payload, reset_less=True)
        m.d.comb += [segmenter.request.eq(request), self.busy.eq(1)]
        entries = Signal(32, reset_less=True)  # of the offsets array, except for the last
        m.d.comb += [
            array.i.payload.address.eq(request.array),
            array.i.payload.words.eq(request.words),
            offsets.i.payload.address.eq(request.offsets),
            offsets.i.payload.words.eq(entries + 1),
        ]

        segment, beat = segmenter.o.payload, beats.o.payload
        # Words already passed on: `low` of the beat before beat `ahead`. A segment never ends before them, so one
        # comparison suffices.
        words = self.data_width // WORD_BITS
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
                    m.next = "COUNT"
            with m.State("COUNT"):
                m.d.sync += entries.eq(request.rows * request.tiles)
                m.next = "START"
            with m.State("START"):
                # Both readers have delivered the previous request completely, so both take their range at once.
                m.d.comb += [array.i.valid.eq(1), offsets.i.valid.eq(~request.uniform), segmenter.start.eq(1)]
                m.d.sync += Assert(array.i.ready & offsets.i.ready, "a reader is still busy")
                m.next = "CUT"
            with m.State("CUT"):
                m.d.comb += [
                    out.i.valid.eq(segmenter.o.valid & (none | beats.o.valid)),
                    segmenter.o.ready.eq(out.i.ready & (none | beats.o.valid) & ends),
                    # A beat is consumed when its last word has been passed on; the flush drops the rest.
                    beats.o.ready.eq(out.i.ready & segmenter.o.valid & full & ~(beat.last & ends)),
                ]
                with m.If(piece):
                    m.d.sync += [low.eq(Mux(full, 0, end_low)), ahead.eq(ahead + full), fresh.eq(ends)]
                with m.If(piece & ends & segment.final):
                    m.next = "FLUSH"
            with m.State("FLUSH"):
                # The array's last beat is still there, and more if the offsets ended early.
                m.d.comb += beats.o.ready.eq(1)
                with m.If(beats.o.valid & beat.last):
                    m.next = "IDLE"
        return m
