"""Record sharer: repeats a record with much work, once for each piece of its node rows (I5)."""

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from contracts.communities import PIECE_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.record_words import WordFormat, ends_record

__all__ = ["RecordSharer"]


class RecordSharer(wiring.Component):
    """Passes records on, and those with more work than `split` several times: as shares, in the order of pieces.

    All shares of a record have the same words but for their head. The first one passes like a record of one node, in
    the cycles in which its pairs come, and is kept; the others are read from memory.

    Parameters
    ----------
    sizes
        Of the words.
    work_bits
        Bits of work.

    Attributes
    ----------
    split : In(work_bits)
        Most work of a record that is issued whole; 0: all are. Constant while there are records.
    work : In(work_bits)
        Work of the record whose head is offered.
    i, o : streams of ``sizes.pair``
    rows : Out
        Node rows of the record or share whose head is offered.
    shared : Out(1)
        Pulse: a record is split.
    idle : Out(1)
        No share is left to issue.

    """

    def __init__(self, sizes: WordFormat, work_bits: int) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "split": In(work_bits),
                "work": In(work_bits),
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
        m.d.comb += [
            pair.eq(Mux(again, read.data, self.i.payload)),
            head.eq(pair.words[0].data),
            splits.eq((self.split != 0) & (self.work > self.split) & (head.nodes > size)),
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
                self.rows.eq(
                    Mux(piece == (head.nodes - 1) >> row_bits - PIECE_BITS, ((head.nodes - 1) & size - 1) + 1, size)
                ),
            ]
        with m.If(moves):
            m.d.sync += [inside.eq(~last), place.eq(following)]
            with m.If(~inside & ~again):
                m.d.sync += [keeps.eq(splits), final.eq((head.nodes - 1) >> row_bits - PIECE_BITS)]
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
