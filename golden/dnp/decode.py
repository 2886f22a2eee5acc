"""What every instruction word reads, writes and waits for, derived from the table of instructions."""

from enum import IntEnum
from functools import cache

import numpy as np
import numpy.typing as npt

from contracts.dnp.isa import (
    ACCUMULATOR,
    ACCUMULATOR_CLEARED,
    GENERAL,
    INSTRUCTIONS,
    REPEAT_BIT,
    SET_TARGETS,
    Kind,
    bits_of,
    lookup,
)

__all__ = ["A_CODE", "NONE", "Trait", "destination", "traits"]

#: A trait that does not apply.
NONE = -1
#: Code of A among the registers an instruction reads or writes; RFn have codes 0..7.
A_CODE = GENERAL
#: A control register as the target of LDI.
_CONTROL_TARGET = 32


class Trait(IntEnum):
    """Columns of :func:`traits`; each is ``NONE`` where it does not apply."""

    ROW = 0  # index in INSTRUCTIONS
    REPEAT = 1  # 1 if the repeat flag is set
    WM_SOURCE = 2  # pointer
    WM_SOURCE_MODE = 3
    XM_SOURCE = 4
    XM_SOURCE_MODE = 5
    WM_RESULT = 6
    WM_RESULT_MODE = 7
    XM_RESULT = 8
    XM_RESULT_MODE = 9
    ISSUE_READS = 10  # register needed in the issue stage
    OPERAND_READS = 11  # RFn needed in the operand stage
    OPERAND_READS_A = 12  # 1 if A is needed there
    COMMIT_READS = 13  # RFn or A needed in the add stage
    WRITES = 14  # register written in the add stage
    CLEARS_A = 15  # 1 if A is cleared after it was read
    PORT_IN = 16
    PORT_OUT = 17
    CONTROL = 18  # control register read or written
    TWO_WORDS = 19


def _set_source(row: list[int], code: int) -> None:
    if code < GENERAL:
        row[Trait.COMMIT_READS] = code
    elif code in (ACCUMULATOR, ACCUMULATOR_CLEARED):
        row[Trait.COMMIT_READS] = A_CODE
        row[Trait.CLEARS_A] = 1 if code == ACCUMULATOR_CLEARED else NONE
    else:
        memory = Trait.WM_SOURCE if code < 32 else Trait.XM_SOURCE
        row[memory], row[memory + 1] = (code >> 2) & 3, code & 3


def _set_operand(row: list[int], kind: Kind, letter: str, bits: int) -> None:
    pointer, mode = bits >> 2, bits & 3
    match kind:
        case Kind.WM_SOURCE:
            row[Trait.WM_SOURCE], row[Trait.WM_SOURCE_MODE] = pointer, mode
        case Kind.XM_SOURCE:
            row[Trait.XM_SOURCE], row[Trait.XM_SOURCE_MODE] = pointer, mode
        case Kind.WM_RESULT:
            row[Trait.WM_RESULT], row[Trait.WM_RESULT_MODE] = bits >> 1, bits & 1
        case Kind.XM_RESULT:
            row[Trait.XM_RESULT], row[Trait.XM_RESULT_MODE] = bits >> 1, bits & 1
        case Kind.WM_BOTH:
            row[Trait.WM_SOURCE] = row[Trait.WM_RESULT] = bits >> 1
            row[Trait.WM_SOURCE_MODE] = row[Trait.WM_RESULT_MODE] = bits & 1
        case Kind.SOURCE | Kind.SOURCE_KEPT:
            _set_source(row, bits)
        case Kind.CONTROL:
            row[Trait.CONTROL] = bits
        case Kind.SET_TARGET:
            row[Trait.CONTROL] = SET_TARGETS[bits]
        case Kind.PORT:
            row[Trait.PORT_OUT if letter == "q" else Trait.PORT_IN] = bits


def destination(name: str, word: int) -> int:
    """Register an instruction writes in the add stage: 0..7 for RFn, 8 for A, ``NONE`` otherwise."""
    row = next(r for r in INSTRUCTIONS if r.name == name)
    if name == "LDI":
        target = bits_of(word, row, "t")
        return target if target < _CONTROL_TARGET else NONE
    if name == "MOV.G":
        return bits_of(word, row, "a")
    if name == "MOV.R":
        return bits_of(word, row, "r")
    return A_CODE if row.effect.startswith("A ←") else NONE


def _traits_of(word: int) -> list[int]:
    values = [NONE] * len(Trait)
    instruction = lookup(word)
    if instruction is None:
        return values
    values[Trait.ROW] = INSTRUCTIONS.index(instruction)
    if word >> REPEAT_BIT:
        values[Trait.REPEAT] = 1
    for operand in instruction.operands:
        if operand.letter:
            bits = bits_of(word, instruction, operand.letter)
            _set_operand(values, operand.kind, operand.letter, bits)
    if any(operand.kind is Kind.CLEARED for operand in instruction.operands):
        values[Trait.CLEARS_A] = 1
    name = instruction.name
    values[Trait.WRITES] = destination(name, word)
    if values[Trait.CLEARS_A] == 1 and values[Trait.WRITES] == NONE:
        values[Trait.WRITES] = A_CODE
    if instruction.mnemonic in ("MADD", "MSUB", "MUL", "MULR", "UPD", "SCL") and instruction.letter_of(Kind.GENERAL):
        values[Trait.OPERAND_READS] = bits_of(word, instruction, "r")
    if name in ("MUL.RA", "MULR.RA"):
        values[Trait.OPERAND_READS_A] = 1
    if name == "MOV.C":
        values[Trait.ISSUE_READS] = bits_of(word, instruction, "a")
    if name in ("BN", "BP", "BZ", "BNZ"):
        values[Trait.ISSUE_READS] = A_CODE
    if instruction.words > 1:
        values[Trait.TWO_WORDS] = 1
        values[Trait.CONTROL] = max(bits_of(word, instruction, "t") - _CONTROL_TARGET, NONE) if name == "LDI" else NONE
    return values


@cache
def traits() -> npt.NDArray[np.int16]:
    """Table of all instruction words, int16, shape (65,536, number of traits); undefined words have ROW ``NONE``."""
    table = np.full((1 << 16, len(Trait)), NONE, dtype=np.int16)
    for instruction in INSTRUCTIONS:
        free = [bit for bit in range(16) if not instruction.mask >> bit & 1]
        for code in range(1 << len(free)):
            word = instruction.match
            for position, bit in enumerate(free):
                word |= (code >> position & 1) << bit
            if lookup(word) is not None:
                table[word] = _traits_of(word)
    return table
