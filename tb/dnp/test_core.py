# mypy: disable-error-code="attr-defined"
"""The core: every program of Fig. 4, random programs under random stalls, errors, resets; clock by clock."""

import contextlib
import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from golden.dnp.assembler import assemble
from golden.dnp.config import CoreConfig
from golden.dnp.decode import NONE, Trait, traits
from golden.dnp.isa import INSTRUCTIONS, Control, StopCode
from golden.dnp.machine import EdgePort, Machine
from hw.dnp.core import Core, Space, Status
from tb.dnp.driver import CoreDriver, expected, words16
from tb.dnp.figure4 import PROGRAMS
from tb.dnp.programs import random_program
from tb.harness import parameters, simulate

CONFIG = CoreConfig()
#: Words every port has to offer; more than any program takes.
SUPPLY = 1500
LIMIT = 20_000
#: Rows that leave a straight line.
_LEAVING = {"HALT", "JMP", "BN", "BP", "BZ", "BNZ", "LOOP"}


def core(programs: int = 12, words: int = 0, resets: int = 0) -> Core:
    """Make the core for a bench of so many random programs, undefined words and resets, which do not change it."""
    del programs, words, resets
    return Core(CONFIG)


#: Programs that end in an error, by the code.
ERRORS = {
    StopCode.OPCODE: "REP MOV A XM[1]+\n.word 0xffff\nMOV A RF1\nHALT",
    StopCode.WM_RANGE: "LDI #524 WR1\nSET #1 ICR\nSET #9 RC\nREP MOV XM+ WM[1]+\nHALT",
    StopCode.XM_RANGE: "LDI #125 XA2\nSET #9 RC\nREP MADD WM XM[2]+ A\nHALT",
    StopCode.PC_RANGE: "JMP 1020\n.org 1020\nNOP\nNOP\nNOP\nNOP",
}


def ends(rng: random.Random, pace: float) -> dict[int, EdgePort]:
    """Four neighbours that offer and accept in random clocks."""
    pattern = lambda: [rng.random() < pace for _ in range(61)] + [True]  # noqa: E731
    return {
        port: EdgePort([rng.randrange(-32768, 32768) for _ in range(SUPPLY)], pattern(), pattern()) for port in range(4)
    }


async def compare(
    driver: CoreDriver, text: str, seed: int, pace: float, supply: dict[int, list[int]] | None = None
) -> Machine:
    """Run a program in both worlds and compare all that can be seen."""
    image = assemble(text)
    rng = random.Random(seed)
    wm = [rng.choice([rng.randrange(-32768, 32768), -32768, 32767]) for _ in range(CONFIG.wm_depth)]
    xm = [rng.choice([rng.randrange(-32768, 32768), -32768, 32767]) for _ in range(CONFIG.xm_depth)]
    wm_image, xm_image = dict(enumerate(wm)) | image.wm, dict(enumerate(xm)) | image.xm
    await driver.reset_again()
    await driver.write(Space.PROGRAM, 0, image.program)
    await driver.write(Space.WM, 0, [wm_image[a] for a in range(CONFIG.wm_depth)])
    await driver.write(Space.XM, 0, [xm_image[a] for a in range(CONFIG.xm_depth)])

    machine = Machine(CONFIG)
    machine.load(0, image.program, wm_image, xm_image)
    machine.start()
    golden_ends, ends_of_dut = ends(random.Random(seed), pace), ends(random.Random(seed), pace)
    for port, end in golden_ends.items():
        machine.edges[(port, 0)] = end
        if supply is not None:
            end.words = ends_of_dut[port].words = supply[port]
    clocks = machine.run(LIMIT)
    machine.step()  # the bench sees the halt one clock later; ports go on meanwhile
    taken = await driver.run(ends_of_dut, LIMIT)
    await driver.stop()
    assert taken == clocks, f"{taken} clocks, golden {clocks}"
    found, wanted = await driver.state(), expected(machine)
    for name, values in wanted.items():
        different = [(i, f, w) for i, (f, w) in enumerate(zip(found[name], values, strict=True)) if f != w]
        assert not different, f"{name}: (index, found, expected) {different[:8]}"
    for port, end in golden_ends.items():
        other = ends_of_dut[port]
        assert other.received == end.received, f"port {port} sent other words"
        assert other.sent == end.sent, f"port {port} took {other.sent} words, golden {end.sent}"
    return machine


@cocotb.test()
@cocotb.parametrize(pace=[1.0, 0.5, 0.15])
async def random_programs_agree_in_every_register_word_and_clock(dut: Any, pace: float) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    done = errors = 0
    for _ in range(parameters()["programs"]):
        seed = random.getrandbits(32)
        machine = await compare(driver, random_program(seed), seed, pace)
        done += int(machine.state.instructions[0])
        errors += int(machine.state.code[0]) != 0
    cocotb.log.info("%d instructions, %d programs stopped by an error", done, errors)


@cocotb.test()
@cocotb.parametrize(name=list(PROGRAMS), pace=[1.0, 0.3])
async def programs_of_figure_4(dut: Any, name: str, pace: float) -> None:
    program = PROGRAMS[name]
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    supply = {p: program.inputs.get(letter, []) for p, letter in enumerate("NESW")}
    machine = await compare(driver, program.text, random.getrandbits(32), pace, supply)
    sent = {"NESW"[side]: end.received for (side, _), end in machine.edges.items()}
    xm = dict(enumerate(machine.state.xm[0].tolist()))
    if pace == 1.0:
        assert program.check(int(machine.state.a[0]), xm, sent)
        assert machine.state.clocks[0] == program.clocks


@cocotb.test()
async def errors_stop_the_processor_with_a_code(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for code, text in ERRORS.items():
        machine = await compare(driver, text, 1, 1.0)
        assert machine.state.code[0] == code


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing_behind(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    text = random_program(5)
    for clocks in (37, 111, 160)[: parameters().get("resets", 3)]:
        machine = await compare(driver, text, 5, 0.5)
        await driver.reset_again()
        with contextlib.suppress(AssertionError):
            await driver.run(ends(random.Random(clocks), 0.5), clocks)
        assert (await compare(driver, text, 5, 0.5)).state.clocks[0] == machine.state.clocks[0]


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
                lines += [f"MOV {memory}M[{number}]+ RF2", f"MOV RF2 {memory}M[{number}]+"]
                for way in "AR":
                    lines += [f"MOV {memory}{way}{number} A", "OUTA N"]
    await compare(driver, "\n".join([*lines, "HALT"]), 7, 1.0)


@cocotb.test()
async def every_instruction_does_its_work_with_any_operands(dut: Any) -> None:
    """One word of a row at a time, every pointer and register at a place and with a value of its own."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    machine = Machine(CONFIG)
    machine.state.wm[:] = [random.randrange(-32768, 32768) for _ in range(CONFIG.wm_depth)]
    machine.state.xm[:] = [random.randrange(-32768, 32768) for _ in range(CONFIG.xm_depth)]
    await driver.write(Space.WM, 0, words16(machine.state.wm[0]))
    await driver.write(Space.XM, 0, words16(machine.state.xm[0]))
    for row in (row for row in INSTRUCTIONS if row.name not in _LEAVING):
        defined = np.flatnonzero(traits()[:, Trait.ROW] == INSTRUCTIONS.index(row)).tolist()
        for word in random.sample(defined, min(parameters().get("operands", 2), len(defined))):
            places = random.sample(range(100), 16)
            lines = [f"LDI #{place} {control.name}" for control, place in zip(Control, places, strict=False)]
            lines += [f"LDI #{random.getrandbits(16)} RF{number}" for number in range(8)]
            lines += ["SET #3 ICR", "SET #2 RC", f"SET #{random.randrange(4)} LC0", "MOV LC0 A", "MOV A IOPR"]
            lines += [f"LDI #{random.getrandbits(16)} A", f".word {word}"]
            lines += [f".word {random.getrandbits(16)}"] * (row.words - 1)
            program = assemble("\n".join([*lines, "HALT"])).program
            words = {port: [random.randrange(-32768, 32768) for _ in range(3)] for port in range(4)}
            machine.load(0, program)
            for port in range(4):
                machine.edges[(port, 0)] = EdgePort(list(words[port]))
            machine.start()
            clocks = machine.run(LIMIT)
            machine.step()
            ends_of_dut = {port: EdgePort(list(words[port])) for port in range(4)}
            await driver.reset_again()
            await driver.write(Space.PROGRAM, 0, program)
            assert await driver.run(ends_of_dut, LIMIT) == clocks, f"{row.name} {word:#06x}"
            await driver.stop()
            wanted = expected(machine)
            for name, first in (("general", Status.GENERAL), ("control", Status.CONTROL)):
                found = await driver.read(Space.STATUS, first.value, len(wanted[name]))
                assert found == wanted[name], f"{row.name} {word:#06x}: {name}"
            assert (await driver.read(Space.STATUS, Status.A.value, 1))[0] == wanted["state"][2]
            for name, space in (("wm", Space.WM), ("xm", Space.XM)):
                for place in (place + step for place in places for step in (0, 1, 3)):
                    found = await driver.read(space, place, 1)
                    assert found == [wanted[name][place]], f"{row.name} {word:#06x}: {name} {place}"
            for port, end in ends_of_dut.items():
                assert end.received == machine.edges[(port, 0)].received, f"{row.name} {word:#06x}: port {port}"


@cocotb.test()
async def words_still_to_be_written_are_waited_for_and_no_others(dut: Any) -> None:
    """Read one to three instructions after a write, at its address and at each that differs in one bit."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for memory, depth in (("W", CONFIG.wm_depth), ("X", CONFIG.xm_depth)):
        lines = []
        for distance in range(3):
            for bit in range((depth - 1).bit_length() + 1):
                place = random.randrange(depth)
                other = place ^ (1 << bit) & (1 << (depth - 1).bit_length()) - 1
                if other < depth:
                    lines += [f"LDI #{other} {memory}A1", f"LDI #{place} {memory}R2", f"MOV RF1 {memory}M[2]"]
                    lines += ["ADD RF1 A"] * distance + [f"MOV {memory}M[1] RF1", "ADD RF1 A"]
        await compare(driver, "\n".join(["LDI #12345 RF1", *lines, "HALT"]), 8, 1.0)


@cocotb.test()
async def undefined_words_and_ways_out_of_the_program_stop_it_with_the_address(dut: Any) -> None:
    """Words that differ in a bit from defined ones, and jumps to every power of two past the end."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    near = {row.match ^ 1 << bit for row in INSTRUCTIONS for bit in range(16)}
    undefined = sorted(word for word in near if traits()[word, Trait.ROW] == NONE)
    texts = [
        f"NOP\n.word {word}" for word in random.sample(undefined, min(parameters().get("words", 200), len(undefined)))
    ]
    targets = [1 << bit for bit in range(10, 16)] + [0x5555, 0xAAAA, 0xFFFF]
    texts += [f".word 2 {target}" for target in targets]
    machine = Machine(CONFIG)
    for text in texts:
        program = [*assemble(text).program, *assemble("HALT").program]
        machine.load(0, program)
        machine.start()
        clocks = machine.run(LIMIT)
        await driver.reset_again()
        await driver.write(Space.PROGRAM, 0, program)
        assert await driver.run({}, LIMIT) == clocks, text
        await driver.stop()
        found = await driver.read(Space.STATUS, Status.STATE.value, 2)
        assert found == [1 << 1 | int(machine.state.code[0]) << 8, int(machine.state.stop_pc[0])], text
        assert machine.state.code[0] != StopCode.NONE


@cocotb.test()
async def counters_go_on_past_16_bits(dut: Any) -> None:
    """65,535 passes, then as long a wait for a word."""
    text = "LDI #{} RC\nREP ADD RF0 A\nINA W\nHALT"
    passes, wait = 0xFFFF, 2 * 0x10000
    machine = Machine(CONFIG)
    machine.load(0, assemble(text.format(1)).program)
    machine.edges[(3, 0)] = EdgePort([0])
    machine.start()
    machine.run()
    rest = int(machine.state.clocks[0]) - 1  # clocks of everything but the passes
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    await driver.write(Space.PROGRAM, 0, assemble(text.format(passes)).program)
    dut.start.value = 1
    await driver.edge
    dut.start.value = 0
    dut.online.value = 1
    await ClockCycles(dut.clk, wait)
    dut.i__3__valid.value = 1
    await driver.edge
    dut.i__3__valid.value = 0
    await ClockCycles(dut.clk, 10)
    assert dut.halted.value
    await driver.stop()
    found = []
    for status in (Status.CLOCKS, Status.INSTRUCTIONS, Status.BLOCKED):
        low, high = await driver.read(Space.STATUS, status.value, 2)
        found.append(low + (high << 16))
    # INA in the clock in which the word comes, HALT in the next one.
    assert found == [wait + 2, passes + 2, wait + 2 - passes - rest]


@cocotb.test()
async def a_word_passes_in_and_out_every_clock(dut: Any) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    machine = await compare(driver, "SET #200 RC\nREP FWD N S\nREP INA E\nREP OUTA W\nHALT", 3, 1.0)
    assert machine.state.blocked[0] == 0
    assert machine.state.clocks[0] == 3 * 200 + 7


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
