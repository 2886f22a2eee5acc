"""Smoother: gives each record to the PE with the least work within reach (I5)."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.communities import HOPS_MAX

__all__ = ["Smoother"]

#: Bits of a load. It counts what a PE has been given more than others, and stays at its largest value.
LOAD_BITS = 12


class Smoother(wiring.Component):
    """Counts the work that each PE of a ring has been given, and says which one is to get the next record.

    Records come to the PEs in turn. The one in turn hands its record to the PE within reach that has been given the
    least, of those with room; of equals the nearest, upwards before downwards. So the whole work of PEs differs little
    even where none is busy. Decisions are those of `golden.locator.allocator.Allocator` without splitting.

    Loads are kept in the order of the ring from the PE in turn on, so every comparison has fixed sides.

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
    valid : Out(1)
        There is a decision.
    pe : Out(pes)
        The PE, one-hot; with `valid` constant until `take`.
    moved : Out(1)
        It is another PE than that in turn.
    take : In(1)
        The record goes to the PE; only while `valid`.
    work : In(work_bits)
        Work of the record, with `take`.

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
        #: Loads of the PEs from the one in turn on (internal).
        self.loads = [Signal(LOAD_BITS, name=f"load_{n}") for n in range(pes)]
        super().__init__(
            {
                "hops": In(2),
                "room": In(pes),
                "valid": Out(1),
                "pe": Out(pes),
                "moved": Out(1),
                "take": In(1),
                "work": In(work_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare level by level; add, and turn the ring, when a record goes."""
        m = Module()
        pes, loads = self.pes, self.loads
        turn = Signal(pes, init=1)
        # PEs by their place behind the one in turn, and back.
        room, place = Signal(pes), Signal(pes)
        with m.Switch(turn):
            for n in range(pes):
                with m.Case(1 << n):
                    m.d.comb += room.eq(self.room.rotate_right(n))
                    m.d.sync += self.pe.eq(place.rotate_left(n))
        reach = dict.fromkeys([0, *((sign * hop) % pes for hop in range(1, HOPS_MAX + 1) for sign in (1, -1))])
        candidates: list[tuple[Value, Value]] = []
        for n in reach:
            hop = min(n, pes - n)
            barred = ~room[n] | (self.hops < hop)
            candidates.append((Const(1 << n, pes), Cat(loads[n], barred)))
        winner, load, levels = _least(m, candidates)
        # The levels, and the register of the decision, follow loads, which change with every record.
        waits, chosen, able = Signal(range(levels + 2), init=levels + 1), Signal(pes), Signal()
        m.d.comb += [place.eq(winner), self.valid.eq((waits == 0) & able), self.moved.eq(~chosen[0])]
        m.d.sync += [chosen.eq(winner), able.eq(~load[-1])]
        with m.If(waits != 0):
            m.d.sync += waits.eq(waits - 1)
        tops = Cat(load[-1] for load in loads).all()
        for n, kept in enumerate(loads):
            given = Signal(LOAD_BITS + 1, name=f"given_{n}")
            m.d.comb += given.eq(kept + Mux(chosen[n], self.work, 0))
            with m.If(self.take):
                m.d.sync += loads[(n - 1) % pes].eq(given[:-1] | given[-1].replicate(LOAD_BITS))
            with m.Elif(tops):
                m.d.sync += kept[-1].eq(0)
        with m.If(self.take):
            m.d.sync += [turn.eq(turn.rotate_left(1)), waits.eq(levels + 1)]
        m.d.sync += [
            Cover(tops, "what all have is taken off"),
            Cover((waits == 0) & ~able, "no PE within reach has room"),
        ]
        return m


def _least(m: Module, candidates: Sequence[tuple[Value, Value]]) -> tuple[Value, Value, int]:
    """Return the first with the least load, its load, and the latency in cycles."""
    level = 0
    while len(candidates) > 1 or not level:
        winners: list[tuple[Value, Value]] = []
        for n in range(0, len(candidates), 2):
            (which, load), *others = candidates[n : n + 2]
            for other, other_load in others:
                less = other_load < load
                which, load = Mux(less, other, which), Mux(less, other_load, load)
            kept, least = Signal(len(which), name=f"which{level}_{n}"), Signal(len(load), name=f"least{level}_{n}")
            m.d.sync += [kept.eq(which), least.eq(load)]
            winners.append((kept, least))
        candidates, level = winners, level + 1
    return *candidates[0], level
