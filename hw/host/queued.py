"""The attribute accelerator behind a queue of commands: the top level for a scheduler on a soft core (A9)."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.attributes.accelerator import AttributeAccelerator
from hw.host.axi_lite import AXI4LiteSignature
from hw.host.queue_port import ADDRESS_WIDTH, QueuePort
from hw.memory.axi import constant_members, drive_constants, flat_members

__all__ = ["Queued"]


class Queued(wiring.Component):
    """Cores that sample and fetch attributes, each command written by a host into registers.

    Parameters
    ----------
    accelerator : AttributeAccelerator

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
        See `QueuePort`.
    irq : Out(1)
    m_axi_* : AXI4 manager
    busy : Out
        A bit for each core.
    """

    def __init__(self, accelerator: AttributeAccelerator) -> None:
        self.accelerator = accelerator
        members = accelerator.signature.members
        self._memory = [name for name in members if name.startswith("m_axi_")]
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                "busy": members["busy"],
                **{name: members[name] for name in self._memory},
                **constant_members("m_axi"),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Connect the queue to the accelerator."""
        m = Module()
        m.submodules.accelerator = accelerator = self.accelerator
        m.submodules.queue = queue = QueuePort(len(accelerator.m_axi_araddr), accelerator.cores)
        connect(m, queue.command, accelerator.command)
        connect(m, accelerator.completion, queue.completion)
        m.d.comb += [
            accelerator.base.eq(queue.base),
            queue.busy.eq(accelerator.busy),
            self.busy.eq(accelerator.busy),
            self.irq.eq(queue.irq),
        ]
        drive_constants(m, self, "m_axi")
        lite = {name: queue for name in queue.signature.members if name.startswith("s_axil_")}
        for name, inner in {**lite, **dict.fromkeys(self._memory, accelerator)}.items():
            outside, port = getattr(self, name), getattr(inner, name)
            m.d.comb += outside.eq(port) if self.signature.members[name].flow == Out else port.eq(outside)
        return m
