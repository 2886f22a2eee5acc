"""`atoll bench latency`: what it times is the network."""

import json
from pathlib import Path

import pytest

from scripts.bench import latency


def test_results_are_those_of_the_float_model(tmp_path: Path) -> None:
    found = latency.bench(["karate"], tmp_path, repeats=3)
    assert found[0]["by"] == "SciPy"
    assert all(one["milliseconds"] > 0 for one in found)
    assert json.loads((tmp_path / "latency.json").read_text())["runs"] == found


def test_another_result_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = latency.by_scipy
    monkeypatch.setattr(latency, "by_scipy", lambda network, graph: lambda: plain(network, graph)() * 1.01)
    with pytest.raises(AssertionError, match="SciPy on karate: differs by"):
        latency.bench(["karate"], tmp_path, repeats=1)
