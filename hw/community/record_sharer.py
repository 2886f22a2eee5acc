"""Record sharer: repeats an extreme record, once for each piece of its node rows (I5)."""

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from contracts.communities import PIECE_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.record_words import WordFormat, ends_record

__all__ = ["RecordSharer"]


class RecordSharer(wiring.Component):
    """Passes records on, and extreme ones several times: as shares, in the order of pieces.

    All shares of a record have the same words but for their head. The first one passes like a record of one node, in
    the cycles in which its pairs come, and is kept; the others are read from memory.

    Parameters
    ----------
    sizes
        Of the words; with ``shares``.

    Attributes
    ----------
    extreme : In(1)
        The record whose head is taken is to be split, if it has more rows than a piece. It may change until the head is
        taken, and with it ``o`` and ``rows``.
    i, o : streams of ``sizes.pair``
    rows : Out(sizes.count_bits)
        Node rows of the record or share whose head is offered.
    shared : Out(1)
        Pulse: a record is split.
    idle : Out(1)
        No share is left to issue.
    """

    def __init__(self, sizes: WordFormat) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "extreme": In(1),
                "i": In(stream.Signature(sizes.pair)),
                "o": Out(stream.Signature(sizes.pair)),
                "rows": Out(sizes.count_bits),
                "shared": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the first share, then read it again until the last piece is out."""
        m = Module()
        sizes = self.sizes
        row_bits = ceil_log2(sizes.width)
        size = 1 << row_bits - PIECE_BITS
        m.submodules.words = words = memory.Memory(
            shape=sizes.pair, depth=sizes.longest, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = words.write_port(), registered_read(m, words)
        again, loaded, inside, splits = Signal(), Signal(), Signal(), Signal()
        place, following = Signal(range(sizes.longest)), Signal(range(sizes.longest))
        piece, final, keeps = Signal(PIECE_BITS), Signal(PIECE_BITS), Signal()
        pair, head, out = Signal(sizes.pair), Signal(sizes.head), Signal(sizes.head)
        moves, last, shared = Signal(), Signal(), Signal()
        last_piece = (head.nodes - 1) >> row_bits - PIECE_BITS
        m.d.comb += [
            pair.eq(Mux(again, read.data, self.i.payload)),
            head.eq(pair.words[0].data),
            splits.eq(self.extreme & (head.nodes > size)),
            shared.eq(again | splits),
            out.eq(head),
            self.o.payload.eq(pair),
            self.o.valid.eq(Mux(again, loaded, self.i.valid)),
            self.i.ready.eq(self.o.ready & ~again),
            moves.eq(self.o.valid & self.o.ready),
            last.eq(ends_record(pair)),
            self.rows.eq(head.nodes),
            self.shared.eq(moves & ~inside & ~again & splits),
            self.idle.eq(~again),
            write.en.eq(moves & ~again),
            write.addr.eq(place),
            write.data.eq(pair),
            following.eq(Mux(last, 0, place + 1)),
            # A word that is offered stays where it is read from.
            read.addr.eq(Mux(moves & again, following, place)),
            read.en.eq(1),
        ]
        with m.If(shared & ~inside):
            m.d.comb += [
                out.vid.eq(Cat(Const(1, 1), piece)),
                self.o.payload.words[0].data.eq(out),
                self.rows.eq(Mux(piece == last_piece, ((head.nodes - 1) & size - 1) + 1, size)),
            ]
        with m.If(moves):
            m.d.sync += [inside.eq(~last), place.eq(following)]
            with m.If(~inside & ~again):
                m.d.sync += [keeps.eq(splits), final.eq(last_piece)]
            with m.If(last):
                # A record of several nodes has several pairs, so `keeps` is that of its head.
                m.d.sync += [piece.eq(piece + 1), again.eq(1), loaded.eq(again)]
                with m.If(Mux(again, piece == final, ~keeps | ~inside)):
                    m.d.sync += [piece.eq(0), again.eq(0)]
        with m.If(again & ~loaded):
            m.d.sync += loaded.eq(1)
        m.d.sync += [
            Cover(self.shared, "a record is split"),
            Cover(again & self.o.valid & ~self.o.ready, "a share waits for its PE"),
        ]
        return m
