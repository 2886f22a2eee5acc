"""Structure processor and negative sampler against the golden sampler."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import cocotb
import numpy as np

from contracts import VID_BITS, Error
from contracts.sampling import NEGATIVE_HOP
from golden.attributes.lfsr import Generator
from golden.attributes.sampler import Batch, Plan, sample
from golden.datasets import load
from golden.graph import Graph
from hw.attributes.sampling_formats import SampleSettings
from sim.attributes.sampler_bench import SamplerBench
from sim.harness import parameters
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from sim.harness.expected import expect_cycles
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.attributes.random_memory import RandomMemory
from tb.attributes.seeds import seed_of, state_before

GRAPHS = (
    "karate",
    "synthetic:power-law,nodes=90,degree=4,seed=3",
    "synthetic:star,nodes=40",
    "synthetic:empty,nodes=5",
    "synthetic:clique,nodes=9",
    "synthetic:path,nodes=2",
)
#: Byte addresses in the bench's memory.
OFFSETS, EDGES, ROOTS = 0, 0x4000, 0x10000
#: Bytes of the memory, all that can be addressed.
MEMORY = 1 << 20


class SampleBench:
    """A graph in memory, and samplers to sample it."""

    def __init__(self, bench: Bench, memory: Memory, address_width: int = 20) -> None:
        self.bench, self.memory = bench, memory
        self.codec = Codec(SampleSettings(address_width, VID_BITS))
        self.errors: list[dict[str, int]] = []
        self.graph: Graph | RandomMemory
        for name in ("positive", "negative"):
            bench.take(f"{name}_error", self.errors.append)

    async def load(self, graph: Graph, roots: Iterable[int], tiles: int = 1) -> None:
        """Write a graph; with more tiles, each row's offsets repeat its end."""
        image = bytearray(1 << 17)
        offsets = graph.offsets.astype("<u4")
        if tiles > 1:
            offsets = np.concatenate([[0], np.repeat(offsets[1:], tiles)]).astype("<u4")
        image[OFFSETS : OFFSETS + 4 * offsets.size] = offsets.tobytes()
        image[EDGES : EDGES + 4 * graph.edge_count] = graph.edges.astype("<u4").tobytes()
        self.roots = list(roots)
        image[ROOTS : ROOTS + 4 * len(self.roots)] = np.asarray(self.roots, dtype="<u4").tobytes()
        self.graph, self.tiles = graph, tiles
        self.at = {"offsets": OFFSETS // 4, "edges": EDGES // 4, "roots": ROOTS // 4}
        await self.memory.load(bytes(image))

    async def load_random(self, memory: RandomMemory) -> None:
        """Write random words."""
        self.graph, self.tiles, self.roots = memory, memory.tiles, memory.roots
        self.at = {"offsets": memory.offsets_at, "edges": memory.edges_at, "roots": memory.roots_at}
        await self.memory.load(memory.words.tobytes())

    async def run(self, plan: Plan, batch: int = 0, **changes: int) -> tuple[list[dict[str, int]], list[int]]:
        """Sample positives and negatives; what came out, and the cycles from each start to its last sample."""
        dut = self.bench.dut
        out: list[dict[str, int]] = []
        settings = {
            **self.at, "nodes": self.graph.nodes, "edge_count": self.graph.edge_count, "tiles": self.tiles,
            "root_count": len(self.roots), "hops": len(plan.fan_out), "negatives": plan.negatives,
            "fan_out": [*plan.fan_out, *[0] * (4 - len(plan.fan_out))], "seed": plan.seed, "batch": batch,
        }  # fmt: skip
        dut.settings.value = self.codec.pack({**settings, **changes})
        took = []
        for name in ("positive", "negative"):
            if name == "negative" and not plan.negatives:
                break
            last = [0]

            def came(sample: dict[str, int], last: list[int] = last) -> None:
                out.append(sample)
                last[0] = self.bench.cycle

            self.bench.take(f"{name}_o", came)
            getattr(dut, f"{name}_start").value = 1
            await self.bench.edge
            getattr(dut, f"{name}_start").value = 0
            await self.bench.edge
            began, busy = self.bench.cycle, getattr(dut, f"{name}_busy")
            for _ in range(4000):
                await self.bench.cycles(16)
                if not int(busy.value):
                    break
            else:
                raise AssertionError(f"{name} sampling does not end")
            await self.bench.cycles(40)
            took.append(max(0, last[0] - began))
        return out, took


def expected(batch: Batch, unknown: Collection[int] = ()) -> list[dict[str, int]]:
    """Every sample, in order, as the hardware gives it; no negatives for roots whose neighbours are `unknown`."""
    out = []
    hop_of = np.repeat(np.arange(len(batch.hops)), batch.hops)
    for position in range(batch.hops[0]):
        out.append({"node": int(batch.nodes[position]), "hop": 0, "last": 1, "empty": 0, "edge": 0})
    inner = sum(batch.hops[:-1])
    for parent in range(inner if len(batch.hops) > 1 else 0):
        mine = np.flatnonzero(batch.parents[: batch.positives] == parent)
        hop = int(hop_of[parent]) + 1
        out += group(batch, mine.tolist(), hop)
    if batch.negatives or batch.nodes.size == batch.positives:
        for root in range(batch.hops[0]):
            mine = batch.positives + np.flatnonzero(batch.parents[batch.positives :] == root)
            out += group(batch, [] if int(batch.nodes[root]) in unknown else mine.tolist(), NEGATIVE_HOP)
    return out


def group(batch: Batch, mine: list[int], hop: int) -> list[dict[str, int]]:
    """Return the samples of one parent."""
    if not mine:
        return [{"hop": hop, "last": 1, "empty": 1}]
    return [
        {
            "node": int(batch.nodes[p]),
            "hop": hop,
            "last": int(p == mine[-1]),
            "empty": 0,
            "edge": max(int(batch.along[p]), 0),
        }
        for p in mine
    ]


def compare(got: list[dict[str, int]], want: list[dict[str, int]]) -> None:
    """Compare; an empty sample has no node and no edge."""
    got = [{k: v for k, v in item.items() if k not in ("node", "edge") or not item["empty"]} for item in got]
    for number, (left, right) in enumerate(zip(got, want, strict=False)):
        assert left == right, f"sample {number}: {left}, expected {right}"
    assert len(got) == len(want), f"{len(got)} samples, expected {len(want)}"


async def begin(dut: Any) -> SampleBench:
    for name in ("positive_start", "negative_start"):
        getattr(dut, name).value = 0
    bench = await start(dut, SamplerBench())
    return SampleBench(bench, Memory(dut, 8, Path(parameters()["directory"])))


@cocotb.test()
@cocotb.parametrize(name=list(GRAPHS))
async def samples_are_those_of_the_golden_model(dut: Any, name: str) -> None:
    bench = await begin(dut)
    graph = load(name)
    random = bench.bench.random
    for number, plan in enumerate((Plan((3,), 0, 1), Plan((3, 2), 4, 77), Plan((2, 1, 3), 6, 5), Plan((), 5, 9),
                                   Plan((6, 2, 1, 2), 1, 0xFFFFFFFF))):  # fmt: skip
        roots = [random.randrange(graph.nodes) for _ in range(random.choice((1, 2, 3)))]
        await bench.load(graph, roots, tiles=1 + number % 3)
        bench.memory.stall(random.choice((0, 0.4)))
        bench.memory.latency(random.choice((1, 20)))
        bench.bench.pace(stall=random.choice((0, 0.5)))
        got, _ = await bench.run(plan, batch=number)
        want = expected(sample(graph, roots, plan, number))
        if not plan.negatives:
            want = [item for item in want if item["hop"] != NEGATIVE_HOP]
        compare(got, want)
    assert not bench.errors


def colliding(random: Random, plan: Plan, root: int, hop: int, population: int, count: int) -> int:
    """Return a batch for which one of the numbers drawn has come already."""
    while True:
        batch, chosen = random.getrandbits(32), set()
        generator = Generator((plan.seed, batch, root, hop, root))
        for last in range(population - count, population):
            number = generator.below(last + 1)
            if number in chosen:
                return batch
            chosen.add(number)


@cocotb.test()
async def numbers_are_the_same_only_in_all_bits(dut: Any) -> None:
    bench = await begin(dut)
    random = bench.bench.random
    memory = RandomMemory(random, MEMORY // 4, 1)
    memory.nodes = memory.edge_count = (1 << 32) - 1
    root = random.randrange(1 << 28)
    memory.add_root(7, root)
    # Two numbers of all bits are never the same, and these differ in one bit. A seed for it is known, because mixing
    # and shift register can be gone through backwards.
    negative, positive = (NEGATIVE_HOP, Plan((), 6)), (1, Plan((6,), 0))
    for bit in range(32):
        for hop, plan in (negative, positive):
            start, end = (7, 14) if hop == NEGATIVE_HOP else (0, memory.edge_count)
            memory.put_offsets(root, start, end)
            for first in range(5):
                await meets(bench, memory, plan, hop, 1 << bit, first, load=first == 0)
    # Of two numbers of fewer bits only those above them differ.
    for bits in (28, 29, 30, 31):
        for hop, plan in (negative, positive):
            memory.nodes = 1 << bits if hop == NEGATIVE_HOP else (1 << 32) - 1
            start, end = (7, 14) if hop == NEGATIVE_HOP else (1, 1 << bits)
            memory.put_offsets(root, start, end)
            for first in range(5):
                difference = random.randrange(1, 1 << 32 - bits) << bits
                await meets(bench, memory, plan, hop, difference, first, load=first == 0)


async def meets(
    bench: SampleBench, memory: RandomMemory, plan: Plan, hop: int, difference: int, first: int, load: bool
) -> None:
    """Sample the only root of a memory such that its number `first` and one later have that difference."""
    random = bench.bench.random
    batch, (root,) = random.getrandbits(32), memory.roots
    state = state_before(difference, first, random.randrange(first + 1, 6))
    assert state is not None
    plan = replace(plan, seed=seed_of(state, (batch, root, hop, root)))
    await check_random(bench, memory, plan, batch, load=load)


async def check_random(
    bench: SampleBench, memory: RandomMemory, plan: Plan, batch: int | None = None, load: bool = True
) -> None:
    """Sample from random memory, and compare samples and errors with the golden model."""
    random = bench.bench.random
    if load:
        await bench.load_random(memory)
    bench.memory.stall(random.choice((0, 0.4)))
    bench.memory.latency(random.choice((1, 20)))
    bench.bench.pace(stall=random.choice((0, 0.5)))
    bench.errors.clear()
    batch = random.getrandbits(32) if batch is None else batch
    got, _ = await bench.run(plan, batch=batch)
    whole = memory.along(sample(cast(Graph, memory), memory.roots, plan, batch))
    want = expected(whole, [root for root in memory.roots if memory.error(root)])
    if not plan.negatives:
        want = [item for item in want if item["hop"] != NEGATIVE_HOP]
    compare(got, want)
    sampled = whole.nodes[: whole.positives].tolist()
    wrong = [(Error.VID_RANGE, node) for node in sampled if node >= memory.nodes]
    for node in whole.nodes[: sum(whole.hops[:-1])].tolist() + (memory.roots if plan.negatives else []):
        if node < memory.nodes and memory.error(node):
            wrong.append((Error[memory.error(node)], node))
    said = [(Error(error["code"]), error["info"]) for error in bench.errors]
    assert set(said) <= set(wrong)
    # Of two at once, one is reported.
    assert 2 * len(said) >= len(wrong)


@cocotb.test()
async def every_bit_of_ids_offsets_and_addresses_counts(dut: Any) -> None:
    bench = await begin(dut)
    random = bench.bench.random
    for number in range(40):
        # The last ones have all bits, and hops enough for roots to count.
        deep = number >= 24
        bits = 32 if deep else 32 - number
        memory = RandomMemory(random, MEMORY // 4, random.choice((1, 2, 3, 150, 255)), bits)
        # Negatives read the rows of their roots to the end, so these are short.
        short = [random.randrange(2), random.randrange(1, 30), 3000 if number == 10 else random.randrange(300)]
        for length in short if number % 2 == 0 or deep else [None] * 3:
            memory.add_root(length)
        fan_out = tuple(random.randrange(1, 7) for _ in range(1 + number % 3))
        plan = Plan(fan_out if number % 2 else fan_out[:1], 0 if number % 2 else 6, random.getrandbits(32))
        if deep:
            plan = Plan((4, 3, 2), 0, random.getrandbits(32))
        await check_random(bench, memory, plan)


@cocotb.test()
async def the_last_edge_and_the_last_node_are_in_the_graph(dut: Any) -> None:
    bench = await begin(dut)
    random = bench.bench.random
    for beyond in (0, 1, 0, 1):
        memory = RandomMemory(random, MEMORY // 4, 1)
        memory.nodes, memory.edge_count = 1 << 31, 1 << 32
        for length in (4, 0, 0):
            memory.add_root(length)
        root, empty, short = memory.roots
        start, end = random.randrange(1 << 30), random.randrange(1 << 31, 1 << 32)
        memory.put_offsets(root, end - 4, end)
        for n in range(4):
            memory.put(memory.edges_at + end - 4 + n, (1 << 31) + start + n if n < 3 else 0xFFFF_FFF0)
        memory.put_offsets(empty, 2 * start + 1, 2 * start + 1)
        memory.put_offsets(short, 2 * start + 2, 2 * start + 1)
        # The last edge is, or is not, the row's; the last node is or is not.
        memory.edge_count, memory.nodes = end - beyond, 0xFFFF_FFF1
        await check_random(bench, memory, Plan((5,), 2, 3))
        memory.edge_count, memory.nodes = end, 0xFFFF_FFF1 - beyond
        await check_random(bench, memory, Plan((5,), 0, 3))


@cocotb.test()
async def numbers_that_came_already_are_not_taken_again(dut: Any) -> None:
    bench = await begin(dut)
    random = bench.bench.random
    # Six of eight neighbours, and six of nine or ten others.
    for name, plan in (("synthetic:clique,nodes=9", Plan((6,), 0, 4)), ("synthetic:path,nodes=12", Plan((1,), 6, 5))):
        graph = load(name)
        for number in range(3):
            roots = [random.randrange(graph.nodes) for _ in range(20)]
            await bench.load(graph, roots)
            bench.memory.latency(1)
            got, _ = await bench.run(plan, batch=number)
            want = expected(sample(graph, roots, plan, number))
            compare(got, want if plan.negatives else [item for item in want if item["hop"] != NEGATIVE_HOP])
    # Among more numbers that is rare: batches in which it happens are looked for.
    for bits in range(10, 18):
        memory = RandomMemory(random, MEMORY // 4, 1, bits)
        memory.add_root(7)
        (root,) = memory.roots
        length = random.randrange(memory.edge_count // 2, memory.edge_count)
        for plan, hop, population in (
            (Plan((1,), 6, bits), NEGATIVE_HOP, memory.nodes - 8),
            (Plan((6,), 0, bits), 1, length),
        ):
            if hop == 1:
                memory.put_offsets(root, 1, 1 + length)
            for _ in range(3):
                await check_random(bench, memory, plan, colliding(random, plan, root, hop, population, 6))


@cocotb.test()
async def a_root_that_is_joined_to_all_has_no_negatives(dut: Any) -> None:
    bench = await begin(dut)
    for nodes in range(39, 44):
        memory = RandomMemory(bench.bench.random, MEMORY // 4, 1, 10)
        memory.nodes = 41
        memory.add_root(40, root=7)
        # With 41 nodes there is none left; with fewer the row is too long, and nothing is chosen either.
        memory.nodes = nodes
        await check_random(bench, memory, Plan((1,), 3, nodes))


@cocotb.test()
async def an_output_that_is_not_taken_holds_everything_back(dut: Any) -> None:
    bench = await begin(dut)
    graph = load("synthetic:clique,nodes=9")
    roots = [n % 9 for n in range(9)]
    await bench.load(graph, roots)
    bench.memory.latency(1)
    # Memory brings all there is room for, and both choices and look-ups wait.
    bench.bench.pace(stall=0.95)
    plan = Plan((6, 6), 0, 8)
    got, _ = await bench.run(plan)
    compare(got, [item for item in expected(sample(graph, roots, plan)) if item["hop"] != NEGATIVE_HOP])


@cocotb.test()
async def sampling_takes_so_many_cycles(dut: Any) -> None:
    bench = await begin(dut)
    await bench.load(load("karate"), [0, 33, 5, 11])
    bench.memory.latency(20)
    _, took = await bench.run(Plan((6, 3), 4, 5))
    expect_cycles("attributes.sampler.positive", took[0])
    expect_cycles("attributes.sampler.negative", took[1])


@cocotb.test()
async def no_roots_make_no_samples(dut: Any) -> None:
    bench = await begin(dut)
    await bench.load(load("karate"), [])
    assert (await bench.run(Plan((2, 2), 3)))[0] == []


@cocotb.test()
async def bad_data_are_reported_and_sampling_ends(dut: Any) -> None:
    bench = await begin(dut)
    graph = load("karate")
    plan = Plan((4, 3), 3, 5)
    await bench.load(graph, [3, 99, 5])
    await bench.run(plan)
    assert bench.errors[0] == {"code": Error.VID_RANGE, "info": 99}
    for changes, code in (
        ({"edge_count": 20}, Error.EDGE_RANGE),
        ({"offsets": EDGES // 4}, Error.OFFSET_ORDER),
        ({"nodes": 20}, Error.VID_RANGE),
    ):
        bench.errors.clear()
        await bench.load(graph, [0, 3, 15, 30])  # row 15 of the edges, read as offsets, falls
        await bench.run(plan, **changes)
        assert code in {error["code"] for error in bench.errors}, changes
    bench.errors.clear()
    await bench.load(graph, range(8))
    bench.memory.read_errors(range(EDGES, EDGES + 4000))
    await bench.run(plan)
    assert {error["code"] for error in bench.errors} == {Error.MEMORY_READ}
    bench.memory.read_errors(range(OFFSETS, OFFSETS + 4000))
    bench.errors.clear()
    await bench.run(plan)
    assert {error["code"] for error in bench.errors} == {Error.MEMORY_READ}
    bench.memory.read_errors(None)
    bench.errors.clear()
    got, _ = await bench.run(plan)
    compare(got, expected(sample(graph, range(8), plan)))
    assert not bench.errors


@cocotb.test()
async def a_row_with_an_offset_that_cannot_be_read_is_empty(dut: Any) -> None:
    bench = await begin(dut)
    graph, plan, tiles = load("karate"), Plan((3,), 2, 5), 40
    alone = expected(sample(graph, [7], plan))
    none = [{"hop": hop, "last": 1, "empty": 1} for hop in (1, NEGATIVE_HOP)]
    negatives = next(n for n, item in enumerate(alone) if item["hop"] == NEGATIVE_HOP)
    want = [{**alone[0], "node": 5}, alone[0], none[0], *alone[1:negatives], none[1], *alone[negatives:]]
    await bench.load(graph, [5, 7], tiles)
    for word in (0, 13, tiles):
        bench.errors.clear()
        beat = (OFFSETS + 4 * (5 * tiles + word)) // 8 * 8
        bench.memory.read_errors(range(beat, beat + 8))
        got, _ = await bench.run(plan)
        compare(got, want)
        assert bench.errors == 2 * [{"code": Error.MEMORY_READ, "info": 5}]


@cocotb.test()
async def a_reset_in_the_middle_changes_nothing_later(dut: Any) -> None:
    bench = await begin(dut)
    graph = load("karate")
    plan = Plan((4, 3), 3, 5)
    await bench.load(graph, range(6))
    for cut in (30, 111, 200):
        dut.settings.value = 0
        dut.positive_start.value = 1
        await bench.bench.cycles(1)
        dut.positive_start.value = 0
        await bench.bench.cycles(cut)
        await bench.bench.reset()
        got, _ = await bench.run(plan)
        compare(got, expected(sample(graph, range(6), plan)))


def test_sampler(tmp_path: Path) -> None:
    simulate_with_memory(
        SamplerBench(), __name__, tmp_path, name="sampler", memories={"m_axi": MemoryModel(depth=MEMORY // 8)}
    )
