"""Command front end: when a command is decided, what refuses it, which error it ends with, one answer."""

from typing import Any

import cocotb
import pytest

from contracts import COMMANDS, Error, Opcode
from hw.command.checks import Check, refuse
from hw.command.factories import front_end
from hw.command.front_end import CommandFrontEnd
from hw.graph.formats import ErrorReport
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec
from sim.harness.formal import prove_all
from tb.command.formal_front_end import PROOFS

Fields = dict[str, int]
GOOD: Fields = {"code": 0, "info": 0}
#: Cycle of the decision: with addresses and without; an opcode that is answered early.
DECIDED = {"COPY": 4, "BARRIER": 1, "LIST": 5}
SIZES: dict[str, Any] = {"commands": DECIDED, "address_width": 16, "error_sources": 3}
REPORTS = codec(ErrorReport)


class World:
    """Unit, memory and reader of commands at random, and the rules for what the front end does in each cycle."""

    def __init__(self, bench: Bench, design: CommandFrontEnd) -> None:
        self.bench, self.dut, self.rng, self.design = bench, bench.dut, bench.random, design
        self.sources, self.sticky = len(design.errors), design.sticky
        self.lines = 1 << len(design.base)
        self.now: dict[str, int] = {}
        #: Probabilities of an error in a cycle, of the end of the work, and of an output that is taken.
        self.faults, self.ends, self.ready = 0.05, 0.3, 0.6
        self.first: Fields = GOOD
        self.command: Fields | None = None
        self.refusal: Fields = GOOD
        self.given: Fields = {}
        self.working = self.started = self.early = self.closing = self.answered = self.held = False
        self.answers: list[Fields] = []
        self.age = 0
        for name in ("base", "unused", "wrong", "refusal"):
            self.put(name, 0)
        self._choose()
        cocotb.start_soon(self._watch())

    def put(self, port: str, value: int) -> None:
        """Set an input from the next cycle on."""
        self.now[port] = value
        getattr(self.dut, port).value = value

    def chance(self, probability: float) -> bool:
        """Decide."""
        return self.rng.random() < probability

    def some_error(self) -> Fields:
        """Return an error with any bit."""
        return {"code": self.rng.randrange(1, 256), "info": self.rng.getrandbits(32)}

    async def _watch(self) -> None:
        """Compare every cycle with the rules."""
        while True:
            await self.bench.edge
            self._compare()
            self._choose()

    def _compare(self) -> None:
        dut, now = self.dut, self.now
        if int(dut.rst.value):
            self.first = GOOD
            return
        get = {name: int(getattr(dut, name).value) for name in ("start", "refused", "working", "executed__valid")}
        taken = int(dut.command__valid.value) and int(dut.command__ready.value)
        assert not taken or self.command is None, "taken while another is under way"
        assert get["working"] == self.working
        if self.command is not None:
            self.age += 1
            self._decide(get)
        error = self._error()
        if self.command is None and not self.sticky:
            self.first = GOOD
        if get["refused"] and not self.first["code"]:
            self.first = self.refusal
        elif error and not self.first["code"]:
            self.first = error
        if get["start"]:
            self.started = self.working = True
        ends = self.working and bool(now["done"])
        if get["executed__valid"]:
            self._answer()
        if ends:
            self.working = False
        if (ends or get["refused"]) and self.command is not None:
            self.closing = True
        if self.command is not None and not self.working and self.answered:
            self.command = None
        if taken:
            self.command, self.age = self.given, 0
            self.started = self.early = self.answered = self.closing = False

    def _error(self) -> Fields | None:
        """Return the error of this cycle that counts: the unit's own, then that of the lowest source."""
        now = self.now
        if self.working and now["own__valid"]:
            return REPORTS.unpack(now["own__payload"])
        if self.sticky or (self.working and now["listen"]):
            for n in range(self.sources):
                if now[f"errors__{n}__valid"]:
                    return REPORTS.unpack(now[f"errors__{n}__payload"])
        return None

    def _decide(self, get: dict[str, int]) -> None:
        """Expect the decision in its cycle: refused, started, or held up; or neither for NOP."""
        assert self.command is not None
        opcode = self.command["opcode"]
        cycle = DECIDED.get(Opcode(opcode).name if opcode in set(Opcode) else "", 1)
        bad = self.refusal["code"] != 0 or (self.sticky and self.first["code"] != 0)
        decides = self.age == cycle or (self.age > cycle and not self.started and self.held)
        if opcode == Opcode.NOP and not bad:
            decides = False
        assert get["refused"] == (decides and bad), (opcode, self.age)
        assert get["start"] == (decides and not bad and not self.now["hold"])
        self.held = decides and not bad and bool(self.now["hold"])
        if get["start"] and opcode in (Opcode.COPY, Opcode.LIST):
            for name, slot in self.slots(Opcode(opcode)).items():
                line = int(getattr(self.dut, f"lines__{slot}").value)
                base = self.now["base"]
                assert line == (base + self.command[name]) % self.lines

    def slots(self, opcode: Opcode) -> dict[str, int]:
        """Return the adders of a command's addresses, in the order of the contract."""
        return {name: self.design.slot(opcode, name) for name in self.design.operands.lines[opcode]}

    def _answer(self) -> None:
        """Compare an answer: good if it was offered before the work ended, otherwise the first error."""
        assert self.command is not None
        assert not self.answered
        self.early = self.early or self.working or (self.sticky and not self.before["code"])
        wanted = GOOD if self.early else self.before
        assert REPORTS.unpack(int(self.dut.executed__payload.value)) == wanted
        if self.now["executed__ready"]:
            self.answered = True
            self.answers.append(wanted)

    def _choose(self) -> None:
        """Choose all inputs of the next cycle."""
        #: The error as it was before the next cycle.
        self.before = self.first
        early = self.command is not None and self.command["opcode"] == Opcode.LIST and self.started
        self.closing = self.closing and self.chance(0.6)
        choices = {
            "done": self.chance(self.ends), "hold": self.chance(0.3), "listen": self.chance(0.9),
            "closing": self.closing, "executed__ready": self.chance(self.ready), "early": early and self.chance(0.5),
        }  # fmt: skip
        for name, value in choices.items():
            self.put(name, int(value))
        for port in ("own", *(f"errors__{n}" for n in range(self.sources))):
            self.put(f"{port}__valid", int(self.chance(self.faults)))
            self.put(f"{port}__payload", REPORTS.pack(self.some_error()))

    async def give(self, opcode: int, wrong: bool, **operands: int) -> Fields:
        """Give a command with other operands at random; return its answer when it has ended."""
        layout = COMMANDS[Opcode(opcode)] if opcode in set(Opcode) else COMMANDS[Opcode.NOP]
        base, unused = self.rng.randrange(self.lines // 2), self.rng.getrandbits(8)
        count = (1 << len(self.design.unused)) - 1
        for name, value in (("base", base), ("unused", unused & count)):
            self.put(name, value)
        given = layout.unpack(self.rng.getrandbits(512))
        given |= {field.name: self.rng.randrange(self.lines // 2) for field in layout.fields if field.line}
        self.given = given | operands | {"opcode": opcode}
        self.put("wrong", int(wrong))
        self.put("refusal", REPORTS.pack(self.some_error()))
        self.refusal = self._wrong()
        self.held, count = False, len(self.answers)
        self.answered = False
        self.bench.drive("command", [layout.pack(self.given)])
        for _ in range(400):
            await self.bench.edge
            if len(self.answers) > count and self.command is None and not self.bench.drivers["command"].busy_words:
                break
        assert len(self.answers) == count + 1
        return self.answers[-1]

    def _wrong(self) -> Fields:
        """Return why the command has to be refused: its opcode, the unit's check, its first address beyond the port."""
        opcode = self.given["opcode"]
        if opcode != Opcode.NOP and (opcode not in set(Opcode) or Opcode(opcode).name not in DECIDED):
            return {"code": Error.BAD_OPCODE, "info": opcode}
        if opcode == Opcode.NOP:
            return GOOD
        if self.now["wrong"]:
            return REPORTS.unpack(self.now["refusal"])
        for name, slot in self.slots(Opcode(opcode)).items():
            base = self.now["base"]
            if base + self.given[name] >= self.lines and not self.now["unused"] >> slot & 1:
                return {"code": Error.BAD_OPERAND, "info": self.given[name]}
        return GOOD


async def begin(dut: Any) -> World:
    design = front_end(**parameters())
    manual = ["own", "executed", *(f"errors__{n}" for n in range(len(design.errors)))]
    return World(await start(dut, design, manual=manual, idle=0.3), design)


@cocotb.test()
@cocotb.parametrize(faults=[0.0, 0.03, 0.5])
async def each_command_is_decided_and_answered(dut: Any, faults: float) -> None:
    """Commands of all kinds, some refused, with errors at any time."""
    world = await begin(dut)
    world.faults = faults
    seen = set()
    for number in range(300):
        opcode = world.rng.choice((Opcode.COPY, Opcode.BARRIER, Opcode.LIST, Opcode.NOP, world.rng.randrange(256)))
        operands = {}
        if opcode in (Opcode.COPY, Opcode.LIST) and world.chance(0.2):
            name = world.rng.choice(world.design.operands.lines[Opcode(opcode)])
            operands[name] = world.rng.choice((world.lines, (1 << 32) - 1, 1 << 31))
        answer = await world.give(opcode, world.chance(0.1), **operands)
        seen.add(answer["code"] in (0, Error.BAD_OPCODE, Error.BAD_OPERAND) and answer["code"])
        if world.sticky and number % 5 == 0:
            await world.bench.reset()
    assert 0 in seen


@cocotb.test()
async def every_bit_of_an_address_counts(dut: Any) -> None:
    world = await begin(dut)
    world.faults = 0.0
    for opcode in (Opcode.COPY, Opcode.LIST):
        for name in world.design.operands.lines[opcode]:
            for bit in range(32):
                await world.give(opcode, False, **{name: 1 << bit})
                if world.sticky and world.first["code"]:
                    await world.bench.reset()


@pytest.mark.parametrize("sticky", [False, True], ids=["errors end", "errors stay"])
def test_front_end(sticky: bool) -> None:
    sizes = {**SIZES, "registered": not sticky, "sticky": sticky}
    simulate(front_end(**sizes), __name__, parameters=sizes, name=f"front_end_{'sticky' if sticky else 'plain'}")


def test_front_end_proofs() -> None:
    prove_all("front_end", PROOFS)


def test_a_table_belongs_to_the_unit() -> None:
    """Commands without a contract or of another unit, decisions before the checks, and slots of other operands."""
    front = front_end({"BARRIER": 1})
    with pytest.raises(ValueError, match=r"checks must be of commands of the unit, not \[<Opcode.COPY: 10>\]"):
        refuse(None, front, {Opcode.COPY: [Check(1, 0)]})
    with pytest.raises(ValueError, match="commands must decide COPY in cycle 2 or later, not 1"):
        front_end({"COPY": 1})
    with pytest.raises(ValueError, match="commands must decide COPY in cycle 4 or later, not 3"):
        front_end({"COPY": 3}, registered=True)
    with pytest.raises(ValueError, match=r"slots of COPY must be its lines \('source', 'target'\)"):
        CommandFrontEnd({Opcode.COPY: 2}, 32, 1, slots={Opcode.COPY: ("source",)})
    with pytest.raises(ValueError, match="opcodes must name at least one command"):
        front_end({})
