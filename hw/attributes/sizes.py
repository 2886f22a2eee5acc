"""Bits of memory that the attribute RAM takes, by part."""

from contracts import Policy
from hw.attributes.formats import AttributeConfig
from hw.attributes.table_formats import CELLS

__all__ = ["memory_bits"]


def memory_bits(config: AttributeConfig) -> dict[str, int]:
    """Bits of every part, data first.

    Parameters
    ----------
    config
        Sizes.
    """
    row = config.row_beats * config.data_width
    slot = (config.slots - 1).bit_length()
    cell = CELLS.bit_length()
    keys = config.key_bits if config.policy not in (Policy.FIFO, Policy.LIFO) else 0
    return {
        "attribute buffer": config.slots * row,
        "attribute cache": config.ways * row,
        "ID table, cells": CELLS * config.buckets * (1 + config.id_bits + slot),
        "ID table, entries of the slots": config.slots * (1 + config.id_bits + cell),
        "keys of the slots": config.slots * keys,
        "tags and keys of the cache (registers)": config.ways * (1 + config.id_bits + config.key_bits),
        "rows on their way": config.depth * (config.data_width + config.data_width // 32 + 2),
    }
