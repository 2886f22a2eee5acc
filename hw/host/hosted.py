"""A machine behind the control port: the top level for a system on chip."""

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts.memory_ports import sharing, signals_of
from hw.host.axi_lite import AXI4LiteSignature
from hw.host.control_port import ADDRESS_WIDTH, ControlPort
from hw.host.unit_counters import UnitCounters
from hw.memory.axi import connect_flat, constant_members, drive_constants, flat_members
from hw.memory.axi_narrower import AXINarrower
from hw.stream.black_box import black_boxes_of

__all__ = ["Hosted"]

#: Ports that the control port drives, and those that it observes.
_CONTROLLED, _WATCHED = ("start", "done"), ("opcode", "layer", "working")


class Hosted(wiring.Component):
    """Any machine that runs images, started through registers instead of streams.

    Parameters
    ----------
    machine
        Has ``start``, ``done``, ``opcode``, ``layer``, ``working``, an AXI4 manager ``m_axi_*``, and the names of
        the bits of ``working`` as ``config.parts``, like `Chiplet`.
    bus_width
        Width of the beats of its memory ports, if they are narrower than the machine's; see `AXINarrower`.

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
        See `ControlPort`.
    irq : Out(1)
    m_axi_* : AXI4 manager
        And ``m_axi_1_*`` and so on, if the machine has further ports. With AxLOCK, AxCACHE and AxQOS, which
        are constant (`hw.memory.axi.ATTRIBUTES`). And every other port of the machine, unchanged; ``opcode`` and
        ``layer`` show the command in progress.

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
        self._memory = sharing("m_axi", members)
        #: By the prefix of each port, if there are any.
        self._narrowers: dict[str, AXINarrower] = {}
        if bus_width is not None and bus_width != len(machine.m_axi_rdata):
            widths = {"address_width": len(machine.m_axi_araddr), "id_width": len(machine.m_axi_arid)}
            for prefix in self._memory:
                narrower = AXINarrower(wide=len(machine.m_axi_rdata), narrow=bus_width, **widths)
                self._narrowers[prefix] = narrower
                members |= flat_members(prefix, Out(narrower.o.signature))
        self._passed = [name for name in members if name not in _CONTROLLED]
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                **{name: members[name] for name in self._passed},
                **{name: member for prefix in self._memory for name, member in constant_members(prefix).items()},
            }
        )

    @property
    def modules(self) -> dict[str, Any]:
        """Black boxes of the machine, by the name of their module."""
        return black_boxes_of(self.machine)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the units whose work is counted, by number."""
        return tuple(self.machine.config.parts)

    def elaborate(self, platform: Any) -> Module:
        """Put the control port in front of the machine; observe its memory ports and its units."""
        m = Module()
        m.submodules.machine = machine = self.machine
        units, ports = len(machine.working), len(self._memory)
        m.submodules.control = control = ControlPort(len(machine.m_axi_araddr), units=units, ports=ports)
        m.submodules.unit_counters = counters = UnitCounters(units)
        connect(m, control.start, machine.start)
        connect(m, machine.done, control.done)
        m.d.comb += [
            control.opcode.eq(machine.opcode),
            control.layer.eq(machine.layer),
            control.read_beat.eq(self._passing("r")),
            control.write_beat.eq(self._passing("w")),
            self.irq.eq(control.irq),
            counters.working.eq(machine.working),
            counters.clear.eq(control.clear),
            counters.unit.eq(control.unit),
            control.unit_cycles.eq(counters.cycles),
        ]
        for prefix in self._memory:
            drive_constants(m, self, prefix)
        lite = {name: control for name in control.signature.members if name.startswith("s_axil_")}
        inside = {**lite, **dict.fromkeys(self._passed, machine)}
        for prefix, narrower in self._narrowers.items():
            for name in signals_of(prefix, inside):
                del inside[name]
            self._narrow(m, prefix, narrower)
        for name, inner in inside.items():
            member, outside, port = self.signature.members[name], getattr(self, name), getattr(inner, name)
            if member.is_signature:
                connect(m, port, flipped(outside))
            else:
                m.d.comb += outside.eq(port) if member.flow == Out else port.eq(outside)
        return m

    def _passing(self, channel: str) -> Value:
        """Return how many beats pass in a cycle."""
        ports = (f"{prefix}_{channel}" for prefix in self._memory)
        return sum(getattr(self.machine, f"{port}valid") & getattr(self.machine, f"{port}ready") for port in ports)

    def _narrow(self, m: Module, prefix: str, narrower: AXINarrower) -> None:
        """Put the narrower between a memory port of the machine and this one's."""
        m.submodules[f"narrower{prefix.removeprefix('m_axi')}"] = narrower
        connect_flat(m, self, prefix, narrower.o)
        for name, member in narrower.i.signature.members.items():
            port, own = getattr(self.machine, f"{prefix}_{name}"), getattr(narrower.i, name)
            m.d.comb += own.eq(port) if member.flow == In else port.eq(own)
