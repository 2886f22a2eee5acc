"""Formats between the parts of the attribute processor: look-up results, flow, effect, marks."""

from amaranth import unsigned
from amaranth.lib import data

from contracts import Flow
from hw.attributes.formats import AttributeConfig
from hw.attributes.table_formats import CELLS

__all__ = ["Effect", "FlowBits", "Found", "Marks", "Missing", "way_shape"]

#: The flow of a request, one bit for each, of which one is set; see `contracts.Flow`.
FlowBits = data.StructLayout({flow.name.lower(): 1 for flow in Flow})

#: What the request to be decided does in this cycle. ``met``: its flow. ``commits``: it takes effect. ``change``: it
#: changes ID table and cache, in this cycle and the next. ``moves``: it needs the row store. ``answers``: it ends
#: without waiting for memory.
Effect = data.StructLayout({"met": FlowBits, "commits": 1, "change": 1, "moves": 1, "answers": 1})

#: Rows under way. ``target``: the row of the target slot is. ``address``: the row at the other slot was, in the cycle
#: before. ``any``: a row was, in the cycle before.
Marks = data.StructLayout({"target": 1, "address": 1, "any": 1})


def way_shape(config: AttributeConfig) -> range:
    """Shape of the number of a way of the cache."""
    return range(max(2, config.ways))


class Found(data.StructLayout):
    """Results of a look-up.

    ``in_place``, ``cached``, ``elsewhere``: the attribute is at the target slot, in the cache, at another slot.
    ``address``: that slot. ``way``, ``way_key``: its way of the cache, and its key there. ``occupied``, ``occupant``:
    the target slot has an entry, and its ID. ``unlisted``: the ID may be in the buffer, but only a search finds it.
    ``cell``: cell of the ID table for the ID if it is missing. ``room``, ``place``: the cache can take an entry, and
    the way for it. ``leaves``, ``leaver``: an entry leaves that way, and its ID.
    """

    def __init__(self, config: AttributeConfig) -> None:
        slot, way, identity = range(config.slots), way_shape(config), unsigned(config.id_bits)
        super().__init__(
            {
                "in_place": 1,
                "cached": 1,
                "elsewhere": 1,
                "address": slot,
                "way": way,
                "way_key": unsigned(config.key_bits),
                "occupied": 1,
                "occupant": identity,
                "unlisted": 1,
                "cell": range(CELLS + 1),
                "room": 1,
                "place": way,
                "leaves": 1,
                "leaver": identity,
            }
        )


class Missing(data.StructLayout):
    """A row under way: its ID, slot and cell in the ID table, whether it is to be read, and the request's tag."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__(
            {
                "id": unsigned(config.id_bits),
                "slot": range(config.slots),
                "cell": range(CELLS + 1),
                "read": 1,
                "tag": unsigned(config.tag_bits),
            }
        )
