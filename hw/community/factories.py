"""Factories of the community processor's blocks from plain numbers, for `scripts/blocks`."""

from typing import Any

from hw.community.arrival_queue import ArrivalQueue
from hw.community.beat_store import BeatStore
from hw.community.combined_reader import CombinedReader
from hw.community.controller import Controller
from hw.community.feature_reader import FeatureReader
from hw.community.formats import CommunityConfig
from hw.community.halo_gate import HaloGate
from hw.community.hub_unit import HubUnit
from hw.community.pe import CommunityPE
from hw.community.planner import Planner
from hw.community.record_gate import RecordGate
from hw.community.record_reader import RecordReader
from hw.community.record_sharer import RecordSharer
from hw.community.record_words import RecordUnpacker, WordFormat
from hw.community.row_accumulator import RowAccumulator
from hw.community.row_finisher import RowFinisher
from hw.community.row_sender import RowSender
from hw.community.scanner import Scanner
from hw.community.step_source import StepSource
from hw.community.vertex_dispatcher import VertexDispatcher

__all__ = [
    "arrival_queue",
    "combined_reader",
    "controller",
    "feature_reader",
    "halo_gate",
    "hub_unit",
    "pe",
    "planner",
    "reader",
    "record_gate",
    "record_sharer",
    "record_unpacker",
    "row_accumulator",
    "row_finisher",
    "row_sender",
    "scanner",
    "step_source",
    "vertex_dispatcher",
]


def controller(*, nodes: int, address_width: int, error_sources: int, **parameters: Any) -> Controller:
    """Return a `Controller`; other parameters as for `CommunityConfig`."""
    return Controller(CommunityConfig(**parameters), nodes, address_width, error_sources)


def beat_store(combiners: int, **parameters: Any) -> BeatStore:
    """Return a beat store for ``CommunityConfig(**parameters)``."""
    return BeatStore(CommunityConfig(**parameters), combiners)


def combined_reader(address_width: int = 32, depth: int = 128, **parameters: Any) -> CombinedReader:
    """Return a `CombinedReader`; other parameters as for `CommunityConfig`."""
    return CombinedReader(CommunityConfig(**parameters), address_width, depth)


def feature_reader(combiners: int, address_width: int = 32, depth: int = 128, **parameters: Any) -> FeatureReader:
    """Return a `FeatureReader`; other parameters as for `CommunityConfig`."""
    return FeatureReader(CommunityConfig(**parameters), combiners, address_width, depth)


def halo_gate(address_width: int = 32, depth: int = 512, **parameters: Any) -> HaloGate:
    """Return a `HaloGate`; other parameters as for `CommunityConfig`."""
    return HaloGate(CommunityConfig(**parameters), address_width, depth)


def hub_unit(*, clients: int, nodes: int, hubs: int, units: int, **parameters: Any) -> HubUnit:
    """Return a `HubUnit`; the other parameters as for `CommunityConfig`."""
    return HubUnit(CommunityConfig(**parameters), clients, nodes, hubs, units)


def pe(**parameters: Any) -> CommunityPE:
    """Return a `CommunityPE`; other parameters as for `CommunityConfig`."""
    return CommunityPE(CommunityConfig(**parameters))


def planner(**parameters: Any) -> Planner:
    """Return a `Planner`."""
    return Planner(CommunityConfig(**parameters))


def reader(**parameters: Any) -> RecordReader:
    """Return a `RecordReader`."""
    return RecordReader(CommunityConfig(**parameters))


def row_finisher(**parameters: Any) -> RowFinisher:
    """Return a `RowFinisher`."""
    return RowFinisher(CommunityConfig(**parameters))


def row_sender(**parameters: Any) -> RowSender:
    """Return a `RowSender`."""
    return RowSender(CommunityConfig(**parameters))


def arrival_queue(width: int, vid_bits: int, depth: int, groups: int) -> ArrivalQueue:
    """Return an `ArrivalQueue`."""
    return ArrivalQueue(WordFormat(width, vid_bits), depth, groups)


def record_gate(width: int, vid_bits: int, depth: int, groups: int) -> RecordGate:
    """Return a `RecordGate`."""
    return RecordGate(WordFormat(width, vid_bits), depth, groups)


def record_sharer(width: int, vid_bits: int) -> RecordSharer:
    """Return a `RecordSharer`."""
    return RecordSharer(WordFormat(width, vid_bits, shares=True))


def record_unpacker(width: int, vid_bits: int) -> RecordUnpacker:
    """Return a `RecordUnpacker`."""
    return RecordUnpacker(WordFormat(width, vid_bits))


def scanner(**parameters: Any) -> Scanner:
    """Return a `Scanner`."""
    return Scanner(CommunityConfig(**parameters))


def row_accumulator(**parameters: Any) -> RowAccumulator:
    """Return a `RowAccumulator`."""
    return RowAccumulator(CommunityConfig(**parameters))


def step_source(**parameters: Any) -> StepSource:
    """Return a `StepSource`."""
    return StepSource(CommunityConfig(**parameters))


def vertex_dispatcher(
    *, pes: int, units: int, nodes: int, number: int = 0, clusters: int = 1, **parameters: Any
) -> VertexDispatcher:
    """Return a `VertexDispatcher`; other parameters as for `CommunityConfig`."""
    return VertexDispatcher(CommunityConfig(**parameters), pes, units, nodes, number, clusters)
