"""Images for chiplets with community PEs: one alone, or one of a ring.

Alone, every layer is LOCATE, LOAD_WEIGHTS and PROCESS, which combines as it goes. On a ring, others need combined rows
before anything can be added up: COMBINE first, then what the ring unit does, then PROCESS of combined rows. LOCATE goes
on beside all that.
"""

import numpy as np

from golden.community.plan import Kind
from golden.contracts import LINE_BYTES, Opcode, RegionKind
from golden.graph import IntArray
from golden.image import (
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
from golden.islands.locator import Limits
from golden.islands.schedule import Schedule
from golden.model.layer import QuantisedLayer
from golden.model.network import Problem
from golden.ring.image import RingImage
from golden.ring.placement import Placement
from golden.ring.traffic import plan

__all__ = ["build_community_image", "build_community_images"]


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

    COMMANDS = 4
    ROWS_APART = True

    def __init__(self, problem: Problem, *ring: object, how: tuple[Schedule, Limits, Kind]) -> None:
        super().__init__(problem, *ring)
        self.schedule, self.limits, self.kind = how
        self.COMMANDS += 1

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
        super().locate(number)

    def gather(self, number: int, layer: QuantisedLayer, combined: Region, results: Region) -> None:
        self.command(
            Opcode.PROCESS,
            number,
            first_vertex=self.first,
            vertices=self.owned,
            f_in=layer.f_in,
            f_out=layer.f_out,
            shift_destination=layer.shift_destination,
            activation=layer.activation,
            window=int(self.kind is Kind.PAIRS),
            self_weight=layer.self_weight,
            neighbour_weight=layer.neighbour_weight,
            features=combined.line,
            combined=1,
            first_partial=self.problem.graph.nodes,
            scales_destination=self.scale_destination.line,
            results=results.line,
        )


class _OnRing(_InStages, RingImage):
    """The same on a ring."""


def build_community_images(
    problem: Problem,
    placement: Placement,
    schedule: Schedule | None = None,
    limits: Limits | None = None,
    kind: Kind = Kind.PAIRS,
) -> list[Image]:
    """Images of all chiplets of a ring; a ring of one has the image of a chiplet that works alone.

    Parameters
    ----------
    problem
        Network and graph, which is symmetric, with VIDs as in `placement`.
    placement
        Who owns what, and which vertices are hubs whose sums come home.
    schedule, limits, kind
        As for :func:`build_community_image`.

    Raises
    ------
    InputError
        As there, or if the placement is not that of the graph.
    """
    schedule, limits = _checked(problem, schedule, limits)
    placement.check(problem.graph)
    if placement.chiplets == 1:
        return [build_community_image(problem, schedule, limits, kind)]
    wanted = plan(problem.graph, placement)
    how = (schedule, limits, kind)
    return [
        _OnRing(problem, placement, wanted, chiplet, False, how=how).build() for chiplet in range(placement.chiplets)
    ]


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

    Raises
    ------
    InputError
        If the graph is not symmetric, the schedule cannot end, or the image would be larger than 2^32 lines.
    """
    graph, model = problem.graph, problem.model
    schedule, limits = _checked(problem, schedule, limits)
    if in_stages:
        return _InStages(problem, how=(schedule, limits, kind)).build()
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
        room = _room(inside, lines, row_lines) if stays else range(0)
        results = None if room else b.reserve_rows(kind_of_results, graph.nodes, layer.f_out, number)
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
            results=results.line if results else room.start,
            write_inside=int(results is None),
            first_partial=graph.nodes,
        )
        for operands in place_end(b, model, number, results) if results else ():
            command(Opcode.NEURAL, number, **operands)
        # The results are the next layer's dense features.
        features, feature_offsets, inside = results, None, room
    return assemble(b, commands, problem)


def _room(taken: range, lines: int, row_lines: int) -> range:
    """Return so many lines of a row memory before or behind those that are taken, none if there is no room."""
    for start, stop in ((0, taken.start if taken else row_lines), (taken.stop, row_lines)):
        if start + lines <= stop:
            return range(start, start + lines)
    return range(0)
