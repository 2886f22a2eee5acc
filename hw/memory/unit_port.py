"""Memory port of a unit: its read clients and its writes as one AXI4 manager."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from amaranth import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from contracts import Error
from hw.graph.formats import ErrorReport
from hw.memory.axi import connect_manager
from hw.memory.formats import ReadBeat, ReadRequest, WriteRequest
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.scratch_gate import ScratchGate
from hw.memory.scratchpad import Scratchpad
from hw.memory.write_port import WritePort

__all__ = [
    "UNIT_ID_WIDTH",
    "UNIT_OUTSTANDING",
    "MemoryUnit",
    "ScratchPort",
    "attach_unit",
    "client_members",
    "memory_members",
    "when_written",
]

#: Usual bits of the IDs of a unit's port: enough for the most read clients.
UNIT_ID_WIDTH = 4
#: Usual number of bursts that a client has under way.
UNIT_OUTSTANDING = 64


class MemoryUnit(Protocol):
    """Reads and writes memory, and is told of failures.

    Attributes
    ----------
    port
        Widths of the memory port: of a byte address and of a beat, in bits.
    clients
        How many read clients it has, 2..16.
    id_width
        Bits of the IDs of its port, enough for the clients.
    outstanding
        Bursts of a client under way, a power of two.
    requests, beats
        Their ends of the read arbiter.
    write : stream of `WriteRequest`
    writing : In(1)
        Writes have no answer yet.
    errors : streams of `ErrorReport`, always ready
        Failures: reads and writes.

        It may have the ports of `hw.memory.write_fence.FENCE`.
    """

    port: tuple[int, int]
    clients: int
    id_width: int
    outstanding: int
    requests: Any
    beats: Any
    write: Any
    writing: Any
    errors: Any


def client_members(port: tuple[int, int], clients: int) -> dict[str, wiring.Member]:
    """Return the ports of a `MemoryUnit` but for ``write``: those of a part of one.

    Parameters
    ----------
    port
        Widths of the memory port: of a byte address and of a beat, in bits.
    clients
        Number of read clients.
    """
    return {
        "writing": In(1),
        "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(2),
        "requests": Out(stream.Signature(ReadRequest(*port))).array(clients),
        "beats": In(stream.Signature(ReadBeat(port[1]), always_ready=True)).array(clients),
    }


def memory_members(port: tuple[int, int], clients: int) -> dict[str, wiring.Member]:
    """Return the ports of a `MemoryUnit`; parameters as for `client_members`."""
    return {"write": Out(stream.Signature(WriteRequest(*port))), **client_members(port, clients)}


@contextmanager
def when_written(m: Module, writing: Value) -> Iterator[None]:
    """Add the states WRITE and WRITTEN to an FSM, and IDLE behind them: what stands inside happens as they end.

    A beat that the memory port takes shows in `writing` one cycle later, so it must be 0 in two cycles.
    """
    with m.State("WRITE"):
        with m.If(~writing):
            m.next = "WRITTEN"
    with m.State("WRITTEN"):
        m.next = "WRITE"
        with m.If(~writing):
            yield
            m.next = "IDLE"


@dataclass(frozen=True)
class ScratchPort:
    """A unit's port of the scratchpad.

    Attributes
    ----------
    scratchpad
        Whose it is.
    number
        Of the unit.
    first, end
        As of `ScratchGate`.
    """

    scratchpad: Scratchpad
    number: int
    first: Any
    end: Any


def attach_unit(
    m: Module,
    unit: MemoryUnit,
    name: str,
    port: Any,
    silent: Sequence[Any] = (),
    scratch: ScratchPort | None = None,
    window: Any = None,
) -> None:
    """Put a unit's clients and writes behind a memory port of their own.

    Parameters
    ----------
    m
        Module to which the port's parts are added.
    unit
        The unit.
    name
        Prefix of the parts.
    port
        Interface of `AXI4Signature` with at least ``unit.id_width`` bits of IDs, seen by the subordinate.
    silent
        Blocks with a ``request`` and a ``beat`` that read through the same port and report failed reads themselves.
        They are the first clients.
    scratch
        Where those lines are that are not in memory; None: there are none.
    window
        Ports of the unit behind a window that this one reads, as of `hw.memory.window.window_members`, with
        ``failure``; None: there is none.

    Raises
    ------
    ValueError
        If the unit's IDs do not tell so many clients apart.
    """
    ends = [(block.request, block.beat) for block in silent]
    inner = _behind_gate(m, unit, name, scratch, window) if scratch or window is not None else unit
    ends += [(inner.requests[n], inner.beats[n]) for n in range(unit.clients)]
    m.submodules[f"{name}_reads"] = reads = ReadArbiter(
        *unit.port, clients=len(ends), outstanding=unit.outstanding, silent=range(len(silent))
    )
    if reads.id_width > unit.id_width:
        raise ValueError(f"{name} has {len(ends)} read clients, not at most {1 << unit.id_width} as its IDs tell apart")
    m.submodules[f"{name}_writes"] = writes = WritePort(*unit.port, id_width=unit.id_width)
    for part in (reads, writes):
        connect_manager(m, part.m_axi, port)
    for n, (request, beat) in enumerate(ends):
        connect(m, request, reads.requests[n])
        connect(m, reads.beats[n], beat)
    connect(m, inner.write, writes.i)
    mark, answered = getattr(unit, "mark", None), getattr(unit, "answered", None)
    if mark is not None and answered is not None:
        m.d.comb += [writes.mark.eq(mark), answered.eq(writes.answered)]
    m.d.comb += unit.writing.eq(writes.busy | (scratch.scratchpad.busy[scratch.number] if scratch else 0))
    for n, (failure, code) in enumerate(((reads.failure, Error.MEMORY_READ), (writes.failure, Error.MEMORY_WRITE))):
        m.d.comb += [
            unit.errors[n].valid.eq(failure.valid),
            unit.errors[n].payload.code.eq(code),
            unit.errors[n].payload.info.eq(failure.payload),
        ]
    if window:
        with m.If(window.failure.valid):
            m.d.comb += [unit.errors[0].valid.eq(1), unit.errors[0].payload.eq(window.failure.payload)]


class _Behind(NamedTuple):
    """What is left for the memory port, as ends of a unit."""

    requests: Any
    beats: Any
    write: Any


def _behind_gate(m: Module, unit: MemoryUnit, name: str, scratch: ScratchPort | None, window: Any) -> _Behind:
    """Put a gate between a unit and its memory port."""
    # Without a scratchpad no line lies there.
    lines = scratch.scratchpad.lines if scratch else 1
    m.submodules[f"{name}_gate"] = gate = ScratchGate(
        lines, *unit.port, clients=unit.clients, outstanding=unit.outstanding, windowed=window is not None
    )
    for n in range(unit.clients):
        connect(m, unit.requests[n], gate.requests[n])
        connect(m, gate.beats[n], unit.beats[n])
    connect(m, unit.write, gate.write)
    if scratch:
        pad, number = scratch.scratchpad, scratch.number
        connect(m, gate.reads, pad.reads[number])
        connect(m, pad.beats[number], gate.answers)
        connect(m, gate.write_scratch, pad.writes[number])
        m.d.comb += [gate.first.eq(scratch.first), gate.end.eq(scratch.end)]
    if window is not None:
        connect(m, gate.window_reads, window.reads)
        connect(m, window.beats, gate.window_answers)
        m.d.comb += [gate.window_first.eq(window.first), gate.window_end.eq(window.end)]
    return _Behind(gate.to_memory, gate.from_memory, gate.write_memory)
