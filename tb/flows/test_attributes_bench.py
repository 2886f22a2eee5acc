"""`atoll bench attributes` on one small graph and a small chiplet."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from golden.attributes.sampler import Plan
from hw.config import MachineConfig
from scripts.bench import attributes
from scripts.bench.attributes import bench
from tb.attributes.test_batch_runs import CORE, GATHER, SCRATCH


def test_a_graph_in_both_orders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ways to read rows are ordered as they must be, and the file has what is returned."""
    monkeypatch.setattr(attributes, "SIZE", 4)
    monkeypatch.setattr(attributes, "PLAN", Plan((3, 3), seed=1))
    sizes = MachineConfig(replace(GATHER, scratch_lines=SCRATCH), attributes=replace(CORE, window=32))
    found = bench({"karate": "karate"}, sizes, batches=2, out=tmp_path)
    assert json.loads((tmp_path / "attributes.json").read_text()) == found
    assert [point["order"] for point in found["points"]] == ["ID", "community"]
    for point in found["points"]:
        rows = point["rows"]
        assert rows["none"] == point["positions"] > rows["buffer"] >= rows["lru"] >= rows["belady"] > 0
        assert rows["none"] > rows["planned"] >= rows["belady"]
        assert rows["none"] > rows["least"]
        assert 0 < point["busy"] < 1
        assert point["other"] > 0
        assert point["layers"] < point["cycles"] == point["latency"] * point["batches"]
    assert set(found["saved"]) == {"karate"}
    assert "external bytes of the whole inference" in capsys.readouterr().out
