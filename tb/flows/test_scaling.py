"""Rings of growing size: figures of runs, the chiplet of a ring alone, what is printed and written."""

import json
from pathlib import Path

import pytest

from scripts.bench import scaling
from scripts.bench.scaling import Ring, bench, machine_of
from scripts.config import CONFIGS


def test_cycles_of_rings_are_compared_with_one_chiplet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scaling, "VERTICES", 30)
    weak = {"ring": "cycle,nodes={nodes}"}
    # A name that is none of a module.
    config = tmp_path / "small-one.toml"
    config.write_text((CONFIGS / "small.toml").read_text())
    found = bench(["karate"], weak, {"tiny": Ring(str(config), "tiles")}, (1, 2), tmp_path)
    assert json.loads((tmp_path / "scaling.json").read_text()) == found
    assert (tmp_path / "scaling.svg").exists()
    points = {(point["graph"], point["chiplets"]): point for point in found["points"]}
    assert set(points) == {("karate", 1), ("karate", 2), ("ring", 1), ("ring", 2)}
    for (graph, chiplets), point in points.items():
        assert point["weak"] == (graph == "ring")
        assert 0 < point["bound"] < point["cycles"]
        speed = points[graph, 1]["cycles"] / point["cycles"] / (1 if point["weak"] else chiplets)
        assert point["efficiency"] == pytest.approx(speed)
    assert "Weak scaling" in capsys.readouterr().out


@pytest.mark.parametrize("config", ["default", "community", "community-ring"])
def test_a_chiplet_alone_has_the_multipliers_of_one_of_the_ring(config: str) -> None:
    alone, ring = machine_of(config, 1), machine_of(config, 4)
    assert (alone.chiplets, ring.chiplets) == (1, 4)
    assert alone.chiplet.lanes == ring.chiplet.lanes
