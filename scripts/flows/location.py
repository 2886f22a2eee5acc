"""How communities are to be located in a run, and whether the hardware's records are right (I1, I4, I11)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from contracts.errors import InputError
from golden.community.image import Positions, positions_of
from golden.community.plan import PAIRS, Scheme
from golden.graph import Graph, IntArray
from golden.image import Image
from golden.locator.cover import Cover, cover_of
from golden.locator.locator import Limits
from golden.locator.order import check_order
from golden.locator.partition import check_records
from golden.locator.record import Record
from golden.locator.schedule import Choice, Schedule, balanced
from hw.community.config import CommunityChipletConfig
from sim.models.records import located

__all__ = ["Located", "Search", "limits_of", "read_back", "search_of", "wrong_records"]

#: Records by chiplet and tile of its share. Vertices are those of the cover of the graph as given.
Located = list[list[list[Record]]]


class Search(NamedTuple):
    """How a chiplet is to locate, by thresholds and sizes of communities, and how it is to share sums."""

    schedule: Schedule
    limits: Limits
    scheme: Scheme = PAIRS


def search_of(graph: Graph, config: CommunityChipletConfig | None, choice: Choice, chiplets: int = 1) -> Search | None:
    """Return how a chiplet is to locate the communities of a graph.

    Parameters
    ----------
    graph, config
        The graph, and sizes of the chiplet; None: it has gather PEs.
    choice
        What the user wants. `golden.locator.schedule.falling` finds the other thresholds. Communities are as large as
        fits, on a ring as `golden.locator.schedule.balanced` limits them.
    chiplets
        Number of chiplets of the ring, or 1.

    Returns
    -------
    Search or None
        None with gather PEs.

    Raises
    ------
    InputError
        If thresholds are out of range or do not end, or communities are larger than the locator can have them; if
        anything is chosen with gather PEs.
    """
    if config is None:
        if choice:
            raise InputError(
                "--threshold, --step, --halving, --c-max, --scheme, --k",
                "are given, but gather PEs locate nothing",
                "a configuration with community PEs, as community",
            )
        return None
    limits = limits_of(config)
    c_max = choice.c_max
    if c_max is None:
        c_max = balanced(graph, chiplets * config.pes, limits.c_max) if chiplets > 1 else limits.c_max
    if not 1 <= c_max <= limits.c_max:
        raise InputError("c_max", f"is {c_max}", f"1..{limits.c_max} ([locator] c_max)")
    scheme = Scheme.named(choice.scheme, choice.k, config.community.partners, config.community.columns)
    return Search(choice.schedule(graph, chiplets), replace(limits, c_max=c_max), scheme)


def limits_of(config: CommunityChipletConfig) -> Limits:
    """Return what the locator of a chiplet can hold of a community."""
    return Limits(config.locator.c_max, config.locator.hubs)


def read_back(folder: Path, graph: Graph, position: IntArray, images: Sequence[Image]) -> Located:
    """Return what every chiplet has located for the first layer; later layers have the same records.

    Parameters
    ----------
    folder
        Of the simulation.
    graph
        As given.
    position
        int64 [nodes], VID in the images of each VID in the graph as given.
    images
        Of all chiplets.
    """
    called, cover = np.argsort(position), cover_of(graph)
    found = []
    for number, image in enumerate(images):
        tiles = zip(located(folder, number), positions_of(image), strict=False)
        found.append([_as_given(records, _names(positions, called, cover)) for records, positions in tiles])
    return found


def _names(positions: Positions | None, called: IntArray, cover: Cover) -> IntArray:
    """Return the vertex of the cover of the graph as given for each VID in records; -1: a half of a partial sum."""
    halves = np.full(2 * called.size, -1, dtype=np.int64)
    if positions is None:
        return np.concatenate([called, halves])
    names = np.concatenate([called, halves])[positions.vids]
    sources = slice(positions.summed, positions.located)
    names[sources] = cover.copies(names[sources])
    return names


def _as_given(records: Sequence[Record], names: IntArray) -> list[Record]:
    """Return records with other names of vertices, without hubs that have none."""
    found = []
    for record in records:
        hubs = names[record.hubs]
        columns = np.concatenate([np.ones(record.nodes.size, dtype=np.bool_), hubs >= 0])
        nodes, bitmap = names[record.nodes], record.bitmap[:, columns]
        found.append(replace(record, nodes=nodes, hubs=hubs[hubs >= 0], bitmap=bitmap))
    return found


def wrong_records(graph: Graph, search: Search, found: Located) -> list[str]:
    """Return a line if records are wrong, else nothing.

    Those of the whole graph, or of its double cover, are compared with connected components. Of all the order is looked
    at, in which hubs make L shapes and communities lie along the diagonal; in each part among its own vertices.

    Parameters
    ----------
    graph
        As given.
    search
        What was asked for.
    found
        By chiplet and tile.
    """
    parts = list(chain.from_iterable(found))
    try:
        cover = cover_of(graph)
        if len(parts) == 1:
            check_records(cover.graph, search.schedule, search.limits, parts[0])
        members = [
            np.concatenate([record.nodes for record in records if record.part == 0] or [np.zeros(0, np.int64)])
            for records in parts
        ]
        every = np.sort(np.concatenate([*members, np.zeros(0, np.int64)]))
        # Each is summed once; a source copy is wherever it is needed.
        summed = every[every < graph.nodes]
        assert np.array_equal(summed, np.arange(graph.nodes)), "vertices are missing, or in several places"
        for records, own in zip(parts, members, strict=True):
            # A part without directed edges needs no cover.
            whole = cover.graph if (own >= graph.nodes).any() else graph
            check_order(*_among(whole, np.unique(own), records))
    except AssertionError as error:
        return [f"records: {error}"]
    return []


def _among(graph: Graph, own: IntArray, records: list[Record]) -> tuple[Graph, list[Record]]:
    """Return the graph of some vertices, ascending, and nodes and rounds of their records."""
    place = np.full(graph.nodes, -1, dtype=np.int64)
    place[own] = np.arange(own.size)
    source, destination = place[graph.edges], place[graph.destinations]
    inside = (source >= 0) & (destination >= 0)
    among = Graph.from_edges(graph.name, own.size, source[inside], destination[inside])
    return among, [replace(record, nodes=place[record.nodes]) for record in records]
