"""Samplers on a graph with IDs near 2^32 whose rows lie far apart in 40 bits of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import cocotb

from contracts import Error
from contracts.sampling import NEGATIVE_HOP
from golden.attributes.sampler import Plan, sample
from golden.graph import Graph
from sim.attributes.sampler_bench import SamplerBench
from sim.harness import parameters
from sim.harness.bench import start
from sim.models.simulate import simulate_with_memory
from sim.models.sparse import SparseMemory
from tb.attributes.far_memory import ADDRESS_BITS, NODES, FarGraph, FarPages, ids_apart, memory_model
from tb.attributes.test_sampler import SampleBench, compare, expected

#: As many edges as nodes.
EDGES = NODES
WIDTH = 256


async def begin(dut: Any) -> SampleBench:
    for name in ("positive_start", "negative_start"):
        getattr(dut, name).value = 0
    bench = await start(dut, sampler())
    return SampleBench(bench, SparseMemory(dut, WIDTH // 8, Path(parameters()["directory"])), ADDRESS_BITS)


async def far_graph(bench: SampleBench, roots: int, tiles: int) -> FarPages:
    """Write a graph and a list of roots far apart; return the pages."""
    random, pages = bench.bench.random, FarPages(bench.bench.random)
    graph = FarGraph(random, ids_apart(random, 50, NODES), NODES, EDGES)
    # Anywhere: sums wrap at the end of the address space.
    bench.at = {name: random.randrange(1 << ADDRESS_BITS - 2) for name in ("offsets", "edges", "roots")}
    graph.write(pages, bench.at["offsets"], bench.at["edges"], tiles)
    bench.roots = random.sample(graph.ids, roots)
    pages.put(bench.at["roots"], bench.roots)
    bench.graph, bench.tiles = cast(Any, graph), tiles
    await pages.load(cast(SparseMemory, bench.memory))
    return pages


@cocotb.test()
async def samples_are_those_of_the_golden_model(dut: Any) -> None:
    bench = await begin(dut)
    random, seen = bench.bench.random, set[int]()
    for number in range(12):
        await far_graph(bench, random.randrange(1, 9), tiles=(1, 2, 255)[number % 3])
        plan = Plan(((6, 5), (4, 2, 3), (3,), ())[number % 4], (0, 6, 1)[number % 3], random.getrandbits(32))
        bench.memory.stall(random.choice((0, 0.4)))
        bench.memory.latency(random.choice((1, 20)))
        bench.bench.pace(stall=random.choice((0, 0.5)))
        batch = random.getrandbits(32)
        got, _ = await bench.run(plan, batch=batch)
        want = expected(sample(cast(Graph, bench.graph), bench.roots, plan, batch))
        compare(got, want if plan.negatives else [item for item in want if item["hop"] != NEGATIVE_HOP])
        seen |= {item["node"] for item in got if not item["empty"]}
        assert not bench.errors
    assert NODES - 1 in seen


@cocotb.test()
async def what_is_wrong_far_away_is_reported(dut: Any) -> None:
    bench = await begin(dut)
    random = bench.bench.random
    pages = await far_graph(bench, 4, tiles=1)
    graph, memory = cast(FarGraph, bench.graph), cast(SparseMemory, bench.memory)
    first, second = graph.ids[0], graph.ids[-1]
    plan = Plan((6,), 3, 7)

    async def ends_in(code: Error, info: int | None, roots: Sequence[int], **changes: int) -> None:
        pages.put(bench.at["roots"], roots)
        bench.roots = list(roots)
        await pages.load(memory)
        bench.errors.clear()
        await bench.run(plan, **changes)
        assert {error["code"] for error in bench.errors} == {code}
        assert info is None or {error["info"] for error in bench.errors} == {info}

    await ends_in(Error.VID_RANGE, NODES, [second, NODES])
    await ends_in(Error.EDGE_RANGE, second, [second], edge_count=EDGES - 1)
    # The page of its offsets does not exist; then that of an edge cannot be read.
    await ends_in(Error.MEMORY_READ, NODES - 3 - 1024, [NODES - 3 - 1024])
    node = random.choice([node for node in graph.ids[2:] if graph.rows[node][1].size <= 6])
    beat = (bench.at["edges"] + graph.rows[node][0]) % (1 << ADDRESS_BITS - 2) // 8 * 32
    memory.read_errors(range(beat, beat + 32))
    pages.put(bench.at["roots"], [node])
    bench.roots = [node]
    await pages.load(memory)
    bench.errors.clear()
    await bench.run(plan)
    assert {error["code"] for error in bench.errors} == {Error.MEMORY_READ}
    memory.read_errors(None)
    # All is well again.
    pages.put(bench.at["roots"], [first, second])
    bench.roots = [first, second]
    await pages.load(memory)
    bench.errors.clear()
    got, _ = await bench.run(plan)
    compare(got, expected(sample(cast(Graph, graph), bench.roots, plan)))
    assert not bench.errors


def sampler() -> SamplerBench:
    return SamplerBench(address_width=ADDRESS_BITS, data_width=WIDTH)


def test_samplers_far_apart(tmp_path: Path) -> None:
    simulate_with_memory(sampler(), __name__, tmp_path, name="far_sampler", memories=memory_model(WIDTH))
