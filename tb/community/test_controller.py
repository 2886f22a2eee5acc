"""Controller: what each command says to all others and when, what it refuses, what goes wrong, locations again."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import cocotb
import pytest

from contracts import COMMANDS, DIGIT_FEATURES, Activation, Combination, Error, Opcode
from contracts.weights import WEIGHT_PAGES, page_bits
from hw.community import factories
from hw.community.controller import Controller
from hw.community.feature_reader import FeatureSettings
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.locator.formats import location_command
from hw.memory.formats import RangeRequest, beat_address_width, line_address_width
from sim.harness import parameters, simulate, stream_ports
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec, codec
from sim.harness.expected import expect_cycles
from tb.harness.marks import full

Fields = dict[str, int]
#: Sizes: usual ones and narrow ones; rows of weights for more features than an index can name.
WHOLE = {"lanes": 4, "width": 16, "columns": 64, "max_out": 21, "weight_rows": 64, "data_width": 128}
DEFAULT: dict[str, Any] = {**WHOLE, "nodes": 100, "address_width": 32, "error_sources": 4}
NARROW = {"lanes": 2, "width": 8, "columns": 16, "max_out": 5, "weight_rows": 16, "data_width": 64}
NARROW |= {"nodes": 12, "address_width": 16, "error_sources": 2}
LARGE: dict[str, Any] = {**DEFAULT, "weight_rows": 1 << 17, "max_out": 70, "nodes": 1 << 16, "address_width": 40}

NOTHING = {"code": 0, "info": 0}
#: Cycles in a row without anything on its way, after which all is done.
QUIET = 7
#: Cycles for which table and hubs are ready before work begins.
SETTLED = 2
#: What others say from cycle to cycle, and what they say when all is done.
CALM = {
    "ready": 1, "records_ended": 1, "records_asking": 0, "records_busy": 0, "writing": 0, "vertices_ended": 1,
}  # fmt: skip
#: What is looked at in every cycle, 0 unless something is said of it.
WATCHED = (
    "command__ready", "executed__valid", "locate__valid", "replay", "located__ready", "load__valid",
    "weights_there", "skip_weights", "start", "table_start", "open", "finish", "discard", "opcode", "layer",
    "behind", "ahead", "turn", "making",
)  # fmt: skip
#: What a PE combines.
SPARSE, DENSE, _, DIGITS = range(4)
#: Lines that a LOCATE names, and all that makes it another location.
LINES = ("offsets", "edges", "state")
QUESTION = (
    "first_vertex", "vertices", "offsets", "edges", "edge_count", "halving", "by_degrees", "threshold",
    "step", "rounds", "c_max", "h_max",
)  # fmt: skip


def masked(layout: Any, **values: int) -> tuple[int, int]:
    """Return the bits of the named fields, as a mask, and their values."""
    made = codec(layout)
    assert made.fields is not None
    mask = sum(part.mask << offset for name, offset, part in made.fields if name in values)
    return mask, made.pack(values)


def granules_of(elements: int) -> int:
    """Return the granules of a row."""
    return -(-elements // 16)


def _combines(fields: Fields) -> bool:
    """Whether a PROCESS combines some of its vertices."""
    return not fields["combined"] or fields["ahead"] != fields["vertices"]


@dataclass
class Found:
    """A location: what the locator is asked, whether it has begun and ended, and its error."""

    asked: Fields
    begun: bool
    answered: bool
    report: Fields


class World:
    """All that is around a controller, at random, and what the controller must say to it in every cycle."""

    def __init__(self, bench: Bench, design: Controller) -> None:
        self.bench, self.dut, self.rng, self.design = bench, bench.dut, bench.random, design
        self.config, self.sources = design.config, len(design.errors)
        self.reports = codec(ErrorReport)
        self.asks = codec(location_command(design.address_width))
        self.lines = 1 << line_address_width(design.address_width)
        self.pace()
        self.inputs: dict[str, int] = {}
        self._forget_all()

    # What is around it.

    def pace(
        self, *, trouble: float = 0.0, mend: float = 1.0, willing: float = 1.0, faults: float = 0.0, lost: float = 0.0
    ) -> None:
        """Say how often others get busy in a cycle and are done, take and give, fail, and do not find communities."""
        self.trouble, self.mend, self.willing, self.faults, self.lost = trouble, mend, willing, faults, lost
        #: Cycles from now on in which an error is told, and by which source.
        self.told: dict[int, int] = {}

    def _forget_all(self) -> None:
        """Everything as after a reset."""
        self.report, self.unloaded = NOTHING, NOTHING
        self.f_in = self.f_out = self.located_vertices = 0
        #: The location whose records are used, and the one behind it.
        self.locations: list[Found] = []
        self.kept = False
        #: Whether the last weights were not refused.
        self.weights = False
        # Pages of the weight memories with whole weights, and the page that is loaded.
        self.whole: set[int] = set()
        self.page = 0
        # Whether an error of the weights is still to be told; what the last load said of own rows.
        self.follows, self.own_page, self.own_shift = False, 0, 0
        self.found: Fields = {}
        self.quiet = 0
        self.loading: Generator[Fields, dict[str, int]] | None = None
        self.load_says = {"weights_there": 1}
        self.load_starts, self.pending, self.request = False, 0, (0, 0)
        self.of_load: dict[str, tuple[int, int]] = {}
        self.of_weights: Fields = {}
        self.frozen = False
        for port in ("command", "located", *(f"errors__{n}" for n in range(self.sources))):
            self._put(f"{port}__valid", 0)
        for port in ("locate", "load", "executed"):
            self._put(f"{port}__ready", 0)
        for port, level in CALM.items():
            self._put(port, level)
        for port in ("loaded", "forget", "records_there", "records_whole", "sending"):
            self._put(port, 0)
        self._put("base", self.rng.randrange(self.lines // 2))

    @property
    def locating(self) -> bool:
        """Whether there are records to use, or will be."""
        return bool(self.locations)

    @property
    def answered(self) -> bool:
        """Whether the location whose records are used has ended."""
        return self.locating and self.locations[0].answered

    @property
    def ahead(self) -> bool:
        """Whether the location behind that one has begun."""
        return len(self.locations) > 1 and self.locations[1].begun

    def _busy(self) -> Found | None:
        """Return what the locator is at work on."""
        return next((found for found in self.locations if found.begun and not found.answered), None)

    def _offered(self) -> Found | None:
        """Return the location that waited, and begins as soon as the locator takes it."""
        waiting = next((found for found in self.locations if not found.begun), None)
        return waiting if self.inputs["records_there"] and not self._busy() else None

    def _end(self) -> Found:
        """Take the next location, and return the one before."""
        ended = self.locations.pop(0)
        if self.locations:
            self.located_vertices = self.locations[0].asked["vertices"]
        return ended

    async def reset(self) -> None:
        """Reset in the middle of all."""
        self._forget_all()
        await self.bench.reset()

    def _put(self, port: str, value: int) -> None:
        if self.inputs.get(port) != value:
            self.inputs[port] = value
            getattr(self.dut, port).value = value

    def chance(self, probability: float) -> bool:
        """Decide."""
        return self.rng.random() < probability

    def some_report(self) -> Fields:
        """Return an error: often with one bit in its code."""
        code = 1 << self.rng.randrange(8) if self.chance(0.5) else self.rng.randrange(1, 256)
        return {"code": code, "info": self.rng.getrandbits(32)}

    def _choose(self, taken: bool) -> None:
        """Say something for the next cycle; whether the last answer of the locator was `taken`."""
        for port, good in CALM.items():
            level = self.inputs[port]
            if self.chance(self.trouble if level == good else self.mend):
                self._put(port, level ^ 1)
        if not self.frozen:
            self._put("records_whole", int(self.chance(0.8)))
        # They are there some time after the locator has ended, and stay.
        there = self.inputs["records_there"] or self.chance(self.willing)
        self._put("records_there", int(there and self._busy() is None))
        if taken or not self.inputs["located__valid"]:
            self._put("located__valid", int(self.chance(self.willing)))
            self.told_location = self.some_report() if self.chance(self.lost) else NOTHING
            self._put("located__payload", self.reports.pack(self.told_location))
        for port in ("locate__ready", "load__ready", "executed__ready"):
            self._put(port, int(self.chance(self.willing)))
        self._put("loaded", int(self.pending > 0 and self.chance(self.willing)))
        self.told = {cycle - 1: source for cycle, source in self.told.items() if cycle}
        for n in range(self.sources):
            self._put(f"errors__{n}__valid", int(self.chance(self.faults) or self.told.get(0) == n))
            self._put(f"errors__{n}__payload", self.reports.pack(self.some_report()))

    def _error(self) -> Fields | None:
        """Return what the first source says."""
        for n in range(self.sources):
            if self.inputs[f"errors__{n}__valid"]:
                return self.reports.unpack(self.inputs[f"errors__{n}__payload"])
        return None

    # A cycle.

    async def step(self, *, working: bool = False, still: Any = None, **says: Any) -> None:
        """Let a cycle pass, in which the controller `says` this and nothing else.

        Payloads are compared where it says that they are valid. While it is `working` the first error counts. `still`:
        from what others say, whether nothing moves.
        """
        busy, offered = self._busy(), self._offered()
        wanted = {**self.load_says, "located__ready": int(busy is not None), **says}
        wanted |= {"behind": int(len(self.locations) > 1), "ahead": int(self.ahead)}
        if offered:
            wanted |= {"locate__valid": 1, "locate": offered.asked}
        await self.bench.edge
        for port in WATCHED:
            value = int(getattr(self.dut, port).value)
            assert value == wanted.get(port, 0), f"{port} is {value}, expected {wanted.get(port, 0)}"
        for port in ("executed", "locate"):
            if f"{port}__valid" in wanted:
                made: Codec = self.reports if port == "executed" else self.asks
                said = made.unpack(int(getattr(self.dut, f"{port}__payload").value))
                assert {name: said[name] for name in wanted[port]} == wanted[port]
        if wanted.get("load__valid"):
            request = codec(RangeRequest(self.design.address_width)).unpack(int(self.dut.load__payload.value))
            assert (request["address"], request["words"]) == self.request
        if self.loading:
            self._compare(self.of_load)
        self._compare(self._of_records())
        self._pass(working, busy)
        if offered and self.inputs["locate__ready"]:
            offered.begun = True
        self.quiet = min(self.quiet + 1, QUIET) if still is not None and still(self.inputs) else 0
        self._choose(bool(busy and self.inputs["located__valid"]))

    def _of_records(self) -> dict[str, tuple[int, int]]:
        """Return the vertices of records that come: of the location that began last."""
        begun = [found.asked for found in self.locations if found.begun]
        names = {"first_located": "first_vertex", "vertices_located": "vertices", "arrival_located": "arrival"}
        return {port: (0xFFFFFFFF, begun[-1][name]) for port, name in names.items() if begun}

    def _compare(self, fixed: dict[str, tuple[int, int]]) -> None:
        for port, (mask, value) in fixed.items():
            found = int(getattr(self.dut, port).value) & mask
            assert found == value, f"{port} is {found:#x}, expected {value:#x}"

    def _pass(self, working: bool, busy: Found | None) -> None:
        """Keep what the cycle leaves behind."""
        error = self._error()
        if error and working and not self.report["code"]:
            self.report = error
        if error and self.loading and not self.load_starts and not self.unloaded["code"]:
            self.unloaded = error
        if self.inputs["forget"]:
            self.kept = False
        if busy and self.inputs["located__valid"]:
            busy.answered, busy.report = True, self.told_location
            self.kept = self.kept and not busy.report["code"]
        if self.loading:
            self.load_starts = False
            try:
                self.load_says = self.loading.send(self.inputs)
            except StopIteration:
                self.loading, self.load_says = None, {"weights_there": 1}
                if not self.unloaded["code"]:
                    self.whole.add(self.page)

    def _load(self, *requests: tuple[int, int, int]) -> Generator[Fields, dict[str, int]]:
        """Ask for one thing right behind the other, and see all of it written; first comes the cycle of the start."""
        yield {} if len(requests) > 1 else {"skip_weights": 1}
        left = sum(count for *_, count in requests)
        waiting = list(requests)
        while waiting or left:
            self.request = waiting[0][:2] if waiting else (0, 0)
            now = yield {"load__valid": 1} if waiting else {}
            left -= now["loaded"]
            self.pending -= now["loaded"]
            if waiting and now["load__ready"]:
                self.pending += waiting.pop(0)[2]
        yield {}

    # Addresses.

    def line(self, number: int) -> int:
        """Return the line of the memory that a command means."""
        return self.inputs["base"] + number

    def words(self, number: int) -> int:
        """Return its address in words."""
        return self.line(number) * 16 % (self.lines * 16)

    def beats(self, number: int, granules: int = 0) -> int:
        """Return the address in beats of a place so many granules behind its start."""
        width = beat_address_width(self.design.address_width, self.config.data_width)
        beats = self.line(number) * (512 // self.config.data_width) + granules * self.beats_of_granule
        return beats % (1 << width)

    @property
    def beats_of_granule(self) -> int:
        """Beats of 32 bytes."""
        return 256 // self.config.data_width

    # Commands.

    async def idle(self, cycles: int, *, forget: bool = False, base: bool = False) -> None:
        """Let cycles pass between two commands; the memory may have changed, and its place."""
        for cycle in range(cycles):
            self._put("forget", int(forget and cycle == 0))
            if base and cycle == 0:
                self._put("base", self.rng.randrange(self.lines // 2))
            await self.step(command__ready=1)
        self._put("forget", 0)

    async def command(self, opcode: int, **operands: int) -> Fields:
        """Give a command with the others of its operands at random, follow it to its end, and return its answer."""
        layout = struct(COMMANDS[Opcode(opcode)]) if opcode in COMMANDS else struct(COMMANDS[Opcode.NOP])
        fields = codec(layout).unpack(self.rng.getrandbits(512))
        if opcode in COMMANDS:
            # Lines that the memory port reaches, and an operand holds.
            lines = self.lines - self.inputs["base"]
            fields |= {
                f.name: self.rng.randrange(min(lines, 1 << f.bits)) for f in COMMANDS[Opcode(opcode)].fields if f.line
            }
        # What most tests do not ask for.
        fields |= {name: 0 for name in ("page", "resident", "table") if name in fields}
        fields |= {name: WEIGHT_PAGES - 1 for name in ("own_page",) if name in fields}
        fields |= operands | {"opcode": opcode}
        self._put("command__payload", codec(layout).pack(fields))
        self._put("command__valid", 1)
        # Rows may still go round a ring; COMBINE waits.
        self._put("sending", int(self.trouble > 0 and self.chance(0.2)))
        await self.step(command__ready=1)
        self._put("command__valid", 0)
        self._put("command__payload", self.rng.getrandbits(512))
        self.cycles = -self.bench.cycle
        self.head, self.fields = {"opcode": opcode, "layer": fields["layer"]}, fields
        self.report = NOTHING
        carry_out = {
            Opcode.NOP: self._nop,
            Opcode.LOAD_WEIGHTS: self._load_weights,
            Opcode.LOCATE: self._locate,
            Opcode.COMBINE: self._combine,
            Opcode.PROCESS: self._process,
        }.get(Opcode(opcode) if opcode in set(Opcode) else Opcode.COPY, self._unknown)
        await carry_out(fields)
        self._put("sending", 0)
        taken = 0
        while not taken:
            taken = self.inputs["executed__ready"]
            await self._go(executed__valid=1, executed=self.report)
        self.cycles += self.bench.cycle
        return self.report

    async def _go(self, **says: Any) -> None:
        await self.step(**self.head, **says)

    async def _nop(self, _: Fields) -> None:
        await self._go()

    async def _unknown(self, fields: Fields) -> None:
        await self._go()
        await self._refuse(fields["opcode"], Error.BAD_OPCODE)

    async def _refuse(self, info: int, code: Error = Error.BAD_OPERAND) -> None:
        self.report = {"code": code, "info": info & 0xFFFFFFFF}
        await self._close()

    async def _close(self) -> None:
        """Throw away the records of a location if something went wrong, and wait for weights that still come."""
        self.quiet = 0
        while self.locating and self.report["code"]:
            done = self.quiet == QUIET
            turn = int(done and self.ahead)
            ended = self.answered
            await self._go(discard=1, turn=turn, still=lambda now, ended=ended: ended and now["records_ended"])
            if done:
                self._end()
                self.quiet = 0
        await self._go_until_loaded()
        self.follows = False

    async def _go_until_loaded(self, **says: Any) -> None:
        """Until no weights come; a cycle at least."""
        busy = True
        while busy:
            busy = self.loading is not None
            await self._go(**says)

    async def _refused(self, opcode: Opcode, bad: list[int]) -> bool:
        """Decide in the fourth cycle: whether an operand is bad, of several the first, or then an address."""
        for _ in range(3):
            await self._go()
        fields = self.fields
        used = {field.name for field in COMMANDS[opcode].fields if field.line} - self._unused(opcode, fields)
        for field in COMMANDS[opcode].fields:
            if field.name in used and self.line(fields[field.name]) >= self.lines:
                bad = [*bad, fields[field.name]]
        if bad:
            await self._go()
            self.weights = self.weights and opcode != Opcode.LOAD_WEIGHTS
            await self._refuse(bad[0])
        return bool(bad)

    @staticmethod
    def _unused(opcode: Opcode, fields: Fields) -> set[str]:
        """Return the addresses that a command does not use."""
        if opcode == Opcode.COMBINE:
            unused = {"feature_offsets": not fields["sparse"], "scales_destination": fields["table"] == 0}
            return {name for name, is_unused in unused.items() if is_unused}
        if opcode == Opcode.PROCESS:
            combines = _combines(fields)
            placed = fields["positions"] if fields["combined"] else 0
            used = {
                "features": combines or fields["rooted"],
                "feature_offsets": placed or (fields["sparse"] and combines),
                "scales_source": combines,
                "rows": fields["combined"],
            }
            return {name for name, use in used.items() if not use}
        return set()

    async def _load_weights(self, fields: Fields) -> None:
        config = self.config
        f_in, f_out = fields["f_in"], fields["f_out"]
        chunks = max(1, -(-f_out // config.lanes))
        spacing = next(1 << n for n in range(20) if 1 << n >= chunks)
        bad = [] if 1 <= f_out <= config.max_out else [f_out]
        bad += [] if 1 <= f_in <= min(config.weight_rows // spacing, 1 << 16) else [f_in]
        bits, page, last = page_bits(config.weight_rows), fields["page"], f_in * spacing - 1
        inner = (1 << (last >> bits).bit_length()) - 1
        away = page & inner or (page << bits | last) >= config.weight_rows
        bad += [page] if away or (fields["resident"] and page not in self.whole) else []
        if await self._refused(Opcode.LOAD_WEIGHTS, bad):
            return
        await self._go_until_loaded()
        self.f_in, self.f_out, self.weights = f_in, f_out, True
        self.own_page, self.own_shift = fields["own_page"], fields["own_shift"]
        granules = granules_of(f_out)
        self.of_weights = {
            "f_in": f_in,
            "f_out": f_out,
            "last_chunk": chunks - 1,
            "chunk_shift": spacing.bit_length() - 1,
        }
        self.of_load = {
            "row_beats": (0xFF, granules * 256 // config.data_width),
            "first_weight": (-1, page << bits),
            "first_own": (-1, (self.own_page << bits) % config.weight_rows),
            "settings": masked(config.settings, f_out=f_out, last_chunk=chunks - 1),
            "combination": masked(config.pe.settings, **self.of_weights),
        }
        rows = (self.words(fields["weights"]), f_in * granules * 8, f_in)
        asked = [rows, (self.words(fields["biases"]), f_out, f_out)][fields["resident"] :]
        self.page = page
        if not fields["resident"]:
            self.whole -= {n for n in range(WEIGHT_PAGES) if (n ^ page) & ~inner == 0}
        self.loading = self._load(*asked)
        self.load_says, self.load_starts = next(self.loading), True
        self.unloaded = self.unloaded if self.follows else NOTHING
        self.follows = self.locating
        await self._go()
        if not self.locating:
            await self._go_until_loaded(working=True)
            await self._close()

    async def _locate(self, fields: Fields) -> None:
        if await self._refused(Opcode.LOCATE, [Opcode.LOCATE] * (len(self.locations) > 1)):
            return
        # Accepted, and asked for from the next cycle on.
        await self._go()
        # An address that is not used is not checked.
        asked = {**fields, **{name: self.line(fields[name]) % self.lines for name in LINES}}
        asked = {name: value for name, value in asked.items() if name != "tag" and not name.startswith("reserved")}
        question = {name: asked[name] for name in QUESTION}
        # No record comes to be there while no location goes on.
        self.frozen = True
        again = bool(self.kept and self.inputs["records_whole"] and question == self.found and not self.locating)
        self.replayed = again
        if again or self.locating:
            await self._go(replay=int(again))
        taken = again or self.locating
        while not taken:
            taken = bool(self.inputs["locate__ready"])
            await self._go(locate__valid=1, locate=asked)
        self.frozen = False
        self.found, self.kept = question, True
        if not self.locating:
            self.located_vertices = fields["vertices"]
        self.locations.append(Found(asked, begun=not self.locating, answered=again, report=NOTHING))

    def bad_combine(self, fields: Fields) -> list[int]:
        """Return the operands of COMBINE that are bad; the first one is reported."""
        kind = fields["kind"]
        wrong = {"f_out": fields["f_out"] != self.f_out or not self.weights}
        wrong |= {"f_in": fields["f_in"] != self.f_in and kind != Combination.SUM}
        if kind == Combination.DIGITS:
            rows = 3 * granules_of(self.f_out)
            wrong |= {"row_granules": fields["first_granule"] + rows > fields["row_granules"]}
        bad = [fields[name] for name, is_wrong in wrong.items() if is_wrong]
        if kind == Combination.DIGITS and self.f_in > DIGIT_FEATURES:
            bad.append(self.f_in)
        bad += [kind] * bool(kind > Combination.SUM or (kind == Combination.SUM and fields["sparse"]))
        bad += [fields["vertices"]] * (fields["vertices"] > self.design.nodes)
        fits = fields["vertices"] <= fields["table"] <= self.design.nodes
        return bad + [fields["table"]] * (fields["table"] != 0 and not fits)

    def bad_process(self, fields: Fields) -> list[int]:
        """Return the operands of PROCESS that are bad."""
        vertices = fields["vertices"]
        wrong: list[int] = [Opcode.PROCESS] * (not self.locating)
        fits = vertices == self.located_vertices if _combines(fields) else vertices <= self.located_vertices
        wrong += [vertices] * (not fits)
        wrong += [fields["ahead"]] * bool(fields["combined"] and fields["ahead"] > vertices)
        wrong += [vertices] * (vertices > self.design.nodes)
        wrong += [fields["positions"]] * bool(fields["combined"] and fields["positions"] > self.design.nodes)
        columns = fields["first_granule"] + granules_of(self.f_out)
        wrong += [fields["row_granules"]] * (columns > fields["row_granules"])
        wrong += [fields["f_in"]] * (fields["f_in"] != self.f_in)
        wrong += [fields["f_out"]] * (fields["f_out"] != self.f_out or not self.weights)
        wrong += [fields["neighbour_weight"]] * (fields["neighbour_weight"] not in (1, 256))
        there = self.own_page in self.whole or self.unloaded["code"]
        wrong += [Opcode.PROCESS] * bool(fields["rooted"] and _combines(fields) and (fields["combined"] or not there))
        return wrong[::-1]

    def _table(self, *arrays: tuple[int, int]) -> dict[str, tuple[int, int]]:
        """Return what the node table is told: lines and words; where there are no words the line does not matter."""
        fixed = {f"table_words__{n}": (0xFFFFFFFF, words) for n, (_, words) in enumerate(arrays)}
        lines = {f"table_addresses__{n}": (-1, self.words(line)) for n, (line, words) in enumerate(arrays) if words}
        return fixed | lines

    def _features(self, width: int, **values: int) -> tuple[int, int]:
        """Return what the feature readers are told: rows are padded to 32 bytes, 8 words."""
        dense = {"words": -(-width // 2), "stride": -(-width // 16) * 8}
        dense |= {"row_words": -(-self.f_out // 2), "row_stride": granules_of(self.f_out) * 8}
        layout = FeatureSettings(self.design.address_width)
        return masked(layout, **{**dense, "most": self.f_in, **values})

    async def _combine(self, fields: Fields) -> None:
        if await self._refused(Opcode.COMBINE, self.bad_combine(fields)):
            return
        while self.inputs["sending"]:
            await self._go()
            self._put("sending", int(self.chance(0.7)))
        if fields["kind"] == Combination.SUM:
            await self._go_until_loaded()
        else:
            await self._go()
        sparse, vertices, first = fields["sparse"], fields["vertices"], fields["first_row"]
        mode, digits = SPARSE if sparse else DENSE, fields["kind"] == Combination.DIGITS
        features = {"features": self.words(fields["features"]), "sparse": sparse, "combined": 0, "first": first}
        features |= {"placed": 0, "shifted": 0, "rooted": 0}
        if fields["distance"]:
            features["stride"] = 8 * fields["distance"]
        place, distance, chunks = 0, granules_of(self.f_out), -(-self.f_out // self.config.lanes)
        if digits:
            place, distance = fields["first_granule"], fields["row_granules"]
        if fields["kind"] == Combination.SUM:
            mode, chunks = DIGITS, distance * 16 // self.config.lanes
            features["words"] = 8 * fields["distance"]
        settings = {"mode": mode, "digits": int(digits), "last_chunk": chunks - 1}
        self.of_load["combination"] = masked(self.config.pe.settings, **self.of_weights | {"last_chunk": chunks - 1})
        fixed = {
            "combination": masked(self.config.pe.settings, **settings, shift=fields["shift"]),
            "features": self._features(self.f_in, **features),
            "results": (-1, self.beats(fields["combined"], place)),
            "result_beats": (-1, distance * self.beats_of_granule),
            "first_result": (-1, 0),
            **self._table(
                (fields["feature_offsets"], ((fields["table"] or vertices) + 1) * sparse),
                (fields["scales"], fields["table"] or vertices),
                (fields["scales_destination"], fields["table"]),
            ),
            "table_first": (-1, vertices),
        }
        await self._work(True, {"first": (-1, first), "vertices": (-1, vertices), **fixed})
        self.follows = False
        if self.report["code"] or self.unloaded["code"]:
            self.report = self.report if self.report["code"] else self.unloaded
            await self._close()

    async def _process(self, fields: Fields) -> None:
        if await self._refused(Opcode.PROCESS, self.bad_process(fields)):
            return
        await self._go()
        self.of_load["combination"] = masked(self.config.pe.settings, **self.of_weights)
        combined, vertices, first = fields["combined"], fields["vertices"], fields["first_vertex"]
        sparse, combines = fields["sparse"], int(_combines(fields))
        positions = fields["positions"] if combined else 0
        mode = SPARSE if sparse else DENSE
        rooted = fields["rooted"]
        own = fields["self_weight"] - (0 if rooted else fields["neighbour_weight"])
        # Where rows are means nothing without them.
        rows = {"rows": self.words(fields["rows"]), "ahead": fields["ahead"], "vertices": vertices}
        roots = {"first_own": fields["first_row"]}
        shift, own_more = fields["shift_source"], self.own_shift - fields["shift_source"]
        if rooted and combines:
            # What one shift has more of is in the factors of its rows.
            shift = min(shift, self.own_shift)
            roots = {"own_more": max(own_more, 0) % 32, "row_more": max(-own_more, 0) % 32}
        fixed = {
            "settings": masked(
                self.config.settings,
                windows=int(not fields["pairs"] and fields["window"] > 0),
                k=fields["window"],
                limit=self.config.columns if fields["pairs"] or fields["window"] else 0,
                shift=fields["shift_destination"],
                relu=int(fields["activation"] == Activation.RELU),
                bias=int(fields["activation"] != Activation.DNP),
                wide=int(fields["neighbour_weight"] == 256),
                own=own,
                rooted=rooted,
            ),
            "combination": masked(
                self.config.pe.settings,
                mode=mode,
                digits=0,
                **({} if rooted and not combines else {"shift": shift}),
            ),
            "features": self._features(
                self.f_in,
                features=self.words(fields["features"]),
                sparse=int(sparse),
                combined=combined,
                placed=int(positions > 0),
                shifted=int(positions > 0) & combines,
                first=first,
                rooted=rooted,
                **(rows if combined else {}),
                **(roots if rooted else {}),
            ),
            "results": (-1, self.beats(fields["results"], fields["first_granule"])),
            "result_beats": (-1, fields["row_granules"] * self.beats_of_granule),
            "first_result": (-1, (first - fields["first_row"]) % (1 << 32)),
            "first_partial": (-1, fields["first_partial"]),
            **self._table(
                (fields["feature_offsets"], positions + combines if positions else (vertices + 1) * sparse * combines),
                (fields["scales_source"], vertices * combines),
                (fields["scales_destination"], vertices),
            ),
        }
        await self._work(False, {"first": (-1, first), "vertices": (-1, vertices), **fixed})
        self.follows = False
        ended = self._end()
        for told in (self.report, self.unloaded, ended.report):
            if told["code"]:
                self.report = told
                break
        if self.report["code"] and self.locating:
            await self._close()

    async def _work(self, combining: bool, fixed: dict[str, tuple[int, int]]) -> None:
        """Begin, wait for table and hubs, for the records or vertices, and for the results."""
        fixed["combining"] = 1, int(combining)
        sizes = self.of_load

        async def go(still: Any, **says: Any) -> None:
            await self._go(working=True, still=still, **says)
            self._compare(fixed)
            self._compare(sizes)

        # Accepted, and set up in the next cycle.
        await self._go()
        self.quiet = 0
        await go(None, start=1, table_start=1)
        making = int(combining)
        while self.quiet < SETTLED:
            await go(lambda now: now["ready"], making=making)
        await go(lambda now: now["ready"], making=making)
        while self.quiet < QUIET:
            await go(self._still(combining), open=1, making=making)
        await go(self._still(combining), open=1, making=making)
        if not combining:
            await go(None, finish=1)
        last = False
        while not last:
            last = self.quiet == QUIET and not self.inputs["records_busy"] and not self.inputs["writing"]
            turn = int(last and not combining and self.ahead)
            await go(lambda now: not now["records_busy"] and not now["writing"], turn=turn, making=making)

    def _still(self, combining: bool) -> Any:
        """Whether all has been given out and nobody asks for more."""
        given = self.answered or combining
        idle = self.loading is None
        port = "vertices_ended" if combining else "records_ended"
        return lambda now: given and idle and now[port] and not now["records_asking"]

    # Commands that fit each other.

    def some_load(self, most: int = 9) -> Fields:
        """Return sizes of weights that fit, of few rows."""
        f_out = self.rng.choice((1, self.config.max_out, self.rng.randint(1, self.config.max_out)))
        spacing = next(1 << n for n in range(20) if (1 << n) * self.config.lanes >= f_out)
        limit = min(self.config.weight_rows // spacing, 1 << 16)
        f_in, bits = self.rng.randint(1, min(most, limit)), page_bits(self.config.weight_rows)
        # Any page in which they fit.
        inner = (1 << (f_in * spacing - 1 >> bits).bit_length()) - 1
        pages = [n for n in range(WEIGHT_PAGES) if not n & inner and n << bits < self.config.weight_rows]
        page = self.rng.choice(pages) if self.chance(0.7) else 0
        resident = int(page in self.whole and self.chance(0.5))
        own_page = self.rng.choice(sorted(self.whole - {page}) or [WEIGHT_PAGES - 1])
        return {"f_in": f_in, "f_out": f_out, "page": page, "resident": resident, "own_page": own_page}

    def some_vertices(self) -> int:
        """Return a number of vertices that fits."""
        return self.rng.choice((self.design.nodes, 1, 0, self.rng.randint(1, self.design.nodes)))

    def fitting_combine(self) -> Fields:
        """Return the operands of COMBINE that must be those of the load."""
        rows = {"f_in": self.f_in, "f_out": self.f_out, "vertices": self.some_vertices()}
        rows["table"] = self.rng.choice((0, self.rng.randint(rows["vertices"], self.design.nodes)))
        kind = self.rng.choice(list(Combination))
        distance = self.rng.choice((0, self.rng.randrange(1, 0x2000)))
        if kind == Combination.SUM:
            return rows | {"kind": kind, "sparse": 0, "f_in": self.rng.getrandbits(32), "distance": distance or 1}
        first = self.rng.choice((0, self.rng.getrandbits(11)))
        more = 3 * granules_of(self.f_out) + self.rng.choice((0, self.rng.getrandbits(11)))
        return rows | {"kind": kind, "distance": distance, "first_granule": first, "row_granules": first + more}

    def fitting_process(self) -> Fields:
        """Return the operands of PROCESS that are restricted."""
        first = self.rng.choice((0, 0, self.rng.getrandbits(11)))
        rooted = self.chance(0.4)
        # Own rows are made if their weights are there.
        combined = self.rng.randrange(2) | (rooted and self.own_page not in self.whole)
        # Where all rows are combined some vertices may be located only.
        whole = combined and (rooted or self.chance(0.5))
        vertices = self.located_vertices
        if whole and self.chance(0.5):
            vertices = self.rng.randrange(vertices + 1)
        ahead = self.rng.randrange(vertices + 1) if combined else self.rng.getrandbits(23)
        return {
            "f_in": self.f_in,
            "f_out": self.f_out,
            "vertices": vertices,
            "ahead": (vertices if whole else ahead) % (1 << 23),
            "combined": combined,
            "neighbour_weight": self.rng.choice((1, 256)),
            "first_granule": first,
            "row_granules": first + granules_of(self.f_out) + self.rng.choice((0, 0, self.rng.getrandbits(11))),
            "positions": self.rng.choice((0, 0, self.some_vertices())),
            "rooted": int(rooted),
        }

    def some_location(self) -> Fields:
        """Return the operands of a LOCATE, all of them."""
        fields: Fields = codec(struct(COMMANDS[Opcode.LOCATE])).unpack(self.rng.getrandbits(512))
        del fields["opcode"]
        # Lines that are reached from every base.
        fields |= {name: self.rng.randrange(self.lines // 2) for name in LINES}
        return fields | {"vertices": self.some_vertices()}


async def begin(dut: Any, **pace: float) -> World:
    design = factories.controller(**parameters())
    world = World(await start(dut, design, manual=[port.name for port in stream_ports(design)]), design)
    world.pace(**pace)
    return world


async def some_command(world: World, location: Fields) -> tuple[Opcode, Fields]:
    """Give a command that is most often right, after a time, and return what it was and its answer."""
    rng = world.rng
    await world.idle(rng.choice((0, 0, 1, 5)), forget=world.chance(0.1), base=world.chance(0.1))
    opcode = rng.choice((Opcode.NOP, *(Opcode.LOAD_WEIGHTS,) * 3, Opcode.COMBINE, Opcode.PROCESS))
    if world.chance((0.5, 0.3, 0.03)[len(world.locations)]):
        opcode = Opcode.LOCATE
        if world.chance(0.5):
            location.update(world.some_location())
    elif world.locating and world.chance(0.3):
        opcode = Opcode.PROCESS
    if not world.weights and world.chance(0.8):
        opcode = Opcode.LOAD_WEIGHTS
    fields = {
        Opcode.LOAD_WEIGHTS: lambda: world.some_load(rng.choice((9, 9, 9, 9, 60))),
        Opcode.COMBINE: world.fitting_combine,
        Opcode.PROCESS: world.fitting_process,
        Opcode.LOCATE: lambda: location,
    }.get(opcode, dict)()
    if world.chance(0.05) and fields:
        fields.pop(rng.choice(list(fields)), None)
    return opcode, await world.command(opcode, **fields)


@cocotb.test()
@cocotb.parametrize(trouble=[0.0, 0.02], willing=[1.0, 0.4], faults=[0.0, 0.003])
async def all_goes_on_at_any_time(dut: Any, trouble: float, willing: float, faults: float) -> None:
    """Commands of all kinds in any order: every word and pulse in its cycle."""
    world = await begin(dut, trouble=trouble, mend=0.3, willing=willing, faults=faults, lost=0.1)
    location = world.some_location()
    done = 0
    for _ in range(150):
        opcode, answer = await some_command(world, location)
        done += opcode in (Opcode.PROCESS, Opcode.COMBINE) and not answer["code"]
    assert done > 5


@cocotb.test()
async def each_command_takes_its_cycles(dut: Any) -> None:
    """If nobody keeps it waiting, from the cycle in which it is taken to that in which it is answered."""
    world = await begin(dut)
    name = f"community.controller.{world.design.nodes}"
    sizes = {"f_in": 5, "f_out": 3}
    location = world.some_location() | {"vertices": 4}
    whole = {"kind": Combination.WHOLE}

    async def take(what: str, opcode: int, **operands: int) -> None:
        answer = await world.command(opcode, **operands)
        assert (answer["code"] != Error.NONE) == what.startswith("refused")
        expect_cycles(f"{name}.{what}", world.cycles)

    await world.idle(3)
    await take("nop", Opcode.NOP)
    await take("load", Opcode.LOAD_WEIGHTS, **sizes)
    await take("combine", Opcode.COMBINE, **world.fitting_combine() | sizes | whole)
    await take("locate", Opcode.LOCATE, **location)
    await take("load_beside", Opcode.LOAD_WEIGHTS, **sizes)
    await take("load_behind", Opcode.LOAD_WEIGHTS, **sizes)
    await take("combine_behind", Opcode.COMBINE, **world.fitting_combine() | sizes | whole)
    await take("process", Opcode.PROCESS, **world.fitting_process())
    world._put("records_whole", 1)
    await take("replay", Opcode.LOCATE, **location)
    await take("locate_behind", Opcode.LOCATE, **location)
    await take("refused_locate", Opcode.LOCATE, **location)
    await take("refused_opcode", Opcode.COPY)
    await take("refused_process", Opcode.PROCESS, **world.fitting_process())


@cocotb.test()
async def every_bad_operand_is_told(dut: Any) -> None:
    """And those at the end of what is allowed are taken; a location before is given up."""
    world = await begin(dut)
    config, nodes = world.config, world.design.nodes
    load = Opcode.LOAD_WEIGHTS

    async def bad(opcode: int, info: int, **operands: int) -> None:
        assert await world.command(opcode, **operands) == {"code": Error.BAD_OPERAND, "info": info & 0xFFFFFFFF}
        assert not world.locating

    async def good(opcode: int, **operands: int) -> None:
        assert await world.command(opcode, **operands) == NOTHING

    async def bad_load(info: int, f_in: int, f_out: int) -> None:
        """Of weights that are refused, and of commands that would need them."""
        sizes = {"f_in": f_in, "f_out": f_out}
        await bad(load, info, **sizes)
        await bad(Opcode.COMBINE, f_out, **sizes, vertices=nodes, kind=Combination.WHOLE)
        await good(Opcode.LOCATE, vertices=nodes)
        await bad(Opcode.PROCESS, f_out, **right | sizes | {"f_in": f_in % (1 << 17)}, vertices=nodes)

    flags = ("combined", "sparse", "positions", "rooted")
    right = {"neighbour_weight": 1, **dict.fromkeys(flags, 0)}
    whole, digits = {"kind": Combination.WHOLE}, {"kind": Combination.DIGITS, "first_granule": 0}
    await bad(Opcode.COMBINE, 0, f_in=0, f_out=0, vertices=nodes, **whole)
    for f_out in (0, config.max_out + 1, *(1 << bit for bit in range(16) if 1 << bit > config.max_out)):
        await bad_load(f_out, 1, f_out)
    spacings = [1 << n for n in range(10) if (1 << n) * config.lanes < config.max_out]
    for spacing, f_out in (
        (1, 1),
        *((spacing, spacing * config.lanes) for spacing in spacings),
        *((2 * spacing, spacing * config.lanes + 1) for spacing in spacings),
        (2 * spacings[-1], config.max_out),
    ):
        most = min(config.weight_rows // spacing, 1 << 16)
        for f_in in (0, most + 1, *(1 << bit for bit in range(32) if 1 << bit > most)):
            await bad_load(f_in, f_in, f_out)
        # Long loads end by a reset.
        if most <= 256:
            await good(load, f_in=most, f_out=f_out)
        else:
            await good(Opcode.LOCATE, vertices=1)
            await good(load, f_in=most, f_out=f_out)
            await world.idle(5)
            await world.reset()
    sizes = {"f_in": 2, "f_out": config.max_out}
    await good(load, **sizes)
    await good(Opcode.COMBINE, **sizes, vertices=nodes, **whole)
    granules = granules_of(config.max_out)
    await good(Opcode.COMBINE, **sizes, vertices=nodes, **digits, row_granules=3 * granules)
    await bad(Opcode.COMBINE, 3 * granules - 1, **sizes, vertices=nodes, **digits, row_granules=3 * granules - 1)
    await bad(Opcode.COMBINE, 3, **sizes, vertices=nodes, kind=3)
    await bad(Opcode.COMBINE, Combination.SUM, **sizes, vertices=nodes, kind=Combination.SUM, sparse=1)
    await good(Opcode.COMBINE, f_in=0, f_out=config.max_out, vertices=nodes, kind=Combination.SUM, sparse=0)
    if config.weight_rows > DIGIT_FEATURES:
        many = {"f_in": DIGIT_FEATURES + 1, "f_out": 1}
        await good(Opcode.LOCATE, vertices=nodes)
        await good(load, **many)
        await bad(Opcode.COMBINE, DIGIT_FEATURES + 1, **many, vertices=nodes, **digits, row_granules=3)
        await good(load, **sizes)
    right |= {**sizes, "row_granules": granules, "first_granule": 0}
    await bad(Opcode.PROCESS, Opcode.PROCESS, **right, vertices=world.located_vertices)
    for name, wrong in (
        *(("vertices", 1 << bit) for bit in range(32) if 1 << bit > nodes),
        ("vertices", nodes + 1),
        *(("f_in", sizes["f_in"] ^ 1 << bit) for bit in range(32)),
        *(("f_out", sizes["f_out"] ^ 1 << bit) for bit in range(16)),
    ):
        await good(Opcode.LOCATE, vertices=wrong if name == "vertices" else nodes)
        await bad(Opcode.COMBINE, wrong, **{**sizes, **whole, "vertices": nodes, name: wrong})
        if name == "f_in" and wrong >> 17:
            continue
        await good(Opcode.LOCATE, vertices=wrong if name == "vertices" else nodes)
        await bad(Opcode.PROCESS, wrong, **{**right, "vertices": nodes, name: wrong})
    for name, wrong, others in (
        *(("vertices", nodes ^ 1 << bit, {"combined": 0}) for bit in range(32)),
        *(("vertices", nodes ^ 1 << bit, {"combined": 1, "ahead": 0}) for bit in range(32) if nodes ^ 1 << bit),
        *(("vertices", nodes | 1 << bit, {"combined": 1, "ahead": nodes}) for bit in range(32) if not nodes >> bit & 1),
        ("vertices", nodes + 1, {"combined": 1, "ahead": nodes + 1}),
        *(("ahead", nodes | 1 << bit, {"combined": 1}) for bit in range(23) if not nodes >> bit & 1),
        ("ahead", nodes + 1, {"combined": 1}),
        *(("neighbour_weight", 1 ^ 1 << bit, {}) for bit in range(15)),
        *(("neighbour_weight", 256 ^ 1 << bit, {}) for bit in range(15)),
        ("neighbour_weight", 0, {}),
        ("neighbour_weight", -1, {}),
        ("neighbour_weight", -(1 << 15), {}),
        *(("positions", 1 << bit, {"combined": 1}) for bit in range(24) if 1 << bit > nodes),
        ("positions", nodes + 1, {"combined": 1}),
        *(("row_granules", length, {}) for length in range(granules)),
        *(("row_granules", length + granules - 1, {"first_granule": length}) for length in (1, 100, 0xFFF)),
        ("rooted", 1, {}),
        ("rooted", 1, {"sparse": 1}),
        ("rooted", 1, {"combined": 1, "ahead": nodes - 1}),
    ):
        if (name, wrong) in (("neighbour_weight", 1), ("neighbour_weight", 256)):
            continue
        await good(Opcode.LOCATE, vertices=nodes)
        told = (
            wrong if name in ("vertices", "ahead", "neighbour_weight", "positions", "row_granules") else Opcode.PROCESS
        )
        await bad(Opcode.PROCESS, told, **{**right, "vertices": nodes, name: wrong, **others})
    # Own rows are made only with weights that are there.
    for own_page, is_there in ((0, True), (1, False)):
        await good(Opcode.LOCATE, vertices=nodes)
        await good(load, **sizes, page=0)
        await good(load, **sizes, page=WEIGHT_PAGES // 2, own_page=own_page)
        made = {**right, "vertices": nodes, "rooted": 1}
        if is_there:
            await good(Opcode.PROCESS, **made)
        else:
            await bad(Opcode.PROCESS, Opcode.PROCESS, **made)
    block = {"first_granule": 0xFFF, "row_granules": 0xFFF + granules}
    rooted = {"rooted": 1, "combined": 1, "ahead": nodes}
    some = {"combined": 1, "positions": nodes}
    for allowed in ({**some, "ahead": nodes}, {**some, "ahead": 0}, {"positions": nodes + 1}, block, rooted, {}):
        await good(Opcode.LOCATE, vertices=nodes)
        await good(Opcode.PROCESS, **right | allowed, vertices=nodes)
    for fewer in (0, 1, nodes - 1):
        await good(Opcode.LOCATE, vertices=nodes)
        await good(Opcode.PROCESS, **right | {**some, "ahead": fewer}, vertices=fewer)


@cocotb.test()
async def addresses_beyond_the_port_are_refused(dut: Any) -> None:
    """If the command uses them, and counts them from the image's base."""
    world = await begin(dut)
    nodes = world.design.nodes
    for turn in range(40):
        await world.idle(1, base=True)
        beyond = (world.lines - world.inputs["base"], (1 << 32) - 1)[turn % 2]
        sizes = world.some_load(2)
        for name in ("weights", "biases"):
            await world.command(Opcode.LOAD_WEIGHTS, **sizes, **{name: beyond})
        assert await world.command(Opcode.LOAD_WEIGHTS, **sizes) == NOTHING
        for field in COMMANDS[Opcode.COMBINE].fields:
            if field.line:
                rows = {name: sizes[name] for name in ("f_in", "f_out")}
                await world.command(Opcode.COMBINE, **rows, vertices=nodes, kind=0, **{field.name: beyond})
        for name in LINES:
            await world.command(Opcode.LOCATE, **world.some_location() | {name: beyond})
        for field in COMMANDS[Opcode.PROCESS].fields:
            if field.line:
                if not world.locating:
                    await world.command(Opcode.LOCATE, **world.some_location())
                await world.command(Opcode.PROCESS, **world.fitting_process() | {field.name: beyond})
        if world.locating:
            await world.command(Opcode.COPY)


@cocotb.test()
async def other_opcodes_are_refused(dut: Any) -> None:
    """All that stand for another command or for none, with and without a location."""
    world = await begin(dut)
    known = (Opcode.NOP, Opcode.LOAD_WEIGHTS, Opcode.COMBINE, Opcode.LOCATE, Opcode.PROCESS)
    for opcode in range(256):
        if opcode not in known:
            if opcode % 8 == 0:
                await world.command(Opcode.LOCATE, vertices=1)
            assert await world.command(opcode) == {"code": Error.BAD_OPCODE, "info": opcode}
            assert not world.locating


@cocotb.test()
async def an_error_at_any_time_is_told(dut: Any) -> None:
    """In each cycle of each command, once; from another source another time, and of several the first one."""
    world = await begin(dut)
    told = {}
    for what, length in (("load", 20), ("combine", 26), ("process", 44), ("beside", 50)):
        told[what] = 0
        for cycle in range(length):
            await world.idle(1, forget=True)
            await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(3))
            if what in ("combine", "process", "beside"):
                # With a location before it, which COMBINE gives up.
                await world.command(Opcode.LOCATE, **world.some_location())
            world.told = {cycle: world.rng.randrange(world.sources)}
            if what == "load":
                answer = await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(3))
            elif what == "combine":
                answer = await world.command(Opcode.COMBINE, **world.fitting_combine())
            else:
                if what == "beside":
                    await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(3))
                answer = await world.command(Opcode.PROCESS, **world.fitting_process())
            told[what] += answer["code"] != Error.NONE
            world.told = {}
            if world.locating:
                await world.command(Opcode.COPY)
    assert min(told.values()) > 3


@cocotb.test()
async def many_errors_are_one(dut: Any) -> None:
    """Most often several at once, and more behind the first."""
    world = await begin(dut, willing=0.7)
    for _ in range(40):
        world.faults = 0.0
        await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(3))
        world.faults = world.rng.choice((0.02, 0.5, 0.9))
        if world.chance(0.5):
            await world.command(Opcode.LOCATE, **world.some_location())
        if world.chance(0.5):
            await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(3))
        if world.locating:
            await world.command(Opcode.PROCESS, **world.fitting_process())
        else:
            await world.command(Opcode.COMBINE, **world.fitting_combine())


@cocotb.test()
async def a_location_that_failed_is_told_by_process(dut: Any) -> None:
    """With every bit of its report; and its records are not given out again."""
    world = await begin(dut, lost=0.6)
    location = world.some_location()
    failed = again = 0
    for _ in range(100):
        await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(3))
        await world.idle(1, forget=world.chance(0.3))
        await world.command(Opcode.LOCATE, **location)
        assert not (world.replayed and world.locations[0].report["code"])
        again += world.replayed
        if world.chance(0.5):
            await world.command(Opcode.LOCATE, **world.some_location())
        while world.locating:
            used = world.locations[0]
            answer = await world.command(Opcode.PROCESS, **world.fitting_process())
            assert answer == used.report
            failed += answer["code"] != Error.NONE
    assert failed > 10
    assert again > 5


@cocotb.test()
async def only_the_same_location_is_given_out_again(dut: Any) -> None:
    """If it has the same operands, bit by bit, its records are whole, and nothing has been forgotten."""
    world = await begin(dut)
    layout = codec(struct(COMMANDS[Opcode.LOCATE]))
    location = world.some_location()
    await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(1))

    async def locate() -> bool:
        await world.command(Opcode.LOCATE, **location)
        replayed = world.replayed
        # Whether its records serve anybody makes no difference.
        opcode = world.rng.choice((Opcode.PROCESS, Opcode.COPY))
        await world.command(opcode, **(world.fitting_process() if opcode == Opcode.PROCESS else {}))
        return replayed

    async def whole(level: int) -> None:
        world.frozen = True
        world._put("records_whole", level)
        await world.idle(2)

    await whole(1)
    assert not await locate()
    assert layout.fields is not None
    for name, _, part in layout.fields:
        asked = name in QUESTION
        width = (world.lines // 2 - 1).bit_length() if name in LINES else part.width
        for bit in range(width if asked else min(2, width) * (name != "opcode")):
            await whole(1)
            location[name] ^= 1 << bit
            assert await locate() != asked, name
        await whole(1)
        assert await locate()
    await whole(0)
    assert not await locate()
    await whole(1)
    assert await locate()
    await world.idle(3, forget=True)
    assert not await locate()
    await whole(1)
    assert await locate()
    await world.idle(1, base=True)
    assert not await locate()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    """After any number of cycles of anything; what follows is as ever."""
    world = await begin(dut)
    for cycles in (*range(1, 60, 3), *range(60, 300, 24)):
        world.pace(trouble=0.01, mend=0.3, willing=0.6, faults=0.002, lost=0.1)
        going = cocotb.start_soon(some_commands(world))
        await world.bench.cycles(cycles)
        going.cancel()
        await world.reset()
        world.pace()
        await world.idle(2)
        location = world.some_location()
        await world.command(Opcode.LOCATE, **location)
        assert not world.replayed
        await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(2))
        assert await world.command(Opcode.PROCESS, **world.fitting_process()) == NOTHING


async def some_commands(world: World) -> None:
    """Give commands for ever, first weights and a location."""
    location = world.some_location()
    await world.command(Opcode.LOAD_WEIGHTS, **world.some_load(2))
    await world.command(Opcode.LOCATE, **location)
    while True:
        await some_command(world, location)


@pytest.mark.parametrize("sizes", [DEFAULT, pytest.param(NARROW, marks=full)], ids=["usual", "narrow"])
def test_controller(sizes: dict[str, Any]) -> None:
    simulate(factories.controller(**sizes), __name__, parameters=sizes, name=f"controller_{sizes['nodes']}")


@full
def test_operands_of_a_large_one() -> None:
    simulate(
        factories.controller(**LARGE),
        __name__,
        parameters=LARGE,
        name="controller_large",
        testcase=["every_bad_operand_is_told"],
    )
