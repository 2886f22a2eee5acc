"""`atoll bench community`: operations that shared sums save, and an inference in RTL beside published figures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from golden.community.bound import greedy_saving
from golden.community.image import build_community_image
from golden.community.layer import operations_of
from golden.community.plan import Kind, Operations, Scheme, columns_of, plan
from golden.datasets import load
from golden.graph import Graph
from golden.image import build_image
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.schedule import Schedule, falling
from golden.metrics import compulsory_bytes, limit_cycles, useful_operations
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.community.formats import CommunityConfig
from hw.locator.config import LocatorConfig
from scripts.bench.names import named
from scripts.bench.portfolio import GRAPHS
from scripts.bench.sharing import sharing
from scripts.flows.outputs import checked_folder, write
from scripts.flows.table import show
from sim.harness import ROOT
from sim.runner.jobs import Job, mismatches
from sim.runner.run import run_jobs

__all__ = ["DATASETS", "bench"]

#: Graphs of the benchmark; Cora first, where `ATOLL_PLANETOID` names its folder.
DATASETS = ("karate", "digits", "synthetic:power-law,nodes=2000,seed=1")
#: Schedules and the largest community that goes with each; first that of a run.
SCHEDULES = (
    ("as a run", None, 64),
    ("16 by 1", Schedule(16, False, 1), 64),
    ("16 halving", Schedule(16), 64),
    ("32 by 1", Schedule(32, False, 1), 256),
    ("64 by 1", Schedule(64, False, 1), 1024),
)
SCHEMES = (
    *((f"window of {k}", Scheme(Kind.WINDOW, k, columns=1 << 14)) for k in (2, 4, 8)),
    *((f"pairs, {n} partners", Scheme(partners=n, columns=1 << 14)) for n in (4, 8, 64)),
)
#: Columns of a record up to which the greedy bound is computed: it looks at every pair before every step.
_BOUND_COLUMNS = 256
#: Utilisation on Cora as published.
PUBLISHED = {"I-GCN, 4,096 multipliers": 0.76, "AWB-GCN, 4,096 multipliers": 0.43, "GCNAX": 0.42}
_LOCATOR = LocatorConfig(engines=4, searches=4, lanes=4, outputs=4)
#: Of the scratchpad: 128 KiB.
_SCRATCH_LINES = 2048


def _saved(name: str, graph: Graph) -> list[dict[str, Any]]:
    """Figures of all schedules and schemes; every non-zero is counted once, which is checked."""
    rows, cover = [], cover_of(graph)
    for title, schedule, c_max in SCHEDULES:
        found = locate(cover.graph, schedule or falling(graph), Limits(c_max, 256, 256))
        records = [columns_of(record, cover.summed) for record in found.records]
        whole = max(map(len, records), default=0) <= _BOUND_COLUMNS
        bound = sum(map(greedy_saving, records)) if whole else None
        for how, scheme in SCHEMES:
            total = sum((operations_of(columns, plan(columns, scheme)) for columns in records), Operations())
            assert total.baseline == graph.nodes + graph.edge_count, f"{total.baseline} entries of {graph.name}"
            rows.append(
                {
                    "dataset": name,
                    "threshold": title,
                    "c_max": c_max,
                    "how": how,
                    "baseline": total.baseline,
                    "gross": total.gross,
                    "formed": total.formed,
                    "net": total.net,
                    "pruned_gross": total.pruned_gross,
                    "pruned": total.pruned,
                    "bound": bound / total.baseline if bound is not None and total.baseline else None,
                }
            )
    return rows


def _gathered(problem: Problem) -> tuple[int, int]:
    """Return lanes and cycles of the same inference on a chiplet with gather PEs, compared bit by bit."""
    config = GatherChipletConfig()
    with tempfile.TemporaryDirectory() as folder:
        (outcome,), _ = run_jobs(config, [Job([build_image(problem)])], Path(folder))
    wrong = mismatches(problem, outcome)
    assert not wrong, "; ".join(wrong)
    return config.lanes, outcome.cycles


def _inference(name: str, graph: Graph) -> dict[str, Any]:
    """Two layers of GCN in RTL, compared bit by bit."""
    problem = quantise(train(graph, model_of("gcn"), Training(layers=2, hidden=16, seed=0)), graph)
    config = CommunityChipletConfig(community=CommunityConfig(ways=8), locator=_LOCATOR, scratch_lines=_SCRATCH_LINES)
    image = build_community_image(problem, falling(graph), scratch_lines=_SCRATCH_LINES)
    with tempfile.TemporaryDirectory() as folder:
        (outcome,), _ = run_jobs(config, [Job([image])], Path(folder))
    wrong = mismatches(problem, outcome)
    assert not wrong, "; ".join(wrong)
    useful, least = useful_operations(problem, infer(problem)), compulsory_bytes(problem)
    moved = outcome.run.memory["bytes_read"] + outcome.run.memory["bytes_written"]
    gather_lanes, gather_cycles = _gathered(problem)
    return {
        "dataset": name,
        "gather_lanes": gather_lanes,
        "gather_cycles": gather_cycles,
        "lanes": config.lanes,
        "cycles": outcome.cycles,
        "phases": outcome.run.phases,
        "useful": useful,
        "limit_cycles": limit_cycles(useful, config.lanes, least, config.port_bytes),
        "utilisation": useful / (config.lanes * outcome.cycles),
        "published": PUBLISHED,
        "external_bytes": moved,
        "compulsory_bytes": least.total,
        **outcome.run.counters,
    }


def bench(
    names: Sequence[str] | None = None, *, rtl: bool = True, out: Path = ROOT / "build" / "bench"
) -> dict[str, Any]:
    """Measure, print, and write ``community.json``.

    Parameters
    ----------
    names
        Data sets; default: Cora where it is to be had, and others; for ``sharing`` those of the portfolio, too.
    rtl
        Simulate an inference on the first of them too.
    out
        Folder.

    Returns
    -------
    dict
        ``operations`` and ``sharing``, lists of rows, and ``inference``.

    Raises
    ------
    AssertionError
        If an edge is not counted once, or a result differs from the golden model.
    """
    chosen = named(names, *DATASETS)
    graphs = {name: load(name) for name in chosen}
    operations = [row for name, graph in graphs.items() for row in _saved(name, graph)]
    show(
        "additions and subtractions of vectors: entries of A + I, to rows, with sums formed",
        ["data set", "threshold", "c_max", "scheme", "baseline", "gross", "net", "gross saves", "net saves", "greedy"],
        [
            (
                row["dataset"].rpartition("/")[2].partition(",")[0],
                row["threshold"],
                row["c_max"],
                row["how"],
                *(f"{row[key]:,}" for key in ("baseline", "gross", "net")),
                *(f"{row[key]:.1%}" for key in ("pruned_gross", "pruned")),
                "" if row["bound"] is None else f"{row['bound']:.1%}",
            )
            for row in operations
        ],
    )
    kinds = (
        graphs
        if names is not None
        else {**graphs, **{name: load(f"synthetic:{keys}") for name, keys in GRAPHS.items()}}
    )
    result: dict[str, Any] = {"operations": operations, "sharing": sharing(kinds)}
    if rtl:
        result["inference"] = found = _inference(chosen[0], graphs[chosen[0]])
        show(
            f"inference on {chosen[0].rpartition('/')[2]}, two layers of GCN, bit-exact",
            ["", "value"],
            [
                ("multipliers", found["lanes"]),
                ("cycles, location included", f"{found['cycles']:,}, at least {found['limit_cycles']:,}"),
                *((f"  layer {phase.layer} {phase.opcode}", f"{phase.cycles:,}") for phase in found["phases"]),
                (f"cycles of gather PEs with {found['gather_lanes']} multipliers", f"{found['gather_cycles']:,}"),
                ("utilisation", f"{found['utilisation']:.1%}"),
                *((f"  published, {who}", f"{share:.0%}") for who, share in PUBLISHED.items()),
                (
                    "external bytes",
                    f"{found['external_bytes']:,}: {found['external_bytes'] / found['compulsory_bytes']:.2f} of the "
                    f"compulsory {found['compulsory_bytes']:,}",
                ),
                ("gross, formed", f"{found['gross']:,}, {found['formed']:,}"),
            ],
        )
    checked_folder(out)
    write(out / "community.json", json.dumps(result, indent=1))
    return result
