"""Networks whose edges have factors of their own: no sums to share, and the run says who computes them."""

from pathlib import Path

import numpy as np
import pytest

from contracts.errors import InputError
from golden.locator.schedule import Choice
from golden.model.float_model import FloatModel
from golden.model.heads import attention_layer, merged
from golden.model.weights import write_weights
from scripts.config import load_machine
from scripts.flows.prepare import examine
from scripts.flows.request import Request


@pytest.fixture
def weighted(tmp_path: Path) -> str:
    """Return a small graph with edge weights."""
    edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    masks = {f"{name}_mask": np.arange(4) == n for n, name in enumerate(("train", "val", "test"))}
    path = tmp_path / "weighted.npz"
    weights = np.array([0.5, 1, 2, 3], np.float32)
    np.savez(path, edge_index=edges, x=np.eye(4, dtype=np.float32), y=np.arange(4) % 2, edge_weight=weights, **masks)
    return f"npz:{path}"


@pytest.mark.parametrize("chiplets", [1, 4])
def test_weighted_graphs_are_handed_to_gather_pes(weighted: str, chiplets: int) -> None:
    request = Request(weighted, config="community", chiplets=chiplets)
    found = examine(request, load_machine("community", chiplets))
    assert (found.request.config, found.sizes.community, found.sizes.chiplets) == ("default", None, chiplets)
    assert any("have weights: computed by gather PEs, configuration default" in hint for hint in found.hints)


def test_attention_is_handed_to_gather_pes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    source, target = random.normal(size=(2, 2, 2))
    layer = attention_layer(random.normal(size=(34, 4)), source, target, np.zeros(4), 0.2)
    assert layer.attention
    write_weights(tmp_path / "gat.npz", FloatModel((layer, merged(layer.attention.heads, np.zeros(2), mean=True))))
    request = Request("karate", config="community", chiplets=1, model_file=tmp_path / "gat.npz")
    found = examine(request, load_machine("community", 1))
    assert found.sizes.community is None
    assert any("layer 0 computes attention: computed by gather PEs" in hint for hint in found.hints)


def test_others_stay_where_they_are(weighted: str) -> None:
    for request in (
        Request("karate", config="community", chiplets=1),
        Request(weighted, config="community", chiplets=1, edge_weights=False),
    ):
        found = examine(request, load_machine("community", 1))
        assert found.request is request
        assert found.sizes.community


def test_thresholds_mean_nothing_to_gather_pes(weighted: str) -> None:
    request = Request(weighted, config="community", chiplets=1, choice=Choice(threshold=3))
    with pytest.raises(InputError, match="gather PEs locate nothing"):
        examine(request, load_machine("community", 1))
