"""Lane array: L multipliers, and L sums for every chunk of an output row."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from golden.contracts import ACCUMULATOR_BITS, VALUE_BITS
from hw.pe.formats import PEConfig

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
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
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

        # Registers on both sides of the multipliers let synthesis put them into the DSP blocks.
        operation, operation_valid = Signal(config.operation), Signal()
        m.d.sync += [operation.eq(self.i.payload), operation_valid.eq(self.i.valid)]
        products = Signal(data.ArrayLayout(signed(2 * VALUE_BITS), config.lanes))
        products_valid = Signal()
        add = Signal(data.StructLayout({"chunk": range(config.max_chunks), "first": 1, "last": 1}))
        for lane in range(config.lanes):
            m.d.sync += products[lane].eq(operation.scalar * operation.vector[lane])
        m.d.sync += [
            products_valid.eq(operation_valid),
            add.chunk.eq(operation.chunk),
            add.first.eq(operation.first),
            add.last.eq(operation.last),
        ]

        bank = Signal(range(config.banks))
        address = Cat(add.chunk, bank)
        m.d.comb += [
            add_port.addr.eq(address),
            write_port.addr.eq(address),
            write_port.en.eq(products_valid),
            self.done.eq(products_valid & add.last),
        ]
        for lane in range(config.lanes):
            m.d.comb += write_port.data[lane].eq(Mux(add.first, 0, add_port.data[lane]) + products[lane])
        with m.If(self.done):
            m.d.sync += bank.eq(bank + 1)

        m.d.comb += [drain_port.addr.eq(Cat(self.read_chunk, self.read_bank)), self.read_data.eq(drain_port.data)]
        return m
