"""Record gate: puts records aside that name vertices of other chiplets until their rows come (I4, I9, R14)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.arrival_queue import ArrivalQueue
from hw.community.record_words import WordFormat, ends_record

__all__ = ["RecordGate"]


class RecordGate(wiring.Component):
    """Passes records on; while it `holds`, those that name vertices of others are put aside.

    A PE works on few records at once, one after another. With those that wait for rows it would soon have no others, so
    records leave in the order of the groups in which their last rows come, when these groups have come. Without room,
    or when nothing is held any more, they leave in that order, too. Where groups are not `ordered` there is less room:
    PEs would have nothing to do until all records have been found.

    Parameters
    ----------
    sizes
        Of the words of records.
    depth
        Pairs of words that can be put aside, more than the longest record has.
    groups
        Groups of rows, a power of two from 2 on.

    Attributes
    ----------
    holds : In(1)
        Records that name others wait, unless the rows of their group have come.
    come : In(range(groups + 1))
        Groups whose rows have come; of these no record has to wait.
    ordered : In(1)
        Groups come one after another.
    i, o : streams of ``sizes.pair``
        Whole records. One begins only when it is known whether it names others, or if the store is full.
    full : In(1)
        Nothing comes behind what is offered on `i` until that has been taken.
    others : stream of ``range(groups + 1)``
        For each record 0, or the number of its group, counted from 1, if it names vertices of others. May come as late
        as with its last pair.
    empty : Out(1)
        No record is aside.

    Raises
    ------
    ValueError
        If `depth` is too small.
    """

    def __init__(self, sizes: WordFormat, depth: int, groups: int = 2) -> None:
        if depth <= sizes.longest:
            raise ValueError(f"depth must be more than {sizes.longest}, the longest record's pairs, not {depth!r}")
        self.sizes, self.depth, self.groups = sizes, depth, groups
        #: Pairs that are put aside where groups are not ordered.
        self.unordered = max(depth // 4, min(depth, 2 * sizes.longest))
        super().__init__(
            {
                "holds": In(1),
                "come": In(range(groups + 1)),
                "ordered": In(1),
                "i": In(stream.Signature(sizes.pair)),
                "o": Out(stream.Signature(sizes.pair)),
                "full": In(1),
                "others": In(stream.Signature(range(groups + 1))),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Choose between a record that comes and one that was put aside; the choice stays until it has passed."""
        m = Module()
        m.submodules.aside = aside = ArrivalQueue(self.sizes, self.depth, self.groups)
        # The record under way; what is offered to `o` stays, so a choice is kept from there on.
        parts = {"comes": 1, "waits": 1, "returns": 1}
        kept, inside = Signal(len(parts)), Signal()
        comes, waits, returns = (Signal(name=name) for name in parts)
        holds, room, late, known = Signal(), Signal(), Signal(), self.others.valid
        last_of_i, goes = ends_record(self.i.payload), Signal()
        with m.If(inside):
            m.d.comb += [sig.eq(bit) for sig, bit in zip((comes, waits, returns), kept, strict=True)]
        with m.Else():
            m.d.comb += [
                late.eq(known & (self.others.payload != 0) & holds),
                returns.eq(aside.o.valid),
                waits.eq(~returns & self.i.valid & late & room),
                # A record that does not fit into the store does not wait for its end.
                comes.eq(~returns & self.i.valid & (known | (self.full & ~last_of_i)) & ~late),
            ]
        last, moves, begins = Signal(), Signal(), Signal()
        m.d.comb += [
            self.o.payload.eq(Mux(returns, aside.o.payload, self.i.payload)),
            goes.eq(comes & (known | ~last_of_i)),
            self.o.valid.eq(Mux(returns, aside.o.valid, goes & self.i.valid)),
            aside.i.payload.pair.eq(self.i.payload),
            aside.i.payload.group.eq(self.others.payload - 1),
            aside.limit.eq(Mux(holds & room, self.come, self.groups)),
            aside.i.valid.eq(waits & self.i.valid),
            aside.o.ready.eq(returns & self.o.ready),
            self.i.ready.eq((goes & self.o.ready) | (waits & aside.i.ready)),
            last.eq(Mux(returns, ends_record(aside.o.payload), last_of_i)),
            moves.eq((self.o.valid & self.o.ready) | (aside.i.valid & aside.i.ready)),
            begins.eq(~inside & (comes | waits | returns)),
            self.others.ready.eq((comes | waits) & moves & last),
            self.empty.eq(aside.level == 0),
        ]
        m.d.sync += [
            holds.eq(self.holds),
            room.eq(aside.level < Mux(self.ordered, self.depth, self.unordered) - self.sizes.longest),
        ]
        with m.If(begins):
            m.d.sync += [inside.eq(1), *(bit.eq(sig) for bit, sig in zip(kept, (comes, waits, returns), strict=True))]
        with m.If(moves & last):
            m.d.sync += inside.eq(0)
        m.d.sync += [
            Cover(begins & returns & self.i.valid & ~holds, "what was put aside goes first"),
            Cover(begins & comes & holds & ~self.empty, "a record overtakes"),
            Cover(begins & returns & holds, "no room"),
        ]
        return m
