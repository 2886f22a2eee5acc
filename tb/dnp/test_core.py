"""The core: every program of Fig. 4, random programs under random stalls, errors, resets; clock by clock."""

import contextlib
import random
from typing import Any

import cocotb

from golden.dnp.assembler import assemble
from golden.dnp.config import CoreConfig
from golden.dnp.isa import StopCode
from golden.dnp.machine import EdgePort, Machine
from hw.dnp.core import Core, Space
from tb.dnp.driver import CoreDriver, expected
from tb.dnp.figure4 import PROGRAMS
from tb.dnp.programs import random_program
from tb.harness import parameters, simulate

CONFIG = CoreConfig()
#: Words every port has to offer; more than any program takes.
SUPPLY = 1500
LIMIT = 20_000


def core(programs: int = 12) -> Core:
    """Make the core for a bench of so many random programs, which do not change it."""
    del programs
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
@cocotb.parametrize(pace=[1.0, 0.3])
async def programs_of_figure_4(dut: Any, pace: float) -> None:
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for name, program in PROGRAMS.items():
        supply = {p: program.inputs.get(letter, []) for p, letter in enumerate("NESW")}
        machine = await compare(driver, program.text, random.getrandbits(32), pace, supply)
        sent = {"NESW"[side]: end.received for (side, _), end in machine.edges.items()}
        xm = dict(enumerate(machine.state.xm[0].tolist()))
        if pace == 1.0:
            assert program.check(int(machine.state.a[0]), xm, sent), name
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
    for clocks in (37, 111, 160):
        machine = await compare(driver, text, 5, 0.5)
        await driver.reset_again()
        with contextlib.suppress(AssertionError):
            await driver.run(ends(random.Random(clocks), 0.5), clocks)
        assert (await compare(driver, text, 5, 0.5)).state.clocks[0] == machine.state.clocks[0]


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
