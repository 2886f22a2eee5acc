"""`atoll bench divided` on one small graph and a small ring."""

import json
from pathlib import Path

import pytest

from golden.attributes.sampler import Plan
from hw.config import MachineConfig
from scripts.bench import divided
from tb.attributes.test_batch_runs import STREAMED
from tb.attributes.test_divided import CONFIG, RING


def test_a_graph_that_is_stored_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both runs are bit-exact, links carry words, and the memories have the graph once together."""
    monkeypatch.setattr(divided, "SIZE", 4)
    monkeypatch.setattr(divided, "PLAN", Plan((3, 3), seed=1))
    sizes = MachineConfig(CONFIG, chiplets=4, ring=RING, neural=STREAMED.neural, attributes=STREAMED.attributes)
    found = divided.bench({"karate": "karate"}, {"small": sizes}, batches=2, out=tmp_path)
    assert json.loads((tmp_path / "divided.json").read_text()) == found
    (point,) = found["points"]
    assert point["together"] == point["whole"]
    assert all(0 < part < point["whole"] for part in point["parts"])
    assert all(0 < alone <= ring for alone, ring in zip(point["alone"], point["ring"], strict=True))
    assert point["slower"] == max(point["ring"]) / max(point["alone"])
    assert all(words > 0 for words in point["words"])
    assert len(point["waits"]) == 4
    assert "bytes of offsets, edges and attributes" in capsys.readouterr().out
