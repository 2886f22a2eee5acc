"""Node words: the VID of each position as a word, and behind it the key of its edge (A1)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.sampling_formats import PositionNode

__all__ = ["EdgeKeys", "NodeWords"]


class EdgeKeys(data.StructLayout):
    """Keys of edges, which follow the VIDs so that the attribute RAM never takes one for the other.

    ``paired``: they are wanted. ``vertices``: key of edge 0. ``edge_count``: number that stands for no edge.
    """

    def __init__(self, id_bits: int) -> None:
        super().__init__({"paired": 1, "vertices": id_bits, "edge_count": id_bits})


class NodeWords(wiring.Component):
    """One word a position, or a pair of words.

    The ready of `i` does not depend on its valid, as `hw.attributes.batch_positions` demands.

    Parameters
    ----------
    id_bits
        Width of keys.

    Attributes
    ----------
    keys : In
        `EdgeKeys`, constant while there are positions; with ``paired``, no key has more than `id_bits` bits.
    i : stream of `PositionNode`
    o : stream of unsigned(32)
    busy : Out(1)
        The second word of a pair waits.
    """

    def __init__(self, id_bits: int = 20) -> None:
        self.id_bits = id_bits
        super().__init__(
            {
                "keys": In(EdgeKeys(id_bits)),
                "i": In(stream.Signature(PositionNode)),
                "o": Out(stream.Signature(32)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the number of the edge for the cycle after the VID."""
        m = Module()
        keys, position = self.keys, self.i.payload
        second, number, key = Signal(), Signal(self.id_bits, reset_less=True), Signal(self.id_bits)
        m.d.comb += [
            key.eq(keys.vertices + number),
            self.busy.eq(second),
            self.i.ready.eq(self.o.ready & ~second),
            self.o.valid.eq(self.i.valid | second),
            self.o.payload.eq(Mux(second, key, position.node)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                second.eq(keys.paired & ~second),
                number.eq(Mux(position.sampled, position.edge, keys.edge_count)),
            ]
        return m
