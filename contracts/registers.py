"""Registers of the control port: one table for hardware, model, driver and documentation."""

from dataclasses import dataclass
from enum import StrEnum

from contracts.codes import Error
from contracts.formats import MAGIC, VERSION
from contracts.layout import Field, Layout

__all__ = [
    "COMMAND_WORDS", "COUNTERS", "QUEUE_MAGIC", "QUEUE_REGISTERS", "REGISTERS", "REGISTER_BITS", "REGISTER_BYTES",
    "Access", "Register", "queue_register", "register",
]  # fmt: skip

#: Width of a register, and its distance from the next.
REGISTER_BITS = 32
REGISTER_BYTES = REGISTER_BITS // 8


class Access(StrEnum):
    """What the host may do with a register."""

    READ = "read"
    WRITE = "read, write"
    ACT = "write; reads as 0"


@dataclass(frozen=True)
class Register:
    """One register of 32 bits.

    Attributes
    ----------
    name
        Identifier.
    address
        Byte address in the control port.
    access
        What the host may do with it.
    layout
        Its fields.
    reset
        Value after reset.
    """

    name: str
    address: int
    access: Access
    layout: Layout
    reset: int = 0


def _layout(name: str, doc: str, *fields: Field) -> Layout:
    rest = REGISTER_BITS - sum(field.bits for field in fields)
    return Layout(name, doc, (*fields, Field("reserved", rest, "written as 0")) if rest else fields)


def _u(name: str, bits: int, doc: str) -> Field:
    return Field(name, bits, doc)


#: Counters of 64 bits, each in two registers: what it counts.
COUNTERS: dict[str, str] = {
    "cycles": "cycles from the start of a run to its completion, of all runs",
    "read_beats": "beats read from the memory",
    "write_beats": "beats written to the memory",
}
_FIRST_COUNTER = 0x40


def _registers() -> tuple[Register, ...]:
    plain: list[tuple[str, Access, Layout, int]] = [
        ("ID", Access.READ, _layout("Id", "What this is.", _u("magic", 32, '"ATOL"')), MAGIC),
        (
            "VERSION",
            Access.READ,
            _layout("Version", "Which one.", _u("version", 16, "version of all formats")),
            VERSION,
        ),
        (
            "CONTROL",
            Access.ACT,
            _layout(
                "Control",
                "Each bit that is written as 1 does something once.",
                _u("start", 1, "run the image at IMAGE; refused with SLVERR during a run, and nothing else happens"),
                _u("acknowledge", 1, "clear `done` of STATUS"),
                _u("clear", 1, "clear the sticky error and all counters"),
            ),
            0,
        ),
        (
            "STATUS",
            Access.READ,
            _layout(
                "Status",
                "Where it stands.",
                _u("busy", 1, "a run is under way"),
                _u("done", 1, "a run has completed since the last start or acknowledge"),
                _u("failed", 1, "some run since the last clear ended with an error"),
                _u("interrupt", 1, "the interrupt output"),
            ),
            0,
        ),
        (
            "IMAGE",
            Access.WRITE,
            _layout("ImageAddress", "Where the next run's image lies.", _u("line", 32, "line address")),
            0,
        ),
        (
            "INTERRUPT",
            Access.WRITE,
            _layout("Interrupt", "What raises the interrupt output.", _u("done", 1, "`done` of STATUS")),
            0,
        ),
        (
            "COMPLETION",
            Access.READ,
            _layout(
                "LastCompletion",
                "How the last run ended.",
                Field("error", 8, "error code", enum=Error),
                _u("layer", 8, "layer of the last command"),
                _u("tag", 16, "tag of the last command"),
            ),
            0,
        ),
        ("INFO", Access.READ, _layout("LastInfo", "About the last run's error.", _u("info", 32, "see `Error`")), 0),
        (
            "ERROR",
            Access.READ,
            _layout(
                "StickyError",
                "First error since the last clear.",
                Field("error", 8, "error code", enum=Error),
            ),
            0,
        ),
        (
            "COMMAND",
            Access.READ,
            _layout(
                "CommandUnderWay",
                "What it does at the moment.",
                _u("opcode", 8, "opcode, 0 between commands"),
                _u("layer", 8, "its layer"),
            ),
            0,
        ),
    ]
    registers = [
        Register(name, REGISTER_BYTES * number, access, layout, reset)
        for number, (name, access, layout, reset) in enumerate(plain)
    ]
    at = _FIRST_COUNTER
    for name, doc in COUNTERS.items():
        title = "".join(part.capitalize() for part in name.split("_"))
        low = _layout(f"{title}Low", f"Counts {doc}; reading it holds the high half.", _u("low", 32, "bits 31:0"))
        high = _layout(
            f"{title}High", "High half as it was when the low half was read last.", _u("high", 32, "bits 63:32")
        )
        registers += [
            Register(f"{name.upper()}_LOW", at, Access.READ, low),
            Register(f"{name.upper()}_HIGH", at + REGISTER_BYTES, Access.READ, high),
        ]
        at += 2 * REGISTER_BYTES
    return tuple(registers)


#: All registers by address.
REGISTERS: tuple[Register, ...] = _registers()


#: First register of the port through which a host queues commands: "ATOQ".
QUEUE_MAGIC = int.from_bytes(b"ATOQ", "little")
#: Registers that take a command, a word each, the last one behind all others.
COMMAND_WORDS = 16
_FIRST_WORD = 0x40


def _queue_registers() -> tuple[Register, ...]:
    """Return the registers of the port that queues single commands for cores (A9)."""
    error = Field("error", 8, "error code", enum=Error)
    plain: list[tuple[str, Access, Layout, int]] = [
        ("ID", Access.READ, _layout("QueueId", "What this is.", _u("magic", 32, '"ATOQ"')), QUEUE_MAGIC),
        ("VERSION", Access.READ, _layout("QueueVersion", "Which one.", _u("version", 16, "of all formats")), VERSION),
        ("CONTROL", Access.ACT, _layout(
            "QueueControl", "Each bit that is written as 1 does something once.",
            _u("take", 1, "drop the oldest completion; refused with SLVERR if there is none"),
            _u("clear", 1, "clear the counters")), 0),
        ("STATUS", Access.READ, _layout(
            "QueueStatus", "Where it stands.",
            _u("room", 1, "a command can be written"), _u("interrupt", 1, "the interrupt output"),
            _u("completions", 6, "that wait to be taken"), _u("busy", 16, "a bit for each core: it has a command")), 1),
        ("BASE", Access.WRITE, _layout(
            "QueueBase", "Where addresses in commands count from.", _u("line", 32, "line address")), 0),
        ("INTERRUPT", Access.WRITE, _layout(
            "QueueInterrupt", "What raises the interrupt output.", _u("completion", 1, "a completion waits")), 0),
        ("COMPLETION", Access.READ, _layout(
            "QueueCompletion", "The oldest completion.", error,
            _u("layer", 8, "of its command"), _u("tag", 16, "of its command")), 0),
        ("INFO", Access.READ, _layout("QueueInfo", "About its error.", _u("info", 32, "see `Error`")), 0),
        ("WORKING", Access.READ, _layout(
            "QueueWorking", "Counts cycles.", _u("cycles", 32, "in which at least one core works")), 0),
        ("CORE_CYCLES", Access.READ, _layout(
            "QueueCoreCycles", "Counts cycles.", _u("cycles", 32, "in which cores work, of all cores together")), 0),
    ]  # fmt: skip
    registers = [
        Register(name, REGISTER_BYTES * number, access, layout, reset)
        for number, (name, access, layout, reset) in enumerate(plain)
    ]
    for number in range(COMMAND_WORDS):
        last = (
            "; writing it queues the command, refused with SLVERR without room" if number == COMMAND_WORDS - 1 else ""
        )
        layout = _layout(f"QueueCommand{number}", f"Word {number} of a command{last}.", _u("word", 32, "its bits"))
        registers.append(Register(f"COMMAND_{number}", _FIRST_WORD + REGISTER_BYTES * number, Access.ACT, layout))
    return tuple(registers)


#: Registers of the queue of commands by address.
QUEUE_REGISTERS: tuple[Register, ...] = _queue_registers()


def register(name: str) -> Register:
    """Return the register called `name`.

    Raises
    ------
    KeyError
        If there is none.
    """
    return _named(REGISTERS, name)


def queue_register(name: str) -> Register:
    """Return the register of the queue of commands called `name`.

    Raises
    ------
    KeyError
        If there is none.
    """
    return _named(QUEUE_REGISTERS, name)


def _named(registers: tuple[Register, ...], name: str) -> Register:
    for entry in registers:
        if entry.name == name:
            return entry
    raise KeyError(f"no register {name!r}")
