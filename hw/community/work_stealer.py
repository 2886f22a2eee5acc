"""Work stealer: during a replay, PEs that have run out of records take some of a neighbour's (I5, I9)."""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import RECORDS
from hw.locator.formats import RecordBeat

__all__ = ["WorkStealer"]


class WorkStealer(wiring.Component):
    """A record's PE is chosen on its first beat and held until its last.

    A PE without records of its own steals from the nearest PE behind it that still has some. Among a PE and those that
    steal from it, the one with the fewest records in progress gets the next record; of equals, the nearest.

    Parameters
    ----------
    pes
        PEs, at least 1.
    reach
        Distance over which a PE can steal, 0 to `pes` - 1.

    Attributes
    ----------
    i : streams of `RecordBeat`
        Records of each PE.
    ended : In(1) for every PE
        With `steals`: the PE's stream has ended, until `steals` falls.
    steals : In(1)
        Records may go to other PEs than their own; constant while there are any.
    o : streams of `RecordBeat`
        Records for each PE.
    retired : In(1) for every PE
        The PE has retired a record.
    stolen : Out(range(pes + 1))
        Number of records whose issue to another PE starts in this cycle.

    Raises
    ------
    ValueError
        If `reach` is out of range.
    """

    def __init__(self, pes: int, reach: int = 1) -> None:
        if not 0 <= reach < pes:
            raise ValueError(f"reach must be in 0..{pes - 1}, not {reach!r}")
        self.pes, self.reach = pes, reach
        super().__init__(
            {
                "i": In(stream.Signature(RecordBeat)).array(pes),
                "ended": In(1).array(pes),
                "steals": In(1),
                "o": Out(stream.Signature(RecordBeat)).array(pes),
                "retired": In(1).array(pes),
                "stolen": Out(range(pes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Select; a stealing PE has no records of its own, so its port has one source."""
        m = Module()
        pes, steps = self.pes, range(self.reach + 1)
        # Records that a PE has taken completely and not retired.
        under_way = [Signal(range(RECORDS + 2), name=f"under_way_{n}") for n in range(pes)]
        # Distance of a PE's source, one-hot.
        turns = [Signal(self.reach + 1, name=f"turns_{n}") for n in range(pes)]
        for n, turn in enumerate(turns):
            nothing: Any = 1  # up to here
            for step in steps:
                after = nothing & self.steals & self.ended[(n + step) % pes]
                m.d.comb += turn[step].eq(nothing if step == self.reach else nothing & ~after)
                nothing = after
        chosen = [Signal(range(max(2, self.reach + 1)), name=f"chosen_{n}") for n in range(pes)]
        lent = []
        for n, source in enumerate(self.i):
            begun, before = Signal(name=f"begun_{n}"), Signal.like(chosen[n], name=f"before_{n}")
            takers = [(n - step) % pes for step in steps]
            best, fewest = Const(0, len(before)), under_way[n]
            for step, taker in list(enumerate(takers))[1:]:
                fewer = turns[taker][step] & (under_way[taker] < fewest)
                best, fewest = Mux(fewer, step, best), Mux(fewer, under_way[taker], fewest)
            m.d.comb += [
                chosen[n].eq(Mux(begun, before, best)),
                source.ready.eq(Array(self.o[taker].ready for taker in takers)[chosen[n]]),
            ]
            m.d.sync += before.eq(chosen[n])
            with m.If(source.valid):
                m.d.sync += begun.eq(~(source.ready & source.payload.last))
            lent.append(source.valid & ~begun & (chosen[n] != 0))
        m.d.comb += self.stolen.eq(sum(lent))
        for n, (sink, retired) in enumerate(zip(self.o, self.retired, strict=True)):
            for step in reversed(steps):
                source = self.i[(n + step) % pes]
                with m.If(turns[n][step]):
                    m.d.comb += [
                        sink.payload.eq(source.payload),
                        sink.valid.eq(source.valid & (chosen[(n + step) % pes] == step)),
                    ]
            given = sink.valid & sink.ready & sink.payload.last
            m.d.sync += under_way[n].eq(under_way[n] + given - retired)
        return m
