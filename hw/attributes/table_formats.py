"""Formats of the ID table: entries, cells, buckets, changes (A5)."""

from random import Random

from amaranth import Cat, Value, unsigned
from amaranth.lib import data, enum

from hw.attributes.formats import AttributeConfig

__all__ = [
    "CELLS",
    "SIDE_CELLS",
    "UNLISTED",
    "LookedUp",
    "TableCell",
    "TableChange",
    "TableEntry",
    "bucket_bits",
    "bucket_of",
]

#: Cells of a bucket.
SIDE_CELLS = 4
#: Cells that can hold an ID, in two buckets.
CELLS = 2 * SIDE_CELLS
#: Takes the place of the cell of an ID that has none.
UNLISTED = CELLS


class TableChange(enum.Enum, shape=3):  # type: ignore[call-arg]
    """A change of the table, for the look-up whose results stand there."""

    NONE = 0
    #: The ID at the target slot leaves the table.
    DISPLACE = 1
    #: The ID looked up takes the target slot; the cycle after `DISPLACE`.
    PLACE = 2
    #: The ID looked up moves from its address to the target slot.
    MOVE = 3
    #: The entry that was at the target slot takes that address; the cycle after `MOVE`.
    MOVE_OTHER = 4
    #: The ID at `clear_slot` leaves the table.
    CLEAR = 5


class TableEntry(data.StructLayout):
    """The entry of a slot: ``valid``, its ``id`` and the ``cell`` of that ID."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__({"valid": 1, "id": unsigned(config.id_bits), "cell": range(CELLS + 1)})


class TableCell(data.StructLayout):
    """A cell of a bucket: ``valid``, an ``id`` and its ``slot``."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__({"valid": 1, "id": unsigned(config.id_bits), "slot": range(config.slots)})


class LookedUp(data.StructLayout):
    """Results of a look-up of ``id`` and its target ``slot``.

    ``found``: a cell has the ID; its slot, ``address``, and the ``cell``. ``in_place``: the entry of the target slot
    has it. ``occupied``, ``occupant``, ``occupant_cell``: the target slot has an entry, its ID and its cell. ``free``:
    cell for the ID if it takes the target slot, `UNLISTED` if there is none.
    """

    def __init__(self, config: AttributeConfig) -> None:
        slot, cell = range(config.slots), range(CELLS + 1)
        super().__init__(
            {
                "id": config.id_bits,
                "slot": slot,
                "found": 1,
                "address": slot,
                "cell": cell,
                "in_place": 1,
                "occupied": 1,
                "occupant": config.id_bits,
                "occupant_cell": cell,
                "free": cell,
            }
        )


def bucket_bits(config: AttributeConfig) -> int:
    """Bits of the number of a bucket."""
    return (config.buckets - 1).bit_length()


def bucket_of(config: AttributeConfig, side: int, identity: Value) -> Value:
    """Hash of an ID: its bucket on side 0 or 1.

    Each bit of the hash is the parity of some bits of the ID. Every bit of the ID is in at least one of them on each
    side, and the two sides differ.
    """
    random, bits = Random(side), bucket_bits(config)
    masks = [
        sum(1 << bit for bit in range(config.id_bits) if bit % bits == row or random.random() < 1 / 4)
        for row in range(bits)
    ]
    return Cat(Cat(identity[n] for n in range(len(identity)) if mask >> n & 1).xor() for mask in masks)
