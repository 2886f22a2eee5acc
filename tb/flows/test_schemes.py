"""Schemes of shared sums: every one runs bit-exact, counts its additions, and is printed and written."""

import json
from pathlib import Path
from statistics import geometric_mean

import pytest

from golden.datasets import load
from scripts.bench import schemes
from scripts.bench.schemes import NONE, SCHEMES, bench
from tb.flows.configurations import small_community

GRAPHS = {"cliques": "windmill,nodes=49,degree=8", "path": "path,nodes=20"}
FEATURES = "features=16,density=0.5"


def test_schemes_are_compared_with_no_sharing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schemes, "FEATURES", {"sparse": FEATURES})
    monkeypatch.setattr(schemes, "GRAPHS", GRAPHS)
    small = tmp_path / "small.toml"
    small.write_text(small_community(512))
    found = bench([*GRAPHS], str(small), tmp_path)
    assert json.loads((tmp_path / "schemes.json").read_text()) == found
    runs = {(run["graph"], run["scheme"]): run for run in found["runs"]}
    assert [*runs] == [(graph, scheme) for graph in GRAPHS for scheme in SCHEMES]
    for name, spec in GRAPHS.items():
        graph = load(f"synthetic:{spec},{FEATURES}")
        additions = 2 * (graph.nodes + graph.edge_count)
        assert {runs[name, scheme]["baseline"] for scheme in SCHEMES} == {additions}
        # Without sharing there is one addition for each entry, and no sum is formed.
        assert runs[name, NONE]["gross"] == runs[name, NONE]["net"] == additions
    # Nothing can be shared on a path. In cliques wider windows save more, and pairs most.
    assert {run["net"] for (graph, _), run in runs.items() if graph == "path"} == {additions}
    net = [runs["cliques", scheme]["net"] for scheme in SCHEMES]
    assert net == sorted(set(net), reverse=True)
    assert all(run["gross"] < run["net"] for (graph, how), run in runs.items() if graph == "cliques" and how != NONE)
    for scheme, mean in found["means"].items():
        ratios = [runs[graph, scheme]["cycles"] / runs[graph, NONE]["cycles"] for graph in GRAPHS]
        assert mean == geometric_mean(ratios)
    printed = capsys.readouterr().out
    assert f"{runs['cliques', 'pairs']['cycles']:,}" in printed
    assert f"{found['means']['pairs']:.3f}" in printed
    assert f"{1 - runs['cliques', 'pairs']['net'] / runs['cliques', 'pairs']['baseline']:.1%}" in printed
