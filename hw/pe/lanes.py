"""Lane array: L multipliers, and L sums for every chunk of an output row."""

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from contracts import ACCUMULATOR_BITS, VALUE_BITS
from hw.pe.formats import PEConfig
from hw.reset import partly_reset

__all__ = ["LaneArray", "read_access"]


def read_access(config: PEConfig) -> dict[str, Any]:
    """Return the members of a `LaneArray`'s interface that say which sums are read."""
    if config.single:
        return {"moves": In(1)}
    return {"read_bank": In(range(config.banks)), "read_chunk": In(range(config.max_chunks))}


class LaneArray(wiring.Component):
    """Multiplies scalars with L values a cycle and adds to the sums of a chunk.

    There are several banks of sums: one task adds up while those before it are read. Tasks use them in turn, and
    the caller starts no task before its bank has been read. If rows have a single chunk, there are two banks beside the
    sums that add up: the first takes the sums of a task with its last operation, which comes when they have a place,
    and the second takes them from there, to be read. So no bit is chosen from two banks.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    i : stream of ``config.operation``, always ready
    done : Out(1)
        High for one cycle when a task's sums are complete; its bank can be read from the next cycle on.
    read_bank, read_chunk : In
        Bank (0 for the first task after reset, then the next) and chunk to read.
    moves : In(1)
        Instead of these, if rows have a single chunk: sums move from the first to the second bank.
    read_data : Out
        The L sums of the chunk, in the same cycle.
    bank, operands, products, shifted
        Bank that accumulates, unless rows have a single chunk, and the registers of the three stages in front.
        Internal, named for proofs.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        self.bank = Signal(range(config.banks))
        self.operands = partly_reset(
            data.StructLayout({"valid": 1, "operation": config.operation}), "valid", name="operands"
        )
        place = {"valid": 1, "chunk": range(config.max_chunks), "high": 1, "first": 1, "last": 1}
        self.products, self.shifted = (
            partly_reset(data.StructLayout(place), "valid", name=name) for name in ("products", "shifted")
        )
        super().__init__(
            {
                "i": In(stream.Signature(config.operation, always_ready=True)),
                "done": Out(1),
                **read_access(config),
                "read_data": Out(data.ArrayLayout(signed(ACCUMULATOR_BITS), config.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the multiplier stages and the accumulation into the banks."""
        m = Module()
        config = self.config
        # Registers on both sides of the multipliers, which take most of a cycle.
        operation, product, add = self.operands.operation, self.products, self.shifted
        m.d.sync += [
            self.operands.valid.eq(self.i.valid),
            operation.eq(self.i.payload),
            product.valid.eq(self.operands.valid),
            *(product[name].eq(operation[name]) for name in ("chunk", "high", "first", "last")),
            add.eq(product),
        ]
        values = []
        for lane in range(config.lanes):
            multiplied = Signal(signed(2 * VALUE_BITS), name=f"product_{lane}", reset_less=True)
            value = Signal(signed(ACCUMULATOR_BITS), name=f"value_{lane}", reset_less=True)
            m.d.sync += multiplied.eq(operation.scalars[lane // config.half] * operation.vector[lane])
            m.d.sync += value.eq(Mux(product.high, multiplied << config.high_bits, multiplied))
            values.append(value)
        m.d.comb += self.done.eq(add.valid & add.last)
        if config.single:
            self._registers(m, values)
        else:
            m.d.sync += self.bank.eq(self.bank + self.done)
            self._memory(m, values)
        return m

    def _registers(self, m: Module, values: list[Signal]) -> None:
        """Add up in one register a lane, which moves on, and is cleared, when a task is complete."""
        for lane, value in enumerate(values):
            total = Signal.like(value, name=f"total_{lane}", reset_less=False)
            kept, read, sum_ = (Signal.like(value, name=f"{name}_{lane}") for name in ("kept", "read", "sum"))
            m.d.comb += [sum_.eq(total + value), self.read_data[lane].eq(read)]
            with m.If(self.shifted.valid):
                m.d.sync += total.eq(sum_)
            with m.If(self.done):
                m.d.sync += [total.eq(0), kept.eq(sum_)]
            with m.If(self.moves):
                m.d.sync += read.eq(kept)

    def _memory(self, m: Module, values: list[Signal]) -> None:
        """Add up in the banks, which are read and written in the same cycle: distributed RAM."""
        config, add = self.config, self.shifted
        sums = data.ArrayLayout(signed(ACCUMULATOR_BITS), config.lanes)
        m.submodules.sums = memory = Memory(shape=sums, depth=config.banks * config.max_chunks, init=[])
        add_port, drain_port = (memory.read_port(domain="comb") for _ in range(2))
        write_port = memory.write_port()
        address: Value = Cat(add.chunk, self.bank)
        m.d.comb += [
            add_port.addr.eq(address),
            write_port.addr.eq(address),
            write_port.en.eq(add.valid),
            drain_port.addr.eq(Cat(self.read_chunk, self.read_bank)),
            self.read_data.eq(drain_port.data),
        ]
        for lane, value in enumerate(values):
            m.d.comb += write_port.data[lane].eq(Mux(add.first, 0, add_port.data[lane]) + value)
