"""Units of a chiplet: the ports that all of them have, whether one is the chiplet's engine or stands beside it."""

from typing import Any, Protocol

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import COMMAND_BYTES, Opcode
from hw.graph.formats import ErrorReport
from hw.memory.formats import line_address_width
from hw.memory.unit_port import MemoryUnit, memory_members

__all__ = ["Engine", "FurtherPort", "Unit", "command_members", "engine_members", "unit_members"]


class Unit(MemoryUnit, Protocol):
    """Carries out some of a chiplet's commands, one at a time, and has read clients and writes of its own.

    Attributes
    ----------
    OPCODES
        Commands that it carries out.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        Answers a command; code 0 if nothing failed.
    base : In
        Line address that a command's addresses count from.

        A unit may have more: ``OUTER``, names of its ports that become ports of the chiplet, ``stop``, a stream
        of `ErrorReport` that is always ready and carries the error with which a run of the chiplet has ended, and
        ``exchanging``, ``halo``, ``made`` and ``sending``, see `Engine`.

        A unit that goes on with a command that it has answered has ``background``, which says so, and ``ending``: the
        run has no more commands, and ends when there is nothing in the background. ``late`` is the `COMPLETION` of a
        command that has failed after its answer: the run ends with it, unless a command fails before. It may have
        ``window``, see `hw.memory.unit_port.attach_unit`.

        A unit that has a graph of which other chiplets have parts hands it out as ``shared_lines``, a window for the
        unit whose ``READS_GRAPHS`` is true; it may have ``readers``, clients' ends of the read arbiter beside
        ``requests`` whose failures are not the unit's.
    """

    OPCODES: tuple[Opcode, ...]
    command: Any
    executed: Any
    base: Any


class FurtherPort:
    """A memory port of an engine beside its first one, as a `MemoryUnit`.

    Parameters
    ----------
    engine
        Has it.
    port
        Its members, of `hw.memory.unit_port.memory_members`.
    """

    def __init__(self, engine: Any, port: Any) -> None:
        self.port: tuple[int, int] = engine.port
        self.outstanding: int = engine.outstanding
        self.id_width: int = engine.id_width
        self.clients = len(port.requests)
        self.requests, self.beats, self.write = port.requests, port.beats, port.write
        self.writing, self.errors = port.writing, port.errors


class Engine(Unit, Protocol):
    """Carries out the commands of layers, and all commands that no other unit has; ``OPCODES`` is empty.

    Attributes
    ----------
    config
        Its sizes, which have ``parts``, ``settling``, ``lanes``, ``port``, ``partials`` and ``counters``. The last are
        names of ports, ``Out(32)``.
    modules
        Components that are left to be generated apart, by the name of their module.
    opcode, layer : Out(8)
        Command under way, `Opcode.NOP` between commands.
    working : Out
        Which of ``config.parts`` work in this cycle.
    starts : In(1)
        Pulse: a run begins, and the host may have written to the memory since the last one.
    further
        Its memory ports beside the first one, each a `FurtherPort`.
    exchanging : In(1)
        A unit beside it still fetches rows of others and sends own ones, for a command that it has answered.

        It may have ``halo``, the `hw.ring.formats.HaloRows` that it can read meanwhile; then it has ``made``, the
        `hw.ring.formats.MadeRows` that can be sent, and ``sending``: COMBINE changes no rows.
    """

    config: Any
    modules: dict[str, wiring.Component]
    further: list[FurtherPort]
    opcode: Any
    layer: Any
    working: Any
    starts: Any
    exchanging: Any


def command_members(address_width: int) -> dict[str, wiring.Member]:
    """Return the ports of a `Unit` for commands; `address_width` in bits."""
    return {
        "command": In(stream.Signature(8 * COMMAND_BYTES)),
        "executed": Out(stream.Signature(ErrorReport)),
        "base": In(line_address_width(address_width)),
    }


def unit_members(port: tuple[int, int], clients: int) -> dict[str, wiring.Member]:
    """Return the ports of a `Unit`.

    Parameters
    ----------
    port
        Widths of the memory port: of a byte address and of a beat, in bits.
    clients
        Number of read clients.
    """
    return {**command_members(port[0]), **memory_members(port, clients)}


def engine_members(config: Any, clients: int) -> dict[str, wiring.Member]:
    """Return the ports of an `Engine`.

    Parameters
    ----------
    config
        Sizes of the engine.
    clients
        Number of read clients.
    """
    return {
        **unit_members(config.port, clients),
        "opcode": Out(8),
        "layer": Out(8),
        "working": Out(len(config.parts)),
        "starts": In(1),
        "exchanging": In(1),
        **{name: Out(32) for name in config.counters},
    }
