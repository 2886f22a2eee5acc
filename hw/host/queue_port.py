"""Queue port: registers through which a host queues single commands for cores and takes their completions (A9)."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import bits_for

from contracts import COMMAND_BYTES, COMPLETION
from contracts.registers import (
    COMMAND_WORDS,
    QUEUE_REGISTERS,
    REGISTER_BITS,
    REGISTER_BYTES,
    queue_register,
)
from hw.contracts import struct
from hw.host.axi_lite import AXI4LiteSignature, AXILiteSubordinate
from hw.memory.axi import connect_flat, flat_members
from hw.memory.formats import line_address_width
from hw.stream.queue import Queue

__all__ = ["ADDRESS_WIDTH", "QueuePort"]

#: Width of byte addresses of the port.
ADDRESS_WIDTH = bits_for(max(entry.address for entry in QUEUE_REGISTERS))
#: Completions that may wait; more stall the cores, and none is lost.
_COMPLETIONS = 16


class QueuePort(wiring.Component):
    """Registers of `contracts.registers.QUEUE_REGISTERS` between a host and a command processor.

    These accesses are refused with SLVERR and have no effect: an address without a register, a write to a read-only
    register, the last word of a command without room, a base that the memory port cannot reach, and `take` without a
    completion.

    Parameters
    ----------
    address_width
        Width of the memory port's byte addresses, in bits.
    cores
        Cores that are counted, 1..16.

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
    irq : Out(1)
        High while a completion waits and the interrupt is enabled.
    command : stream of unsigned(512)
    completion : stream of `contracts.COMPLETION`
    base : Out
        Line address that addresses in commands count from.
    busy : In
        A bit for each core.

    Raises
    ------
    ValueError
        If `cores` is out of its range.
    """

    def __init__(self, address_width: int = 32, cores: int = 2) -> None:
        if not 1 <= cores <= 16:
            raise ValueError(f"cores must be in 1..16, not {cores!r}")
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                "command": Out(stream.Signature(8 * COMMAND_BYTES)),
                "completion": In(stream.Signature(struct(COMPLETION))),
                "base": Out(line_address_width(address_width)),
                "busy": In(cores),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Keep the words of a command, queue completions, count, answer reads, carry out writes."""
        m = Module()
        m.submodules.bus = bus = AXILiteSubordinate(ADDRESS_WIDTH)
        connect_flat(m, self, "s_axil", bus.bus)
        m.submodules.completions = ended = Queue(struct(COMPLETION), _COMPLETIONS)
        connect(m, flipped(self.completion), ended.i)

        enabled, working, core_cycles = Signal(), Signal(REGISTER_BITS), Signal(REGISTER_BITS)
        words = Array(Signal(REGISTER_BITS, name=f"word_{n}") for n in range(COMMAND_WORDS))
        m.d.comb += [self.irq.eq(ended.o.valid & enabled), self.command.payload.eq(Cat(words))]
        m.d.sync += [
            working.eq(working + self.busy.any()),
            core_cycles.eq(core_cycles + sum(self.busy[n] for n in range(len(self.busy)))),
        ]
        with m.If(self.command.ready):
            m.d.sync += self.command.valid.eq(0)
        last, level = ended.o.payload, Signal(6)
        m.d.comb += level.eq(ended.level)
        values: dict[str, Value] = {
            "STATUS": Cat(~self.command.valid, self.irq, level, self.busy),
            "BASE": self.base,
            "INTERRUPT": enabled,
            "COMPLETION": Mux(ended.o.valid, Cat(last.error, last.layer, last.tag), 0),
            "INFO": Mux(ended.o.valid, last.info, 0),
            "WORKING": working,
            "CORE_CYCLES": core_cycles,
        }
        m.d.comb += bus.read_refused.eq(1)
        with m.Switch(bus.read_index):
            for entry in QUEUE_REGISTERS:
                with m.Case(entry.address // REGISTER_BYTES):
                    m.d.comb += [bus.read_data.eq(values.get(entry.name, entry.reset)), bus.read_refused.eq(0)]
        self._write(m, bus, ended, enabled, words)
        with m.If(bus.write & (bus.write_index == _index("CONTROL")) & bus.write_data[1] & bus.write_strobe[0]):
            m.d.sync += [working.eq(0), core_cycles.eq(0)]
        return m

    def _write(self, m: Module, bus: AXILiteSubordinate, ended: Queue, enabled: Signal, words: Any) -> None:
        """Refuse or carry out a write; bytes without a strobe count as 0."""
        mask = Cat(bit.replicate(8) for bit in bus.write_strobe)
        data = Signal(REGISTER_BITS)
        first, done = _index("COMMAND_0"), Signal()
        m.d.comb += [data.eq(bus.write_data & mask), bus.write_refused.eq(1), done.eq(bus.write & ~bus.write_refused)]
        with m.Switch(bus.write_index):
            with m.Case(_index("CONTROL")):
                m.d.comb += [bus.write_refused.eq(data[0] & ~ended.o.valid), ended.o.ready.eq(done & data[0])]
            with m.Case(_index("BASE")):
                m.d.comb += bus.write_refused.eq(data[len(self.base) :].any())
                with m.If(done):
                    m.d.sync += self.base.eq(data)
            with m.Case(_index("INTERRUPT")):
                m.d.comb += bus.write_refused.eq(0)
                with m.If(done):
                    m.d.sync += enabled.eq(data[0])
            for number in range(COMMAND_WORDS):
                with m.Case(first + number):
                    # The words of a command that waits do not change.
                    m.d.comb += bus.write_refused.eq(self.command.valid)
                    with m.If(done):
                        m.d.sync += words[number].eq(data)
                        if number == COMMAND_WORDS - 1:
                            m.d.sync += self.command.valid.eq(1)


def _index(name: str) -> int:
    """Return the number of a register."""
    return queue_register(name).address // REGISTER_BYTES
