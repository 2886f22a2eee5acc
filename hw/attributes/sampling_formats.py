"""Formats of the samplers: settings, positions, and what a sample is on its way to its position."""

from amaranth import unsigned
from amaranth.lib import data

from contracts import VID_BITS
from contracts.sampling import HOPS_MAX, WORD
from hw.attributes.chooser import COUNT_BITS
from hw.memory.formats import WORD_BYTES

__all__ = ["ChosenEdge", "ExpandedNode", "NodeSample", "PositionNode", "Sample", "SampleSettings", "word_address"]

_HOP_BITS = 3
#: A position. ``node``: its VID. ``hop``: 0 for roots, `contracts.sampling.NEGATIVE_HOP` for negatives. ``last``: the
#: last sample of its parent; a root is always the last. ``empty``: the parent has no sample, and this is no position.
#: ``edge``: number of the edge that a sample of a hop was found along.
Sample = data.StructLayout(
    {"node": unsigned(VID_BITS), "hop": unsigned(_HOP_BITS), "last": 1, "empty": 1, "edge": unsigned(VID_BITS)}
)
#: VID of a position, and if it was ``sampled`` along an edge the number of that.
PositionNode = data.StructLayout({"node": unsigned(VID_BITS), "sampled": 1, "edge": unsigned(VID_BITS)})


def word_address(address_width: int) -> int:
    """Bits of a word address."""
    return address_width - (WORD_BYTES.bit_length() - 1)


class SampleSettings(data.StructLayout):
    """Plan of a batch and addresses of the graph; constant while samplers are at work.

    Addresses are word addresses. ``nodes``: VIDs from here on are out of range. ``offsets``, ``edges``, ``edge_count``,
    ``tiles``: the graph. ``roots``, ``root_count``: the list of roots. ``fan_out``: largest number of samples of a
    position, for every hop. ``hops``: number of hops. ``negatives``: number for each root. ``seed``, ``batch``: mixed
    into every random number.
    """

    def __init__(self, address_width: int, id_bits: int) -> None:
        word = unsigned(word_address(address_width))
        super().__init__(
            {
                "nodes": range((1 << id_bits) + 1),
                "offsets": word,
                "edges": word,
                "edge_count": unsigned(32),
                "tiles": unsigned(8),
                "roots": word,
                "root_count": unsigned(16),
                "fan_out": data.ArrayLayout(unsigned(COUNT_BITS), HOPS_MAX),
                "hops": unsigned(_HOP_BITS),
                "negatives": unsigned(COUNT_BITS),
                "seed": unsigned(WORD),
                "batch": unsigned(WORD),
            }
        )


class ExpandedNode(data.StructLayout):
    """A position to expand: VIDs of the ``node`` and its ``root``, ``hop``; a ``bad`` one counts as without edges."""

    def __init__(self, id_bits: int) -> None:
        super().__init__({"node": id_bits, "root": id_bits, "hop": _HOP_BITS, "bad": 1})


class ChosenEdge(data.StructLayout):
    """An edge to read: word ``address``, number ``edge``; ``root``, ``hop``, ``last``, ``empty`` of the sample."""

    def __init__(self, address_width: int, id_bits: int) -> None:
        super().__init__(
            {
                "address": word_address(address_width),
                "edge": id_bits,
                "root": id_bits,
                "hop": _HOP_BITS,
                "last": 1,
                "empty": 1,
            }
        )


class NodeSample(data.StructLayout):
    """A sample before it is a position: ``node``, or an ``error`` reading it, and as of `ChosenEdge`."""

    def __init__(self, id_bits: int) -> None:
        super().__init__(
            {"node": VID_BITS, "error": 1, "edge": id_bits, "root": id_bits, "hop": _HOP_BITS, "last": 1, "empty": 1}
        )
