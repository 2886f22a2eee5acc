"""Sessions: figures of `atoll run --session` and of `atoll bench stream`, what is printed, written and refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from contracts.errors import InputError
from golden.datasets import load
from scripts.bench.stream import bench
from scripts.flows.request import Request
from tb.flows.results import run


def test_a_session_of_a_single_graph_writes_features_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(Request("karate", config="small", chiplets=1, session=3, clock=40.0, out=tmp_path))
    assert result["bit_exact"] is True
    found = result["session"]
    assert (found["runs"], found["graphs"], found["bit_exact"]) == (3, [1, 1, 1], True)
    # Places in memory and in sparse rows are others, the work is the same.
    assert found["cycles"] == pytest.approx([result["cycles"]] * 3, rel=0.05)
    assert found["graphs_per_million_cycles"] == pytest.approx(3e6 / sum(found["cycles"]))
    assert found["graphs_per_second"] == pytest.approx(120e6 / sum(found["cycles"]))
    first, second, third = found["host_bytes"]
    assert second == third < first / 2
    assert found["external_bytes"]["read"] == pytest.approx(3 * result["external_bytes"]["read"], rel=0.05)
    printed = capsys.readouterr().out
    assert "3 runs, 3 graphs" in printed
    assert "a second at 40 MHz" in printed


def test_a_session_of_a_batch_takes_small_graphs_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(Request("synthetic:molecules,graphs=10", chiplets=1, session=4, rtl=False, out=tmp_path))
    found = result["session"]
    assert found["graphs"] == [3, 3, 2, 2]
    assert (found["cycles"], found["graphs_per_second"], found["bit_exact"]) == (None, None, None)
    assert found["host_bytes"][0] > max(found["host_bytes"][1:])
    assert "4 runs, 10 graphs" in capsys.readouterr().out
    assert run(Request("karate", rtl=False, out=tmp_path))["session"] is None


def test_more_runs_than_small_graphs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--session: has 11 runs; expected at most 10, the small graphs of synthetic:"):
        run(Request("synthetic:molecules,graphs=10", session=11, rtl=False, out=tmp_path))


def test_the_benchmark_compares_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench({"little": ("small", 1)}, (1, 3), tmp_path)
    assert json.loads((tmp_path / "stream.json").read_text()) == found
    few, more = found["points"]
    assert (few["graphs"], more["graphs"]) == (1, 3)
    assert few["graphs_per_million_cycles"] == pytest.approx(1e6 / np.mean(few["cycles"]))
    assert few["graphs_per_million_cycles"] < more["graphs_per_million_cycles"]
    graph = load("synthetic:molecules,graphs=9")
    assert few["nodes"] == pytest.approx(graph.small_graphs(graph.graph_vertices[:3]).size / 3 - 1)
    assert "little" in capsys.readouterr().out
