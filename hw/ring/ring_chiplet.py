"""A chiplet with its ring interface: the same units, a ring unit, one memory port."""

from typing import Any

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMPLETION, Error, Opcode
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.command_router import CommandRouter, offload_members
from hw.chiplet.config import GatherChipletConfig
from hw.community.chiplet import CommunityChiplet, CommunityChipletConfig
from hw.contracts import struct
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.axi_merge import AXIMerge
from hw.memory.formats import line_address_width
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.write_port import WritePort
from hw.ring.formats import POSITION_BITS, LinkSignature, RingConfig
from hw.ring.ring_unit import RING_OPCODES, RingUnit
from hw.stream.black_box import black_boxes_of

__all__ = ["RingChiplet"]


class RingChiplet(wiring.Component):
    """One of several chiplets; Verilog is written once, the position comes through ports.

    Parameters
    ----------
    config : GatherChipletConfig or CommunityChipletConfig
        Of a chiplet with gather PEs, or with community PEs that know ``partials``.
    ring : RingConfig
        ``max_out`` is the one of `config`.
    once
        As for `hw.community.chiplet.CommunityChiplet`.
    offload
        Opcodes that a unit outside carries out; none by default.

    Attributes
    ----------
    position, chiplets : In
        Where it is on the ring, and how many there are; constant.
    start, done, opcode, layer, working, m_axi_*, offload, offloaded, base
        As for `hw.chiplet.chiplet.Chiplet`.
    gross, formed, ...
        As for `hw.community.chiplet.CommunityChiplet`, if it is one.
    s_axis_*, m_axis_* : LinkSignature
        From the chiplet before; to the one after.

    Raises
    ------
    ValueError
        If `ring` does not fit `config`.
    """

    def __init__(
        self,
        config: GatherChipletConfig | CommunityChipletConfig | None = None,
        ring: RingConfig | None = None,
        *,
        once: bool = False,
        offload: tuple[Opcode, ...] = (),
    ) -> None:
        self.config, self.offloads = config or GatherChipletConfig(), offload
        pe, (address_width, data_width) = self.config.pe, self.config.port
        self.ring = ring or RingConfig(max_out=pe.max_out)
        if self.ring.max_out != pe.max_out:
            raise ValueError(f"max_out of the ring must be {pe.max_out}, that of the PE, not {self.ring.max_out!r}")
        if self.ring.link_width > data_width:
            raise ValueError(f"link_width must be at most {data_width}, a beat, not {self.ring.link_width!r}")
        #: What computes, without the ring.
        self.chiplet: Any
        if isinstance(self.config, CommunityChipletConfig):
            if not self.config.community.partials:
                raise ValueError("community.partials must be True: halves of sums come round the ring")
            self.chiplet = CommunityChiplet(self.config, once=once, offload=RING_OPCODES + offload)
        else:
            self.chiplet = Chiplet(self.config, offload=RING_OPCODES + offload)
        #: What is counted; ports of that name.
        self.counters = self.config.counters
        #: Bits of the IDs of the chiplet's own port and of the ring unit's.
        self._id_width = len(self.chiplet.m_axi_arid)
        self._link = LinkSignature(self.ring.link_width)
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "start": In(stream.Signature(line_address_width(address_width))),
                "done": Out(stream.Signature(struct(COMPLETION))),
                "opcode": Out(8),
                "layer": Out(8),
                "working": Out(len(self.config.parts)),
                **{name: Out(32) for name in self.counters},
                **flat_members("m_axi", Out(AXI4Signature(address_width, data_width, self._id_width + 1))),
                **flat_members("s_axis", Out(self._link.flip())),
                **flat_members("m_axis", Out(self._link)),
                **(offload_members(address_width) if offload else {}),
            }
        )

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left out because of `once`, by the name of their module."""
        return black_boxes_of(self.chiplet)

    def elaborate(self, platform: object) -> Elaboratable:
        """Put chiplet and ring unit behind one memory port."""
        m = Module()
        config, port, id_width = self.config, self.config.port, self._id_width
        m.submodules.chiplet = chiplet = self.chiplet
        m.submodules.ring = ring = RingUnit(self.ring, *port, config.depth)
        m.submodules.read_arbiter = read_arbiter = ReadArbiter(
            *port, clients=RingUnit.CLIENTS, outstanding=config.depth
        )
        m.submodules.write_port = write_port = WritePort(*port, id_width=id_width)
        m.submodules.merge = merge = AXIMerge(*port, id_width)
        connect_flat(m, self, "m_axi", merge.o)
        # The chiplet's port has flat names, the merge's an interface.
        for name, member in AXI4Signature(*port, id_width).members.items():
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
        if self.offloads:
            m.submodules.command_router = router = CommandRouter(self.offloads)
            connect(m, chiplet.offload, router.i)
            connect(m, router.executed, chiplet.offloaded)
            for n, (command, executed) in enumerate(
                ((ring.command, ring.executed), (flipped(self.offload), flipped(self.offloaded)))
            ):
                connect(m, router.o[n], command)
                connect(m, executed, router.answers[n])
            m.d.comb += self.base.eq(chiplet.base)
        else:
            connect(m, chiplet.offload, ring.command)
            connect(m, ring.executed, chiplet.offloaded)
        m.d.comb += [
            ring.position.eq(self.position),
            ring.chiplets.eq(self.chiplets),
            ring.base.eq(chiplet.base),
            ring.writing.eq(write_port.busy),
            self.opcode.eq(chiplet.opcode),
            self.layer.eq(chiplet.layer),
            self.working.eq(chiplet.working),
            *(getattr(self, name).eq(getattr(chiplet, name)) for name in self.counters),
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
