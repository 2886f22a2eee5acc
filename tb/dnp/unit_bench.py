"""Neural unit at a memory port, with its command stream outside."""

from typing import Any

from amaranth import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMMAND_BYTES
from hw.dnp.neural_unit import NeuralConfig, NeuralUnit
from hw.graph.csr_reader import ErrorReport
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.formats import line_address_width
from hw.memory.unit_port import UNIT_ID_WIDTH, attach_unit

__all__ = ["NeuralUnitBench"]


class NeuralUnitBench(wiring.Component):
    """The unit, its reads and its writes.

    Parameters
    ----------
    config, address_width, data_width
        As for `NeuralUnit`.
    """

    def __init__(self, config: NeuralConfig | None = None, address_width: int = 20, data_width: int = 64) -> None:
        self.unit: Any = NeuralUnit(config, address_width, data_width)
        super().__init__(
            {
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "base": In(line_address_width(address_width)),
                **flat_members("m_axi", Out(AXI4Signature(address_width, data_width, UNIT_ID_WIDTH))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Lead the port out."""
        m = Module()
        m.submodules.unit = unit = self.unit
        address_width, data_width = unit.port
        port = AXI4Signature(address_width, data_width, UNIT_ID_WIDTH).create(path=("port",))
        attach_unit(m, unit, "unit", port)
        connect_flat(m, self, "m_axi", port)
        connect(m, flipped(self.command), unit.command)
        connect(m, unit.executed, flipped(self.executed))
        m.d.comb += unit.base.eq(self.base)
        return m
