"""Batch machine: a chiplet with gather PEs and an attribute core, for sampled networks on mini-batches."""

from dataclasses import replace

from amaranth import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from golden.contracts import COMPLETION
from hw.attributes.accelerator import CORE_ID_WIDTH, attach_core
from hw.attributes.core import CORE_OPCODES, AttributeCore, CoreConfig
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import ChipletConfig
from hw.contracts import struct
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.formats import line_address_width
from hw.ring.axi_merge import AXIMerge

__all__ = ["BatchMachine"]


class BatchMachine(wiring.Component):
    """One command list for both: SAMPLE and COPY go to the core, all others to the chiplet.

    SAMPLE brings the attributes of a mini-batch through the two-level cache into consecutive rows of memory, and leaves
    the sampled graph as offsets, edges and factors; COMBINE and AGGREGATE work on these as on any graph.

    Parameters
    ----------
    config : ChipletConfig
    core : CoreConfig
        With the memory port of `config`.

    Attributes
    ----------
    start, done, opcode, layer, m_axi_*
        As for `hw.chiplet.chiplet.Chiplet`.

    Raises
    ------
    ValueError
        If the ports of `core` and `config` differ.
    """

    def __init__(self, config: ChipletConfig | None = None, core: CoreConfig | None = None) -> None:
        self.config = config or ChipletConfig()
        pe = self.config.pe
        port = (pe.address_width, pe.data_width)
        default = CoreConfig()
        self.core = core or replace(
            default,
            attribute=replace(default.attribute, address_width=pe.address_width, data_width=pe.data_width),
        )
        attribute = self.core.attribute
        if (attribute.address_width, attribute.data_width) != port:
            widths = (attribute.address_width, attribute.data_width)
            raise ValueError(f"core must have a memory port of {port} bits, that of the chiplet, not {widths!r}")
        self._port = port
        super().__init__(
            {
                "start": In(stream.Signature(line_address_width(pe.address_width))),
                "done": Out(stream.Signature(struct(COMPLETION))),
                "opcode": Out(8),
                "layer": Out(8),
                **flat_members("m_axi", Out(AXI4Signature(*port, CORE_ID_WIDTH + 1))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Put both behind one memory port."""
        m = Module()
        m.submodules.chiplet = chiplet = Chiplet(self.config, offload=CORE_OPCODES)
        m.submodules.core = core = AttributeCore(self.core)
        m.submodules.merge = merge = AXIMerge(*self._port, CORE_ID_WIDTH)
        connect_flat(m, self, "m_axi", merge.o)
        # The chiplet's port has flat names and fewer IDs.
        for name, member in AXI4Signature(*self._port, CORE_ID_WIDTH).members.items():
            outer, inner = getattr(chiplet, f"m_axi_{name}"), getattr(merge.i[0], name)
            m.d.comb += inner.eq(outer) if member.flow == Out else outer.eq(inner)
        attach_core(m, core, "core", merge.i[1])
        connect(m, flipped(self.start), chiplet.start)
        connect(m, chiplet.done, flipped(self.done))
        connect(m, chiplet.offload, core.command)
        connect(m, core.executed, chiplet.offloaded)
        m.d.comb += [core.base.eq(chiplet.base), self.opcode.eq(chiplet.opcode), self.layer.eq(chiplet.layer)]
        return m
