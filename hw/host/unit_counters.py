"""Counters of the cycles in which each unit of a machine works, for a host that reads one after another."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from contracts.registers import REGISTER_BITS

__all__ = ["UNITS_MAX", "UnitCounters"]

#: Most units: as many as `working` of any configuration has bits.
UNITS_MAX = 4096


class UnitCounters(wiring.Component):
    """Counts for every unit the cycles in which it works, since the last clear.

    A sweep adds a few bits of each unit to its count in one memory, a unit a cycle. A host reads the sum of both, so
    a value is complete at any time.

    Parameters
    ----------
    units
        Number of units, 1..`UNITS_MAX`.
    counter_bits
        Bits of each count, 1..32; counts wrap.

    Attributes
    ----------
    working : In(units)
        Units that work in this cycle.
    clear : In(1)
        Counts begin at 0 with the next cycle.
    unit : In
        Unit to read, below `units`.
    cycles : Out(counter_bits)
        Its count before the previous cycle, of the `unit` of the previous cycle.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, units: int = 12, counter_bits: int = REGISTER_BITS) -> None:
        if not 1 <= units <= UNITS_MAX:
            raise ValueError(f"units must be in 1..{UNITS_MAX}, not {units!r}")
        if not 1 <= counter_bits <= REGISTER_BITS:
            raise ValueError(f"counter_bits must be in 1..{REGISTER_BITS}, not {counter_bits!r}")
        self._units = units
        # Of one unit, too: Verilog has no ports without bits.
        self._depth = max(2, units)
        super().__init__(
            {
                "working": In(units),
                "clear": In(1),
                "unit": In(range(self._depth)),
                "cycles": Out(counter_bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Sweep through the units, and read the one that the host has selected."""
        m = Module()
        m.submodules.counts = counts = memory.Memory(shape=len(self.cycles), depth=self._depth, init=[])
        write, swept, read = counts.write_port(), *(counts.read_port(domain="comb") for _ in range(2))
        turn = Signal(range(self._depth))
        # Cycles since a unit's last turn: at most as many as there are units.
        recent = Signal(data.ArrayLayout(range(self._units + 1), self._units))
        # Units whose word in memory is older than the last clear.
        stale = Signal(self._units, init=-1)

        def total(count: Value, unit: Value) -> Value:
            return Mux(stale.bit_select(unit, 1), 0, count) + recent[unit]

        m.d.comb += [
            swept.addr.eq(turn),
            read.addr.eq(self.unit),
            write.en.eq(1),
            write.addr.eq(turn),
            write.data.eq(total(swept.data, turn)),
        ]
        m.d.sync += [
            self.cycles.eq(total(read.data, self.unit)),
            turn.eq(Mux(turn == self._units - 1, 0, turn + 1)),
            stale.bit_select(turn, 1).eq(0),
        ]
        for n in range(self._units):
            m.d.sync += recent[n].eq(Mux(turn == n, 0, recent[n]) + self.working[n])
        with m.If(self.clear):
            m.d.sync += [stale.eq(-1), recent.eq(0)]
        return m
