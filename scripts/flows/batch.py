"""Mini-batches of a run: who samples which roots, the exact results, and the simulation that is compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from contracts import LINE_BYTES, Error, Policy, Targets
from contracts.errors import InputError, unknown
from golden.attributes.batch import BatchImage, batch_results, batches_of
from golden.attributes.divided import shares_of
from golden.attributes.links import Pairs
from golden.attributes.orders import ORDERS
from golden.attributes.sampler import Batch, Plan
from golden.graph import IntArray
from golden.model.layer import Int16Array
from hw.attributes.core import AttributeCoreConfig
from hw.config import MachineConfig
from scripts.flows.progress import Steps
from scripts.flows.simulations import Placed, limits_of, simulate_batches
from sim.runner.batches import BatchJob, Ran

__all__ = ["Batches", "Sampling", "parse_fan_out", "parse_slots", "plan_batches"]


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
    targets
        How attributes get their slots of the buffer; None: by a plan if the core can make one, else by hash where PEs
        take rows from a window. These come in order from any slot, and a row that is in its slot already costs a cycle.
    negatives
        Nodes that are drawn for each root and are not joined to it, for link prediction; 0: none.
    replicas
        Each chiplet's memory has copies of the rows that it will want most of other chiplets.
    """

    size: int
    fan_out: tuple[int, ...] = (10, 10)
    order: str = "ID"
    most: int = 0
    targets: Targets | None = None
    negatives: int = 0
    replicas: bool = False


def parse_slots(text: str | None) -> Targets | None:
    """How attributes get their slots, as `Sampling.targets`.

    Raises
    ------
    InputError
        If it is none of ``hash``, ``position`` and ``ahead``.
    """
    ways = {each.name.lower(): each for each in Targets}
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

    @cached_property
    def pairs(self) -> Pairs:
        """Pairs of the roots with nodes that are sampled for them, by the golden sampler."""
        return Pairs.of([batch for batch, _ in self.exact])

    @cached_property
    def ends(self) -> Batches | None:
        """Batches whose roots are the nodes of `pairs` that are no roots here; None: all are.

        They are a pass of their own, because a host can name these nodes only after it has read the samples.
        """
        mine = [roots for share in self.shares for roots in share]
        others = np.setdiff1d(self.pairs.nodes, np.concatenate(mine)) if mine else np.zeros(0, np.int64)
        if not others.size:
            return None
        sampling, plan = replace(self.sampling, negatives=0, most=0), replace(self.images[0].plan, negatives=0)
        return _shared_out(sampling, self.placed, self.sizes, plan, others)

    @cached_property
    def passes(self) -> list[Batches]:
        """These batches, then those of `ends`, if negatives are drawn."""
        ends = self.ends if self.sampling.negatives else None
        return [self, *([ends] if ends else [])]

    def simulate(self, folder: Path, steps: Steps) -> list[list[Ran]]:
        """Let the machine work through all passes; see :func:`scripts.flows.simulations.simulate_batches`."""
        jobs = [BatchJob(each.images, each.shares) for each in self.passes]
        return simulate_batches(self.sizes, jobs, folder, steps)

    def differences(self, ran: Sequence[Sequence[Ran]]) -> list[str]:
        """Return a line for each batch of `passes` that is not bit-exact, or that ended with an error."""
        names = ("batch", "batch of ends of pairs")[: len(self.passes)]
        found = zip(names, self.passes, ran, strict=True)
        return [line for name, each, outs in found for line in each._own_differences(name, outs)]

    def _own_differences(self, name: str, ran: Sequence[Ran]) -> list[str]:
        lines = []
        for number, (out, (batch, rows)) in enumerate(zip(ran, self.exact, strict=True)):
            failed = [run.completion for run in out.runs if run.completion["error"]]
            if failed:
                error, info = Error(failed[0]["error"]).name, failed[0]["info"]
                lines.append(f"{name} {number} ended with {error}, info {info:#x}")
            elif out.along.size and not np.array_equal(out.along, batch.along):
                lines.append(f"{name} {number}: it was sampled along other edges")
            elif not np.array_equal(out.nodes, batch.nodes):
                lines.append(f"{name} {number}: other nodes were sampled")
            elif not np.array_equal(out.results, rows):
                lines.append(f"{name} {number}: {int((out.results != rows).sum())} of {rows.size} values differ")
        return lines


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
    graph = placed.problem.graph
    roots = np.flatnonzero(graph.test) if graph.test.any() else np.arange(graph.nodes)
    return _shared_out(sampling, placed, sizes, Plan(sampling.fan_out, sampling.negatives, seed), roots)


def _targets(sampling: Sampling, core: AttributeCoreConfig) -> Targets:
    if sampling.targets is None:
        return Targets.AHEAD if core.ahead else Targets.HASH if core.window else Targets.POSITION
    if sampling.targets == Targets.AHEAD and not core.ahead:
        raise InputError("slots", "are ahead, and the attribute core has ahead = 0", "a configuration that plans them")
    return sampling.targets


def _replicas(sampling: Sampling, sizes: MachineConfig) -> int:
    """Return the cells of each chiplet's table of replicas, 0 if no copies are wanted."""
    if not sampling.replicas:
        return 0
    if sizes.chiplets == 1:
        raise InputError("replicas", "are copies of other chiplets' rows, and there is 1 chiplet", "several chiplets")
    cells = _core(sizes).attribute.replicas
    if not cells:
        raise InputError(
            "replicas", "have no table in the attribute core", "a configuration with [attributes] replicas"
        )
    return cells


def _shared_out(sampling: Sampling, placed: Placed, sizes: MachineConfig, plan: Plan, roots: IntArray) -> Batches:
    """Return batches of these roots, each with the chiplet that owns it, in the order that was asked for."""
    core, graph = _core(sizes), placed.problem.graph
    limits = limits_of(sizes.community) if sizes.community else None
    streamed = core.window > 0
    targets, replicas = _targets(sampling, core), _replicas(sampling, sizes)
    images = [
        BatchImage(
            placed.problem, plan, sampling.size, targets, limits, sizes.chiplet.pe.weight_room,
            sizes.chiplet.scratch_lines, streamed=streamed, share=share, replicas=replicas,
        )
        for share in shares_of(placed.placement.boundaries)
    ]  # fmt: skip
    for image in images:
        _check_fits(image, sizes)
    order = ORDERS[sampling.order](graph)
    roots = order[np.isin(order, roots)]
    owners = placed.placement.owners(roots)
    shares = [list(batches_of(roots[owners == chiplet], sampling.size)) for chiplet in range(sizes.chiplets)]
    return Batches(sampling, placed, sizes, images, [share[: sampling.most or None] for share in shares])


def _core(sizes: MachineConfig) -> AttributeCoreConfig:
    assert sizes.attributes is not None
    return sizes.attributes


def _check_fits(image: BatchImage, sizes: MachineConfig) -> None:
    """Refuse what the machine has no room for; the hardware would refuse it too."""
    core, plan = _core(sizes), image.plan
    attribute, size = core.attribute, image.size
    wanted, room = image.row_bytes, attribute.row_beats * attribute.data_width // 8
    if wanted > room:
        raise InputError("features", f"a row has {wanted} bytes", f"at most {room} ([attributes] row_beats)")
    if image.id_count > 1 << attribute.id_bits:
        what = "nodes" if image.ids == 1 else "nodes and edges with attributes"
        expected = f"at most {1 << attribute.id_bits} ([attributes] id_bits)"
        raise InputError(what, f"there are {image.id_count}", expected)
    if image.ids > 1 and attribute.policy == Policy.DEGREE:
        what = "ranks rows by the degrees of nodes, and edges with attributes have none"
        raise InputError("[attributes] policy", what, "another policy, or --no-edge-attributes")
    end, lines = image.last_line, (1 << sizes.chiplet.port[0]) // LINE_BYTES
    if end > lines:
        raise InputError("graph", f"and working space end at line {end}", f"at most {lines} ([pe] address_width)")
    for fan_out in plan.fan_out:
        if fan_out > core.most:
            raise InputError("fan-out", f"is {fan_out}", f"at most {core.most} ([attributes] most)")
    if plan.negatives > core.fan_out_max:
        why = "[attributes] most" if core.most <= attribute.slots else "[attributes] slots"
        raise InputError("negatives", f"are {plan.negatives}", f"at most {core.fan_out_max} ({why})")
    inner = plan.inner(size)
    if inner > core.frontier:
        what = f"of {size} roots expands {inner} positions"
        raise InputError("batch", what, f"at most {core.frontier} ([attributes] frontier)")
    rooms = [(plan.most(size), (1 << attribute.tag_bits) // image.ids, "[attributes] tag_bits")]
    if community := sizes.community:
        # Rows that are summed up are kept like those of hubs; VIDs of what is computed come behind them. Negatives are
        # not summed up.
        summed = plan.reach(size, len(plan.fan_out))
        hubs, nodes = community.units * community.hubs, community.locator.nodes - inner
        rooms += sorted([(summed, hubs, "[chiplet] units times hubs"), (summed, nodes, "[locator] nodes")])
    for positions, most, why in rooms:
        if positions > most:
            raise InputError("batch", f"of {size} roots has {positions} positions", f"at most {most} ({why})")
