"""Blocks of the attribute access with the source's sizes, by name, for the list of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.attribute_cache import AttributeCache
from hw.attributes.attribute_processor import AttributeProcessor
from hw.attributes.core import AttributeCore, AttributeCoreConfig
from hw.attributes.fill_unit import FillUnit
from hw.attributes.formats import AttributeConfig
from hw.attributes.id_table import IDTable
from hw.attributes.row_store import RowStore
from hw.attributes.row_writer import RowWriter
from hw.attributes.slot_keys import SlotKeys
from hw.attributes.target_address import TargetAddress

__all__ = ["CORE", "PARTS", "SOURCE", "accelerator", "core", "part"]

#: Small, for the bench: few slots, rows of eight beats.
CORE = AttributeCoreConfig(
    AttributeConfig(
        slots=12, ways=4, row_beats=8, data_width=64, id_bits=8, tag_bits=10, outstanding=4, depth=16, address_width=20
    ),
    5,
    40,
)

#: 200 and 30 entries of 512 bytes; IDs of a million nodes.
SOURCE = AttributeConfig()
#: Blocks that take an `AttributeConfig`.
PARTS: dict[str, Callable[[AttributeConfig], Any]] = {
    "id_table": IDTable,
    "attribute_cache": AttributeCache,
    "slot_keys": SlotKeys,
    "row_store": RowStore,
    "fill_unit": FillUnit,
    "target_address": TargetAddress,
    "row_writer": RowWriter,
    "attribute_processor": AttributeProcessor,
}


def part(name: str) -> Any:
    """Return a block with the source's sizes."""
    return PARTS[name](SOURCE)


def core() -> AttributeCore:
    """Return a core with the source's sizes."""
    return AttributeCore(AttributeCoreConfig(SOURCE))


def accelerator(cores: int) -> AttributeAccelerator:
    """Return the accelerator of its bench."""
    return AttributeAccelerator(CORE, cores)
