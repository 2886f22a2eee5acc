"""Images for chiplets with community PEs: one alone, or one of a ring.

Alone, every layer is LOCATE, LOAD_WEIGHTS and PROCESS, which combines as it goes. On a ring, others need combined rows
before anything can be added up: COMBINE first, then what the ring unit does, then PROCESS of combined rows. LOCATE goes
on beside all that. What the chip has no room for is done in the same way, too: vertices are combined in blocks, then
tiles are located and processed one after the other (`golden.community.tiles`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from golden.community.plan import Kind
from golden.community.tiles import Room, Share, Tile, cut
from golden.contracts import COMMANDS, LINE_BYTES, ROW_BYTES, Opcode, RegionKind
from golden.errors import InputError
from golden.graph import IntArray
from golden.image import (
    PART_ROWS,
    Builder,
    ChipletImage,
    Command,
    Image,
    Region,
    assemble,
    place_end,
    place_sparse,
    programs_of,
    row_bytes,
)
from golden.image_format import scale_words
from golden.islands.locator import Limits
from golden.islands.schedule import Schedule
from golden.model.layer import QuantisedLayer
from golden.model.network import Problem
from golden.ring.image import PART, RingImage
from golden.ring.placement import Placement
from golden.ring.traffic import plan

__all__ = ["build_community_image", "build_community_images", "tiles_of", "vids_of"]


#: Bytes that places, 32 bits of granules, reach.
_PLACES = ROW_BYTES << 32


@dataclass(frozen=True)
class _TileLines:
    """Lines of a tile's offsets, edges and s_dst, and of its places by the distance of combined rows, in bytes."""

    offsets: int
    edges: int
    scales: int
    places: dict[int, int]


def _location(schedule: Schedule, limits: Limits) -> dict[str, int]:
    """Return what LOCATE has to know beside the graph."""
    return {
        "halving": int(schedule.halving),
        "threshold": schedule.threshold,
        "step": schedule.step,
        "rounds": schedule.rounds,
        "c_max": limits.c_max,
        "h_max": limits.h_max,
    }


class _InStages(ChipletImage):
    """Rows are combined before they are summed up, as other chiplets need them; sums are those of communities.

    A vertex counts as many neighbours as it has sources here; sources elsewhere are hubs to the locator.
    """

    ROWS_APART = True

    def __init__(self, problem: Problem, *ring: object, how: tuple[Schedule, Limits, Kind]) -> None:
        super().__init__(problem, *ring)
        self.schedule, self.limits, self.kind = how

    def commands_of_layer(self) -> int:
        """With LOCATE."""
        return super().commands_of_layer() + 1

    def share(self, names: IntArray | None) -> Share:
        """Return what the chiplet owns, and what the user calls the vertices."""
        tiled, sources = self.in_edges()
        graph = self.problem.graph
        called = np.arange(graph.nodes) if names is None else names
        return Share(graph.name, self.first, tiled[:: self.chiplets], sources, graph.nodes, called)

    def degrees(self, tiled: IntArray) -> IntArray:
        return np.diff(tiled[:: self.chiplets])

    def locate(self, number: int) -> None:
        self.command(
            Opcode.LOCATE,
            number,
            first_vertex=self.first,
            vertices=self.owned,
            offsets=self.offsets.line,
            edges=self.edges.line,
            edge_count=self.edge_count,
            tiles=self.chiplets,
            degrees=self.degree_words.line,
            **_location(self.schedule, self.limits),
        )

    def gather(self, number: int, layer: QuantisedLayer, combined: Region, results: Region) -> None:
        self.command(Opcode.PROCESS, number, **self.process_operands(layer, combined, results))

    def process_operands(self, layer: QuantisedLayer, combined: Region, results: Region) -> dict[str, int]:
        """Return the operands of PROCESS for all own vertices."""
        return {
            "first_vertex": self.first,
            "vertices": self.owned,
            "f_in": layer.f_in,
            "f_out": layer.f_out,
            "shift_destination": layer.shift_destination,
            "activation": layer.activation,
            "window": int(self.kind is Kind.PAIRS),
            "self_weight": layer.self_weight,
            "neighbour_weight": layer.neighbour_weight,
            "features": combined.line,
            "combined": 1,
            "first_partial": self.problem.graph.nodes,
            "scales_destination": self.scale_destination.line,
            "results": results.line,
        }


class _InTiles(_InStages):
    """What is too large for the chip: rows are combined block by block, sums are those of communities of tiles."""

    def __init__(
        self, problem: Problem, *ring: object, how: tuple[Schedule, Limits, Kind], tiles: Sequence[Tile], block: int
    ) -> None:
        super().__init__(problem, *ring, how=how)
        self.tiles = tiles
        # No part has more vertices than the node table has room for.
        self.parts = [
            part[first : first + block] for part in self.parts for first in range(0, max(1, len(part)), block)
        ]

    def commands_of_layer(self) -> int:
        """With LOCATE and PROCESS of every tile."""
        return super().commands_of_layer() + 2 * (len(self.tiles) - 1)

    def place_edges(self, b: Builder, sources: IntArray) -> None:
        super().place_edges(b, sources)
        widest = row_bytes(max(layer.f_out for layer in self.problem.model.layers))
        size = (self.problem.graph.nodes + self.halves) * widest
        if size > _PLACES:
            raise InputError("combined rows", f"have {size} bytes", f"at most {_PLACES} if they lie in tiles")
        destination = scale_words(self._scales(self.problem.scale_destination))
        distances = sorted({row_bytes(layer.f_out) for layer in self.problem.model.layers})
        first, parts, count = b.next_line, list[npt.NDArray[np.uint32]](), 0

        def put(words: npt.NDArray[np.integer]) -> int:
            """Place words from the next line on, and return that."""
            nonlocal count
            line, room = first + count, max(1, -(-words.size // PART_ROWS))
            parts.append(np.pad(words.astype(np.uint32), (0, room * PART_ROWS - words.size)))
            count += room
            return line

        self.at = []
        for tile in self.tiles:
            ends = destination[tile.first : tile.first + tile.vertices]
            places = {distance: put(tile.rows * (distance // ROW_BYTES)) for distance in distances}
            self.at.append(_TileLines(put(tile.offsets), put(tile.edges), put(ends), places))
        b.words(RegionKind.TILES, np.concatenate(parts) if parts else [])

    def locate(self, number: int) -> None:
        # Goes on beside the combination, as where there is only one.
        if self.tiles:
            self._locate_tile(number, 0)

    def _locate_tile(self, number: int, place: int) -> None:
        tile, at = self.tiles[place], self.at[place]
        self.command(
            Opcode.LOCATE,
            number,
            first_vertex=0,
            vertices=tile.vertices,
            offsets=at.offsets,
            edges=at.edges,
            edge_count=tile.edges.size,
            tiles=1,
            differences=1,
            **_location(self.schedule, self.limits),
        )

    def gather(self, number: int, layer: QuantisedLayer, combined: Region, results: Region) -> None:
        for place, (tile, at) in enumerate(zip(self.tiles, self.at, strict=True)):
            if place:
                self._locate_tile(number, place)
            self.command(
                Opcode.PROCESS,
                number,
                **{
                    **self.process_operands(layer, combined, results),
                    "first_vertex": 0,
                    "vertices": tile.vertices,
                    "feature_offsets": at.places[results.row_bytes],
                    "positions": tile.rows.size,
                    "first_partial": tile.first_partial,
                    "scales_destination": at.scales,
                    "first_row": tile.first,
                },
            )


class _OnRing(_InStages, RingImage):
    """The same on a ring."""


class _TilesOnRing(_InTiles, RingImage):
    """Tiles on a ring."""


def tiles_of(image: Image) -> int:
    """Return in how many tiles an image computes a layer: one if it is not cut, none if it has no vertices to cut."""
    return sum(opcode is Opcode.LOCATE for opcode, _ in _first_layer(image))


def vids_of(image: Image) -> list[IntArray | None]:
    """Return the sources that vertices in records stand for, in each location of an image's first layer.

    Parameters
    ----------
    image
        Of a chiplet with community PEs.

    Returns
    -------
    list
        By location int64 [positions], or None where records have VIDs of the image. What is not less than the graph's
        vertices is half of a partial sum.
    """
    vids: list[IntArray | None] = []
    for opcode, command in _first_layer(image):
        if opcode is not Opcode.PROCESS:
            continue
        if not command["positions"]:
            vids.append(None)
            continue
        first = command["feature_offsets"] * LINE_BYTES
        places = np.frombuffer(image.data, dtype="<u4", count=command["positions"], offset=first)
        vids.append(places.astype(np.int64) // (row_bytes(command["f_out"]) // ROW_BYTES))
    return vids


def _first_layer(image: Image) -> Iterator[tuple[Opcode, dict[str, int]]]:
    """Commands of the first layer, with their operands."""
    for line in range(image.header["command_list"], image.header["command_list"] + image.header["commands"]):
        content = image.data[line * LINE_BYTES : (line + 1) * LINE_BYTES]
        opcode = Opcode(COMMANDS[Opcode.NOP].from_bytes(content)["opcode"])
        if (command := COMMANDS[opcode].from_bytes(content))["layer"] == 0:
            yield opcode, command


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
    how = (schedule, limits, kind)
    images = []
    for chiplet in range(placement.chiplets):
        ring = (placement, wanted, chiplet, False, part)
        whole = _OnRing(problem, *ring, how=how)
        share = whole.share(names)
        if room is None or share.fits(room, schedule, limits):
            images.append(whole.build())
        else:
            tiles = list(cut(share, room))
            images.append(_TilesOnRing(problem, *ring, how=how, tiles=tiles, block=room.block).build())
    return images


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
    graph, model = problem.graph, problem.model
    schedule, limits = _checked(problem, schedule, limits)
    staged = _InStages(problem, how=(schedule, limits, kind))
    share = staged.share(names)
    if room is not None and not share.fits(room, schedule, limits):
        tiles = list(cut(share, room))
        return _InTiles(problem, how=(schedule, limits, kind), tiles=tiles, block=room.block).build()
    if in_stages:
        return staged.build()
    layers, programs = len(model.layers), programs_of(model, graph.nodes)
    b = Builder(regions=7 + 4 * layers + programs, commands=3 * layers + programs)
    b.words(RegionKind.BOUNDARIES, [0, graph.nodes])
    offsets = b.words(RegionKind.OFFSETS, graph.offsets)
    edges = b.words(RegionKind.EDGES, graph.edges)
    source = b.scales(RegionKind.SCALE_SOURCE, problem.scale_source)
    # Those of GCN are the same; the hardware reads them once.
    ours, theirs = problem.scale_source, problem.scale_destination
    same = np.array_equal(ours.mantissa, theirs.mantissa) and np.array_equal(ours.exponent, theirs.exponent)
    destination = source if same else b.scales(RegionKind.SCALE_DESTINATION, theirs)
    features: Region | None
    feature_offsets: Region | None = None
    if problem.sparse:
        features, _, feature_offsets = place_sparse(b, problem.features, apart=True)
    else:
        features = b.rows(RegionKind.FEATURES, problem.features)
    commands: list[Command] = []
    inside = range(0)  # lines of the row memory with the features of the layer

    def command(opcode: Opcode, layer: int, **fields: int) -> None:
        commands.append(Command(opcode, {"layer": layer, "tag": len(commands), **fields}))

    for number, layer in enumerate(model.layers):
        weights = b.rows(RegionKind.WEIGHTS, layer.weights, number)
        biases = b.words(RegionKind.BIASES, layer.biases, number, dtype="<i4")
        kind_of_results = RegionKind.RESULTS if number == layers - 1 else RegionKind.HIDDEN
        lines = -(-graph.nodes * row_bytes(layer.f_out) // LINE_BYTES)
        stays = number < layers - 1 and number not in model.ends
        stay = _room(inside, lines, row_lines) if stays else range(0)
        results = None if stay else b.reserve_rows(kind_of_results, graph.nodes, layer.f_out, number)
        command(
            Opcode.LOCATE,
            number,
            first_vertex=0,
            vertices=graph.nodes,
            offsets=offsets.line,
            edges=edges.line,
            edge_count=graph.edge_count,
            tiles=1,
            differences=1,
            **_location(schedule, limits),
        )
        command(
            Opcode.LOAD_WEIGHTS, number, f_in=layer.f_in, f_out=layer.f_out, weights=weights.line, biases=biases.line
        )
        command(
            Opcode.PROCESS,
            number,
            first_vertex=0,
            vertices=graph.nodes,
            f_in=layer.f_in,
            f_out=layer.f_out,
            shift_source=layer.shift_source,
            shift_destination=layer.shift_destination,
            activation=layer.activation,
            sparse=int(feature_offsets is not None),
            window=int(kind is Kind.PAIRS),
            self_weight=layer.self_weight,
            neighbour_weight=layer.neighbour_weight,
            features=features.line if features else inside.start,
            read_inside=int(features is None),
            feature_offsets=feature_offsets.line if feature_offsets else 0,
            scales_source=source.line,
            scales_destination=destination.line,
            results=results.line if results else stay.start,
            write_inside=int(results is None),
            first_partial=graph.nodes,
        )
        for operands in place_end(b, model, number, results) if results else ():
            command(Opcode.NEURAL, number, **operands)
        # The results are the next layer's dense features.
        features, feature_offsets, inside = results, None, stay
    return assemble(b, commands, problem)


def _room(taken: range, lines: int, row_lines: int) -> range:
    """Return so many lines of a row memory before or behind those that are taken, none if there is no room."""
    for start, stop in ((0, taken.start if taken else row_lines), (taken.stop, row_lines)):
        if start + lines <= stop:
            return range(start, start + lines)
    return range(0)
