"""Candidates: ranks among the nodes not joined to a root, which become the VIDs of these nodes (A2)."""

from amaranth import Array, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts import VID_BITS

__all__ = ["Candidates"]


class Candidates(wiring.Component):
    """A register for each candidate, which moves up by one for every joined node that it does not exceed.

    Joined nodes pass in ascending order, so a candidate is the VID of a node that is not joined when all have passed.

    Parameters
    ----------
    most
        Largest number of candidates.
    id_bits
        Width of a candidate.

    Attributes
    ----------
    clear : In(1)
        Forget all candidates.
    put, rank : In
        Add a candidate.
    count : Out
        Number of candidates.
    passes, joined : In
        A node that is joined to the root passes.
    index : In
        Number of a candidate.
    node : Out
        That candidate.
    """

    def __init__(self, most: int, id_bits: int) -> None:
        self.most, self.id_bits = most, id_bits
        super().__init__(
            {
                "clear": In(1),
                "put": In(1),
                "rank": In(id_bits),
                "count": Out(range(most + 1)),
                "passes": In(1),
                "joined": In(VID_BITS),
                "index": In(range(most + 1)),
                "node": Out(id_bits),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Compare all candidates with the node that passes."""
        m = Module()
        # A candidate moves up at most once for every joined node, so it does not exceed the largest VID.
        candidates = Array(Signal(self.id_bits, name=f"candidate_{n}", reset_less=True) for n in range(self.most))
        with m.If(self.passes):
            for candidate in candidates:
                m.d.sync += candidate.eq(candidate + (self.joined <= candidate))
        with m.If(self.put):
            m.d.sync += [candidates[self.count].eq(self.rank), self.count.eq(self.count + 1)]
        with m.If(self.clear):
            m.d.sync += self.count.eq(0)
        m.d.comb += self.node.eq(candidates[self.index])
        return m
