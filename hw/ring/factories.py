"""Parts of the ring unit by name, for the list of blocks."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.lib import wiring

from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import GatherChipletConfig
from hw.machine import machine_of
from hw.ring.arrival_queue import ArrivalQueue
from hw.ring.boundary_table import BoundaryTable
from hw.ring.control import Control
from hw.ring.credit_crossing import CreditCrossing
from hw.ring.formats import Flit, RingConfig
from hw.ring.halo_writer import HaloWriter
from hw.ring.halt import Halt
from hw.ring.line_bursts import LineBursts
from hw.ring.line_receiver import LineReceiver
from hw.ring.line_server import LineServer
from hw.ring.line_splitter import LineSplitter
from hw.ring.line_table import LineTable
from hw.ring.local_adder import LocalAdder
from hw.ring.packet_guard import PacketGuard
from hw.ring.packet_queue import PacketQueue
from hw.ring.packet_router import PacketRouter
from hw.ring.reducer import Reducer
from hw.ring.reply_store import ReplyStore
from hw.ring.ring_unit import RingUnit
from hw.ring.route_decision import RouteDecision
from hw.ring.row_gate import RowGate
from hw.ring.send_queue import SendQueue
from hw.ring.sender import Sender
from hw.ring.shared_lines import SharedLines
from hw.ring.shared_reader import SharedReader
from hw.ring.state_crossing import StateCrossing
from hw.ring.sum_writer import SumWriter
from hw.ring.tokens import Tokens

__all__ = ["made", "ring_chiplet", "ring_unit"]


def ring_unit(max_out: int, data_width: int) -> RingUnit:
    """Ring unit of a chiplet with rows of up to `max_out` features behind a port of `data_width` bits."""
    return RingUnit(RingConfig(max_out=max_out), data_width=data_width)


def made(name: str) -> wiring.Component:
    """Make a part of the ring unit as a chiplet of ``configs/default.toml`` has it."""
    parts: dict[str, Callable[[], wiring.Component]] = {
        # Behind a link of 64 bits, 4 slots of 9 flits.
        "arrival_queue": lambda: ArrivalQueue(Flit(64), 36),
        "boundary_table": BoundaryTable,
        "control": lambda: Control(RingConfig()),
        "credit_crossing": lambda: CreditCrossing(4),
        "packet_router": PacketRouter,
        "halt": Halt,
        "halo_writer": HaloWriter,
        "line_bursts": LineBursts,
        "line_receiver": LineReceiver,
        "line_server": LineServer,
        "line_splitter": LineSplitter,
        "line_table": LineTable,
        "reply_store": ReplyStore,
        "shared_lines": lambda: SharedLines(RingConfig()),
        "route_decision": RouteDecision,
        "packet_guard": PacketGuard,
        "packet_queue": PacketQueue,
        "reducer": Reducer,
        "row_gate": RowGate,
        "send_queue": SendQueue,
        "sender": Sender,
        "local_adder": LocalAdder,
        "shared_reader": lambda: SharedReader(3),
        "state_crossing": StateCrossing,
        "sum_writer": SumWriter,
        "tokens": Tokens,
    }
    return parts[name]()


def ring_chiplet() -> Chiplet:
    """Return a chiplet of ``configs/default.toml`` with a ring interface."""
    return machine_of(GatherChipletConfig(), ring=RingConfig())
