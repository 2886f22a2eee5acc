# mypy: disable-error-code="attr-defined"
"""Every bit of the core: of operands, pointers, limits, strides, lengths, loop counters, and program addresses.

Part of the bench `tb.dnp.test_core`.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from contracts.dnp.isa import GENERAL, PORTS, Control, StopCode
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import assemble
from hw.dnp.core import COUNTER_BITS, Space, Status
from sim.dnp.driver import READ_CLOCKS, CoreDriver
from sim.harness import parameters
from tb.dnp.core_runs import CONFIG, FOR_MANY, LIMIT, Job, Run, check, compare, run_all
from tb.dnp.dense import dense_programs, instruction

__all__ = [
    "all_operands_of_every_instruction",
    "counters_go_on_past_16_bits",
    "jumps_and_branches_reach_all_of_the_program_memory",
    "loop_counters_of_all_bits",
    "places_past_the_end_stop_the_processor_with_the_address",
    "repetitions_of_every_length",
    "the_end_of_a_memory_is_found_by_all_bits",
]

_WORD = 0xFFFF
_STATUS_WORDS = 64
#: Shares of clocks in which neighbours offer and accept, program by program.
_PACES = (1.0, 0.7, 0.4)
#: Words of a landing place of jumps, and landing places that are used.
_LANDING, _LANDINGS = 8, 60


def _job(program: list[int], seed: int, pace: float) -> Job:
    rng = random.Random(seed)
    word = lambda: rng.randrange(-32768, 32768)  # noqa: E731
    wm, xm = [word() for _ in range(CONFIG.wm_depth)], [word() for _ in range(CONFIG.xm_depth)]
    neighbours = {}
    for port in range(len(PORTS)):
        pattern = [rng.random() < pace for _ in range(61)] + [True]
        neighbours[port] = EdgePort([word() for _ in range(LIMIT // 10)], pattern, pattern)
    return Job(program, wm, xm, neighbours)


@cache
def _dense_runs() -> list[Run]:
    programs = dense_programs(1, CONFIG)
    runs = run_all([_job(program, n, _PACES[n % len(_PACES)]) for n, program in enumerate(programs)])
    assert all(run.code == StopCode.NONE for run in runs)
    return runs


if FOR_MANY:
    _dense_runs()


@cocotb.test()
async def all_operands_of_every_instruction(dut: Any) -> None:
    """Programs that hold every value of every operand; registers, memories, words sent, and clocks."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    for run in _dense_runs():
        await driver.reset_again()
        await driver.write(Space.PROGRAM, 0, run.job.program)
        await driver.write(Space.WM, 0, run.job.wm)
        await driver.write(Space.XM, 0, run.job.xm)
        await check(driver, run)
    # Nothing is found where no register is.
    found_all = await driver.read(Space.STATUS, 0, _STATUS_WORDS)
    known = {0, 1, 2, *range(Status.CLOCKS.value, Status.BLOCKED.value + 2)}
    known |= {Status.GENERAL.value + number for number in range(GENERAL)}
    known |= {Status.CONTROL.value + int(control) for control in Control}
    assert not any(word for address, word in enumerate(found_all) if address not in known)


def _past_the_end(rng: random.Random) -> Iterator[tuple[str, StopCode, str, int]]:
    """Give a shape's name, a stop code, a program whose second last word stops it, and that word's address."""
    for memory, depth, code in (("W", CONFIG.wm_depth, StopCode.WM_RANGE), ("X", CONFIG.xm_depth, StopCode.XM_RANGE)):
        places = [depth, *(1 << bit for bit in range((depth - 1).bit_length(), 16)), rng.randrange(depth, 1 << 16)]
        for way, number in ((way, number) for way in "AR" for number in range(4)):
            operand = f"{memory}M[{number}]"
            use = f"MOV {operand} RF1" if way == "A" else f"MOV RF1 {operand}"
            step = f"MOV {operand}+ RF1" if way == "A" else f"MOV RF1 {operand}+"
            for place in places:

                def load(value: int, name: str = f"{memory}{way}{number}") -> list[str]:
                    if name != "WA3":
                        return [f"LDI #{value} {name}"]
                    index = rng.getrandbits(16)
                    entry = (index ^ 0x8000) >> (16 - CONFIG.table_bits)
                    return [f"LDI #{(value - entry) & _WORD} TB", f"LDI #{index} WA3"]

                shapes = {"at once": load(place), "later": [*load(place), "NOP", "NOP"]}
                if memory == "W" or place == depth:
                    stride = place if memory == "W" else 1
                    stepped = [f"LDI #{stride} ICR", *load(place - stride), step]
                    shapes |= {"stepped": stepped, "stepped, later": [*stepped, "NOP", "NOP"]}
                for shape, lines in shapes.items():
                    text = "\n".join([*lines, use, "HALT"])
                    yield f"{memory}{way}{number} {shape}", code, text, place


@cocotb.test()
async def places_past_the_end_stop_the_processor_with_the_address(dut: Any) -> None:
    """Every pointer, each bit above its memory, loaded or stepped there, used at once or later."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    clocks: dict[str, int] = {}
    machine = ArrayModel(CONFIG)
    for shape, code, text, place in _past_the_end(random.Random(random.getrandbits(32))):
        program = assemble(text).program
        if shape not in clocks:
            machine.load(0, program)
            machine.start()
            clocks[shape] = machine.run(LIMIT)
            assert machine.state.code[0] == code
        await driver.write(Space.PROGRAM, 0, program)
        assert await driver.run({}, LIMIT) == clocks[shape], f"{shape} {place:#x}"
        await driver.stop()
        found = await driver.read(Space.STATUS, Status.STATE.value, 2)
        assert found == [1 << 1 | code << 8, len(program) - 2], f"{shape} {place:#x}"


def _near(depth: int) -> set[int]:
    """Addresses that a comparison with `depth` may get wrong: one bit changed, and four ways what is below it."""
    found = set()
    for bit in range(16):
        below = (1 << bit) - 1
        changed = (depth ^ 1 << bit) & ~below
        found |= {changed | low for low in (0, below, depth & below, ~depth & below)}
    return found


@cocotb.test()
async def the_end_of_a_memory_is_found_by_all_bits(dut: Any) -> None:
    """Read and write at addresses around the end, which differ from it in each bit."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    ways = [(memory, depth, way) for memory, depth in (("W", CONFIG.wm_depth), ("X", CONFIG.xm_depth)) for way in "AR"]
    texts = {}
    for memory, depth, way in ways:
        use = f"ADD {memory}M A" if way == "A" else f"MOV RF1 {memory}M"
        for place in _near(depth):
            texts[f"{memory}{way} {place:#x}"] = f"LDI #{place} {memory}{way}0\n{use}\nHALT"
    jobs = [Job(assemble(text).program, [0] * CONFIG.wm_depth, [0] * CONFIG.xm_depth, {}) for text in texts.values()]
    codes = set()
    for name, run in zip(texts, run_all(jobs), strict=True):
        await driver.write(Space.PROGRAM, 0, run.job.program)
        assert await driver.run({}, LIMIT) == run.clocks, name
        await driver.stop()
        (found,) = await driver.read(Space.STATUS, Status.STATE.value, 1)
        assert found >> 1 == run.state["state"][0], name
        codes.add(run.code)
    assert codes == {StopCode.NONE, StopCode.WM_RANGE, StopCode.XM_RANGE}


@cocotb.test()
async def loop_counters_of_all_bits(dut: Any) -> None:
    """LOOP counts down from each power of two and from one more, and branches unless it reaches 0."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    lines: list[str] = []
    for number in range(2):
        for count in (1, *(1 << bit for bit in range(16)), *(1 + (1 << bit) & _WORD for bit in range(16)), 0):
            label = f"l{len(lines)}"
            lines += [f"LDI #{count} LC{number}", f"LOOP LC{number} {label}", "ADD RF1 A", f"{label}:"]
            lines += [f"MOV LC{number} RF2", "OUT RF2 N"]
    await compare(driver, "\n".join(["LDI #1 RF1", *lines, "OUTA S", "HALT"]), 9, 1.0)


def _landings(rng: random.Random) -> list[int]:
    """Words of a program that jumps and branches to and fro through all of the program memory."""
    memory = [_WORD] * CONFIG.p_depth
    free = list(range(_LANDING, CONFIG.p_depth - _LANDING, _LANDING))
    here, flags = 0, [0, 1, -1, -32768, 32767, *(1 << bit for bit in range(15))]
    for turn in range(_LANDINGS):
        value = rng.choice(flags)
        conditions = {"BN": value < 0, "BP": value >= 0, "BZ": value == 0, "BNZ": value != 0}
        no = rng.choice([name for name, holds in conditions.items() if not holds])
        yes = rng.choice([name for name, holds in conditions.items() if holds])
        memory[here : here + 3] = [instruction("LDI", t=8), value & _WORD, instruction(no, o=rng.getrandbits(8))]
        at = here + 3
        reach = {"near": range(at - 128, at + 128), "loop": range(at - 256 + 2, at + 256)}
        kind = rng.choice(["near", "near", "loop", "far"])
        candidates = [place for place in free if kind == "far" or place in reach[kind]]
        if not candidates:
            kind, candidates = "far", free
        there = rng.choice(candidates)
        free.remove(there)
        if kind == "near":
            memory[at] = instruction(yes, o=(there - at) & 0xFF)
        elif kind == "loop":
            memory[at : at + 2] = [instruction("LDI", t=32 + Control.LC0 + turn % 2), rng.randrange(2, 1 << 16)]
            memory[at + 2] = instruction("LOOP", l=turn % 2, o=(there - at - 2) & 0x1FF)
        else:
            memory[at : at + 2] = [instruction("JMP"), there]
        here = there
    memory[here] = instruction("HALT")
    return memory


@cocotb.test()
async def jumps_and_branches_reach_all_of_the_program_memory(dut: Any) -> None:
    """Chains of jumps and branches; then branches out of the memory at either end, which name the address."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    rng = random.Random(random.getrandbits(32))
    top = CONFIG.p_depth - 1
    out = {place + offset: (place, offset) for place, offset in ((3, -4), (3, -128), (top, 1), (top, 127), (top, 64))}
    programs = [_landings(rng) for _ in range(2)]
    for place, offset in out.values():
        programs.append([instruction("JMP"), place] + [_WORD] * (top - 1))
        programs[-1][place] = instruction("BZ", o=offset & 0xFF)
    for run in run_all([Job(program, [0] * CONFIG.wm_depth, [0] * CONFIG.xm_depth, {}) for program in programs]):
        await driver.write(Space.PROGRAM, 0, run.job.program)
        assert await driver.run({}, LIMIT) == run.clocks
        await driver.stop()
        found = await driver.read(Space.STATUS, Status.STATE.value, 3)
        assert [found[0] >> 1, *found[1:]] == run.state["state"]
        assert await driver.read(Space.STATUS, Status.CONTROL.value, len(Control)) == run.state["control"]


async def _started(driver: CoreDriver, text: str, clocks: int) -> None:
    """Let a program without ports run for so many clocks."""
    dut = driver.dut
    await driver.write(Space.PROGRAM, 0, assemble(text).program)
    dut.start.value = 1
    await driver.edge
    dut.start.value = 0
    dut.online.value = 1
    await ClockCycles(dut.clk, clocks)


@cocotb.test()
async def repetitions_of_every_length(dut: Any) -> None:
    """Short ones to their ends; of each power of two, all others are seen to go on after that."""
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    text = "LDI #{} RC\nLDI #1 RF1\nREP ADD RF1 A\nHALT"
    enough = 40
    for length in range(9):
        await _started(driver, text.format(length), enough)
        assert dut.halted.value
        await driver.stop()
        head = await driver.read(Space.STATUS, Status.A.value, 5)
        found = [head[0], head[Status.INSTRUCTIONS.value - Status.A.value]]
        assert found == [length, length + 2], f"RC = {length}"
    summed = None
    for length in [enough + 1, *(1 << bit for bit in range(6, 16)), *(1 + (1 << bit) for bit in range(6, 16))]:
        await _started(driver, text.format(length), enough)
        assert not dut.halted.value, f"RC = {length}"
        await driver.stop()
        found = await driver.read(Space.STATUS, Status.A.value, 1)
        summed = summed or found
        assert found == summed, f"RC = {length}"


@cocotb.test()
async def counters_go_on_past_16_bits(dut: Any) -> None:
    """65,535 passes, then a longer wait for a word."""
    text = "LDI #{} RC\nREP ADD RF0 A\nINA W\nHALT"
    passes, wait = 0xFFFF, 2 * 0x10000 + 64
    machine = ArrayModel(CONFIG)
    machine.load(0, assemble(text.format(1)).program)
    machine.edges[(3, 0)] = EdgePort([0])
    machine.start()
    machine.run()
    rest = int(machine.state.clocks[0]) - 1  # clocks of everything but the passes
    driver = CoreDriver(dut, CONFIG)
    await driver.reset()
    # Where the counters have nearly all bits set they are seen to count, too.
    ones = passes + rest + 0xFFC0
    await _started(driver, text.format(passes), ones)
    pauses = (0, 0, 1, 0, 1, 0)
    for status in (Status.CLOCKS, Status.BLOCKED):
        seen = []
        for pause in pauses:
            for _ in range(pause):
                await driver.edge
            seen += await driver.read(Space.STATUS, status.value, 1)
            ones += READ_CLOCKS + pause
        assert [b - a for a, b in pairwise(seen)] == [READ_CLOCKS + pause for pause in pauses[1:]]
    await ClockCycles(dut.clk, wait - ones)
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
    wanted = [wait + 2, passes + 2, wait + 2 - passes - rest]
    assert found == [count & (1 << parameters().get("counters", COUNTER_BITS)) - 1 for count in wanted]
