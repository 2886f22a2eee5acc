# mypy: disable-error-code="attr-defined,index"
"""The neural chip: processors, their links, edge ports and the chip control block (D7)."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import Grid
from hw.dnp.ccb import G_BUS, IDENTITY_BITS, ChipControl
from hw.dnp.core import COUNTER_BITS, Core
from hw.dnp.port import WORD_STREAM
from hw.stream.black_box import BlackBox

__all__ = ["CORE_MODULE", "NeuralChip"]

#: Module that every chip instantiates.
CORE_MODULE = "dnp_core"


class NeuralChip(wiring.Component):
    """A chip of rows × columns processors; the paper's has 2 × 2.

    Parameters
    ----------
    config
        Memory sizes of the processors.
    rows, columns
        Processors; at most 4 together.
    counters
        Bits of the processors' counters; 0: no counters.
    once
        Instantiate the module ``CORE_MODULE``, generated apart, instead of emitting each processor.

    Attributes
    ----------
    i, o
        Edge ports in the order of ``Grid.edges()``: north by column, east by row, south, west (IOP).
    g_i, g_o
        G-bus.
    identity
        Number of the chip on the G-bus.
    online
        The programs run.
    halted
        All programs have ended.
    stops
        By processor: the error that ended its program, or none.
    """

    i: Any
    o: Any
    g_i: Any
    g_o: Any
    identity: Signal
    online: Signal
    halted: Signal
    stops: Any

    def __init__(
        self,
        config: ProcessorConfig | None = None,
        *,
        rows: int = 2,
        columns: int = 2,
        counters: int = COUNTER_BITS,
        once: bool = False,
    ) -> None:
        self.grid = Grid(rows, columns)
        self.once = once
        self.config, self.counters = config or ProcessorConfig(), counters
        edges = len(self.grid.edges())
        super().__init__(
            {
                "i": In(WORD_STREAM).array(edges),
                "o": Out(WORD_STREAM).array(edges),
                "g_i": In(G_BUS),
                "g_o": Out(G_BUS),
                "identity": In(IDENTITY_BITS),
                "online": Out(1),
                "halted": Out(1),
                "stops": Out(StopCode).array(self.grid.processors),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Link neighbours, connect edge ports and the G-bus."""
        m = Module()
        m.submodules.control = control = ChipControl(self.grid.processors)
        cores = [Core(self.config, counters=self.counters) for _ in range(self.grid.processors)]
        wiring.connect(m, wiring.flipped(self.g_i), control.i)
        wiring.connect(m, wiring.flipped(self.g_o), control.o)
        m.d.comb += [control.identity.eq(self.identity), self.online.eq(control.online)]
        for index, core in enumerate(cores):
            m.submodules[f"core_{index}"] = BlackBox(core, CORE_MODULE) if self.once else core
            wiring.connect(m, control.access[index], core.access)
            m.d.comb += [core.online.eq(control.online), core.start.eq(control.start), self.stops[index].eq(core.stop)]
        m.d.comb += self.halted.eq(_all(core.halted for core in cores))
        for at, source in enumerate(self.grid.sources().reshape(-1).tolist()):
            if source >= 0:
                wiring.connect(m, cores[source // 4].o[source % 4], cores[at // 4].i[at % 4])
        for index, edge in enumerate(self.grid.edges()):
            processor, port = self.grid.edge(*edge)
            wiring.connect(m, wiring.flipped(self.i[index]), cores[processor].i[port])
            wiring.connect(m, wiring.flipped(self.o[index]), cores[processor].o[port])
        return m


def _all(values: Any) -> Any:
    result: Any = 1
    for value in values:
        result &= value
    return result
