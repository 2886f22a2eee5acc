"""`atoll bench divided`: mini-batches on a ring of chiplets that have the graph once together, in RTL."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contracts import LINE_BYTES, VALUE_BITS, Model, Targets
from golden.attributes.batch import BatchImage, batch_results, batches_of
from golden.attributes.divided import shares_of
from golden.datasets import load
from golden.model.network import Problem
from golden.ring.placement import Placement
from hw.config import MachineConfig
from scripts.bench.attributes import GRAPHS, PLAN, SIZE, with_room
from scripts.config import load_machine
from scripts.flows.outputs import checked_folder, write
from scripts.flows.simulations import limits_of
from scripts.flows.table import show
from sim.harness import ROOT
from sim.problems import random_problem
from sim.runner.batches import BatchJob, Ran
from sim.runner.jobs import Settings
from sim.runner.run import run_jobs

if TYPE_CHECKING:
    from sim.runner.machine import Machine

__all__ = ["CONFIGS", "Point", "bench"]

#: Rings of four whose links are of 64 and of 256 bits.
CONFIGS = ("default", "community-ring")
_CHIPLETS, _BATCHES, _LIMIT = 4, 2, 20_000_000
#: The whole graph in each memory, a part in each, and that with copies.
_WAYS = 3


@dataclass(frozen=True)
class Point:
    """Figures of a graph on a configuration.

    Attributes
    ----------
    config, graph
        Names.
    alone
        For each chiplet, cycles of its batches if it has the whole graph in its memory.
    ring
        The same if each chiplet has its part.
    copied
        The same if it has copies of the rows that it wants most of others beside it.
    waits
        Of `ring`, cycles of the first sample, before which all chiplets wait for each other.
    words, copied_words
        Words of 16 bits in the flits on each link, those that a flit leaves empty among them: of `ring` and of
        `copied`.
    whole, parts, together
        Bytes of offsets, edges and attributes: in the memory of a chiplet that has all; in that of each that has a
        part; in all of these.
    copies
        Bytes of the copies and their table in the memory of each chiplet.
    """

    config: str
    graph: str
    alone: list[int]
    ring: list[int]
    copied: list[int]
    waits: list[int]
    words: list[int]
    copied_words: list[int]
    whole: int
    parts: list[int]
    together: int
    copies: list[int]

    @property
    def slower(self) -> float:
        """Cycles of the chiplet that ends last over those with the whole graph in each memory."""
        return max(self.ring) / max(self.alone)

    @property
    def slower_with_copies(self) -> float:
        """The same with copies."""
        return max(self.copied) / max(self.alone)


@dataclass(frozen=True, eq=False)
class _Counted(BatchJob):
    """Batches, and the flits on each link."""

    async def run(self, machine: Machine) -> Any:
        """Return what each batch left, and the flits that each link has carried since the reset."""
        ran = await super().run(machine)
        return ran, [int(getattr(machine.dut, f"link{n}_flits").value) for n in range(len(self.images))]


def bench(
    graphs: Mapping[str, str] | None = None,
    configs: Mapping[str, MachineConfig] | None = None,
    batches: int = _BATCHES,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run GraphSAGE on mini-batches on rings: the whole graph in every memory; a part in each; with copies beside it.

    The roots of a chiplet are the first of the vertices that it owns. Four equal ranges of VIDs are owned.

    Parameters
    ----------
    graphs
        As `GRAPHS`, which is the default, with Cora.
    configs
        Rings by name; default: `CONFIGS` with room for Cora's rows.
    batches
        Of each chiplet.
    out
        Folder for ``divided.json``.

    Returns
    -------
    dict
        ``points``, a list of `Point` as dicts.

    Raises
    ------
    AssertionError
        If a sample or a result differs from the golden model.
    """
    if graphs is None:
        folder = os.environ.get("ATOLL_PLANETOID")
        graphs = GRAPHS | ({"Cora": f"planetoid:{folder}/cora"} if folder else {})
    points = []
    for config, sizes in (configs or {name: with_room(load_machine(name, _CHIPLETS)) for name in CONFIGS}).items():
        points += _measure(config, sizes, graphs, batches)
    _print(points)
    result = {"points": [_as_dict(point) for point in points]}
    checked_folder(out)
    write(out / "divided.json", json.dumps(result, indent=1))
    return result


def _as_dict(point: Point) -> dict[str, Any]:
    return asdict(point) | {"slower": point.slower, "slower_with_copies": point.slower_with_copies}


def _measure(config: str, sizes: MachineConfig, graphs: Mapping[str, str], batches: int) -> list[Point]:
    """Simulate all graphs on one ring, each in all three ways."""
    assert sizes.attributes is not None
    cells = sizes.attributes.attribute.replicas
    cases, jobs = list[tuple[str, Problem]](), list[BatchJob]()
    limits = limits_of(sizes.community) if sizes.community else None
    for name, spec in graphs.items():
        graph = load(spec)
        problem = random_problem(graph, Model.SAGE, [16, graph.classes], 0)
        boundaries = Placement.ranges(graph.nodes, sizes.chiplets).boundaries
        shares = [
            list(batches_of(np.arange(first, end)[: SIZE * batches], SIZE))
            for first, end in zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True)
        ]
        cases.append((name, problem))
        for owned, replicas in ((boundaries[[0, -1]], 0), (boundaries, 0), (boundaries, cells)):
            images = [
                BatchImage(
                    problem, PLAN, SIZE, targets=Targets.AHEAD, limits=limits, weight_room=sizes.chiplet.pe.weight_room,
                    scratch_lines=sizes.chiplet.scratch_lines, streamed=True, shown=False, share=share,
                    replicas=replicas,
                )
                for share in shares_of(owned)
            ]  # fmt: skip
            images *= sizes.chiplets // len(images)
            jobs.append(_Counted(images, shares, Settings(limit=_LIMIT, settle=sizes.chiplet.settling)))
    with tempfile.TemporaryDirectory() as folder:
        found, _ = run_jobs(
            sizes.chiplet, jobs, Path(folder), units=sizes.units, ring=sizes.ring
        )  # fmt: skip
    return [
        _point(config, name, problem, sizes, jobs[at : at + _WAYS], found[at : at + _WAYS])
        for at, (name, problem) in zip(range(0, len(jobs), _WAYS), cases, strict=True)
    ]


def _point(
    config: str,
    name: str,
    problem: Problem,
    sizes: MachineConfig,
    jobs: Sequence[BatchJob],
    found: Sequence[Any],
) -> Point:
    """Compare the runs with the golden model, and count."""
    (whole, parts, copying), (alone, ring, copied) = jobs, found
    exact = [
        batch_results(problem, roots, PLAN, number)[1]
        for number, roots in enumerate(roots for share in whole.shares for roots in share)
    ]
    for ran, _ in found:
        for number, (out, results) in enumerate(zip(ran, exact, strict=True)):
            assert not any(run.completion["error"] for run in out.runs), out.runs
            assert np.array_equal(out.results, results), f"{config}, {name}: batch {number} differs"
    assert sizes.ring is not None
    held = [_graph_bytes(image) for image in parts.images]
    each = sizes.ring.link_width // VALUE_BITS
    words, copied_words = ([flits * each for flits in counts] for _, counts in (ring, copied))
    return Point(
        config=config,
        graph=name,
        alone=_cycles(alone[0], sizes.chiplets),
        ring=_cycles(ring[0], sizes.chiplets),
        copied=_cycles(copied[0], sizes.chiplets),
        waits=[out.alone.cycles for out in ring[0] if out.alone],
        words=words,
        copied_words=copied_words,
        whole=_graph_bytes(whole.images[0]),
        parts=held,
        together=sum(held),
        copies=[image.replicas.bytes if image.replicas else 0 for image in copying.images],
    )


def _graph_bytes(image: BatchImage) -> int:
    """Bytes of whole lines; an empty region of an image has one that holds nothing."""
    return sum(-(-region.bytes // LINE_BYTES) for region in image.graph) * LINE_BYTES


def _cycles(ran: Sequence[Ran], chiplets: int) -> list[int]:
    """Cycles of the batches of each chiplet."""
    return [sum(run.cycles for out in ran if out.chiplet == chiplet for run in out.runs) for chiplet in range(chiplets)]


def _print(points: Sequence[Point]) -> None:
    show(
        f"GraphSAGE on rings of {_CHIPLETS}, batches of {SIZE} roots, fan-out {', '.join(map(str, PLAN.fan_out))}: "
        "RTL, bit-exact",
        [
            "configuration", "graph", "cycles, all in each", "a part in each", "ratio", "with copies", "ratio",
            "words on each link", "with copies",
        ],
        [
            (
                p.config, p.graph, f"{max(p.alone):,}", f"{max(p.ring):,}", f"{p.slower:.2f}",
                f"{max(p.copied):,}", f"{p.slower_with_copies:.2f}",
                *(" ".join(f"{words:,}" for words in each) for each in (p.words, p.copied_words)),
            )
            for p in points
        ],
    )  # fmt: skip
    show(
        "bytes of offsets, edges and attributes",
        ["configuration", "graph", "all", "part of each chiplet", "together", "copies in each"],
        [
            (
                p.config,
                p.graph,
                f"{p.whole:,}",
                " ".join(f"{part:,}" for part in p.parts),
                f"{p.together:,}",
                f"{max(p.copies):,}",
            )
            for p in points
        ],
    )
