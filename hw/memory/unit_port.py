"""Memory port of a unit: its read clients and its writes as one AXI4 manager."""

from typing import Any, Protocol

from amaranth import Module
from amaranth.lib.wiring import Out, connect

from contracts import Error
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.write_port import WritePort

__all__ = ["UNIT_ID_WIDTH", "MemoryUnit", "attach_unit"]

#: Bits of the IDs of a unit's port.
UNIT_ID_WIDTH = 4
#: Bursts of a client under way.
_OUTSTANDING = 64


class MemoryUnit(Protocol):
    """What reads and writes memory and has to know of failures.

    Attributes
    ----------
    port
        Widths of the memory port: of a byte address and of a beat, in bits.
    clients
        How many read clients it has, 2..16.
    requests, beats
        Their ends of the read arbiter.
    write : stream of `WriteRequest`
    writing : In(1)
        Writes have no answer yet.
    errors : streams of `ErrorReport`, always ready
        Failures: reads and writes.
    """

    port: tuple[int, int]
    clients: int
    requests: Any
    beats: Any
    write: Any
    writing: Any
    errors: Any


def attach_unit(m: Module, unit: MemoryUnit, name: str, port: Any) -> None:
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
        Interface of `AXI4Signature` with at least `UNIT_ID_WIDTH` bits of IDs, seen by the subordinate.
    """
    m.submodules[f"{name}_reads"] = reads = ReadArbiter(*unit.port, clients=unit.clients, outstanding=_OUTSTANDING)
    m.submodules[f"{name}_writes"] = writes = WritePort(*unit.port, id_width=UNIT_ID_WIDTH)
    for part in (reads, writes):
        for signal, member in part.m_axi.signature.members.items():
            outer, inner = getattr(part.m_axi, signal), getattr(port, signal)
            m.d.comb += inner.eq(outer) if member.flow == Out else outer.eq(inner)
    for n in range(unit.clients):
        connect(m, unit.requests[n], reads.requests[n])
        connect(m, reads.beats[n], unit.beats[n])
    connect(m, unit.write, writes.i)
    m.d.comb += unit.writing.eq(writes.busy)
    for n, (failure, code) in enumerate(((reads.failure, Error.MEMORY_READ), (writes.failure, Error.MEMORY_WRITE))):
        m.d.comb += [
            unit.errors[n].valid.eq(failure.valid),
            unit.errors[n].payload.code.eq(code),
            unit.errors[n].payload.info.eq(failure.payload),
        ]
