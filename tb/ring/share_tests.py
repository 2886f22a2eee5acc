"""Tests of the ring unit's parts beside an attribute core: SHARE, packets of lines; `tb.ring.test_parts` runs them."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from contracts import PACKET_HEADER, Error, Opcode, PacketKind
from sim.ring.parts import LINK
from tb.ring.control_tests import Commands
from tb.ring.part_bench import begin, words

__all__ = [
    "a_graph_is_shared_by_all_at_once",
    "packets_of_lines_are_for_their_destination",
    "packets_of_lines_have_a_way_of_their_own",
]


class _Shares(Commands):
    """A control beside an attribute core."""

    PREFIX = "share_control"
    PULSES = (*Commands.PULSES, "share")

    async def share(self, fails_in: str = "") -> None:
        """Take a SHARE through its states, or to the one in which it fails."""
        before = self.get("shared")
        await self.give(Opcode.SHARE, {"tiles": self.chiplets}, [])
        await self.edge
        assert self.pulses == ["arrive"]
        await self.quiet("NONE")
        if fails_in == "MEET":
            return await self.fails()
        assert (self.get("shared"), self.get("tabling")) == (before, 0)
        await self.flag("arrived", ["pass_", "share"])
        await self.edge
        assert (self.get("shared"), self.get("tabling")) == (0, 1)
        await self.quiet("NONE")
        if fails_in == "TABLE":
            return await self.fails()
        await self.flag("tabled", ["arrive"])
        await self.quiet("NONE")
        assert (self.get("shared"), self.get("tabling")) == (0, 0)
        if fails_in == "BARRIER":
            return await self.fails()
        await self.flag("arrived", ["pass_"])
        await self.answered()
        assert self.get("shared") == 1


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.6])
async def a_graph_is_shared_by_all_at_once(dut: Any, stall: float) -> None:
    """All come, read their tables, and have read them; a barrier alone shares nothing; then no row is sent any more."""
    bench = await begin(dut, stall=stall)
    for fails_in in ("MEET", "TABLE", "BARRIER"):
        await bench.reset()
        control = _Shares(dut, bench)
        control.set("tabled", 0)
        await bench.cycles(2)
        await control.list()
        await control.scatter(0)
        await control.barrier()
        assert not control.get("shared")
        await control.share()
        await control.barrier()
        await control.list()
        assert control.get("shared")
        await control.share()
        await control.share(fails_in)
        assert control.get("shared") == (fails_in == "MEET")
        await bench.reset()
        tiles = control.chiplets ^ 1
        await control.refused(Opcode.SHARE, {"tiles": tiles}, Error.BAD_OPERAND, tiles)
        for opcode, fields in ((Opcode.SCATTER, {"tiles": control.chiplets}), (Opcode.REDUCE, {"hub_count": 5})):
            await control.list()
            await control.share()
            await control.refused(opcode, {"f_out": 3, **fields}, Error.BAD_OPCODE, opcode)


@cocotb.test()
async def packets_of_lines_are_for_their_destination(dut: Any) -> None:
    """They never wait, whatever is under way or has failed; those from nowhere or to nowhere are reported."""
    bench = await begin(dut, manual=("share_decision_error",))
    source: random.Random = bench.random
    edge = RisingEdge(dut.clk)
    for _ in range(500):
        chiplets = source.randrange(2, 17)
        position, stopped, begins = source.randrange(chiplets), source.getrandbits(1), source.getrandbits(1)
        header = {
            "kind": PacketKind.LINES,
            "source": source.randrange(20),
            "destination": source.randrange(20),
            "elements": source.getrandbits(12),
            "vid": source.getrandbits(32),
        }
        given = {"position": position, "chiplets": chiplets, "stopped": stopped, "begins": begins}
        given |= {name: source.getrandbits(1) for name in ("receiving", "reducing", "found", "hit", "late", "outside")}
        for name, value in given.items():
            getattr(dut, f"share_decision_{name}").value = value
        dut.share_decision_header.value = PACKET_HEADER.pack(header)
        await edge
        stray = header["source"] >= chiplets or header["source"] == position
        bad = stray or header["destination"] >= chiplets
        take = not bad and header["destination"] == position
        forward = not bad and header["destination"] != position
        assert int(dut.share_decision_decided.value)
        assert int(dut.share_decision_verdict.value) == take | forward << 1, (header, given)
        assert not int(dut.share_decision_take.value)
        assert int(dut.share_decision_error__valid.value) == (bad and begins and not stopped)
        if bad:
            assert int(dut.share_decision_error__payload.value) == Error.BAD_PACKET | header["vid"] << 8


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def packets_of_lines_have_a_way_of_their_own(dut: Any, idle: float, stall: float) -> None:
    """Each packet goes whole to the unit for its kind."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    ways = dict(zip(PacketKind, ("features", "partials", "control", "lines"), strict=True))
    for _ in range(60):
        kind = source.choice(list(PacketKind))
        length = 1 if kind == PacketKind.CONTROL else source.randrange(1, 6)
        flits = [source.getrandbits(LINK) for _ in range(length)]
        packet = words([[flits[0] & ~3 | kind, *flits[1:]]])
        bench.drive("share_router_i", packet)
        bench.expect(f"share_router_{ways[kind]}", packet)
    await bench.drain()
