"""Neural unit: rows through a chip as the golden step says, other programs, everything that stops it, then again."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts import COMMANDS, LINE_BYTES, Error, Opcode
from contracts.dnp.config import HIGHEST, LOWEST, ProcessorConfig
from contracts.dnp.gbus import Space, read, write
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import CHIP, PROGRAM_WORDS
from golden.dnp.arithmetic import Ints, saturate
from golden.dnp.assembler import assemble
from golden.dnp.layer_end import LayerEnd
from golden.image_format import row_bytes
from hw.dnp.neural_unit import NeuralConfig
from sim.harness import parameters
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.dnp.unit_bench import NeuralUnitBench
from tb.harness.marks import full

#: Small memories, with room for the head of `tb.dnp.test_head`, and a queue that is shorter than the longest rows.
CORE = ProcessorConfig(wm_depth=96, xm_depth=20, p_depth=512, table_bits=5)
CONFIG = NeuralConfig(CORE, queue=8, depth=16, patience=600)
#: Bytes of the memory, all that can be addressed.
MEMORY = 1 << 20
#: Lines from that from which a command's addresses count.
PROGRAM, ROWS, RESULTS = 16, 1024, 3072


class Unit:
    """The unit with its memory, whose contents are known."""

    def __init__(self, bench: Bench, memory: Memory) -> None:
        self.bench, self.memory, self.random = bench, memory, Random(bench.random.getrandbits(32))
        self.contents = np.frombuffer(self.random.randbytes(MEMORY), np.uint8).copy()
        self.answers: list[dict[str, int]] = []
        bench.take("executed", self.answers.append)
        self.base = self.random.randrange(MEMORY // LINE_BYTES - 4096)
        bench.dut.base.value = self.base

    def put(self, line: int, data: bytes) -> None:
        """Change the known contents."""
        at = (self.base + line) * LINE_BYTES
        self.contents[at : at + len(data)] = np.frombuffer(data, np.uint8)

    def words(self, rows: int, features: int) -> Ints:
        """Random rows."""
        return np.random.default_rng(self.random.getrandbits(32)).integers(LOWEST, HIGHEST + 1, (rows, features))

    def put_rows(self, line: int, rows: Ints) -> None:
        """Write rows; what is between them stays as it is."""
        for number, row in enumerate(rows):
            at = (self.base + line) * LINE_BYTES + number * row_bytes(rows.shape[1])
            self.contents[at : at + 2 * row.size] = np.frombuffer(row.astype("<i2").tobytes(), np.uint8)

    async def run(self, *, limit: int = 60_000, **fields: int) -> tuple[tuple[Error, int], int]:
        """Load the memory, carry out a command; its answer and its cycles."""
        await self.memory.load(self.contents.tobytes())
        given = {"program": PROGRAM, "rows": ROWS, "results": RESULTS, **fields}
        command = COMMANDS[Opcode.NEURAL].pack({"opcode": Opcode.NEURAL, **given})
        began, before = self.bench.cycle, len(self.answers)
        self.bench.drive("command", [command])
        for _ in range(limit // 4):
            await self.bench.cycles(4)
            if len(self.answers) > before:
                break
        else:
            raise AssertionError(f"no answer after {limit} cycles")
        answer = self.answers[-1]
        return (Error(answer["code"]), answer["info"]), self.bench.cycle - began

    async def ends(self, end: LayerEnd, rows: Ints, *, results: int = RESULTS) -> int:
        """End rows and compare all of the memory; cycles."""
        program = end.words(len(rows))
        self.put(PROGRAM, program.tobytes())
        self.put_rows(ROWS, rows)
        features = rows.shape[1]
        answer, cycles = await self.run(
            words=program.size, vertices=len(rows), f_in=features, f_out=features, results=results
        )
        assert answer == (Error.NONE, 0)
        self.expect_rows(results, end(rows))
        await self.compare()
        return cycles

    def expect_rows(self, line: int, rows: Ints) -> None:
        """Change the known contents as a command does: whole beats, 0 behind the last word."""
        beat = self.memory.beat_bytes
        padding = -rows.shape[1] % (beat // 2)
        whole = np.pad(rows, ((0, 0), (0, padding)))
        for number, row in enumerate(whole):
            at = (self.base + line) * LINE_BYTES + number * row_bytes(rows.shape[1])
            self.contents[at : at + 2 * row.size] = np.frombuffer(row.astype("<i2").tobytes(), np.uint8)

    async def compare(self) -> None:
        """All of the memory is as it should be."""
        found = np.frombuffer(await self.memory.dump(0, MEMORY), np.uint8)
        wrong = np.flatnonzero(found != self.contents)
        assert not wrong.size, f"{wrong.size} bytes differ, first at {wrong[0]:#x}"


async def begin(dut: Any, stall: float = 0.0) -> Unit:
    """Start with a memory of random bytes."""
    component = NeuralUnitBench(CONFIG, data_width=parameters()["data_width"])
    memory = Memory(dut, parameters()["data_width"] // 8, Path(parameters()["directory"]))
    memory.latency(20)
    memory.seed(cocotb.RANDOM_SEED)
    memory.stall(stall)
    memory.out_of_order(stall > 0)
    return Unit(await start(dut, component, stall=stall), memory)


def random_end(unit: Unit, features: int) -> LayerEnd:
    """Return random biases and a random table."""
    return LayerEnd(unit.words(1, features)[0], unit.words(1, CORE.table_size)[0], CORE)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def rows_end_as_the_step_says(dut: Any, stall: float) -> None:
    """Rows shorter and longer than a beat, a granule and a queue; fewer and more than processors; in place too."""
    unit = await begin(dut, stall)
    total = 0
    for rows, features in ((0, 3), (1, 1), (3, 4), (4, 5), (5, 16), (9, 17), (6, 33), (13, 7)):
        total += await unit.ends(random_end(unit, features), unit.words(rows, features))
    total += await unit.ends(random_end(unit, 18), unit.words(10, 18), results=ROWS)
    if not stall:
        expect_cycles(f"dnp.neural_unit {parameters()['data_width']}", total)


@cocotb.test()
async def a_value_takes_the_clocks_of_its_processor(dut: Any) -> None:
    """All four work at once: with rows that fit a queue, the chip sets the pace, not the memory."""
    unit = await begin(dut)
    cycles = [await unit.ends(random_end(unit, 16), unit.words(rows, 16)) for rows in (40, 120)]
    assert (cycles[1] - cycles[0]) / (80 * 16 / CHIP.processors) < 6.2


def program_of(texts: list[str]) -> Ints:
    """Frames that load a program into each processor."""
    frames: list[int] = []
    for processor, text in enumerate(texts):
        frames += write((0, processor), Space.PROGRAM, 0, assemble(text, config=CORE).program)
    return np.array([*frames, *[0] * (len(frames) % 2)], dtype="<u2").view("<u4")


def sums(processor: int, rows: int, f_in: int, times: int) -> str:
    """Program that gives the saturating sum of each row, so many times."""
    arrive, leave = (("W", "N"), ("E", "N"), ("W", "S"), ("E", "S"))[processor]
    if not rows:
        return "HALT"
    return f"""
        LDI #{rows} LC1
        row: LDI #0 A
        LDI #{f_in} LC0
        value: INS {arrive}
        LOOP LC0 value
        LDI #{times} LC0
        give: OUTA {leave}
        LOOP LC0 give
        LOOP LC1 row
        HALT
    """


async def sum_up(unit: Unit, rows: Ints, f_out: int) -> None:
    """Let each row's sum come out so many times."""
    count, f_in = rows.shape
    program = program_of([sums(n, len(range(n, count, CHIP.processors)), f_in, f_out) for n in range(CHIP.processors)])
    unit.put(PROGRAM, program.tobytes())
    unit.put_rows(ROWS, rows)
    answer, _ = await unit.run(words=program.size, vertices=count, f_in=f_in, f_out=f_out)
    assert answer == (Error.NONE, 0)
    total = np.zeros(count, dtype=np.int64)
    for column in rows.T:
        total = saturate(total + column)
    unit.expect_rows(RESULTS, np.repeat(total[:, None], f_out, axis=1))
    await unit.compare()


@cocotb.test()
@cocotb.parametrize(f_in=[1, 6, 19], f_out=[1, 5])
async def rows_may_leave_with_another_length(dut: Any, f_in: int, f_out: int) -> None:
    unit = await begin(dut, 0.2)
    await sum_up(unit, unit.words(7, f_in), f_out)


@cocotb.test()
async def operands_out_of_range_are_refused(dut: Any) -> None:
    """Nothing is read or written, and the next command is right."""
    unit = await begin(dut)
    good = {"words": 4, "vertices": 2, "f_in": 3, "f_out": 3}
    beyond = (MEMORY // LINE_BYTES) - unit.base
    for wrong in (
        {"words": 0}, {"words": PROGRAM_WORDS + 1}, {"f_in": 0}, {"f_out": 0}, {"program": beyond}, {"rows": beyond},
        {"results": beyond}, {"results": (1 << 32) - 1},
    ):  # fmt: skip
        before = unit.memory.counters()
        answer, _ = await unit.run(**{**good, **wrong})
        assert answer == (Error.BAD_OPERAND, next(iter(wrong.values())))
        after = unit.memory.counters()
        assert before["bytes_read"] == after["bytes_read"]
        assert before["bytes_written"] == after["bytes_written"]
    await unit.ends(random_end(unit, 3), unit.words(5, 3))


async def fails(unit: Unit, program: Ints, error: tuple[Error, int], **fields: int) -> int:
    """Run a program that ends with an error; the rest of the memory stays, and the next command is right; cycles."""
    unit.put(PROGRAM, program.tobytes())
    given = {"words": program.size, "vertices": 6, "f_in": 4, "f_out": 4, **fields}
    answer, cycles = await unit.run(**given)
    assert answer == error
    unit.memory.read_errors(None)
    unit.memory.write_errors(None)
    # Rows that were ended before are written.
    at, size = (unit.base + RESULTS) * LINE_BYTES, 6 * row_bytes(given["f_out"])
    unit.contents[at : at + size] = np.frombuffer(await unit.memory.dump(at, size), np.uint8)
    await unit.compare()
    await unit.ends(random_end(unit, 5), unit.words(9, 5))
    return cycles


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.3])
async def programs_that_stop_are_told(dut: Any, stall: float) -> None:
    """By an error of their own, by ending, by standing still; of several the first processor counts."""
    unit = await begin(dut, stall)
    copies, total = [sums(n, 2, 4, 4) for n in range(4)], 0
    for processor in range(4):
        stopped = "MOV WM[0] A\nLDI #96 WA0\nMOV WM[0] A\nHALT"
        for text, code in ((stopped, StopCode.WM_RANGE), ("HALT", 0), ("wait: JMP wait", 0)):
            texts = [*copies[:processor], text, *copies[processor + 1 :]]
            total += await fails(unit, program_of(texts), (Error.NEURAL, processor | code << 8))
    # Some of a row's words, or of the rows.
    for text in (sums(1, 1, 4, 3), sums(1, 1, 4, 4)):
        total += await fails(unit, program_of([copies[0], text, *copies[2:]]), (Error.NEURAL, 1))
    if not stall:
        # How long a program may stand still is exact.
        expect_cycles(f"dnp.neural_unit stops {parameters()['data_width']}", total)


@cocotb.test()
async def every_bit_of_the_number_of_rows_counts(dut: Any) -> None:
    """Programs that end at once leave all rows undone, however many there are."""
    unit = await begin(dut)
    program = program_of(["HALT"] * 4)
    unit.put(PROGRAM, program.tobytes())
    await unit.memory.load(unit.contents.tobytes())
    for bit in range(32):
        answer, _ = await unit.run(words=program.size, vertices=1 << bit, f_in=1, f_out=1)
        assert answer == (Error.NEURAL, 0)
    await unit.compare()


@cocotb.test()
async def rows_may_be_long(dut: Any) -> None:
    """Rows of thousands of elements, in and out."""
    unit = await begin(dut)
    await sum_up(unit, unit.words(5, 2561), 1541)


@cocotb.test()
async def a_frame_has_to_be_whole(dut: Any) -> None:
    """Where the list ends within a frame, the chip takes no start."""
    unit = await begin(dut)
    whole = np.array(write(None, Space.WM, 0, [1, 2, 3, 4, 5]), dtype="<u2").view("<u4")
    for words in range(1, whole.size):
        await fails(unit, whole[:words], (Error.BAD_OPERAND, words))
    # Words that are asked for are nobody's, and the start waits until they are gone.
    asked = np.array([0, *read((0, 1), Space.WM, 0, 9)], dtype="<u2").view("<u4")
    end, rows = random_end(unit, 2), unit.words(3, 2)
    for order in (1, -1):
        program = np.concatenate([asked, end.words(3)][::order])
        unit.put(PROGRAM, program.tobytes())
        unit.put_rows(ROWS, rows)
        answer, _ = await unit.run(words=program.size, vertices=3, f_in=2, f_out=2)
        assert answer == (Error.NONE, 0)
        unit.expect_rows(RESULTS, end(rows))
        await unit.compare()


@cocotb.test()
async def words_behind_the_last_row_are_nobodys(dut: Any) -> None:
    """Nothing behind the results is written, and the next command finds none of them."""
    unit = await begin(dut)
    rows = unit.words(6, 3)
    more = [
        f"{sums(n, len(range(n, 6, 4)), 3, 2).replace('HALT', f'REP OUTA {leave}')}HALT"
        for n, leave in enumerate("NNSS")
    ]
    program = program_of([f"SET #9 RC\n{text}" for text in more])
    unit.put(PROGRAM, program.tobytes())
    unit.put_rows(ROWS, rows)
    answer, _ = await unit.run(words=program.size, vertices=6, f_in=3, f_out=2)
    assert answer == (Error.NONE, 0)
    total = saturate(saturate(rows[:, 0] + rows[:, 1]) + rows[:, 2])
    unit.expect_rows(RESULTS, np.repeat(total[:, None], 2, axis=1))
    await unit.compare()
    await unit.ends(random_end(unit, 5), unit.words(9, 5))


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.3])
async def a_memory_that_fails_is_told(dut: Any, stall: float) -> None:
    unit = await begin(dut, stall)
    program = random_end(unit, 40).words(50)
    size = row_bytes(40)
    row = unit.random.randrange(50)
    in_rows = (0, row * size, 49 * size + 2 * 40 - 2)
    for where, line, places in (
        ("read", PROGRAM, (0, 2 * program.size, 4 * program.size - 4)),
        ("read", ROWS, in_rows),
        ("write", RESULTS, in_rows),
    ):
        for at in places:
            address = (unit.base + line) * LINE_BYTES + at
            getattr(unit.memory, f"{where}_errors")(range(address, address + 1))
            unit.put(PROGRAM, program.tobytes())
            answer, _ = await unit.run(words=program.size, vertices=50, f_in=40, f_out=40)
            assert answer == (Error.MEMORY_READ if where == "read" else Error.MEMORY_WRITE, address // LINE_BYTES)
            unit.memory.read_errors(None)
            unit.memory.write_errors(None)
            at, all_ = (unit.base + RESULTS) * LINE_BYTES, 50 * size
            unit.contents[at : at + all_] = np.frombuffer(await unit.memory.dump(at, all_), np.uint8)
            await unit.ends(random_end(unit, 3), unit.words(6, 3))


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing(dut: Any) -> None:
    unit = await begin(dut)
    end, rows = random_end(unit, 9), unit.words(30, 9)
    program = end.words(30)
    unit.put(PROGRAM, program.tobytes())
    unit.put_rows(ROWS, rows)
    await unit.memory.load(unit.contents.tobytes())
    fields = {"program": PROGRAM, "rows": ROWS, "results": RESULTS, "words": program.size, "vertices": 30}
    for cycles in (5, 60, 200, 400, 700):
        unit.bench.drive(
            "command", [COMMANDS[Opcode.NEURAL].pack({"opcode": Opcode.NEURAL, **fields, "f_in": 9, "f_out": 9})]
        )
        await unit.bench.cycles(cycles)
        await unit.bench.reset()
        at, all_ = (unit.base + RESULTS) * LINE_BYTES, 30 * row_bytes(9)
        unit.contents[at : at + all_] = np.frombuffer(await unit.memory.dump(at, all_), np.uint8)
        await unit.ends(random_end(unit, 4), unit.words(5, 4))


def unit(data_width: int) -> NeuralUnitBench:
    """Return the bench's design."""
    return NeuralUnitBench(CONFIG, data_width=data_width)


def run(component: NeuralUnitBench, data_width: int, directory: Path, bench: str = __name__) -> None:
    """Run all tests of a bench, those above or another module's, on a design."""
    simulate_with_memory(
        component,
        bench,
        directory,
        name="neural_unit",
        memories={"m_axi": MemoryModel(depth=MEMORY * 8 // data_width)},
        parameters={"data_width": data_width},
    )


def launch(component: NeuralUnitBench, given: Mapping[str, Any]) -> None:
    """Run the bench, for coverage and mutation."""
    with TemporaryDirectory() as directory:
        run(component, given["data_width"], Path(directory))


@pytest.mark.parametrize(
    "data_width",
    [64, pytest.param(256, marks=full)],
)
def test_neural_unit(data_width: int, tmp_path: Path) -> None:
    run(unit(data_width), data_width, tmp_path)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"queue": 2}, r"queue must be in 3..4096, not 2"),
        ({"depth": 15}, r"depth must be in 16..1024, not 15"),
        ({"patience": 0}, r"patience must be in 1..2147483648, not 0"),
    ],
)
def test_sizes_out_of_range_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeuralConfig(**sizes)  # type: ignore[arg-type]
