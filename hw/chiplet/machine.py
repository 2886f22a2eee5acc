"""Machine: a chiplet and the units beside it that carry out some of its commands, behind one memory port."""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped

from contracts import Opcode
from hw.chiplet.command_router import CommandRouter, offload_members
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.axi_merge import AXIMerge
from hw.memory.unit_port import UNIT_ID_WIDTH, attach_unit
from hw.stream.black_box import black_boxes_of

__all__ = ["Machine", "opcodes_of", "with_units"]


def opcodes_of(units: Mapping[str, Any]) -> tuple[Opcode, ...]:
    """Return the commands of all units: what their chiplet's ``offload`` has to name."""
    return tuple(opcode for unit in units.values() for opcode in unit.OPCODES)


def with_units(make: Callable[[tuple[Opcode, ...]], Any], units: Mapping[str, Any]) -> Any:
    """Return what `make` gives for the commands of all units, beside these; alone if there are none."""
    chiplet = make(opcodes_of(units))
    return Machine(chiplet, units) if units else chiplet


class Machine(wiring.Component):
    """One command list for all: each command goes to the unit that knows its opcode, all others to the chiplet.

    Parameters
    ----------
    chiplet
        Any chiplet, made with ``offload=opcodes_of(units)``.
    units
        By name; each has ``OPCODES``, ``command``, ``executed`` and ``base`` like `hw.dnp.neural_unit.NeuralUnit`, and
        is a `hw.memory.unit_port.MemoryUnit`. There is at least one.

    Attributes
    ----------
    m_axi_* : AXI4 manager
        The memory port; its IDs have a bit more than the widest inside for each unit.

        All other ports are the chiplet's.

    Raises
    ------
    ValueError
        If there are no units, or the memory ports of one and the chiplet differ.
    """

    def __init__(self, chiplet: Any, units: Mapping[str, Any]) -> None:
        if not units:
            raise ValueError("units must name at least one, not none")
        self.chiplet, self.units, self.config = chiplet, dict(units), chiplet.config
        self.port: tuple[int, int] = self.config.port
        for name, unit in units.items():
            if unit.port != self.port:
                raise ValueError(f"{name} must have a memory port of {self.port} bits, the chiplet's, not {unit.port}")
        self._inner_width = max(len(chiplet.m_axi_arid), UNIT_ID_WIDTH)
        address_width, data_width = self.port
        taken = {*offload_members(address_width), *flat_members("m_axi", Out(AXI4Signature(address_width, data_width)))}
        self._passed = {name: member for name, member in chiplet.signature.members.items() if name not in taken}
        width = self._inner_width + len(units)
        super().__init__(
            {**self._passed, **flat_members("m_axi", Out(AXI4Signature(address_width, data_width, width)))}
        )

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left out because of ``once``, by the name of their module."""
        whole = (self.chiplet, *self.units.values())
        return {name: part for one in whole for name, part in black_boxes_of(one).items()}

    def elaborate(self, platform: object) -> Elaboratable:
        """Merge the memory ports one after another; route commands likewise."""
        m = Module()
        m.submodules.chiplet = chiplet = self.chiplet
        for name, member in self._passed.items():
            outer, inner = getattr(self, name), getattr(chiplet, name)
            if member.is_signature:
                connect(m, inner, flipped(outer))
            else:
                m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)

        signature, width = AXI4Signature(*self.port, self._inner_width), self._inner_width
        merged = signature.create(path=("chiplet_axi",))
        # The chiplet's port has flat names and perhaps fewer IDs.
        for name, member in signature.members.items():
            outer, inner = getattr(chiplet, f"m_axi_{name}"), getattr(merged, name)
            m.d.comb += inner.eq(outer) if member.flow == Out else outer.eq(inner)
        command, executed = chiplet.offload, chiplet.offloaded
        for number, (name, unit) in enumerate(self.units.items(), start=1):
            m.submodules[name] = unit
            m.submodules[f"{name}_merge"] = merge = AXIMerge(*self.port, width)
            connect(m, merged, merge.i[0])
            attach_unit(m, unit, name, merge.i[1])
            merged, width = merge.o, width + 1
            m.d.comb += unit.base.eq(chiplet.base)
            if number == len(self.units):
                connect(m, command, unit.command)
                connect(m, unit.executed, executed)
                break
            m.submodules[f"{name}_commands"] = router = CommandRouter(unit.OPCODES)
            connect(m, command, router.i)
            connect(m, router.executed, executed)
            connect(m, router.o[1], unit.command)
            connect(m, unit.executed, router.answers[1])
            command, executed = router.o[0], router.answers[0]
        connect_flat(m, self, "m_axi", merged)
        return m
