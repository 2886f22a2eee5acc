"""A chiplet with its ring interface: the same units, a ring unit, one memory port."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from golden.contracts import COMPLETION, Error
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import ChipletConfig
from hw.contracts import struct
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.formats import line_address_width
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.write_port import WritePort
from hw.ring.axi_merge import AXIMerge
from hw.ring.formats import POSITION_BITS, LinkSignature, RingConfig
from hw.ring.ring_unit import RING_OPCODES, RingUnit

__all__ = ["RingChiplet"]

#: Bits of the IDs of the chiplet's own port and of the ring unit's.
_ID_WIDTH = 3


class RingChiplet(wiring.Component):
    """One of several chiplets; Verilog is written once, the position comes through ports.

    Parameters
    ----------
    config : ChipletConfig
    ring : RingConfig
        ``max_out`` is the one of `config`.

    Attributes
    ----------
    position, chiplets : In
        Where it is on the ring, and how many there are; constant.
    start, done, opcode, layer, m_axi_*
        As for `hw.chiplet.chiplet.Chiplet`.
    s_axis_*, m_axis_* : LinkSignature
        From the chiplet before; to the one after.

    Raises
    ------
    ValueError
        If `ring` does not fit `config`.
    """

    def __init__(self, config: ChipletConfig | None = None, ring: RingConfig | None = None) -> None:
        self.config = config or ChipletConfig()
        pe = self.config.pe
        self.ring = ring or RingConfig(max_out=pe.max_out)
        if self.ring.max_out != pe.max_out:
            raise ValueError(f"max_out of the ring must be {pe.max_out}, that of the PE, not {self.ring.max_out!r}")
        if self.ring.link_width > pe.data_width:
            raise ValueError(f"link_width must be at most {pe.data_width}, a beat, not {self.ring.link_width!r}")
        self._chiplet = Chiplet(self.config, offload=RING_OPCODES)
        self._link = LinkSignature(self.ring.link_width)
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "start": In(stream.Signature(line_address_width(pe.address_width))),
                "done": Out(stream.Signature(struct(COMPLETION))),
                "opcode": Out(8),
                "layer": Out(8),
                **flat_members("m_axi", Out(AXI4Signature(pe.address_width, pe.data_width, _ID_WIDTH + 1))),
                **flat_members("s_axis", Out(self._link.flip())),
                **flat_members("m_axis", Out(self._link)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Put chiplet and ring unit behind one memory port."""
        m = Module()
        config, pe = self.config, self.config.pe
        port = (pe.address_width, pe.data_width)
        m.submodules.chiplet = chiplet = self._chiplet
        m.submodules.ring = ring = RingUnit(self.ring, *port, config.depth)
        m.submodules.read_arbiter = read_arbiter = ReadArbiter(
            *port, clients=RingUnit.CLIENTS, outstanding=config.depth
        )
        m.submodules.write_port = write_port = WritePort(*port, id_width=_ID_WIDTH)
        m.submodules.merge = merge = AXIMerge(*port, _ID_WIDTH)
        connect_flat(m, self, "m_axi", merge.o)
        # The chiplet's port has flat names, the merge's an interface.
        for name, member in AXI4Signature(*port, _ID_WIDTH).members.items():
            outer, inner = getattr(chiplet, f"m_axi_{name}"), getattr(merge.i[0], name)
            m.d.comb += inner.eq(outer) if member.flow == Out else outer.eq(inner)
        for part in (read_arbiter, write_port):
            for name, member in part.m_axi.signature.members.items():
                outer, inner = getattr(part.m_axi, name), getattr(merge.i[1], name)
                m.d.comb += inner.eq(outer) if member.flow == Out else outer.eq(inner)
        for n in range(RingUnit.CLIENTS):
            connect(m, ring.requests[n], read_arbiter.requests[n])
            connect(m, read_arbiter.beats[n], ring.beats[n])
        connect(m, ring.write, write_port.i)
        connect(m, flipped(self.start), chiplet.start)
        connect(m, chiplet.done, flipped(self.done))
        connect(m, chiplet.offload, ring.command)
        connect(m, ring.executed, chiplet.offloaded)
        m.d.comb += [
            ring.position.eq(self.position),
            ring.chiplets.eq(self.chiplets),
            ring.base.eq(chiplet.base),
            ring.writing.eq(write_port.busy),
            self.opcode.eq(chiplet.opcode),
            self.layer.eq(chiplet.layer),
            ring.stop.valid.eq(chiplet.done.valid & (chiplet.done.payload.error != Error.NONE)),
            ring.stop.payload.code.eq(chiplet.done.payload.error),
            ring.stop.payload.info.eq(chiplet.done.payload.info),
        ]
        for n, (failure, code) in enumerate(
            ((read_arbiter.failure, Error.MEMORY_READ), (write_port.failure, Error.MEMORY_WRITE))
        ):
            m.d.comb += [
                ring.errors[n].valid.eq(failure.valid),
                ring.errors[n].payload.code.eq(code),
                ring.errors[n].payload.info.eq(failure.payload),
            ]
        for prefix, link in (("s_axis", ring.s_axis), ("m_axis", ring.m_axis)):
            connect_flat(m, self, prefix, link)
        return m
