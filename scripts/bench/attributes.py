"""`atoll bench attributes`: bytes, cycles and latency of sampled inference as a whole, with and without the cache."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts import Model, Policy, Targets
from golden.attributes.batch import BatchImage, batch_results, batches_of, dense
from golden.attributes.belady import belady_misses
from golden.attributes.cache import AttributeRam, by_processor, hashed_slot, replay
from golden.attributes.orders import ORDERS
from golden.attributes.planner import SlotPlanner
from golden.attributes.sampler import Plan
from golden.datasets import load
from golden.model.network import Problem
from hw.attributes.formats import AttributeConfig
from hw.config import MachineConfig
from scripts.config import load_machine
from scripts.flows.outputs import checked_folder, write
from scripts.flows.table import show
from sim.harness import ROOT
from sim.problems import random_problem
from sim.runner.batches import BatchJob, Ran
from sim.runner.jobs import Settings
from sim.runner.run import run_jobs

__all__ = ["GRAPHS", "ROW_BEATS", "WINDOW", "Point", "bench", "machine_of", "with_room"]

#: Graphs by name; Cora beside them if `ATOLL_PLANETOID` says where it is.
GRAPHS = {
    "digits": "digits",
    "power law": "synthetic:power-law,nodes=20000,degree=8,features=64,density=1",
    "communities": "synthetic:community,nodes=4000,degree=8,classes=80,features=64,density=1,mixing=0.05",
}
#: Sizes of a core that has room for Cora's rows, and beats that wait for the PEs.
ROW_BEATS, WINDOW = 96, 512
#: Roots of a batch, batches of a run, samples of each hop.
SIZE, BATCHES, PLAN = 32, 4, Plan((10, 10), seed=0)
_LIMIT = 5_000_000


@dataclass(frozen=True)
class Point:
    """Figures of a graph and an order of roots.

    Attributes
    ----------
    graph, order
        A name of `GRAPHS`, and of `golden.attributes.orders.ORDERS`.
    batches, positions, row_bytes
        Batches, positions of all of them, bytes of an attribute row.
    cycles, layers, latency
        Of all batches; of the runs that compute one and sample the next; and of a batch on average.
    busy
        Share of the multipliers' time that the products of the first layer with features that are not 0 take.
    other
        Bytes of the run in RTL but for attribute rows: adjacency, weights, factors, results.
    rows
        Attribute rows read, by way: ``none`` (no cache: each position); with hashed slots ``buffer`` (level 1 alone)
        and each policy; ``planned``, as the machine has it; ``belady`` (as many entries, fully associative,
        clairvoyant) and ``least`` (each row once a batch). ``planned`` is measured in RTL too, and equal.
    """

    graph: str
    order: str
    batches: int
    positions: int
    row_bytes: int
    cycles: int
    layers: int
    latency: float
    busy: float
    other: int
    rows: dict[str, int]

    def moved(self, way: str) -> int:
        """Return the bytes of the whole inference."""
        return self.other + self.rows[way] * self.row_bytes


def machine_of(config: str = "default") -> MachineConfig:
    """Return one chiplet of a configuration, with room for Cora's rows of attributes."""
    return with_room(load_machine(config, 1))


def with_room(sizes: MachineConfig) -> MachineConfig:
    """Return a machine with an attribute core that has room for Cora's rows, and without the neural unit."""
    assert sizes.attributes is not None
    attribute = replace(sizes.attributes.attribute, row_beats=ROW_BEATS)
    return replace(sizes, neural=None, attributes=replace(sizes.attributes, attribute=attribute, window=WINDOW))


def bench(
    graphs: Mapping[str, str] | None = None,
    sizes: MachineConfig | None = None,
    batches: int = BATCHES,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run GraphSAGE on mini-batches in RTL, bit-exact, and count what other caches would read.

    Parameters
    ----------
    graphs
        As `GRAPHS`, which is the default.
    sizes
        A chiplet with gather PEs and a core with a window that plans slots; default: `machine_of`.
    batches
        Of each run.
    out
        Folder for ``attributes.json``.

    Returns
    -------
    dict
        ``points``, a list of `Point` as dicts; ``saved``, for each graph the bytes of the community order with the
        cache over those of the given order without one.

    Raises
    ------
    AssertionError
        If a sample or a result differs from the golden model, or the hardware misses other rows than it.
    """
    if graphs is None:
        folder = os.environ.get("ATOLL_PLANETOID")
        graphs = GRAPHS | ({"Cora": f"planetoid:{folder}/cora"} if folder else {})
    sizes = sizes or machine_of()
    cases, jobs = [], list[BatchJob]()
    for name, spec in graphs.items():
        graph = load(spec)
        problem = random_problem(graph, Model.SAGE, [16, graph.classes], 0)
        image = BatchImage(
            problem, PLAN, SIZE, targets=Targets.AHEAD, weight_room=sizes.chiplet.pe.weight_room,
            scratch_lines=sizes.chiplet.scratch_lines, streamed=True, shown=False,
        )  # fmt: skip
        for order in ("ID", "community"):
            roots = list(batches_of(ORDERS[order](graph)[: SIZE * batches], SIZE))
            cases.append((name, order, problem, roots))
            jobs.append(BatchJob([image], [roots], Settings(limit=_LIMIT)))
    with tempfile.TemporaryDirectory() as folder:
        units = sizes.units
        found, _ = run_jobs(sizes.chiplet, jobs, Path(folder), units=units)
    points = [
        _point(name, order, problem, roots, job.images[0], ran, sizes)
        for (name, order, problem, roots), job, ran in zip(cases, jobs, found, strict=True)
    ]
    saved = {}
    for name in graphs:
        given, near = (next(p for p in points if (p.graph, p.order) == (name, order)) for order in ("ID", "community"))
        saved[name] = 1 - near.moved("planned") / given.moved("none")
    _print(points, saved)
    result = {"points": [asdict(point) for point in points], "saved": saved}
    checked_folder(out)
    write(out / "attributes.json", json.dumps(result, indent=1))
    return result


def _attribute(sizes: MachineConfig) -> AttributeConfig:
    assert sizes.attributes is not None
    return sizes.attributes.attribute


def _processors(sizes: MachineConfig) -> int:
    assert sizes.attributes is not None
    return sizes.attributes.processors


def _ahead(sizes: MachineConfig) -> int:
    assert sizes.attributes is not None
    return sizes.attributes.ahead


def _point(
    name: str,
    order: str,
    problem: Problem,
    roots: Sequence[Any],
    image: BatchImage,
    ran: Sequence[Ran],
    sizes: MachineConfig,
) -> Point:
    """Compare a run with the golden model, and replay its requests with other caches."""
    attribute, trace = _attribute(sizes), list[list[int]]()
    for number, (mine, out) in enumerate(zip(roots, ran, strict=True)):
        assert not any(run.completion["error"] for run in out.runs), out.runs
        batch, results = batch_results(problem, mine, PLAN, number)
        assert np.array_equal(out.results, results), f"{name}, {order}: batch {number} differs"
        trace.append(batch.nodes[: batch.positives].tolist())
    flat = [node for each in trace for node in each]
    shares = by_processor(((node, hashed_slot(node, attribute.slots)) for node in flat), _processors(sizes))
    degrees = problem.graph.degrees
    planner = SlotPlanner(attribute.slots, _ahead(sizes), len(shares))
    slots = [slot for each in trace for slot in planner.plan(each)]
    planned = by_processor(zip(flat, slots, strict=True), len(shares))

    def misses(ways: int, policy: Policy, shares: Sequence[list[tuple[int, int]]] = shares) -> int:
        rams = [AttributeRam(attribute.slots, ways, policy, degree=lambda node: int(degrees[node])) for _ in shares]
        steps = [step for ram, share in zip(rams, shares, strict=True) for step in replay(ram, share)]
        return sum(step.flow.name == "MISSED" for step in steps)

    rows = {
        "none": len(flat),
        "buffer": misses(0, Policy.LRU),
        **{policy.name.lower(): misses(attribute.ways, policy) for policy in Policy},
        "planned": misses(attribute.ways, attribute.policy, planned),
        "belady": belady_misses(flat, (attribute.slots + attribute.ways) * len(shares)),
        "least": sum(len(set(each)) for each in trace),
    }
    missed = sum(out.batch["missed"] for out in ran)
    assert missed == rows["planned"], f"{name}, {order}: {missed} misses"
    layers = sum(out.layers.cycles for out in ran if out.layers)
    cycles = layers + sum(out.alone.cycles for out in ran if out.alone)
    moved = sum(out.memory["bytes_read"] + out.memory["bytes_written"] for out in ran)
    # Features that are 0 are not multiplied.
    features = np.count_nonzero(dense(problem), axis=1)
    products = int(features[flat].sum()) * problem.model.layers[0].f_out
    return Point(
        graph=name,
        order=order,
        batches=len(ran),
        positions=len(flat),
        row_bytes=image.row_bytes,
        cycles=cycles,
        layers=layers,
        latency=cycles / len(ran),
        busy=products / sizes.chiplet.lanes / cycles,
        other=moved - missed * image.row_bytes,
        rows=rows,
    )


def _print(points: Sequence[Point], saved: Mapping[str, float]) -> None:
    """Print cycles, then bytes by way, then what cache and order save together."""
    show(
        f"GraphSAGE, batches of {SIZE} roots, fan-out {', '.join(map(str, PLAN.fan_out))}: RTL, bit-exact",
        ["graph", "roots", "positions", "cycles a batch", "the first sample", "multipliers busy", "rows missed"],
        [
            (
                p.graph, p.order, f"{p.positions:,}", f"{p.latency:,.0f}", f"{p.cycles - p.layers:,}",
                f"{p.busy:.1%}", f"{p.rows['planned']:,}",
            )
            for p in points
        ],
    )  # fmt: skip
    ways = list(points[0].rows)
    show(
        "external bytes of the whole inference, in kB",
        ["graph", "roots", *ways, "without rows"],
        [
            (p.graph, p.order, *(f"{p.moved(way) / 1000:,.0f}" for way in ways), f"{p.other / 1000:,.0f}")
            for p in points
        ],
    )
    show(
        "bytes over those of Belady",
        ["graph", "roots", "best policy", "planned"],
        [
            (
                p.graph, p.order, *(f"{p.moved(way) / p.moved('belady'):.3f}" for way in (_best(p), "planned")),
            )
            for p in points
        ],
    )  # fmt: skip
    show(
        "bytes saved by planned slots in community order, of those without a cache in the given order",
        ["graph", "saved"],
        [(name, f"{share:.1%}") for name, share in saved.items()],
    )


def _best(point: Point) -> str:
    """Name the policy with the fewest rows at hashed slots."""
    return min((policy.name.lower() for policy in Policy), key=point.rows.__getitem__)
