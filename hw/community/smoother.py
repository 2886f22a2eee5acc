"""Smoother: gives each record to the PE with the least work within reach (I5)."""

from itertools import combinations

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.communities import HOPS_MAX

__all__ = ["LOAD_BITS", "Smoother"]

#: Bits of a load: what a PE has been given more than the least busy, or the largest value.
LOAD_BITS = 10


class Smoother(wiring.Component):
    """Counts the work that each PE of a ring has been given, and says which one gets the next record.

    Records come to the PEs in turn. The one in turn hands its record to the PE within reach that has been given the
    least, of those with room; of equals the nearest, upwards before downwards. So the whole work of PEs differs little
    even where none is busy. Decisions are those of `golden.locator.allocator.Allocator` without splitting.

    Loads are kept in the order of the ring from the PE in turn on, so every comparison has fixed sides. All pairs are
    compared at once, since a record may have as few as two words.

    Parameters
    ----------
    pes
        PEs, 1 to 64.
    work_bits
        Bits of the work of a record, at most `LOAD_BITS`.

    Attributes
    ----------
    hops : In(2)
        Reach; constant while there are records.
    room : In(pes)
        PEs that may get a record.
    pe : Out(pes)
        The PE of the record, one-hot, or 0 while none can be given; constant until `done`.
    moved : Out(1)
        With `take`: it is another PE than that in turn.
    take : In(1)
        The record goes to the PE; once for each.
    work : In(work_bits)
        Work of the record, with `take`.
    done : In(1)
        The next record may get its PE; with or after `take`.

    Raises
    ------
    ValueError
        If `pes` or `work_bits` is out of range.
    """

    def __init__(self, pes: int, work_bits: int) -> None:
        if not 1 <= pes <= 64:
            raise ValueError(f"pes must be in 1..64, not {pes!r}")
        if not 1 <= work_bits <= LOAD_BITS:
            raise ValueError(f"work_bits must be in 1..{LOAD_BITS}, not {work_bits!r}")
        self.pes = pes
        super().__init__(
            {
                "hops": In(2),
                "room": In(pes),
                "pe": Out(pes),
                "moved": Out(1),
                "take": In(1),
                "work": In(work_bits),
                "done": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare, decide; add and turn the ring when a record goes."""
        m = Module()
        pes = self.pes
        loads = [Signal(LOAD_BITS, name=f"load_{n}") for n in range(pes)]
        turn = Signal(pes, init=1)
        # PEs by their place behind the one in turn: those with room, the least busy; that of the record.
        room, least, place = Signal(pes), Signal(pes), Signal(pes)
        following, there = Signal(pes), Signal()
        with m.Switch(turn):
            for n in range(pes):
                with m.Case(1 << n):
                    m.d.comb += [room.eq(self.room.rotate_right(n)), following.eq(least.rotate_left(n))]
        reach = list(dict.fromkeys([0, *(sign * hop % pes for hop in range(1, HOPS_MAX + 1) for sign in (1, -1))]))
        barred = [~room[n] | (self.hops < min(n, pes - n)) for n in reach]
        keys = [Cat(loads[n], bar) for n, bar in zip(reach, barred, strict=True)]
        wins = [~bar for bar in barred]
        for one, other in combinations(range(len(reach)), 2):
            less = Signal(name=f"less_{reach[other]}_{reach[one]}")
            m.d.comb += less.eq(keys[other] < keys[one])
            wins[one] &= ~less
            wins[other] &= less
        m.d.comb += [*(least[n].eq(win) for n, win in zip(reach, wins, strict=True)), self.moved.eq(~place[0])]
        # In the cycle of `take` loads are those of before.
        with m.If(self.done | ~there):
            m.d.sync += [
                there.eq(~self.take & least.any()),
                self.pe.eq(Mux(self.take, 0, following)),
                place.eq(least),
            ]
        tops = Cat(load[-1] for load in loads).all()
        for n, load in enumerate(loads):
            given = Signal(LOAD_BITS + 1, name=f"given_{n}")
            m.d.comb += given.eq(load + Mux(place[n], self.work, 0))
            with m.If(self.take):
                m.d.sync += loads[(n - 1) % pes].eq(given[:-1] | given[-1].replicate(LOAD_BITS))
            with m.Elif(tops):
                m.d.sync += load[-1].eq(0)
        with m.If(self.take):
            m.d.sync += turn.eq(turn.rotate_left(1))
        m.d.sync += [
            Cover(tops, "what all have is taken off"),
            Cover(~least.any(), "no PE within reach has room"),
        ]
        return m
