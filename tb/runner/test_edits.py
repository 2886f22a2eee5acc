"""Changes of a graph: files of steps, the graph after each of them, what the host writes, whole machines."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import LINE_BYTES, MAGIC, VERSION, Model, RegionKind
from contracts.errors import InputError
from contracts.registers import register
from golden.community.image import build_community_image
from golden.datasets import load
from golden.edits import Edits, edited, read_edits
from golden.graph import Graph
from golden.model.float_model import FloatModel
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.model.training import Training, train
from scripts.flows.session import changing, plan_session
from sim.changing import ChangingGraph
from sim.driver import Driver, now
from sim.runner.jobs import mismatches
from sim.runner.run import run_jobs
from sim.runner.sessions import SessionJob
from tb.runner.machines import MACHINES, MEMORIES

TEXT = "# karate\n+ 0 9\n- 0 1  # friends no more\n\nstep\n+ 14 16\n+ 20 22\nstep\n"


def file(folder: Path, contents: str) -> Path:
    path = folder / "edits.txt"
    path.write_text(contents)
    return path


def changed_network() -> tuple[Problem, FloatModel, list[Edits]]:
    """Return a network on a small graph, and steps: a few edges, many that come and go, back to the start."""
    graph = load("karate")
    network = train(graph, Model.GCN, Training(layers=2, hidden=6))
    new = np.array([[16, v] for v in range(20, 34)])
    some = np.array([[0, 1], [33, 32]])
    steps = [Edits(new[:1], some), Edits(new[1:], new[:1]), Edits(some, new[1:])]
    return quantise(network, graph), network, steps


def test_steps_are_read_from_text_and_archives(tmp_path: Path) -> None:
    steps = read_edits(file(tmp_path, TEXT))
    assert [(step.added.tolist(), step.removed.tolist()) for step in steps] == [
        ([[0, 9]], [[0, 1]]), ([[14, 16], [20, 22]], []),
    ]  # fmt: skip
    path = tmp_path / "edits.npz"
    rows = [[number, *edge] for number, step in enumerate(steps) for edge in step.added.tolist()]
    np.savez(path, added=np.array(rows, dtype=np.int32), removed=np.array([[0, 0, 1]], dtype=np.uint8))
    again = read_edits(path)
    for one, other in zip(steps, again, strict=True):
        assert np.array_equal(one.added, other.added)
        assert np.array_equal(one.removed, other.removed)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("", "has no step; expected at least one edge"),
        ("+ 0", "line 1: is '\\+ 0'; expected \\+ u v, - u v or step"),
        ("step\n+ 0 -1", "line 2: is '\\+ 0 -1'"),
        ("* 0 1", "line 1: is '\\* 0 1'"),
        ("+ 0 1.5", "line 1"),
    ],
)
def test_bad_text_is_refused(contents: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_edits(file(tmp_path, contents))


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_edits(tmp_path / "none.txt")
    binary = tmp_path / "edits.txt"
    binary.write_bytes(b"\xff\x00\xfe")
    with pytest.raises(InputError, match="is no text"):
        read_edits(binary)
    archive = tmp_path / "edits.npz"
    archive.write_bytes(b"no archive")
    with pytest.raises(InputError, match="is no archive"):
        read_edits(archive)
    for added, message in (
        (np.zeros((2, 2), dtype=np.int64), r"added: is int64 \[2, 2\]; expected integers \[edges, 3\]"),
        (np.zeros((2, 3)), "added: is float64"),
        (np.array([[0, -1, 2]]), "added: has -1"),
        (np.array([[1 << 40, 1, 2]]), "step: is"),
    ):
        np.savez(archive, added=added)
        with pytest.raises(InputError, match=message):
            read_edits(archive)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("+ 0 34", r"step 0, edges added: have the vertex 34; expected 0\.\.33"),
        ("+ 0 9\nstep\n+ 3 3", "step 1, edges added: 3 to 3 is a self loop"),
        ("+ 0 1", "is there; expected a new one"),
        ("- 0 9", "is not there; expected an edge"),
        ("+ 0 9\n+ 9 0", "is named twice"),
        ("+ 0 9\nstep\n+ 9 0", "step 1, edges added: 9 to 0 is there"),
    ],
)
def test_steps_that_do_not_fit_the_graph_are_refused(contents: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        list(edited(load("karate"), read_edits(file(tmp_path, contents))))


def test_graphs_that_cannot_change_are_refused() -> None:
    graph = Graph.from_edges("weighted", 3, [0, 1], [1, 2], edge_weight=[1.0, 2.0])
    with pytest.raises(InputError, match="have weights"):
        list(edited(graph, []))
    with pytest.raises(InputError, match="has many small graphs"):
        list(edited(load("synthetic:molecules,graphs=3"), []))


@settings(deadline=None, max_examples=40)
@given(st.data(), st.booleans())
def test_the_graph_has_what_came_and_not_what_went(data: st.DataObject, directed: bool) -> None:
    nodes = data.draw(st.integers(2, 12))
    pairs = [(u, v) for u in range(nodes) for v in range(nodes) if (u != v if directed else u < v)]
    there = set(data.draw(st.lists(st.sampled_from(pairs), unique=True)))
    # One edge without its reverse tells that a graph is directed.
    there = {(0, 1)} | there - {(1, 0)} if directed else there
    ends = np.array(sorted(there)).reshape(-1, 2).T
    graph = Graph.from_edges("any", nodes, ends[0], ends[1], symmetrise=not directed)
    steps = []
    wanted = []
    for _ in range(3):
        some = set(data.draw(st.lists(st.sampled_from(pairs), unique=True)))
        added, removed = some - there, some & there
        steps.append(Edits(*(np.array(sorted(each), dtype=np.int64).reshape(-1, 2) for each in (added, removed))))
        there = there - removed | added
        wanted.append(there if directed else there | {(v, u) for u, v in there})
    for after, edges in zip(edited(graph, steps), wanted, strict=True):
        assert set(zip(after.edges.tolist(), after.destinations.tolist(), strict=True)) == edges
        assert after.features is graph.features


def test_the_host_writes_only_what_depends_on_edges() -> None:
    problem, network, steps = changed_network()
    plan = plan_session(changing(problem, network, steps), MACHINES["community"], edits=steps)
    made = plan.sessions[0]
    kinds = {region.kind for region in made.images[1].regions if region.address < made.fronts[1]}
    scales = {RegionKind.SCALE_SOURCE, RegionKind.SCALE_DESTINATION}
    assert {RegionKind.OFFSETS, RegionKind.EDGES} <= kinds <= {RegionKind.OFFSETS, RegionKind.EDGES, *scales}
    first, *_, last = plan.exact
    assert all(np.array_equal(one.results, other.results) for one, other in zip(first, last, strict=True))
    assert not np.array_equal(first[-1].results, plan.exact[1][-1].results)
    assert np.array_equal(infer(problem)[-1].results, first[-1].results)


@pytest.mark.parametrize("machine", MACHINES)
def test_changing_graphs_are_exact(machine: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    problem, network, steps = changed_network()
    sizes = MACHINES[machine]
    plans = [plan_session(changing(problem, network, steps), sizes, edits=steps) for _ in MEMORIES]
    jobs = [SessionJob(made.sessions, settings) for made, settings in zip(plans, MEMORIES, strict=True)]
    found, _ = run_jobs(sizes.chiplet, jobs, tmp_path, units=sizes.units, ring=sizes.ring)
    for made, outcomes in zip(plans, found, strict=True):
        for number, (placed, outcome) in enumerate(zip(made.placed, outcomes, strict=True)):
            with subtests.test(f"step {number}"):
                assert not any(outcome.errors), outcome.errors
                assert not mismatches(placed.problem, outcome)


class MemoryBus:
    """A memory, and registers of an accelerator that is done at once."""

    def __init__(self) -> None:
        self.memory, self.loads = bytearray(1 << 20), list[tuple[int, int]]()

    async def read(self, address: int) -> int:
        """Return a register."""
        done = register("STATUS")
        values = {register("ID").address: MAGIC, register("VERSION").address: VERSION}
        return {**values, done.address: done.layout.pack({"done": 1})}.get(address, 0)

    async def write(self, address: int, value: int) -> None:
        """Take a register."""

    async def load(self, address: int, contents: bytes) -> None:
        """Write into the memory."""
        self.memory[address : address + len(contents)] = contents
        self.loads.append((address, len(contents)))

    async def dump(self, address: int, size: int) -> bytes:
        """Return bytes of the memory."""
        return bytes(self.memory[address : address + size])

    async def wait(self) -> None:
        """Return at once."""


def test_the_driver_writes_only_lines_that_differ() -> None:
    """The memory is that of an image made anew, at another address, and a change back restores it."""
    problem, network, steps = changed_network()
    bus, address = MemoryBus(), 5 * LINE_BYTES
    graph = ChangingGraph(Driver(bus), problem, network, build_community_image, address, spare=8)
    whole = now(graph.load())
    before = bytes(bus.memory)
    for number, step in enumerate(steps):
        bus.loads.clear()
        written = now(graph.update_edges(step.added, step.removed))
        assert written == sum(size for _, size in bus.loads)
        assert 0 < written < whole // 3
        room = address, address + len(graph.image.data)
        assert bus.memory[slice(*room)] == graph.image.data
        for own in (n for n, region in enumerate(graph.image.regions) if region.kind == RegionKind.EDGES):
            region, edges = graph.image.regions[own], graph.problem.graph.edges.astype("<u4").tobytes()
            assert graph.image.data[region.address :][: len(edges)] == edges
        assert now(graph.run()).error == 0
        assert (bytes(bus.memory) == before) == (number == len(steps) - 1)
    assert now(graph.update_edges()) == 0


def test_changes_without_room_leave_everything_as_it_was() -> None:
    problem, network, _ = changed_network()
    bus = MemoryBus()
    graph = ChangingGraph(Driver(bus), problem, network, build_community_image, spare=0)
    now(graph.load())
    before, image = bytes(bus.memory), graph.image
    missing = np.argwhere(np.triu(np.asarray(problem.graph.adjacency.todense()) == 0, 1))
    for added, message in (
        (missing, "lines for edges and commands; expected at most"),
        ([[0, 1]], "1 to 0 is there"),
        ([0, 1], r"edges added: are int64 \[2\]; expected vertices \[edges, 2\]"),
        ([[0, -1]], "edges added: are"),
    ):
        with pytest.raises(InputError, match=message):
            now(graph.update_edges(added))
        assert bytes(bus.memory) == before
        assert graph.image is image
        assert graph.problem is problem
