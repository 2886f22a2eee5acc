"""Trains the networks of `tb.importing.networks` and keeps weights and results.

Run as ``python -m tb.importing.make_fixtures``; needs ``pip install '.[torch]'``. Leaves a state dict of each network
in ``fixtures/``, PyTorch Geometric's results in ``results.npz`` and what they were made with in ``fixtures.json``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
from safetensors.torch import save_file

from tb.importing.graphs import checksum, graph_of
from tb.importing.networks import NETWORKS, logits, trained

__all__ = ["FOLDER", "main"]

FOLDER = Path(__file__).parent / "fixtures"
_EPOCHS = 200
#: Most nodes of a graph whose logits are kept; of all others the classes are.
_NODES = 128


def main() -> None:
    """Write the fixtures."""
    arrays: dict[str, Any] = {}
    networks = {}
    for name, network in NETWORKS.items():
        graph = graph_of(network.graph)
        made = trained(network, graph, _EPOCHS)
        # A copy of each: `save_file` refuses tensors that share memory.
        save_file({key: value.clone() for key, value in made.state_dict().items()}, FOLDER / f"{name}.safetensors")
        found = logits(network, made, graph)
        classes = found.argmax(axis=1)
        arrays |= {f"{name}.logits": found[:_NODES].astype(np.float32), f"{name}.classes": classes.astype(np.uint8)}
        accuracy = float(np.mean(classes[graph.test] == graph.labels[graph.test]))
        networks[name] = {
            "graph": network.graph,
            "checksum": checksum(graph),
            "options": dict(network.options),
            "model": network.model,
            "accuracy": round(accuracy, 4),
        }
        print(f"{name}: {accuracy:.2%} of the test nodes")
    np.savez_compressed(FOLDER / "results.npz", **arrays)
    versions = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
    (FOLDER / "fixtures.json").write_text(json.dumps({"made_with": versions, "networks": networks}, indent=2) + "\n")


if __name__ == "__main__":
    main()
