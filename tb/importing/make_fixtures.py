"""Trains the networks of `tb.importing.networks` and keeps weights and results.

Run as ``python -m tb.importing.make_fixtures [NAME...]``, for some networks or all; needs ``pip install '.[torch]'``.
Leaves a state dict of each network in ``fixtures/``, PyTorch Geometric's results in ``results.npz`` and what they were
made with in ``fixtures.json``.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
from safetensors.torch import save_file

from tb.importing.graphs import checksum, graph_of, results_of
from tb.importing.networks import NETWORKS, logits, trained

__all__ = ["FOLDER", "main"]

FOLDER = Path(__file__).parent / "fixtures"
_RESULTS, _ABOUT = FOLDER / "results.npz", FOLDER / "fixtures.json"
_EPOCHS = 200
#: Most nodes, or graphs of a batch, whose logits are kept; of all others the classes are.
_NODES = 128


def main(names: Sequence[str]) -> None:
    """Write the fixtures of some networks and keep those of all others; of all if none is named."""
    arrays: dict[str, Any] = {}
    networks: dict[str, Any] = {}
    if names:
        networks = json.loads(_ABOUT.read_text())["networks"]
        arrays = dict(np.load(_RESULTS))
    for name in names or NETWORKS:
        network = NETWORKS[name]
        graph = graph_of(network.graph)
        made = trained(network, graph, _EPOCHS)
        # A copy of each: `save_file` refuses tensors that share memory.
        save_file({key: value.clone() for key, value in made.state_dict().items()}, FOLDER / f"{name}.safetensors")
        found = logits(network, made, graph)
        classes = found.argmax(axis=1)
        arrays |= {f"{name}.logits": found[:_NODES].astype(np.float32), f"{name}.classes": classes.astype(np.uint8)}
        chosen = results_of(graph)
        tested = graph.test[chosen]
        accuracy = float(np.mean(classes[tested] == graph.labels[chosen][tested]))
        networks[name] = {
            "graph": network.graph,
            "checksum": checksum(graph),
            "options": dict(network.options),
            "runs": network.runs,
            "accuracy": round(accuracy, 4),
        }
        print(f"{name}: {accuracy:.2%} of the test nodes")
    np.savez_compressed(_RESULTS, **arrays)
    versions = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
    _ABOUT.write_text(json.dumps({"made_with": versions, "networks": networks}, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
