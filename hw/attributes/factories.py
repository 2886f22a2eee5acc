"""Blocks of the attribute access with the source's sizes, by name, for the list of blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.arriving_rows import ArrivingRows
from hw.attributes.attribute_access import AttributeAccess
from hw.attributes.attribute_cache import AttributeCache
from hw.attributes.attribute_processor import AttributeProcessor
from hw.attributes.attribute_processors import AttributeProcessors
from hw.attributes.batch_check import BatchCheck
from hw.attributes.batch_positions import BatchPositions
from hw.attributes.batch_sampler import BatchSampler
from hw.attributes.batch_writer import BatchWriter
from hw.attributes.core import AttributeCore
from hw.attributes.decision import Decision
from hw.attributes.degree_finder import DegreeFinder
from hw.attributes.directory import Directory
from hw.attributes.fetch_walk import FetchWalk
from hw.attributes.fill_unit import FillUnit
from hw.attributes.formats import AttributeConfig, AttributeCoreConfig
from hw.attributes.id_table import IDTable
from hw.attributes.look_up import LookUp
from hw.attributes.node_reader import NodeReader
from hw.attributes.replica_table import ReplicaTable
from hw.attributes.request_counts import RequestCounts
from hw.attributes.request_queue import RequestQueue
from hw.attributes.responder import Responder
from hw.attributes.row_moves import RowMoves
from hw.attributes.row_source import RowSource
from hw.attributes.row_store import RowStore
from hw.attributes.row_unit import RowUnit
from hw.attributes.row_walk import RowWalk
from hw.attributes.row_window import RowWindow
from hw.attributes.row_writer import RowWriter
from hw.attributes.sample_walk import SampleWalk
from hw.attributes.slot_keys import SlotKeys
from hw.attributes.slot_planner import SlotPlanner
from hw.attributes.slot_search import SlotSearch
from hw.attributes.table_changer import TableChanger
from hw.attributes.table_look_up import TableLookUp
from hw.attributes.table_writer import TableWriter
from hw.attributes.target_address import TargetAddress

__all__ = ["CORE", "CORE_PARTS", "PARTS", "SOURCE", "accelerator", "core_part", "part", "replica_table"]

#: Small, for the bench: few slots, rows of eight beats.
CORE = AttributeCoreConfig(
    AttributeConfig(
        slots=12,
        ways=4,
        row_beats=8,
        data_width=64,
        id_bits=8,
        tag_bits=10,
        outstanding=4,
        depth=16,
        address_width=20,
        replicas=16,
    ),
    5,
    40,
    ahead=128,
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
    "row_window": RowWindow,
    "row_writer": RowWriter,
    "attribute_processor": AttributeProcessor,
    "attribute_processors": AttributeProcessors,
    "arriving_rows": ArrivingRows,
    "decision": Decision,
    "degree_finder": DegreeFinder,
    "directory": Directory,
    "look_up": LookUp,
    "node_reader": NodeReader,
    "request_counts": RequestCounts,
    "request_queue": RequestQueue,
    "responder": Responder,
    "row_moves": RowMoves,
    "row_source": RowSource,
    "row_unit": RowUnit,
    "row_walk": RowWalk,
    "slot_planner": SlotPlanner,
    "slot_search": SlotSearch,
    "table_changer": TableChanger,
    "table_look_up": TableLookUp,
    "table_writer": TableWriter,
}
#: Blocks that take an `AttributeCoreConfig`.
CORE_PARTS: dict[str, Callable[[AttributeCoreConfig], Any]] = {
    "attribute_access": AttributeAccess,
    "batch_check": BatchCheck,
    "batch_positions": BatchPositions,
    "batch_sampler": BatchSampler,
    "batch_writer": BatchWriter,
    "core": AttributeCore,
    "fetch_walk": FetchWalk,
    "sample_walk": SampleWalk,
}


def part(name: str) -> Any:
    """Return a block with the source's sizes."""
    return PARTS[name](SOURCE)


def core_part(name: str) -> Any:
    """Return a core, or a block of one, with the source's sizes."""
    return CORE_PARTS[name](AttributeCoreConfig(SOURCE))


def accelerator(cores: int) -> AttributeAccelerator:
    """Return the accelerator of its bench."""
    return AttributeAccelerator(CORE, cores)


def replica_table(cells: int) -> ReplicaTable:
    """Return a replica table for IDs of a million nodes."""
    return ReplicaTable(replace(SOURCE, replicas=cells))
