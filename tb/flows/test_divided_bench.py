"""`atoll bench divided` on one small graph and a small ring."""

import json
from pathlib import Path

import pytest

from golden.attributes.sampler import Plan
from hw.config import MachineConfig
from scripts.bench import divided
from tb.attributes.test_divided import CONFIG, COPYING, RING


def test_a_graph_that_is_stored_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All runs are bit-exact, links carry words, and the memories have the graph once together."""
    monkeypatch.setattr(divided, "SIZE", 4)
    monkeypatch.setattr(divided, "PLAN", Plan((3, 3), seed=1))
    sizes = MachineConfig(CONFIG, chiplets=4, ring=RING, neural=COPYING.neural, attributes=COPYING.attributes)
    found = divided.bench({"karate": "karate"}, {"small": sizes}, batches=2, out=tmp_path)
    assert json.loads((tmp_path / "divided.json").read_text()) == found
    (point,) = found["points"]
    assert point["together"] == point["whole"]
    assert all(0 < part < point["whole"] for part in point["parts"])
    assert all(0 < alone <= ring for alone, ring in zip(point["alone"], point["ring"], strict=True))
    assert point["slower"] == max(point["ring"]) / max(point["alone"])
    assert all(words > 0 for words in point["words"])
    # A cell for two of 34 vertices: most rows of others have copies, so fewer come over the ring.
    assert all(0 < copied < words for copied, words in zip(point["copied_words"], point["words"], strict=True))
    assert point["slower_with_copies"] == max(point["copied"]) / max(point["alone"])
    assert point["copies"] == [16 * (4 + 96)] * 4
    assert len(point["waits"]) == 4
    assert "bytes of offsets, edges and attributes" in capsys.readouterr().out
