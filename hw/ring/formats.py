"""Sizes, flits and links of the ring."""

from dataclasses import dataclass
from enum import Enum

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from contracts import PACKET_HEADER, PARTIAL_BITS, VID_BITS
from contracts.parameters import Parameters, size
from hw.memory.formats import beat_address_width

__all__ = [
    "OWNERS", "WORD", "Clocks", "Flit", "HaloRows", "LinkFlit", "LinkSignature", "LinkState", "Phase", "RingConfig",
    "Verdict", "crossing_words",
]  # fmt: skip

#: Bits of a chiplet's position on the ring; most chiplets of one.
POSITION_BITS, OWNERS = 5, 16
#: Bits of a word of a packet: a header, or elements.
WORD = PACKET_HEADER.bits


class Phase(enum.Enum, shape=3):  # type: ignore[call-arg]
    """What the readers and the way to memory are used for."""

    NONE = 0
    LOAD = 1
    BUILD = 2
    FLOW = 3
    REDUCE = 4


def crossing_words(flits: int) -> int:
    """Return the words of a crossing for a sender that may send so many flits before a credit; from 8 on it is fast."""
    return 1 << (max(flits, 8) - 1).bit_length()


class Clocks(Enum):
    """Clocks of the chiplets of a ring."""

    ONE = "one"
    OWN = "own"


@dataclass(frozen=True)
class RingConfig(Parameters):
    """Sizes of a chiplet's ring interface, fixed at generation.

    Parameters
    ----------
    chiplets
        Most chiplets of a ring; their number is set at run time.
    link_width
        Bits of a flit. From 128 on a row begins in the flit of its header; at 64 a header is a flit.
    clocks
        Whether all chiplets run on one clock, or each on a clock of its own, which its link carries to the next one.
    slots
        Whole packets that fit into the buffer behind a link; bubble flow control needs two.
    max_out
        Most elements of a row.
    window
        Needed VIDs of an owner that the filter array holds at a time.
    bitmap
        Vertices that the needed list covers in one pass over the VIDs it has; a bit of block RAM each.
    requests
        Beside an attribute core, pieces of bursts of a divided graph that are under way.
    reply_beats
        Most beats of memory in one such piece, which travel in one packet.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    chiplets: int = size(4, 2, OWNERS)
    link_width: int = size(64, values=(64, 128, 256, 512))
    clocks: Clocks = Clocks.ONE
    slots: int = size(4, 2, 64)
    max_out: int = size(64, 1, 1024)
    window: int = size(4, 1, 64)
    bitmap: int = size(65536, 64, power=True)
    requests: int = size(32, 2, 64, power=True)
    reply_beats: int = size(8, 1, 16, power=True)

    @property
    def link(self) -> "LinkSignature":
        """A link of this ring."""
        return LinkSignature(self.link_width, self.slots if self.clocks is Clocks.OWN else None)

    @property
    def crossing(self) -> int:
        """Words between two clocks behind each link, if packets are no longer than rows; 0: there is one clock."""
        return crossing_words(self.slots * self.max_flits) if self.clocks is Clocks.OWN else 0

    @property
    def max_flits(self) -> int:
        """Flits of the longest packet of a row: a header and a partial sum."""
        return self._flits(self.max_out * PARTIAL_BITS)

    def reply_flits(self, data_width: int) -> int:
        """Flits of the longest reply: a header, the beats, and a unit's flit too many; `data_width` in bits."""
        return self._flits(self.reply_beats * data_width + self.width(data_width))

    def _flits(self, bits: int) -> int:
        """Flits of a header and so many bits."""
        return -(-(WORD + bits) // self.link_width)

    def width(self, data_width: int) -> int:
        """Bits of a flit between the units inside a chiplet with beats of `data_width` bits."""
        return min(self.link_width, data_width)


class Flit(data.StructLayout):
    """One cycle between a link and a unit.

    ``data``: a header (`contracts.PACKET_HEADER`, in the lowest bits) or elements, the first lowest.
    ``last``: last of its packet.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"data": width, "last": 1})


class LinkFlit(data.StructLayout):
    """One cycle on a link: words of a packet, the first lowest.

    A packet is its header (`contracts.PACKET_HEADER`) and words of elements. ``words``: how many the flit has, less
    one; a flit of one word has no such field. ``last``: last of its packet.
    """

    def __init__(self, link_width: int) -> None:
        words = {"words": range(link_width // WORD)} if link_width > WORD else {}
        super().__init__({"data": link_width, **words, "last": 1})


class HaloRows(data.StructLayout):
    """Which rows of a chiplet's memory can be read while rows of others come, by beat addresses.

    ``going``: rows come, and not all may be there. ``own``: position of the chiplet, whose own rows are all there.
    ``starts``: where the rows of each chiplet begin, once they are ``known``; the largest address for one that does not
    exist. ``limits``: from there up to before this they can be read. ``come``: rows of others that have been written.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        places = data.ArrayLayout(beat_address_width(address_width, data_width), OWNERS)
        super().__init__({"going": 1, "known": 1, "own": range(OWNERS), "starts": places, "limits": places, "come": 16})


class MadeRows(data.StructLayout):
    """Which own rows of a COMBINE can be read; nothing ``known`` of an engine that does not say.

    ``begins``: pulse, a COMBINE begins, or a PROCESS. ``going``: from the next cycle on, while a COMBINE is under way,
    only rows of VIDs below ``limit`` are there, which rises. Otherwise all rows are that earlier commands have made.
    """

    def __init__(self) -> None:
        super().__init__({"known": 1, "begins": 1, "going": 1, "limit": VID_BITS})


#: Verdict on the packet at the head of a station. ``take``: a copy for this chiplet. ``forward``: on to the next one.
Verdict = data.StructLayout({"take": 1, "forward": 1})


class LinkState(enum.Enum, shape=2):  # type: ignore[call-arg]
    """State of a chiplet, as reported to its neighbours."""

    #: Since its reset, no command has used the ring.
    FRESH = 0
    AT_WORK = 1
    #: After an error, until the next reset.
    STOPPED = 2
    #: In reset, and in the cycle after it.
    IN_RESET = 3


class LinkSignature(wiring.Signature):
    """A link, seen by its sender; names as in AXI4-Stream. ``tuser`` is ``words`` of `LinkFlit`.

    The receiver has room for all flits: instead of ``tready`` it returns a credit for every packet that
    has left its buffer. ``tstate`` and ``tback`` say how sender and receiver are.

    Parameters
    ----------
    link_width
        Bits of a flit.
    slots
        Packets that fit into the receiver's buffer, if both ends have clocks of their own. Then ``tvalid``, ``tdata``,
        ``tuser`` and ``tlast`` belong to the sender's clock, which goes along, and ``tcredit`` is the count of credits
        in Gray code; it and the states may be seen in any clock. None: one clock.
    """

    def __init__(self, link_width: int, slots: int | None = None) -> None:
        # After a reset of the sender, credits for a full buffer may still be on their way beside those for another one.
        credit_bits = 1 if slots is None else (2 * slots).bit_length()
        super().__init__(
            {
                "tvalid": Out(1),
                "tdata": Out(link_width),
                **({"tuser": Out(range(link_width // WORD))} if link_width > WORD else {}),
                "tlast": Out(1),
                "tcredit": In(credit_bits),
                "tstate": Out(LinkState),
                "tback": In(LinkState),
            }
        )
