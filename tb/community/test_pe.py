"""Community PE: whole layers on small graphs against the golden model, both ways of sharing, operations counted."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import cocotb
import numpy as np

from contracts import RECORD_HEADER, Activation
from golden.community.plan import Kind, Scheme, columns_of, plan
from golden.datasets import load
from golden.graph import Graph
from golden.locator.cover import cover_of
from golden.locator.record import Record
from golden.locator.schedule import Schedule
from hw.community import factories
from hw.community.formats import CommunityConfig
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from tb.community.finished import Finished
from tb.community.work import Layer, PEPorts, layer_of, pieces_of

#: Configuration of most tests, and the narrowest.
DEFAULT: dict[str, Any] = {
    "lanes": 8, "width": 64, "columns": 128, "partners": 8, "max_out": 19, "weight_rows": 64, "shares": True,
}  # fmt: skip
NARROW: dict[str, Any] = {
    "lanes": 4, "width": 16, "columns": 32, "partners": 2, "max_out": 6, "weight_rows": 16, "data_width": 64,
    "vid_bits": 12,
}  # fmt: skip
GRAPHS = (
    "synthetic:empty,nodes=3",
    "synthetic:empty,nodes=1",
    "synthetic:star,nodes=12",
    "synthetic:clique,nodes=7",
    "synthetic:path,nodes=20",
    "karate",
    "synthetic:community,nodes=60,degree=5,classes=10,mixing=0.05",
)


def pe(**sizes: Any) -> Finished:
    """Return a PE with a row finisher behind it."""
    return Finished(factories.pe(**sizes))


async def begin(dut: Any, pace: float = 0.0) -> tuple[Bench, CommunityConfig]:
    model = pe(**parameters())
    config = model.block.config
    bench = await start(dut, model)
    bench.pace(
        idle={"records": pace, "rows": pace, "hub_rows": pace},
        stall={"node_request": pace, "hub_request": pace, "o": pace, "partial": pace},
    )
    return bench, config


async def run(bench: Bench, config: CommunityConfig, layer: Layer, *, mixed: bool = False, late: int = 0) -> int:
    """Do a layer with rows of nodes in order, or `mixed`; compare all of it; return the cycles.

    With `late`, these last columns of its only record come when all that needs none of them is done.
    """
    ports = PEPorts(bench, config, mixed=mixed)
    dut = bench.dut
    await ports.load(layer)
    expected = layer.expected()
    before = {name: int(getattr(dut, name).value) for name in ("gross", "formed", "worked")}
    began = bench.cycle
    if late:
        ports.waiting = []
    ports.records(layer.records)
    watcher = cocotb.start_soon(watch(bench, ports))
    ends = [vid for record in layer.records if not record.hub_edges for vid in record.nodes]
    nodes = sum(vid in layer.summed for vid in ends)
    shares = [vid for record in layer.records for vid in (*record.hubs, *(record.nodes if record.hub_edges else ()))]
    assert len(shares) == expected.partials
    wanted_shares = sum(vid in layer.summed for vid in shares)
    if late:
        await hold_back(bench, config, ports, late, before)
    await bench.until(lambda: ports.done == nodes and ports.partial_count == wanted_shares, 200_000)
    cycles = bench.cycle - began
    watcher.cancel()
    # Rows that nobody wants leave without a word.
    await bench.cycles(30 if wanted_shares == len(shares) else 2_000)
    assert not int(dut.busy.value), "busy with nothing to do"
    assert ports.rows() == {vid: list(map(int, expected.results[vid])) for vid in ends if vid in layer.summed}
    f_out = layer.layer.f_out
    partials = np.zeros((layer.graph.nodes, f_out), np.int64)
    for vid, sums in ports.partials.items():
        partials[vid] = sums[:f_out]
    hubs = {int(record.nodes[0]) for record in layer.records if record.hub_edges}
    summed = sorted(hub for hub in hubs if hub in layer.summed)
    assert sorted(ports.partials) == summed
    assert (partials[summed] == expected.sums[summed]).all()
    counts = vectors_of(layer.records)
    assert ports.vectors == {hub: counts[hub] for hub in summed}
    assert len(ends) + len(hubs) == layer.graph.nodes
    chunks = -(-f_out // config.lanes)
    counted = {name: int(getattr(dut, name).value) - before[name] for name in before}
    operations = expected.operations
    # The adders make one sum for all hubs of a record of one node, wanted or not; the sender forwards it to each.
    singles = [record for record in layer.records if record.nodes.size == 1 and record.hubs.size]
    forwarded = sum(vid in layer.summed for record in singles for vid in record.hubs) - len(singles)
    wanted_counts = {
        "gross": operations.gross,
        "formed": operations.formed,
        "worked": chunks * (operations.net + operations.formed - forwarded),
    }
    assert counted == wanted_counts
    compare_places(config, layer, ports.requests)
    return cycles


async def hold_back(bench: Bench, config: CommunityConfig, ports: PEPorts, late: int, before: dict[str, int]) -> None:
    """Have the rows of a record come in any order, the last ones when the adders wait; compare what they have done."""
    layer, rng = ports.layer, bench.random
    (record,) = layer.records
    vids = [int(vid) for vid in (*record.nodes, *record.hubs)]
    waiting = ports.waiting
    assert waiting is not None
    # Requests are answered as they come: each row is one of a node or of a hub.
    await bench.until(lambda: len(waiting) == len(vids))
    asked = [vid for kind in ("node", "hub") for vid, _ in ports.requests[kind]]
    assert asked == vids
    early, last = waiting[:-late], waiting[-late:]
    for rows in (early, last):
        for port, beats in rng.sample(rows, len(rows)):
            bench.drive(port, beats)
            await bench.cycles(rng.choice((0, rng.randrange(40))))
        if rows is early:
            await bench.cycles(4000)
            made = {name: int(getattr(bench.dut, name).value) - before[name] for name in before}
            assert made == counts_before(config, layer, len(vids) - late)
            assert not ports.done


def counts_before(config: CommunityConfig, layer: Layer, come: int) -> dict[str, int]:
    """Return what the adders do with the first columns of a record alone: up to the first vector that has not come."""
    (record,) = layer.records
    columns = columns_of(record)
    chunks = -(-layer.layer.weights.shape[1] // config.lanes)
    counts = {"gross": 0, "formed": 0, "worked": 0}

    def missing(column: int) -> bool:
        return come <= column < len(columns)

    for task in plan(columns, layer.scheme):
        if task.form and missing(task.left):
            break
        if task.form and missing(task.right):
            # The left part of the first chunk is in the adders.
            counts["worked"] += 1
            break
        counts["formed"] += task.form
        counts["worked"] += 2 * chunks * task.form
        if missing(task.index):
            break
        counts["gross"] += task.rows.bit_count()
        counts["worked"] += chunks * task.rows.bit_count()
    return counts


def vectors_of(records: Iterable[Record]) -> dict[int, int]:
    """Return of how many vectors the sum of every hub is made, by the bits of the records."""
    counts: dict[int, int] = defaultdict(int)
    for record in records:
        if record.hub_edges:
            counts[int(record.nodes[0])] += int(record.bitmap.sum())
        for hub, rows in zip(record.hubs, record.bitmap[:, record.nodes.size :].T, strict=True):
            counts[int(hub)] += int(rows.sum())
    return counts


async def watch(bench: Bench, ports: PEPorts) -> None:
    """Look now and then whether it is busy while results of nodes that it has asked for are to come."""
    while True:
        await bench.cycles(bench.random.randrange(1, 8))
        if sum(vid in ports.layer.summed for vid, _ in ports.requests["node"]) > ports.done:
            assert int(bench.dut.busy.value), "not busy with results to come"


def compare_places(config: CommunityConfig, layer: Layer, requests: dict[str, list[tuple[int, int]]]) -> None:
    """Compare the places of all vertices that were asked for: one behind another, in the order of records."""
    wanted: dict[str, list[tuple[int, int]]] = {"node": [], "hub": []}
    place = 0
    for record in layer.records:
        for kind, vids in (("hub" if record.hub_edges else "node", record.nodes), ("hub", record.hubs)):
            for vid in map(int, vids):
                wanted[kind].append((vid, place))
                place += 1
    # Where the first one is depends on what came before.
    kind = "hub" if layer.records[0].hub_edges else "node"
    first = requests[kind][0][1]
    moved = {kind: [(vid, (place + first) % config.slots) for vid, place in found] for kind, found in wanted.items()}
    assert requests == moved


def scheme(config: CommunityConfig, kind: Kind, k: int = 2, columns: int | None = None) -> Scheme:
    return Scheme(kind, k, config.partners, columns or config.columns)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), pace=[0.0, 0.4], mixed=[False, True])
async def layers_are_exact(dut: Any, kind: Kind, pace: float, mixed: bool) -> None:
    """Every corner graph, both ways of sharing, rows of any length and in any order, any limit of columns."""
    bench, config = await begin(dut, pace)
    rng = bench.random
    for name in GRAPHS:
        f_out = rng.choice((1, config.lanes, config.max_out, rng.randint(1, config.max_out)))
        limit = rng.choice((config.columns, rng.randrange(config.columns), rng.randrange(config.columns)))
        way = scheme(config, kind, rng.choice((2, 4, 8)), limit)
        await run(bench, config, layer_of(load(name), config, rng, f_out=f_out, scheme=way), mixed=mixed)


@cocotb.test()
@cocotb.parametrize(gin=[False, True], dense=[False, True], activation=list(Activation))
async def models_and_features_are_exact(dut: Any, gin: bool, dense: bool, activation: Activation) -> None:
    """Own weights, dense and sparse features, every activation."""
    bench, config = await begin(dut, 0.2)
    layer = layer_of(
        load("karate"), config, bench.random, f_out=config.max_out, scheme=scheme(config, Kind.PAIRS),
        gin=gin, dense=dense, activation=activation,
    )  # fmt: skip
    await run(bench, config, layer)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), gin=[False, True], pace=[0.0, 0.4])
async def rooted_layers_are_exact(dut: Any, kind: Kind, gin: bool, pace: float) -> None:
    """Own rows are weighed by the scale's exponent, sums are those of neighbours; other layers between them."""
    bench, config = await begin(dut, pace)
    rng = bench.random
    for number, name in enumerate((*GRAPHS, *GRAPHS[-2:])):
        f_out = rng.choice((1, config.lanes, config.max_out, rng.randint(1, config.max_out)))
        layer = layer_of(
            load(name), config, rng, f_out=f_out, scheme=scheme(config, kind, rng.choice((2, 4, 8))), gin=gin,
            dense=bool(rng.getrandbits(1)), rooted=number != len(GRAPHS), activation=rng.choice(list(Activation)),
        )  # fmt: skip
        await run(bench, config, layer, mixed=bool(rng.getrandbits(1)))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def dense_records_are_exact(dut: Any, kind: Kind) -> None:
    """Take records of half the width without hubs, whose columns have many rows in common; every cycle."""
    bench, config = await begin(dut)
    nodes = config.width // 2
    for degree in (nodes // 3, nodes - 1):
        graph = load(f"synthetic:erdos,nodes={nodes},degree={degree},seed={degree}")
        for k in (2, 4, 8) if kind is Kind.WINDOW else (2,):
            layer = layer_of(
                graph, config, random.Random(k), f_out=config.lanes, scheme=scheme(config, kind, k),
                schedule=Schedule(1 << 10),
            )  # fmt: skip
            name = f"community.pe.erdos.{kind.name.lower()}.{config.width}.{degree}.{k}"
            expect_cycles(name, await run(bench, config, layer))


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def records_that_do_not_fit_are_refused(dut: Any, pace: float) -> None:
    """They are told, taken to their end and leave nothing; those between and behind them are exact."""
    bench, config = await begin(dut, pace)
    told: list[int] = []
    bench.take("refused", told.append)
    await bench.cycles(2)
    wrong = [
        ({"nodes": config.width, "hubs": 1, "last_part": 1}, config.width + 1),
        ({"nodes": 0xFFFF, "hubs": 0xFFFF, "last_part": 1}, 2 * 0xFFFF),
        ({"nodes": 1, "hubs": 1, "last_part": 0}, 0),
        ({"nodes": 1, "hubs": 1, "part": 1, "last_part": 1}, 0),
        ({"nodes": 1, "hubs": config.width, "hub_edges": 1, "last_part": 1}, config.width + 1),
    ]
    layer = layer_of(load("karate"), config, bench.random, f_out=config.lanes, scheme=scheme(config, Kind.PAIRS))
    for header, _ in wrong:
        beats = [
            RECORD_HEADER.pack(header),
            *(bench.random.getrandbits(64) for _ in range(bench.random.randrange(1, 9))),
        ]
        bench.drive("records", [{"data": beat, "last": int(n == len(beats) - 1)} for n, beat in enumerate(beats)])
        if bench.random.random() < 0.5:
            await bench.drain(quiet=1)
            await run(bench, config, layer)
    await bench.drain(quiet=1)
    await bench.cycles(5)
    assert told == [info for _, info in wrong]
    assert not int(dut.busy.value)
    await run(bench, config, layer)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def a_row_is_added_to_twice_in_a_row(dut: Any, kind: Kind) -> None:
    """Sum up a path 2-0-4-1-3: pairs leave row 4 alone of the first two columns, and wait for the vectors."""
    bench, config = await begin(dut)
    layer = layer_of(load("synthetic:path,nodes=5"), config, bench.random, f_out=1, scheme=scheme(config, kind))
    nodes = np.array([1, 3, 0, 4, 2])
    bitmap = abs(nodes[:, None] - nodes) <= 1
    await run(bench, config, replace(layer, records=[Record(nodes, np.zeros(0, np.int64), bitmap, 0)]))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def the_widest_record_is_exact(dut: Any, kind: Kind) -> None:
    """Every node of it joined to each other one, at any place."""
    bench, config = await begin(dut)
    nodes = np.arange(config.width)
    layer = layer_of(
        load(f"synthetic:clique,nodes={config.width}"), config, bench.random, f_out=2, scheme=scheme(config, kind)
    )
    record = Record(nodes, np.zeros(0, np.int64), np.ones((config.width,) * 2, np.bool_), 0)
    small = layer_of(load("synthetic:path,nodes=3"), config, bench.random, f_out=2, scheme=scheme(config, kind))
    for _ in range(4):
        await run(bench, config, replace(layer, records=[record]))
        await run(bench, config, small)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def nodes_joined_to_many_hubs_are_exact(dut: Any, kind: Kind) -> None:
    """Sum up records half nodes, half hubs, with any bitmap: columns of hubs are turned over bit by bit."""
    bench, config = await begin(dut)
    rng = np.random.default_rng(bench.random.getrandbits(64))
    graph, half = load(f"synthetic:clique,nodes={config.width}"), config.width // 2
    nodes, none = np.arange(half), np.zeros(0, np.int64)
    hubs = [Record(np.array([half + n]), none, np.ones((1, 1), np.bool_), 0, hub_edges=True) for n in range(half)]
    for density in (0.2, 0.5, 0.9):
        layer = layer_of(graph, config, bench.random, f_out=config.lanes, scheme=scheme(config, kind))
        bitmap = rng.random((half, config.width)) < density
        # Every hub is joined to a node, each node to itself.
        bitmap[nodes, nodes] = bitmap[nodes, half + nodes] = True
        await run(bench, config, replace(layer, records=[Record(nodes, half + nodes, bitmap, 0), *hubs]))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), pace=[0.0, 0.4])
async def only_sums_that_are_wanted_are_made(dut: Any, kind: Kind, pace: float) -> None:
    """Those of a range of vertices, of none, of one; and of the destination copies of directed graphs."""
    bench, config = await begin(dut, pace)
    rng = bench.random
    graph = load("karate")
    first = rng.randrange(graph.nodes)
    work = [(graph, range(first, rng.randrange(first, graph.nodes + 1))) for first in (first, 0)]
    work += [(graph, range(first, first)), (graph, range(first, first + 1))]
    for name in ("synthetic:path,nodes=20", "synthetic:star,nodes=12"):
        plain = load(name)
        ends = np.minimum(plain.edges, plain.destinations), np.maximum(plain.edges, plain.destinations)
        for source, destination in (ends, ends[::-1]):
            cover = cover_of(Graph.from_edges(name, plain.nodes, source, destination))
            work.append((cover.graph, range(cover.destinations)))
    for given, summed in work:
        f_out = rng.randint(1, config.max_out)
        layer = layer_of(given, config, rng, f_out=f_out, scheme=scheme(config, kind, rng.choice((2, 4, 8))))
        await run(bench, config, replace(layer, summed=summed))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), pace=[0.0, 0.4])
async def shares_of_records_are_exact(dut: Any, kind: Kind, pace: float) -> None:
    """Every node's row comes from the share that has it, and all shares together have the partial sums of hubs."""
    bench, config = await begin(dut, pace)
    if not config.shares:
        return
    rng = bench.random
    nodes, hubs = np.arange(config.width // 2), config.width // 2 + np.arange(config.width // 2)
    numbers, split = np.random.default_rng(rng.getrandbits(64)), 0
    for name, rooted in product(("karate", "clique", "sparse"), (False, True)):
        layer = layer_of(
            load("karate" if name == "karate" else f"synthetic:clique,nodes={config.width}"), config, rng,
            f_out=rng.randint(1, config.max_out), scheme=scheme(config, kind), rooted=rooted,
            schedule=Schedule(8 if name == "karate" else 1 << 10),
        )  # fmt: skip
        if name != "karate":
            # Few hubs have nodes in all pieces, where bitmaps are sparse; every hub and node has a neighbour.
            bitmap = numbers.random((nodes.size, config.width)) < (0.1 if name == "sparse" else 1.0)
            bitmap[nodes, nodes] = bitmap[nodes, nodes.size + nodes] = True
            none = np.zeros(0, np.int64)
            alone = [Record(hubs[n : n + 1], none, np.ones((1, 1), np.bool_), 0, hub_edges=True) for n in nodes]
            layer = replace(layer, records=[Record(nodes, hubs, bitmap, 0), *alone])
        expected, ports = layer.expected(), PEPorts(bench, config)
        await ports.load(layer)
        shares = [
            (record, piece)
            for record in layer.records
            for piece in (pieces_of(record, config.width) if record.nodes.size > 1 else (None,))
        ]
        split += len(shares) - len(layer.records)
        rng.shuffle(shares)
        for record, piece in shares:
            ports.share(record, piece)
        ends = [int(vid) for record in layer.records if not record.hub_edges for vid in record.nodes]
        partials = sum(record.hubs.size + record.nodes.size * record.hub_edges for record, _ in shares)
        done = partial(lambda ports, *wanted: (ports.done, ports.partial_count) == wanted, ports, len(ends), partials)
        await bench.until(done, 200_000)
        await bench.cycles(2_000)
        assert not int(dut.busy.value), "busy with nothing to do"
        # No row has come twice: each would be counted.
        assert (ports.done, ports.partial_count) == (len(ends), partials)
        assert ports.rows() == {vid: list(map(int, expected.results[vid])) for vid in ends}
        f_out = layer.layer.f_out
        for vid, sums in ports.partials.items():
            assert sums[:f_out] == expected.sums[vid].tolist()
            assert ports.vectors[vid] == vectors_of(layer.records)[vid]
    # Records of half the width have four pieces, in each of the four layers that are not karate's.
    assert split >= 4 * 3


@cocotb.test()
@cocotb.parametrize(late=["hub_rows", "rows"])
async def what_comes_late_is_waited_for(dut: Any, late: str) -> None:
    """Rows of hubs long after those of nodes, and the other way round."""
    bench, config = await begin(dut)
    bench.pace(idle={late: 0.97})
    layer = layer_of(load("karate"), config, bench.random, f_out=config.lanes, scheme=scheme(config, Kind.PAIRS))
    await run(bench, config, layer)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), late=[1, 2, 5])
async def sums_are_formed_before_the_last_vector_comes(dut: Any, kind: Kind, late: int) -> None:
    """Hold back the last vectors of a record: all is done that needs none of them, and the rest when they have come."""
    bench, config = await begin(dut)
    rng = np.random.default_rng(bench.random.getrandbits(64))
    nodes = np.arange(config.width // 2)
    graph = load(f"synthetic:clique,nodes={nodes.size}")
    for density in (0.3, 0.6, 1.0):
        bitmap = np.triu(rng.random((nodes.size,) * 2) < density)
        bitmap |= bitmap.T | np.eye(nodes.size, dtype=np.bool_)
        layer = layer_of(
            graph, config, bench.random, f_out=bench.random.choice((1, config.max_out)),
            scheme=scheme(config, kind, bench.random.choice((2, 4))),
        )  # fmt: skip
        layer = replace(layer, records=[Record(nodes, np.zeros(0, np.int64), bitmap, 0)])
        if density == 1.0:
            # Only windows of the first columns and pairs of them share sums here.
            formed = counts_before(config, layer, nodes.size - late)["formed"]
            assert (formed > 0) == (kind is not Kind.NONE)
        await run(bench, config, layer, late=late)


@cocotb.test()
async def a_slot_is_kept_until_its_row_has_come(dut: Any) -> None:
    """Rows of nodes without a wanted neighbour, which no sum needs, come long after all sums; slots are used again."""
    bench, config = await begin(dut)
    rng = bench.random
    for number in range(6):
        graph = load(f"synthetic:path,nodes={config.width}")
        layer = layer_of(
            graph, config, rng, f_out=config.max_out, scheme=scheme(config, Kind.PAIRS), rooted=bool(number % 2)
        )
        first = rng.randrange(graph.nodes - 2)
        await run(bench, config, replace(layer, summed=range(first, first + 2)), mixed=True)


@cocotb.test()
async def a_layer_takes_its_cycles(dut: Any) -> None:
    """Every cycle of a layer without stalls, both ways of sharing, rows of one chunk and of several."""
    bench, config = await begin(dut)
    for kind in Kind:
        for f_out in (config.lanes, config.max_out):
            layer = layer_of(
                load("karate"), config, random.Random(1), f_out=f_out, scheme=scheme(config, kind),
                schedule=Schedule(4),
            )  # fmt: skip
            name = f"community.pe.karate.{kind.name.lower()}.{config.width}"
            name += "" if f_out == config.lanes else f".{f_out}"
            expect_cycles(name, await run(bench, config, layer))


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    """Reset in the middle of a layer; then the layer, as it should be."""
    bench, config = await begin(dut, 0.2)
    for _ in range(3):
        kind, f_out = bench.random.choice(list(Kind)), bench.random.randint(1, config.max_out)
        layer = layer_of(load("karate"), config, bench.random, f_out=f_out, scheme=scheme(config, kind))
        ports = PEPorts(bench, config)
        await ports.load(layer)
        ports.records(layer.records)
        await bench.cycles(bench.random.randrange(20, 1000))
        await bench.reset()
        await run(bench, config, layer)


def test_pe() -> None:
    simulate(pe(**DEFAULT), __name__, parameters=DEFAULT)


def test_narrow_pe() -> None:
    simulate(pe(**NARROW), __name__, parameters=NARROW, name="narrow")
