"""`atoll run` of a graph whose edges have attributes: on the whole graph, and in mini-batches."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tb.flows.results import run
from tb.flows.test_links import ALONE, request

#: Edges of the graph, both directions.
EDGES = 2 * (ALONE - 1 + ALONE - 2)


def test_a_run_with_attributes_of_edges_is_bit_exact(tmp_path: Path) -> None:
    """The machine computes the whole graph with sums of attributes, and fetches a row of each edge that is sampled."""
    attributes = np.random.default_rng(2).normal(size=(EDGES, 3))
    asked = request(tmp_path, edge_attr=attributes)
    result = run(asked)
    batch, cache = result["batch"], result["attribute_cache"]
    assert result["bit_exact"] is batch["bit_exact"] is True
    # All neighbours are sampled, so roots have the classes that they have on the whole graph.
    assert batch["accuracy"]["machine"] == result["accuracy"]["machine"]
    plain = run(replace(asked, edge_attributes=False))
    without = plain["attribute_cache"]
    assert plain["bit_exact"] is plain["batch"]["bit_exact"] is True
    # Two rows a position.
    assert batch["positions"] == plain["batch"]["positions"]
    assert cache["requests"] > 2 * without["requests"]
    assert without["misses"] < cache["misses"] < cache["requests"]
