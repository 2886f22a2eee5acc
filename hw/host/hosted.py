"""A machine behind the control port: the top level for a system on chip."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.host.axi_lite import AXI4LiteSignature
from hw.host.control_port import ADDRESS_WIDTH, ControlPort
from hw.memory.axi import ATTRIBUTES, flat_members
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

    def __init__(self, machine: Any) -> None:
        members = dict(machine.signature.members)
        for name in (*_CONTROLLED, *_WATCHED, "m_axi_araddr", "m_axi_rvalid", "m_axi_wvalid"):
            if name not in members:
                raise ValueError(f"machine must have a port {name}, which {type(machine).__name__} has not")
        self.machine = machine
        self._passed = [name for name in members if name not in _CONTROLLED]
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                **{name: members[name] for name in self._passed},
                **{name: Out(width) for name, (width, _) in _attributes().items()},
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
        m.d.comb += [getattr(self, name).eq(value) for name, (_, value) in _attributes().items()]
        lite = {name: control for name in control.signature.members if name.startswith("s_axil_")}
        for name, inner in {**lite, **dict.fromkeys(self._passed, machine)}.items():
            member, outside, inside = self.signature.members[name], getattr(self, name), getattr(inner, name)
            if member.is_signature:
                connect(m, inside, flipped(outside))
            else:
                m.d.comb += outside.eq(inside) if member.flow == Out else inside.eq(outside)
        return m


def _attributes() -> dict[str, tuple[int, int]]:
    """Return width and value of the constant signals of the memory port's address channels."""
    return {f"m_axi_{channel}{name}": signal for channel in ("ar", "aw") for name, signal in ATTRIBUTES.items()}
