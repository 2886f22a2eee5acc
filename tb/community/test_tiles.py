"""Tiles: every vertex and edge in exactly one that fits, and into none of them would fit one vertex more."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import COMMANDS, LINE_BYTES, Model, Opcode, RegionKind
from contracts.errors import InputError
from golden.community.image import build_community_image, build_community_images, positions_of, tiles_of
from golden.community.tiles import Room, Subgraph, Tile, cut, parted
from golden.datasets import load
from golden.graph import Graph, IntArray
from golden.image import Image
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.partition import partition
from golden.locator.schedule import SLOW, Schedule
from golden.model.network import Problem
from golden.ring.placement import Placement
from sim.problems import corner_graph, random_graph, random_problem
from tb.locator.graphs import many_hubs

AMPLE = Room(1024, 1 << 14, 4, 256)
LOCATION = Schedule(3, False, 1), Limits(6, 6, 64)


def graph_of(nodes: int, pairs: Sequence[tuple[int, int]]) -> Graph:
    """Return a symmetric graph."""
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2) % nodes
    return Graph.from_edges("given", nodes, ends[:, 0], ends[:, 1], symmetrise=True)


def subgraph_of(seed: int, *, directed: bool = False) -> Subgraph:
    """Return what the chiplet in the middle of three owns, some vertices of which have halves of partial sums."""
    random = np.random.default_rng(seed)
    graph = random_graph(seed, 40, 120, 1, 1.0)
    graph = graph if directed else graph.symmetrised
    first, end = sorted(random.integers(0, graph.nodes + 1, 2).tolist())
    rows = []
    for vid in range(first, end):
        row = graph.edges[graph.offsets[vid] : graph.offsets[vid + 1]].tolist()
        half = graph.nodes + 2 * (vid - first)
        rows.append(row + [half, half + 1] * int(random.random() < 0.3))
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    edges = np.array([vid for row in rows for vid in row], dtype=np.int64)
    cuts = [] if directed else np.sort(random.integers(0, graph.nodes + 1, 3)).tolist()
    return Subgraph("given", first, offsets, edges, graph.nodes, np.arange(graph.nodes), np.array([0, *cuts]))


def positions(subgraph: Subgraph, first: int, end: int) -> set[int]:
    """Return all that has a position if so many own vertices are one tile."""
    edges = subgraph.edges[subgraph.offsets[first] : subgraph.offsets[end]]
    return set(range(subgraph.first + first, subgraph.first + end)) | set(edges.tolist())


def hubs(tile: Tile) -> IntArray:
    """Return the positions that need a slot: others', and hubs among those that are located."""
    owners = np.repeat(np.arange(tile.located), np.diff(tile.offsets))
    graph = Graph.from_edges("tile", tile.rows.size, tile.edges, owners)
    elsewhere = np.arange(tile.rows.size) >= tile.located
    found = partition(graph, *LOCATION, elsewhere=elsewhere)[0]
    return np.array([*found, *np.flatnonzero(elsewhere)], dtype=np.int64)


def check_room(subgraph: Subgraph, room: Room, tiles: Sequence[Tile]) -> None:
    """Compare tiles with what the locator and the hub units hold: one vertex more would be too many."""
    ample = Room(1 << 16, 1 << 16, 1, 1 << 16)
    for tile in tiles:
        sizes = [tile]
        if tile.first + tile.vertices < subgraph.owned:
            end = tile.first + tile.vertices + 1
            offsets = subgraph.offsets[tile.first : end + 1] - subgraph.offsets[tile.first]
            edges = subgraph.edges[subgraph.offsets[tile.first] : subgraph.offsets[end]]
            first = subgraph.first + tile.first
            larger = Subgraph("larger", first, offsets, edges, subgraph.vertices, subgraph.names, subgraph.boundaries)
            if larger.directed == subgraph.directed:
                sizes += cut(larger, ample, *LOCATION)
        fit = [
            each.rows.size <= room.nodes
            and each.edges.size < room.edges
            and np.bincount(hubs(each) % room.units, minlength=1).max() <= room.hubs
            for each in sizes
        ]
        assert fit == [True, False][: len(sizes)]


def check(subgraph: Subgraph, room: Room, tiles: Sequence[Tile]) -> None:
    """Compare tiles with the subgraph, row by row."""
    check_room(subgraph, room, tiles)
    assert [tile.first for tile in tiles] == [0, *np.cumsum([tile.vertices for tile in tiles])][: len(tiles)]
    assert sum(tile.vertices for tile in tiles) == subgraph.owned
    for tile in tiles:
        end = tile.first + tile.vertices
        assert set(tile.rows.tolist()) == positions(subgraph, tile.first, end)
        assert tile.rows.size == len(set(tile.rows.tolist()))
        # The own ones first, then others in the order in which they come, then halves in pairs.
        own, others, _ = np.split(tile.rows, [tile.vertices, tile.first_partial])
        assert own.tolist() == list(range(subgraph.first + tile.first, subgraph.first + end))
        owners = np.searchsorted(subgraph.boundaries, others, side="right") - 1
        places = list(zip(others - subgraph.boundaries[owners], owners, strict=True))
        assert places == sorted(places)
        assert (tile.rows[: tile.first_partial] < subgraph.vertices).all()
        halves = tile.rows[tile.first_partial :] - subgraph.vertices
        assert (halves >= 0).all()
        assert (np.diff(halves) > 0).all()
        assert (halves[::2] % 2 == 0).all()
        assert (halves[1::2] == halves[::2] + 1).all()
        for number, (begin, after) in enumerate(pairwise(tile.offsets)):
            row = tile.edges[begin:after]
            assert (np.diff(row) > 0).all()
            vid = tile.first + number
            wanted = subgraph.edges[subgraph.offsets[vid] : subgraph.offsets[vid + 1]]
            assert sorted(tile.rows[row].tolist()) == sorted(wanted.tolist())


def check_cover(subgraph: Subgraph, room: Room, tiles: Sequence[Tile]) -> None:
    """Compare tiles of a double cover with the subgraph: an edge is in the rows of both of its ends."""
    check_room(subgraph, room, tiles)
    assert [tile.first for tile in tiles] == [0, *np.cumsum([tile.vertices for tile in tiles])][: len(tiles)]
    assert sum(tile.vertices for tile in tiles) == subgraph.owned

    def sizes(first: int, end: int) -> tuple[int, int]:
        """Positions and edges of these own vertices."""
        edges = subgraph.edges[subgraph.offsets[first] : subgraph.offsets[end]]
        return end - first + np.unique(edges).size, edges.size + int((edges < subgraph.vertices).sum())

    for tile in tiles:
        end = tile.first + tile.vertices
        edges = subgraph.edges[subgraph.offsets[tile.first] : subgraph.offsets[end]]
        assert (tile.rows.size, tile.edges.size) == sizes(tile.first, end)
        assert tile.rows[: tile.vertices].tolist() == list(range(subgraph.first + tile.first, subgraph.first + end))
        assert tile.rows[tile.vertices :].tolist() == np.unique(edges).tolist()
        assert tile.located == tile.first_partial == tile.vertices + np.unique(edges[edges < subgraph.vertices]).size
        rows = [set(tile.edges[begin:after].tolist()) for begin, after in pairwise(tile.offsets)]
        for number, row in enumerate(rows):
            assert tile.edges[tile.offsets[number] : tile.offsets[number + 1]].tolist() == sorted(row)
            ends = {place for place in row if place < tile.located}
            assert all((place < tile.vertices) != (number < tile.vertices) for place in ends)
            assert all(number in rows[place] for place in ends)
            if number < tile.vertices:
                vid = tile.first + number
                wanted = subgraph.edges[subgraph.offsets[vid] : subgraph.offsets[vid + 1]]
                assert sorted(tile.rows[list(row)].tolist()) == sorted(wanted.tolist())


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(24, 60), st.integers(60, 200), st.integers(0, 20))
def test_directed_shares_are_cut_as_double_covers(seed: int, most: int, edges: int, hubs: int) -> None:
    subgraph, room = subgraph_of(seed, directed=True), Room(most, edges, 1, most - hubs)
    degrees = np.diff(subgraph.offsets)
    if subgraph.directed and degrees.max() < min(most - hubs, edges // 2):
        check_cover(subgraph, room, list(cut(subgraph, room, *LOCATION)))


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=120),
    st.integers(1, 30),
    st.sampled_from([1, 2]),
    st.integers(0, 9),
)
def test_a_directed_graph_is_one_tile_if_its_hubs_fit(
    nodes: int, pairs: list[tuple[int, int]], hubs: int, units: int, threshold: int
) -> None:
    """Those by in-degree and by out-degree; a symmetric graph needs no tile."""
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2) % nodes
    graph, schedule, limits = Graph.from_edges("given", nodes, *ends.T), Schedule(threshold), Limits(6, 6, 64)
    subgraph, ample, cover = Subgraph.whole(graph), Room(128, 1000, units, 128), cover_of(graph)
    assert subgraph.directed != graph.symmetric
    found = np.array(sorted(locate(cover.graph, schedule, limits).hubs), dtype=np.int64)
    counts = np.bincount(found % units, minlength=units)
    assert subgraph.fits(replace(ample, hubs=hubs), schedule, limits) == (counts.max() <= hubs)
    if graph.symmetric:
        return
    (tile,) = parted(subgraph, ample, schedule, limits)
    check_cover(subgraph, ample, [tile])
    assert np.array_equal(tile.offsets, cover.graph.offsets)
    assert np.array_equal(tile.edges, cover.graph.edges)
    assert np.array_equal(tile.rows, cover.vertices)
    copies, edges = cover.graph.nodes, cover.graph.edge_count
    assert subgraph.fits(Room(max(16, copies), edges + 1, 1, 128), schedule, limits)
    assert copies <= 16 or not subgraph.fits(Room(copies - 1, edges + 1, 1, 128), schedule, limits)
    assert not subgraph.fits(Room(128, edges, 1, 128), schedule, limits)


def test_a_vertex_with_too_many_sources_is_named() -> None:
    """Each edge is there twice."""
    graph = Graph.from_edges("in", 30, np.arange(1, 30), np.zeros(29, dtype=np.int64))
    with pytest.raises(InputError, match="in, vertex 0: has 29 neighbours; expected at most 27 "):
        list(cut(Subgraph.whole(graph), Room(64, 56, 1, 64), *LOCATION))
    assert len(list(cut(Subgraph.whole(graph), Room(64, 59, 1, 64), *LOCATION))) == 1


@pytest.mark.parametrize("tiled", [False, True])
def test_commands_of_a_directed_graph_locate_sources_too(tiled: bool) -> None:
    """PROCESS sums the destination copies only, with the combined row of its vertex for each copy."""
    plain = random_graph(3, 50, 150, 5, 1.0)
    room = Room(48, 200, 1, 48) if tiled else Room(128, 500, 1, 128)
    image = build_community_image(problem(plain), Schedule(2), Limits(), room=room)
    tiles = parted(Subgraph.whole(plain), room, Schedule(2), Limits())
    assert (len(tiles) > 1) == tiled
    listed = [c for c in commands(image) if c["layer"] == 1]
    located = [c for c in listed if c["opcode"] == Opcode.LOCATE]
    processed = [c for c in listed if c["opcode"] == Opcode.PROCESS]
    for tile, locate_, process in zip(tiles, located, processed, strict=True):
        assert (locate_["vertices"], process["vertices"]) == (tile.located, tile.vertices)
        assert words(image, locate_["offsets"], tile.located + 1).tolist() == tile.offsets.tolist()
        assert (process["positions"], process["first_partial"]) == (tile.rows.size, tile.located)
        assert words(image, process["feature_offsets"], tile.rows.size).tolist() == tile.rows.tolist()
    for tile, found in zip(tiles, positions_of(image), strict=True):
        assert found is not None
        assert np.array_equal(found.vids, tile.rows)
        assert (found.summed, found.located) == (tile.vertices, tile.located)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=150),
    st.integers(16, 40),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 80),
)
def test_every_graph_is_cut_into_tiles_that_fit(
    nodes: int, pairs: list[tuple[int, int]], most: int, units: int, edges: int
) -> None:
    subgraph = Subgraph.whole(graph_of(nodes, pairs))
    room = Room(most, edges, units, max(1, (most - 7) // units))
    degrees = np.diff(subgraph.offsets)
    too_large = (degrees + 1 > room.positions) | (degrees >= room.edges)
    tiles: list[Tile] = []
    refused = ""
    try:
        tiles.extend(cut(subgraph, room, *LOCATION))
    except InputError as error:
        refused = str(error)
    if refused:
        # No tile can begin with this vertex. Others that do not fit alone may fit with the neighbours behind them.
        vertex = sum(tile.vertices for tile in tiles)
        assert too_large[vertex]
        limit = min(room.positions, room.edges) - 1
        assert f"given, vertex {vertex}: has {degrees[vertex]} neighbours; expected at most {limit} (" in refused
    else:
        assert not (degrees >= room.edges).any()
        check(subgraph, room, tiles)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(24, 60), st.integers(0, 20))
def test_shares_of_a_ring_are_cut_too(seed: int, most: int, hubs: int) -> None:
    """Sources of others are before and behind the own ones, halves of a hub's sum stay together."""
    subgraph, room = subgraph_of(seed), Room(most, 100, 1, most - hubs)
    degrees = np.diff(subgraph.offsets)
    if degrees.size == 0 or degrees.max() < most - hubs:
        check(subgraph, room, list(cut(subgraph, room, *LOCATION)))


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=150),
    st.integers(1, 30),
    st.sampled_from([1, 2]),
    st.integers(0, 9),
)
def test_what_fits_is_known_before(
    nodes: int, pairs: list[tuple[int, int]], hubs: int, units: int, threshold: int
) -> None:
    """A graph fits if each unit has room for the hubs that the locator finds."""
    graph, schedule, limits = graph_of(nodes, pairs), Schedule(threshold), Limits(6, 6, 64)
    found = np.array(sorted(locate(graph, schedule, limits).hubs), dtype=np.int64)
    counts = np.bincount(found % units, minlength=units)
    subgraph = Subgraph.whole(graph)
    assert subgraph.fits(Room(64, 1000, units, hubs), schedule, limits) == (counts.max() <= hubs)
    assert subgraph.fits(Room(64, graph.edge_count or 1, units, 64), schedule, limits) == (graph.edge_count == 0)
    assert subgraph.fits(Room(64, graph.edge_count + 1, units, 64), schedule, limits)


def test_vertices_of_others_are_hubs_from_the_beginning() -> None:
    """As many as the subgraph has sources elsewhere, and own ones that the locator finds with these."""
    subgraph = subgraph_of(3)
    schedule, limits = Schedule(2), Limits(8, 8, 64)
    count = max(subgraph.first + subgraph.owned, int(subgraph.edges.max()) + 1)
    others = {vid for vid in subgraph.edges.tolist() if not subgraph.first <= vid < subgraph.first + subgraph.owned}
    owners = np.repeat(np.arange(subgraph.owned) + subgraph.first, np.diff(subgraph.offsets))
    elsewhere = np.ones(count, dtype=np.bool_)
    elsewhere[subgraph.first : subgraph.first + subgraph.owned] = False
    graph = Graph.from_edges("given", count, subgraph.edges, owners)
    own, communities = partition(graph, schedule, limits, elsewhere=elsewhere)
    assert own
    assert not others & set(own)
    assert {vid for nodes, _ in communities for vid in nodes} | set(own) == set(
        range(subgraph.first, subgraph.first + subgraph.owned)
    )
    most = len(others) + len(own)
    assert subgraph.fits(Room(256, 1000, 1, most), schedule, limits)
    assert not subgraph.fits(Room(256, 1000, 1, most - 1), schedule, limits)


def commands(image: Image) -> list[dict[str, int]]:
    """Return the commands of an image, all operands."""
    found = []
    for number in range(image.header["commands"]):
        at = (image.header["command_list"] + number) * LINE_BYTES
        data = image.data[at : at + LINE_BYTES]
        opcode = Opcode(COMMANDS[Opcode.NOP].from_bytes(data)["opcode"])
        found.append(COMMANDS[opcode].from_bytes(data))
    return found


def words(image: Image, line: int, count: int) -> IntArray:
    """Return words from a line on."""
    return np.frombuffer(image.data, dtype="<u4", count=count, offset=line * LINE_BYTES).astype(np.int64)


def problem(graph: Graph, widths: Sequence[int] = (20, 5), seed: int = 0) -> Problem:
    """Return a network whose layers' combined rows are two granules apart, then one."""
    return random_problem(graph, Model.GCN, widths, seed)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_commands_of_tiles_name_what_lies_there(density: float) -> None:
    """Blocks combine each vertex once; a tile's tables are those of its vertices, its results behind the others'."""
    plain = corner_graph("star", 20, density, 1)
    given_, room = problem(plain), Room(16, 100, 2, 40)
    # The hub of the star has 39 neighbours.
    with pytest.raises(InputError, match="star, vertex 0: has 39 neighbours; expected at most 15 "):
        build_community_image(given_, room=room)
    room = Room(45, 60, 2, 20)
    image = build_community_image(given_, Schedule(2), Limits(), room=room)
    subgraph = Subgraph.whole(plain)
    tiles = list(cut(subgraph, room, Schedule(2), Limits()))
    assert tiles_of(image) == len(tiles) > 1
    listed = commands(image)
    assert [c["tag"] for c in listed] == list(range(len(listed)))
    combined = image.region(RegionKind.COMBINED)
    scales = image.region(RegionKind.SCALE_DESTINATION)
    for number, layer in enumerate(given_.model.layers):
        mine = [c for c in listed if c["layer"] == number]
        order = [Opcode.LOCATE, Opcode.LOAD_WEIGHTS, *[Opcode.COMBINE] * 2]
        order += [Opcode.LOCATE, Opcode.PROCESS] * (len(tiles) - 1) + [Opcode.PROCESS]
        assert [c["opcode"] for c in mine] == order
        first = 0
        for block in (c for c in mine if c["opcode"] == Opcode.COMBINE):
            assert block["first_row"] == first
            first += block["vertices"]
            assert block["vertices"] <= room.nodes
        assert first == plain.nodes
        located = [c for c in mine if c["opcode"] == Opcode.LOCATE]
        processed = [c for c in mine if c["opcode"] == Opcode.PROCESS]
        distance = image.results_region(number).row_bytes
        for tile, locate_, process in zip(tiles, located, processed, strict=True):
            assert (locate_["first_vertex"], locate_["vertices"]) == (0, tile.vertices)
            assert words(image, locate_["offsets"], tile.vertices + 1).tolist() == tile.offsets.tolist()
            assert locate_["edge_count"] == tile.edges.size
            assert words(image, locate_["edges"], tile.edges.size).tolist() == tile.edges.tolist()
            assert (process["rows"], process["combined"], process["ahead"]) == (combined.line, 1, tile.vertices)
            assert (process["positions"], process["first_partial"]) == (tile.rows.size, tile.first_partial)
            places = words(image, process["feature_offsets"], tile.rows.size)
            assert places.tolist() == (tile.rows * distance // 32).tolist()
            ends = words(image, scales.line, plain.nodes)[tile.first : tile.first + tile.vertices]
            assert words(image, process["scales_destination"], tile.vertices).tolist() == ends.tolist()
            assert (process["first_row"], process["f_out"]) == (tile.first, layer.f_out)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_blocks_combine_every_vertex_once(density: float) -> None:
    """Each of the features, offsets and scales that belong to it."""
    plain = random_graph(5, 70, 0, 20, density)
    image = build_community_image(problem(plain), room=Room(40, 1000, 1, 64))
    blocks = [c for c in commands(image) if c["opcode"] == Opcode.COMBINE and c["layer"] == 0]
    assert [(c["first_row"], c["vertices"]) for c in blocks] == [(0, 32), (32, 32), (64, 6)]
    scale = image.region(RegionKind.SCALE_SOURCE)

    def lines(kind: RegionKind) -> list[int]:
        return [region.line for region in image.regions if region.kind == kind]

    assert [(c["scales"] - scale.line) * LINE_BYTES for c in blocks] == [4 * c["first_row"] for c in blocks]
    if density < 1:
        # Each block has regions of its own, whose offsets begin with 0.
        assert [c["features"] for c in blocks] == lines(RegionKind.FEATURES_SPARSE)
        assert [c["feature_offsets"] for c in blocks] == lines(RegionKind.FEATURE_OFFSETS)
        assert [region.rows - 1 for region in image.regions if region.kind == RegionKind.FEATURE_OFFSETS] == [32, 32, 6]
    else:
        features = image.region(RegionKind.FEATURES)
        starts = [(c["features"] - features.line) * LINE_BYTES for c in blocks]
        assert starts == [c["first_row"] * features.row_bytes for c in blocks]


def test_what_fits_is_not_cut() -> None:
    """It has the image that it has without any bound; with too many hubs, vertices or edges it is cut."""
    plain = many_hubs(6, 3)
    given_, schedule = problem(plain), Schedule(7)
    whole = build_community_image(given_, schedule, scratch_lines=256)
    assert build_community_image(given_, schedule, scratch_lines=256, room=AMPLE).data == whole.data
    assert tiles_of(whole) == 1
    hubs = len(partition(plain, schedule, Limits())[0])
    for room in (Room(20, 1 << 14, 1, 64), Room(64, plain.edge_count, 1, 64), Room(64, 1 << 14, 1, hubs - 1)):
        assert tiles_of(build_community_image(given_, schedule, room=room)) > 1
    placement = Placement.ranges(plain.nodes, 3)
    alone = [image.data for image in build_community_images(given_, placement, schedule)]
    assert [image.data for image in build_community_images(given_, placement, schedule, room=AMPLE)] == alone


def test_a_ring_cuts_only_shares_that_do_not_fit() -> None:
    """Chiplets with VIDs that the locator knows are as they were; one that owns nothing has nothing to cut."""
    plain = load("karate")
    placement = Placement.at([0, 10, 10, 34, 34], [0, 33])
    images = build_community_images(problem(plain), placement, SLOW, room=Room(20, 200, 1, 20))
    # VIDs of the last one lie behind those that the locator knows.
    assert [tiles_of(image) for image in images] == [2, 1, 3, 0]


def test_the_vertex_that_is_too_large_has_the_name_it_was_given() -> None:
    plain = load("karate")
    names = np.arange(34) + 100
    with pytest.raises(InputError, match="karate, vertex 100: has 16 neighbours"):
        build_community_image(problem(plain), room=Room(16, 100, 1, 16), names=names)


@pytest.mark.parametrize("wrong", [{"nodes": 15}, {"edges": 0}, {"units": 0}, {"hubs": 0}])
def test_room_is_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        Room(**{"nodes": 16, "edges": 1, "units": 1, "hubs": 1, **wrong})


def test_an_image_says_what_its_records_stand_for() -> None:
    """Of every tile the rows, of a whole graph nothing: records have its VIDs."""
    graph = load("les-miserables")
    problem = random_problem(graph, Model.GCN, [17, 4], 3)
    assert positions_of(build_community_image(problem, SLOW)) == [None]
    room = Room(64, 200, 2, 32)
    tiles = list(cut(Subgraph.whole(graph), room, SLOW, Limits()))
    assert len(tiles) > 1
    for tile, found in zip(tiles, positions_of(build_community_image(problem, SLOW, room=room)), strict=True):
        assert found is not None
        assert np.array_equal(found.vids, tile.rows)
        assert (found.summed, found.located) == (tile.vertices, tile.vertices)
