"""Registers of the control port: one table for hardware, model, driver and documentation."""

from dataclasses import dataclass
from enum import StrEnum

from contracts.codes import ArrayError, Error
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import Topology
from contracts.formats import MAGIC, VERSION
from contracts.layout import Field, Layout

__all__ = [
    "ARRAY_COUNTERS", "ARRAY_MAGIC", "ARRAY_MAP", "ARRAY_REGISTERS", "COMMAND_WORDS", "COUNTERS", "MACHINE_MAP",
    "QUEUE_MAGIC", "QUEUE_REGISTERS", "REGISTERS", "REGISTER_BITS", "REGISTER_BYTES", "Access", "Register",
    "RegisterMap", "array_register", "queue_register", "register",
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


@dataclass(frozen=True)
class RegisterMap:
    """All registers of a port, and how other tools call it.

    Attributes
    ----------
    name
        Identifier.
    doc
        What is behind the port.
    interrupt
        When its interrupt output is high.
    entries
        Its registers by address.
    """

    name: str
    doc: str
    interrupt: str
    entries: tuple[Register, ...]


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
        (
            "UNITS",
            Access.READ,
            _layout("Units", "Units whose work is counted (I5).", _u("count", 32, "number of units")),
            0,
        ),
        (
            "UNIT",
            Access.WRITE,
            _layout("Unit", "Unit that UNIT_CYCLES counts.", _u("number", 32, "below that of UNITS, else refused")),
            0,
        ),
        (
            "UNIT_CYCLES",
            Access.READ,
            _layout("UnitCycles", "Counts cycles; wraps.", _u("cycles", 32, "in which the unit worked")),
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
#: The control port.
MACHINE_MAP = RegisterMap(
    "atoll", "Accelerator for graph neural networks", "A run is done and not acknowledged", REGISTERS
)


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


#: First register of the port of an array of DNP-IIs: "ATON".
ARRAY_MAGIC = int.from_bytes(b"ATON", "little")
#: Counters of 32 bits, which wrap: what each counts.
ARRAY_COUNTERS: dict[str, str] = {
    "clocks": "clocks in which programs run, until the last of them has ended",
    "words_in": "words for edge ports that were taken",
    "words_out": "words that left by edge ports",
    "words_loaded": "words of frames that were taken",
    "words_read": "words that were read back",
}
_FIRST_ARRAY_COUNTER = 0x40


def _array_registers() -> tuple[Register, ...]:
    """Return the registers of an array of DNP-IIs (D10); those of sizes have the values of the hardware, here 0."""
    plain: list[tuple[str, Access, Layout]] = [
        ("ID", Access.READ, _layout("ArrayId", "What this is.", _u("magic", 32, '"ATON"'))),
        ("VERSION", Access.READ, _layout("ArrayVersion", "Which one.", _u("version", 16, "of all formats"))),
        ("CONTROL", Access.ACT, _layout(
            "ArrayControl", "Each bit that is written as 1 does something once.",
            _u("start", 1, "start all programs once the frames taken before are carried out; refused during a run"),
            _u("stop", 1, "end the run; programs go off-line as they are"),
            _u("acknowledge", 1, "clear `done` of STATUS"),
            _u("clear", 1, "clear ERROR, INFO and all counters"),
            _u("flush", 1,
               "drop all beats that were taken and not used, and reset the processors, whose memories stay; "
               "refused with `start`, during a run and while words are read back"))),
        ("STATUS", Access.READ, _layout(
            "ArrayStatus", "Where it stands.",
            _u("busy", 1, "a run is under way"),
            _u("done", 1, "a run has ended since the last start or acknowledge"),
            _u("failed", 1, "ERROR is not 0"),
            _u("interrupt", 1, "the interrupt output"),
            _u("stopped", 1, "a program has ended by an error, see STOP"),
            _u("loading", 1, "beats that were taken are not yet where they belong; a start would wait"),
            _u("answering", 1, "words are being read back"))),
        ("JOINTS", Access.WRITE, _layout(
            "ArrayJoints", "How the edges are joined; cannot be written during a run.",
            Field("topology", 2, "joints of the edge ports", enum=Topology),
            _u("host", 4, "sides that belong to the host whatever the topology says: north, east, south, west"))),
        ("INTERRUPT", Access.WRITE, _layout(
            "ArrayInterrupt", "What raises the interrupt output.", _u("done", 1, "`done` of STATUS"))),
        ("PACKET", Access.WRITE, _layout(
            "ArrayPacket", "Where packets of results end.",
            _u("words", 16, "results after which a packet ends; 0: with the run only"))),
        ("ERROR", Access.READ, _layout(
            "ArrayFirstError", "First error since the last clear.",
            Field("error", 8, "what was refused", enum=ArrayError))),
        ("INFO", Access.READ, _layout("ArrayInfo", "About that error.", _u("info", 32, "see `ArrayError`"))),
        ("STOP", Access.READ, _layout(
            "ArrayStop", "First program of the run that ended by an error.",
            Field("code", 8, "its code, 0 without one", enum=StopCode), _u("processor", 16, "row by row"))),
        ("SIZE", Access.READ, _layout(
            "ArraySize", "Size of the array.",
            _u("rows", 8, "of processors"), _u("columns", 8, "of processors"),
            _u("chip", 8, "processors along a side of a chip"),
            _u("table_bits", 8, "logarithm of the entries of the activation's table"))),
        ("MEMORY", Access.READ, _layout(
            "ArrayMemory", "Memories of a processor.",
            _u("wm", 16, "words of WM, less 1"), _u("xm", 16, "words of XM, less 1"))),
        ("PROGRAM", Access.READ, _layout(
            "ArrayProgram", "Memories of a processor.", _u("p", 16, "words of the program memory, less 1"))),
        ("BUFFERS", Access.READ, _layout(
            "ArrayBuffers", "Buffers.", _u("port", 16, "words in front of each edge port"),
            _u("input", 16, "beats behind the incoming stream"))),
    ]  # fmt: skip
    resets = {"ID": ARRAY_MAGIC, "VERSION": VERSION}
    registers = [
        Register(name, REGISTER_BYTES * number, access, layout, resets.get(name, 0))
        for number, (name, access, layout) in enumerate(plain)
    ]
    for number, (name, doc) in enumerate(ARRAY_COUNTERS.items()):
        title = "".join(part.capitalize() for part in name.split("_"))
        layout = _layout(f"Array{title}", f"Counts {doc}.", _u("count", 32, "since the last clear"))
        registers.append(Register(name.upper(), _FIRST_ARRAY_COUNTER + REGISTER_BYTES * number, Access.READ, layout))
    return tuple(registers)


#: Registers of an array of DNP-IIs by address.
ARRAY_REGISTERS: tuple[Register, ...] = _array_registers()
#: The port of an array.
ARRAY_MAP = RegisterMap(
    "atoll_array", "Array of neural processors", "A run is done and not acknowledged", ARRAY_REGISTERS
)


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


def array_register(name: str) -> Register:
    """Return the register of an array of DNP-IIs called `name`.

    Raises
    ------
    KeyError
        If there is none.
    """
    return _named(ARRAY_REGISTERS, name)


def _named(registers: tuple[Register, ...], name: str) -> Register:
    for entry in registers:
        if entry.name == name:
            return entry
    raise KeyError(f"no register {name!r}")
