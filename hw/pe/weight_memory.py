"""Weight memory: one copy of the weights of a layer for one PE or two."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from contracts import VALUE_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.pe.formats import PEConfig

__all__ = ["READERS", "WeightMemory"]

#: Most PEs that read a copy: a block RAM has two sides, one of which writes as well.
READERS = 2


class WeightMemory(wiring.Component):
    """A memory for each half of the lanes.

    Parameters
    ----------
    config : PEConfig
    readers
        PEs, 1 or 2.

    Attributes
    ----------
    write : stream of ``config.weight_write``, always ready
        Written between layers only.
    addresses, rows
        Addresses of each PE for the two halves of its lanes; in the next cycle, the weights there, of all lanes.
    """

    def __init__(self, config: PEConfig, readers: int) -> None:
        if not 1 <= readers <= READERS:
            raise ValueError(f"readers must be in 1..{READERS}, not {readers!r}")
        self.config, self.readers = config, readers
        super().__init__(
            {
                "write": In(stream.Signature(config.weight_write, always_ready=True)),
                "addresses": In(config.weight_addresses).array(readers),
                "rows": Out(config.weights).array(readers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Let the first reader's side of a memory write, too."""
        m = Module()
        config, written = self.config, self.write
        for half, first in enumerate(range(0, config.lanes, config.half)):
            row = data.ArrayLayout(signed(VALUE_BITS), config.half)
            # Never read while it is written.
            memory = Memory(shape=row, depth=config.weight_rows, init=[], attrs=dict(NO_BYPASS))
            m.submodules[f"half_{half}"] = memory
            write = memory.write_port()
            # The same signal for both, so that they share a side of the block RAM.
            shared: Any = Signal(range(config.weight_rows), name=f"shared_{half}")
            m.d.comb += [
                shared.eq(Mux(written.valid, written.payload.address, self.addresses[0][half])),
                write.addr.eq(shared),
                write.en.eq(written.valid),
                *(write.data[n].eq(written.payload.data[first + n]) for n in range(config.half)),
            ]
            for reader, weights in enumerate(self.rows):
                read = registered_read(m, memory, f"read_{half}_{reader}")
                m.d.comb += read.addr.eq(self.addresses[reader][half] if reader else shared)
                m.d.comb += [weights[first + n].eq(read.data[n]) for n in range(config.half)]
        return m
