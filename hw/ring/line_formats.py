"""Formats of a divided graph: pieces of bursts, and beats on their way to the reply store."""

from amaranth import unsigned
from amaranth.lib import data

from contracts import PACKET_HEADER, PACKET_LINES
from hw.memory.formats import CLIENTS_MAX, beat_address_width
from hw.ring.formats import POSITION_BITS

__all__ = ["ARRAYS", "Fill", "Piece", "graph_beat_width"]

#: Arrays of a divided graph: offsets, edges, attributes.
ARRAYS = 3
#: Bits of the number of beats of a piece less one, and of its tag.
_FIELDS = {field.name: field.bits for field in PACKET_LINES.fields}
LAST_BEAT_BITS, TAG_BITS = _FIELDS["last_beat"], _FIELDS["tag"]
#: Bits of the number of a beat in a packet.
_BEAT_BITS = sum(field.bits for field in PACKET_HEADER.fields if field.name in ("vid", "high"))


def graph_beat_width(address_width: int, data_width: int) -> int:
    """Width of a beat's number within a divided graph, in bits, as far as a packet has room for it."""
    return min(_BEAT_BITS, beat_address_width(address_width, data_width))


class Piece(data.StructLayout):
    """Beats of a burst that one chiplet has.

    ``address``: of the first beat, from the start of the graph. ``array``: whose lines they are. ``owner``: chiplet
    that has them. ``last_beat``: their number, less one. ``client``: who reads. ``last``: last piece of the burst.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        super().__init__(
            {
                "address": unsigned(graph_beat_width(address_width, data_width)),
                "array": range(ARRAYS),
                "owner": unsigned(POSITION_BITS),
                "last_beat": unsigned(LAST_BEAT_BITS),
                "client": range(CLIENTS_MAX),
                "last": 1,
            }
        )


class Fill(data.StructLayout):
    """A beat that has arrived.

    ``slot``, ``beat``: its place. ``data``: as in memory. ``error``: the piece cannot be read. ``last``: nothing more
    comes for this slot.
    """

    def __init__(self, data_width: int) -> None:
        super().__init__(
            {
                "slot": unsigned(TAG_BITS),
                "beat": unsigned(LAST_BEAT_BITS),
                "data": data_width,
                "error": 1,
                "last": 1,
            }
        )
