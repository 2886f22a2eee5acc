"""All the way, where PyTorch and PyTorch Geometric are installed: train, save, read, convert."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import InputError
from golden.importing.importer import import_model
from golden.importing.layers import Options
from golden.importing.state_dict import read_state_dict
from tb.importing.graphs import graph_of, results_of
from tb.importing.test_fixtures import NETWORKS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(name="torch")
def _torch() -> Any:
    pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", NETWORKS)
def test_trained_network_is_read_from_both_kinds_of_file(name: str, torch: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from tb.importing import networks

    network = networks.NETWORKS[name]
    graph = graph_of(network.graph)
    made = networks.trained(network, graph, epochs=3)
    expected = networks.logits(network, made, graph)
    state = made.state_dict()
    save_file({key: value.clone() for key, value in state.items()}, tmp_path / "net.safetensors")
    torch.save(state, tmp_path / "net.pt")
    torch.save({"epoch": 3, "model_state_dict": state, "optimizer": {}}, tmp_path / "net.pth")
    for suffix in ("safetensors", "pt", "pth"):
        found = import_model(str(tmp_path / f"net.{suffix}"), Options(**network.options))
        if network.runs:
            results = found.converted().network.forward(graph)[-1][1][results_of(graph)]
            assert np.abs(results - expected).max() < 1e-5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda torch: torch.nn.Linear(2, 2), "holds a whole module or other Python objects"),
        (lambda torch: {"epoch": 3}, "holds a dict that is no state dict"),
        (lambda torch: torch.ones(3), "holds a Tensor that is no state dict"),
        (lambda torch: {"x": torch.ones(3).to_sparse()}, "x: is sparse, complex or quantised"),
        (lambda torch: {"x": torch.ones(3, dtype=torch.complex64)}, "x: is sparse, complex or quantised"),
        (lambda torch: {3: torch.ones(3)}, "has the key 3; expected names of tensors"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(torch: Any, tmp_path: Path, content: Any, message: str) -> None:
    torch.save(content(torch), tmp_path / "net.pt")
    with pytest.raises(InputError, match=message) as refused:
        read_state_dict(str(tmp_path / "net.pt"))
    assert "\n" not in str(refused.value)


def test_half_precision_is_read(torch: Any, tmp_path: Path) -> None:
    torch.save({"x": torch.tensor([1.5], dtype=torch.bfloat16)}, tmp_path / "net.pt")
    assert read_state_dict(str(tmp_path / "net.pt")).arrays["x"].tolist() == [1.5]
