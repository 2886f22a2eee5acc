"""A memory in two halves, each used from one of two sides at a time."""

from typing import Any

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

__all__ = ["Halves", "port_signature"]


def port_signature(shape: ShapeLike, depth: int, reads: int) -> wiring.Signature:
    """Signature of one side, as the user of the memory has it.

    ``half``: which one, while ``active``. ``write``, ``write_address``, ``write_data``: a word to keep.
    ``address``, ``data``: reads, answered in the next cycle; a word written in the same cycle is seen.
    """
    members: dict[str, Any] = {
        "half": Out(1),
        "active": Out(1),
        "write": Out(1),
        "write_address": Out(range(depth)),
        "write_data": Out(shape),
    }
    if reads:
        members |= {"address": Out(range(depth)).array(reads), "data": In(shape).array(reads)}
    return wiring.Signature(members)


class Halves(wiring.Component):
    """Two memories and the switches before them.

    The sides must not use the same half at the same time.

    Parameters
    ----------
    shape
        Of a word.
    depth
        Words of a half, a power of two.
    reads
        Read ports of the side before and of the side behind.

    Attributes
    ----------
    before, behind
        The sides, see `port_signature`; ``before`` has its half while active, ``behind`` whenever ``before`` has not.

    Raises
    ------
    ValueError
        If `depth` is no power of two.
    """

    def __init__(self, shape: ShapeLike, depth: int, reads: tuple[int, int]) -> None:
        if depth < 2 or 1 << ceil_log2(depth) != depth:
            raise ValueError(f"depth must be a power of two from 2, not {depth!r}")
        self.shape, self.depth, self.reads = shape, depth, reads
        super().__init__(
            {
                "before": In(port_signature(shape, depth, reads[0])),
                "behind": In(port_signature(shape, depth, reads[1])),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Switch addresses by the half, data by the half of the cycle before."""
        m = Module()
        before, behind = self.before, self.behind
        chosen = [Signal(name=f"half_{name}") for name in ("before", "behind")]
        m.d.sync += [chosen[0].eq(before.half), chosen[1].eq(behind.half)]
        answers = []
        for half in range(2):
            m.submodules[f"half_{half}"] = words = memory.Memory(shape=self.shape, depth=self.depth, init=[])
            first = before.active & (before.half == half)
            write = words.write_port()
            m.d.comb += [
                write.en.eq(Mux(first, before.write, behind.write & behind.active & (behind.half == half))),
                write.addr.eq(Mux(first, before.write_address, behind.write_address)),
                write.data.eq(Mux(first, before.write_data, behind.write_data)),
            ]
            ports = [words.read_port(transparent_for=(write,)) for _ in range(max(self.reads))]
            answers.append(ports)
            for n, port in enumerate(ports):
                m.d.comb += port.en.eq(1)
                sides = [(side, n < count) for side, count in zip((before, behind), self.reads, strict=True)]
                address: Any = None
                if sides[0][1] and sides[1][1]:
                    address = Mux(first, before.address[n], behind.address[n])
                else:
                    address = before.address[n] if sides[0][1] else behind.address[n]
                m.d.comb += port.addr.eq(address)
        for side, half, count in zip((before, behind), chosen, self.reads, strict=True):
            for n in range(count):
                m.d.comb += side.data[n].eq(Mux(half, answers[1][n].data, answers[0][n].data))
        return m
