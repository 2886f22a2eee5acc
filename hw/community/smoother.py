"""Smoother: gives each record to the PE with the least work within reach, and finds extreme ones (I5)."""

from functools import reduce
from itertools import combinations
from operator import or_

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, Value
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
    even where none is busy. Decisions are those of `golden.locator.allocator.Allocator`.

    With `remaps` it also finds extreme records: those that would give their PE too much more than the least busy PE of
    all has, within reach or not.

    Loads are kept in the order of the ring from the PE in turn on, so every comparison has fixed sides. All pairs are
    compared at once, since a record may have as few as two words.

    Parameters
    ----------
    pes
        PEs, 1 to 64.
    work_bits
        Bits of the work of a record, at most `LOAD_BITS`.
    remaps
        Find extreme records.

    Attributes
    ----------
    hops : In(2)
        Reach; constant while there are records.
    room : In(pes)
        PEs that may get a record.
    pe : Out(pes)
        The PE of the record, one-hot, or 0 while none can be given; constant until `done`.
    decided : Out(1)
        There is a PE.
    moved : Out(1)
        With `take`: it is another PE than that in turn.
    take : In(1)
        The record goes to the PE; once for each.
    work : In(work_bits)
        Work of the record, with `take`.
    done : In(1)
        The next record may get its PE; with or after `take`.
    split : In(9)
        With `remaps`: largest difference of loads that a record may make; constant while there are records.
    whole : In(work_bits)
        With `remaps`: work of the record if it is not split.
    extreme : Out(1)
        With `remaps`, while there is `pe`: the record is extreme.

    Raises
    ------
    ValueError
        If `pes` or `work_bits` is out of range.
    """

    def __init__(self, pes: int, work_bits: int, *, remaps: bool = False) -> None:
        if not 1 <= pes <= 64:
            raise ValueError(f"pes must be in 1..64, not {pes!r}")
        if not 1 <= work_bits <= LOAD_BITS:
            raise ValueError(f"work_bits must be in 1..{LOAD_BITS}, not {work_bits!r}")
        self.pes, self.remaps = pes, remaps
        super().__init__(
            {
                "hops": In(2),
                "room": In(pes),
                "pe": Out(pes),
                "decided": Out(1),
                "moved": Out(1),
                "take": In(1),
                "work": In(work_bits),
                "done": In(1),
                **({"split": In(LOAD_BITS - 1), "whole": In(work_bits), "extreme": Out(1)} if remaps else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare, decide; add and turn the ring when a record goes."""
        m = Module()
        pes = self.pes
        loads = [Signal(LOAD_BITS, name=f"load_{n}") for n in range(pes)]
        turn = Signal(pes, init=1)
        # Both with the record that goes in this cycle: the next one is decided about at once.
        next_loads = [Signal(LOAD_BITS, name=f"next_load_{n}") for n in range(pes)]
        next_turn = Signal(pes)
        # PEs by their place behind the one in turn: those with room, the least busy; that of the record.
        room, least, place = Signal(pes), Signal(pes), Signal(pes)
        # The PE that was in turn at the decision.
        origin = Signal(pes, init=1)
        m.d.comb += next_turn.eq(Mux(self.take, turn.rotate_left(1), turn))
        with m.Switch(next_turn):
            for n in range(pes):
                with m.Case(1 << n):
                    m.d.comb += room.eq(self.room.rotate_right(n))
        with m.Switch(origin):
            for n in range(pes):
                with m.Case(1 << n):
                    m.d.comb += self.pe.eq(place.rotate_left(n))
        reach = list(dict.fromkeys([0, *(sign * hop % pes for hop in range(1, HOPS_MAX + 1) for sign in (1, -1))]))
        barred = [~room[n] | (self.hops < min(n, pes - n)) for n in reach]
        keys = [Cat(next_loads[n], bar) for n, bar in zip(reach, barred, strict=True)]
        wins = [~bar for bar in barred]
        for one, other in combinations(range(len(reach)), 2):
            less = Signal(name=f"less_{reach[other]}_{reach[one]}")
            m.d.comb += less.eq(keys[other] < keys[one])
            wins[one] &= ~less
            wins[other] &= less
        m.d.comb += [*(least[n].eq(win) for n, win in zip(reach, wins, strict=True)), self.moved.eq(~place[0])]
        with m.If(self.done | ~self.decided):
            m.d.sync += [self.decided.eq(~Cat(barred).all()), place.eq(least), origin.eq(next_turn)]
        tops = Signal()
        # A cycle later: loads only grow meanwhile.
        m.d.sync += tops.eq(Cat(load[-1] for load in loads).all() & ~tops)
        rests = [Cat(load[:-1], load[-1] & ~tops) for load in loads]
        for n, rest in enumerate(rests):
            given = Signal(LOAD_BITS + 1, name=f"given_{n}")
            m.d.comb += [
                given.eq(rest + Mux(place[n], self.work, 0)),
                next_loads[(n - 1) % pes].eq(
                    Mux(self.take, given[:-1] | given[-1].replicate(LOAD_BITS), rests[(n - 1) % pes])
                ),
            ]
        m.d.sync += [*(load.eq(new) for load, new in zip(loads, next_loads, strict=True)), turn.eq(next_turn)]
        m.d.sync += [
            Cover(tops, "what all have is taken off"),
            Cover(Cat(barred).all(), "no PE within reach has room"),
        ]
        if self.remaps:
            self._find_extremes(m, loads, next_loads, place)
        return m

    def _find_extremes(self, m: Module, loads: list[Signal], next_loads: list[Signal], place: Signal) -> None:
        """Compare what the PE would have with the least that any has, which is registered along with the loads."""
        least, chosen = Signal(LOAD_BITS), Signal(LOAD_BITS)
        m.d.sync += least.eq(_smallest(next_loads))
        m.d.comb += [
            chosen.eq(reduce(or_, (load & place[n].replicate(LOAD_BITS) for n, load in enumerate(loads)))),
            self.extreme.eq(chosen + self.whole > least + self.split),
        ]
        m.d.sync += Cover(self.pe.any() & (chosen > least + self.split), "the least busy PE of all is out of reach")


def _smallest(loads: list[Signal]) -> Value:
    """Return the smallest load."""
    values: list[Value] = list(loads)
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [Mux(pair[0] < pair[1], *pair) if len(pair) > 1 else pair[0] for pair in pairs]
    return values[0]
