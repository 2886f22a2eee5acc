"""What the issue stage of the core waits for, and that it waits for nothing else.

Part of the bench `tb.dnp.test_core`.
"""

import random
from typing import Any

import cocotb

from golden.dnp.isa import GENERAL
from tb.dnp.core_runs import CONFIG, FOR_MANY, compare, run_texts
from tb.dnp.driver import CoreDriver

__all__ = [
    "registers_still_to_be_written_are_waited_for_and_no_others",
    "words_still_to_be_written_are_waited_for_and_no_others",
]

_SEED = 8
#: Instructions between one that writes and one that reads.
_DISTANCES = 3


def _registers() -> str:
    """Write a register, then need it, or one whose number differs in a bit, for a control register and as a factor."""
    lines = ["LDI #12345 A"]
    for need in ("MOV RF{} LC0", "MUL RF{} A"):
        for written in range(GENERAL):
            for needed in (written, written ^ 1, written ^ 2, written ^ 4):
                for distance in range(_DISTANCES):
                    lines += [f"MOV A RF{written}", *["NOP"] * distance, need.format(needed)]
        lines.append("LDI #23456 A")
    for distance in range(_DISTANCES):
        for need in ("MOV A LC1", "MUL RF1 A", f"BN next{distance}\nnext{distance}:", "MUL RF1 XM A"):
            lines += ["AND RF0 A", *["NOP"] * distance, "LSR #1 A", *["NOP"] * distance, need]
    return "\n".join([*lines, "HALT"])


def _words(memory: str, depth: int) -> str:
    """Write a word, then read it, or one whose address differs in a bit."""
    rng = random.Random(depth)
    lines = ["LDI #12345 RF1"]
    for distance in range(_DISTANCES):
        for bit in range((depth - 1).bit_length() + 1):
            place = rng.randrange(depth)
            other = place ^ (1 << bit) & (1 << (depth - 1).bit_length()) - 1
            if other < depth:
                lines += [f"LDI #{other} {memory}A1", f"LDI #{place} {memory}R2", f"MOV RF1 {memory}M[2]"]
                lines += ["ADD RF1 A"] * distance + [f"MOV {memory}M[1] RF1", "ADD RF1 A"]
    return "\n".join([*lines, "HALT"])


_MEMORIES = (("W", CONFIG.wm_depth), ("X", CONFIG.xm_depth))
_TEXTS = (_registers(), *(_words(memory, depth) for memory, depth in _MEMORIES))


def _run() -> None:
    """Run all of them in the golden machine."""
    run_texts((text, _SEED, 1.0) for text in _TEXTS)


if FOR_MANY:
    _run()


@cocotb.test()
async def registers_still_to_be_written_are_waited_for_and_no_others(dut: Any) -> None:
    """Each register, needed one to three instructions after it is written, or another one is."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    _run()
    await compare(driver, _TEXTS[0], _SEED, 1.0)


@cocotb.test()
async def words_still_to_be_written_are_waited_for_and_no_others(dut: Any) -> None:
    """Read one to three instructions after a write, at its address and at each that differs in one bit."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    _run()
    for text in _TEXTS[1:]:
        await compare(driver, text, _SEED, 1.0)
