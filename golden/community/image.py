"""Images for chiplets with community PEs: one alone, or one of a ring.

Alone, every layer is LOCATE, LOAD_WEIGHTS and PROCESS, which also combines. On a ring, other chiplets need some
combined rows before the aggregation: SCATTER and COMBINE of those first, so that each leaves as soon as it is there,
then PROCESS, which combines the others. LOCATE runs in parallel. Graphs beyond the chip's capacity use the same
commands: all vertices are combined in blocks, then tiles are located and processed one after another
(`golden.community.tiles`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from contracts import LINE_BYTES, ROW_BYTES, Matching, Opcode
from contracts.errors import InputError
from contracts.weights import WeightRoom
from golden.community.plan import PAIRS, Scheme
from golden.community.tiles import Room, Subgraph, parted
from golden.graph import IntArray
from golden.image_format import Image, row_bytes
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from golden.model.network import Problem
from golden.program.chiplet import Owned, by_topology, chiplet_image
from golden.program.layer import Search
from golden.ring.image import shared_out
from golden.ring.placement import Placement

__all__ = [
    "Positions",
    "build_community_image",
    "build_community_images",
    "positions_of",
    "tiles_of",
]


def tiles_of(image: Image) -> int:
    """Return the number of tiles of a layer in an image: 1 without tiles, 0 without vertices."""
    return sum(1 for _ in _tiles(image))


class Positions(NamedTuple):
    """Meaning of the vertices of a location.

    Attributes
    ----------
    vids
        int64 [positions], source of each. Values from the number of vertices on are halves of partial sums.
    summed, located
        Positions that are summed, the first ones, and those that are searched. Those between are source copies of a
        double cover.
    """

    vids: IntArray
    summed: int
    located: int


def positions_of(image: Image) -> list[Positions | None]:
    """Return what vertices in records stand for, in each location of an image's first layer.

    Parameters
    ----------
    image
        Of a chiplet with community PEs, as it was built.

    Returns
    -------
    list
        By location; None where records have VIDs of the image.
    """
    found: list[Positions | None] = []
    locations = (command.fields for command in image.commands if command.opcode == Opcode.LOCATE)
    for operands, location in zip(_tiles(image), locations, strict=False):
        if not operands.get("positions"):
            found.append(None)
            continue
        first = operands["feature_offsets"] * LINE_BYTES
        vertices, shifted = operands["vertices"], operands["ahead"] < operands["vertices"]
        table = np.frombuffer(image.data, dtype="<u4", count=operands["positions"] + shifted, offset=first)
        vids = table.astype(np.int64) // (row_bytes(operands["f_out"]) // ROW_BYTES)
        if shifted:
            # Vertices that are combined have features there; then all of them are the chiplet's own.
            own = image.header["first_vertex"] + np.arange(vertices)
            vids = np.concatenate([own, vids[vertices + 1 :]])
        found.append(Positions(vids, vertices, location["vertices"]))
    return found


def _tiles(image: Image) -> Iterator[Mapping[str, int]]:
    """Yield the operands that process a tile in the first layer, or in the first block of its columns."""
    for command in image.commands:
        if command.opcode == Opcode.PROCESS and not command.fields["layer"] and not command.fields["first_granule"]:
            yield command.fields


def build_community_images(
    problem: Problem,
    placement: Placement,
    schedule: Schedule | None = None,
    limits: Limits | None = None,
    scheme: Scheme = PAIRS,
    *,
    room: Room | None = None,
    names: IntArray | None = None,
    matching: Matching = Matching.UNORDERED,
    weight_room: WeightRoom | None = None,
    scratch_lines: int = 0,
) -> list[Image]:
    """Images of all chiplets of a ring; a ring of one has the image of a chiplet that works alone.

    Parameters
    ----------
    problem
        Network and graph, with VIDs as in `placement`.
    placement
        Owners of vertices, the hubs whose partial sums are sent home, and who executes edges.
    schedule, limits, scheme, room
        As for :func:`build_community_image`; a chiplet's subgraph is cut into tiles if it does not fit.
    names
        int64 [nodes], user's number of each VID, for messages; default: the VIDs.
    matching
        As for `golden.ring.image.build_images`.
    weight_room, scratch_lines
        As for `golden.program.chiplet.chiplet_image`.

    Raises
    ------
    InputError
        As there, or if the placement is not that of the graph.
    """
    search = _search(schedule, limits, scheme)
    placement.check(problem.graph)
    rooms: dict[str, Any] = {"weight_room": weight_room, "scratch_lines": scratch_lines}
    if placement.chiplets == 1:
        return [build_community_image(problem, schedule, limits, scheme, room=room, names=names, **rooms)]
    return [_image(problem, own, search, room, names, rooms) for own in shared_out(problem, placement, matching)]


def _image(
    problem: Problem, owned: list[Owned], search: Search, room: Room | None, names: IntArray | None,
    rooms: Mapping[str, Any], **how: Any,
) -> Image:  # fmt: skip
    """Return the image of a chiplet, in tiles if its vertices do not fit or edges between them have no reverse."""
    graph = problem.graph
    _check(problem)
    called = np.arange(graph.nodes) if names is None else names
    subgraphs = {
        own: Subgraph(graph.name, own.first, own.untiled, own.sources, graph.nodes, called, own.boundaries)
        for own in owned
    }
    how_located = (room, search.schedule, search.limits)
    if not any(each.directed or not each.fits(*how_located) for each in subgraphs.values()):
        return chiplet_image(problem, owned, lambda count: [range(count)], search=search, **rooms, **how)
    # No part has more vertices than the node table.
    step = room.block if room else max(1, owned[0].count)

    def pieces(count: int) -> list[range]:
        return [range(count)[first : first + step] for first in range(0, max(1, count), step)]

    tiles = {own: parted(each, *how_located) for own, each in subgraphs.items()}
    return chiplet_image(problem, owned, pieces, search=search, tiles=tiles, **rooms)


def _check(problem: Problem) -> None:
    """Refuse a layer that shares no sums: every edge has a factor of its own."""
    for number, (layer, topology) in enumerate(zip(problem.model.layers, problem.topologies, strict=True)):
        if layer.attention:
            raise InputError(f"layer {number}", "computes attention", "a configuration with gather PEs, as `default`")
        if topology.weighted:
            what = "have weights, which community PEs do not take"
            expected = "--no-edge-weights to let every edge count once"
            raise InputError(f"graph {problem.graph.name}, edges", what, expected)


def _search(schedule: Schedule | None, limits: Limits | None, scheme: Scheme) -> Search:
    search = Search(schedule or Schedule(), limits or Limits(), scheme)
    search.schedule.require_end()
    return search


def build_community_image(
    problem: Problem,
    schedule: Schedule | None = None,
    limits: Limits | None = None,
    scheme: Scheme = PAIRS,
    *,
    in_stages: bool = False,
    room: Room | None = None,
    names: IntArray | None = None,
    weight_room: WeightRoom | None = None,
    scratch_lines: int = 0,
) -> Image:
    """Image of one chiplet that owns the whole graph.

    Every layer has a LOCATE of its own, answered when it has begun, so weights are loaded in parallel. The host takes
    no part in the location (I10); a chiplet that still has the previous layer's records may replay them.

    Parameters
    ----------
    problem
        Network and graph.
    schedule, limits, scheme
        Parameters of the location, and how sums are shared; its `partners` and `columns` are the chiplet's.
    in_stages
        Combine all rows first, as on a ring.
    room
        Capacity of the chiplet: a larger graph is computed in tiles, in stages. Default: unlimited.
    names
        int64 [nodes], what the user calls each VID, for messages; default: the VIDs.
    weight_room, scratch_lines
        As for `golden.program.chiplet.chiplet_image`.

    Raises
    ------
    InputError
        If the schedule cannot end, or the image would be larger than 2^32 lines; if a
        vertex with its neighbours does not fit into `room`.
    """
    search, owned = _search(schedule, limits, scheme), by_topology(problem, lambda each: Owned.whole(each.graph))
    rooms: dict[str, Any] = {"weight_room": weight_room, "scratch_lines": scratch_lines}
    return _image(problem, owned, search, room, names, rooms, in_stages=in_stages)
