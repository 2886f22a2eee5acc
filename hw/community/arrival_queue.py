"""Arrival queue: keeps records that wait for rows of other chiplets, by the group of their last row (R14, I9)."""

from amaranth.hdl import Assert, Cover, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read
from hw.community.record_words import WordFormat, ends_record
from hw.lowest import lowest_one
from hw.stream.queue import Queue

__all__ = ["ArrivalQueue"]


class ArrivalQueue(wiring.Component):
    """A queue for each group, all in one memory; the first record of the lowest group leaves.

    A queue is a list of cells. The cell behind its last pair of words is taken already, so each pair is written
    together with the place of the next one.

    Parameters
    ----------
    sizes
        Of the words of records.
    depth
        Pairs of words that are kept.
    groups
        Groups, a power of two from 2 on.

    Attributes
    ----------
    i : stream of `entry`
        Whole records.
    limit : In(range(groups + 1))
        Only records of groups below it begin to leave.
    o : stream of ``sizes.pair``
        Whole records.
    level : Out(range(depth + 1))
        Pairs that are kept.

    Raises
    ------
    ValueError
        If `depth` or `groups` is too small.
    """

    def __init__(self, sizes: WordFormat, depth: int, groups: int) -> None:
        if depth < sizes.longest:
            raise ValueError(f"depth must be at least {sizes.longest}, the longest record's pairs, not {depth!r}")
        if groups < 2 or groups & (groups - 1):
            raise ValueError(f"groups must be a power of two from 2 on, not {groups!r}")
        self.sizes, self.depth, self.groups = sizes, depth, groups
        #: A ``pair`` of words, and the ``group`` of its record.
        self.entry = data.StructLayout({"pair": sizes.pair, "group": range(groups)})
        super().__init__(
            {
                "i": In(stream.Signature(self.entry)),
                "limit": In(range(groups + 1)),
                "o": Out(stream.Signature(sizes.pair)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Append a pair a cycle; follow the list of the chosen group."""
        m = Module()
        groups, count, coming = range(self.groups), self.depth + self.groups, self.i.payload
        cell = data.StructLayout({"pair": self.sizes.pair, "next": range(count)})
        m.submodules.cells = cells = memory.Memory(shape=cell, depth=count, init=[], attrs=dict(NO_BYPASS))
        write, read = cells.write_port(), registered_read(m, cells)
        # Of each list: its first cell, and the one behind its last record; both have its number in the beginning.
        m.submodules.heads = heads = memory.Memory(shape=range(count), depth=self.groups, init=[])
        m.submodules.ends = ends = memory.Memory(shape=range(count), depth=self.groups, init=[])
        begun, left, whole = Signal(self.groups), Signal(self.groups), Signal(self.groups)

        # Cells that were never used, then those of pairs that have left.
        m.submodules.free = free = Queue(range(count), count, storage="block")
        unused, fresh, next_ = Signal(range(count + 1), init=self.groups), Signal(), Signal(range(count))
        puts, gives = Signal(), Signal()
        m.d.comb += [
            fresh.eq(unused != count),
            next_.eq(Mux(fresh, unused, free.o.payload)),
            free.o.ready.eq(puts & ~fresh),
            self.i.ready.eq((fresh | free.o.valid) & (self.level != self.depth)),
            puts.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += [unused.eq(unused + (puts & fresh)), self.level.eq(self.level + puts - gives)]

        # The cell for the next pair of a record that has begun to come.
        inside, place, last_in = Signal(), Signal(range(count)), ends_record(coming.pair)
        end, last_end = ends.write_port(), ends.read_port(domain="comb")
        at = Signal(range(count))
        m.d.comb += [
            last_end.addr.eq(coming.group),
            at.eq(Mux(inside, place, Mux(begun.bit_select(coming.group, 1), last_end.data, coming.group))),
            write.en.eq(puts),
            write.addr.eq(at),
            write.data.pair.eq(coming.pair),
            write.data.next.eq(next_),
            end.en.eq(puts & last_in),
            end.addr.eq(coming.group),
            end.data.eq(next_),
        ]
        with m.If(puts):
            m.d.sync += [inside.eq(~last_in), place.eq(next_)]

        some, lowest = lowest_one(whole)
        chosen, taken, emptied = Signal(groups), Signal(range(count)), Signal()
        head, first, stop = heads.write_port(), heads.read_port(domain="comb"), ends.read_port(domain="comb")
        last_out, used = ends_record(read.data.pair), Signal()
        m.d.comb += [
            first.addr.eq(chosen),
            stop.addr.eq(chosen),
            self.o.payload.eq(read.data.pair),
            read.addr.eq(read.data.next),
            read.en.eq(0),
            gives.eq(self.o.valid & self.o.ready),
            free.i.payload.eq(taken),
            free.i.valid.eq(gives),
            head.addr.eq(chosen),
            head.data.eq(read.data.next),
            head.en.eq(gives & last_out),
            emptied.eq(head.en & (read.data.next == stop.data)),
        ]
        with m.FSM():
            with m.State("CHOOSE"):
                m.d.sync += chosen.eq(lowest)
                with m.If(some & (lowest < self.limit)):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [
                    read.en.eq(1),
                    used.eq(1),
                    read.addr.eq(Mux(left.bit_select(chosen, 1), first.data, chosen)),
                ]
                m.d.sync += taken.eq(read.addr)
                m.next = "GIVE"
            with m.State("GIVE"):
                # The next record of the group follows at once, unless there is one of a lower group.
                follows = (lowest == chosen) & (chosen < self.limit) & ~emptied
                # What is read behind the last record is not used: whether it is the last is known too late.
                m.d.comb += [self.o.valid.eq(1), read.en.eq(gives), used.eq(gives & (~last_out | follows))]
                with m.If(gives):
                    m.d.sync += taken.eq(read.data.next)
                    with m.If(last_out):
                        m.d.sync += left.bit_select(chosen, 1).eq(1)
                        with m.If(~follows):
                            m.next = "CHOOSE"
        with m.If(emptied):
            m.d.sync += whole.bit_select(chosen, 1).eq(0)
        # A record that is complete in this cycle counts.
        with m.If(end.en):
            m.d.sync += [whole.bit_select(coming.group, 1).eq(1), begun.bit_select(coming.group, 1).eq(1)]
        m.d.sync += [
            Assert(~free.i.valid | free.i.ready, "a cell that is free has a place"),
            Assert(~(write.en & used & (write.addr == read.addr)), "a cell is read while it is written"),
            Cover(puts & ~fresh, "a cell is used again"),
            Cover(emptied & end.en & (chosen == coming.group), "a record comes as the last one leaves"),
            Cover(some & (lowest >= self.limit), "a record waits for its group"),
            Cover(gives & last_out & used, "a record follows at once"),
        ]
        return m
