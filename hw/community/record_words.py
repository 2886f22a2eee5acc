"""Record words: the short form in which records are kept, and the way from beats into it and back (I4, I9)."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from contracts import RECORD_HEADER, VID_BITS
from contracts.communities import PIECE_BITS
from hw.contracts import struct
from hw.locator.formats import RecordBeat

__all__ = ["RecordPacker", "RecordUnpacker", "WordFormat", "WordJoiner", "WordSplitter", "ends_record"]

#: Columns of a bitmap row in a word.
_COLUMNS = 32


@dataclass(frozen=True)
class WordFormat:
    """Sizes of record words.

    A record is a head of counts and flags, then pairs of node VIDs, pairs of hub VIDs, and for every bitmap row as many
    words as it needs for its columns. Most records have one node and few hubs. Its VID is in the head then, and its row
    is left out: all bits are set but that of the node in parts after the first. The round is left out, and the number
    of a part after the first becomes 1. With `shares`, the VID's place in the head of a share has a bit that is set,
    and its piece.

    Parameters
    ----------
    width
        Most nodes and hubs of a record together.
    vid_bits
        Bits of a VID.
    shares
        Whether records may be shares of others (I5).
    """

    width: int
    vid_bits: int
    shares: bool = False

    @property
    def count_bits(self) -> int:
        """Bits of a number of nodes or hubs."""
        return bits_for(self.width)

    @property
    def head(self) -> data.StructLayout:
        """Layout of a record's first word."""
        counts = {"nodes": self.count_bits, "hubs": self.count_bits}
        vid = max(self.vid_bits, 1 + PIECE_BITS) if self.shares else self.vid_bits
        return data.StructLayout({**counts, "later": 1, "last_part": 1, "hub_edges": 1, "vid": vid})

    @property
    def word(self) -> data.StructLayout:
        """Layout of a word; ``end``: of a section or a row, ``last``: of its record."""
        bits = max(self.head.size, 2 * self.vid_bits, _COLUMNS)
        return data.StructLayout({"data": bits, "end": 1, "last": 1})

    @property
    def pair(self) -> data.StructLayout:
        """Layout of what is kept in a row of a memory: a record's next two words; ``both``: not the first alone."""
        return data.StructLayout({"words": data.ArrayLayout(self.word, 2), "both": 1})

    @property
    def longest(self) -> int:
        """Pairs of the longest record, one of nodes alone."""
        words = 1 + -(-self.width // 2) + self.width * -(-self.width // _COLUMNS)
        return -(-words // 2)

    def short(self, nodes: Value, hubs: Value) -> Value:
        """Return whether the VID of a record's node is in the head and its row left out."""
        return (nodes == 1) & (hubs < _COLUMNS)


def ends_record(pair: Any) -> Value:
    """Return whether a pair of words (`WordFormat.pair`) is the last of its record."""
    return ~pair.both | pair.words[1].last


class RecordPacker(wiring.Component):
    """Turns beats of records into words.

    Parameters
    ----------
    sizes
        Of the words.

    Attributes
    ----------
    first, vertices : In
        Own VIDs, from the first one; constant while records come.
    i : stream of `RecordBeat`
        Records of at least one node and at most ``width`` nodes and hubs, without the end of their stream.
    o : stream of ``sizes.word``
    idle : Out(1)
        No record has begun and not ended.
    others : Out(vid_bits + 1)
        With the last word of a record: 0, or if it names vertices that are not own ones, the largest distance of one of
        these behind the own ones, counted from 1.
    """

    def __init__(self, sizes: WordFormat) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "first": In(sizes.vid_bits),
                "vertices": In(sizes.vid_bits + 1),
                "i": In(stream.Signature(RecordBeat)),
                "o": Out(stream.Signature(sizes.word)),
                "idle": Out(1),
                "others": Out(sizes.vid_bits + 1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through the sections of a record."""
        m = Module()
        sizes, beat, word = self.sizes, self.i.payload, self.o.payload
        header, head = Signal(struct(RECORD_HEADER)), Signal(sizes.head)
        kept, short = Signal(sizes.head, reset_less=True), Signal()
        # Pairs of VIDs behind this one; the last word of a row, and the one that is due.
        left, final = Signal(sizes.count_bits), Signal(range(max(2, -(-sizes.width // _COLUMNS))))
        place = Signal.like(final)
        # A beat that makes no word does not wait for its taker.
        drops, through, moves = Signal(), Signal(), Signal()
        vids = [beat.data.word_select(n, VID_BITS)[: sizes.vid_bits] for n in range(2)]
        pair = Cat(vids)
        # The beat's second VID counts; how far vertices of the record so far, and of this beat, lie outside.
        second, before, other = Signal(), Signal.like(self.others), Signal.like(self.others)
        outside = [self._outside(m, n, vid) for n, vid in enumerate(vids)]
        m.d.comb += self.others.eq(Mux(before > other, before, other))
        m.d.comb += [
            header.eq(beat.data),
            head.nodes.eq(header.nodes),
            head.hubs.eq(header.hubs),
            head.later.eq(header.part != 0),
            head.last_part.eq(header.last_part),
            head.hub_edges.eq(header.hub_edges),
            through.eq(self.o.ready | drops),
            self.i.ready.eq(through),
            self.o.valid.eq(self.i.valid & ~drops),
            moves.eq(self.i.valid & through),
            word.data.eq(pair),
            word.end.eq(left == 0),
        ]

        def names(count: Value) -> None:
            """Look whether a beat of the section of so many VIDs names others."""
            m.d.comb += [
                second.eq((left != 0) | ~count[0]),
                other.eq(Mux(second & (outside[1] > outside[0]), outside[1], outside[0])),
            ]
            with m.If(moves):
                m.d.sync += before.eq(self.others)

        with m.FSM() as fsm:
            with m.State("HEAD"):
                alone = sizes.short(head.nodes, head.hubs)
                m.d.comb += [word.data.eq(head), word.end.eq(0), drops.eq(alone)]
                m.d.sync += [
                    kept.eq(head),
                    short.eq(alone),
                    before.eq(0),
                    left.eq((head.nodes - 1) >> 1),
                    final.eq((head.nodes + head.hubs - 1) // _COLUMNS),
                ]
                with m.If(moves):
                    m.next = "NODES"
            with m.State("NODES"):
                names(kept.nodes)
                with m.If(short):
                    m.d.comb += [
                        word.data.eq(Cat(kept.as_value()[: -len(kept.vid)], pair[: sizes.vid_bits])),
                        word.last.eq(kept.hubs == 0),
                    ]
                with m.If(moves):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.d.sync += left.eq((kept.hubs - 1) >> 1)
                        m.next = "HUBS"
                        with m.If(kept.hubs == 0):
                            m.next = "ROWS"
            with m.State("HUBS"):
                names(kept.hubs)
                m.d.comb += word.last.eq(short & (left == 0))
                with m.If(moves):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.next = "ROWS"
            with m.State("ROWS"):
                row_end = place == final
                m.d.comb += [
                    word.data.eq(beat.data.word_select(place[0], _COLUMNS)),
                    word.end.eq(row_end),
                    word.last.eq(beat.last & row_end),
                    drops.eq(short),
                    self.i.ready.eq(through & (row_end | place[0])),
                ]
                with m.If(moves):
                    m.d.sync += place.eq(Mux(row_end, 0, place + 1))
                    with m.If(beat.last & row_end):
                        m.next = "HEAD"
        m.d.comb += self.idle.eq(fsm.ongoing("HEAD"))
        m.d.sync += [
            Cover(moves & short & fsm.ongoing("ROWS"), "a row is left out"),
            Cover(moves & place[0] & fsm.ongoing("ROWS"), "a beat makes two words"),
        ]
        return m

    def _outside(self, m: Module, number: int, vid: Value) -> Signal:
        """Return 0 for an own vertex, else its distance behind these, from 1; round the end of VIDs, if it is lower."""
        bits = self.sizes.vid_bits
        from_first, outside = Signal(bits, name=f"from_first_{number}"), Signal(bits + 1, name=f"outside_{number}")
        m.d.comb += [
            from_first.eq(vid - self.first),
            outside.eq(Mux(from_first >= self.vertices, from_first - self.vertices + 1, 0)),
        ]
        return outside


class RecordUnpacker(wiring.Component):
    """Turns words of records back into beats.

    Parameters
    ----------
    sizes
        Of the words.

    Attributes
    ----------
    i : stream of ``sizes.word``
    o : stream of `RecordBeat`
    idle : Out(1)
        No record has begun and not ended.
    """

    def __init__(self, sizes: WordFormat) -> None:
        self.sizes = sizes
        super().__init__(
            {"i": In(stream.Signature(sizes.word)), "o": Out(stream.Signature(RecordBeat)), "idle": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """Step through the sections of a record, of which the words tell the ends."""
        m = Module()
        sizes, word, beat = self.sizes, self.i.payload, self.o.payload
        head, header = Signal(sizes.head), Signal(struct(RECORD_HEADER))
        short, linked = Signal(), Signal()
        # Lower half of a beat: that of a row, or the row of one node, into which two more hubs are shifted at a time.
        low, upper = Signal(_COLUMNS, reset_less=True), Signal()
        moves, vids = Signal(), Signal(2 * VID_BITS)
        m.d.comb += [
            head.eq(word.data),
            header.nodes.eq(head.nodes),
            header.hubs.eq(head.hubs),
            header.part.eq(head.later),
            header.last_part.eq(head.last_part),
            header.hub_edges.eq(head.hub_edges),
            *(vids.word_select(n, VID_BITS).eq(word.data.word_select(n, sizes.vid_bits)) for n in range(2)),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            moves.eq(self.i.valid & self.o.ready),
        ]
        if sizes.shares:
            shared = Signal()
            m.d.comb += [
                shared.eq((head.nodes != 1) & head.vid[0]),
                header.shared.eq(shared),
                header.piece.eq(Mux(shared, head.vid[1 : 1 + PIECE_BITS], 0)),
            ]
        with m.FSM() as fsm:
            with m.State("HEAD"):
                alone = sizes.short(head.nodes, head.hubs)
                m.d.comb += [beat.data.eq(header), self.i.ready.eq(self.o.ready & ~alone)]
                # The node, and the hubs of one pair.
                few = Mux(head.hubs[0], 0b01, Cat((head.hubs != 0).replicate(2)))
                m.d.sync += [short.eq(alone), linked.eq(head.hubs != 0), low.eq(Cat(~head.later, few))]
                with m.If(moves):
                    m.next = "NODES"
            with m.State("NODES"):
                m.d.comb += beat.data.eq(Mux(short, head.vid, vids))
                with m.If(moves & (short | word.end)):
                    m.next = "ROWS"
                    with m.If(linked):
                        m.next = "HUBS"
            with m.State("HUBS"):
                m.d.comb += beat.data.eq(vids)
                with m.If(moves):
                    with m.If(word.end):
                        m.next = "ROWS"
                    with m.Else():
                        m.d.sync += low.eq(Cat(low[0], 1, 1, low[1:-2]))
            with m.State("ROWS"):
                whole, columns = upper | word.end, word.data[:_COLUMNS]
                m.d.comb += beat.data.eq(Mux(short | upper, Cat(low, Mux(short, 0, columns)), columns))
                with m.If(short):
                    m.d.comb += [beat.last.eq(1), self.o.valid.eq(1), self.i.ready.eq(0)]
                    with m.If(self.o.ready):
                        m.next = "HEAD"
                with m.Else():
                    m.d.comb += [
                        beat.last.eq(word.last),
                        self.o.valid.eq(self.i.valid & whole),
                        self.i.ready.eq(self.o.ready | ~whole),
                    ]
                    with m.If(self.i.valid & self.i.ready):
                        m.d.sync += [low.eq(columns), upper.eq(~whole)]
                        with m.If(word.last):
                            m.next = "HEAD"
        m.d.comb += self.idle.eq(fsm.ongoing("HEAD"))
        m.d.sync += [
            Cover(moves & short & fsm.ongoing("ROWS"), "a row is made"),
            Cover(moves & upper, "a beat of two words"),
        ]
        return m


class WordJoiner(wiring.Component):
    """Joins the words of each record into pairs; the last one may be alone.

    Parameters
    ----------
    sizes
        Of the words.

    Attributes
    ----------
    i : stream of ``sizes.word``
    o : stream of ``sizes.pair``
    """

    def __init__(self, sizes: WordFormat) -> None:
        self.sizes = sizes
        super().__init__({"i": In(stream.Signature(sizes.word)), "o": Out(stream.Signature(sizes.pair))})

    def elaborate(self, platform: object) -> Module:
        """Keep the first word until the second is there."""
        m = Module()
        first, waits, pair = Signal(self.sizes.word, reset_less=True), Signal(), self.o.payload
        complete = waits | self.i.payload.last
        m.d.comb += [
            pair.words[0].eq(Mux(waits, first, self.i.payload)),
            pair.words[1].eq(self.i.payload),
            pair.both.eq(waits),
            self.o.valid.eq(self.i.valid & complete),
            self.i.ready.eq(self.o.ready | ~complete),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [first.eq(self.i.payload), waits.eq(~complete)]
        return m


class WordSplitter(wiring.Component):
    """Offers the words of pairs one after the other.

    Parameters
    ----------
    sizes
        Of the words.

    Attributes
    ----------
    i : stream of ``sizes.pair``
        Stays until its last word is taken.
    o : stream of ``sizes.word``
    """

    def __init__(self, sizes: WordFormat) -> None:
        self.sizes = sizes
        super().__init__({"i": In(stream.Signature(sizes.pair)), "o": Out(stream.Signature(sizes.word))})

    def elaborate(self, platform: object) -> Module:
        """Count the words of a pair."""
        m = Module()
        second, pair = Signal(), self.i.payload
        final = second | ~pair.both
        m.d.comb += [
            self.o.payload.eq(Mux(second, pair.words[1], pair.words[0])),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & final),
        ]
        with m.If(self.i.valid & self.o.ready):
            m.d.sync += second.eq(~final)
        return m
