"""Executor: the set-up of every opcode, refused operands, the wait for all results, the first error."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import cocotb
import pytest

from contracts import (
    COMMANDS,
    DIGIT_FEATURES,
    LINE_BYTES,
    ROW_BYTES,
    VALUE_BITS,
    Activation,
    Combination,
    Error,
    Opcode,
)
from golden.image import row_bytes
from hw.chiplet.executor import Route
from hw.chiplet.factories import ERROR_SOURCES
from hw.memory.formats import WORD_BYTES
from hw.pe.formats import Mode
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from sim.harness.formal import prove_all
from tb.chiplet.formal_executor import PROOFS
from tb.chiplet.parts import CONFIGURATIONS, Part, begin, config, simulate_parts

#: Line addresses with bits high and low; each port reaches the low ones.
LINES = {
    Opcode.LOAD_WEIGHTS: ("weights", "biases"),
    Opcode.COMBINE: ("features", "feature_offsets", "scales", "combined"),
    Opcode.AGGREGATE: ("offsets", "edges", "scales", "combined", "results", "own"),
}
#: Longest that an answer may take once everything is done.
SOON = 12
Step = dict[str, Any]


def number(member: Any) -> int:
    return int(member.value)


def words(line: int) -> int:
    return line * LINE_BYTES // WORD_BYTES


def beats(line: int) -> int:
    return line * LINE_BYTES * 8 // config().data_width


def granules(elements: int) -> int:
    return row_bytes(elements) // ROW_BYTES


def steps(opcode: Opcode, fields: dict[str, int], base: int) -> list[Step]:
    """Return what the units must be told, in order: one step, or weights and biases."""
    pe = config()
    if opcode == Opcode.NOP:
        return []
    at = {name: base + fields.get(name, 0) for name in LINES[opcode]}
    f_out = fields["f_out"]
    last_chunk = (f_out - 1) // pe.lanes
    stride = row_bytes(f_out) * 8 // pe.data_width
    settings = {"f_out": f_out, "last_chunk": last_chunk, "chunk_shift": last_chunk.bit_length(), "relu": 0, "bias": 0}
    csr = {"offsets": 0, "rows": fields.get("vertices", 1), "tiles": 1, "paired": 0, "uniform": 0, "stride": 0}
    if opcode == Opcode.LOAD_WEIGHTS:
        settings["f_in"] = fields["f_in"]
        row = row_bytes(f_out) // WORD_BYTES
        weights = {"array": words(at["weights"]), "words": fields["f_in"] * row, "rows": fields["f_in"], "stride": row}
        biases = {"array": words(at["biases"]), "words": f_out, "rows": 1, "stride": f_out}
        return [
            {
                "route": number(Route.WEIGHTS),
                "settings": settings,
                "csr": csr | weights | {"uniform": 1},
                "count": fields["f_in"],
            },
            {"route": number(Route.BIASES), "settings": settings, "csr": csr | biases | {"uniform": 1}, "count": f_out},
        ]
    scales = {"address": words(at["scales"]), "words": fields["vertices"]}
    if opcode == Opcode.COMBINE:
        return [combine_step(fields, at, settings, csr) | {"scales": scales, "count": fields["vertices"]}]
    settings |= {"mode": number(Mode.GATHER), "shift": fields["shift"]}
    settings |= {
        "relu": int(fields["activation"] == Activation.RELU),
        "bias": int(fields["activation"] != Activation.DNP),
        "attends": int(fields["attention"] > 0),
    }
    csr |= {"offsets": words(at["offsets"]), "array": words(at["edges"]), "tiles": fields["tiles"]}
    csr |= {"words": fields["edge_count"] << fields["weighted"], "paired": fields["weighted"]}
    beats_of_granule = ROW_BYTES * 8 // pe.data_width
    results = (beats(at["results"]) + fields["first_granule"] * beats_of_granule) % (1 << pe.beat_address_width)
    same = ("first_source", "sources", "partials", "self_weight", "neighbour_weight", "weighted")
    gather = {name: fields[name] for name in same}
    rooted = fields["rooted"]
    first_own = 0 if rooted else (fields["first_vertex"] - fields["first_source"]) % (1 << 32)
    gather |= {"own": beats(at["own" if rooted else "combined"]), "first_own": first_own}
    gather |= {"combined": beats(at["combined"]), "stride": stride, "last_beat": (f_out - 1) // pe.elements}
    gather["margin"] = fields["attention"]
    task = {"gather": 1, "attends": settings["attends"], "rooted": rooted, "results": results}
    return [
        {
            "route": number(Route.SOURCES),
            "settings": settings,
            "task_settings": {**task, "stride": fields["row_granules"] * beats_of_granule},
            "gather_settings": gather,
            "csr": csr,
            # Attention computes the factors.
            **({} if fields["attention"] else {"scales": scales}),
            "count": fields["vertices"],
        }
    ]


def combine_step(fields: dict[str, int], at: dict[str, int], settings: Step, csr: Step) -> Step:
    """Return what COMBINE sets up beside scales."""
    pe, kind, sparse = config(), Combination(fields.get("kind", 0)), fields["sparse"]
    beats_of_granule = ROW_BYTES * 8 // pe.data_width
    f_out, distance = fields["f_out"], 0 if sparse else fields.get("distance", 0)
    settings |= {"f_in": fields["f_in"], "shift": fields["shift"], "digits": 0}
    settings["mode"] = number(Mode.SPARSE if sparse else Mode.DENSE)
    stride, first = granules(f_out), 0
    if kind == Combination.DIGITS:
        settings["digits"] = 1
        stride, first = fields["row_granules"], fields["first_granule"]
    if kind == Combination.SUM:
        del settings["f_in"], settings["chunk_shift"]
        settings |= {"mode": number(Mode.DIGITS), "last_chunk": row_bytes(f_out) // 2 // pe.lanes - 1}
    results = beats(at["combined"]) + (fields["first_row"] * stride + first) * beats_of_granule
    task = {"results": results % (1 << pe.beat_address_width), "stride": stride * beats_of_granule}
    step: Step = {"route": number(Route.FEATURES), "settings": settings, "task_settings": task | {"gather": 0}}
    row = distance * ROW_BYTES or row_bytes(fields["f_in"])
    csr |= {"offsets": words(at["feature_offsets"]), "array": words(at["features"]), "words": fields["entries"]}
    csr |= {"uniform": 1 - sparse, "stride": row // WORD_BYTES}
    if distance and kind != Combination.SUM:
        csr |= {"words": 0, "stride": 0}
        step |= {"route": number(Route.SOURCES), "task_settings": task | {"gather": 1}}
        gather = {"own": beats(at["features"]), "first_own": 0}
        gather |= {"stride": distance * beats_of_granule, "last_beat": (fields["f_in"] - 1) // pe.elements}
        step["gather_settings"] = gather
    return step | {"csr": csr}


class Units:
    """What stands around the executor: takes requests, reports progress, is busy, and looks what it is told.

    Attributes
    ----------
    pending
        Steps that the executor must still set up.
    left
        Progress of the step under way that is still missing.
    tails
        Cycles for which reader and write port may stay busy after the last progress.
    paused
        Make no progress.
    away
        Do nothing at all, as in a reset.
    """

    def __init__(self, part: Part, haste: float) -> None:
        self.part, self.haste = part, haste
        self.pending: list[Step] = []
        self.step: Step | None = None
        self.left = self.reading = self.writing = self.unanswered = 0
        self.paused = self.away = False
        self.tails: Sequence[tuple[int, int]] = ((0, 3), (4, 0), (1, 1), (6, 2))
        self.starts = self.clears = self.halted = 0
        self.answers: list[dict[str, int]] = []
        part.bench.take(part.port("executed"), self._answered)
        for port in ("csr", "scales"):
            part.bench.take(part.port(port), partial(self._request, port))
        self.was_busy = [False, False]
        cocotb.start_soon(self._work())

    def _request(self, port: str, word: dict[str, int]) -> None:
        assert self.step is not None, f"{port} without a start"
        wanted = self.step.pop(port)
        if port == "csr" and wanted["uniform"]:
            wanted, word = (
                {key: value for key, value in request.items() if key != "offsets"} for request in (wanted, word)
            )
        if port == "csr" and not wanted["uniform"]:
            wanted, word = (
                {key: value for key, value in request.items() if key != "stride"} for request in (wanted, word)
            )
        assert word == wanted, f"{port}: {word}, expected {wanted}"
        if port == "csr":
            self.left, self.reading = self.step["count"], 1

    def _answered(self, word: dict[str, int]) -> None:
        assert not any((self.left, self.reading, self.writing, self.unanswered)), "answered while units work"
        self.answers.append(word)

    def check(self) -> None:
        """Compare what does not go by stream with the step."""
        assert self.step is not None
        for port in ("settings", "task_settings", "gather_settings"):
            got = self.part.get(port)
            wanted = self.step.get(port, {})
            assert {key: got[key] for key in wanted} == wanted, port
        assert self.part.get("route") == self.step["route"]

    async def _work(self) -> None:
        part, random = self.part, self.part.random
        while True:
            await part.bench.edge
            if self.away:
                continue
            if part.get("start"):
                assert self.pending, "started without a command"
                assert self.step is None or not {"csr", "scales"} & set(self.step)
                self.step = dict(self.pending.pop(0))
                self.starts += 1
            if self.step is not None and self.left + self.reading:
                self.check()
            if part.get("halt"):
                self.halted += 1
                if self.unanswered and random.random() < self.haste:
                    self.unanswered -= 1
            if part.get("clear"):
                assert not any(self.was_busy), "cleared while something was under way"
                assert part.get("halt")
                self.clears += 1
                self.left = self.reading = 0
            self.was_busy = [self.was_busy[1], bool(self.writing or self.unanswered)]
            part.set("writing", int(self.writing > 0))
            part.set("reading", int(self.reading > 0))
            part.set("unanswered", int(self.unanswered > 0))
            progress = 0
            if self.writing:
                self.writing -= 1
            elif self.reading and not self.left:
                self.reading -= 1
            if self.left and not self.paused and random.random() < self.haste:
                self.left, progress = self.left - 1, 1
                if not self.left:
                    self.reading, self.writing = random.choice(self.tails)
            part.set("progress", progress)


class Executor:
    """Sends commands and waits for their answers."""

    def __init__(self, part: Part, haste: float = 1.0) -> None:
        self.part, self.units = part, Units(part, haste)

    async def send(self, opcode: int, fields: dict[str, int], base: int) -> None:
        """Send one command."""
        self.part.set("base", base)
        layout = COMMANDS.get(opcode, COMMANDS[Opcode.NOP])  # type: ignore[call-overload]
        values = {"layer": self.part.random.getrandbits(8), "tag": self.part.random.getrandbits(16), **fields}
        # What a command does not define must not matter.
        defined = layout.offsets.get("reserved", 512)
        junk = self.part.random.getrandbits(512 - defined)
        packed = layout.pack({"opcode": opcode, **values}) | junk << defined
        self.layer = values["layer"]
        self.part.drive("command", [packed])

    async def answer(self) -> dict[str, int]:
        """Wait for the answer."""
        await self.part.bench.until(lambda: bool(self.units.answers), 3_000)
        return self.units.answers.pop()

    async def run(self, opcode: Opcode, fields: dict[str, int], base: int = 0) -> None:
        """Send a good command and judge everything."""
        wanted = steps(opcode, fields, base)
        if wanted and wanted[0]["count"] == 0:
            # Set up all the same, but there is nothing to ask for.
            for step in wanted:
                step.pop("csr"), step.pop("scales", None)
        self.units.pending = list(wanted)
        starts = self.units.starts
        await self.send(opcode, fields, base)
        assert await self.answer() == {"code": Error.NONE, "info": 0}
        assert self.units.starts - starts == len(wanted)
        assert not self.units.pending
        assert self.units.step is None or not {"csr", "scales"} & set(self.units.step)
        assert self.units.clears == self.units.halted == 0


async def make(dut: Any, haste: float = 1.0, stall: float = 0.0) -> Executor:
    part = await begin(dut, "executor", stall=stall)
    await clears_its_units(part)
    return Executor(part, haste)


async def clears_its_units(part: Part) -> None:
    """Wait behind a reset for the one cycle in which it passes it on."""
    assert (part.get("clear"), part.get("halt")) == (1, 1)
    await part.bench.cycles(2)
    assert (part.get("clear"), part.get("halt")) == (0, 0)


def line_limit(part: Part) -> int:
    return 1 << len(part.component.base)


def command(part: Part, opcode: Opcode, base: int = 0) -> dict[str, int]:
    """Random operands that are allowed."""
    random, pe = part.random, config()
    if opcode == Opcode.NOP:
        return {}
    f_out = random.choice((1, pe.max_out, random.randrange(1, pe.max_out + 1)))
    chunk_shift = ((f_out - 1) // pe.lanes).bit_length()
    f_in = random.choice((1, pe.weight_rows >> chunk_shift, random.randrange(1, (pe.weight_rows >> chunk_shift) + 1)))
    if pe.weight_rows > 100 and opcode == Opcode.LOAD_WEIGHTS:
        f_in = min(f_in, 100)
    fields = {name: random.randrange(line_limit(part) - base) for name in LINES[opcode]}
    fields["f_out"] = f_out
    if opcode != Opcode.AGGREGATE:
        fields["f_in"] = f_in
    if opcode == Opcode.LOAD_WEIGHTS:
        return fields
    fields |= {"vertices": random.randrange(1, 20), "shift": random.getrandbits(6)}
    if opcode == Opcode.COMBINE:
        first_row = random.choice((0, random.getrandbits(10), random.getrandbits(32)))
        kind = random.choice(list(Combination))
        sparse = random.getrandbits(1) if kind != Combination.SUM else 0
        fields |= {"sparse": sparse, "entries": random.getrandbits(32), "first_row": first_row, "kind": kind}
        fields |= {"distance": random.choice((0, granules(f_in) + random.randrange(9), 0x1FFF))}
        if kind == Combination.SUM:
            # It uses no inputs, and its rows of digits are at some distance.
            return fields | {"f_in": random.getrandbits(32), "distance": random.randrange(1, 0x2000)}
        if kind == Combination.DIGITS:
            before, behind = (random.choice((0, random.getrandbits(11))) for _ in range(2))
            fields |= {"first_granule": before, "row_granules": before + 3 * granules(f_out) + behind}
        return fields
    first = random.choice((0, random.getrandbits(32) >> 1))
    ahead = random.choice((0, random.getrandbits(10)))
    more, weighted = random.choice((0, random.getrandbits(20))), random.getrandbits(1)
    before, behind = (random.choice((0, random.getrandbits(11))) for _ in range(2))
    return fields | {
        "first_vertex": first + ahead,
        "first_source": first,
        "sources": ahead + fields["vertices"] + more,
        "tiles": random.randrange(1, 256),
        "partials": random.getrandbits(32),
        "first_granule": before,
        "row_granules": before + granules(f_out) + behind,
        "edge_count": random.getrandbits(32 - weighted),
        "weighted": weighted,
        "activation": random.randrange(3),
        "rooted": random.getrandbits(1),
        "attention": random.choice((0, random.randrange(16))),
        "self_weight": random.randrange(-(1 << 15), 1 << 15),
        "neighbour_weight": random.randrange(-(1 << 15), 1 << 15),
    }


OPCODES = [Opcode.NOP, Opcode.LOAD_WEIGHTS, Opcode.COMBINE, Opcode.AGGREGATE]


@cocotb.test()
@cocotb.parametrize(haste=[1.0, 0.4], stall=[0.0, 0.5])
async def commands_set_the_units_up_and_wait_for_them(dut: Any, haste: float, stall: float) -> None:
    executor = await make(dut, haste, stall)
    for number in range(48):
        opcode = OPCODES[number % 4]
        base = executor.part.random.choice((0, executor.part.random.randrange(line_limit(executor.part) - 1)))
        await executor.run(opcode, command(executor.part, opcode, base), base)


@cocotb.test()
@cocotb.parametrize(opcode=OPCODES[1:])
async def each_operand_has_its_place(dut: Any, opcode: Opcode) -> None:
    """Set one operand after the other to its highest, with all others low."""
    executor = await make(dut)
    pe = config()
    low = {"f_in": 1, "f_out": 1, "vertices": 1, "tiles": 1, "sources": 1, "row_granules": granules(pe.max_out)}
    known = {field.name for field in COMMANDS[opcode].fields}
    low = {name: value for name, value in low.items() if name in known}
    zero = {name: 0 for name in known if not name.startswith("reserved") and name not in ("opcode", "layer", "tag")}
    high: dict[str, int] = dict.fromkeys(LINES[opcode], line_limit(executor.part) - 1)
    high |= {"f_out": pe.max_out, "shift": 63, "sparse": 1, "entries": 0xFFFFFFFF, "activation": 2, "tiles": 255}
    high |= {"row_granules": 0x1FFF, "rooted": 1}
    high |= {"first_row": 0xFFFFFFFF, "partials": 0xFFFFFFFF}
    high |= {"edge_count": 0xFFFFFFFF, "self_weight": -1, "neighbour_weight": -1, "sources": 0xFFFFFFFF}
    for name, value in high.items():
        if name in known:
            await executor.run(opcode, zero | low | {name: value})
    if opcode == Opcode.COMBINE:
        await executor.run(opcode, zero | low | {"distance": 0x1FFF})
        for kind in (Combination.DIGITS, Combination.SUM):
            for name in ("first_row", "shift", "entries", "f_out"):
                await executor.run(
                    opcode, zero | low | {"kind": kind, "row_granules": 999, "distance": 3, name: high[name]}
                )
        place = {"row_granules": 0x1FFF, "first_granule": 0xFFF}
        await executor.run(opcode, zero | low | place | {"kind": Combination.DIGITS})
    if opcode == Opcode.AGGREGATE:
        top = 0xFFFFFFFF
        await executor.run(opcode, zero | low | {"weighted": 1, "edge_count": top >> 1})
        await executor.run(opcode, zero | low | {"first_vertex": top, "first_source": top})
        await executor.run(opcode, zero | low | {"first_vertex": top, "sources": top, "first_source": 1})
        await executor.run(opcode, zero | low | {"first_granule": 0xFFF, "row_granules": 0x1FFF})
        await executor.run(opcode, zero | low | {"rooted": 1, "own": high["own"], "first_vertex": 9, "sources": 99})


@cocotb.test()
async def a_command_without_vertices_ends_at_once(dut: Any) -> None:
    executor = await make(dut)
    for opcode in (Opcode.COMBINE, Opcode.AGGREGATE):
        await executor.run(opcode, command(executor.part, opcode) | {"vertices": 0})


@cocotb.test()
async def addresses_that_are_not_used_are_not_checked(dut: Any) -> None:
    """Name no offsets to a dense command, no other factors to any, and no own rows to one that has none."""
    executor = await make(dut)
    fields = {"sparse": 0, "kind": 0, "f_in": 1, "feature_offsets": 0xFFFFFFFF, "scales_destination": 0xFFFFFFFF}
    await executor.run(Opcode.COMBINE, command(executor.part, Opcode.COMBINE) | fields)
    fields = {"rooted": 0, "own": 0xFFFFFFFF}
    await executor.run(Opcode.AGGREGATE, command(executor.part, Opcode.AGGREGATE) | fields)


@cocotb.test()
async def every_bit_of_the_number_of_vertices_counts(dut: Any) -> None:
    """With all units idle and one result missing too many, the command is still under way."""
    executor = await make(dut)
    units = executor.units
    for bit in range(1, 32):
        fields = command(executor.part, Opcode.COMBINE) | {"vertices": 1 << bit}
        units.pending = steps(Opcode.COMBINE, fields, 0)
        await executor.send(Opcode.COMBINE, fields, 0)
        await _started(executor)
        await executor.part.bench.cycles(min(bit, 2) - 1)
        units.left = units.reading = 0
        await executor.part.bench.cycles(8)
        assert not units.answers
        executor.part.drive("errors__0", [{"code": Error.OFFSET_ORDER, "info": bit}])
        assert await executor.answer() == {"code": Error.OFFSET_ORDER, "info": bit}


@cocotb.test()
async def many_vertices_are_counted(dut: Any) -> None:
    executor = await make(dut)
    await executor.run(Opcode.COMBINE, command(executor.part, Opcode.COMBINE) | {"vertices": 700})


@cocotb.test()
async def each_phase_takes_the_expected_cycles(dut: Any) -> None:
    executor = await make(dut)
    one = {"vertices": 1, "f_in": 1, "f_out": 1, "tiles": 1, "sources": 1, "row_granules": 1}
    for opcode in OPCODES:
        known = {field.name for field in COMMANDS[opcode].fields}
        fields = {name: 0 for name in known if name not in ("opcode", "layer", "tag")}
        fields = {name: one.get(name, 0) for name in fields if not name.startswith("reserved")}
        executor.units.tails = ((0, 0),)
        began = executor.part.bench.cycle
        await executor.run(opcode, fields)
        cycles = executor.part.bench.cycle - began
        expect_cycles(f"chiplet.executor.{opcode.name.lower()}.{parameters()['configuration']}", cycles)


def refusals(part: Part) -> list[tuple[Opcode, dict[str, int], int, int]]:
    """Opcode, wrong operands, base, and the operand that is reported."""
    pe, limit = config(), line_limit(part)
    found: list[tuple[Opcode, dict[str, int], int, int]] = []
    for opcode in OPCODES[1:]:
        found += [(opcode, {"f_out": value}, 0, value) for value in (0, pe.max_out + 1, 0x8000 + 1)]
        lines = LINES[opcode]
        if limit < 1 << 32:
            found += [(opcode, {name: limit, "sparse": 1, "rooted": 1}, 0, limit) for name in lines]
            found += [(opcode, {name: 0xFFFFFFFF, "sparse": 1, "rooted": 1}, 0, 0xFFFFFFFF) for name in lines]
        found += [(opcode, {name: limit - 5, "sparse": 1, "rooted": 1}, 5, limit - 5) for name in lines]
    for opcode in (Opcode.LOAD_WEIGHTS, Opcode.COMBINE):
        most = pe.weight_rows >> ((pe.max_out - 1) // pe.lanes).bit_length()
        found += [(opcode, {"f_in": value}, 0, value) for value in (0, pe.weight_rows + 1, 1 << 31)]
        found += [(opcode, {"f_in": most + 1, "f_out": pe.max_out}, 0, most + 1)]
    found += [(Opcode.COMBINE, {"vertices": 0xFFFFFFFF}, 0, 0xFFFFFFFF)]
    every = {"first_vertex": 0, "first_source": 0, "sources": 0xFFFFFFFF}
    for vertices, tiles in ((0xFFFFFFFF, 1), (0x80000000, 2), (0x7FFFFFFF, 3), (0x02000000, 128), (0x01010101, 255)):
        found += [(Opcode.AGGREGATE, {**every, "vertices": vertices, "tiles": tiles}, 0, vertices)]
    # Every bit of what is compared.
    for bit in range(32):
        one, few = 1 << bit, {"vertices": 1, "tiles": 1}
        if pe.max_out < one < 1 << 16:
            found += [(opcode, {"f_out": one}, 0, one) for opcode in OPCODES[1:]]
        if pe.weight_rows < one:
            found += [(opcode, {"f_in": one}, 0, one) for opcode in (Opcode.LOAD_WEIGHTS, Opcode.COMBINE)]
        found += [(Opcode.AGGREGATE, {**few, "first_vertex": one - 1, "first_source": one, "sources": 9}, 0, one - 1)]
        found += [(Opcode.AGGREGATE, {**few, "first_vertex": one, "sources": one}, 0, one)]
        if bit:
            found += [(Opcode.AGGREGATE, {"vertices": one, "tiles": 1, "sources": one - 1}, 0, 0)]
        if limit <= one:
            used = {"sparse": 1, "rooted": 1}
            found += [(opcode, {name: one, **used}, 0, one) for opcode in OPCODES[1:] for name in LINES[opcode]]
    wide = {"f_out": pe.max_out, "row_granules": granules(pe.max_out)}
    digits = {"kind": Combination.DIGITS, "f_in": 1, "f_out": 1, "row_granules": 3, "first_granule": 0}
    if pe.weight_rows > DIGIT_FEATURES:
        found += [(Opcode.COMBINE, digits | {"f_in": DIGIT_FEATURES + 1}, 0, DIGIT_FEATURES + 1)]
    found += [
        (Opcode.COMBINE, {"kind": 3}, 0, 3),
        (Opcode.COMBINE, {"kind": Combination.SUM, "sparse": 1}, 0, 2),
        (Opcode.COMBINE, digits | {"row_granules": 2}, 0, 2),
        (Opcode.COMBINE, digits | {"first_granule": 1}, 0, 3),
        (Opcode.COMBINE, digits | {"first_granule": 0xFFF, "row_granules": 0x1001}, 0, 0x1001),
        (
            Opcode.COMBINE,
            digits | {"f_out": pe.max_out, "row_granules": 3 * granules(pe.max_out) - 1},
            0,
            3 * granules(pe.max_out) - 1,
        ),
        (Opcode.AGGREGATE, {"row_granules": 0}, 0, 0),
        (Opcode.AGGREGATE, wide | {"first_granule": 1}, 0, granules(pe.max_out)),
        (Opcode.AGGREGATE, {"row_granules": 0xFFF, "first_granule": 0xFFF}, 0, 0xFFF),
        (Opcode.AGGREGATE, {"tiles": 0}, 0, 0),
        (Opcode.AGGREGATE, {"weighted": 1, "edge_count": 1 << 31}, 0, 1 << 31),
        (Opcode.AGGREGATE, {"first_vertex": 9, "first_source": 10, "vertices": 1, "sources": 0xFFFFFFFF}, 0, 9),
        (Opcode.AGGREGATE, {"first_vertex": 12, "first_source": 10, "vertices": 4, "sources": 5}, 0, 12),
        (
            Opcode.AGGREGATE,
            {"first_vertex": 0xFFFFFFFF, "first_source": 0, "vertices": 1, "sources": 0xFFFFFFFF},
            0,
            0xFFFFFFFF,
        ),
        (Opcode.AGGREGATE, {"first_vertex": 0, "first_source": 0x80000000, "vertices": 1, "sources": 9}, 0, 0),
    ]
    return found


@cocotb.test()
async def wrong_operands_are_refused(dut: Any) -> None:
    executor = await make(dut)
    for opcode, wrong, base, value in refusals(executor.part):
        known = {field.name for field in COMMANDS[opcode].fields}
        low = {"f_in": 1, "f_out": 1, "vertices": 1, "tiles": 1, "sources": 1, "row_granules": 1, **wrong}
        await executor.send(opcode, {name: number for name, number in low.items() if name in known}, base)
        assert await executor.answer() == {"code": Error.BAD_OPERAND, "info": value}, f"{opcode.name} {wrong}"
    assert executor.units.starts <= len(refusals(executor.part))


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.7])
async def operands_up_to_the_limits_are_carried_out(dut: Any, stall: float) -> None:
    """Break a command of 2^32 - 2 segments off with an error: it was not refused."""
    executor = await make(dut, stall=stall)
    every = {
        "first_vertex": 0,
        "first_source": 0,
        "sources": 0xFFFFFFFF,
        "f_out": 1,
        "edge_count": 0,
        "row_granules": 1,
    }
    for opcode, fields in (
        (Opcode.COMBINE, {"f_in": 1, "f_out": 1, "vertices": 0xFFFFFFFE, "sparse": 1}),
        (Opcode.AGGREGATE, {**every, "vertices": 0xFFFFFFFE, "tiles": 1}),
        (Opcode.AGGREGATE, {**every, "vertices": 0x7FFFFFFF, "tiles": 2}),
        (Opcode.AGGREGATE, {**every, "vertices": 0x08421084, "tiles": 31}),
        (Opcode.AGGREGATE, {**every, "vertices": 0x01010100, "tiles": 255}),
    ):
        zero = {field.name: 0 for field in COMMANDS[opcode].fields if not field.name.startswith(("reserved", "opcode"))}
        fields = {**zero, **fields}
        executor.units.pending = steps(opcode, fields, 0)
        await executor.send(opcode, fields, 0)
        await _started(executor)
        executor.part.drive("errors__0", [{"code": Error.OFFSET_ORDER, "info": 1}])
        assert await executor.answer() == {"code": Error.OFFSET_ORDER, "info": 1}


async def _started(executor: Executor) -> None:
    for _ in range(60):
        await executor.part.bench.edge
        if executor.units.left:
            return
    raise AssertionError("the command was not started")


@cocotb.test()
async def unknown_opcodes_are_refused(dut: Any) -> None:
    executor = await make(dut)
    for opcode in (4, 5, 128, 129, 255, *(code for code in Opcode if code not in OPCODES)):
        await executor.send(opcode, {}, 0)
        assert await executor.answer() == {"code": Error.BAD_OPCODE, "info": opcode}


@cocotb.test()
async def opcode_and_layer_are_shown_while_a_command_is_under_way(dut: Any) -> None:
    executor = await make(dut)
    part = executor.part
    executor.part.pace(stall={"executed": 1.0})
    for opcode in OPCODES[1:]:
        assert part.get("opcode") == Opcode.NOP
        assert part.handle("command__ready").value
        fields = command(part, opcode)
        executor.units.pending = steps(opcode, fields, 0)
        await executor.send(opcode, fields, 0)
        for cycle in range(400):
            await part.bench.edge
            assert cycle < 4 or (part.get("opcode"), part.get("layer")) == (opcode, executor.layer)
            assert cycle < 4 or not part.handle("command__ready").value
            if part.handle("executed__valid").value:
                break
        part.pace(stall={"executed": 0.0})
        await executor.answer()
        part.pace(stall={"executed": 1.0})
        await part.bench.cycles(3)


def error(part: Part) -> dict[str, int]:
    return {"code": part.random.randrange(1, 256), "info": part.random.getrandbits(32)}


async def broken_off(executor: Executor, opcode: Opcode, inject: Sequence[Sequence[int]]) -> None:
    """Start a command, report errors from groups of sources in successive cycles, and expect the first."""
    part, units = executor.part, executor.units
    fields = command(part, opcode)
    units.pending = steps(opcode, fields, 0)
    units.paused = True
    clears, halted = units.clears, units.halted
    await executor.send(opcode, fields, 0)
    await _started(executor)
    await part.bench.cycles(part.random.randrange(1, 6))
    first = None
    units.unanswered, units.writing = part.random.choice(((0, 0), (5, 0), (0, 6), (3, 3)))
    waits = units.unanswered + units.writing
    for sources in inject:
        for source in sources:
            said = error(part)
            if first is None or (sources is inject[0] and source < min(inject[0])):
                first = said
            if sources is inject[0] and source == min(inject[0]):
                first = said
            part.drive(f"errors__{source}", [said])
        await part.bench.edge
    assert await executor.answer() == first
    assert units.clears == clears + 1
    assert units.halted - halted >= 2
    assert waits or units.halted - halted <= SOON
    units.paused, units.pending, units.step = False, [], None


@cocotb.test()
@cocotb.parametrize(opcode=OPCODES[1:])
async def the_first_error_breaks_a_command_off(dut: Any, opcode: Opcode) -> None:
    executor = await make(dut, 0.5)
    for source in range(ERROR_SOURCES):
        await broken_off(executor, opcode, [[source]])
        await broken_off(executor, opcode, [[source], [other for other in range(ERROR_SOURCES) if other != source]])
    await broken_off(executor, opcode, [[2, 1]])
    await broken_off(executor, opcode, [[0, 1, 2]])
    executor.units.clears = executor.units.halted = 0
    await executor.run(opcode, command(executor.part, opcode))


@cocotb.test()
async def an_error_with_the_last_answer_counts(dut: Any) -> None:
    """Report in each cycle, so also in the one in which the write port becomes idle."""
    executor = await make(dut)
    part, units = executor.part, executor.units
    fields = command(part, Opcode.COMBINE) | {"vertices": 3}
    for delay in range(12):
        units.pending = steps(Opcode.COMBINE, fields, 0)
        units.halted = units.clears = 0
        part.random.seed(4)
        await executor.send(Opcode.COMBINE, fields, 0)
        await _started(executor)
        await part.bench.cycles(delay + 1)
        part.drive("errors__1", [{"code": Error.MEMORY_WRITE, "info": delay}])
        said = await executor.answer()
        done = said["code"] == Error.NONE
        assert said == ({"code": 0, "info": 0} if done else {"code": Error.MEMORY_WRITE, "info": delay})
        # As long as it works, it listens; afterwards the report belongs to nobody.
        assert not done or delay > 3
        await part.bench.cycles(4)
    assert done


@cocotb.test()
async def reports_between_commands_belong_to_nobody(dut: Any) -> None:
    executor = await make(dut)
    part = executor.part
    for source in range(ERROR_SOURCES):
        part.drive(f"errors__{source}", [error(part)])
        await part.bench.cycles(3)
        await executor.run(Opcode.NOP, {})
        part.pace(stall={"executed": 1.0})
        await executor.send(Opcode.NOP, {}, 0)
        await part.bench.cycles(8)
        part.drive(f"errors__{source}", [error(part)])
        await part.bench.cycles(3)
        part.pace(stall={"executed": 0.0})
        assert await executor.answer() == {"code": Error.NONE, "info": 0}


@cocotb.test()
async def reset_in_the_middle_is_followed_by_right_commands(dut: Any) -> None:
    executor = await make(dut, 0.5)
    units = executor.units
    for number in range(9):
        opcode = OPCODES[1 + number % 3]
        fields = command(executor.part, opcode)
        units.pending = steps(opcode, fields, 0)
        await executor.send(opcode, fields, 0)
        await executor.part.bench.cycles(executor.part.random.randrange(2, 40))
        units.away = True
        await executor.part.bench.reset()
        await clears_its_units(executor.part)
        units.pending, units.step, units.away = [], None, False
        units.left = units.reading = units.writing = 0
        units.answers.clear()
        await executor.run(opcode, command(executor.part, opcode))


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_executor(configuration: str) -> None:
    assert ROW_BYTES * 8 % VALUE_BITS == 0
    simulate_parts(configuration, __name__)


def test_executor_proofs() -> None:
    prove_all("executor", PROOFS)
