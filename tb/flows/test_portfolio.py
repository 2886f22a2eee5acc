"""The portfolio: figures of runs, machines that refuse a graph, what is printed and written."""

import json
from pathlib import Path

import pytest

from contracts import Model
from golden.datasets import load
from scripts.bench import portfolio
from scripts.bench.portfolio import FEATURES, GRAPHS, Network, bench


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("features", FEATURES)
def test_every_graph_of_the_portfolio_can_be_made(name: str, features: str) -> None:
    graph = load(f"synthetic:{GRAPHS[name]},{FEATURES[features]}")
    assert graph.symmetric
    assert 100 < graph.nodes <= 4096


def test_runs_are_compared_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(portfolio, "ENGINES", {"gather": "small"})
    monkeypatch.setattr(portfolio, "GRAPHS", {"little": "caveman,nodes=40,degree=7"})
    networks = [Network(Model.GCN, "dense", 8), Network(Model.SAGE, "sparse", 40)]
    found = bench(["little", "karate"], networks, tmp_path)
    assert json.loads((tmp_path / "portfolio.json").read_text()) == found
    assert [(run["graph"], run["model"], run["hidden"]) for run in found["runs"]] == [
        ("little", "gcn", 8), ("little", "sage", 40), ("karate", "gcn", 8), ("karate", "sage", 40),
    ]  # fmt: skip
    for run in found["runs"]:
        assert 0 < run["bound"] < run["cycles"]
        assert run["bytes_moved"] > run["bytes_least"]
        assert run["saved"] is None
    shares = [run["bound"] / run["cycles"] for run in found["runs"]]
    assert min(shares) < found["means"]["gather"] < max(shares)
    assert not found["refused"]
    printed = capsys.readouterr().out
    assert "little" in printed
    assert f"{found['means']['gather']:.1%}" in printed


def test_a_graph_without_room_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "few.toml").write_text("[chiplet]\ngroups = 1\npes = 1\n[pe]\nweight_rows = 16\n")
    monkeypatch.setattr(portfolio, "ENGINES", {"gather": str(tmp_path / "few.toml")})
    given = ["karate", "synthetic:path,nodes=9,features=16"]
    found = bench(given, [Network(Model.GCN, "dense", 16)], tmp_path)
    assert [run["graph"] for run in found["runs"]] == ["synthetic:path,nodes=9,features=16"]
    (refused,) = found["refused"]
    assert "has 34 input features; expected at most 16" in refused["error"]
