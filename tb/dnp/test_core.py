# mypy: disable-error-code="attr-defined"
"""The core: every program of Fig. 4, random programs under random stalls, errors, resets; clock by clock."""

import contextlib
import os
import random
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts.dnp.isa import INSTRUCTIONS, TABLE_POINTER, Control, Instruction, StopCode
from golden.dnp.arithmetic import signed
from golden.dnp.array import EdgePort
from golden.dnp.assembler import assemble
from golden.dnp.decode import NONE, Trait, traits
from hw.dnp.core import COUNTER_BITS, Core, Space, Status
from sim.dnp.driver import CoreDriver
from sim.harness import parameters, simulate
from tb.dnp.core_bits import (
    all_operands_of_every_instruction,
    counters_go_on_past_16_bits,
    jumps_and_branches_reach_all_of_the_program_memory,
    loop_counters_of_all_bits,
    places_past_the_end_stop_the_processor_with_the_address,
    repetitions_of_every_length,
    the_end_of_a_memory_is_found_by_all_bits,
)
from tb.dnp.core_hazards import (
    a_start_clears_registers_and_ports,
    registers_still_to_be_written_are_waited_for_and_no_others,
    words_still_to_be_written_are_waited_for_and_no_others,
    words_that_come_late_are_written_where_they_belong,
)
from tb.dnp.core_runs import CONFIG, FOR_MANY, LIMIT, Job, compare, ends, run_all, run_texts
from tb.dnp.figure4 import PROGRAMS
from tb.dnp.programs import random_program

#: cocotb finds them here.
__all__ = [
    "a_start_clears_registers_and_ports",
    "all_operands_of_every_instruction",
    "counters_go_on_past_16_bits",
    "jumps_and_branches_reach_all_of_the_program_memory",
    "loop_counters_of_all_bits",
    "places_past_the_end_stop_the_processor_with_the_address",
    "registers_still_to_be_written_are_waited_for_and_no_others",
    "repetitions_of_every_length",
    "the_end_of_a_memory_is_found_by_all_bits",
    "words_still_to_be_written_are_waited_for_and_no_others",
    "words_that_come_late_are_written_where_they_belong",
]

#: Shares of clocks in which the neighbours offer and accept.
PACES = (1.0, 0.5, 0.15)
#: Rows that leave a straight line.
_LEAVING = {"HALT", "JMP", "BN", "BP", "BZ", "BNZ", "LOOP"}


def core(programs: int = 12, words: int = 0, resets: int = 0, operands: int = 0, counters: int = COUNTER_BITS) -> Core:
    """Make the core for a bench of so many random programs, undefined words, resets and words of each instruction."""
    del programs, words, resets, operands
    return Core(CONFIG, counters=counters)


#: Programs that end in an error, by the code.
ERRORS = {
    StopCode.OPCODE: "REP MOV A XM[1]+\n.word 0xffff\nMOV A RF1\nHALT",
    StopCode.WM_RANGE: "LDI #524 WR1\nSET #1 ICR\nSET #9 RC\nREP MOV XM+ WM[1]+\nHALT",
    StopCode.XM_RANGE: "LDI #125 XA2\nSET #9 RC\nREP MADD WM XM[2]+ A\nHALT",
    StopCode.PC_RANGE: "JMP 1020\n.org 1020\nNOP\nNOP\nNOP\nNOP",
}


def seeds(pace: float, count: int) -> list[int]:
    """Return the seeds of the random programs of a pace."""
    rng = random.Random(f"{os.environ.get('COCOTB_RANDOM_SEED', '')} {pace}")
    return [rng.getrandbits(32) for _ in range(count)]


#: What is run again after resets: text, seed, pace.
REPEATED = (random_program(5), 5, 0.5)


def run_random() -> None:
    """Run all random programs in the golden machine."""
    many = parameters()["programs"]
    run_texts([REPEATED, *((random_program(seed), seed, pace) for pace in PACES for seed in seeds(pace, many))])


if FOR_MANY:
    run_random()


@cocotb.test()
@cocotb.parametrize(pace=list(PACES))
async def random_programs_agree_in_every_register_word_and_clock(dut: Any, pace: float) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    run_random()
    done = errors = 0
    for seed in seeds(pace, parameters()["programs"]):
        run = await compare(driver, random_program(seed), seed, pace)
        done += run.instructions
        errors += run.code != StopCode.NONE
    cocotb.log.info("%d instructions, %d programs stopped by an error", done, errors)


@cocotb.test()
@cocotb.parametrize(name=[cocotb.Param(name, name=name) for name in PROGRAMS], pace=[1.0, 0.3])
async def programs_of_figure_4(dut: Any, name: str, pace: float) -> None:
    program = PROGRAMS[name]
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    supply = {port: program.inputs.get(letter, []) for port, letter in enumerate("NESW")}
    run = await compare(driver, program.text, random.getrandbits(32), pace, supply)
    sent = {"NESW"[port]: words for port, words in run.received.items()}
    a, *xm = signed(np.array([run.state["state"][2], *run.state["xm"]])).tolist()
    if pace == 1.0:
        assert program.check(a, dict(enumerate(xm)), sent)
        assert run.clocks == program.clocks


@cocotb.test()
async def errors_stop_the_processor_with_a_code(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for code, text in ERRORS.items():
        assert (await compare(driver, text, 1, 1.0)).code == code


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing_behind(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for clocks in (37, 111, 160)[: parameters().get("resets", 3)]:
        await compare(driver, *REPEATED)
        await driver.reset_again()
        with contextlib.suppress(AssertionError):
            await driver.run(ends(random.Random(clocks), 0.5), clocks)
        await compare(driver, *REPEATED)


@cocotb.test()
async def control_registers_keep_and_step_with_all_their_bits(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    lines = []
    for control in Control:
        word = random.getrandbits(16)
        for value in (word, word ^ 0xFFFF):
            lines += [f"LDI #{value} {control.name}", f"MOV {control.name} A", "OUTA N"]
        lines += [f"LDI #{word} RF1", f"MOV RF1 {control.name}", f"MOV {control.name} A", "OUTA N"]
    for number in range(8):
        word = random.getrandbits(16)
        for value in (word, word ^ 0xFFFF):
            lines += [f"LDI #{value} RF{number}", f"MOV RF{number} LC1", "MOV LC1 A", "OUTA S"]
    for number in range(4):
        for memory, depth in (("W", CONFIG.wm_depth), ("X", CONFIG.xm_depth)):
            for place in (0, depth - 1, random.randrange(depth)):
                lines += [f"LDI #{random.getrandbits(16)} ICR"]
                lines += [f"LDI #{place} {memory}{way}{number}" for way in "AR"]
                if (memory, number) == ("W", TABLE_POINTER):
                    # What is moved there becomes the address of its entry, here of the last one.
                    lines[-2:-1] = [f"LDI #{(place - CONFIG.table_size + 1) & 0xFFFF} TB", "LDI #32767 WA3"]
                lines += [f"MOV {memory}M[{number}]+ RF2", f"MOV RF2 {memory}M[{number}]+"]
                for way in "AR":
                    lines += [f"MOV {memory}{way}{number} A", "OUTA N"]
    assert (await compare(driver, "\n".join([*lines, "HALT"]), 7, 1.0)).code == StopCode.NONE


@cocotb.test()
async def every_instruction_does_its_work_with_any_operands(dut: Any) -> None:
    """One word of a row at a time, every pointer and register at a place and with a value of its own."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    cases = [(row, word) for row in INSTRUCTIONS if row.name not in _LEAVING for word in samples(row)]
    wm, xm = ([random.getrandbits(16) for _ in range(depth)] for depth in (CONFIG.wm_depth, CONFIG.xm_depth))
    places = [random.sample(range(100), 16) for _ in cases]
    jobs = []
    for (row, word), used in zip(cases, places, strict=True):
        lines = [f"LDI #{place} {control.name}" for control, place in zip(Control, used, strict=False)]
        lines += [f"LDI #{random.getrandbits(16)} RF{number}" for number in range(8)]
        lines += ["SET #3 ICR", "SET #2 RC", f"SET #{random.randrange(4)} LC0", "MOV LC0 A", "MOV A IOPR"]
        lines += [f"LDI #{random.getrandbits(16)} A", f".word {word}"]
        lines += [f".word {random.getrandbits(16)}"] * (row.words - 1)
        words = {port: EdgePort([random.randrange(-32768, 32768) for _ in range(3)]) for port in range(4)}
        jobs.append(Job(assemble("\n".join([*lines, "HALT"])).program, wm, xm, words))
    await driver.write(Space.WM, 0, wm)
    await driver.write(Space.XM, 0, xm)
    for (row, word), used, run in zip(cases, places, run_all(jobs), strict=True):
        neighbours = run.job.ends()
        await driver.reset_again()
        await driver.write(Space.PROGRAM, 0, run.job.program)
        assert await driver.run(neighbours, LIMIT) == run.clocks, f"{row.name} {word:#06x}"
        await driver.stop()
        for name, first in (("general", Status.GENERAL), ("control", Status.CONTROL)):
            found = await driver.read(Space.STATUS, first.value, len(run.state[name]))
            assert found == run.state[name], f"{row.name} {word:#06x}: {name}"
        assert (await driver.read(Space.STATUS, Status.A.value, 1))[0] == run.state["state"][2]
        for name, space, before in (("wm", Space.WM, wm), ("xm", Space.XM, xm)):
            wanted = run.state[name]
            for place in (place + step for place in used for step in (0, 1, 3)):
                found = await driver.read(space, place, 1)
                assert found == [wanted[place]], f"{row.name} {word:#06x}: {name} {place}"
            for place in (place for place, kept in enumerate(before) if wanted[place] != kept):
                await driver.write(space, place, [before[place]])
        for port, end in neighbours.items():
            assert end.received == run.received[port], f"{row.name} {word:#06x}: port {port}"


def samples(row: Instruction) -> list[int]:
    """Words of a row with any operands."""
    defined = np.flatnonzero(traits()[:, Trait.ROW] == INSTRUCTIONS.index(row)).tolist()
    return random.sample(defined, min(parameters().get("operands", 2), len(defined)))


def near_words() -> list[int]:
    """Undefined words: one bit off a row's fixed bits, and every undefined value of every operand of every row."""
    words = {row.match ^ 1 << bit for row in INSTRUCTIONS for bit in range(16)}
    for row in INSTRUCTIONS:
        for operand in row.operands:
            if operand.letter:
                low, width = row.field(operand.letter)
                words |= {row.match | value << low for value in range(1 << width)}
    return sorted(word for word in words if traits()[word, Trait.ROW] == NONE)


@cocotb.test()
async def undefined_words_stop_the_processor(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    near, clocks = near_words(), None
    await driver.write(Space.PROGRAM, 0, assemble("NOP\nNOP\nHALT").program)
    for word in random.sample(near, min(parameters().get("words", len(near)), len(near))):
        await driver.write(Space.PROGRAM, 1, [word])
        taken = await driver.run({}, LIMIT)
        await driver.stop()
        clocks = clocks or taken
        assert taken == clocks, f"{word:#06x}"
        assert await driver.read(Space.STATUS, Status.STATE.value, 2) == [2 | StopCode.OPCODE << 8, 1], f"{word:#06x}"


@cocotb.test()
async def ways_out_of_the_program_stop_it_with_the_address(dut: Any) -> None:
    """Jumps to every power of two past the end; the program counter says that it is there, and keeps the low bits."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for target in [1 << bit for bit in range(10, 16)] + [0x5555, 0xAAAA, 0xFFFF]:
        run = await compare(driver, f".word 2 {target}\nHALT", 1, 1.0)
        assert (run.code, run.stop_pc) == (StopCode.PC_RANGE, target % CONFIG.p_depth + CONFIG.p_depth)


@cocotb.test()
async def a_word_passes_in_and_out_every_clock(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    run = await compare(driver, "SET #200 RC\nREP FWD N S\nREP INA E\nREP OUTA W\nHALT", 3, 1.0)
    assert run.state["blocked"] == [0]
    assert run.clocks == 3 * 200 + 7


@cocotb.test()
async def words_past_the_end_of_a_memory_are_not_written(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    depths = {Space.PROGRAM: CONFIG.p_depth, Space.WM: CONFIG.wm_depth, Space.XM: CONFIG.xm_depth}
    for space, depth in depths.items():
        words = [random.getrandbits(16) for _ in range(depth)]
        await driver.write(space, 0, words)
        for address in (depth, 2 * depth, *(1 << bit for bit in range(depth.bit_length(), 16)), 0xAAAA, 0x5555, 0xFFFF):
            await driver.write(space, address, [words[0] ^ 0xFFFF])
        assert await driver.read(space, 0, depth) == words


def test_core() -> None:
    simulate(core(), __name__, parameters={"programs": 12})


@pytest.mark.parametrize("counters", [-1, 33])
def test_counters_have_at_most_two_words(counters: int) -> None:
    with pytest.raises(ValueError, match=r"counters must be in 0\.\.32, not"):
        Core(counters=counters)
