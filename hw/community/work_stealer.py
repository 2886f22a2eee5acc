"""Work stealer: during a replay, PEs that have run out of records take some of a neighbour's (I5, I9)."""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import RECORDS
from hw.locator.formats import RecordBeat

__all__ = ["WorkStealer"]


class WorkStealer(wiring.Component):
    """Whose a record is, is decided when its first beat is there, and stays so until its last.

    A PE without records of its own turns to the nearest PE behind it that still has some. Of those that turn to the
    same one, and that one itself, the PE with the fewest records under way gets the next, of equal ones the nearest.

    Parameters
    ----------
    pes
        PEs, at least 1.
    reach
        How far a PE can turn to, 0 to `pes` - 1.

    Attributes
    ----------
    i : streams of `RecordBeat`
        Records of every PE.
    ended : In(1) for every PE
        If `steals`: nothing comes any more for it until that falls.
    steals : In(1)
        Records may go to others than their own PE; constant while there are any.
    o : streams of `RecordBeat`
        To every PE.
    retired : In(1) for every PE
        It has done a record.
    stolen : Out(range(pes + 1))
        Records that another PE than their own gets from this cycle on.

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
        """Decide; a PE that turns to another has no records of its own, so nothing else comes to it."""
        m = Module()
        pes, steps = self.pes, range(self.reach + 1)
        # Records whose beats a PE has all taken, and that it has not done.
        under_way = [Signal(range(RECORDS + 2), name=f"under_way_{n}") for n in range(pes)]
        # How far a PE turns, one bit for each distance.
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
