"""Tests of the ring unit's control; `tb.ring.test_parts` runs them."""

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from contracts import COMMANDS, LINE_BYTES, ROW_BYTES, Error, Opcode
from hw.ring.formats import Phase
from sim.harness.bench import Bench
from sim.ring.parts import CHIPLETS, DATA, LINK, MAX_OUT
from tb.ring.part_bench import ADDRESSES, EXCHANGE, LIST, ROWS, begin

__all__ = ["Commands", "commands_step_through_their_phases"]

WORDS = 1 << 30
#: Bits of a line address.
LINE_BITS = 26
GOOD = {"code": 0, "info": 0}
RING = (Opcode.LIST, Opcode.SCATTER, Opcode.REDUCE, Opcode.BARRIER)
#: Codes of the phases.
CODES = {phase: n for n, phase in enumerate(("NONE", "LOAD", "BUILD", "FLOW", "REDUCE"))}


class Commands:
    """Gives commands, sets flags, and notes what the control asks for and says."""

    #: Of the control's ports.
    PREFIX = "control"
    #: What it starts, in the order in which that is looked at.
    PULSES: tuple[str, ...] = (
        "load", "build", "follows", "flow", "reduce", "drain", "forget", "arrive", "pass_",
    )  # fmt: skip

    def __init__(self, dut: Any, bench: Bench) -> None:
        self.dut, self.bench, self.edge = dut, bench, RisingEdge(dut.clk)
        self.asked: list[tuple[str, Any]] = []
        for port in ("parts", "hubs", "shares", "executed"):
            bench.take(f"{self.PREFIX}_{port}", partial(self._asks, port))
        self.handles = [(name, getattr(dut, f"{self.PREFIX}_{name}")) for name in self.PULSES]
        source: random.Random = bench.random
        #: Operands of the first part of an exchange.
        self.first: dict[str, int] = {}
        self.base, self.chiplets = source.getrandbits(LINE_BITS - 1), source.randrange(2, CHIPLETS + 1)
        #: An error that a unit reports.
        self.report = {"code": source.randrange(1, 256), "info": source.getrandbits(32)}
        for name in ("loaded", "listed", "sent", "drained", "reduced", "missing", "arrived", "expects"):
            self.set(name, 0)
        self.set("reports", 1)
        self.set("base", self.base)
        self.set("chiplets", self.chiplets)

    def _asks(self, port: str, word: Any) -> None:
        self.asked.append((port, word))

    def set(self, name: str, value: int) -> None:
        """Set an input."""
        getattr(self.dut, f"{self.PREFIX}_{name}").value = value

    def get(self, name: str) -> int:
        """Return an output."""
        return int(getattr(self.dut, f"{self.PREFIX}_{name}").value)

    @property
    def pulses(self) -> list[str]:
        """What is started in this cycle."""
        return [name for name, handle in self.handles if int(handle.value)]

    async def quiet(self, phase: str) -> None:
        """See that for a while nothing is started in `phase`."""
        for _ in range(self.bench.random.randrange(1, 5)):
            await self.edge
            assert self.pulses == []
            assert self.get("phase") == CODES[phase]

    async def give(self, opcode: int, fields: dict[str, int], starts: Sequence[str]) -> dict[str, int]:
        """Give a command; see that `starts` comes as soon as it is decoded and checked, and return its fields."""
        source: random.Random = self.bench.random
        layout = COMMANDS[Opcode(opcode)] if opcode in list(Opcode) else COMMANDS[Opcode.NOP]
        given = layout.unpack(source.getrandbits(512) >> 8 << 8 | Opcode.NOP)
        # All that the memory port reaches.
        given |= {field.name: source.randrange((1 << LINE_BITS) - self.base) for field in layout.fields if field.line}
        # What most tests do not ask for.
        given |= {"follows": 0} if opcode == Opcode.SCATTER else {}
        given |= fields | {"opcode": opcode}
        self.asked.clear()
        word = layout.pack(given)
        self.bench.drive(f"{self.PREFIX}_command", [word])
        driver = self.bench.drivers[f"{self.PREFIX}_command"]
        seen: list[str] = []
        while driver.busy_words:
            await self.edge
            seen += self.pulses
        # It was taken a cycle ago and is decoded now.
        for _ in range({Opcode.SCATTER: 1, Opcode.REDUCE: 2}.get(Opcode(opcode), 0) if opcode in RING else 0):
            await self.edge
            seen += self.pulses
        assert seen == list(starts), (opcode, seen)
        return given

    async def flag(self, name: str, starts: Sequence[str]) -> None:
        """Set a flag for a cycle, in which `starts` comes."""
        self.set(name, 1)
        await self.edge
        self.set(name, 0)
        assert self.pulses == list(starts), name

    def rows(self, combined: int, f_out: int) -> None:
        """Compare the layer's rows."""
        assert ROWS.unpack(self.get("rows")) == {
            "base": (self.base + combined) * LINE_BYTES * 8 // DATA % ADDRESSES,
            "stride": -(-2 * f_out // ROW_BYTES) * ROW_BYTES * 8 // DATA,
            "last_beat": (16 * f_out - 1) // DATA,
            "last_flit": (16 * f_out - 1) // LINK,
            "elements": f_out,
        }
        assert self.get("last_sum_flit") == (32 * f_out - 1) // LINK

    def words(self, line: int) -> int:
        """Word address of a line that a command names."""
        return (self.base + line) * LINE_BYTES // 4 % WORDS

    async def answered(self, *asked: tuple[str, Any], report: dict[str, int] = GOOD) -> None:
        """Wait for the answer, and for nothing else; compare all that was asked for with `asked`."""
        for _ in range(60):
            if self.asked and self.asked[-1][0] == "executed":
                break
            await self.edge
            assert self.pulses == []
        assert self.asked == [*asked, ("executed", report)]

    async def until_asked(self, count: int) -> None:
        """Wait for requests."""
        for _ in range(60):
            if len(self.asked) >= count:
                break
            await self.edge
        assert len(self.asked) == count

    async def fails(self) -> None:
        """Report an error to the control, which answers with it."""
        self.bench.drive(f"{self.PREFIX}_errors__0", [self.report])
        await self.answered(*self.asked, report=self.report)

    async def begin_list(self) -> None:
        """Take a LIST to its first phase: it is answered at once."""
        given = await self.give(Opcode.LIST, {"tiles": self.chiplets}, [])
        await self.edge
        assert self.pulses == []
        await self.edge
        assert self.pulses == ["load"]
        await self.quiet("LOAD")
        await self.until_asked(1)
        assert self.asked == [("executed", GOOD)]
        settings = LIST.unpack(self.get("list_settings"))
        assert settings == {
            "boundaries": self.words(given["boundaries"]),
            "needed": (self.base + given["needed"]) * LINE_BYTES * 8 // DATA % ADDRESSES,
            "others": {"address": self.words(given["others"]), "words": given["count"]},
        }

    async def list(self, fails_in: str = "") -> None:
        """Take a LIST through its phases, in which commands are taken, or to the one in which it fails."""
        await self.begin_list()
        if fails_in == "LOAD":
            return await self.fails_unseen()
        await self.flag("loaded", ["build"])
        await self.quiet("BUILD")
        assert int(getattr(self.dut, f"{self.PREFIX}_command__ready").value)
        if fails_in == "BUILD":
            return await self.fails_unseen()
        await self.flag("listed", [])
        await self.quiet("NONE")
        assert self.asked == [("executed", GOOD)]

    async def waits_for_list(self, opcode: Opcode, fields: dict[str, int], starts: Sequence[str]) -> None:
        """Give a command behind a LIST: it starts nothing before there is the list."""
        await self.begin_list()
        await self.give(opcode, fields, [])
        await self.quiet("LOAD")
        await self.flag("loaded", ["build"])
        await self.quiet("BUILD")
        assert not self.asked
        self.set("listed", 1)
        for _ in range(4):
            await self.edge
            self.set("listed", 0)
            if pulses := self.pulses:
                break
        assert pulses == [*starts]

    async def passes_list(self) -> None:
        """Take a BARRIER to its end behind a LIST that goes on."""
        await self.begin_list()
        await self.give(Opcode.BARRIER, {}, ["arrive"])
        await self.flag("arrived", ["pass_"])
        await self.answered()
        await self.flag("loaded", ["build"])
        await self.flag("listed", [])

    async def scatter_behind_list(self, beside: int, more: int, fails: bool = False) -> None:
        """Take a SCATTER that is answered while the list behind which it waits is made; then it begins."""
        await self.begin_list()
        await self.sends(more, first=True, beside=beside, lists=True)
        await self.until_asked(2)
        await self.edge
        assert self.get("exchanging") == beside
        await self.flag("loaded", ["build"])
        await self.quiet("BUILD")
        if more:
            await self.sends(more, first=False)
            await self.until_asked(2)
        if fails:
            return await self.ends_exchange_unseen()
        await self.flag("listed", [])
        for _ in range(2):
            await self.edge
            assert self.get("exchanging") == beside
            if pulses := self.pulses:
                break
        assert pulses == ["flow"]
        await self.quiet("FLOW")
        self.flows()
        if not more:
            await self.flag("sent", ["drain"])
            await self.flag("drained", ["forget"])
            await self.bench.cycles(2)
        assert not self.get("exchanging")

    async def fails_unseen(self) -> None:
        """Report an error after the answer: the next command starts nothing and is answered with it."""
        self.bench.drive(f"{self.PREFIX}_errors__0", [self.report])
        count = len(self.asked)
        await self.bench.cycles(3)
        assert len(self.asked) == count
        await self.give(Opcode.SCATTER, {"f_out": 3, "tiles": self.chiplets}, [])
        await self.answered(report=self.report)

    async def sends(
        self, more: int, first: bool, beside: int = 0, lists: bool = False, follows: int = 0
    ) -> tuple[str, Any]:
        """Give SCATTER of a part, and see that it is handed over; with the first one rows flow, if no list is made.

        All parts have rows of the same size; what else they have in common is as the first one says.
        """
        f_out = self.bench.random.randrange(1, MAX_OUT + 1) if first else self.first["f_out"]
        how = {"tiles": self.chiplets, "f_out": f_out, "more": more, "beside": beside, "follows": follows}
        given = await self.give(Opcode.SCATTER, how, [])
        if first:
            self.first = given
        pulses = self.pulses
        for _ in range(60):
            if any(port == "parts" for port, _ in self.asked):
                break
            await self.edge
            pulses += self.pulses
        for _ in range(2):
            await self.edge
            pulses += self.pulses
        assert pulses == ["follows"] * follows + ["flow"] * (first and not lists)
        if not lists and self.get("phase") == CODES["FLOW"]:
            self.flows()
        tiles = {"address": self.words(given["out_tiles"]), "words": given["vertices"]}
        asked = "parts", {"first_vertex": given["first_vertex"], "out_tiles": tiles}
        assert asked in self.asked
        return asked

    def flows(self) -> None:
        """Compare what an exchange is told with its first part."""
        first = self.first
        self.rows(first["combined"], first["f_out"])
        assert EXCHANGE.unpack(self.get("exchange")) == {
            "needed": self.words(first["needed"]), "in_order": first["in_order"], "backward": first["backward"],
        }  # fmt: skip

    async def part(self, first: bool, fails: bool = False, follows: int = 0) -> None:
        """Take SCATTER of a part that is not the last to its end, or fail; rows are taken all the time."""
        asked = await self.sends(1, first, follows=follows)
        await self.until_asked(2)
        assert self.asked == [asked, ("executed", GOOD)]
        await self.quiet("FLOW")
        assert int(getattr(self.dut, f"{self.PREFIX}_command__ready").value)
        if fails:
            return await self.fails_unseen()
        assert len(self.asked) == 2

    async def waits_for_parts(self) -> None:
        """Take a BARRIER to its end between two parts: it waits until the first is sent."""
        await self.give(Opcode.BARRIER, {}, [])
        await self.quiet("FLOW")
        self.set("sent", 1)
        await self.edge
        self.set("sent", 0)
        pulses = self.pulses
        await self.edge
        assert pulses + self.pulses == ["arrive"]
        await self.quiet("FLOW")
        await self.flag("arrived", ["pass_"])
        await self.answered()

    async def scatter(self, missing: int, fails_in: str = "", first: bool = True) -> None:
        """Take SCATTER of the last part through its phases, or to where it fails; `missing` is a VID or 0."""
        asked = await self.sends(0, first)
        await self.until_asked(1)
        if fails_in == "FLOW":
            return await self.fails()
        await self.flag("sent", ["drain"])
        await self.quiet("FLOW")
        if fails_in == "DRAIN":
            return await self.fails()
        self.set("lowest", missing)
        self.set("missing", int(missing > 0))
        await self.flag("drained", ["forget"])
        self.set("missing", 0)
        await self.answered(asked, report={"code": Error.MISSING, "info": missing} if missing else GOOD)
        assert self.get("phase") == CODES["NONE"]

    async def scatter_beside(self, missing: int, fails_in: str = "", first: bool = True) -> None:
        """Take SCATTER of the last part, which is answered at once; what fails is told by the next command."""
        assert not self.get("exchanging")
        asked = await self.sends(0, first, beside=1)
        await self.until_asked(2)
        assert sorted(self.asked, key=str) == sorted([asked, ("executed", GOOD)], key=str)
        assert self.get("exchanging")
        if fails_in == "FLOW":
            return await self.ends_exchange_unseen()
        await self.flag("sent", ["drain"])
        await self.quiet("FLOW")
        assert self.get("exchanging")
        assert not int(getattr(self.dut, f"{self.PREFIX}_command__ready").value)
        if fails_in == "DRAIN":
            return await self.ends_exchange_unseen()
        self.set("lowest", missing)
        self.set("missing", int(missing > 0))
        await self.flag("drained", ["forget"])
        self.set("missing", 0)
        await self.bench.cycles(2)
        assert not self.get("exchanging")
        assert self.get("phase") == CODES["NONE"]
        assert len(self.asked) == 2
        if missing:
            self.report = {"code": int(Error.MISSING), "info": missing}
            await self.give(Opcode.BARRIER, {}, [])
            await self.answered(report=self.report)

    async def expects_in_vain(self, opcode: Opcode) -> None:
        """Take SCATTER of the last part, behind which another command comes before the COMBINE that makes its rows."""
        await self.sends(0, first=True, beside=1, follows=1)
        await self.until_asked(2)
        self.set("expects", 1)
        await self.quiet("FLOW")
        assert self.get("exchanging")
        await self.give(opcode, {}, [])
        await self.answered(report={"code": int(Error.BAD_OPCODE), "info": opcode})
        assert not self.get("exchanging")
        self.set("expects", 0)

    async def ends_exchange_unseen(self) -> None:
        """Report an error after the answer: nobody waits for rows any more."""
        await self.fails_unseen()
        assert not self.get("exchanging")

    async def reduce(self, fails: bool = False) -> None:
        """Take a REDUCE through its phase."""
        f_out = self.bench.random.randrange(1, MAX_OUT + 1)
        given = await self.give(Opcode.REDUCE, {"f_out": f_out}, ["reduce"])
        await self.quiet("REDUCE")
        self.rows(given["combined"], f_out)
        await self.until_asked(2)
        shares = {
            "offsets": self.words(given["offsets"]), "array": self.words(given["edges"]),
            "words": given["edge_count"], "rows": given["hub_count"], "tiles": 1, "paired": 0, "uniform": 0,
            "stride": 0,
        }  # fmt: skip
        hubs = {"address": self.words(given["hub_homes"]), "words": given["hub_count"]}
        assert dict(self.asked) == {"hubs": hubs, "shares": shares}
        await self.quiet("REDUCE")
        if fails:
            return await self.fails()
        await self.flag("reduced", [])
        await self.answered(*self.asked[:2])
        assert self.get("phase") == CODES["NONE"]

    async def barrier(self, fails: bool = False) -> None:
        """Wait at a BARRIER."""
        await self.give(Opcode.BARRIER, {}, ["arrive"])
        await self.quiet("NONE")
        if fails:
            return await self.fails()
        await self.flag("arrived", ["pass_"])
        await self.answered()

    async def refused(self, opcode: int, fields: dict[str, int], error: Error, info: int) -> None:
        """Give a command that is refused, and see that so is every later one, until a reset."""
        report = {"code": error, "info": info}
        for again in (opcode, Opcode.BARRIER, Opcode.LIST):
            await self.give(
                again, fields if again == opcode else {"tiles": self.chiplets} if again == Opcode.LIST else {}, []
            )
            await self.answered(report=report)
        await self.bench.reset()


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.6])
async def commands_step_through_their_phases(dut: Any, stall: float) -> None:
    """All commands, all that is refused, and errors in each phase; the codes of the phases are those of the unit."""
    assert {name: getattr(Phase, name).value for name in CODES} == CODES
    bench = await begin(dut, stall=stall)
    source: random.Random = bench.random
    for turn in range(3):
        await bench.reset()
        control = Commands(dut, bench)
        await bench.cycles(2)
        scatter = {"f_out": 3, "tiles": control.chiplets}
        await control.refused(Opcode.SCATTER, scatter, Error.BAD_OPCODE, Opcode.SCATTER)
        await control.list()
        await control.scatter(0)
        await control.reduce()
        await control.barrier()
        await control.part(first=True)
        await control.part(first=False)
        await control.waits_for_parts()
        await control.scatter(0, first=False)
        await control.scatter(0)
        await control.scatter_beside(0)
        await control.part(first=True)
        await control.scatter_beside(0, first=False)
        await control.barrier()
        await control.scatter_behind_list(beside=1, more=0)
        await control.scatter_behind_list(beside=0, more=1)
        await control.scatter(0, first=False)
        await control.passes_list()
        await control.waits_for_list(Opcode.LIST, {"tiles": control.chiplets}, ["load"])
        await control.flag("loaded", ["build"])
        await control.flag("listed", [])
        await control.until_asked(1)
        await control.waits_for_list(Opcode.REDUCE, {"f_out": 5}, ["reduce"])
        await control.until_asked(2)
        await control.flag("reduced", [])
        await control.until_asked(3)
        await control.list()
        # No hubs, no sums.
        await control.give(Opcode.REDUCE, {"f_out": 5, "hub_count": 0}, [])
        await control.answered()
        missing = (0x5A5A_A5A5, 0xA5A5_5A5A)[turn % 2]
        await control.scatter(missing)
        await bench.reset()
        for f_out in (0, MAX_OUT + 1, MAX_OUT | 1 << source.randrange(8, 16)):
            for opcode in (Opcode.SCATTER, Opcode.REDUCE):
                await control.refused(opcode, {"f_out": f_out}, Error.BAD_OPERAND, f_out)
        tiles = control.chiplets ^ 1 << source.randrange(8)
        await control.refused(Opcode.LIST, {"tiles": tiles}, Error.BAD_OPERAND, tiles)
        await control.list()
        await control.refused(Opcode.SCATTER, {"f_out": 3, "tiles": tiles}, Error.BAD_OPERAND, tiles)
        beyond = (1 << LINE_BITS) - control.base
        for name in ("boundaries", "others", "needed"):
            wrong = {"tiles": control.chiplets, name: beyond}
            await control.refused(Opcode.LIST, wrong, Error.BAD_OPERAND, beyond)
        for name in ("hub_homes", "offsets", "edges", "combined"):
            await control.refused(Opcode.REDUCE, {"f_out": 3, name: beyond}, Error.BAD_OPERAND, beyond)
        for name in ("out_tiles", "needed", "combined"):
            await control.list()
            await control.refused(Opcode.SCATTER, {**scatter, name: beyond}, Error.BAD_OPERAND, beyond)
        # Rows of a COMBINE that has not begun.
        for opcode in RING:
            await control.list()
            await control.part(first=True, follows=1)
            control.set("expects", 1)
            await control.part(first=False, follows=1)
            await control.refused(opcode, {}, Error.BAD_OPCODE, opcode)
            control.set("expects", 0)
            await control.list()
            await control.expects_in_vain(opcode)
            await bench.reset()
        for reports, how in ((1, {}), (0, {"more": 1}), (0, {"beside": 1})):
            control.set("reports", reports)
            await control.list()
            fields = {**scatter, "more": 0, "beside": 0, "follows": 1, **how}
            await control.refused(Opcode.SCATTER, fields, Error.BAD_OPERAND, 1)
        control.set("reports", 1)
        unknown = source.choice([code for code in range(256) if code not in (*RING, Opcode.NOP)])
        await control.refused(unknown, {}, Error.BAD_OPCODE, unknown)
        await control.list()
        await control.part(first=True)
        other = control.first["f_out"] % MAX_OUT + 1
        await control.refused(Opcode.SCATTER, {**scatter, "f_out": other}, Error.BAD_OPERAND, other)
        for phase in ("LOAD", "BUILD"):
            await bench.reset()
            await control.list(phase)
        for phase in ("FLOW", "DRAIN"):
            await bench.reset()
            await control.list()
            await control.scatter(0, phase)
            await bench.reset()
            await control.list()
            await control.scatter_beside(0, phase)
        await bench.reset()
        await control.list()
        await control.scatter_beside(0x1234_5678)
        for beside, more in ((1, 0), (0, 1)):
            await bench.reset()
            await control.scatter_behind_list(beside, more, fails=True)
        for first in (True, False):
            await bench.reset()
            await control.list()
            if not first:
                await control.part(first=True)
            await control.part(first, fails=True)
        await bench.reset()
        await control.reduce(fails=True)
        await bench.reset()
        await control.barrier(fails=True)
