"""Growing graphs: figures of runs, tiles beyond the chip's memories, what is printed and written."""

import json
from pathlib import Path

import pytest

from scripts.bench import growth
from scripts.bench.growth import bench
from tb.flows.configurations import small_community


def test_runs_grow_beyond_a_tile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(growth, "FEATURES", "features=16,density=0.5")
    small = tmp_path / "small.toml"
    small.write_text(small_community(64))
    sizes = {(str(small), "tiles"): [20, 80], (str(small), "communities"): [80]}
    found = bench({"ring": "cycle"}, sizes, tmp_path)
    assert json.loads((tmp_path / "growth.json").read_text()) == found
    few, many, together = found["points"]
    assert [point["placement"] for point in found["points"]] == ["tiles", "tiles", "communities"]
    assert (together["nodes"], together["edges"], together["bound"]) == (80, 160, many["bound"])
    assert (few["nodes"], many["nodes"], few["edges"], many["edges"]) == (20, 80, 40, 160)
    assert few["tiles"] == 1 < many["tiles"]
    assert 0 < few["bound"] < few["cycles"] < many["cycles"]
    rates = [point["useful"] / point["cycles"] for point in found["points"]]
    assert found["spread"] == {f"{small}, ring": max(rates) / min(rates)}
    assert "80" in capsys.readouterr().out
