"""Lane array: L multipliers, and L sums for every chunk of an output row."""

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from contracts import ACCUMULATOR_BITS, VALUE_BITS
from hw.pe.formats import PEConfig
from hw.reset import partly_reset

__all__ = ["LaneArray"]


class LaneArray(wiring.Component):
    """Multiplies a scalar with L values a cycle and adds to the sums of a chunk.

    There are several banks of sums: one task adds up while those before it are read. Tasks use them in turn, and
    the caller starts no task before its bank has been read.

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
    read_data : Out
        The L sums of the chunk, in the same cycle.
    bank, operands, products
        Bank that accumulates, and the registers of the two stages in front. Internal, named for proofs.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        self.bank = Signal(range(config.banks))
        self.operands = partly_reset(
            data.StructLayout({"valid": 1, "operation": config.operation}), "valid", name="operands"
        )
        self.products = partly_reset(
            data.StructLayout({"valid": 1, "chunk": range(config.max_chunks), "high": 1, "first": 1, "last": 1}),
            "valid",
            name="products",
        )
        sums = data.ArrayLayout(signed(ACCUMULATOR_BITS), config.lanes)
        super().__init__(
            {
                "i": In(stream.Signature(config.operation, always_ready=True)),
                "done": Out(1),
                "read_bank": In(range(config.banks)),
                "read_chunk": In(range(config.max_chunks)),
                "read_data": Out(sums),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the multiplier stages and the accumulation into the banks."""
        m = Module()
        config = self.config
        sums = data.ArrayLayout(signed(ACCUMULATOR_BITS), config.lanes)
        # Read and written in the same cycle, hence memory with asynchronous read (LUT RAM).
        m.submodules.sums = memory = Memory(shape=sums, depth=config.banks * config.max_chunks, init=[])
        add_port = memory.read_port(domain="comb")
        drain_port = memory.read_port(domain="comb")
        write_port = memory.write_port()

        # Registers on both sides of the multipliers, which take most of a cycle.
        operation, add = self.operands.operation, self.products
        products = Signal(data.ArrayLayout(signed(2 * VALUE_BITS), config.lanes), reset_less=True)
        m.d.sync += [
            self.operands.valid.eq(self.i.valid),
            operation.eq(self.i.payload),
            add.valid.eq(self.operands.valid),
            add.chunk.eq(operation.chunk),
            add.high.eq(operation.high),
            add.first.eq(operation.first),
            add.last.eq(operation.last),
        ]
        for lane in range(config.lanes):
            m.d.sync += products[lane].eq(operation.scalar * operation.vector[lane])

        address = Cat(add.chunk, self.bank)
        m.d.comb += [
            add_port.addr.eq(address),
            write_port.addr.eq(address),
            write_port.en.eq(add.valid),
            self.done.eq(add.valid & add.last),
        ]
        for lane in range(config.lanes):
            # The upper half of a partial sum counts 2^16 times.
            product = Mux(add.high, products[lane] << VALUE_BITS, products[lane])
            m.d.comb += write_port.data[lane].eq(Mux(add.first, 0, add_port.data[lane]) + product)
        m.d.sync += self.bank.eq(self.bank + self.done)

        m.d.comb += [drain_port.addr.eq(Cat(self.read_chunk, self.read_bank)), self.read_data.eq(drain_port.data)]
        return m
