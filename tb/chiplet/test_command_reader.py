"""Command reader: the header's checks, the walk through the list, the end at the first error."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import cocotb
import pytest

from contracts import COMMANDS, HEADER, LINE_BYTES, MAGIC, VERSION, Error, Opcode
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from sim.harness.formal import prove_all
from tb.chiplet.formal_command_reader import PROOFS
from tb.chiplet.parts import CONFIGURATIONS, Part, begin, config, simulate_parts
from tb.graph.responder import Responder


@dataclass
class Run:
    """An image with a list of commands, the answers to them, and what goes wrong."""

    commands: int = 3
    base: int = 0
    list_line: int = 4
    header: dict[str, int] = field(default_factory=dict)
    #: Code and info of the answers, in order; the missing ones are good.
    answers: Sequence[tuple[int, int]] = ()
    #: Lines, counted from the base, that cannot be read.
    failing: Collection[int] = ()


#: Lists from this length on are refused, or never get that far.
_ENDLESS = 1000


class Reader:
    """The image in memory, and the commands and the completion that a run must bring."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.memory = Responder(part.bench, part.port("request"), part.port("beat"), config().data_width // 8)
        self.answers: list[dict[str, int]] = []
        self.base = 0
        part.bench.monitors[part.port("command")].add_callback(self._execute)

    def _execute(self, _: int) -> None:
        assert self.part.get("base") == self.base
        self.part.drive("executed", [self.answers.pop(0)])

    def forget(self) -> None:
        """Owe no answer, as after a reset."""
        self.answers.clear()

    def run(self, run: Run) -> None:
        """Start an image and expect what it does."""
        self.base = run.base
        random = self.part.random
        header = {
            "magic": MAGIC,
            "version": VERSION,
            "command_list": run.list_line,
            "commands": run.commands,
            "lines": run.list_line + run.commands,
        } | run.header
        lines = {0: HEADER.to_bytes(header)}
        tags = []
        for number in range(run.commands if run.commands < _ENDLESS else 0):
            tags.append({"layer": random.getrandbits(8), "tag": random.getrandbits(16)})
            head = COMMANDS[Opcode.NOP].pack({"opcode": random.getrandbits(8), **tags[-1]})
            lines[run.list_line + number] = (head | random.getrandbits(480) << 32).to_bytes(LINE_BYTES, "little")
        # A list that lies beyond any port is never read.
        lines = {line: data for line, data in lines.items() if line < 1 << 16}
        image = bytearray(random.randbytes((run.base + max(lines) + 1) * LINE_BYTES))
        for line, data in lines.items():
            image[(run.base + line) * LINE_BYTES : (run.base + line + 1) * LINE_BYTES] = data
        self.memory.image = bytes(image)
        beats = LINE_BYTES // self.memory.beat_bytes
        # One beat of a failing line fails, whichever.
        self.memory.failing = [(run.base + line) * beats + random.randrange(beats) for line in run.failing]
        self.part.drive("i", [run.base])
        self.part.expect("o", [self._completion(run, header, lines, tags)])

    def _completion(
        self, run: Run, header: dict[str, int], lines: dict[int, bytes], tags: list[dict[str, int]]
    ) -> dict[str, int]:
        end = header["command_list"] + header["commands"]
        if 0 in run.failing:
            return {"error": Error.MEMORY_READ, "info": run.base}
        if header["magic"] != MAGIC:
            return {"error": Error.BAD_MAGIC, "info": header["magic"]}
        if header["version"] != VERSION:
            return {"error": Error.BAD_VERSION, "info": header["version"]}
        if end > header["lines"] or run.base + end > 1 << len(self.part.component.base):
            return {"error": Error.BAD_OPERAND, "info": header["commands"]}
        done: dict[str, int] = {}
        for number in range(run.commands):
            line = run.list_line + number
            if line in run.failing:
                return {**done, "error": Error.MEMORY_READ, "info": run.base + line}
            code, info = run.answers[number] if number < len(run.answers) else (Error.NONE, 0)
            done = tags[number]
            self.part.expect("command", [int.from_bytes(lines[line], "little")])
            self.answers.append({"code": code, "info": info})
            if code:
                return {**done, "error": code, "info": info}
        return {**done, "error": Error.NONE}


async def make(dut: Any, idle: float = 0.0, stall: float = 0.0) -> Reader:
    return Reader(await begin(dut, "commands", idle=idle, stall=stall))


CASES = {
    "good": Run(),
    "another place": Run(base=7, list_line=1),
    "no command": Run(commands=0),
    "one command": Run(commands=1),
    "magic": Run(header={"magic": MAGIC ^ 1}),
    "other magic": Run(header={"magic": 0x80000000 | MAGIC}),
    "version": Run(header={"version": VERSION + 1}),
    "high version": Run(header={"version": VERSION | 0x8000}),
    "list past the image": Run(header={"lines": 6}),
    "endless list": Run(commands=0xFFFFFFFF, header={"lines": 0xFFFFFFFF}),
    "list beyond the port": Run(base=5, list_line=0xFFFFFFF0, commands=0, header={"lines": 0xFFFFFFFF}),
    "header unreadable": Run(base=2, failing=[0]),
    "command unreadable": Run(failing=[5]),
    "first command unreadable": Run(failing=[4]),
    "command fails": Run(answers=[(0, 0), (Error.BAD_OPCODE, 200)]),
    "last command fails": Run(answers=[(0, 0), (0, 0), (Error.VID_RANGE, 0xFFFFFFFF)]),
    "high code": Run(answers=[(0x80, 1)]),
    "other code": Run(answers=[(0x78, 1)]),
    "odd bits of the base": Run(base=0x2AAA),
    "even bits of the base": Run(base=0x1555),
}


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def every_run_ends_with_its_completion(dut: Any, idle: float, stall: float) -> None:
    reader = await make(dut, idle, stall)
    for run in CASES.values():
        reader.run(run)
        await reader.part.bench.drain()


@cocotb.test()
async def a_failed_run_leaves_nothing_behind(dut: Any) -> None:
    reader = await make(dut)
    for run in CASES.values():
        for good in (Run(commands=0), Run()):
            reader.run(run)
            await reader.part.bench.drain()
            reader.run(good)
            await reader.part.bench.drain()


@cocotb.test()
async def every_bit_of_the_header_s_checks_counts(dut: Any) -> None:
    reader = await make(dut)
    runs = [Run(header={"magic": MAGIC ^ 1 << bit}) for bit in range(32)]
    runs += [Run(header={"version": VERSION ^ 1 << bit}) for bit in range(16)]
    # A list that ends one line past the image, or far past it, at every power of two.
    for bit in range(1, 32):
        runs += [Run(commands=1 << bit, header={"lines": (1 << bit) + 3})]
        runs += [Run(commands=200, list_line=1 << bit, header={"lines": (1 << bit) + 199})]
        runs += [Run(commands=201, list_line=1 << bit, header={"lines": (1 << bit) + 200})]
    # And those that end past the port.
    top = len(reader.part.component.base)
    runs += [Run(commands=1 << bit, header={"lines": 0xFFFFFFFF}) for bit in range(top, 32)]
    for run in runs:
        reader.run(run)
        await reader.part.bench.drain(quiet=2)


@cocotb.test()
async def infos_and_lines_have_all_their_bits(dut: Any) -> None:
    reader = await make(dut)
    bits = len(reader.part.component.base)
    for number in range(8):
        info = reader.part.random.getrandbits(32)
        reader.run(Run(commands=2, answers=[(1 << number, info)], base=1 << min(number, bits - 2)))
        await reader.part.bench.drain()
    for bit in range(3, min(bits - 1, 14)):
        reader.run(Run(commands=2, list_line=1 << bit))
        await reader.part.bench.drain()
        reader.run(Run(commands=2, list_line=(1 << bit) - 1, base=1, failing=[1 << bit]))
        await reader.part.bench.drain()


@cocotb.test()
async def a_list_may_end_with_the_port(dut: Any) -> None:
    reader = await make(dut)
    top = 1 << len(reader.part.component.base)
    for past in (0, 1, 2):
        reader.run(Run(base=min(top, 1 << 14) - 7 + past, commands=3))
        await reader.part.bench.drain()


@cocotb.test()
async def long_lists_are_counted(dut: Any) -> None:
    reader = await make(dut)
    for commands in (0x12C, 0x0D3):
        reader.run(Run(commands=commands))
        await reader.part.bench.drain(20_000)


@cocotb.test()
async def an_answer_is_taken_after_its_command(dut: Any) -> None:
    reader = await make(dut)
    part = reader.part
    part.pace(stall={"command": 1.0})
    reader.run(Run(commands=1))
    for _ in range(60):
        await part.bench.edge
        assert not part.handle("executed__ready").value
    assert part.handle("command__valid").value
    part.pace(stall={"command": 0.0})
    await part.bench.drain()


@cocotb.test()
async def the_next_start_waits_for_the_completion(dut: Any) -> None:
    reader = await make(dut)
    reader.part.pace(stall={"o": 1.0})
    reader.run(Run(commands=1))
    reader.part.drive("i", [0])
    await reader.part.bench.cycles(100)
    assert reader.part.bench.drivers[reader.part.port("i")].busy_words == 1
    assert reader.part.handle("o__valid").value == 1


@cocotb.test()
async def a_command_takes_the_expected_cycles(dut: Any) -> None:
    reader = await make(dut)
    for commands in (0, 8):
        began = reader.part.bench.cycle
        reader.run(Run(commands=commands))
        cycles = await reader.part.bench.drain() - began
        expect_cycles(f"chiplet.command_reader.{commands}.{parameters()['configuration']}", cycles)


@cocotb.test()
async def reset_in_the_middle_is_followed_by_a_right_run(dut: Any) -> None:
    reader = await make(dut, idle=0.2, stall=0.2)
    for _ in range(8):
        reader.run(Run(commands=5))
        await reader.part.bench.cycles(reader.part.random.randrange(2, 80))
        await reader.part.bench.reset()
        reader.forget()
        reader.run(Run(commands=2, base=1))
        await reader.part.bench.drain()


@cocotb.test()
async def the_last_line_of_the_port_can_hold_a_command(dut: Any) -> None:
    reader = await make(dut)
    part = reader.part
    top = 1 << len(part.component.base)
    taken = part.take("o")
    line = HEADER.to_bytes({"magic": MAGIC, "version": VERSION, "command_list": 1, "commands": 1, "lines": 2})
    # Every line of the memory holds this header, whose list is one line behind it.
    reader.memory.repeat = line
    for base, code in ((top - 2, Error.NONE), (top - 1, Error.BAD_OPERAND)):
        reader.base = base
        part.drive("i", [base])
        if not code:
            part.expect("command", [int.from_bytes(line, "little")])
            reader.answers.append({"code": 0})
        await part.bench.until(lambda: bool(taken))
        assert taken.pop()["error"] == code


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_command_reader(configuration: str) -> None:
    simulate_parts(configuration, __name__)


def test_command_reader_proofs() -> None:
    prove_all("command_reader", PROOFS)
