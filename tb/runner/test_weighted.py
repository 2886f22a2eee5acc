"""Whole inferences on graphs with a weight per edge (R18): alone and on a ring, with stalls and errors."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import EDGE_WEIGHTED, Error, Model, Opcode, RegionKind, Split
from contracts.errors import InputError
from golden.graph import Graph
from golden.image import Image, build_image
from golden.model.float_model import Reach
from golden.model.network import Problem, infer
from golden.model.quantise import quantise
from golden.ring.image import build_images
from golden.ring.placement import Placement
from scripts.flows.simulations import images_of, place
from sim.networks import Form, random_network
from sim.problems import CORNERS, corner_graph, random_graph
from sim.runner.jobs import Job, Settings, mismatches
from sim.runner.run import run_jobs
from tb.chiplet.test_chiplet import with_command, with_word
from tb.runner.machines import MACHINES, MEMORIES, Case, run_exactly
from tb.runner.networks import batch

#: Weights whose sums with 1 are 0, less, or have a factor.
STEPS = (-1.5, -0.5, 0.0, 0.5, 1.0, 2.5)


def weighted(graph: Graph, seed: int, *, signed: bool = False) -> Graph:
    """Return a graph with random weights; `signed`: some of them negative or 0."""
    random = np.random.default_rng(seed)
    size = graph.edge_count
    weights = random.choice(STEPS, size) if signed else random.gamma(2.0, 0.7, size)
    return replace(graph, edge_weight=weights.astype(np.float32))


def gcn(graph: Graph, seed: int, *widths: int) -> Problem:
    """Return layers of a GCN with a dense one between; a readout at the end if the graph is a batch."""
    layers = [Form(width) for width in widths]
    layers.insert(1, Form(7, reach=Reach.NODE))
    if graph.graph_of is not None:
        layers.append(Form(3, Model.SAGE, reach=Reach.MEMBERS))
    return quantise(random_network(seed, graph.feature_count, layers), graph)


def sums(graph: Graph, seed: int) -> Problem:
    """Return weighted sums of the neighbours, alone and beside a root weight, as those of GraphConv."""
    forms = [Form(9, Model.GIN, -1.0), Form(6, Model.GIN, root=True)]
    return quantise(random_network(seed, graph.feature_count, forms), graph)


def extreme(seed: int) -> Problem:
    """Return a layer whose weights are the largest, the smallest and 0, and shifts that keep the results in range."""
    graph = random_graph(seed, 50, 300, 8, 1.0)
    problem = gcn(weighted(graph, seed), seed, 16)
    random = np.random.default_rng(seed)
    weights = random.choice([-32768, 32767, 0, 1, -1], graph.edge_count).astype(np.float32)
    whole = replace(problem.topologies[0], graph=replace(graph, edge_weight=weights), fraction=0)
    shifts = [layer.shift_destination for layer in problem.model.layers]
    model = replace(
        problem.model,
        layers=tuple(
            replace(layer, shift_destination=shift + 8)
            for layer, shift in zip(problem.model.layers, shifts, strict=True)
        ),
    )
    return Problem(whole.graph, problem.features, (whole, problem.topologies[1]), model)


def cases(*, ring: bool) -> Iterator[Case]:
    """Yield all networks for a machine."""
    for n, name in enumerate(CORNERS):
        graph = corner_graph(name, 5, (1.0, 0.4)[n % 2], n)
        yield Case(name, gcn(weighted(graph, n, signed=n % 2 == 1), n, 9, 4), settings=MEMORIES[n % 2])
    for n, placement in enumerate(("tiles", "communities") if ring else ("tiles",)):
        graph = weighted(random_graph(n, 150, 600, 12, 0.3), n, signed=bool(n))
        # Wider than the weights that the machine holds at once.
        yield Case(f"random, {placement}", gcn(graph, n, 16, 40, 5), placement, MEMORIES[1])
    graph = weighted(corner_graph("star", 5, 1.0, 3), 5, signed=True)
    yield Case("sums", sums(graph, 3), "communities" if ring else "tiles", MEMORIES[1])
    yield Case("extreme weights", extreme(7), settings=MEMORIES[1])
    yield Case("batch", gcn(weighted(batch(1, 9, 4), 3), 3, 6, 5))


@pytest.mark.parametrize("machine", ["gather", "gather ring"])
def test_weighted_graphs_are_bit_exact(machine: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    run_exactly(machine, cases(ring=machine.endswith("ring")), tmp_path, subtests)


def test_a_ring_with_hubs_gathers_weighted_edges_at_their_destinations(tmp_path: Path) -> None:
    """The halves of partial sums would lie among the sources, with weights of their own."""
    problem = gcn(weighted(corner_graph("star", 5, 1.0, 2), 2), 2, 6, 4)
    placement = Placement.ranges(problem.graph.nodes, 3, [0])
    sizes = MACHINES["gather ring"]
    for split in Split:
        images = build_images(problem, placement.by(split))
        assert not any(command.opcode == Opcode.REDUCE for image in images for command in image.commands)
    (outcome,), _ = run_jobs(sizes.chiplet, [Job(images)], tmp_path, ring=sizes.ring)
    assert not any(outcome.errors)
    assert not mismatches(problem, outcome)


def spoilt(image: Image) -> dict[str, tuple[Image, Error, int]]:
    """Every way to spoil weighted edges: the image, the error and its info."""
    edges = image.region(RegionKind.EDGES)
    assert (edges.row_bytes, edges.bytes) == (EDGE_WEIGHTED.bytes, EDGE_WEIGHTED.bytes * edges.rows)
    aggregate = next(n for n, command in enumerate(image.commands) if command.opcode == Opcode.AGGREGATE)
    half = 1 << 31
    return {
        "VID": (with_word(image, RegionKind.EDGES, 2 * 5, 30), Error.VID_RANGE, 30),
        "offset past the edges": (with_word(image, RegionKind.OFFSETS, 9, edges.rows + 1), Error.EDGE_RANGE, 8),
        "offset beyond 32 bits": (with_word(image, RegionKind.OFFSETS, 9, half + 1), Error.EDGE_RANGE, 8),
        "offset falls": (with_word(image, RegionKind.OFFSETS, 9, 0), Error.OFFSET_ORDER, 8),
        "too many edges": (with_command(image, aggregate, edge_count=half), Error.BAD_OPERAND, half),
        "fewer edges": (with_command(image, aggregate, edge_count=edges.rows - 1), Error.EDGE_RANGE, 29),
        "as if without weights": (with_command(image, aggregate, weighted=0), Error.VID_RANGE, -1),
    }


def test_errors_of_weighted_edges_are_reported(tmp_path: Path, subtests: pytest.Subtests) -> None:
    problem = gcn(weighted(random_graph(11, 30, 120, 8, 1.0), 4), 4, 6, 3)
    image, sizes = build_image(problem), MACHINES["gather"]
    bad = spoilt(image)
    jobs = [job for changed, _, _ in bad.values() for job in (Job([changed]), Job([image], MEMORIES[1]))]
    found, _ = run_jobs(sizes.chiplet, jobs, tmp_path)
    for (name, (_, error, info)), spoils, after in zip(bad.items(), found[::2], found[1::2], strict=True):
        with subtests.test(name):
            said = spoils.run.completion
            assert Error(said["error"]) == error
            assert info < 0 or said["info"] == info
            assert not mismatches(problem, after)


def test_a_reset_among_weighted_edges_is_followed_by_a_right_run(tmp_path: Path) -> None:
    problem = gcn(weighted(random_graph(12, 30, 120, 8, 1.0), 4), 4, 6, 3)
    image, sizes = build_image(problem), MACHINES["gather"]
    (whole,), _ = run_jobs(sizes.chiplet, [Job([image])], tmp_path)
    cuts = [whole.cycles * part // 7 for part in range(1, 7)]
    found, _ = run_jobs(sizes.chiplet, [Job([image], Settings(reset_after=cut)) for cut in cuts], tmp_path)
    for after in found:
        assert after.cut_off
        assert not mismatches(problem, after)


def test_weights_change_results() -> None:
    """So that a machine without them would be noticed."""
    graph = weighted(random_graph(11, 30, 120, 8, 1.0), 4)
    with_weights, without = (infer(gcn(each, 4, 6, 3))[-1].results for each in (graph, graph.unweighted))
    assert (with_weights != without).mean() > 0.5


def test_community_chiplets_refuse_weights() -> None:
    problem = gcn(weighted(corner_graph("star", 5, 1.0, 2), 2), 2, 6)
    for machine in ("community", "community ring"):
        sizes = MACHINES[machine]
        with pytest.raises(InputError, match="have weights, which community PEs do not take"):
            images_of(sizes, place(sizes, problem))
