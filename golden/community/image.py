"""Images for chiplets with community PEs: one alone, or one of a ring.

Alone, every layer is LOCATE, LOAD_WEIGHTS and PROCESS, which combines as it goes. On a ring, others need combined rows
before anything can be added up: COMBINE first, then what the ring unit does, then PROCESS of combined rows. LOCATE goes
on beside all that. What the chip has no room for is done in the same way, too: vertices are combined in blocks, then
tiles are located and processed one after the other (`golden.community.tiles`).
"""

from collections.abc import Sequence

import numpy as np

from golden.community.plan import Kind
from golden.community.tiles import Room, Share, cut
from golden.contracts import Opcode
from golden.graph import Graph, IntArray
from golden.image_format import Image
from golden.islands.locator import Limits
from golden.islands.schedule import Schedule
from golden.model.network import Problem
from golden.program.chiplet import Owned, chiplet_image
from golden.program.layer import Search
from golden.ring.image import PART, owned_of, parts_of
from golden.ring.placement import Placement
from golden.ring.traffic import plan

__all__ = ["build_community_image", "build_community_images", "tiles_of"]


def tiles_of(image: Image) -> int:
    """Return in how many tiles an image computes a layer: one if it is not cut, none if it has no vertices to cut."""
    return sum(command.opcode == Opcode.LOCATE and command.fields["layer"] == 0 for command in image.commands)


def build_community_images(
    problem: Problem,
    placement: Placement,
    schedule: Schedule | None = None,
    limits: Limits | None = None,
    kind: Kind = Kind.PAIRS,
    *,
    room: Room | None = None,
    names: IntArray | None = None,
    part: int = PART,
) -> list[Image]:
    """Images of all chiplets of a ring; a ring of one has the image of a chiplet that works alone.

    Parameters
    ----------
    problem
        Network and graph, which is symmetric, with VIDs as in `placement`.
    placement
        Who owns what, and which vertices are hubs whose sums come home.
    schedule, limits, kind, room
        As for :func:`build_community_image`; a chiplet's share is cut into tiles if it does not fit.
    names
        int64 [nodes], what the user calls each VID, for messages; default: the VIDs.
    part
        As for `golden.ring.image.parts_of`.

    Raises
    ------
    InputError
        As there, or if the placement is not that of the graph.
    """
    schedule, limits = _checked(problem, schedule, limits)
    placement.check(problem.graph)
    if placement.chiplets == 1:
        return [build_community_image(problem, schedule, limits, kind, room=room, names=names)]
    wanted = plan(problem.graph, placement)
    images = []
    for chiplet in range(placement.chiplets):
        owned = owned_of(problem, placement, wanted, chiplet)
        parts, tiles = parts_of(owned.count, part), None
        share = _share(problem.graph, owned, names)
        if room is not None and not share.fits(room, schedule, limits):
            tiles, parts = list(cut(share, room)), _blocks(parts, room.block)
        images.append(chiplet_image(problem, owned, parts, search=Search(schedule, limits, kind), tiles=tiles))
    return images


def _share(graph: Graph, owned: Owned, names: IntArray | None) -> Share:
    """Return what is cut into tiles, with the names that the user gave vertices."""
    called = np.arange(graph.nodes) if names is None else names
    return Share(graph.name, owned.first, owned.untiled, owned.sources, graph.nodes, called)


def _blocks(parts: Sequence[range], block: int) -> list[range]:
    """Cut parts so that none has more vertices than the node table has room for."""
    return [part[first : first + block] for part in parts for first in range(0, max(1, len(part)), block)]


def _checked(problem: Problem, schedule: Schedule | None, limits: Limits | None) -> tuple[Schedule, Limits]:
    schedule, limits = schedule or Schedule(), limits or Limits()
    problem.graph.require_symmetric("communities")
    schedule.require_end()
    return schedule, limits


def build_community_image(
    problem: Problem,
    schedule: Schedule | None = None,
    limits: Limits | None = None,
    kind: Kind = Kind.PAIRS,
    *,
    in_stages: bool = False,
    row_lines: int = 0,
    room: Room | None = None,
    names: IntArray | None = None,
) -> Image:
    """Image of one chiplet that owns the whole graph.

    Every layer has a LOCATE of its own, answered when it has begun, so that the weights are loaded meanwhile. Nothing
    of the location comes from the host (I10); a chiplet that has the records of the layer before may use them.

    Parameters
    ----------
    problem
        Network and graph, which is symmetric.
    schedule, limits
        Of the location.
    kind
        How sums are shared.
    in_stages
        Combine all rows first, as a chiplet of a ring does.
    row_lines
        Lines of 64 bytes of the chiplet's row memory. Results of a layer before the last that fit beside those it
        reads stay there, and have no region in the image, unless the layer ends on the neural chip.
    room
        Of the chiplet: a graph that does not fit is computed in tiles, in stages. Default: it fits.
    names
        int64 [nodes], what the user calls each VID, for messages; default: the VIDs.

    Raises
    ------
    InputError
        If the graph is not symmetric, the schedule cannot end, or the image would be larger than 2^32 lines; if a
        vertex with its neighbours does not fit into `room`.
    """
    schedule, limits = _checked(problem, schedule, limits)
    search = Search(schedule, limits, kind)
    owned = Owned.whole(problem.graph)
    parts = [range(owned.count)]
    share = _share(problem.graph, owned, names)
    if room is not None and not share.fits(room, schedule, limits):
        tiles = list(cut(share, room))
        return chiplet_image(problem, owned, _blocks(parts, room.block), search=search, tiles=tiles)
    lines = 0 if in_stages else row_lines
    return chiplet_image(problem, owned, parts, search=search, in_stages=in_stages, row_lines=lines)
