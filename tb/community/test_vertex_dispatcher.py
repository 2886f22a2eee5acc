"""Vertices to combine: each once, separate ones first, those of PEs in turn; busy while rows are outstanding."""

from collections import Counter
from itertools import pairwise
from typing import Any

import cocotb
import pytest

from hw.community.factories import vertex_dispatcher
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

_VIDS = 1 << 32


class Reader:
    """Takes vertices; the rows of separate ones leave some time later."""

    def __init__(self, bench: Bench, pes: int, units: int) -> None:
        self.bench, self.pes, self.units = bench, pes, units
        #: Its number and that of all dispatchers of a range.
        self.number, self.clusters = parameters().get("number", 0), parameters().get("clusters", 1)
        self.order: list[dict[str, int]] = []
        self.owed = 0
        bench.take("o", self._take)
        cocotb.start_soon(self._return())

    def _take(self, wish: dict[str, int]) -> None:
        self.order.append(wish)
        self.owed += wish["apart"]

    async def _return(self) -> None:
        """Now and then a row leaves; it is busy as long as one has not."""
        while True:
            # There are never more than can be counted.
            gives = bool(self.owed) and (self.owed > 500 or self.bench.random.random() < 0.3)
            self.owed -= gives
            self.bench.dut.returned.value = int(gives)
            owed = self.owed
            await self.bench.cycles(1)
            assert int(self.bench.dut.busy.value) or not owed or not self.owed

    def of_range(self, first: int, vertices: int) -> range:
        """Return what this one hands out of a range."""
        return range(first, first + vertices)[self.number :: self.clusters]

    def apart(self) -> Counter[int]:
        """Return how often each separate vertex came."""
        return Counter(wish["vid"] for wish in self.order if wish["apart"])

    def of_pe(self, pe: int) -> list[dict[str, int]]:
        """Return what came of the requests of a PE."""
        mine = [wish for wish in self.order if not wish["apart"] and wish["pe"] == pe]
        return [{name: wish[name] for name in ("vid", "slot", "alone")} for wish in mine]


async def begin(dut: Any, **pace: Any) -> tuple[Bench, Reader]:
    design = vertex_dispatcher(**parameters())
    dut.start.value = dut.first.value = dut.vertices.value = dut.go.value = dut.returned.value = 0
    bench = await start(dut, design, **pace)
    return bench, Reader(bench, design.pes, design.units)


async def begin_range(bench: Bench, first: int, vertices: int) -> None:
    dut = bench.dut
    dut.first.value, dut.vertices.value, dut.start.value = first, vertices, 1
    await bench.cycles(1)
    dut.start.value = 0
    await bench.cycles(1)


async def rest(bench: Bench) -> None:
    """Wait until nothing is under way."""
    while not int(bench.dut.ended.value) or int(bench.dut.busy.value):
        await bench.cycles(1)
        assert bench.cycle < 100_000
    await bench.cycles(5)


def requests(bench: Bench, count: int) -> list[dict[str, int]]:
    """Return requests of a PE."""
    codec = bench.codecs["requests__0"]
    return [codec.unpack(bench.random.getrandbits(codec.width)) for _ in range(count)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def every_vertex_once(dut: Any, idle: float, stall: float) -> None:
    """Ranges, hubs of all units, and requests of all PEs, at the same time."""
    bench, reader = await begin(dut, idle=idle, stall=stall)
    dut.go.value = 1
    wanted: Counter[int] = Counter()
    asked: list[list[dict[str, int]]] = [[] for _ in range(reader.pes)]
    some = (bench.random.randrange(_VIDS - 300), bench.random.randrange(300))
    for first, vertices in ((0, 1), (7, 0), (5, 2), (100, 40), (_VIDS - 90, 90), (0, 0), (3, 300), (9, 200), some):
        for n in range(reader.units):
            hubs = [bench.random.randrange(_VIDS) for _ in range(bench.random.randrange(60))]
            wanted.update(hubs)
            bench.drive(f"wanted__{n}", hubs)
        for n in range(reader.pes):
            more = requests(bench, bench.random.randrange(60))
            asked[n] += more
            bench.drive(f"requests__{n}", more)
        wanted.update(reader.of_range(first, vertices))
        await begin_range(bench, first, vertices)
        await bench.until(lambda: len(reader.order) == wanted.total() + sum(map(len, asked)))
        await rest(bench)
        assert reader.apart() == wanted
        assert [reader.of_pe(n) for n in range(reader.pes)] == asked


@cocotb.test()
async def pes_have_their_turns(dut: Any) -> None:
    """Hand out a vertex a cycle, of each in turn; those apart before them."""
    bench, reader = await begin(dut)
    dut.go.value = 1
    for n in range(reader.pes):
        bench.drive(f"requests__{n}", requests(bench, 50))
    began = bench.cycle
    await bench.until(lambda: len(reader.order) == 20 * reader.pes)
    assert bench.cycle - began <= 20 * reader.pes + 4
    turns = [wish["pe"] for wish in reader.order]
    assert all(after == (before + 1) % reader.pes for before, after in pairwise(turns))
    await begin_range(bench, 50, 60)
    mine = len(reader.of_range(50, 60))
    await bench.until(lambda: len(reader.apart()) == mine)
    first = next(n for n, wish in enumerate(reader.order) if wish["apart"])
    assert all(wish["apart"] for wish in reader.order[first : first + mine])
    await bench.drain(quiet=1)
    await rest(bench)
    assert len(reader.order) == 50 * reader.pes + mine


@cocotb.test()
async def a_range_waits_and_hubs_do_not(dut: Any) -> None:
    bench, reader = await begin(dut)
    await begin_range(bench, 10, 20)
    bench.drive("wanted__0", [1000, 1001])
    await bench.cycles(50)
    assert reader.apart() == Counter([1000, 1001])
    assert not int(dut.ended.value)
    dut.go.value = 1
    await rest(bench)
    assert reader.apart() == Counter([1000, 1001, *reader.of_range(10, 20)])


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    bench, reader = await begin(dut, stall=0.9)
    dut.go.value = 1
    await begin_range(bench, 0, 500)
    bench.drive("wanted__0", range(600, 620))
    bench.drive("requests__0", requests(bench, 50))
    await bench.cycles(30)
    reader.owed = 0
    await bench.reset()
    reader.owed = 0
    await bench.cycles(1)
    assert not int(dut.busy.value)
    assert int(dut.ended.value)
    assert not int(dut.o__valid.value)


@pytest.mark.parametrize(
    ("pes", "units", "number", "clusters"), [(3, 2, 0, 1), (1, 1, 0, 1), (8, 4, 0, 1), (2, 2, 0, 2), (2, 1, 2, 4)]
)
def test_vertex_dispatcher(pes: int, units: int, number: int, clusters: int) -> None:
    sizes = {"pes": pes, "units": units, "nodes": 300, "number": number, "clusters": clusters}
    name = f"vertex_dispatcher_{pes}_{units}_{clusters}"
    simulate(vertex_dispatcher(**sizes), __name__, parameters=sizes, name=name)


@pytest.mark.parametrize(("number", "clusters"), [(0, 3), (2, 2), (-1, 1), (0, 0)])
def test_dispatchers_are_numbered(number: int, clusters: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        vertex_dispatcher(pes=1, units=1, nodes=300, number=number, clusters=clusters)
