"""Design under test: the blocks that decide what travels, side by side in one simulator."""

from __future__ import annotations

from typing import Any

from hw.memory.axi_merge import AXIMerge
from hw.memory.word_writer import WordWriter
from hw.ring.boundary_table import BoundaryTable
from hw.ring.control import Control
from hw.ring.filter_array import FilterArray
from hw.ring.filter_generator import FilterGenerator
from hw.ring.formats import RingConfig
from hw.ring.halo_writer import HaloWriter
from hw.ring.halt import Halt
from hw.ring.link_watch import LinkWatch
from hw.ring.local_adder import LocalAdder
from hw.ring.needed_list import NeededList
from hw.ring.packet_guard import PacketGuard
from hw.ring.packet_queue import PacketQueue
from hw.ring.packet_router import PacketRouter
from hw.ring.reducer import Reducer
from hw.ring.remote_array import RemoteArray
from hw.ring.route_decision import RouteDecision
from hw.ring.row_gate import RowGate
from hw.ring.send_queue import SendQueue
from hw.ring.sender import Sender
from hw.ring.shared_reader import SharedReader
from hw.ring.tokens import Tokens
from sim.ring.side_by_side import SideBySide

__all__ = [
    "BITMAP",
    "CHIPLETS",
    "CLIENTS",
    "DATA",
    "ENTRIES",
    "IDS",
    "LINK",
    "MAX_OUT",
    "OUTSTANDING",
    "ROW_BEATS",
    "RingParts",
]

CHIPLETS = 4
#: Entries of a filter window.
ENTRIES = 3
#: Vertices of the needed list's window: of few rows, so that small graphs take several.
BITMAP = 512
#: Bits of a memory beat and of a flit: two flits a beat, so that they have to be packed.
DATA, LINK = 128, 64
#: Beats of the longest row, and its elements.
ROW_BEATS, MAX_OUT = 4, 32
#: Clients of a shared reader; bits of a manager's IDs and bursts under way in the merge.
CLIENTS, IDS, OUTSTANDING = 3, 3, 16


def _parts() -> dict[str, Any]:
    return {
        "remote": RemoteArray(DATA),
        "needed": NeededList(32, CHIPLETS, BITMAP, DATA),
        "filter": FilterArray(32, CHIPLETS, ENTRIES),
        "generator": FilterGenerator(groups=4, pes=2, sources=3),
        "watch": LinkWatch(),
        "parts": SendQueue(32),
        "gate": RowGate(),
        "sender": Sender(32, DATA, LINK, ROW_BEATS, 16),
        "halo": HaloWriter(32, DATA, LINK, ROW_BEATS),
        "adder": LocalAdder(DATA, LINK, ROW_BEATS),
        "reducer": Reducer(32, DATA, LINK, ROW_BEATS),
        "guard": PacketGuard(LINK),
        "queue": PacketQueue(LINK, LINK, 3, 4),
        "packet_router": PacketRouter(LINK),
        "route_decision": RouteDecision(),
        "tokens": Tokens(LINK, CHIPLETS),
        "halt": Halt(),
        "table": BoundaryTable(32, CHIPLETS),
        "writer": WordWriter(32, DATA),
        "control": Control(RingConfig(chiplets=CHIPLETS, link_width=LINK, max_out=MAX_OUT), 32, DATA, ROW_BEATS),
        # The same for a graph that is divided.
        "share_router": PacketRouter(LINK, divided=True),
        "share_decision": RouteDecision(divided=True),
        "share_control": Control(
            RingConfig(chiplets=CHIPLETS, link_width=LINK, max_out=MAX_OUT), 32, DATA, ROW_BEATS, divided=True
        ),
        "reader": SharedReader(CLIENTS, 32, DATA),
        "merge": AXIMerge(32, DATA, IDS, OUTSTANDING),
    }


class RingParts(SideBySide):
    """All parts of a ring unit that can be tried alone; ports are called ``remote_i`` and so on."""

    def __init__(self) -> None:
        super().__init__(_parts())
