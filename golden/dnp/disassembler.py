"""Disassembler: program words back to the assembler's text."""

from collections.abc import Sequence

from contracts.dnp.isa import (
    ACCUMULATOR,
    ACCUMULATOR_CLEARED,
    GENERAL,
    MODES,
    PORTS,
    REPEAT_BIT,
    SET_TARGETS,
    Control,
    Instruction,
    Kind,
    Operand,
    bits_of,
    lookup,
)

__all__ = ["disassemble", "one"]

_CONTROL_TARGET = 32


def _pointer(memory: str, code: int, mode_bits: int) -> str:
    return f"{memory}[{code >> mode_bits}]{MODES[code & ((1 << mode_bits) - 1)]}"


def _source(code: int) -> str:
    if code == ACCUMULATOR:
        return "A"
    if code == ACCUMULATOR_CLEARED:
        return "A!"
    if code < GENERAL:
        return f"RF{code}"
    return _pointer("WM" if code < 32 else "XM", code & 0xF, 2)


def _scalar(code: int) -> str:
    return "A" if code == GENERAL else f"RF{code}"


def _operand(operand: Operand, row: Instruction, word: int, second: int, address: int) -> str:
    code = bits_of(word, row, operand.letter) if operand.letter else second
    match operand.kind:
        case Kind.ACCUMULATOR:
            return "A"
        case Kind.CLEARED:
            return "A!"
        case Kind.GENERAL | Kind.SCALAR:
            return _scalar(code)
        case Kind.SOURCE | Kind.SOURCE_KEPT:
            return _source(code)
        case Kind.WM_SOURCE:
            return _pointer("WM", code, 2)
        case Kind.XM_SOURCE:
            return _pointer("XM", code, 2)
        case Kind.WM_BOTH | Kind.WM_RESULT:
            return _pointer("WM", code, 1)
        case Kind.XM_RESULT:
            return _pointer("XM", code, 1)
        case Kind.CONTROL:
            return Control(code).name
        case Kind.TARGET:
            return Control(code - _CONTROL_TARGET).name if code >= _CONTROL_TARGET else _scalar(code)
        case Kind.SET_TARGET:
            return SET_TARGETS[code].name
        case Kind.COUNTER:
            return f"LC{code}"
        case Kind.PORT:
            return PORTS[code] if code < len(PORTS) else "IO"
        case Kind.NEAR:
            _, width = row.field(operand.letter)
            offset = code - (code >> (width - 1) << width)
            return str((address + offset) & 0xFFFF)
        case Kind.ADDRESS:
            return str(code)
        case _:
            return f"#{code}"


def one(words: Sequence[int], address: int) -> tuple[str, int]:
    """Text of the instruction at an address, and the number of words it takes."""
    word = words[address]
    row = lookup(word)
    if row is None or (row.words > 1 and address + 1 >= len(words)):
        return f".word 0x{word:04x}", 1
    second = words[address + 1] if row.words > 1 else 0
    operands = " ".join(_operand(operand, row, word, second, address) for operand in row.operands)
    prefix = "REP " if word >> REPEAT_BIT else ""
    return f"{prefix}{row.mnemonic} {operands}".strip(), row.words


def disassemble(words: Sequence[int]) -> list[tuple[int, str]]:
    """Address and text of every instruction; words that are none become ``.word``."""
    listing, address = [], 0
    while address < len(words):
        text, size = one(words, address)
        listing.append((address, text))
        address += size
    return listing
