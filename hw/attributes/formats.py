"""Sizes of the attribute access, and formats of its streams."""

from dataclasses import dataclass, field

from amaranth import unsigned
from amaranth.lib import data, enum

from contracts import VID_BITS, Flow, Policy
from contracts.cache import KEY_BITS
from hw.memory.formats import WORD_BYTES, check_port

__all__ = ["AttributeConfig", "AttributeCoreConfig", "AttributeSettings", "MoveKind"]

#: Bits of a flow.
FLOW_BITS = max(Flow).bit_length()
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
class AttributeConfig:
    """Sizes of the attribute RAM, fixed at generation.

    Parameters
    ----------
    slots
        Entries of the attribute buffer (level 1), 2..4096.
    ways
        Entries of the attribute cache (level 2), 1..256.
    row_beats
        Beats of the longest attribute row, 1..128.
    policy
        Which entry leaves the cache (A8).
    sequential
        Look into the cache first and into the ID table only if the attribute is not there, one cycle later (A6).
    id_bits
        Width of IDs inside, 4..32; larger IDs are refused.
    tag_bits
        Width of a request's tag, 1..32.
    outstanding
        Most rows under way from memory, a power of two.
    depth
        Beats of rows that may be under way or waiting, see `hw.memory.fetcher.Fetcher`.
    address_width, data_width
        Widths of the memory port, in bits.
    bucket_bits
        The ID table has 8 cells in each of ``2 ** bucket_bits`` rows; None: at least twice as many cells as slots.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    slots: int = 200
    ways: int = 30
    row_beats: int = 16
    policy: Policy = Policy.LRU
    sequential: bool = False
    id_bits: int = 20
    tag_bits: int = 16
    outstanding: int = 16
    depth: int = 256
    address_width: int = 32
    data_width: int = 256
    bucket_bits: int | None = None

    def __post_init__(self) -> None:
        check_port(self.address_width, self.data_width)
        for name, low, high in (
            ("slots", 2, 4096),
            ("ways", 1, 256),
            ("row_beats", 1, 128),
            ("id_bits", 4, VID_BITS),
            ("tag_bits", 1, 32),
            ("outstanding", 2, 64),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be in {low}..{high}, not {getattr(self, name)!r}")
        if self.outstanding & (self.outstanding - 1):
            raise ValueError(f"outstanding must be a power of two, not {self.outstanding!r}")
        if self.bucket_bits is not None and not 1 <= self.bucket_bits <= 16:
            raise ValueError(f"bucket_bits must be in 1..16, not {self.bucket_bits!r}")
        object.__setattr__(self, "policy", Policy(self.policy))

    @property
    def buckets(self) -> int:
        """Rows of the ID table."""
        if self.bucket_bits is not None:
            return 1 << self.bucket_bits
        return max(2, 1 << (2 * self.slots - 1).bit_length() - 3)

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
class AttributeCoreConfig:
    """Sizes of a core.

    Parameters
    ----------
    attribute
        Sizes of the attribute RAM and of the memory port.
    most
        Largest fan-out and largest number of negatives of a root, 1..255.
    frontier
        Largest number of positions that a batch expands, 2..65536: roots and the samples of all hops but the last.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    attribute: AttributeConfig = field(default_factory=AttributeConfig)
    most: int = 16
    frontier: int = 1024

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 255:
            raise ValueError(f"most must be in 1..255, not {self.most!r}")
        if not 2 <= self.frontier <= 1 << 16:
            raise ValueError(f"frontier must be in 2..65536, not {self.frontier!r}")

    @property
    def fan_out_max(self) -> int:
        """Largest fan-out and number of negatives of a command; the samples of a position have a slot each."""
        return min(self.most, self.attribute.slots)


class AttributeSettings(data.StructLayout):
    """Addresses and sizes of the graph and of attribute rows; constant while requests are under way.

    ``nodes``: IDs from here on are refused. ``attributes``: word address of row 0. ``row_words``: length and distance
    of rows, in words, a multiple of a beat. ``beats``: the same in beats. ``offsets``: word address of the tiled
    offsets. ``edges``: word address of the edges. ``edge_count``: their number. ``tiles``: offsets of a row.
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
            }
        )
