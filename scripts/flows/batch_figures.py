"""Figures of mini-batches: cycles, bytes, accuracy, link prediction and requests to the attribute RAMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from golden.attributes.batch import dense
from golden.attributes.links import Ranking, ranking
from golden.graph import IntArray
from golden.model.float_model import FloatArray, accuracy
from golden.model.layer import Int16Array
from golden.model.network import predictions
from scripts.flows import schema
from scripts.flows.batch import Batches
from scripts.flows.table import accuracies
from sim.runner.batches import Ran

__all__ = ["batch_figures", "batch_rows", "cache_figures"]

#: How an attribute was found.
_FLOWS = ("in_place", "cached", "moved", "missed")


def batch_figures(batches: Batches, floating: FloatArray, ran: Sequence[Sequence[Ran]]) -> schema.Batch:
    """Return the figures of mini-batches in `result.json`.

    Parameters
    ----------
    batches
        Of the roots.
    floating
        float64 [nodes, f_out], results of the float network without sampling, by VID in the graph as given.
    ran
        Results of a simulation, for each of ``batches.passes``; empty: nothing was simulated.
    """
    sampling, graph = batches.sampling, batches.placed.problem.graph
    wanted = np.empty_like(floating)
    wanted[batches.placed.position] = floating
    rows, mine = _results(batches.passes[:1], ran)
    own = ran[0] if ran else []
    return schema.Batch(
        size=sampling.size,
        fan_out=list(sampling.fan_out),
        negatives=sampling.negatives,
        order=sampling.order,
        batches=[len(share) for share in batches.shares],
        positions=_positions(batches),
        bit_exact=not batches.differences(ran) if ran else None,
        cycles=_cycles(batches, own),
        external_bytes=_moved(own),
        accuracy=schema.SampledAccuracy(
            float=accuracy(wanted.argmax(axis=1), graph, mine), machine=accuracy(predictions(rows), graph, mine)
        ),
        links=_links(batches, wanted, ran) if sampling.negatives else None,
    )


def _links(batches: Batches, wanted: FloatArray, ran: Sequence[Sequence[Ran]]) -> schema.Links:
    """Return the figures of link prediction; `wanted` are the float network's results by VID of the chiplets."""
    pairs, ends = batches.pairs, batches.ends
    # The machine is judged by its own results; the last layer's are the embeddings.
    rows, _ = _results(batches.passes, ran)
    others = None
    if ends:
        own = ran[1] if ran else []
        others = schema.Ends(
            nodes=sum(roots.size for share in ends.shares for roots in share),
            batches=[len(share) for share in ends.shares],
            positions=_positions(ends),
            cycles=_cycles(ends, own),
            external_bytes=_moved(own),
        )
    return schema.Links(
        positive=len(pairs.positive),
        negative=len(pairs.negative),
        ends=others,
        machine=_shown(ranking(pairs, rows)),
        float=_shown(ranking(pairs, wanted)),
        features=_shown(ranking(pairs, dense(batches.placed.problem))),
    )


def _shown(found: Ranking) -> schema.Ranking:
    return schema.Ranking(**found._asdict())


def _results(passes: Sequence[Batches], ran: Sequence[Sequence[Ran]]) -> tuple[Int16Array, npt.NDArray[np.bool_]]:
    """Return int16 [nodes, f_out], results by VID of the chiplets, and bool [nodes], which nodes have any."""
    problem = passes[0].placed.problem
    rows = np.zeros((problem.graph.nodes, problem.model.layers[-1].f_out), dtype=np.int16)
    found = np.zeros(problem.graph.nodes, dtype=np.bool_)
    for number, batches in enumerate(passes):
        results = [out.results for out in ran[number]] if ran else [exact for _, exact in batches.exact]
        roots = [roots for share in batches.shares for roots in share]
        for nodes, these in zip(roots, results, strict=True):
            rows[nodes], found[nodes] = these, True
    return rows, found


def _positions(batches: Batches) -> int:
    return sum(batch.nodes.size for batch, _ in batches.exact)


def _cycles(batches: Batches, ran: Sequence[Ran]) -> schema.BatchCycles | None:
    """Return the cycles of the chiplet that ends last."""
    if not ran:
        return None
    parts: IntArray = np.zeros((len(batches.shares), 2), dtype=np.int64)
    for out in ran:
        parts[out.chiplet] += [run.cycles if run else 0 for run in (out.alone, out.layers)]
    last = parts[parts.sum(axis=1).argmax()]
    return schema.BatchCycles(total=int(last.sum()), sample=int(last[0]), layers=int(last[1]))


def _moved(ran: Sequence[Ran]) -> schema.Moved:
    return schema.Moved(
        read=sum(out.memory["bytes_read"] for out in ran) if ran else None,
        written=sum(out.memory["bytes_written"] for out in ran) if ran else None,
    )


def cache_figures(batches: Batches, ran: Sequence[Sequence[Ran]]) -> schema.AttributeCache | None:
    """Return the figures of the attribute RAMs of all chiplets, of all passes; None without a simulation."""
    core = batches.sizes.attributes
    if not ran or core is None:
        return None
    attribute, outs, ids = core.attribute, [out for one in ran for out in one], batches.images[0].ids
    slots, ways = attribute.slots * core.processors, attribute.ways * core.processors
    flows = {name: sum(out.batch[name] for out in outs) for name in _FLOWS}
    return schema.AttributeCache(
        requests=sum(flows.values()),
        misses=flows["missed"],
        **flows,
        slots=slots,
        ways=ways,
        policy=attribute.policy.name.lower(),
        # Attributes of negatives are not fetched with the batch in which they are drawn.
        sub_batches=sum(-(-ids * (out.batch["positions"] - out.batch["negatives"]) // slots) for out in outs),
    )


def batch_rows(batch: schema.Batch | None, cache: schema.AttributeCache | None) -> list[tuple[str, str]]:
    """Return the rows of the printed summary about mini-batches, if there are any."""
    if batch is None:
        return []
    found = batch.accuracy
    measured = accuracies({"accuracy": found.machine, "float without sampling": found.float}, "root")
    drawn = f" and {batch.negatives} negatives" if batch.negatives else ""
    rows = [
        (
            "mini-batches",
            f"{', '.join(map(str, batch.batches))} of {batch.size} roots, fan-out "
            f"{', '.join(map(str, batch.fan_out))}{drawn}: {batch.positions:,} positions; {measured}",
        ),
        *_spent_rows(batch.cycles, batch.external_bytes),
        *_link_rows(batch.links),
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


def _spent_rows(spent: schema.BatchCycles | None, moved: schema.Moved) -> list[tuple[str, str]]:
    if spent is None:
        return []
    return [
        ("  their cycles", f"{spent.total:,}: first sample {spent.sample:,}, then layers {spent.layers:,}"),
        ("  their external bytes", f"{moved.read:,} read, {moved.written:,} written"),
    ]


def _link_rows(links: schema.Links | None) -> list[tuple[str, str]]:
    """Return the rows about link prediction, if there is any."""
    if links is None:
        return []
    if not links.positive:
        return [("link prediction", "no root has both a neighbour and a negative")]
    rows = [("link prediction", f"{links.positive:,} pairs with a neighbour, {links.negative:,} with a negative")]
    found = {"machine": links.machine, "float without sampling": links.float, "input features": links.features}
    rows += [(f"  {name}", _ranked(each)) for name, each in found.items()]
    if ends := links.ends:
        batches = ", ".join(map(str, ends.batches))
        rows.append(("  other nodes of pairs", f"{ends.nodes:,} in {batches} batches: {ends.positions:,} positions"))
        rows += _spent_rows(ends.cycles, ends.external_bytes)
    return rows


def _ranked(found: schema.Ranking) -> str:
    names = {"auc": "AUC", "mrr": "mean reciprocal rank", "hits1": "hits@1", "hits3": "hits@3"}
    return ", ".join(f"{names[key]} {value:.3f}" for key, value in asdict(found).items())
