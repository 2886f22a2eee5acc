"""`atoll run` and the configurations, as a user meets them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from contracts import Model, Opcode
from contracts.errors import InputError
from golden.community.tiles import Subgraph, cut
from golden.datasets import load
from golden.metrics import Bound, limit_cycles
from golden.model.network import infer
from hw.chiplet.config import GatherChipletConfig
from hw.config import MachineConfig
from scripts.blocks import UserError
from scripts.cli import app
from scripts.config import CONFIGS, load_machine, names
from scripts.flows.batch import Sampling
from scripts.flows.run import Request
from scripts.flows.simulations import HeadRun, Simulated, place, room_of
from sim.models.memory import LATENCY
from sim.problems import random_problem
from sim.runner.phases import Gap
from tb.community.configurations import chiplet_config
from tb.flows.configurations import small_community
from tb.flows.results import run
from tb.harness.marks import full

KEYS = {
    "schema", "dataset", "model", "config", "bit_exact", "differences", "cycles", "cycles_by_phase", "balance", "macs",
    "external_bytes", "ring", "communities", "aggregation", "attribute_cache", "batch", "head", "session",
    "accuracy",
    "simulation", "tools", "seed", "commit",
}  # fmt: skip


def test_run_writes_every_key(tmp_path: Path) -> None:
    result = run(Request("karate", model="gcn", out=tmp_path))
    assert set(result) == KEYS
    assert result["bit_exact"] is True
    assert (result["config"]["chiplets"], result["macs"]["lanes"]) == (4, 64)
    assert result["ring"]["words_by_link"] == result["ring"]["minimum"]
    check_phases(result)
    assert result["cycles"] >= result["macs"]["limit_cycles"]
    assert (
        result["external_bytes"]["read"] + result["external_bytes"]["written"] > result["external_bytes"]["compulsory"]
    )
    macs = result["macs"]
    assert macs["utilisation"] == pytest.approx(macs["useful"] / (macs["lanes"] * result["cycles"]))
    # Every PE of every chiplet has its own count.
    (balance,) = result["balance"]
    assert (balance["kind"], balance["units"]) == ("PE", 4 * len(load_machine("default", 4).chiplet.parts))
    assert 0 < balance["mean"] <= balance["busiest"] < result["cycles"]


#: Two chiplets, each on a clock of its own.
OWN_CLOCKS = """
[chiplet]
groups = 1
pes = 1
[pe]
lanes = 4
data_width = 64
weight_rows = 4096
max_out = 16
[ring]
chiplets = 2
clocks = "own"
"""


def test_chiplets_of_a_ring_can_have_clocks_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN_CLOCKS)
    result = run(Request("karate", config=str(tmp_path / "own.toml"), out=tmp_path / "out"))
    assert result["bit_exact"] is True
    assert result["ring"]["words_by_link"] == result["ring"]["minimum"]
    check_phases(result)


def check_phases(result: dict[str, Any]) -> None:
    """Check that every cycle has a name: all are those of commands and of gaps, which together are the run."""
    phases = result["cycles_by_phase"]
    assert sum(phases.values()) == result["cycles"]
    names = {phase.rpartition(".")[2] for phase in phases}
    assert names <= {*Gap, *(opcode.name.lower() for opcode in Opcode)}
    # The memory answers the header and the first command one after the other, each after its latency.
    assert 2 * LATENCY < phases["start"] < 3 * LATENCY
    # A few cycles for each command, however long other commands in the background take.
    assert 0 < phases["between"] < 20 * 8
    assert 0 < phases["end"] < 10


#: A small chiplet with everything: community PEs, a neural chip, an attribute core. Half of karate has too many edges.
WHOLE = (
    small_community(64)
    + """[ring]
chiplets = 2
nodes = 512
[neural]
wm_depth = 320
table_bits = 8
queue = 16
[attributes]
slots = 16
ways = 4
row_beats = 16
outstanding = 4
depth = 64
ahead = 128
replicas = 16
"""
)


#: Wider than its PEs.
HIDDEN = 24


def test_copies_need_a_table(tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text(WHOLE.replace("replicas = 16", ""))
    sampling = Sampling(3, (4, 3), replicas=True)
    request = Request("karate", config=str(tmp_path / "none.toml"), sampling=sampling, rtl=False, out=tmp_path / "out")
    with pytest.raises(InputError, match="replicas: have no table in the attribute core; expected a configuration"):
        run(request)


def test_one_run_has_everything(tmp_path: Path) -> None:
    """Communities, ring, tiles, blocks of columns, neural chips, a head that learns, and mini-batches."""
    (tmp_path / "whole.toml").write_text(WHOLE)
    request = Request(
        "karate",
        config=str(tmp_path / "whole.toml"),
        placement="communities",
        hidden=HIDDEN,
        activation="tanh",
        head=2,
        sampling=Sampling(3, (4, 3), negatives=2, replicas=True),
        out=tmp_path / "out",
    )
    result = run(request)
    assert result["bit_exact"] is True
    # Two blocks, and the one of the second layer.
    graph = load("karate")
    assert result["aggregation"]["baseline"] == 3 * (graph.nodes + graph.edge_count)
    assert all(value is not None for key, value in result.items() if key not in ("commit", "differences", "session"))
    assert result["differences"] == []
    assert result["cycles_by_phase"]["layer0.neural"] > 0
    assert result["ring"]["words_by_link"] == result["ring"]["minimum"]
    assert result["communities"]["communities"] > 0
    assert max(result["communities"]["tiles"]) > 1
    batch, cache = result["batch"], result["attribute_cache"]
    assert batch["bit_exact"] is result["head"]["bit_exact"] is True
    tested = graph.test.sum()
    assert sum(batch["batches"]) >= tested / 3
    links, negatives = batch["links"], 2 * tested
    # Attributes of negatives are not fetched with the roots that they are drawn for, but as roots of their own.
    assert cache["requests"] == batch["positions"] - negatives + links["ends"]["positions"] > tested
    check_links(links, tested, negatives)
    assert cache["requests"] == cache["misses"] + cache["in_place"] + cache["cached"] + cache["moved"]
    assert cache["misses"] < cache["requests"]
    assert batch["cycles"]["total"] == batch["cycles"]["sample"] + batch["cycles"]["layers"]
    # The golden model alone says the same.
    golden = run(replace(request, rtl=False))
    assert golden["batch"]["accuracy"] == batch["accuracy"]
    assert golden["batch"]["links"]["machine"] == links["machine"]
    assert golden["attribute_cache"] is None
    # A limit for each chiplet.
    limited = run(replace(request, rtl=False, sampling=Sampling(3, (4, 3), most=1)))["batch"]["batches"]
    assert limited == [min(1, count) for count in batch["batches"]]


def check_links(links: dict[str, Any], roots: int, negatives: int) -> None:
    """Check what a run says of pairs, all of whose roots have a neighbour."""
    assert (links["positive"], links["negative"]) == (roots, negatives)
    ends = links["ends"]
    assert 0 < ends["nodes"] <= roots + negatives
    assert sum(ends["batches"]) > 0
    assert ends["positions"] > ends["nodes"]
    assert ends["cycles"]["total"] == ends["cycles"]["sample"] + ends["cycles"]["layers"] > 0
    assert ends["external_bytes"]["read"] > ends["external_bytes"]["written"] > 0
    for found in (links["machine"], links["float"], links["features"]):
        assert 0 <= found["hits1"] <= found["hits3"] <= 1
        assert found["hits1"] <= found["mrr"] <= 1
        assert 0 < found["auc"] <= 1


@pytest.mark.parametrize("placement", ["tiles", "communities"])
def test_a_vertex_that_does_not_fit_is_named(placement: str, tmp_path: Path) -> None:
    """With its neighbours: a chiplet that is alone has positions for 16."""
    (tmp_path / "little.toml").write_text(WHOLE.replace("hubs = 128", "hubs = 8"))
    request = Request("karate", config=str(tmp_path / "little.toml"), chiplets=1, placement=placement, out=tmp_path)
    with pytest.raises(InputError, match=r"^karate, vertex 0: has 16 neighbours; expected at most 15 "):
        run(request)


def test_communities_stay_together_in_tiles() -> None:
    """Of one chiplet, if it has no room for all; there are fewer tiles then."""
    graph = load("synthetic:community,nodes=240,degree=5,classes=30,mixing=0.05")
    rows = np.random.default_rng(0).normal(size=(graph.nodes, 4)).astype(np.float32)
    problem = random_problem(replace(graph, features=rows), Model.GCN, [3], 0)
    little = chiplet_config(locator={"nodes": 64, "edges": 1024, "banks": 4}, units=1, hubs=64)
    together = place(MachineConfig(little), problem)
    assert together.name == "communities"
    assert np.array_equal(place(MachineConfig(little), problem, "communities").position, together.position)
    assert together.placement.chiplets == 1
    assert together.search is not None
    how = room_of(little), together.search.schedule, together.search.limits
    tiles = len(list(cut(Subgraph.whole(graph), *how)))
    assert len(list(cut(Subgraph.whole(together.problem.graph), *how))) < tiles
    back = infer(together.problem)[-1].results[together.position]
    assert np.array_equal(back, infer(problem)[-1].results)
    # What fits stays as it is.
    for config in (GatherChipletConfig(), chiplet_config()):
        for name in ("communities", None):
            assert np.array_equal(place(MachineConfig(config), problem, name).position, np.arange(graph.nodes))
    assert np.array_equal(place(MachineConfig(little), problem, "tiles").position, np.arange(graph.nodes))


def test_roots_of_mini_batches_keep_the_order_given() -> None:
    assert Request().sharing is None
    assert Request(sampling=Sampling(3, (4, 3))).sharing == "tiles"
    assert Request(sampling=Sampling(3, (4, 3)), placement="communities").sharing == "communities"


def test_communities_stay_together_on_the_ring(tmp_path: Path) -> None:
    tiles = run(Request("karate", rtl=False, out=tmp_path / "tiles"))
    result = run(Request("karate", placement="communities", out=tmp_path))
    assert result["bit_exact"] is True
    assert result["ring"]["placement"] == "communities"
    assert result["ring"]["words_by_link"] == result["ring"]["minimum"]
    # The same predictions, in the order in which the graph was given.
    assert result["accuracy"] == tiles["accuracy"]


@pytest.mark.parametrize("placement", ["tiles", "communities"])
@pytest.mark.parametrize("split", ["destination", "source"])
@pytest.mark.parametrize("matching", ["unordered", "in_order"])
def test_a_ring_matches_and_splits_as_its_file_says(matching: str, split: str, placement: str, tmp_path: Path) -> None:
    keys = f'[ring]\nmatching = "{matching}"\nsplit = "{split}"\n'
    (tmp_path / "c.toml").write_text((CONFIGS / "default.toml").read_text().replace("[ring]\n", keys))
    result = run(Request("karate", config=str(tmp_path / "c.toml"), placement=placement, out=tmp_path / "out"))
    assert result["bit_exact"] is True
    ring = result["ring"]
    assert ring["words_by_link"] == ring["minimum"]
    sums = split == "source" or placement == "communities"
    assert ("layer0.reduce" in result["cycles_by_phase"]) is sums


@full
@pytest.mark.parametrize("placement", ["tiles", "communities"])
def test_a_ring_of_community_chiplets(placement: str, tmp_path: Path) -> None:
    result = run(Request("karate", config="community", chiplets=2, placement=placement, out=tmp_path))
    assert result["bit_exact"] is True
    assert result["ring"]["words_by_link"] == result["ring"]["minimum"]
    found = result["communities"]
    assert found["hubs"] > 0
    assert found["edges_read"] > 0
    assert result["aggregation"]["net"] >= result["aggregation"]["gross"] > 0


def test_own_graph_and_own_weights(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    edges = random.integers(0, 20, (2, 60))
    np.savez(tmp_path / "g.npz", edge_index=edges, x=random.random((20, 6), np.float32), y=np.arange(20) % 3)
    weights: dict[str, Any] = {"layer0.weight": random.normal(size=(6, 5)), "layer1.weight": random.normal(size=(5, 3))}
    np.savez(tmp_path / "w.npz", model="gin", eps=np.array(0.25), **weights)
    request = Request(f"npz:{tmp_path}/g.npz", config="small", model_file=tmp_path / "w.npz", out=tmp_path / "out")
    result = run(request)
    assert result["bit_exact"] is True
    assert (result["config"]["chiplets"], result["ring"]) == (1, None)
    check_phases(result)
    assert result["model"]["name"] == "gin"
    assert result["model"]["layers"] == [[6, 5], [5, 3]]


def with_chip(folder: Path) -> str:
    """Write a small configuration with a neural chip; its path."""
    sizes = "[chiplet]\ngroups = 1\npes = 2\n[pe]\nlanes = 4\ndata_width = 64\nweight_rows = 512\n"
    (folder / "c.toml").write_text(f"{sizes}[neural]\nwm_depth = 320\ntable_bits = 8\nqueue = 16\n")
    return str(folder / "c.toml")


def test_layers_may_end_on_the_neural_chip(tmp_path: Path) -> None:
    """And a head may learn there from what it left."""
    request = Request("karate", config=with_chip(tmp_path), activation="sigmoid", out=tmp_path / "out", head=2)
    result = run(request)
    check_head(result, 2)
    assert result["bit_exact"] is True
    assert result["cycles_by_phase"]["layer0.neural"] > 0
    assert "layer1.neural" not in result["cycles_by_phase"]
    assert (result["model"]["activation"], result["config"]["neural"]["core"]["table_bits"]) == ("sigmoid", 8)
    # Without RTL the golden head says the same.
    golden = run(replace(request, rtl=False))["head"]
    assert (golden["bit_exact"], golden["cycles"]) == (None, None)
    assert golden["accuracy"] == result["head"]["accuracy"]
    deep = run(replace(request, rtl=False, head=10, head_hidden=(5,)))["head"]
    assert (deep["hidden"], deep["epochs"], golden["hidden"]) == ([5], 10, [])
    assert abs(deep["accuracy"]["machine"] - deep["accuracy"]["float"]) < 0.2
    # A network that ends in ReLU has nothing for the chip to do, so it is not simulated.
    plain = run(replace(request, activation="relu", rtl=False, head=None))
    assert plain["head"] is None
    assert plain["config"]["neural"] is None


def check_head(result: dict[str, Any], epochs: int) -> None:
    """Check what the first chiplet's chip has learned of what karate's network leaves before its last layer."""
    head = result["head"]
    assert result["bit_exact"] is head["bit_exact"] is True
    assert (head["epochs"], head["features"], head["classes"], head["chiplet"]) == (epochs, 16, 2, 0)
    assert head["vertices"] == {"learnt": 20, "scored": 34}
    cycles = head["cycles"]
    spent = [cycles[name] for name in ("learning", "reading", "scoring")]
    # A row of two classes takes so many clocks of its processor, beside loading.
    assert spent[0] > epochs * 20 * 50
    assert cycles["total"] == sum(spent) + cycles["commands"]
    assert 0 < cycles["commands"] < 150 * (epochs + 2)
    accuracy = head["accuracy"]
    assert accuracy["network"] == result["accuracy"]["machine"]
    assert accuracy["machine"] > 0.6
    assert abs(accuracy["machine"] - accuracy["float"]) < 0.2


@full
@pytest.mark.parametrize(("config", "chiplets"), [("default", 2), ("community", 1), ("community", 2)])
def test_a_head_beside_any_chiplet(config: str, chiplets: int, tmp_path: Path) -> None:
    check_head(run(Request("karate", config=config, chiplets=chiplets, head=5, out=tmp_path)), 5)


@full
def test_a_head_with_hidden_layers_learns_as_the_rule_says(tmp_path: Path) -> None:
    result = run(Request("karate", config=with_chip(tmp_path), head=6, head_hidden=(6, 4), out=tmp_path / "out"))
    check_head(result, 6)
    assert result["head"]["hidden"] == [6, 4]


@pytest.mark.parametrize("errors", [[], ["chiplet 0 ended with NEURAL"]])
def test_a_head_that_differs_is_told(errors: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And after a network that differs there is none."""
    differs, hidden = "head, weights: 1 of 32 values differ", np.zeros((34, 16), np.int16)
    found = Simulated(
        [],
        hidden[:, :2],
        cycles=9,
        seconds=1,
        read=0,
        written=0,
        phases=[[]],
        working=[],
        unit_cycles=[],
        hidden=hidden,
    )
    learnt = HeadRun(
        errors, [hidden[:, :2]] * 3, {"learning": 5, "reading": 1, "scoring": 2, "commands": 1, "total": 9}
    )
    monkeypatch.setattr("golden.head.HeadProblem.differences", lambda problem, results: [differs])
    monkeypatch.setattr("scripts.flows.run.simulate", lambda *args, **kwargs: found)
    monkeypatch.setattr("scripts.flows.run.simulate_head", lambda *args: learnt)
    request = Request("karate", config=with_chip(tmp_path), head=1, out=tmp_path / "out")
    result = run(request)
    assert result["bit_exact"] is result["head"]["bit_exact"] is False
    assert result["differences"] == (errors or [differs])
    # It learns from what the machine left.
    assert result["head"]["shift"] == 15
    found = replace(found, differences=["layer 0"])
    result = run(request)
    assert (result["head"], result["differences"]) == (None, ["layer 0"])


def test_a_head_that_has_no_room_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[neural]\nwm_depth = 300\ntable_bits = 8\n")
    message = "16 features and 10 classes need wm_depth of at least 307, not 300; expected fewer features or classes"
    with pytest.raises(InputError, match=message):
        run(Request("digits", config=str(tmp_path / "c.toml"), head=1, rtl=False, out=tmp_path))


def test_golden_alone_says_that_nothing_was_simulated(tmp_path: Path) -> None:
    result = run(Request("karate", rtl=False, layers=3, model="sage", out=tmp_path))
    assert result["bit_exact"] is None
    assert result["cycles"] is None
    assert len(result["model"]["layers"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "data set: there is no 'nothing'"),
        (["karate", "--model", "gat"], "model: there is no 'gat'; expected gcn, sage, gin"),
        (["karate", "--placement", "best"], "placement: there is no 'best'; expected tiles or communities"),
        (["karate", "--config", "huge"], "configuration huge: is no file"),
        (["npz:missing.npz"], "missing.npz"),
        (["karate", "--model-file", "missing.npz"], "missing.npz"),
        (["karate", "--activation", "step"], "activation: there is no 'step'; expected relu, sigmoid, tanh, elu"),
        (
            ["karate", "--activation", "tanh", "--config", "small"],
            "small: has no neural chip for tanh; expected one with",
        ),
        (["karate", "--head", "1", "--config", "small"], "small: has no neural chip for a head; expected one with"),
        (["karate", "--head", "0"], "head: learns 0 epochs; expected at least 1"),
        (["karate", "--head", "1", "--layers", "1"], "head: there are 1 layers; expected at least 2; it learns from"),
        (
            ["karate", "--batch", "4", "--config", "small"],
            "small: has no attribute core for mini-batches; expected one",
        ),
        (["karate", "--batch", "4", "--model", "gcn"], "model: is gcn; expected sage for mini-batches"),
        (["karate", "--batch", "4", "--fanout", "10"], "fan-out: of 1 hops; expected 2, the layers of the network"),
        (["karate", "--batch", "4", "--order", "up"], "order: there is no 'up'; expected one of ID, random, BFS"),
        (
            ["karate", "--batch", "4", "--replicas", "--chiplets", "1"],
            "replicas: are copies of other chiplets' rows, and",
        ),
        (["karate", "--batch", "4", "--slots", "hashed"], "slots: there is no 'hashed', perhaps hash or ahead"),
        (["karate", "--batch", "4", "--order", "bfs"], "order: there is no 'bfs', perhaps BFS; expected one of ID"),
        (["karate", "--placement", "community"], "placement: there is no 'community', perhaps communities; expected"),
        (["karate", "--batch", "4", "--negatives", "300"], "negatives: are 300; expected 0..255"),
        (["karate", "--batch", "100"], "batch: of 100 roots expands 1100 positions; expected at most 1024"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, UserError)) as refused:
        app(["run", *arguments, "--out", str(tmp_path)], standalone_mode=False)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_failed_comparison_has_exit_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    differs = "layer 0: 1 of 2 values differ"
    monkeypatch.setattr("scripts.flows.simulations.layer_differences", lambda exact, results: [differs])
    done = CliRunner().invoke(app, ["run", "karate", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "1 of 2 values differ" in done.output
    assert json.loads((tmp_path / "result.json").read_text())["bit_exact"] is False


@pytest.mark.parametrize("name", names())
def test_named_configurations_load(name: str) -> None:
    assert load_machine(name).chiplet.lanes >= 1


def test_a_ring_shares_the_lanes_out(tmp_path: Path) -> None:
    config = load_machine("default")
    assert (config.chiplet.lanes * 4, config.chiplets) == (load_machine("default", 1).chiplet.lanes, 4)
    assert load_machine("default", 16).chiplets == 16
    alone = load_machine("small")
    assert (alone.chiplets, alone.ring, alone.neural, alone.attributes) == (1, None, None, None)
    # The older form, and that of any other key.
    for changes in ("pes = 1", "[ring.chiplet]\npes = 1"):
        (tmp_path / "c.toml").write_text(f"[chiplet]\ngroups = 3\npes = 2\n[ring]\nlink_width = 128\n{changes}")
        config = load_machine(str(tmp_path / "c.toml"), 2)
        assert config.chiplet.kind == "gather"
        assert (config.chiplet.groups, config.chiplet.pes, config.chiplets) == (3, 1, 2)
        assert config.ring is not None
        assert config.ring.link_width == 128
        alone = load_machine(str(tmp_path / "c.toml"), 1)
        assert alone.chiplet == replace(config.chiplet, pes=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chiplet", "is not TOML"),
        ("[chiplet]\npe = 1", "chiplet.pe: is unknown"),
        ("[pe]\nlanes = 3", "lanes must be a power of two"),
        ("[pe]\nlanes = 2.5", "pe.lanes: is 2.5; expected a whole number"),
        ("[chiplet]\ngroups = 0", "groups must be in 1..64, not 0"),
        (
            "[rings]\nchiplets = 4",
            "has a section 'rings', perhaps ring; expected chiplet, pe, ring, neural and attributes",
        ),
        ("[neural]\nqueue = 2", "neural: queue must be in 3..4096, not 2"),
        ("[neural]\nwm_depth = 1", "neural: wm_depth must be in 2..65536, not 1"),
        (
            "[neural]\ncores = 4",
            "neural.cores: is unknown; expected depth, p_depth, patience, queue, table_bits, wm_depth, xm_depth",
        ),
        ("[ring]\nchiplets = 17", "chiplets must be in 1..16, not 17"),
        (
            "[ring]\nlanes = 4",
            "ring.lanes: is unknown; expected bitmap, chiplets, clocks, link_width, matching, reply_beats",
        ),
        ("[ring]\nhubs = 4", "ring.hubs: is unknown; expected bitmap, chiplets"),
        ('[ring]\nmatching = "ordered"', "ring.matching: is 'ordered'; expected one of unordered, in_order"),
        ("[ring]\nsplit = 1", "ring.split: is 1; expected one of destination, source"),
        ("[ring]\nslots = 1\nchiplets = 2", "ring: slots must be in 2..64, not 1"),
        ("[ring.chiplet]\nhubs = 4", "ring.chiplet.hubs: is unknown; expected depth, groups, pes"),
        ("[ring]\nchiplet = 4", "ring.chiplet: is 4; expected a section with depth, groups, pes"),
        ("[ring]\nchiplets = 2\nlink_width = 96", "ring: link_width must be 64, 128, 256 or 512, not 96"),
        ("lanes = 4", "has outside of sections a key 'lanes'; expected chiplet, pe, ring, neural and attributes"),
        ("pe = 4", "pe: is 4; expected a section"),
        ("neural = 4", "neural: is 4; expected a section"),
        ("attributes = 4", "attributes: is 4; expected a section"),
        ("[attributes]\nslots = 1", "attributes: slots must be in 2..4096, not 1"),
        ("[attributes]\nfrontier = 1", "attributes: frontier must be in 2..65536, not 1"),
        ("[attributes]\nprocessors = 3", "attributes: processors must be 1, 2 or 4, not 3"),
        ("[attributes]\nahead = 1000", "attributes: ahead must be 0 or a power of two in 128..8192, not 1000"),
        ("[attributes]\nreplicas = 100", "attributes: replicas must be 0 or a power of two in 16..65536, not 100"),
        ("[attributes]\nslots = 4\nahead = 128", "attributes: ahead must be 0 with 4 slots or fewer, not 128"),
        ('[attributes]\npolicy = "best"', "attributes.policy: is 'best'; expected one of "),
        ("[attributes]\ndata_width = 64", "attributes.data_width: is unknown"),
    ],
)
def test_bad_configurations_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_machine(str(tmp_path / "c.toml"))


def test_limit_is_the_tightest_bound() -> None:
    assert limit_cycles(1000, 64, Bound(320, 64), 32) == 16
    assert limit_cycles(10, 64, Bound(321, 64), 32) == 11
    assert limit_cycles(10, 64, Bound(32, 640), 32) == 20
