"""A memory with one writer and several readers."""

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read

__all__ = ["MultiReadMemory", "read_signature", "write_signature"]


def write_signature(shape: ShapeLike, depth: int) -> wiring.Signature:
    """Return the signature of the write port: with ``enable``, ``data`` is written to ``address``."""
    return wiring.Signature({"enable": Out(1), "address": Out(range(depth)), "data": Out(shape)})


def read_signature(shape: ShapeLike, depth: int) -> wiring.Signature:
    """Return the signature of a read port: ``data`` is the word at ``address``, a cycle later."""
    return wiring.Signature({"address": Out(range(depth)), "data": In(shape)})


class MultiReadMemory(wiring.Component):
    """A memory with one write port and several read ports.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words.
    reads
        Read ports. Nobody may use a word that was read in the cycle in which it was written.

    Attributes
    ----------
    write
        See `write_signature`.
    reads
        See `read_signature`.
    """

    def __init__(self, shape: ShapeLike, depth: int, reads: int = 1) -> None:
        self.shape, self.depth = shape, depth
        super().__init__(
            {
                "write": In(write_signature(shape, depth)),
                "reads": In(read_signature(shape, depth)).array(reads),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the ports of a memory."""
        m = Module()
        m.submodules.words = words = memory.Memory(shape=self.shape, depth=self.depth, init=[], attrs=dict(NO_BYPASS))
        write = words.write_port()
        m.d.comb += [
            write.en.eq(self.write.enable),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
        ]
        for n, side in enumerate(self.reads):
            read = registered_read(m, words, f"read_{n}")
            m.d.comb += [read.addr.eq(side.address), side.data.eq(read.data)]
        return m
