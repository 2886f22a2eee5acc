"""What the issue stage of the core waits for, and that it waits for nothing else.

Part of the bench `tb.dnp.test_core`.
"""

import random
from typing import Any

import cocotb

from contracts.dnp.isa import GENERAL, PORTS, Control
from golden.dnp.array import EdgePort
from golden.dnp.assembler import assemble
from hw.dnp.core import Space
from sim.dnp.driver import CoreDriver
from tb.dnp.core_runs import CONFIG, FOR_MANY, Job, check, compare, run_all, run_texts

__all__ = [
    "a_start_clears_registers_and_ports",
    "registers_still_to_be_written_are_waited_for_and_no_others",
    "words_still_to_be_written_are_waited_for_and_no_others",
    "words_that_come_late_are_written_where_they_belong",
]

_SEED = 8
#: Share of clocks in which a slow neighbour begins to offer a word.
_SLOW = 0.03
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


def _late() -> str:
    """Write words that come late to addresses with each bit set: addresses and words have to last through the wait."""
    lines = []
    for memory, depth, use in (("W", CONFIG.wm_depth, "INW"), ("X", CONFIG.xm_depth, "INX")):
        bits = (depth - 1).bit_length()
        for place in (*(1 << bit for bit in range(bits)), depth - 1):
            lines += [f"LDI #{place} {memory}R1", f"{use} {PORTS[place % 3]} {memory}M[1]"]
    return "\n".join([*lines, "HALT"])


_MEMORIES = (("W", CONFIG.wm_depth), ("X", CONFIG.xm_depth))
_TEXTS = (_registers(), *(_words(memory, depth) for memory, depth in _MEMORIES))


def _run() -> None:
    """Run all of them in the golden machine."""
    run_texts([*((text, _SEED, 1.0) for text in _TEXTS), (_late(), _SEED, _SLOW)])


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


@cocotb.test()
async def words_that_come_late_are_written_where_they_belong(dut: Any) -> None:
    """Wait long for every word, and keep the address that it is written to."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    _run()
    run = await compare(driver, _late(), _SEED, _SLOW)
    assert run.state["blocked"][0] > 100


@cocotb.test()
async def a_start_clears_registers_and_ports(dut: Any) -> None:
    """Leave words in every register and input buffer; the program that is started next finds none of them."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    wm, xm = [0] * CONFIG.wm_depth, [0] * CONFIG.xm_depth
    names = [*(control.name for control in Control), *(f"RF{number}" for number in range(GENERAL)), "A"]
    first = [f"LDI #{5 + number} {name}" for number, name in enumerate(names)]
    second = [f"INS {port}" for port in PORTS]
    jobs: list[Job] = []
    for lines in (first, second):
        neighbours = {port: EdgePort([len(jobs) + 100 << port]) for port in range(len(PORTS))}
        jobs.append(Job(assemble("\n".join([*lines, "HALT"])).program, wm, xm, neighbours))
    await driver.write(Space.WM, 0, wm)
    await driver.write(Space.XM, 0, xm)
    for job in jobs:
        await driver.write(Space.PROGRAM, 0, job.program)
        await check(driver, run_all([job])[0])
