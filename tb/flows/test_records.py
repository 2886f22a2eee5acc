"""Thresholds of a run are the user's, and its records are those that the hardware found (I1, I4, I11)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.errors import InputError
from golden.datasets import load
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.record import Record, beats_of
from golden.locator.schedule import ANY, Choice, Schedule
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import model_of
from hw.chiplet.config import GatherChipletConfig
from hw.config import MachineConfig
from hw.host.hosted import Hosted
from hw.machine import machine_of
from scripts.cli import app
from scripts.config import load_machine
from scripts.flows import location
from scripts.flows.location import Search
from scripts.flows.progress import Steps, building, simulating
from scripts.flows.run import Request
from scripts.flows.schema import Thresholds
from scripts.flows.simulations import Simulated, place, simulate
from sim.models.record_streams import record_source
from sim.models.recorders import recording
from sim.models.records import located
from tb.flows.configurations import small_community
from tb.flows.results import run

SMALL = small_community(512)
GRAPH = load("karate")
LIMITS = Limits(6)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> MachineConfig:
    file = tmp_path_factory.mktemp("config") / "small.toml"
    file.write_text(SMALL)
    return load_machine(str(file), 1)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return quantise(train(GRAPH, model_of("gcn"), Training(layers=2, hidden=16, epochs=5)), GRAPH)


def simulated(sizes: MachineConfig, problem: Problem, choice: Choice, folder: Path) -> Simulated:
    assert sizes.chiplet.kind == "community"
    placed = place(sizes, problem, choice=choice)
    with Steps([building(), simulating(), "comparison"]) as steps:
        return simulate(sizes, problem, infer(problem), folder, steps, placed=placed)


@pytest.mark.parametrize(
    ("choice", "schedule"),
    [
        (Choice(5, 2, c_max=6), Schedule(5, False, 2)),
        (Choice(halving=True, c_max=6), Schedule(9, True, 1)),
        (Choice(16, 1, c_max=6), Schedule(16, False, 1)),
        (Choice(5, 1, c_max=6, scheme="window", k=4), Schedule(5, False, 1)),
        (Choice(5, 1, c_max=6, scheme="none"), Schedule(5, False, 1)),
    ],
)
def test_a_run_with_any_thresholds_is_exact_and_says_what_it_found(
    sizes: MachineConfig, problem: Problem, choice: Choice, schedule: Schedule, tmp_path: Path
) -> None:
    found = simulated(sizes, problem, choice, tmp_path)
    assert found.differences == []
    assert found.communities is not None
    how = Thresholds(schedule.threshold, schedule.halving, schedule.step, c_max=6)
    assert found.communities.schedule == how
    golden = locate(GRAPH, schedule, LIMITS)
    # Parts of a hub's row are cut where lines of its edges are; communities are the same.
    assert keys(found.records or []) == keys(golden.records)
    assert (found.communities.hubs, found.communities.communities) == (len(golden.hubs), len(golden.communities))
    counted = found.aggregation
    assert counted is not None
    assert counted.scheme == {"window": "windows of 4", "none": "none", None: "pairs"}[choice.scheme]
    if choice.scheme == "none":
        assert counted.gross == counted.net == counted.baseline
    else:
        assert counted.gross < counted.baseline
        assert counted.net > counted.gross


def test_a_directed_graph_is_exact_and_located_as_its_double_cover(sizes: MachineConfig, tmp_path: Path) -> None:
    graph = load("synthetic:community,nodes=90,degree=4,classes=9,mixing=0.05,features=20,directed=0.8")
    given = quantise(train(graph, model_of("gcn"), Training(layers=2, hidden=16, epochs=5)), graph)
    found = simulated(sizes, given, Choice(5, 1), tmp_path)
    assert found.differences == []
    assert found.communities is not None
    cover = cover_of(graph)
    golden = locate(cover.graph, Schedule(5, False, 1), Limits())
    assert keys(found.records or []) == keys(golden.records)
    assert (found.communities.hubs, found.communities.communities) == (len(golden.hubs), len(golden.communities))
    assert found.aggregation is not None
    assert found.aggregation.baseline == 2 * (graph.nodes + graph.edge_count)
    assert found.aggregation.net <= found.aggregation.baseline


def keys(records: list[Record]) -> set[tuple[object, ...]]:
    return {record.key for record in records if not record.hub_edges}


def test_the_thresholds_are_those_of_the_result(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    request = Request("karate", config=str(tmp_path / "small.toml"), choice=Choice(5, 2, c_max=6), out=tmp_path / "out")
    result = run(request)
    assert result["bit_exact"] is True
    assert result["communities"]["schedule"] == {"threshold": 5, "halving": False, "step": 2, "c_max": 6}
    assert "as the hardware found them" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("verb", ["run", "islands"])
def test_a_step_beside_halving_is_refused(verb: str, tmp_path: Path) -> None:
    arguments = [verb, "karate", "--step", "2", "--halving", "--out", str(tmp_path)]
    with pytest.raises(InputError, match="--step: does nothing where the threshold halves; expected either"):
        app(arguments, standalone_mode=False)


def test_a_wrong_record_is_a_difference(
    sizes: MachineConfig, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_lost(directory: Path, number: int) -> list[list[Record]]:
        return [records[1:] for records in located(directory, number)]

    monkeypatch.setattr(location, "located", first_lost)
    found = simulated(sizes, problem, ANY, tmp_path)
    assert len(found.differences) == 1
    assert found.differences[0].startswith("records: ")


def test_parts_are_checked_among_their_own_vertices() -> None:
    """Each half of karate by itself; then a vertex is in both, and a round is another."""
    halves = [np.arange(17), np.arange(17, 34)]
    search = Search(Schedule(4, False, 1), LIMITS)
    found = []
    for own in halves:
        graph, _ = location._among(GRAPH, own, [])
        records = locate(graph, *search[:2]).records
        found.append([[replace(record, nodes=own[record.nodes], hubs=own[record.hubs]) for record in records]])
    assert location.wrong_records(GRAPH, search, found) == []
    twice = [found[0], [[*found[1][0], found[0][0][0]]]]
    assert location.wrong_records(GRAPH, search, twice) == ["records: vertices are missing, or in several places"]
    late = [replace(record, round_number=record.round_number + record.hub_edges * 9) for record in found[0][0]]
    (line,) = location.wrong_records(GRAPH, search, [[late], found[1]])
    assert line.endswith("is in no L and no community")
    done = {"cycles": 1, "seconds": 1.0, "read": 0, "written": 0, "phases": [], "working": [], "unit_cycles": []}
    assert Simulated([], np.zeros(34), **done, located=found).records is None  # type: ignore[arg-type]
    assert Simulated([], np.zeros(34), **done, located=found[:1]).records is found[0][0]  # type: ignore[arg-type]


def test_parts_of_a_directed_graph_are_checked_too() -> None:
    """Each destination in one part, with the sources that it has there."""
    graph = load("synthetic:erdos,nodes=60,degree=5,directed=1")
    cover, search = cover_of(graph), Search(Schedule(4, False, 1), LIMITS)
    whole = locate(cover.graph, *search[:2]).records
    assert location.wrong_records(graph, search, [[whole]]) == []
    (line,) = location.wrong_records(graph, search, [[whole[1:]]])
    assert line.startswith("records: ")
    found = []
    for own in (np.arange(30), np.arange(30, 60)):
        sources = np.unique(np.concatenate([graph.edges[graph.offsets[v] : graph.offsets[v + 1]] for v in own]))
        copies = np.concatenate([own, cover.copies(sources)])
        part, _ = location._among(cover.graph, copies, [])
        records = locate(part, *search[:2]).records
        found.append([[replace(record, nodes=copies[record.nodes], hubs=copies[record.hubs]) for record in records]])
    assert location.wrong_records(graph, search, found) == []
    assert location.wrong_records(graph, search, found[:1] * 2)[0].endswith("missing, or in several places")


def test_streams_are_cut_into_locations_at_their_ends(tmp_path: Path) -> None:
    """Two locations, and the beginning of a third; of two streams the second has no record at first."""
    records = locate(GRAPH, Schedule(4), Limits()).records
    end, last = 1 << 58, 1 << 64
    lines = []
    for record in (records[0], None, records[1], None, records[2]):
        beats = beats_of(record) if record else [end]
        lines += [f"0 {beat | last * (n == len(beats) - 1):017x}" for n, beat in enumerate(beats)]
    seconds = beats_of(records[3])
    lines[3:3] = [f"1 {end | last:017x}"]
    lines += [f"1 {beat | last * (n == len(seconds) - 1):017x}" for n, beat in enumerate(seconds)]
    lines += [f"1 {end | last:017x}"]
    recording("records", tmp_path, 3).write_text("\n".join(lines) + "\n")
    found = [[record.key for record in records] for records in located(tmp_path, 3)]
    assert found == [[records[0].key], [records[1].key, records[3].key]]


def test_a_locator_is_found_in_whatever_stands_around_it(sizes: MachineConfig) -> None:
    source = record_source(Hosted(machine_of(sizes.chiplet, once=True)))
    assert source is not None
    assert source.signals("dut", "valid") == (
        "{dut.machine.engine.locator.records__1__valid, dut.machine.engine.locator.records__0__valid}"
    )
    assert record_source(machine_of(GatherChipletConfig())) is None


@pytest.mark.parametrize(
    ("config", "choice", "message"),
    [
        ("small", Choice(3), "are given, but gather PEs locate nothing; expected a configuration with community PEs"),
        ("small", Choice(halving=True), "gather PEs"),
        ("community", Choice(c_max=33), r"c_max: is 33; expected 1\.\.32 \(\[locator\] c_max\)"),
        ("community", Choice(c_max=0), r"c_max: is 0; expected 1\.\.32"),
        ("small", Choice(scheme="none"), "gather PEs"),
        ("community", Choice(step=0), "so the threshold never falls"),
    ],
)
@pytest.mark.parametrize("rtl", [True, False])
def test_thresholds_that_a_machine_cannot_have_are_refused(
    config: str, choice: Choice, message: str, rtl: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is trained, and whether or not it is simulated."""
    monkeypatch.setattr("scripts.flows.prepare.train", lambda *args: pytest.fail("it was trained"))
    with pytest.raises(InputError, match=message):
        run(Request("karate", config=config, choice=choice, rtl=rtl, out=tmp_path))
