"""What is refused before a network is trained, with and without RTL alike, and what a refusal recommends."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from contracts import Model
from contracts.errors import InputError
from golden.datasets import load
from golden.model.float_model import FloatModel
from golden.model.weights import write_weights
from scripts.cli import app
from scripts.config import load_machine
from scripts.flows.checks import check
from scripts.flows.prepare import examine
from scripts.flows.request import Request
from tb.flows.results import run
from tb.harness.marks import full

#: Names, nodes, mean degrees, features and classes as in the usual benchmarks.
BENCHMARKS = {
    "cora": "nodes=2708,degree=4,features=1433,classes=7,density=0.0127",
    "citeseer": "nodes=3327,degree=2,features=3703,classes=6,density=0.0085",
    "pubmed": "nodes=19717,degree=4,features=500,classes=3,density=0.1",
}


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where something is trained or simulated."""

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("the request was not refused")

    for name in ("prepare.train", "run.infer", "run.simulate"):
        monkeypatch.setattr(f"scripts.flows.{name}", never)


def files(folder: Path) -> None:
    """Write graphs and weights that do not fit together."""
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    x = np.eye(40, 6, dtype=np.float32)
    np.savez(folder / "directed.npz", edge_index=edges, x=x, y=np.arange(40) % 2)
    np.savez(folder / "unlabelled.npz", edge_index=edges, x=x)
    edge_weight = np.array([0.5, 2.0, -0.3])
    np.savez(folder / "attributed.npz", edge_index=edges, x=x, y=np.arange(40) % 2, edge_attr=np.ones((3, 2)))
    np.savez(folder / "weighted.npz", edge_index=edges, x=x, y=np.arange(40) % 2, edge_weight=edge_weight)
    star = np.array([[0] * 600 + list(range(1, 601)), list(range(1, 601)) + [0] * 600])
    np.savez(folder / "star.npz", edge_index=star, x=np.ones((601, 2)), y=np.arange(601) % 2)
    for name, widths, activation in (
        ("seven", (7, 2), "relu"),
        ("tanh", (6, 2, 2), "tanh"),
    ):
        weights, biases = ([np.zeros(shape) for shape in shapes] for shapes in (pairwise(widths), widths[1:]))
        network = FloatModel.uniform(Model.GCN, tuple(weights), tuple(biases), (0.0,) * len(weights), activation)
        write_weights(folder / f"{name}.npz", network)
    (folder / "tight.toml").write_text('pe = "community"\n[chiplet]\nunits = 1\nhubs = 256\n[locator]\nnodes = 512\n')
    (folder / "few.toml").write_text("[pe]\nweight_rows = 16\n")
    (folder / "little.toml").write_text('pe = "community"\n[community]\nweight_rows = 32\n')
    (folder / "slots.toml").write_text("[attributes]\nslots = 3\nrow_beats = 16\n")
    (folder / "degree.toml").write_text('[attributes]\npolicy = "DEGREE"\n')
    (folder / "ids.toml").write_text("[attributes]\nid_bits = 5\n")
    (folder / "short.toml").write_text("[neural]\nwm_depth = 256\ntable_bits = 8\n[attributes]\nrow_beats = 1\n")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "karate --config {0}/few.toml",
            "layer 0: has 34 input features; expected at most 16 ([pe] weight_rows), or --config default",
        ),
        (
            "karate --config {0}/little.toml",
            "has 34 input features; expected at most 16 ([community] weight_rows), or --config community",
        ),
        (
            "npz:{0}/star.npz --config {0}/tight.toml --chiplets 1",
            "star, vertex 0: has 600 neighbours; expected at most 255 ([locator] nodes and edges, [chiplet] units "
            "times hubs, each less 1), or --config community",
        ),
        ("npz:{0}/unlabelled.npz", "train: has no node of known class; expected at least one to train on, or weights"),
        ("npz:{0}/directed.npz --model-file {0}/seven.npz", "layer0.weight: is [7, 2]: takes 7 features; expected [6"),
        (
            "npz:{0}/directed.npz --model-file {0}/tanh.npz --config small",
            "configuration small: has no neural chip for tanh; expected one with a section neural, or --config default",
        ),
        ("karate --activation tanh --config {0}/short.toml", "a narrower layer or a larger [neural] wm_depth"),
        ("karate --head 2 --config {0}/short.toml", "larger memories in [neural], or --config default"),
        (
            "karate --head 2 --config small",
            "has no neural chip for a head; expected one with a section neural, or --con",
        ),
        ("karate --batch 4 --config small", "has no attribute core for mini-batches; expected one with a section attr"),
        ("karate --batch 4 --config {0}/short.toml", "at most 32 ([attributes] row_beats), or --config default"),
        ("karate --batch 200", "expands 2200 positions; expected at most 1024 ([attributes] frontier)"),
        ("karate --batch 4 --negatives 17", "negatives: are 17; expected at most 16 ([attributes] most)"),
        (
            "karate --batch 4 --fanout 3,3 --negatives 4 --config {0}/slots.toml",
            "at most 3 ([attributes] slots), or --",
        ),
        ("karate --batch 4 --model gcn", "model: is gcn; expected sage for mini-batches"),
        (
            "npz:{0}/weighted.npz --model sage",
            "graph weighted, edges: have weights, which SAGE does not take; expected GCN, or --no-edge-weights to let "
            "every edge count once",
        ),
        ("npz:{0}/weighted.npz --batch 4", "have weights, which SAGE does not take"),
        ("npz:{0}/weighted.npz --batch 4 --no-edge-weights --config small", "has no attribute core for mini-batches"),
        (
            "npz:{0}/attributed.npz --model gin",
            "edges: have attributes, which GIN does not take; expected SAGE, or --no-edge-attributes to leave them out",
        ),
        (
            "npz:{0}/attributed.npz --batch 4 --chiplets 1 --config {0}/degree.toml",
            "[attributes] policy: ranks rows by the degrees of nodes, and edges with attributes have none; expected",
        ),
        (
            "npz:{0}/attributed.npz --batch 4 --chiplets 1 --config {0}/ids.toml",
            "nodes and edges with attributes: there are 44; expected at most 32 ([attributes] id_bits)",
        ),
        (
            "npz:{0}/attributed.npz --batch 4 --chiplets 2",
            "edges: have attributes, and a ring divides it; expected one chiplet for mini-batches, or --no-edge",
        ),
    ],
)
def test_a_run_is_refused_before_training_with_and_without_rtl(arguments: str, message: str, tmp_path: Path) -> None:
    files(tmp_path)
    lines = []
    for rtl in ("--rtl", "--no-rtl"):
        with pytest.raises(InputError) as refused:
            app(["run", *arguments.format(tmp_path).split(), rtl, "-o", str(tmp_path / "out")], standalone_mode=False)
        lines.append(str(refused.value))
    assert lines[0] == lines[1]
    assert message in lines[0]
    assert "\n" not in lines[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model", ["sage", "gin"])
def test_edge_attributes_can_be_left_out(model: str, tmp_path: Path) -> None:
    files(tmp_path)
    request = Request(f"npz:{tmp_path}/attributed.npz", model=model, edge_attributes=False)
    assert examine(request, load_machine("community", 1)).graph.edge_attributes is None


@pytest.mark.parametrize("model", ["sage", "gin"])
def test_edge_weights_can_be_left_out(model: str, tmp_path: Path) -> None:
    """A graph without its weights is any other graph."""
    files(tmp_path)
    request = Request(f"npz:{tmp_path}/weighted.npz", model=model, edge_weights=False)
    graph = examine(request, load_machine("community", 1)).graph
    assert graph.edge_weight is None
    assert np.array_equal(graph.edges, load(request.dataset).edges)


def test_hints_say_that_weighted_edges_have_no_partial_sums(tmp_path: Path) -> None:
    files(tmp_path)
    for placement, said in (("communities", 1), ("tiles", 0)):
        request = Request(f"npz:{tmp_path}/weighted.npz", chiplets=4, placement=placement)
        hints = examine(request, load_machine("default", 4)).hints
        assert sum("rows of neighbours travel, and no partial sums of hubs" in hint for hint in hints) == said


def test_nothing_is_recommended_that_would_not_do() -> None:
    """Either there is no such configuration, or it is none of its size that is at fault."""
    graph = load("karate")
    for wrong in (Request(head=0), Request(placement="best")):
        with pytest.raises(InputError) as refused:
            check(wrong, graph, None, load_machine(wrong.config))
        assert "--config" not in str(refused.value)


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("config", ["wide", "community-wide"])
@pytest.mark.parametrize("hidden", [16, 64, 128])
def test_the_usual_benchmarks_fit(name: str, config: str, hidden: int) -> None:
    request = Request(f"synthetic:erdos,{BENCHMARKS[name]}", config=config, hidden=hidden, activation="tanh")
    graph = load(request.dataset)
    check(request, graph, None, load_machine(config))
    if name == "citeseer":
        check(replace(request, head=1, chiplets=1), graph, None, load_machine(config, 1))


@pytest.mark.parametrize("name", ["cora", "pubmed"])
@pytest.mark.parametrize("config", ["default", "community", "ecp5-85"])
@pytest.mark.parametrize(("hidden", "layers"), [(64, 2), (256, 2), (128, 8)])
def test_layers_of_any_width_fit(name: str, config: str, hidden: int, layers: int) -> None:
    """In blocks of columns; as deep as may be."""
    request = Request(f"synthetic:erdos,{BENCHMARKS[name]}", config=config, hidden=hidden, layers=layers)
    check(request, load(request.dataset), None, load_machine(config))


@pytest.mark.parametrize(("arguments", "layers"), [("--chiplets 1", 4), ("--chiplets 2 --placement communities", 3)])
def test_wide_and_deep_networks_are_exact(arguments: str, layers: int, tmp_path: Path) -> None:
    """Blocks of columns on one chiplet and on a ring, ends on no chip and in one."""
    given = f"run karate --config small --hidden 100 --layers {layers} -o {tmp_path} {arguments}"
    app(given.split(), standalone_mode=False)
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["bit_exact"] is True


@full
@pytest.mark.parametrize(("config", "chiplets"), [("wide", 1), ("wide", 4), ("community-wide", 1)])
def test_wide_layers_are_computed(config: str, chiplets: int, tmp_path: Path) -> None:
    """As many features as Citeseer has, and 128 hidden ones."""
    dataset = "synthetic:power-law,nodes=64,features=3703,classes=6,density=0.02"
    result = run(Request(dataset, config=config, chiplets=chiplets, hidden=128, out=tmp_path))
    assert result["bit_exact"] is True
    assert result["config"]["lanes"] == 64
