"""Sizes of the attribute access, and formats of its streams."""

from dataclasses import dataclass

from amaranth import unsigned
from amaranth.lib import data, enum

from contracts import VID_BITS, Flow, Policy, Targets
from contracts.cache import KEY_BITS
from contracts.parameters import Parameters, part, size
from contracts.planning import LANES
from hw.memory.formats import WORD_BYTES, line_address_width

__all__ = ["AccessSettings", "AttributeConfig", "AttributeCoreConfig", "AttributeSettings", "MoveKind"]

#: Bits of a flow, and of the way to target addresses.
FLOW_BITS, TARGET_BITS = max(Flow).bit_length(), max(Targets).bit_length()
#: Bits of the number of edges.
COUNT_BITS = 32


class MoveKind(enum.Enum, shape=2):  # type: ignore[call-arg]
    """A move of one or two rows."""

    #: The two rows change places.
    SWAP = 0
    #: The first row overwrites the second.
    COPY = 1
    #: The first row goes to the compute units.
    READ = 2


@dataclass(frozen=True)
class AttributeConfig(Parameters):
    """Sizes of the attribute RAM, fixed at generation.

    Parameters
    ----------
    slots
        Entries of the attribute buffer (level 1).
    ways
        Entries of the attribute cache (level 2).
    row_beats
        Beats of the longest attribute row.
    policy
        Replacement policy of the cache (A8).
    sequential
        Search the cache first, and the ID table one cycle later only if the attribute is not in the cache (A6).
    id_bits
        Width of IDs inside; larger IDs are refused.
    tag_bits
        Width of the tag that a request carries.
    outstanding
        Most outstanding rows.
    depth
        Most beats of rows outstanding or waiting, see `hw.memory.fetcher.Fetcher`.
    address_width
        Bits of a byte address at the memory port.
    data_width
        Bits of a beat of the memory port.
    bucket_bits
        The ID table has 8 cells in each of ``2 ** bucket_bits`` rows; None: at least 2.5 times as many cells as slots.
    replicas
        Cells of the table of other chiplets' rows that the own memory has copies of; 0: there is none.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or there are more cells for replicas than IDs or tags.
    """

    slots: int = size(200, 2, 4096)
    ways: int = size(30, 1, 256)
    row_beats: int = size(16, 1, 128)
    policy: Policy = Policy.LRU
    sequential: bool = False
    id_bits: int = size(20, 4, VID_BITS)
    tag_bits: int = size(16, 1, 32)
    outstanding: int = size(16, 2, 64, power=True)
    depth: int = size(256, 16, 4096)
    address_width: int = size(32, 13, 64)
    data_width: int = size(256, values=(64, 128, 256))
    bucket_bits: int | None = size(None, 1, 16)
    replicas: int = size(0, 16, 1 << 16, power=True, zero=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "policy", Policy(self.policy))
        most = 1 << min(self.id_bits, self.tag_bits)
        if self.replicas > most:
            raise ValueError(f"replicas must be at most {most}, the IDs and tags that there are, not {self.replicas}")

    @property
    def buckets(self) -> int:
        """Rows of the ID table."""
        if self.bucket_bits is not None:
            return 1 << self.bucket_bits
        # An ID that finds no cell costs a search for every miss, for as long as its row stays in its slot.
        return max(2, 1 << (5 * self.slots // 2 - 1).bit_length() - 3)

    @property
    def rows(self) -> int:
        """Rows of the one memory that holds both levels."""
        return self.slots + self.ways

    @property
    def row_words(self) -> int:
        """Words of the longest attribute row."""
        return self.row_beats * self.data_width // (8 * WORD_BYTES)

    @property
    def key_bits(self) -> int:
        """Width of a replacement key."""
        return KEY_BITS[self.policy]

    @property
    def slot_keys(self) -> bool:
        """Whether entries of the buffer have keys."""
        return self.policy not in (Policy.FIFO, Policy.LIFO)

    @property
    def request(self) -> data.StructLayout:
        """A request: ID, target address, whether the row goes to `rows`, and a tag that comes back."""
        return data.StructLayout(
            {"id": unsigned(VID_BITS), "slot": range(self.slots), "read": 1, "tag": unsigned(self.tag_bits)}
        )

    @property
    def response(self) -> data.StructLayout:
        """The end of a request: its tag, its flow, and its `contracts.Error`."""
        return data.StructLayout({"tag": unsigned(self.tag_bits), "flow": unsigned(FLOW_BITS), "error": unsigned(8)})

    @property
    def event(self) -> data.StructLayout:
        """Effect of a request on the two levels, in the order of the requests; see `golden.attributes.cache.Step`."""
        return data.StructLayout(
            {
                "id": unsigned(VID_BITS),
                "slot": range(self.slots),
                "flow": unsigned(FLOW_BITS),
                "displaced_valid": 1,
                "displaced": unsigned(self.id_bits),
                "evicted_valid": 1,
                "evicted": unsigned(self.id_bits),
            }
        )

    @property
    def row(self) -> data.StructLayout:
        """A beat of a row for the compute units; `last` ends the row."""
        return data.StructLayout({"data": self.data_width, "tag": unsigned(self.tag_bits), "last": 1})

    @property
    def move(self) -> data.StructLayout:
        """Work for the row store: rows by number, the buffer's first."""
        return data.StructLayout(
            {"kind": MoveKind, "first": range(self.rows), "second": range(self.rows), "tag": unsigned(self.tag_bits)}
        )


@dataclass(frozen=True)
class AttributeCoreConfig(Parameters):
    """Sizes of a core.

    Parameters
    ----------
    attribute
        Sizes of the attribute RAM and the memory port.
    most
        Largest fan-out and number of negatives.
    frontier
        Most positions of a batch that are expanded: roots, and samples of all hops but the last.
    window
        Beats of rows that wait for the engine, which reads them from here; 0: rows go through memory.
    processors
        Attribute processors, each with a buffer, an ID table and a cache of these sizes for its share of the IDs.
    ahead
        Requests of a FETCH that are held to plan target addresses for them; 0: none can be planned.

    Raises
    ------
    ValueError
        If a parameter is out of its range, the longest row has no room in the window, the slots are too few to plan, or
        there are more read clients than a memory port has.
    """

    attribute: AttributeConfig = part(AttributeConfig, flat=True, follows=("address_width", "data_width"))
    most: int = size(16, 1, 255)
    frontier: int = size(1024, 2, 1 << 16)
    window: int = size(0, 32, 4096, power=True, zero=True)
    processors: int = size(1, values=(1, 2, 4))
    ahead: int = size(0, 128, 8192, power=True, zero=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.window < self.attribute.row_beats:
            raise ValueError(f"window must be at least row_beats, {self.attribute.row_beats}, not {self.window}")
        attribute = self.attribute
        if attribute.replicas and attribute.policy == Policy.DEGREE and self.processors > 2:
            # Rows, copies and degrees of each, and the sampler: a memory port has no numbers for so many clients.
            raise ValueError(
                f"replicas must be 0 with policy degree and more than 2 processors, not {attribute.replicas}"
            )
        if self.ahead and self.attribute.slots <= LANES:
            raise ValueError(f"ahead must be 0 with {LANES} slots or fewer, not {self.ahead}")

    @property
    def fan_out_max(self) -> int:
        """Largest fan-out and number of negatives of a command; the samples of a position have a slot each."""
        return min(self.most, self.attribute.slots)


class AttributeSettings(data.StructLayout):
    """Addresses and sizes of the graph and of attribute rows; constant while requests are under way.

    ``nodes``: IDs from here on are refused. ``attributes``: word address of row 0. ``row_words``: length and distance
    of rows, in words, a multiple of a beat. ``beats``: the same in beats. ``offsets``: word address of the tiled
    offsets. ``edges``: word address of the edges. ``edge_count``: their number. ``tiles``: offsets of a row.
    ``replicas``: word address of row 0 of the copies. ``replicated``: there are some.
    """

    def __init__(self, config: AttributeConfig) -> None:
        word = unsigned(config.address_width - (WORD_BYTES.bit_length() - 1))
        super().__init__(
            {
                "nodes": unsigned(VID_BITS),
                "attributes": word,
                "row_words": range(config.row_words + 1),
                "beats": range(config.row_beats + 1),
                "offsets": word,
                "edges": word,
                "edge_count": unsigned(COUNT_BITS),
                "tiles": unsigned(8),
                "replicas": word,
                "replicated": 1,
            }
        )


class AccessSettings(data.StructLayout):
    """Settings of a command that has attributes fetched.

    ``attribute``: an `AttributeSettings`. ``rows``: line address of the row of position 0. ``targets``: a
    `contracts.Targets`.
    """

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__(
            {
                "attribute": AttributeSettings(config),
                "rows": unsigned(line_address_width(config.address_width)),
                "targets": TARGET_BITS,
            }
        )
