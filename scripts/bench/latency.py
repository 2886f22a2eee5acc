"""`atoll bench latency`: the same network on this machine's CPU, by SciPy and, where it is installed, by PyTorch."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from golden.datasets import load
from golden.graph import Graph
from golden.model.float_model import FloatModel, propagation
from golden.model.training import Training, train
from golden.model.weights import model_of
from scripts.bench.names import named
from scripts.flows.outputs import checked_folder, write
from scripts.flows.table import show

__all__ = ["bench", "by_scipy", "by_torch"]

#: Largest difference of a result from that in double precision, by the largest result.
TOLERANCE = 1e-4
_WARM = 20
Inference = Callable[[], Any]


def by_scipy(network: FloatModel, graph: Graph) -> Inference:
    """Return an inference of a GCN in single precision on one core; the matrices are made beforehand."""
    spread = _csr(propagation(network.model, graph))
    features = _csr(graph.features) if sparse.issparse(graph.features) else np.asarray(graph.features, np.float32)
    parts = _parts(network)
    return lambda: _layers(features, spread, parts, lambda rows: np.maximum(rows, 0))


def by_torch(network: FloatModel, graph: Graph, threads: int) -> Inference:
    """Return an inference of a GCN by PyTorch in single precision, features and adjacency as compressed sparse rows.

    Raises
    ------
    ModuleNotFoundError
        If PyTorch is not installed.
    """
    torch: Any = importlib.import_module("torch")
    spread = _torch_csr(torch, propagation(network.model, graph))
    features = (
        _torch_csr(torch, graph.features)
        if sparse.issparse(graph.features)
        else torch.from_numpy(np.asarray(graph.features, np.float32))
    )
    parts = [(torch.from_numpy(weight), torch.from_numpy(bias)) for weight, bias in _parts(network)]

    def infer() -> Any:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return _layers(features, spread, parts, torch.relu).numpy()

    return infer


def _parts(network: FloatModel) -> list[tuple[Any, Any]]:
    """Weights and biases in single precision."""
    return [(w.astype(np.float32), b.astype(np.float32)) for w, b in zip(network.weights, network.biases, strict=True)]


def _layers(rows: Any, spread: Any, parts: list[tuple[Any, Any]], relu: Callable[[Any], Any]) -> Any:
    for number, (weight, bias) in enumerate(parts):
        rows = spread @ (rows @ weight) + bias
        rows = relu(rows) if number + 1 < len(parts) else rows
    return rows


def _csr(matrix: Any) -> Any:
    return sparse.csr_array(matrix).astype(np.float32)


def _torch_csr(torch: Any, matrix: Any) -> Any:
    rows = _csr(matrix)
    pieces = (torch.from_numpy(rows.indptr), torch.from_numpy(rows.indices), torch.from_numpy(rows.data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that compressed sparse rows are new
        return torch.sparse_csr_tensor(*pieces, size=rows.shape)


def _milliseconds(infer: Inference, repeats: int) -> float:
    """Median of `repeats` inferences after some that are not counted."""
    times = []
    for number in range(_WARM + repeats):
        began = time.perf_counter()
        infer()
        if number >= _WARM:
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def bench(
    names: Sequence[str] | None = None, out: Path = Path("atoll-out/bench"), repeats: int = 300
) -> list[dict[str, Any]]:
    """Time two layers of GCN with 16 hidden features; write ``latency.json``.

    Parameters
    ----------
    names
        Data sets; default: Cora where `ATOLL_PLANETOID` names its folder, and digits.
    out
        Folder for the file.
    repeats
        Inferences, of which the median counts.

    Returns
    -------
    list of dict
        ``dataset``, ``by``, ``threads``, ``milliseconds``.

    Raises
    ------
    AssertionError
        If a result is not that of the float model.
    """
    installed = importlib.util.find_spec("torch") is not None
    found: list[dict[str, Any]] = []
    for name in named(names, "digits"):
        graph = load(name)
        network = train(graph, model_of("gcn"), Training())
        exact = network.forward(graph)[-1][1]
        ways = [("SciPy", 1, by_scipy(network, graph))]
        if installed:
            ways += [("PyTorch", n, by_torch(network, graph, n)) for n in dict.fromkeys((1, os.cpu_count() or 1))]
        for by, threads, infer in ways:
            error = float(np.abs(infer() - exact).max() / np.abs(exact).max())
            assert error < TOLERANCE, f"{by} on {graph.name}: differs by {error:.2e} of the largest result"
            took = _milliseconds(infer, repeats)
            found.append({"dataset": graph.name, "by": by, "threads": threads, "milliseconds": took})
    show(
        "two layers of GCN on this CPU, median",
        ("graph", "by", "threads", "ms", "cycles in that time at 60 / 80 MHz"),
        [
            (r["dataset"], r["by"], r["threads"], f"{r['milliseconds']:.2f}",
             " / ".join(f"{r['milliseconds'] * 1000 * mhz:,.0f}" for mhz in (60, 80)))
            for r in found
        ],
    )  # fmt: skip
    if not installed:
        show("left out", ("what", "why"), [("PyTorch", "it is not installed: pip install torch")])
    checked_folder(out)
    write(out / "latency.json", json.dumps({"schema": 1, "runs": found}, indent=1) + "\n")
    return found
