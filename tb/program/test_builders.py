"""Every way to make an image: nothing overlaps, each operand refers to what its name says, reserved operands are 0."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from contracts import LINE_BYTES, Model, Opcode, RegionKind, Split
from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError
from contracts.weights import Traffic, WeightRoom
from golden.community.image import build_community_image, build_community_images, tiles_of
from golden.community.tiles import Room
from golden.graph import Graph
from golden.image_format import Image
from golden.locator.schedule import Schedule
from golden.model.activation import FUNCTIONS
from golden.model.network import Problem, infer
from golden.ring.image import build_images
from golden.ring.placement import Placement
from scripts.flows.program import listing, operands
from scripts.flows.request import Request
from sim.problems import random_graph, random_problem
from tb.dnp.heads import head_problem, labelled
from tb.program.images import KINDS, check_image
from tb.runner.networks import rooted

CORE = ProcessorConfig(wm_depth=64, xm_depth=8, p_depth=64, table_bits=5)
HEAD_CORE = ProcessorConfig(wm_depth=96, xm_depth=20, p_depth=256, table_bits=5)
ROOM = Room(32, 400, 2, 32)


def problem_of(
    nodes: int, pairs: Sequence[tuple[int, int]], widths: list[int], model: Model, activation: str, seed: int
) -> Problem:
    """Return a network on a symmetric graph, with sparse or dense features."""
    ends, random = np.array(pairs, dtype=np.int64).reshape(-1, 2) % nodes, np.random.default_rng(seed)
    features = random.normal(size=(nodes, 5)).astype(np.float32)
    if seed % 2:
        features = sparse.csr_array(features * (random.random(features.shape) < 0.4))
    graph = Graph.from_edges("given", nodes, ends[:, 0], ends[:, 1], features=features, symmetrise=True)
    return random_problem(graph, model, widths, seed, activation, CORE)


def images_of(problem: Problem, chiplets: int, weight_room: WeightRoom | None = None) -> list[Image]:
    """Return images of every kind, on a ring with as many chiplets and two hubs, or split by sources."""
    fits: Any = {"weight_room": weight_room}
    nodes, schedule = problem.graph.nodes, Schedule(4)
    placement = Placement.ranges(nodes, chiplets, range(min(2, nodes))).by(Split(nodes % 2))
    return [
        *build_images(problem, placement, part=16, **fits),
        *build_community_images(problem, placement, schedule, room=ROOM, **fits),
        build_community_image(problem, schedule, scratch_lines=256, **fits),
        build_community_image(problem, schedule, in_stages=True, **fits),
        build_community_image(problem, schedule, room=ROOM, **fits),
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=60),
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
    st.sampled_from(list(Model)),
    st.sampled_from(list(FUNCTIONS)),
    st.integers(1, 5),
    st.integers(0, 99),
    st.sampled_from([None, WeightRoom(4, 80, 16)]),
)
def test_images_of_every_kind(
    nodes: int,
    pairs: list[tuple[int, int]],
    widths: list[int],
    model: Model,
    activation: str,
    chiplets: int,
    seed: int,
    weight_room: WeightRoom | None,
) -> None:
    problem = problem_of(nodes, pairs, widths, model, activation, seed)
    if problem.graph.degrees.max() >= ROOM.positions:
        return
    for image in images_of(problem, chiplets, weight_room):
        check_image(image)
        for command in image.commands:
            for name, (region, _) in command.references.items():
                assert region.kind in KINDS[name], (command.opcode.name, name, region.kind)
                # What belongs to a layer is used by that layer, or is the results of the one before.
                if region.kind != RegionKind.COMBINED and name in ("weights", "biases", "results", "program", "rows"):
                    assert region.layer == command.fields["layer"]
        layers = {command.fields["layer"] for command in image.commands}
        assert layers == set(range(len(widths)))


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=60),
    st.integers(1, 5),
    st.integers(0, 99),
    st.sampled_from([None, WeightRoom(4, 128, 16)]),
)
def test_images_of_rooted_layers(
    nodes: int, pairs: Sequence[tuple[int, int]], chiplets: int, seed: int, weight_room: WeightRoom | None
) -> None:
    """Own rows have a region and are combined before the others, or PROCESS makes them; in rooted layers alone."""
    graph = problem_of(nodes, pairs, [1], Model.SAGE, "relu", seed).graph
    if graph.degrees.max() >= ROOM.positions:
        return
    problem = rooted(graph, seed)
    for image in images_of(problem, chiplets, weight_room):
        check_image(image)
        for command in image.commands:
            layer, fields = problem.model.layers[command.fields["layer"]], command.fields
            for name, (region, _) in command.references.items():
                assert region.kind in KINDS[name], (command.opcode.name, name, region.kind)
            if command.opcode in (Opcode.AGGREGATE, Opcode.PROCESS):
                own_rows = layer.root is not None
                assert fields.get("rooted", 0) == own_rows
                if command.opcode == Opcode.AGGREGATE:
                    assert own_rows == ("own" in command.references)
        for number, layer in enumerate(problem.model.layers):
            whole = [
                command.references["combined"][0].kind
                for command in image.commands
                if command.opcode == Opcode.COMBINE and command.fields["layer"] == number
            ]
            wanted = {RegionKind.COMBINED, RegionKind.OWN} if layer.root else {RegionKind.COMBINED}
            # With community PEs alone on a chiplet, layers are not combined into memory, nor are own rows if their
            # weights have a page beside the others'.
            assert set(whole) - {RegionKind.DIGITS} in (wanted, set())
            loads = [
                command.fields
                for command in image.commands
                if command.opcode == Opcode.LOAD_WEIGHTS and command.fields["layer"] == number
            ]
            if layer.root and not whole:
                assert [load.get("own_page") for load in loads[1::2]] == [load["page"] for load in loads[::2]]
                assert all(load["own_page"] != load["page"] for load in loads[1::2])
            else:
                assert not any("own_page" in load for load in loads)


@pytest.mark.parametrize(("width", "blocks"), [(16, 1), (17, 2), (32, 2), (40, 3)])
def test_blocks_of_columns_cover_a_layer(width: int, blocks: int) -> None:
    problem = problem_of(30, [(n, n + 1) for n in range(29)], [width, 3], Model.GCN, "relu", 2)
    for image in images_of(problem, 2, WeightRoom(4, 64 * 4, 16)):
        check_image(image)
        first = [command.fields for command in image.commands if command.fields["layer"] == 0]
        loads = [fields for fields in first if "weights" in fields]
        assert [fields["f_out"] for fields in loads] == [min(16, width - 16 * n) for n in range(blocks)]
        ends = [fields for fields in first if "row_granules" in fields]
        assert {fields["first_granule"] for fields in ends} == set(range(blocks))
        assert {fields["row_granules"] for fields in ends} == {blocks}
        regions = [region for region in image.regions if region.kind == RegionKind.WEIGHTS and region.layer == 0]
        held = [image.rows(region, image.data[region.address :]) for region in regions]
        assert np.array_equal(np.hstack(held), problem.model.layers[0].weights)


@pytest.mark.parametrize(
    ("room", "shape", "blocks"),
    [
        (WeightRoom(16, 2048, 64), (1433, 16), [16]),
        (WeightRoom(16, 2048, 64), (1433, 64), [16] * 4),
        (WeightRoom(16, 2048, 64), (512, 128), [64, 64]),
        (WeightRoom(16, 2048, 64), (512, 72), [64, 8]),
        (WeightRoom(16, 2048, 64), (2048, 7), [7]),
        (WeightRoom(8, 4096, 16), (1433, 40), [16, 16, 8]),
        (WeightRoom(16, 512, 64), (256, 40), [32, 8]),
        (WeightRoom(16, 512, 48), (128, 48), [48]),
    ],
)
def test_blocks_are_as_wide_as_the_memory_allows(room: WeightRoom, shape: tuple[int, int], blocks: list[int]) -> None:
    found = room.blocks(*shape)
    assert [len(block) for block in found.columns] == blocks
    assert found.rows == [range(shape[0])]


@pytest.mark.parametrize(
    ("room", "shape", "columns", "rows"),
    [
        (WeightRoom(16, 2048, 64), (3703, 16), [16], [2048, 1655]),
        (WeightRoom(16, 2048, 64), (2049, 7), [7], [2048, 1]),
        (WeightRoom(8, 4096, 16), (3703, 40), [16, 16, 8], [2048, 1655]),
        (WeightRoom(8, 4096, 16), (65536, 16), [16], [2048] * 32),
        # Digits hold the sums of 8,191 features.
        (WeightRoom(16, 1 << 15, 64), (65536, 16), [16], [8160] * 8 + [256]),
        # Rows of blocks begin at lines.
        (WeightRoom(16, 100, 64), (101, 16), [16], [96, 5]),
    ],
)
def test_features_without_room_go_in_blocks_of_rows(
    room: WeightRoom, shape: tuple[int, int], columns: list[int], rows: list[int]
) -> None:
    found = room.blocks(*shape)
    assert [len(block) for block in found.columns] == columns
    assert [len(block) for block in found.rows] == rows


def test_blocks_are_those_that_move_the_fewest_bytes() -> None:
    """Few features are read again for narrow blocks; many are not, and sums of blocks of rows are kept instead."""
    room, shape = WeightRoom(16, 2048, 64), (1433, 64)
    few, many = room.blocks(*shape, Traffic(100, 1)), room.blocks(*shape, Traffic(4000, 1))
    assert (len(few.columns), len(few.rows)) == (4, 1)
    # Digits of three blocks have 2304 bytes to write and to read.
    assert (len(many.columns), len(many.rows)) == (1, 3)
    assert Traffic(4000, 1).of(64, 64, 3) == 4000 + 2304
    for again in (0, 700, 800, 5000):
        cost = {width: Traffic(again, 1).of(64, width, -(-1433 * width // 32768)) for width in (16, 32, 64)}
        found = room.blocks(*shape, Traffic(again, 1))
        assert Traffic(again, 1).of(64, len(found.columns[0]), len(found.rows)) == min(cost.values())


def test_too_many_features_are_refused() -> None:
    # Digits of a vertex have 13 bits of granules between them: 2,730 blocks of 32 features.
    with pytest.raises(InputError, match="layer: has 200000 input features; expected at most 87360"):
        WeightRoom(16, 32, 64).blocks(200_000, 7)
    # No line of features has room.
    with pytest.raises(InputError, match="layer: has 16 outputs; expected at most 8"):
        WeightRoom(8, 1024, 8).blocks(32, 16)
    assert WeightRoom(8, 1024, 8).blocks(32, 7).columns == [range(7)]
    with pytest.raises(InputError, match="layer: has 33 input features; expected at most 16"):
        WeightRoom(8, 32, 16).blocks(33, 16)


def test_working_space_on_the_chip_comes_last() -> None:
    problem = problem_of(30, [(n, n + 1) for n in range(29)], [9, 3], Model.GCN, "relu", 2)
    plain, image = (build_community_image(problem, scratch_lines=lines) for lines in (0, 256))
    assert (plain.scratch, plain.header["scratch"]) == ([], 0)
    assert [region.kind for region in image.scratch] == [RegionKind.HIDDEN]
    assert image.header["scratch"] == image.results_region(0).line == max(region.line for region in image.regions)
    check_image(image)
    # What has no room as a whole stays in memory: a page of the scratchpad may have to be left out.
    wide = problem_of(70, [(n, n + 1) for n in range(69)], [16, 3], Model.GCN, "relu", 2)
    small = [build_community_image(wide, in_stages=True, scratch_lines=lines) for lines in (128, 256)]
    assert [[region.kind for region in each.scratch] for each in small] == [
        [RegionKind.COMBINED],
        [RegionKind.COMBINED, RegionKind.HIDDEN],
    ]


def test_the_image_of_a_head() -> None:
    graph = labelled(random_graph(3, 30, 90, features=4, density=1), 5, seed=1)
    problem = random_problem(graph, Model.GCN, [6, 5], seed=2)
    image = head_problem(problem, infer(problem)[0].results, 3, HEAD_CORE).image()
    check_image(image)
    assert {command.opcode for command in image.commands} == {Opcode.NEURAL}


def test_a_listing_names_regions() -> None:
    """Of two chiplets: every command in order, with the regions of its operands and no line without one."""
    rows = list(listing(Request("karate", config="small", chiplets=2)))
    assert {row[0] for row in rows} == {0, 1}
    first = [row for row in rows if row[0] == 0]
    assert [row[1] for row in first] == list(range(len(first)))
    assert [row[2] - first[0][2] for row in first] == list(range(len(first)))
    names = [row[4] for row in first if row[3] == 0]
    assert names == ["LIST", "LOAD_WEIGHTS", "COMBINE", "SCATTER", "AGGREGATE"]
    assert "weights=weights[0] @" in first[1][5]
    assert "activation=relu" in first[4][5]


def test_a_listing_says_which_line_of_a_region() -> None:
    problem = problem_of(50, [(n, n + 1) for n in range(49)], [4], Model.GCN, "relu", 2)
    image = build_community_image(problem, Schedule(4), room=ROOM)
    assert tiles_of(image) > 1
    said = [operands(command) for command in image.commands if command.opcode == Opcode.LOCATE]
    region = image.commands[0].references["offsets"][0]
    assert f"offsets=tiles[0]+2 @{region.line + 2}, edges=tiles[0]+4 @{region.line + 4}, " in said[0]


def test_a_list_has_each_row_of_others_once() -> None:
    """Of two chiplets with 20 vertices each: sources of the other one, in the order of their lowest bits."""
    pairs = [(0, 25), (1, 25), (3, 22), (3, 39), (4, 5)]
    problem = problem_of(40, pairs, [3], Model.GIN, "relu", 1)
    for image, others in zip(build_images(problem, Placement.ranges(40, 2)), ([22, 39, 25], [0, 1, 3]), strict=True):
        (listed,) = (command for command in image.commands if command.opcode == Opcode.LIST)
        region = listed.references["others"][0]
        assert region.kind == RegionKind.OTHERS
        words = np.frombuffer(image.data, "<u4", listed.fields["count"], LINE_BYTES * region.line)
        assert words.tolist() == others
