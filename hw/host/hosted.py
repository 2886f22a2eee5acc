"""A machine behind the control port: the top level for a system on chip."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.host.axi_lite import AXI4LiteSignature
from hw.host.control_port import ADDRESS_WIDTH, ControlPort
from hw.memory.axi import connect_flat, constant_members, drive_constants, flat_members
from hw.memory.axi_narrower import AXINarrower
from hw.stream.black_box import black_boxes_of

__all__ = ["Hosted"]

#: Ports that the control port drives, and those that it observes.
_CONTROLLED, _WATCHED = ("start", "done"), ("opcode", "layer")


class Hosted(wiring.Component):
    """Any machine that runs images, started through registers instead of streams.

    Parameters
    ----------
    machine
        Has ``start``, ``done``, ``opcode``, ``layer`` and an AXI4 manager ``m_axi_*``, like `Chiplet`.
    bus_width
        Width of the beats of ``m_axi_*``, if they are narrower than the machine's; see `AXINarrower`.

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
        See `ControlPort`.
    irq : Out(1)
    m_axi_* : AXI4 manager
        With AxLOCK, AxCACHE and AxQOS, which are constant (`hw.memory.axi.ATTRIBUTES`). And every other port of the
        machine, unchanged; ``opcode`` and ``layer`` show the command in progress.

    Raises
    ------
    ValueError
        If the machine lacks one of these.
    """

    def __init__(self, machine: Any, bus_width: int | None = None) -> None:
        members = dict(machine.signature.members)
        for name in (*_CONTROLLED, *_WATCHED, "m_axi_araddr", "m_axi_rvalid", "m_axi_wvalid"):
            if name not in members:
                raise ValueError(f"machine must have a port {name}, which {type(machine).__name__} has not")
        self.machine = machine
        #: Domains, in the order of ports of a generated module.
        self.domains = getattr(machine, "domains", ("sync",))
        self._narrower: AXINarrower | None = None
        if bus_width is not None and bus_width != len(machine.m_axi_rdata):
            widths = {"address_width": len(machine.m_axi_araddr), "id_width": len(machine.m_axi_arid)}
            self._narrower = AXINarrower(wide=len(machine.m_axi_rdata), narrow=bus_width, **widths)
            members |= flat_members("m_axi", Out(self._narrower.o.signature))
        self._passed = [name for name in members if name not in _CONTROLLED]
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                **{name: members[name] for name in self._passed},
                **constant_members("m_axi"),
            }
        )

    @property
    def modules(self) -> dict[str, Any]:
        """Black boxes of the machine, by the name of their module."""
        return black_boxes_of(self.machine)

    def elaborate(self, platform: Any) -> Module:
        """Put the control port in front of the machine and observe its memory port."""
        m = Module()
        m.submodules.machine = machine = self.machine
        m.submodules.control = control = ControlPort(len(machine.m_axi_araddr))
        connect(m, control.start, machine.start)
        connect(m, machine.done, control.done)
        m.d.comb += [
            control.opcode.eq(machine.opcode),
            control.layer.eq(machine.layer),
            control.read_beat.eq(machine.m_axi_rvalid & machine.m_axi_rready),
            control.write_beat.eq(machine.m_axi_wvalid & machine.m_axi_wready),
            self.irq.eq(control.irq),
        ]
        drive_constants(m, self, "m_axi")
        lite = {name: control for name in control.signature.members if name.startswith("s_axil_")}
        inside = {**lite, **dict.fromkeys(self._passed, machine)}
        if self._narrower is not None:
            inside = {name: inner for name, inner in inside.items() if not name.startswith("m_axi_")}
            self._narrow(m, self._narrower)
        for name, inner in inside.items():
            member, outside, port = self.signature.members[name], getattr(self, name), getattr(inner, name)
            if member.is_signature:
                connect(m, port, flipped(outside))
            else:
                m.d.comb += outside.eq(port) if member.flow == Out else port.eq(outside)
        return m

    def _narrow(self, m: Module, narrower: AXINarrower) -> None:
        """Put the narrower between the machine's memory port and this one."""
        m.submodules.narrower = narrower
        connect_flat(m, self, "m_axi", narrower.o)
        for name, member in narrower.i.signature.members.items():
            port, own = getattr(self.machine, f"m_axi_{name}"), getattr(narrower.i, name)
            m.d.comb += own.eq(port) if member.flow == In else port.eq(own)
