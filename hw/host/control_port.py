"""Control port: the registers through which a host starts runs and reads their results."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from contracts import COMPLETION
from contracts.registers import COUNTERS, REGISTER_BITS, REGISTER_BYTES, REGISTERS, register
from hw.contracts import struct
from hw.host.axi_lite import AXI4LiteSignature, AXILiteSubordinate
from hw.host.unit_counters import UNITS_MAX
from hw.memory.axi import connect_flat, flat_members
from hw.memory.formats import line_address_width

__all__ = ["ADDRESS_WIDTH", "ControlPort"]

#: Width of byte addresses of the control port.
ADDRESS_WIDTH = bits_for(max(entry.address for entry in REGISTERS))


class _Registers(NamedTuple):
    """Registers that the host can write or clear."""

    image: Signal
    enabled: Signal
    busy: Signal
    done: Signal
    sticky: Signal
    counters: dict[str, Signal]


class ControlPort(wiring.Component):
    """Registers of `contracts.registers` between a host and a machine.

    These accesses are refused with SLVERR and have no effect: an address without a register, a write to a read-only
    register, a start during a run, an image's address that the memory port cannot reach, and a unit beyond the last.

    Parameters
    ----------
    address_width
        Width of the memory port's byte addresses, in bits.
    counter_bits
        Bits of each counter, 1..64; counters wrap.
    ports
        Memory ports, at least 1.
    units
        Units whose work is counted beside the port, by `hw.host.unit_counters`.

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
    irq : Out(1)
        High while a run is done, not acknowledged, and the interrupt is enabled.
    start : stream of line addresses
    done : stream of `contracts.COMPLETION`
        One for each start, accepted at once.
    opcode, layer : In(8)
        Current command.
    read_beat, write_beat : In(range(ports + 1))
        Beats that pass the memory ports in this cycle.
    clear : Out(1)
        The host clears the counters in this cycle.
    unit : Out
        Unit that the host has selected.
    unit_cycles : In(32)
        Cycles in which it has worked, as of two cycles after it was selected at the latest.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(
        self, address_width: int = 32, counter_bits: int = 2 * REGISTER_BITS, units: int = 12, ports: int = 1
    ) -> None:
        if not 1 <= counter_bits <= 2 * REGISTER_BITS:
            raise ValueError(f"counter_bits must be in 1..{2 * REGISTER_BITS}, not {counter_bits!r}")
        if not 1 <= units <= UNITS_MAX:
            raise ValueError(f"units must be in 1..{UNITS_MAX}, not {units!r}")
        self._counter_bits, self._units = counter_bits, units
        self._line = unsigned(line_address_width(address_width))
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                "start": Out(stream.Signature(self._line)),
                "done": In(stream.Signature(struct(COMPLETION))),
                "opcode": In(8),
                "layer": In(8),
                "read_beat": In(range(ports + 1)),
                "write_beat": In(range(ports + 1)),
                "clear": Out(1),
                # Of one unit, too: Verilog has no ports without bits.
                "unit": Out(range(max(2, units))),
                "unit_cycles": In(REGISTER_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Count, answer reads, carry out writes, record how runs end; a later assignment wins."""
        m = Module()
        m.submodules.bus = bus = AXILiteSubordinate(ADDRESS_WIDTH)
        connect_flat(m, self, "s_axil", bus.bus)

        image, enabled = Signal(REGISTER_BITS), Signal()
        busy, done = Signal(), Signal()
        last, sticky = Signal(struct(COMPLETION)), Signal(8)
        counters = {name: Signal(self._counter_bits, name=name) for name in COUNTERS}
        registers = _Registers(image, enabled, busy, done, sticky, counters)
        m.d.comb += [self.irq.eq(done & enabled), self.done.ready.eq(1)]
        values = {
            "STATUS": Cat(busy, done, sticky != 0, self.irq),
            "IMAGE": image,
            "INTERRUPT": enabled,
            "COMPLETION": Cat(last.error, last.layer, last.tag),
            "INFO": last.info,
            "ERROR": sticky,
            "COMMAND": Cat(self.opcode, self.layer),
            "UNITS": Const(self._units),
            "UNIT": self.unit,
            "UNIT_CYCLES": self.unit_cycles,
            "CONTROL": Const(0),
        }
        self._read(m, bus, values, counters)
        for counter, counts in zip(counters.values(), (busy, self.read_beat, self.write_beat), strict=True):
            m.d.sync += counter.eq(counter + counts)
        with m.If(self.start.ready):
            m.d.sync += self.start.valid.eq(0)
        self._write(m, bus, registers)
        # Behind the host's writes, so that a run that ends in the same cycle is not lost.
        with m.If(self.done.valid):
            m.d.sync += [busy.eq(0), done.eq(1), last.eq(self.done.payload)]
            with m.If((sticky == 0) | self.clear):
                m.d.sync += sticky.eq(self.done.payload.error)
        return m

    def _read(self, m: Module, bus: AXILiteSubordinate, values: dict[str, Value], counters: dict[str, Signal]) -> None:
        """Answer a read; the high half of a counter is latched when its low half is read."""
        held = Signal(REGISTER_BITS)
        for name, counter in counters.items():
            values |= {f"{name.upper()}_LOW": counter[:REGISTER_BITS], f"{name.upper()}_HIGH": held}
        m.d.comb += bus.read_refused.eq(1)
        with m.Switch(bus.read_index):
            for entry in REGISTERS:
                with m.Case(entry.address // REGISTER_BYTES):
                    m.d.comb += [bus.read_data.eq(values.get(entry.name, entry.reset)), bus.read_refused.eq(0)]
                    for name, counter in counters.items():
                        if entry.name == f"{name.upper()}_LOW":
                            with m.If(bus.read):
                                m.d.sync += held.eq(counter[REGISTER_BITS:])

    def _write(self, m: Module, bus: AXILiteSubordinate, registers: _Registers) -> None:
        """Refuse or carry out a write."""
        image, busy = registers.image, registers.busy
        # Bytes without a strobe keep their value; in registers that act, they are 0.
        mask = Cat(bit.replicate(8) for bit in bus.write_strobe)
        written = (bus.write_data & mask) | (image & ~mask)
        unit = (bus.write_data & mask) | (self.unit & ~mask)
        control = data.View(struct(register("CONTROL").layout), bus.write_data & mask)
        m.d.comb += bus.write_refused.eq(1)
        with m.Switch(bus.write_index):
            with m.Case(_index("CONTROL")):
                m.d.comb += bus.write_refused.eq(control.start & busy)
            with m.Case(_index("IMAGE")):
                m.d.comb += bus.write_refused.eq(written[self._line.width :].any())
            with m.Case(_index("INTERRUPT")):
                m.d.comb += bus.write_refused.eq(0)
            with m.Case(_index("UNIT")):
                m.d.comb += bus.write_refused.eq(unit >= self._units)
        with m.If(bus.write & ~bus.write_refused):
            with m.Switch(bus.write_index):
                with m.Case(_index("CONTROL")):
                    with m.If(control.start):
                        m.d.sync += [busy.eq(1), self.start.valid.eq(1), self.start.payload.eq(image)]
                    with m.If(control.start | control.acknowledge):
                        m.d.sync += registers.done.eq(0)
                    with m.If(control.clear):
                        m.d.comb += self.clear.eq(1)
                        m.d.sync += registers.sticky.eq(0)
                        m.d.sync += [counter.eq(0) for counter in registers.counters.values()]
                with m.Case(_index("IMAGE")):
                    m.d.sync += image.eq(written)
                with m.Case(_index("INTERRUPT")):
                    with m.If(bus.write_strobe[0]):
                        m.d.sync += registers.enabled.eq(bus.write_data[0])
                with m.Case(_index("UNIT")):
                    m.d.sync += self.unit.eq(unit)


def _index(name: str) -> int:
    """Return the number of a register."""
    return register(name).address // REGISTER_BYTES
