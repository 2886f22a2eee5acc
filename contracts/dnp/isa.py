"""The one table of the DNP-II's instructions (D5, D8).

Assembler, disassembler, cycle-exact machine, hardware decoder and the manual are made from :data:`INSTRUCTIONS`.
An instruction is a 16-bit word; ``LDI`` and ``JMP`` carry a second one. Operands are written source first.

A *pattern* is the 16 bits, most significant first: ``0`` and ``1`` are fixed, a letter is an operand's bit, and ``R``
is the repeat flag: the instruction is carried out as often as register ``RC`` says, one a clock (D5). Operands of a
kind stand at the same place in as many rows as can be, which keeps the hardware's decoder shallow.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property

__all__ = [
    "ACCUMULATOR",
    "ACCUMULATOR_CLEARED",
    "CODES",
    "CONTROLS",
    "GENERAL",
    "INSTRUCTIONS",
    "IOPR_CODE",
    "MODES",
    "PORTS",
    "REPEAT_BIT",
    "SET_TARGETS",
    "TABLE_POINTER",
    "Control",
    "Instruction",
    "Kind",
    "Operand",
    "StopCode",
    "bits_of",
    "lookup",
]

#: General registers RF0..RF7 (D4).
GENERAL = 8
#: Ports in the order of their codes: north, east, south, west (D6); code 4 is "the one IOPR names".
PORTS = ("N", "E", "S", "W")
IOPR_CODE = 4
#: Codes of A in a source field; the second one clears A after reading it.
ACCUMULATOR = 0b110000
ACCUMULATOR_CLEARED = 0b110001
#: The operand pointer of WM that turns what is moved into it into an index of the table (D8).
TABLE_POINTER = 3
REPEAT_BIT = 15


class Control(IntEnum):
    """Registers owned by the issue stage: address registers and those of D4."""

    WA0, WA1, WA2, WA3 = range(4)
    WR0, WR1, WR2, WR3 = range(4, 8)
    XA0, XA1, XA2, XA3 = range(8, 12)
    XR0, XR1, XR2, XR3 = range(12, 16)
    ICR, RC, LC0, LC1, IOPR, TB = range(16, 22)


#: What each control register is for.
CONTROLS: dict[Control, str] = {
    **{Control(i): f"operand pointer {i} of WM" for i in range(4)},
    **{Control(4 + i): f"result pointer {i} of WM" for i in range(4)},
    **{Control(8 + i): f"operand pointer {i} of XM" for i in range(4)},
    **{Control(12 + i): f"result pointer {i} of XM" for i in range(4)},
    Control.WA3: "operand pointer 3 of WM; a value moved into it becomes the address of its table entry",
    Control.ICR: "displacement that `+` adds to a WM pointer",
    Control.RC: "how often a repeated instruction is carried out; 0: not at all, in one clock",
    Control.LC0: "loop counter of LOOP",
    Control.LC1: "second loop counter of LOOP",
    Control.IOPR: "port that the operand IO names, 0..3",
    Control.TB: "address of the table of the non-linear function in WM",
}

#: Registers that SET can load, in the order of their codes.
SET_TARGETS = (Control.RC, Control.ICR, Control.LC0, Control.LC1)
#: Post-modification of a pointer, by code: none, step, step and come back.
MODES = ("", "+", "~")


class StopCode(IntEnum):
    """Why a processor stands still; readable over the G-bus."""

    NONE = 0
    OPCODE = 1
    WM_RANGE = 2
    XM_RANGE = 3
    PC_RANGE = 4


class Kind(StrEnum):
    """Kinds of operands; the value is how a message names them."""

    GENERAL = "a general register RF0..RF7"
    ACCUMULATOR = "A"
    CLEARED = "A!"
    WM_SOURCE = "WM[0..3] with nothing, + or ~"
    XM_SOURCE = "XM[0..3] with nothing, + or ~"
    WM_RESULT = "WM[0..3] with nothing or +"
    XM_RESULT = "XM[0..3] with nothing or +"
    WM_BOTH = "WM[0..3] with nothing or +, read and written"
    SOURCE = "RF0..RF7, WM, XM, A or A!"
    SOURCE_KEPT = "RF0..RF7, WM, XM or A"
    SCALAR = "RF0..RF7 or A"
    CONTROL = "a control register"
    TARGET = "RF0..RF7, A or a control register"
    SET_TARGET = "RC, ICR, LC0 or LC1"
    COUNTER = "LC0 or LC1"
    PORT = "a port N, E, S, W or IO"
    BYTE = "#0..#255"
    SHIFT = "#0..#15"
    WORD = "#-32768..#65535"
    ADDRESS = "a label or address"
    NEAR = "a label nearby"


@dataclass(frozen=True)
class Operand:
    """An operand: its kind and the letter of its bits in the pattern, empty if it is implied or in the second word."""

    kind: Kind
    letter: str = ""


@dataclass(frozen=True)
class Instruction:
    """A row of the table.

    Attributes
    ----------
    name
        Unique name, used by hardware and models.
    mnemonic
        What the assembler writes; several rows share one.
    pattern
        The 16 bits, as the module describes.
    operands
        In the order of writing, source first.
    effect
        What it does, in words.
    clocks
        From its issue to that of the next instruction, without waiting for operands or partners; a taken branch in
        ``clocks_taken``.
    words
        Words of program memory.
    """

    name: str
    mnemonic: str
    pattern: str
    operands: tuple[Operand, ...]
    effect: str
    clocks: int = 1
    clocks_taken: int = 0
    words: int = 1

    @property
    def repeatable(self) -> bool:
        """Whether the repeat flag is allowed."""
        return self.pattern[0] == "R"

    @cached_property
    def mask(self) -> int:
        """Bits that are fixed, without the repeat flag where it is allowed."""
        return int("".join("1" if bit in "01" else "0" for bit in self.pattern), 2)

    @cached_property
    def match(self) -> int:
        """Value of the fixed bits."""
        return int("".join("1" if bit == "1" else "0" for bit in self.pattern), 2)

    def field(self, letter: str) -> tuple[int, int]:
        """Least significant bit and width of an operand."""
        return 15 - self.pattern.rindex(letter), self.pattern.count(letter)

    def letter_of(self, *kinds: Kind) -> str | None:
        """Letter of the first operand of one of these kinds, if there is one."""
        return next((o.letter for o in self.operands if o.kind in kinds and o.letter), None)


_NAMES = {
    "r": Kind.GENERAL,
    "A": Kind.ACCUMULATOR,
    "Z": Kind.CLEARED,
    "w": Kind.WM_SOURCE,
    "x": Kind.XM_SOURCE,
    "W": Kind.WM_RESULT,
    "X": Kind.XM_RESULT,
    "b": Kind.WM_BOTH,
    "y": Kind.XM_RESULT,
    "s": Kind.SOURCE,
    "k": Kind.SOURCE_KEPT,
    "a": Kind.SCALAR,
    "c": Kind.CONTROL,
    "t": Kind.TARGET,
    "e": Kind.SET_TARGET,
    "l": Kind.COUNTER,
    "p": Kind.PORT,
    "q": Kind.PORT,
    "i": Kind.BYTE,
    "n": Kind.SHIFT,
    "I": Kind.WORD,
    "J": Kind.ADDRESS,
    "o": Kind.NEAR,
}


def _row(
    name: str, pattern: str, operands: str, effect: str, clocks: int = 1, clocks_taken: int = 0, words: int = 1
) -> Instruction:
    bits = pattern.replace(" ", "")
    if len(bits) != 16:
        raise ValueError(f"pattern of {name} has {len(bits)} bits, not 16")
    built = tuple(Operand(_NAMES[letter], letter if letter in bits[1:] else "") for letter in operands)
    return Instruction(name, name.split(".")[0], bits, built, effect, clocks, clocks_taken, words)


def _multiply(name: str, opcode: str, effect: str, *, with_a: bool) -> list[Instruction]:
    rows = [
        _row(f"{name}.WX", f"R {opcode} 00 wwww xxxx", "wxA", effect.replace("@", "WM·XM")),
        _row(f"{name}.RX", f"R {opcode} 01 0rrr xxxx", "rxA", effect.replace("@", "RF·XM")),
        _row(f"{name}.RW", f"R {opcode} 10 0rrr wwww", "rwA", effect.replace("@", "RF·WM")),
    ]
    if with_a:
        rows.append(_row(f"{name}.RA", f"R {opcode} 11 0rrr 0000", "rA", effect.replace("@", "RF·A")))
    return rows


def _alu(name: str, code: str, effect: str) -> Instruction:
    return _row(name, f"R 00111 {code} kkkkkk", "kA", effect)


INSTRUCTIONS: tuple[Instruction, ...] = (
    _row("NOP", "0 00000 0000000000", "", "nothing"),
    _row("HALT", "0 00000 0000000001", "", "the processor stands still until it is started again"),
    _row("JMP", "0 00000 0000000010", "J", "continue at the address in the second word", clocks=4, words=2),
    *_multiply("MADD", "00001", "A ← A + @", with_a=False),
    *_multiply("MSUB", "00010", "A ← A - @", with_a=False),
    *_multiply("MUL", "00011", "A ← @", with_a=True),
    *_multiply("MULR", "00100", "A ← @, rounded to nearest", with_a=True),
    _row("UPD", "R 00101 bbb rrr xxxx", "rxb", "WM ← WM + RF·XM, the product rounded to nearest"),
    _row("SCL", "R 00110 bbb rrr 0000", "rb", "WM ← RF·WM, rounded to nearest"),
    _alu("ADD", "0000", "A ← A + source"),
    _alu("SUB", "0001", "A ← A - source"),
    _alu("AND", "0010", "A ← A and source, bit by bit"),
    _alu("OR", "0011", "A ← A or source, bit by bit"),
    _alu("XOR", "0100", "A ← A exclusive-or source, bit by bit"),
    _row("MOV.A", "R 00111 0101 kkkkkk", "kA", "A ← source"),
    _row("NOT", "R 00111 0110 110000", "A", "A ← 0x7FFF - A (1 - A in Q0.15); a negative A gives 0x7FFF"),
    _row("NEG", "R 00111 0111 110000", "A", "A ← -A; -32768 gives 32767"),
    _row("SHL", "R 01000 00 0000 nnnn", "nA", "A ← A·2ⁿ without the bits that leave; does not saturate"),
    _row("SHR", "R 01000 01 0000 nnnn", "nA", "A ← A·2⁻ⁿ, rounded down (arithmetic shift)"),
    _row("LSR", "R 01000 10 0000 nnnn", "nA", "A ← A shifted right by n, zeros from the left"),
    _row("MOV.R", "R 01001 0 rrr ssssss", "sr", "RF ← source"),
    _row("MOV.W", "R 01010 WWW 0 ssssss", "sW", "WM ← source"),
    _row("MOV.X", "R 01011 XXX 0 ssssss", "sX", "XM ← source"),
    _row("MOV.C", "0 01100 aaaa 0 ccccc", "ac", "control register ← RF or A"),
    _row("MOV.G", "0 01101 aaaa 0 ccccc", "ca", "RF or A ← control register"),
    _row("LDI", "0 01110 0000 tttttt", "It", "register ← second word", clocks=2, words=2),
    _row("SET", "0 01111 ee iiiiiiii", "ie", "control register ← 0..255"),
    _row("INA", "R 10000 000 ppp 0000", "p", "A ← word from the port"),
    _row("INX", "R 10001 XXX ppp 0000", "pX", "XM ← word from the port"),
    _row("INW", "R 10010 WWW ppp 0000", "pW", "WM ← word from the port"),
    _row("INS", "R 10011 000 ppp 0000", "p", "A ← A + word from the port"),
    _row("INSX", "R 10100 yyy ppp xxxx", "pxy", "XM ← XM + word from the port"),
    _row("OUTA", "R 10101 qqq 1 110000", "q", "port ← A"),
    _row("OUT", "R 10101 qqq 0 ssssss", "sq", "port ← source"),
    _row("PASS", "R 10110 XXX ppp 0 qqq", "pXq", "XM and the second port ← word from the first port"),
    _row("FWD", "R 10111 qqq ppp 0000", "pq", "second port ← word from the first port"),
    _row("OUTS", "R 11000 qqq ppp xxxx", "pxq", "second port ← XM + word from the first port"),
    _row("OUTS.A", "R 11011 qqq ppp 0000", "pZq", "second port ← A + word from the first port; then A ← 0"),
    _row("BN", "0 11001 00 oooooooo", "o", "branch if A < 0", clocks_taken=3),
    _row("BP", "0 11001 01 oooooooo", "o", "branch if A ≥ 0", clocks_taken=3),
    _row("BZ", "0 11001 10 oooooooo", "o", "branch if A = 0", clocks_taken=3),
    _row("BNZ", "0 11001 11 oooooooo", "o", "branch if A ≠ 0", clocks_taken=3),
    _row("LOOP", "0 11010 l ooooooooo", "lo", "LC ← LC - 1; branch unless LC is 0 then", clocks_taken=3),
)

#: Which values of an operand's bits are defined; kinds that are not here allow all.
CODES: dict[Kind, frozenset[int]] = {
    Kind.WM_SOURCE: frozenset(i for i in range(16) if i & 3 < 3),
    Kind.XM_SOURCE: frozenset(i for i in range(16) if i & 3 < 3),
    Kind.SOURCE_KEPT: frozenset([*range(8), *(16 + i for i in range(32) if i & 3 < 3), ACCUMULATOR]),
    Kind.SCALAR: frozenset(range(GENERAL + 1)),
    Kind.CONTROL: frozenset(int(c) for c in Control),
    Kind.TARGET: frozenset([*range(GENERAL + 1), *(32 + int(c) for c in Control)]),
    Kind.PORT: frozenset(range(len(PORTS) + 1)),
}
CODES[Kind.SOURCE] = CODES[Kind.SOURCE_KEPT] | {ACCUMULATOR_CLEARED}


def bits_of(word: int, instruction: Instruction, letter: str) -> int:
    """Value of an operand's bits in a word."""
    low, width = instruction.field(letter)
    return (word >> low) & ((1 << width) - 1)


def lookup(word: int) -> Instruction | None:
    """Row of an instruction word, or ``None`` if the word is not defined."""
    for row in INSTRUCTIONS:
        if word & row.mask == row.match:
            defined = all(
                bits_of(word, row, o.letter) in CODES[o.kind] for o in row.operands if o.letter and o.kind in CODES
            )
            return row if defined else None
    return None
