"""Tiled-CSR reader: streams the rows of an array whose boundaries are in another array (R9, R10)."""

from amaranth import Assert, Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
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
        Taken when the previous one has ended.
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
        # A register between selecting a word of a beat and comparing it.
        m.submodules.cut = cut = Slice(unsigned(32))
        # A register between a beat and the search for its segments' ends: the handshake is late.
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
            serialiser.o.ready.eq(cut.i.ready),
        ]

        request = Signal.like(self.i.payload, reset_less=True)
        entries = Signal(32, reset_less=True)  # entries of the offsets array, without the last
        m.d.comb += [
            segmenter.request.eq(request),
            cut.i.payload.eq(_words(serialiser.o.payload.data, request.paired)),
            array.i.payload.address.eq(request.array),
            array.i.payload.words.eq(request.words),
            offsets.i.payload.address.eq(request.offsets),
            offsets.i.payload.words.eq(entries + 1),
        ]
        self._control(m, request, entries, beats.o, out.i)
        return m

    def _control(
        self, m: Module, request: data.View, entries: Signal, beats: stream.Interface, out: stream.Interface
    ) -> None:
        """Take a request, start the readers, cut beats into segments, flush the rest of the array."""
        offsets, array, segmenter = self._offsets, self._array, self._segmenter
        segment, beat = segmenter.o.payload, beats.payload
        word_bits = exact_log2(self.data_width // WORD_BITS)
        # Words that are done: `low` of the beat in front of beat `ahead`.
        low, ahead = Signal(word_bits), Signal(33 - word_bits)
        fresh = Signal(init=1)  # the segment has no piece yet
        none, full, ends = self._cut(m, beat, low, ahead, out.payload)
        piece = Signal()
        m.d.comb += [
            self.busy.eq(1),
            piece.eq(out.valid & out.ready),
            out.payload.first.eq(segment.first & fresh),
        ]
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
                # Both readers have delivered all words of the previous request, so both accept their range at once.
                m.d.comb += [array.i.valid.eq(1), offsets.i.valid.eq(~request.uniform), segmenter.start.eq(1)]
                m.d.sync += Assert(array.i.ready & offsets.i.ready, "a reader is still busy")
                m.next = "CUT"
            with m.State("CUT"):
                m.d.comb += [
                    out.valid.eq(segmenter.o.valid & (none | beats.valid)),
                    segmenter.o.ready.eq(out.ready & (none | beats.valid) & ends),
                    # A beat is taken with its last word; the array's last beat is left to the flush.
                    beats.ready.eq(out.ready & segmenter.o.valid & full & ~(beat.last & ends)),
                ]
                with m.If(piece):
                    m.d.sync += [low.eq(Mux(full, 0, segment.end[:word_bits])), ahead.eq(ahead + full), fresh.eq(ends)]
                with m.If(piece & ends & segment.final):
                    m.next = "FLUSH"
            with m.State("FLUSH"):
                # The array's last beat is left, and more beats if the offsets ended early.
                m.d.comb += beats.ready.eq(1)
                with m.If(beats.valid & beat.last):
                    m.next = "IDLE"

    def _cut(
        self, m: Module, beat: data.View, low: Signal, ahead: Signal, piece: data.View
    ) -> tuple[Signal, Signal, Signal]:
        """Cut the part of the segment out of the beat.

        Return whether it is empty, whether it takes the rest of the beat, and whether it ends the segment. A segment
        never ends before the words that are done, so one comparison with `ahead` suffices.
        """
        segment = self._segmenter.o.payload
        words = self.data_width // WORD_BITS
        end_low, end_beat = segment.end[: len(low)], segment.end[len(low) :]
        none, full, ends = Signal(), Signal(), Signal()
        stop = Signal(range(words + 1))
        m.d.comb += [
            full.eq(end_beat >= ahead),
            ends.eq(~full | ((end_beat == ahead) & (end_low == 0))),
            none.eq(~full & (end_low == low)),
            stop.eq(Mux(full, words, end_low)),
            piece.data.eq(beat.data),
            piece.mask.eq(Cat((word >= low) & (word < stop) for word in range(words))),
            piece.tile.eq(segment.tile),
            piece.tile_last.eq(ends),
            piece.last.eq(ends & segment.last),
        ]
        return none, full, ends


def _words(offset: Value, paired: Value) -> Value:
    """Return an offset in words; of pairs beyond 32 bits the highest, which is past the end of every array of pairs."""
    return Mux(paired, Mux(offset[-1], Const(-1, 32), offset << 1), offset)[:32]
