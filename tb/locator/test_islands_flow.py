"""`atoll islands` and its benchmark, but for the simulation: what is refused, what is drawn, what is counted."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import InputError
from golden.datasets import load
from golden.graph import Graph
from golden.locator.locator import Limits, locate
from golden.locator.partition import check_records
from golden.locator.schedule import Choice, Schedule
from hw.locator.config import LocatorConfig
from scripts.bench import islands as bench
from scripts.flows import islands as flow
from tb.harness.marks import full


def found() -> flow.Found:
    graph, schedule, limits = load("karate"), Schedule(4, True), Limits()
    location = locate(graph, schedule, limits)
    counters = {"edges_read": location.edges_read, "locate_cycles": 2 * location.edges_read}
    return flow.Found(graph, schedule, limits, LocatorConfig(), location.records, counters)


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    flow.draw(found(), tmp_path / "deep" / "islands.png")
    assert (tmp_path / "deep" / "islands.png").read_bytes().startswith(b"\x89PNG")


def test_hubs_and_sizes_are_counted_once() -> None:
    run = found()
    assert run.hubs + sum(run.sizes) == run.graph.nodes
    assert run.edges_per_cycle == 0.5


def test_a_graph_that_no_threshold_parts_is_remarked_upon() -> None:
    remark = flow.remark(load("digits"), 1288)
    assert remark == (
        "72% of the vertices are hubs: degrees are 8 to 26, 11.1 on average, too much alike for a threshold to part "
        "the graph earlier"
    )
    assert flow.remark(load("karate"), 17) is None
    assert flow.remark(load("synthetic:empty,nodes=1"), 0) is None


def test_a_configuration_fits_its_graph() -> None:
    graph = load("synthetic:community,nodes=1500,degree=8")
    config = flow.fitting(graph, 2, 200, 8)
    assert config.nodes >= graph.nodes > config.nodes // 2
    assert config.edges > graph.edge_count
    assert (config.c_max, config.outputs) == (256, 2)


@pytest.mark.parametrize(
    ("graph", "schedule", "c_max", "message"),
    [
        ("synthetic:path,nodes=9", Schedule(4, False, 0), 4, "so the threshold never falls"),
        ("synthetic:path,nodes=9", Schedule(4, True, rounds=2), 4, "at least 4, until the threshold is 0"),
        ("synthetic:path,nodes=9", Schedule(4, True), 0, r"c_max: is 0; expected 1\.\.64"),
        ("synthetic:path,nodes=9", Schedule(4, True), 65, r"c_max: is 65; expected 1\.\.64"),
        ("synthetic:path,nodes=5000", Schedule(4, True), 4, "has 5000 nodes"),
    ],
)
def test_what_cannot_run_is_refused_before_simulation(graph: str, schedule: Schedule, c_max: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        flow.find(load(graph), schedule, c_max, LocatorConfig())


@pytest.mark.parametrize("window", [100, 32, 256])
def test_a_window_that_does_not_fit_is_refused(window: int) -> None:
    config = flow.fitting(load("karate"), 2, 64, 4)
    with pytest.raises(InputError, match=f"window: is {window}; expected 0 or a power of two in 64..128"):
        flow.windowed(config, window)
    assert flow.windowed(config, 128).frames == 8


def test_an_asymmetric_graph_is_refused_before_simulation() -> None:
    with pytest.raises(InputError, match="0 -> 1 has no reverse"):
        flow.find(Graph.from_edges("one way", 2, [0], [1]), Schedule(), 4, LocatorConfig())


def test_a_directed_graph_is_located_as_its_double_cover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked, drawn, and hubs counted by in-degree and by out-degree."""

    def golden(graph: Graph, schedule: Schedule, c_max: int, config: LocatorConfig) -> flow.Found:
        location = locate(graph, schedule, Limits(c_max))
        return flow.Found(graph, schedule, Limits(c_max), config, location.records, {"edges_read": location.edges_read})

    monkeypatch.setattr(flow, "find", golden)
    monkeypatch.setattr(flow.Found, "edges_per_cycle", 1.0)
    # One vertex with many out-edges; then all edges the other way round.
    spec = "synthetic:star,nodes=30,directed=1"
    result = flow.islands(flow.Request(spec, choice=Choice(threshold=4), out=tmp_path))
    assert (result["nodes"], result["edges"], result["cover_nodes"], result["cover_edges"]) == (30, 29, 31, 58)
    assert (result["hubs"], result["hubs_by_in_degree"], result["hubs_by_out_degree"]) == (1, 0, 1)
    assert (tmp_path / "islands.png").read_bytes().startswith(b"\x89PNG")
    plain = load(spec)
    turned = Graph.from_edges("turned", plain.nodes, plain.destinations, plain.edges)
    monkeypatch.setattr(flow, "load", lambda name: turned)
    result = flow.islands(flow.Request("turned", choice=Choice(threshold=4), out=tmp_path))
    assert (result["cover_nodes"], result["hubs_by_in_degree"], result["hubs_by_out_degree"]) == (59, 1, 0)
    monkeypatch.setattr(flow, "load", lambda name: load("karate"))
    assert "cover_nodes" not in flow.islands(flow.Request("karate", choice=Choice(threshold=4), out=tmp_path))


def test_allocation_is_more_even_than_taking_turns() -> None:
    rows = bench._balance("digits", load("digits"))
    imbalance = {row["how"]: row["imbalance"] for row in rows}
    assert imbalance["smoothing over 2 hops, remapping"] <= 1.1
    assert imbalance["smoothing over 2 hops, remapping"] <= imbalance["in turn"]
    assert imbalance["lower bound of whole records"] <= imbalance["longest first, all known"]


@full
@pytest.mark.parametrize("name", ["digits", "cora", "synthetic:power-law,nodes=2700,degree=4"])
def test_large_graphs_are_parted_alike_by_any_number_of_engines(name: str) -> None:
    """One simulator of 16 engines serves all numbers; edges read stay within a tenth of those of one search.

    The memory stalls at random meanwhile.
    """
    if name == "cora":
        if "ATOLL_PLANETOID" not in os.environ:
            pytest.skip("ATOLL_PLANETOID is not set")
        name = f"planetoid:{os.environ['ATOLL_PLANETOID']}/cora"
    graph = load(name)
    config = replace(flow.fitting(graph, 16, 64, 8, searches=2, lanes=2), nodes=4096, edges=32768)
    for schedule in (Schedule(16, True), Schedule(16, False, 1)):
        golden = locate(graph, schedule, Limits(64, config.hubs, 64, config.line_words))
        cycles = []
        for active in (1, 2, 4, 8, 16):
            found = flow.find(graph, schedule, 64, config, active=active, stall=0.3)
            check_records(graph, schedule, found.limits, found.records)
            assert {record.key for record in found.records} == {record.key for record in golden.records}
            assert found.counters["edges_read"] <= 1.1 * golden.edges_read
            cycles.append(found.counters["locate_cycles"])
        assert cycles == sorted(cycles, reverse=True)
