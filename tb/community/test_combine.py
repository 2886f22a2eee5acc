"""Vertices and the bypass: every vertex of a range is asked for once, and its row is a result under its VID."""

from functools import partial
from typing import Any

import cocotb
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.community.bypass import Bypass
from hw.community.formats import CommunityConfig
from hw.community.vertices import Vertices
from tb.harness import parameters, simulate
from tb.harness.bench import Bench, start

__all__ = ["Combination"]


class Combination(wiring.Component):
    """Vertices with a bypass for each of several PEs, whose place the bench takes."""

    def __init__(self, pes: int = 3, data_width: int = 64) -> None:
        self.config = CommunityConfig(
            lanes=4, width=8, columns=16, partners=1, max_out=16, weight_rows=16, data_width=data_width
        )
        self.vertices = Vertices(pes)
        self.bypasses = [Bypass(self.config) for _ in range(pes)]
        names = ("request", "rows", "o")
        members = {name: self.bypasses[0].signature.members[name] for name in names}
        super().__init__(
            {
                "start": In(1),
                "first": In(32),
                "vertices_wanted": In(32),
                "ended": Out(1),
                "busy": Out(pes),
                **{name: member.array(pes) for name, member in members.items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect them."""
        m = Module()
        m.submodules.vertices = vertices = self.vertices
        m.d.comb += [
            vertices.start.eq(self.start),
            vertices.first.eq(self.first),
            vertices.vertices.eq(self.vertices_wanted),
            self.ended.eq(vertices.ended),
        ]
        for n, bypass in enumerate(self.bypasses):
            m.submodules[f"bypass_{n}"] = bypass
            connect(m, vertices.o[n], bypass.i)
            connect(m, bypass.request, flipped(self.request[n]))
            connect(m, flipped(self.rows[n]), bypass.rows)
            connect(m, bypass.o, flipped(self.o[n]))
            m.d.comb += self.busy[n].eq(bypass.busy)
        return m


class PEs:
    """Answers requests with random rows of so many beats, and keeps what comes out beside what should."""

    def __init__(self, bench: Bench, design: Combination, beats: int) -> None:
        self.bench, self.beats, self.elements = bench, beats, design.config.pe.elements
        self.asked: list[list[int]] = [[] for _ in design.bypasses]
        for n in range(len(design.bypasses)):
            bench.take(f"request__{n}", partial(self._answer, n))

    def _answer(self, pe: int, request: dict[str, int]) -> None:
        self.asked[pe].append(request["vid"])
        rows = [[self.bench.random.getrandbits(15) for _ in range(self.elements)] for _ in range(self.beats)]
        for beat, data in enumerate(rows):
            last = int(beat == self.beats - 1)
            self.bench.drive(
                f"rows__{pe}", [{"address": self.bench.random.getrandbits(20), "data": data, "last": last}]
            )
            self.bench.expect(f"o__{pe}", [{"vid": request["vid"], "beat": beat, "data": data, "last": last}])


async def begin(dut: Any, **pace: Any) -> tuple[Bench, Combination]:
    design = Combination(**parameters())
    dut.start.value = dut.first.value = dut.vertices_wanted.value = 0
    return await start(dut, design, **pace), design


async def run(bench: Bench, design: Combination, first: int, vertices: int, beats: int) -> None:
    """Combine a range; each PE has its share of it, in order."""
    dut, pes = bench.dut, PEs(bench, design, beats)
    dut.first.value, dut.vertices_wanted.value, dut.start.value = first, vertices, 1
    await bench.cycles(1)
    dut.start.value = 0
    await bench.cycles(1)
    while not int(dut.ended.value) or int(dut.busy.value):
        await bench.cycles(1)
        assert bench.cycle < 100_000
    await bench.drain()
    count = len(pes.asked)
    assert pes.asked == [list(range(first + n, first + vertices, count)) for n in range(count)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def every_row_is_named(dut: Any, idle: float, stall: float) -> None:
    bench, design = await begin(dut, idle=idle, stall=stall)
    beats = design.config.pe.max_beats
    for first, vertices in ((0, 1), (7, 0), (5, 2), (100, 40), ((1 << 32) - 90, 90), (3, 300)):
        await run(bench, design, first, vertices, 1 + bench.random.randrange(beats))


@cocotb.test()
async def as_many_are_under_way_as_hide_a_memory(dut: Any) -> None:
    """Without an answer so many are asked for, and no more."""
    bench, design = await begin(dut)
    asked: list[list[dict[str, int]]] = [[] for _ in design.bypasses]
    for n, words in enumerate(asked):
        bench.take(f"request__{n}", words.append)
    dut.vertices_wanted.value, dut.start.value = 1000, 1
    await bench.cycles(1)
    dut.start.value = 0
    await bench.cycles(100)
    assert [len(words) for words in asked] == [64] * len(asked)
    assert not int(dut.ended.value)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    bench, design = await begin(dut, stall=0.5)
    dut.vertices_wanted.value, dut.start.value = 50, 1
    for n in range(len(design.bypasses)):
        bench.take(f"request__{n}", lambda _: None)
    await bench.cycles(1)
    dut.start.value = 0
    await bench.cycles(20)
    dut.vertices_wanted.value = 0
    await bench.reset()
    assert not int(dut.busy.value)
    await run(bench, design, 9, 30, 2)


@pytest.mark.parametrize("pes", [3])
def test_combination(pes: int) -> None:
    simulate(Combination(pes), __name__, parameters={"pes": pes})
