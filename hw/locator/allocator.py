"""Task allocator: hands records to less busy PEs nearby, and splits those that no PE can take whole (I5)."""

from amaranth.hdl import Array, Const, Cover, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from contracts.communities import HOPS_MAX

__all__ = ["Allocator", "AllocatorSettings", "Assignment", "Retired", "WorkTask"]

_LOAD_BITS = 32
_MOST = (1 << _LOAD_BITS) - 1

#: Reach of smoothing in hops, largest difference of loads a whole task may make, rows of a piece.
AllocatorSettings = data.StructLayout({"hops": unsigned(2), "threshold": unsigned(_LOAD_BITS), "grain": unsigned(16)})

#: A record: its number, rows of its bitmap, positions in a row.
WorkTask = data.StructLayout({"task": unsigned(16), "rows": unsigned(16), "columns": unsigned(16)})


class Assignment(data.StructLayout):
    """Rows of a record for a PE, as `golden.locator.allocator.Assignment`; ``last``: of its record."""

    def __init__(self, pes: int) -> None:
        super().__init__({"task": 16, "pe": max(1, ceil_log2(pes)), "first": 16, "rows": 16, "last": 1})


class Retired(data.StructLayout):
    """Work that a PE has done, in positions."""

    def __init__(self, pes: int) -> None:
        super().__init__({"pe": max(1, ceil_log2(pes)), "work": _LOAD_BITS})


class Allocator(wiring.Component):
    """Counts the load of PEs in a ring and gives each record, whole or in pieces, to the least busy.

    While nothing retires, loads differ by at most ``threshold``, or by the work of one piece if that is more.

    Parameters
    ----------
    pes
        Number of PEs, 2 to 64.

    Attributes
    ----------
    settings
        Constant while there is work.
    i
        Records. With up to 8 PEs a record takes 6 cycles, or 5 after an idle time; a piece takes 6, and a split record
        2 more. Each doubling of the number of PEs adds a cycle to records and pieces.
    o
        Assignments of rows to PEs.
    retired
        Work that PEs have completed. An update during a decision may or may not be included in it.
    loads
        Work assigned to each PE and not yet retired.
    smoothed, remapped
        Pulses: a record was moved to another PE; a record is split.

    Raises
    ------
    ValueError
        If `pes` is out of range.
    """

    def __init__(self, pes: int = 4) -> None:
        if not 2 <= pes <= 64:
            raise ValueError(f"pes must be in 2..64, not {pes!r}")
        self.pes = pes
        super().__init__(
            {
                "settings": In(AllocatorSettings),
                "i": In(stream.Signature(WorkTask)),
                "o": Out(stream.Signature(Assignment(pes))),
                "retired": In(stream.Signature(Retired(pes), always_ready=True)),
                "loads": Out(_LOAD_BITS).array(pes),
                "smoothed": Out(1),
                "remapped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare loads level by level, decide, issue; a step has at most one comparison or sum of loads."""
        m = Module()
        pes, settings, assignment = self.pes, self.settings, self.o.payload
        task, work = Signal(WorkTask), Signal(_LOAD_BITS)
        turn, split = Signal(range(pes)), Signal()
        left = Signal(16)  # rows not yet assigned; `assignment.rows` of them are being decided

        # Least busy of all, and least busy within reach.
        least, least_load, levels = _least(
            m, "all", [(Const(pe, range(pes)), load) for pe, load in enumerate(self.loads)]
        )
        reach: list[tuple[Value, Value]] = [(turn, Array(self.loads)[turn])]
        for hop in range(1, HOPS_MAX + 1):
            for sign in (1, -1):
                name = f"{hop}{'up' if sign > 0 else 'down'}"
                other, load = Signal(range(pes), name=f"other{name}"), Signal(_LOAD_BITS, name=f"load{name}")
                places = [(pe + sign * hop) % pes for pe in range(pes)]
                m.d.comb += [
                    other.eq(Array(places)[turn]),
                    # PEs out of reach are masked with the largest load.
                    load.eq(Mux(hop <= settings.hops, Array(self.loads[pe] for pe in places)[turn], _MOST)),
                ]
                reach.append((other, load))
        near, near_load, reach_levels = _least(m, "near", reach)

        # A decision changes loads two cycles later; they then pass the levels. From there, or from new
        # rows, it takes two cycles more until sums can be compared.
        settle = 1 + max(levels, reach_levels) + 1
        waits = Signal(range(settle + 1))
        m.d.sync += waits.eq(Mux(waits > 2, waits - 1, 2))
        total, limit = Signal(_LOAD_BITS + 1), Signal(_LOAD_BITS + 1)
        m.d.sync += [
            work.eq(assignment.rows * task.columns),
            total.eq(near_load + work),
            limit.eq(least_load + settings.threshold),
        ]
        gives, next_left = Signal(), Signal.like(left)
        m.d.comb += [
            assignment.task.eq(task.task),
            assignment.last.eq(assignment.rows == left),
            next_left.eq(left - assignment.rows),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    task.eq(self.i.payload),
                    left.eq(self.i.payload.rows),
                    assignment.first.eq(0),
                    assignment.rows.eq(self.i.payload.rows),
                    split.eq(0),
                ]
                with m.If(self.i.valid):
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += [waits.eq(waits - 1), assignment.pe.eq(Mux(split, least, near))]
                with m.If(waits == 0):
                    with m.If(~split & (total > limit)):
                        m.d.comb += self.remapped.eq(1)
                        m.d.sync += [split.eq(1), assignment.rows.eq(_less(left, settings.grain)), waits.eq(1)]
                    with m.Else():
                        m.d.comb += [gives.eq(1), self.smoothed.eq(~split & (near != turn))]
                        m.d.sync += waits.eq(settle)
                        with m.If(assignment.last):
                            m.d.sync += turn.eq(Mux(turn == pes - 1, 0, turn + 1))
                        m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [
                        left.eq(next_left),
                        assignment.first.eq(assignment.first + assignment.rows),
                        assignment.rows.eq(_less(next_left, settings.grain)),
                    ]
                    m.next = "LOOK"
                    with m.If(assignment.last):
                        m.next = "TAKE"
        given = Signal()  # in the first cycle of GIVE
        m.d.sync += given.eq(gives)
        for pe in range(pes):
            gets, done = given & (assignment.pe == pe), self.retired.valid & (self.retired.payload.pe == pe)
            m.d.sync += self.loads[pe].eq(self.loads[pe] + Mux(gets, work, 0) - Mux(done, self.retired.payload.work, 0))
        m.d.sync += Cover(self.remapped & (near != least), "the least busy PE is out of reach")
        return m


def _less(one: Value, other: Value) -> Value:
    return Mux(one < other, one, other)


def _least(m: Module, name: str, candidates: list[tuple[Value, Value]]) -> tuple[Value, Value, int]:
    """Return the least busy of (PE, load), its load, and the latency in cycles; the first of equals."""
    level = 0
    while len(candidates) > 1:
        winners = []
        for n in range(0, len(candidates), 2):
            (pe, load), *others = candidates[n : n + 2]
            for other_pe, other in others:
                less = other < load
                pe, load = Mux(less, other_pe, pe), Mux(less, other, load)
            which = Signal(candidates[0][0].shape(), name=f"{name}{level}_{n // 2}")
            least = Signal(_LOAD_BITS, name=f"{name}_load{level}_{n // 2}")
            m.d.sync += [which.eq(pe), least.eq(load)]
            winners.append((which, least))
        candidates, level = winners, level + 1
    return *candidates[0], level
