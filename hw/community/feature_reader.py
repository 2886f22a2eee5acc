"""Feature reader: fetches the features of vertices, each once, for the combiner with the least work (I9).

Rows that are combined already need no combiner: a `hw.community.combined_reader.CombinedReader` fetches them.
"""

import itertools
from functools import reduce
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import ROW_BYTES, SCALE, Error
from contracts.scale import EXPONENT_MAX, MANTISSA_FRACTION
from hw.community.combined_reader import CombinedRow
from hw.community.formats import CommunityConfig
from hw.community.node_table import Lookup
from hw.community.row_progress import CombinerRow
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["FeatureReader", "FeatureSettings"]

_WORD_BITS = 32
#: Beats of a row that are asked for at once.
_PIECE = 4
#: Rows that have been looked up and wait to be asked for, and cycles of a look-up.
_ROWS, _STAGES = 16, 4


class FeatureSettings(data.StructLayout):
    """Location of features: ``features`` in words; ``sparse``; ``words`` of a dense row, and ``stride`` between rows.

    ``most``: largest number of words of a sparse row. ``first``: VID of the first entry of the node table, and of the
    first row of features. ``combined``: of the ``vertices`` from ``first`` on only those behind the first ``ahead``
    have features; all other vertices have rows that are combined, from ``rows`` on, of ``row_words`` words with
    ``row_stride`` between them, one for every VID from 0. ``placed``: the node table gives the granule of each of
    these, from `rows`; ``shifted``: those of other vertices than the ``vertices`` stand an entry further on.
    ``rooted``: each of the ``vertices`` has an own row before its combined one. If all vertices are combined those lie
    at ``features``, that of the first vertex with the number ``first_own``; if none is, both rows are made of the same
    features, and the factor in the node table is that of the own row; the exponents of the factors, which is 1 for the
    combined row, are ``own_more`` and ``row_more`` larger. ``in_turn``: a row of features begins when the one
    before has been asked for as a whole.
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "features": RangeRequest(address_width)["address"].shape,
                "sparse": 1,
                "words": 17,
                "stride": 17,
                "most": 17,
                "first": 32,
                "combined": 1,
                "rows": RangeRequest(address_width)["address"].shape,
                "row_words": 17,
                "row_stride": 17,
                "placed": 1,
                "shifted": 1,
                "rooted": 1,
                "in_turn": 1,
                "own_more": range(EXPONENT_MAX + 1),
                "row_more": range(EXPONENT_MAX + 1),
                "first_own": 32,
                "vertices": 32,
                "ahead": 32,
            }
        )


class FeatureReader(wiring.Component):
    """Looks a vertex up, gives it to the combiner to which fewest beats are on their way, and reads its range.

    A beat is asked for only if its combiner has room for it, so no combiner stalls another one. Long rows are asked for
    in pieces, so that the rows of several combiners come in turn. A row takes a cycle, two if it is sparse. In a rooted
    layer a vertex has two rows, its own one first; if both are made here one combiner gets them, so that they leave it
    in that order.

    Parameters
    ----------
    config : CommunityConfig
    combiners
        Number of combiners, at least 1. There is room for ``config.queue`` beats of each.
    address_width
        Of the memory port, in bits.
    depth
        Beats requested or waiting, see `hw.memory.fetcher.Fetcher`.

    Attributes
    ----------
    settings : In
        `FeatureSettings`, constant while vertices are requested.
    i : stream of ``config.wish``
        Vertices.
    o : stream of ``config.fed_beat``, always ready
        Features; each combiner gets whole rows. The address is a ``config.tag``.
    taken : In(1) for every combiner
        Pulse: it has room for another beat.
    combined : stream of `CombinedRow`
        Rows that are combined already.
    go : In(1)
        Features may leave: weights and biases are there.
    given : Out(CombinerRow)
        A row is asked for; its combiner has it from then on until it leaves that.
    vertex, found
        See `hw.community.node_table.NodeTable`.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER`` with the vertex, if its range is longer than a row; it is read as empty.
    request, beat
        Port of the read arbiter.

    Raises
    ------
    ValueError
        If `combiners` is below 1.
    """

    def __init__(self, config: CommunityConfig, combiners: int, address_width: int = 32, depth: int = 128) -> None:
        if combiners < 1:
            raise ValueError(f"combiners must be at least 1, not {combiners!r}")
        self.config, self.combiners, self.address_width, self.depth = config, combiners, address_width, depth
        self._reader = RangeReader(address_width, config.data_width, depth)
        self._words_of_beat = exact_log2(config.data_width // _WORD_BITS)
        #: The rest of a row: its address, and the words up to its end from the beat on in which that lies; the beats of
        #: its next piece, and whether it has several.
        self._span = data.StructLayout(
            {"address": RangeRequest(address_width)["address"].shape, "span": 18, "beats": range(_PIECE + 1), "long": 1}
        )
        #: A row to ask for, the factor of its sums and its tag; whether it is summed, and combined.
        self._row = data.StructLayout(
            {"range": self._span, "source": struct(SCALE), "tag": config.tag, "own": 1, "combined": 1}
        )
        #: What is on its way: a piece of a row, which may begin or end it.
        self._piece = data.StructLayout(
            {
                "combiner": range(max(2, combiners)),
                "begins": 1,
                "ends": 1,
                "source": struct(SCALE),
                "tag": config.tag,
            }
        )
        super().__init__(
            {
                "settings": In(FeatureSettings(address_width)),
                "i": In(stream.Signature(config.wish)),
                "o": Out(stream.Signature(config.fed_beat(combiners), always_ready=True)),
                "taken": In(1).array(combiners),
                "combined": Out(stream.Signature(CombinedRow(config, address_width))),
                "go": In(1),
                "given": Out(CombinerRow(combiners)),
                "vertex": Out(32),
                "found": In(Lookup),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "request": Out(stream.Signature(ReadRequest(address_width, config.data_width))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Look up, ask, hand out."""
        m = Module()
        m.submodules.reader = reader = self._reader
        m.submodules.rows = rows = Queue(self._row, _ROWS)
        m.submodules.pieces = pieces = Queue(self._piece, self.depth)
        wiring.connect(m, reader.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beat), reader.beat)
        self._look_up(m, rows)
        self._ask(m, rows, reader, pieces)
        self._hand_out(m, reader, pieces)
        return m

    def _look_up(self, m: Module, rows: Queue) -> None:
        """Look a vertex up, for its entry and, of a sparse row, for the next one's offset, which ends the row."""
        settings, wish = self.settings, self.i.payload
        own, summed, combined, root = Signal(32), Signal(), Signal(), Signal()
        # The second cycle of a sparse row, which always follows the first one; the own row of the vertex has been.
        sparse, ends, behind, goes, begins = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            own.eq(wish.vid - settings.first),
            summed.eq(own < settings.vertices),
            combined.eq(settings.combined & (~summed | (own < settings.ahead))),
            sparse.eq(settings.sparse & ~combined),
            root.eq(settings.rooted & summed & ~behind),
            # A completed look-up always has room.
            goes.eq(self.i.valid & (ends | (rows.level < _ROWS - _STAGES))),
            begins.eq(goes & ~ends),
            self.vertex.eq(own + (ends | (settings.shifted & ~summed))),
            self.i.ready.eq(goes & (ends | ~sparse) & ~root),
        ]
        with m.If(goes):
            m.d.sync += ends.eq(sparse & ~ends)
            with m.If(ends | ~sparse):
                m.d.sync += behind.eq(root)

        number, stride, product, at = Signal(32), Signal(17), Signal(32), Signal(32)
        # The table answers late: its entry in a register, and that of the cycle before.
        found, entry = Signal(Lookup), Signal(Lookup)
        tags = [Signal(self.config.tag, name=f"tag_{stage}") for stage in range(_STAGES - 1)]
        valid = [Signal(name=f"valid_{stage}") for stage in range(_STAGES)]
        passes, owns = ([Signal(name=f"{name}_{n}") for n in range(_STAGES - 1)] for name in ("passes", "owns"))
        for name in self.config.wish.members:
            m.d.sync += tags[0][name].eq(wish[name])
        m.d.sync += [
            valid[0].eq(begins),
            passes[0].eq(combined),
            owns[0].eq(summed),
            tags[0].root.eq(root),
            number.eq(Mux(combined, Mux(root, own + settings.first_own, wish.vid), own)),
            stride.eq(Mux(combined, settings.row_stride, settings.stride)),
            found.eq(self.found),
            product.eq(number * stride),
            entry.eq(found),
            at.eq(product),
        ]
        for stages in (valid, passes, owns, tags):
            m.d.sync += [after.eq(before) for before, after in itertools.pairwise(stages)]
        # Dense rows begin at a granule, whatever the table holds.
        place = entry.offset << exact_log2(ROW_BYTES * 8 // _WORD_BITS)
        # If a row's end lies before its start, its length wraps to almost 2^33 words.
        words, wrong, bad = Signal(33), Signal(), Signal()
        m.d.comb += [words.eq(found.offset - entry.offset), wrong.eq(words > settings.most)]
        row, length, tag, passing, by_offset = Signal(self._row), Signal(17), tags[-1], passes[-1], Signal()
        # Combined rows beside own ones that are made.
        beside = settings.rooted & ~passing & ~tag.root
        m.d.comb += by_offset.eq(settings.sparse & ~passing)
        m.d.sync += [
            bad.eq(by_offset & wrong),
            row.range.address.eq(
                Mux(passing & ~tag.root, settings.rows, settings.features)
                + Mux(by_offset, entry.offset, Mux(settings.placed & passing & ~tag.root, place, at))
            ),
            length.eq(Mux(by_offset, Mux(wrong, 0, words), Mux(passing, settings.row_words, settings.words))),
            row.source.mantissa.eq(Mux(beside, 1 << MANTISSA_FRACTION, entry.source.mantissa)),
            row.source.exponent.eq(
                Mux(beside, settings.row_more, entry.source.exponent + Mux(tag.root, settings.own_more, 0))
            ),
            row.combined.eq(passing),
            row.own.eq(owns[-1]),
            row.tag.eq(tag),
            row.tag.scale.eq(entry.destination),
        ]
        m.d.comb += [
            rows.i.valid.eq(valid[-1]),
            rows.i.payload.eq(row),
            *self._measure(rows.i.payload.range, row.range.address[: self._words_of_beat] + length),
            self.error.valid.eq(valid[-1] & bad),
            self.error.payload.code.eq(Error.OFFSET_ORDER),
            self.error.payload.info.eq(row.tag.vid),
        ]
        m.d.sync += [
            Assert(~rows.i.valid | rows.i.ready, "a row that has been looked up has room"),
            Cover(self.error.valid, "offsets out of order"),
            Cover(begins & combined & (own < settings.ahead), "a vertex was combined before"),
        ]

    def _least(self, m: Module, loads: Any, stays: Signal) -> Signal:
        """Return the combiner with the smallest load in the cycle before, or the same one again if it `stays`."""
        least = Signal(range(max(2, self.combiners)))
        pairs = [(load, number) for number, load in enumerate(loads)]

        def lower(one: Any, other: Any) -> Any:
            smaller = Signal()
            m.d.comb += smaller.eq(other[0] < one[0])
            return Mux(smaller, other[0], one[0]), Mux(smaller, other[1], one[1])

        while len(pairs) > 1:
            pairs = [reduce(lower, pairs[n : n + 2]) for n in range(0, len(pairs), 2)]
        with m.If(~stays):
            m.d.sync += least.eq(pairs[0][1])
        return least

    def _ask(self, m: Module, rows: Queue, reader: RangeReader, pieces: Queue) -> None:
        """Ask for a row's first piece, or for the next piece of a row that has begun."""
        bits, config = self._words_of_beat, self.config
        room = config.queue
        m.submodules.ranges = ranges = Slice(RangeRequest(self.address_width))
        wiring.connect(m, ranges.o, reader.i)
        index = range(self.combiners)
        # Of each combiner: beats that are on their way or that it has not begun, and what is missing of its row.
        owed = [Signal(range(room + 1), name=f"owed_{n}") for n in index]
        rests = [Signal(self._span, name=f"rest_{n}") for n in index]
        begun, free = Signal(len(index)), Signal(len(index))
        # The row behind a vertex's own one goes where that went.
        stays, stayed = Signal(), Signal()
        least = self._least(m, [Cat(count, bit) for count, bit in zip(owed, begun, strict=True)], stays)

        # Rests have their turns.
        turn = Signal(range(max(2, self.combiners)))
        chosen, continues, asks, can, passes, starts = Signal.like(turn), *(Signal() for _ in range(5))
        range_ = Signal(self._span)
        with m.If(asks & ~continues):
            m.d.comb += stays.eq(rows.o.payload.tag.root)
        with m.Else():
            m.d.comb += stays.eq(stayed)
        m.d.sync += stayed.eq(stays)
        m.d.sync += turn.eq(Mux(turn == self.combiners - 1, 0, turn + 1))
        m.d.comb += [
            can.eq(ranges.i.ready & pieces.i.ready),
            continues.eq(begun.bit_select(turn, 1) & free.bit_select(turn, 1)),
            chosen.eq(Mux(continues, turn, least)),
            passes.eq(rows.o.valid & rows.o.payload.combined),
            starts.eq(free.bit_select(least, 1) & ~begun.bit_select(least, 1) & ~(self.settings.in_turn & begun.any())),
            asks.eq(can & (continues | (rows.o.valid & ~passes & starts))),
            range_.eq(Mux(continues, Array(rest.as_value() for rest in rests)[turn], rows.o.payload.range.as_value())),
            self.combined.valid.eq(passes),
            self.combined.payload.range.address.eq(rows.o.payload.range.address),
            self.combined.payload.range.words.eq(self.settings.row_words),
            self.combined.payload.tag.eq(rows.o.payload.tag),
            self.combined.payload.own.eq(rows.o.payload.own),
            rows.o.ready.eq(Mux(passes, self.combined.ready, asks & ~continues)),
            self.given.valid.eq(asks & ~continues),
            self.given.combiner.eq(chosen),
            self.given.vid.eq(rows.o.payload.tag.vid),
        ]
        first, most = range_.address[:bits], _PIECE << bits
        m.d.comb += [
            ranges.i.valid.eq(asks),
            ranges.i.payload.address.eq(range_.address),
            ranges.i.payload.words.eq(Mux(range_.long, most, range_.span[: exact_log2(most) + 1]) - first),
            pieces.i.valid.eq(asks),
            pieces.i.payload.combiner.eq(chosen),
            pieces.i.payload.begins.eq(~continues),
            pieces.i.payload.ends.eq(~range_.long),
            pieces.i.payload.source.eq(rows.o.payload.source),
            pieces.i.payload.tag.eq(rows.o.payload.tag),
        ]
        for n, (count, taken) in enumerate(zip(owed, self.taken, strict=True)):
            m.d.sync += count.eq(count + Mux(asks & (chosen == n), range_.beats, 0) - taken)
            # From what it was a cycle ago: one that has been asked for meanwhile may have taken a whole piece.
            m.d.sync += free[n].eq(Mux(asks & (chosen == n), count <= room - 2 * _PIECE, count <= room - _PIECE))
        for n, rest in enumerate(rests):
            with m.If(asks & (chosen == n)):
                m.d.sync += [
                    begun[n].eq(range_.long),
                    rest.address.eq(Cat(range_.address[:bits] & 0, range_.address[bits:] + _PIECE)),
                    *self._measure(rest, range_.span, most),
                ]
        m.d.sync += [
            Cover(asks & continues & rows.o.valid, "a piece of a row that has begun comes before another row"),
            Cover(rows.o.valid & ~asks, "a row waits"),
        ]

    def _measure(self, row: Any, span: Value, read: int = 0) -> tuple[Any, ...]:
        """Assign what is missing of a row behind the words that are `read`, whole pieces: an empty range is a beat."""
        bits = self._words_of_beat
        long, last = span > read + (_PIECE << bits), (span[: exact_log2(_PIECE) + bits] - 1)[bits:]
        return (
            row.span.eq(span - read),
            row.long.eq(long),
            row.beats.eq(Mux(long, _PIECE, Mux(span == 0, 1, last[: exact_log2(_PIECE)] + 1))),
        )

    def _hand_out(self, m: Module, reader: RangeReader, pieces: Queue) -> None:
        """Give beats to their combiners, which have room."""
        beat, piece = reader.o.payload, pieces.o.payload
        fresh, moves = Signal(init=1), Signal()
        m.d.comb += [
            moves.eq(reader.o.valid & pieces.o.valid & self.go),
            reader.o.ready.eq(pieces.o.valid & self.go),
            pieces.o.ready.eq(moves & beat.last),
        ]
        task = self.o.payload.beat
        m.d.comb += [
            self.o.valid.eq(moves),
            self.o.payload.combiner.eq(piece.combiner),
            task.data.eq(beat.data),
            task.mask.eq(Cat(bit.replicate(2) for bit in beat.mask)),
            task.first.eq(fresh & piece.begins),
            task.last.eq(beat.last & piece.ends),
            task.scale.eq(piece.source),
            self.config.tag_of(task).eq(piece.tag),
        ]
        with m.If(moves):
            m.d.sync += fresh.eq(beat.last)
        m.d.sync += Cover(reader.o.valid & pieces.o.valid & ~self.go, "features wait")
