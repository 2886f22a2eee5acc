"""Mini-batches of a run: who samples which roots, what comes out exactly, and what the machine makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from contracts import LINE_BYTES, Error
from contracts.errors import InputError, unknown
from golden.attributes.batch import BatchImage, batch_results, batches_of, dense
from golden.attributes.divided import shares_of
from golden.attributes.orders import ORDERS
from golden.attributes.sampler import Batch, Plan
from golden.graph import Graph, IntArray
from golden.image import row_bytes
from golden.model.float_model import accuracy
from golden.model.layer import Int16Array
from golden.model.network import predictions
from hw.attributes.core import AttributeCoreConfig
from hw.config import MachineConfig
from scripts.flows import schema
from scripts.flows.progress import Steps
from scripts.flows.simulations import Placed, limits_of, simulate_batches
from scripts.flows.table import accuracies
from sim.runner.batches import Ran

__all__ = ["Sampling", "batch_rows", "parse_fan_out", "plan_batches"]

#: How an attribute was found.
_FLOWS = ("in_place", "cached", "moved", "missed")


@dataclass(frozen=True)
class Sampling:
    """Mini-batches that `atoll run --batch` was asked for.

    Attributes
    ----------
    size
        Roots of a batch.
    fan_out
        Of every hop; as many hops as the network has layers.
    order
        Of each chiplet's roots: a name of `golden.attributes.orders.ORDERS`.
    most
        Batches of each chiplet at most; 0: until all nodes of the test set have been roots.
    slotted
        Target addresses by position, not by hash; None: by hash where PEs take rows from a window. These come in order
        from any slot, and a row that is in its slot already costs a cycle.
    """

    size: int
    fan_out: tuple[int, ...] = (10, 10)
    order: str = "ID"
    most: int = 0
    slotted: bool | None = None


def parse_slots(text: str | None) -> bool | None:
    """Whether target addresses follow the position, as `Sampling.slotted`.

    Raises
    ------
    InputError
        If it is neither ``position`` nor ``hash``.
    """
    ways = {"position": True, "hash": False}
    if text is not None and text not in ways:
        raise unknown("slots", text, list(ways))
    return None if text is None else ways[text]


def parse_fan_out(text: str) -> tuple[int, ...]:
    """Fan-outs of ``10,10``.

    Raises
    ------
    InputError
        If it is not a list of numbers.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError("fan-out", f"is {text!r}", "numbers with commas between them, such as 10,10") from None


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of a run.

    Attributes
    ----------
    sampling, placed, sizes
        What was asked for, the network with VIDs as the chiplets know them, and the machine.
    images
        Memory of each chiplet; those of a ring have the graph once together.
    shares
        Roots of the batches of every chiplet.
    """

    sampling: Sampling
    placed: Placed
    sizes: MachineConfig
    images: Sequence[BatchImage]
    shares: Sequence[Sequence[IntArray]]

    @cached_property
    def exact(self) -> list[tuple[Batch, Int16Array]]:
        """What is sampled for every batch, and its roots' results."""
        batches = [roots for share in self.shares for roots in share]
        return [
            batch_results(self.placed.problem, roots, self.images[0].plan, number)
            for number, roots in enumerate(batches)
        ]

    def simulate(self, folder: Path, steps: Steps) -> list[Ran]:
        """Let the machine work through them; see :func:`scripts.flows.simulations.simulate_batches`."""
        return simulate_batches(self.sizes, self.images, self.shares, folder, steps)

    def differences(self, ran: Sequence[Ran]) -> list[str]:
        """Return a line for each batch that is not bit-exact, or that ended with an error."""
        lines = []
        for number, (out, (batch, rows)) in enumerate(zip(ran, self.exact, strict=True)):
            failed = [run.completion for run in out.runs if run.completion["error"]]
            if failed:
                lines.append(f"batch {number} ended with {Error(failed[0]['error']).name}, info {failed[0]['info']:#x}")
            elif not np.array_equal(out.nodes, batch.nodes):
                lines.append(f"batch {number}: other nodes were sampled")
            elif not np.array_equal(out.results, rows):
                lines.append(f"batch {number}: {int((out.results != rows).sum())} of {rows.size} values differ")
        return lines

    def figures(self, floating: IntArray, ran: Sequence[Ran]) -> schema.Batch:
        """Return their figures in `result.json`.

        Parameters
        ----------
        floating
            int64 [nodes], classes of the float network without sampling, by VID in the graph as given.
        ran
            Results of a simulation; none: nothing was simulated.
        """
        graph = self.placed.problem.graph
        roots = [roots for share in self.shares for roots in share]
        results = [out.results for out in ran] if ran else [rows for _, rows in self.exact]
        mine, labelled, wanted = np.zeros(graph.nodes, np.bool_), np.full(graph.nodes, -1), np.empty(graph.nodes, int)
        wanted[self.placed.position] = floating
        for nodes, rows in zip(roots, results, strict=True):
            labelled[nodes] = predictions(rows)
            mine[nodes] = True
        cycles = None
        if ran:
            parts = np.zeros((len(self.shares), 2), dtype=np.int64)
            for out in ran:
                parts[out.chiplet] += [run.cycles if run else 0 for run in (out.alone, out.layers)]
            last = parts[parts.sum(axis=1).argmax()]
            cycles = schema.BatchCycles(total=int(last.sum()), sample=int(last[0]), layers=int(last[1]))
        return schema.Batch(
            size=self.sampling.size,
            fan_out=list(self.sampling.fan_out),
            order=self.sampling.order,
            batches=[len(share) for share in self.shares],
            positions=sum(batch.nodes.size for batch, _ in self.exact),
            bit_exact=not self.differences(ran) if ran else None,
            # The chiplet that ends last.
            cycles=cycles,
            external_bytes=schema.Moved(
                read=sum(out.memory["bytes_read"] for out in ran) if ran else None,
                written=sum(out.memory["bytes_written"] for out in ran) if ran else None,
            ),
            accuracy=schema.SampledAccuracy(
                float=accuracy(wanted, graph, mine), machine=accuracy(labelled, graph, mine)
            ),
        )

    def cache(self, ran: Sequence[Ran]) -> schema.AttributeCache | None:
        """Return the figures of the attribute RAMs of all chiplets; None without a simulation."""
        if not ran:
            return None
        attribute = _core(self.sizes).attribute
        flows = {name: sum(out.batch[name] for out in ran) for name in _FLOWS}
        return schema.AttributeCache(
            requests=sum(flows.values()),
            misses=flows["missed"],
            **flows,
            slots=attribute.slots,
            ways=attribute.ways,
            policy=attribute.policy.name.lower(),
            sub_batches=sum(-(-out.batch["positions"] // attribute.slots) for out in ran),
        )


def plan_batches(sampling: Sampling, placed: Placed, sizes: MachineConfig, config: str, seed: int) -> Batches:
    """Share roots and graph out: each chiplet samples for the roots that it owns, and has their rows in its memory.

    Parameters
    ----------
    sampling, placed, sizes
        As for `Batches`.
    config
        Name of the configuration, for messages.
    seed
        Of the samples.

    Raises
    ------
    InputError
        If the machine has no attribute core, or no room for such batches.
    """
    if sampling.size < 1:
        raise InputError("batch", f"is {sampling.size}", "at least 1 root")
    if sampling.order not in ORDERS:
        raise unknown("order", sampling.order, ORDERS)
    if sizes.attributes is None:
        what = "has no attribute core for mini-batches"
        raise InputError(f"configuration {config}", what, "one with a section attributes")
    plan = Plan(sampling.fan_out, seed=seed)
    limits = limits_of(sizes.community) if sizes.community else None
    streamed = sizes.attributes.window > 0
    slotted = not streamed if sampling.slotted is None else sampling.slotted
    images = [
        BatchImage(
            placed.problem, plan, sampling.size, slotted, limits, sizes.chiplet.pe.weight_room,
            sizes.chiplet.scratch_lines, streamed=streamed, share=share,
        )
        for share in shares_of(placed.placement.boundaries)
    ]  # fmt: skip
    for image in images:
        _check_fits(image, sizes)
    roots = _roots(placed.problem.graph, sampling.order)
    owners = placed.placement.owners(roots)
    shares = [list(batches_of(roots[owners == chiplet], sampling.size)) for chiplet in range(sizes.chiplets)]
    return Batches(sampling, placed, sizes, images, [share[: sampling.most or None] for share in shares])


def _core(sizes: MachineConfig) -> AttributeCoreConfig:
    assert sizes.attributes is not None
    return sizes.attributes


def _roots(graph: Graph, order: str) -> IntArray:
    """Nodes of the test set, or all if there is none, in an order."""
    chosen = graph.test if graph.test.any() else np.ones(graph.nodes, dtype=np.bool_)
    nodes: IntArray = ORDERS[order](graph)
    return nodes[chosen[nodes]]


def _check_fits(image: BatchImage, sizes: MachineConfig) -> None:
    """Refuse what the machine has no room for; the hardware would refuse it too."""
    core, plan, problem = _core(sizes), image.plan, image.problem
    attribute, size = core.attribute, image.size
    wanted, room = row_bytes(dense(problem).shape[1]), attribute.row_beats * attribute.data_width // 8
    if wanted > room:
        raise InputError("features", f"a row has {wanted} bytes", f"at most {room} ([attributes] row_beats)")
    if problem.graph.nodes > 1 << attribute.id_bits:
        raise InputError("nodes", f"there are {problem.graph.nodes}", f"at most {1 << attribute.id_bits}")
    end, lines = image.last_line, (1 << sizes.chiplet.port[0]) // LINE_BYTES
    if end > lines:
        raise InputError("graph", f"and working space end at line {end}", f"at most {lines} ([pe] address_width)")
    for fan_out in plan.fan_out:
        if fan_out > core.most:
            raise InputError("fan-out", f"is {fan_out}", f"at most {core.most} ([attributes] most)")
    inner, positions = plan.inner(size), plan.most(size)
    if inner > core.frontier:
        what = f"of {size} roots expands {inner} positions"
        raise InputError("batch", what, f"at most {core.frontier} ([attributes] frontier)")
    most, why = 1 << attribute.tag_bits, "[attributes] tag_bits"
    if community := sizes.community:
        # Rows that are summed up are kept like those of hubs; VIDs of what is computed come behind them.
        hubs, nodes = community.units * community.hubs, community.locator.nodes - inner
        most, why = min((most, why), (hubs, "[chiplet] units times hubs"), (nodes, "[locator] nodes"))
    if positions > most:
        raise InputError("batch", f"of {size} roots has {positions} positions", f"at most {most} ({why})")


def batch_rows(batch: schema.Batch | None, cache: schema.AttributeCache | None) -> list[tuple[str, str]]:
    """Return the rows of the printed summary about mini-batches, if there are any."""
    if batch is None:
        return []
    found = batch.accuracy
    measured = accuracies({"accuracy": found.machine, "float without sampling": found.float}, "root")
    rows = [
        (
            "mini-batches",
            f"{', '.join(map(str, batch.batches))} of {batch.size} roots, fan-out "
            f"{', '.join(map(str, batch.fan_out))}: {batch.positions:,} positions; {measured}",
        )
    ]
    if spent := batch.cycles:
        moved = batch.external_bytes
        rows += [
            ("  their cycles", f"{spent.total:,}: first sample {spent.sample:,}, then layers {spent.layers:,}"),
            ("  their external bytes", f"{moved.read:,} read, {moved.written:,} written"),
        ]
    if cache:
        rows.append(
            (
                "attribute cache",
                f"{cache.requests:,} requests in {cache.sub_batches} sub-batches of {cache.slots}: "
                f"{cache.missed:,} missed, {cache.in_place:,} in place, {cache.cached:,} in the cache, "
                f"{cache.moved:,} moved",
            )
        )
    return rows
