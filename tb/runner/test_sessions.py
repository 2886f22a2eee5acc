"""Sessions: what stays in memory, what the host writes, and graph after graph on whole machines."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import LINE_BYTES, Model, RegionKind
from contracts.errors import InputError
from golden.image import build_image
from golden.image_format import Image
from golden.model.network import Problem, infer
from golden.program.session import Session, session
from golden.ring.image import build_images
from golden.ring.placement import Placement
from scripts.flows.session import plan_session, stream
from sim.problems import corner_graph, rooted_problem
from sim.runner.jobs import mismatches
from sim.runner.run import run_jobs
from sim.runner.sessions import SessionJob
from tb.runner.machines import MACHINES, MEMORIES
from tb.runner.networks import batch, mixed, readout

SMALL = readout(batch(1, 9, 4), 2, Model.SAGE)
SINGLE = mixed(corner_graph("two components", 5, 1.0, 4), 4)
#: All its weights stay where they are.
ROOTED = rooted_problem(corner_graph("two components", 5, 1.0, 6), Model.SAGE, [6, 3], 6)


def arranged(problem: Problem, runs: int) -> Session:
    return session([build_image(each) for each in stream(problem, runs)])


def content(image: Image, number: int, memory: bytes) -> bytes:
    region = image.regions[number]
    return memory[region.address : region.address + region.lines * LINE_BYTES]


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 9), st.integers(0, 50))
def test_cut_batches_have_the_results_of_the_whole(runs: int, seed: int) -> None:
    problem = readout(batch(seed, 9, 4), seed, Model.GIN)
    graph, parts = problem.graph, list(stream(problem, runs))
    whole, found = infer(problem), [infer(part) for part in parts]
    for layer, exact in enumerate(whole):
        rows = [each[layer].results[part.graph.graph_vertices] for each, part in zip(found, parts, strict=True)]
        assert np.array_equal(np.concatenate(rows), exact.results[graph.graph_vertices])
    assert sum(part.graph.nodes for part in parts) == graph.nodes
    assert sum(part.graph.edge_count for part in parts) == graph.edge_count
    sizes = [part.graph.graph_vertices.size for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_single_graph_is_run_with_other_features() -> None:
    first, second, *_ = stream(SINGLE, 3)
    assert first.graph is second.graph
    assert np.array_equal(first.features, SINGLE.features)
    assert np.array_equal(second.features[:-1], SINGLE.features[1:])
    assert np.array_equal(second.features[-1], SINGLE.features[0])


@pytest.mark.parametrize("problem", [SMALL, SINGLE], ids=["batch", "single"])
def test_the_memory_holds_every_image_after_the_hosts_writes(problem: Problem) -> None:
    made = arranged(problem, 4)
    memory = bytearray(max(len(image.data) for image in made.images))
    for number, image in enumerate(made.images):
        assert Image.from_bytes(image.data).header.items() >= image.header.items()
        data = made.writes(number)
        memory[: len(data)] = data
        assert (
            memory[: image.header["command_list"] * LINE_BYTES]
            == image.data[: image.header["command_list"] * LINE_BYTES]
        )
        for written in image.written:
            assert content(image, written, bytes(memory)) == content(image, written, image.data)
        # What the machine leaves in its working space does not matter.
        for region in (r for n, r in enumerate(image.regions) if n not in image.written):
            memory[region.address : region.address + region.lines * LINE_BYTES] = b"\xa5" * region.lines * LINE_BYTES


def test_regions_do_not_overlap_and_commands_follow_them() -> None:
    """With commands for parts of the vertices, which refer to lines inside regions."""
    problem = readout(batch(4, 60, 4), 4, Model.SAGE)
    given = [build_images(each, Placement.ranges(each.graph.nodes, 2), part=16)[1] for each in stream(problem, 3)]
    assert any(line for image in given for command in image.commands for _, line in command.references.values())
    for before, image in zip(given, session(given).images, strict=True):
        taken = sorted((region.line, region.line + region.lines) for region in image.regions)
        assert all(end <= first for (_, end), (first, _) in pairwise(taken))
        for old, new in zip(before.commands, image.commands, strict=True):
            for name, (region, line) in new.references.items():
                assert new.fields[name] == region.line + line
                assert content(image, image.regions.index(region), image.data) == content(
                    before, before.regions.index(old.references[name][0]), before.data
                )


def kinds(made: Session) -> set[RegionKind]:
    """Kinds of regions that the host writes for the second graph."""
    return {region.kind for region in made.images[1].regions if region.address < made.fronts[1]}


def test_weights_stay_and_of_a_single_graph_all_but_features() -> None:
    batches, single = arranged(SMALL, 3), arranged(SINGLE, 3)
    assert kinds(batches) >= {RegionKind.OFFSETS, RegionKind.EDGES, RegionKind.FEATURES}
    stay = {RegionKind.WEIGHTS, RegionKind.BIASES, RegionKind.COMBINED, RegionKind.HIDDEN, RegionKind.RESULTS}
    assert not kinds(batches) & stay
    assert kinds(single) == {RegionKind.FEATURES}
    assert batches.written(0) == batches.fronts[0] + batches.behind
    assert batches.written(1) == batches.fronts[1] == len(batches.writes(1))
    image = single.images[0]
    commands = (image.header["command_list"] + image.header["commands"]) * LINE_BYTES
    assert single.written(1) == commands + image.region(RegionKind.FEATURES).lines * LINE_BYTES


def test_too_many_runs_are_refused() -> None:
    with pytest.raises(InputError, match=r"--session: has 10 runs; expected at most 9, the small graphs of batch 1"):
        list(stream(SMALL, 10))
    with pytest.raises(InputError, match="--session: has 0 runs; expected at least 1"):
        plan_session(stream(SMALL, 0), MACHINES["gather"])


def test_a_part_that_others_are_joined_to_is_refused() -> None:
    with pytest.raises(InputError, match=r"part: has an edge from node 1, which is not in it"):
        SINGLE.graph.part([0])


def placements(machine: str) -> Sequence[str]:
    return ("tiles", "communities") if machine.endswith("ring") else ("tiles",)


@pytest.mark.parametrize("machine", MACHINES)
def test_sessions_are_exact(machine: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    sizes = MACHINES[machine]
    plans = {
        f"{name}, {how}": (plan_session(stream(problem, 4), sizes, how), settings)
        for (name, problem), settings in zip(
            (("batch", SMALL), ("single", SINGLE), ("rooted", ROOTED)), (*MEMORIES, MEMORIES[0]), strict=True
        )
        for how in placements(machine)
    }
    jobs = [SessionJob(made.sessions, settings) for made, settings in plans.values()]
    found, _ = run_jobs(sizes.chiplet, jobs, tmp_path, units=sizes.units, ring=sizes.ring)
    for (name, (made, _)), outcomes in zip(plans.items(), found, strict=True):
        for number, (placed, outcome) in enumerate(zip(made.placed, outcomes, strict=True)):
            with subtests.test(f"{name}, run {number}"):
                assert not any(outcome.errors), outcome.errors
                assert not mismatches(placed.problem, outcome)
