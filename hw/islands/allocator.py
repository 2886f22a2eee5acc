"""Task allocator: hands records to less busy PEs nearby, and splits those that no PE can take whole (I5)."""

from amaranth.hdl import Array, Const, Cover, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from golden.islands.allocator import HOPS_MAX
from hw.stream.slice import Slice

__all__ = ["Allocator", "AllocatorSettings", "Retired", "Share", "WorkTask"]

_LOAD_BITS = 32
_MOST = (1 << _LOAD_BITS) - 1

#: Reach of smoothing in hops, largest difference of loads a whole task may make, rows of a piece.
AllocatorSettings = data.StructLayout({"hops": unsigned(2), "threshold": unsigned(_LOAD_BITS), "grain": unsigned(16)})

#: A record: its number, rows of its bitmap, positions in a row.
WorkTask = data.StructLayout({"task": unsigned(16), "rows": unsigned(16), "columns": unsigned(16)})


class Share(data.StructLayout):
    """Rows of a record for a PE, as `golden.islands.allocator.Share`; ``last``: of its record."""

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
        Records, one taken every other cycle; a piece takes a cycle.
    o
        Who does what.
    retired
        What PEs have done of it.
    loads
        Work that every PE has been given and has not done.
    smoothed, remapped
        Pulses: a record went to another PE than the one in turn; a record is split.

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
                "o": Out(stream.Signature(Share(pes))),
                "retired": In(stream.Signature(Retired(pes), always_ready=True)),
                "loads": Out(_LOAD_BITS).array(pes),
                "smoothed": Out(1),
                "remapped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Look, decide in the next cycle."""
        m = Module()
        pes, settings = self.pes, self.settings
        # A decision is taken once: it must not change with loads while it waits to be taken.
        m.submodules.out = out = Slice(Share(pes))
        wiring.connect(m, out.o, wiring.flipped(self.o))
        share = out.i.payload
        loads = Array(self.loads)
        task, busy, split = Signal(WorkTask), Signal(), Signal()
        turn, home = Signal(range(pes)), Signal(range(pes))
        work, first = Signal(_LOAD_BITS), Signal(16)

        # Least busy of all, and least busy within reach.
        least, least_load = _least(m, "all", [(Const(pe, range(pes)), load) for pe, load in enumerate(self.loads)])
        reach = [(home, loads[home])]
        for hop in range(1, HOPS_MAX + 1):
            for sign in (1, -1):
                name = f"{hop}{'up' if sign > 0 else 'down'}"
                other, load = Signal(range(pes), name=f"other{name}"), Signal(_LOAD_BITS, name=f"load{name}")
                places = [(pe + sign * hop) % pes for pe in range(pes)]
                m.d.comb += [
                    other.eq(Array(places)[home]),
                    # What is too far away is never the least busy.
                    load.eq(Mux(hop <= settings.hops, Array(self.loads[pe] for pe in places)[home], _MOST)),
                ]
                reach.append((other, load))
        near, near_load = _least(m, "near", reach)

        whole = ~split & (near_load + work <= least_load + settings.threshold)
        rest = task.rows - first
        last = whole | (rest <= settings.grain)
        moves = out.i.valid & out.i.ready
        m.d.comb += [
            self.i.ready.eq(~busy),
            out.i.valid.eq(busy),
            share.task.eq(task.task),
            share.pe.eq(Mux(whole, near, least)),
            share.first.eq(first),
            share.rows.eq(Mux(whole, task.rows, Mux(last, rest, settings.grain))),
            share.last.eq(last),
            self.smoothed.eq(moves & whole & (near != home)),
            self.remapped.eq(moves & ~whole & ~split),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                task.eq(self.i.payload),
                work.eq(self.i.payload.rows * self.i.payload.columns),
                busy.eq(1),
                first.eq(0),
                split.eq(0),
                home.eq(turn),
                turn.eq(Mux(turn == pes - 1, 0, turn + 1)),
            ]
        with m.If(moves):
            m.d.sync += [busy.eq(~last), first.eq(first + share.rows), split.eq(1)]
        given = Signal(_LOAD_BITS)
        m.d.comb += given.eq(share.rows * task.columns)
        for pe in range(pes):
            gets, done = moves & (share.pe == pe), self.retired.valid & (self.retired.payload.pe == pe)
            m.d.sync += self.loads[pe].eq(
                self.loads[pe] + Mux(gets, given, 0) - Mux(done, self.retired.payload.work, 0)
            )
        m.d.sync += Cover(self.remapped & (near != least), "the least busy PE is out of reach")
        return m


def _least(m: Module, name: str, candidates: list[tuple[Value, Value]]) -> tuple[Value, Value]:
    """Return the least busy of (PE, load), and its load, by pairs; of equal ones the first."""
    level = 0
    while len(candidates) > 1:
        pairs = []
        for n in range(0, len(candidates) - 1, 2):
            (pe, load), (other_pe, other) = candidates[n : n + 2]
            which = Signal.like(pe, name=f"{name}{level}_{n // 2}")
            least = Signal(_LOAD_BITS, name=f"{name}_load{level}_{n // 2}")
            less = other < load
            m.d.comb += [which.eq(Mux(less, other_pe, pe)), least.eq(Mux(less, other, load))]
            pairs.append((which, least))
        candidates, level = [*pairs, *candidates[len(candidates) & ~1 :]], level + 1
    return candidates[0]
