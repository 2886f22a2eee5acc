"""Link prediction by `atoll run --batch --negatives`: pairs, ranks and the nodes that are computed for them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.attributes.links import Pairs, ranking
from golden.attributes.sampler import Plan, sample
from golden.datasets import load
from golden.model.quantise import quantise
from golden.model.training import train
from scripts.config import load_machine
from scripts.flows.batch import Batches, Sampling, plan_batches
from scripts.flows.prepare import examine, prepare
from scripts.flows.request import Request
from sim.runner.batches import Ran
from tb.flows.results import run
from tb.harness.marks import full

#: A small gather chiplet with an attribute core.
SMALL = """
[chiplet]
groups = 1
pes = 1
scratch_lines = 256
[pe]
lanes = 4
data_width = 64
weight_rows = 512
max_out = 16
[ring]
chiplets = 2
[attributes]
slots = 16
ways = 4
row_beats = 16
outstanding = 4
depth = 32
window = 32
"""
#: Joined to all others but the last one, which has no neighbours.
HUB, ALONE, NODES = 0, 13, 14
ROOTS = (HUB, 3, 5, ALONE)
NEGATIVES = 3


def request(folder: Path, roots: tuple[int, ...] = ROOTS, **more: Any) -> Request:
    """Write the graph, with more arrays, and the configuration; fan-outs take all neighbours.

    Without a test set all nodes are roots.
    """
    edges = [(HUB, node) for node in range(1, ALONE)] + [(node, node + 1) for node in range(1, ALONE - 1)]
    both = np.array(edges + [(v, u) for u, v in edges]).T
    labels = np.arange(NODES) % 2
    test = np.isin(np.arange(NODES), roots)
    x = np.random.default_rng(1).normal(size=(NODES, 9)).astype(np.float32) + labels[:, None]
    masks: dict[str, Any] = {"train_mask": ~test, "val_mask": np.zeros(NODES, bool), "test_mask": test}
    np.savez(folder / "g.npz", edge_index=both, x=x, y=labels, **masks, **more)
    (folder / "small.toml").write_text(SMALL)
    sampling = Sampling(3, (12, 12), negatives=NEGATIVES)
    config, out = str(folder / "small.toml"), folder / "out"
    return Request(f"npz:{folder}/g.npz", config=config, chiplets=1, sampling=sampling, out=out)


@pytest.mark.parametrize("chiplets", [1, pytest.param(2, marks=full)])
def test_links_of_a_run_are_bit_exact(chiplets: int, tmp_path: Path) -> None:
    """All neighbours are sampled, so embeddings are the results of the inference on the whole graph."""
    asked = replace(request(tmp_path), chiplets=chiplets)
    result = run(asked)
    batch = result["batch"]
    assert result["bit_exact"] is batch["bit_exact"] is True
    assert batch["negatives"] == NEGATIVES
    links, graph = batch["links"], load(asked.dataset)
    # The hub has a single node that is not joined to it; the last node has no neighbour, and so no pairs.
    assert (links["positive"], links["negative"]) == (3, 1 + 2 * NEGATIVES)
    batches = [np.array(roots) for roots in (ROOTS[:3], ROOTS[3:])]
    pairs = Pairs.of([sample(graph, mine, Plan((12, 12), NEGATIVES), n) for n, mine in enumerate(batches)])
    with np.load(asked.out / "predictions.npz") as archive:
        assert links["machine"] == pytest.approx(ranking(pairs, archive["results"])._asdict())
    network = train(graph, asked.network, asked.training)
    assert links["float"] == pytest.approx(ranking(pairs, network.forward(graph)[-1][1])._asdict())
    rows = quantise(network, graph).features
    assert links["features"] == pytest.approx(ranking(pairs, np.asarray(rows, dtype=np.int16))._asdict())
    ends = links["ends"]
    # Every node is computed once.
    others = np.setdiff1d(pairs.nodes, ROOTS)
    assert ends["nodes"] == others.size
    assert sum(ends["batches"]) >= -(-others.size // 3)
    assert len(ends["batches"]) == chiplets
    negatives = 1 + 3 * NEGATIVES
    assert result["attribute_cache"]["requests"] == batch["positions"] - negatives + ends["positions"]
    assert ends["cycles"]["total"] > 0
    assert ends["external_bytes"]["read"] > 0
    # The golden model alone says the same of everything but cycles and bytes.
    golden = run(replace(asked, rtl=False))["batch"]["links"]
    nothing = {"cycles": None, "external_bytes": {"read": None, "written": None}}
    assert golden == {**links, "ends": {**ends, **nothing}}


def test_where_all_nodes_are_roots_no_others_are_computed(tmp_path: Path) -> None:
    links = run(replace(request(tmp_path, ()), rtl=False))["batch"]["links"]
    assert links["positive"] == NODES - 1
    assert links["ends"] is None


def test_roots_without_neighbours_have_no_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = run(replace(request(tmp_path, (ALONE,)), rtl=False))["batch"]["links"]
    assert (links["positive"], links["negative"], links["ends"]) == (0, 0, None)
    assert set(links["machine"].values()) == set(links["features"].values()) == {None}
    assert "no root has both a neighbour and a negative" in capsys.readouterr().out


def test_the_summary_shows_both_rankings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = run(replace(request(tmp_path), rtl=False))["batch"]["links"]
    said = capsys.readouterr().out
    assert "3 pairs with a neighbour, 7 with a negative" in said
    for found in (links["machine"], links["float"], links["features"]):
        assert f"AUC {found['auc']:.3f}, mean reciprocal rank {found['mrr']:.3f}, hits@1 {found['hits1']:.3f}" in said


def planned(asked: Request) -> Batches:
    made = prepare(examine(asked, load_machine(asked.config, asked.chiplets)))
    assert asked.sampling is not None
    return plan_batches(asked.sampling, made.placed, made.sizes, asked.config, asked.seed)


def test_a_difference_names_the_pass_it_is_in(tmp_path: Path) -> None:
    batches = planned(request(tmp_path))
    assert batches.ends is not None
    ran = [
        [Ran(0, {}, batch.nodes, batch.along, results, None, None) for batch, results in each.exact]
        for each in batches.passes
    ]
    assert batches.differences(ran) == []
    other = ran[1][0]
    ran[1][0] = replace(other, results=other.results + np.int16(1))
    ran[0][1] = replace(ran[0][1], nodes=ran[0][1].nodes + 1)
    assert batches.differences(ran) == [
        "batch 1: other nodes were sampled",
        "batch of ends of pairs 0: 6 of 6 values differ",
    ]


def test_ends_of_pairs_follow_the_order_and_take_no_limit(tmp_path: Path) -> None:
    """Of the batches of roots there may be at most so many; all nodes of their pairs are computed."""
    asked = request(tmp_path)
    few = planned(replace(asked, sampling=Sampling(2, (12, 12), "BFS", most=1, negatives=NEGATIVES)))
    assert [len(share) for share in few.shares] == [1]
    assert few.ends is not None
    assert few.ends.images[0].plan.negatives == 0
    mine = np.concatenate([*few.shares[0], *few.ends.shares[0]])
    assert np.array_equal(np.unique(mine), few.pairs.nodes)
    assert mine.size == few.pairs.nodes.size
    # A search in breadth from the hub reaches its neighbours before the node that it does not reach.
    assert np.concatenate(few.ends.shares[0])[-1] == ALONE
