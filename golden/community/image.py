"""Images for a chiplet with community PEs: every layer is LOCATE, LOAD_WEIGHTS and PROCESS."""

from golden.community.plan import Kind
from golden.contracts import Opcode, RegionKind
from golden.image import Builder, Command, Image, Region, assemble, place_sparse
from golden.islands.locator import Limits
from golden.islands.schedule import Schedule
from golden.model.network import Problem

__all__ = ["build_community_image"]


def build_community_image(
    problem: Problem, schedule: Schedule | None = None, limits: Limits | None = None, kind: Kind = Kind.PAIRS
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

    Raises
    ------
    InputError
        If the graph is not symmetric, the schedule cannot end, or the image would be larger than 2^32 lines.
    """
    graph, model = problem.graph, problem.model
    schedule, limits = schedule or Schedule(), limits or Limits()
    graph.require_symmetric("communities")
    schedule.require_end()
    layers = len(model.layers)
    b = Builder(regions=8 + 4 * layers, commands=3 * layers)
    b.words(RegionKind.BOUNDARIES, [0, graph.nodes])
    offsets = b.words(RegionKind.OFFSETS, graph.offsets)
    edges = b.words(RegionKind.EDGES, graph.edges)
    degrees = b.words(RegionKind.DEGREES, graph.degrees)
    source = b.scales(RegionKind.SCALE_SOURCE, problem.scale_source)
    destination = b.scales(RegionKind.SCALE_DESTINATION, problem.scale_destination)
    feature_offsets: Region | None = None
    if problem.sparse:
        features, _, feature_offsets = place_sparse(b, problem.features)
    else:
        features = b.rows(RegionKind.FEATURES, problem.features)
    commands: list[Command] = []

    def command(opcode: Opcode, layer: int, **fields: int) -> None:
        commands.append(Command(opcode, {"layer": layer, "tag": len(commands), **fields}))

    for number, layer in enumerate(model.layers):
        weights = b.rows(RegionKind.WEIGHTS, layer.weights, number)
        biases = b.words(RegionKind.BIASES, layer.biases, number, dtype="<i4")
        kind_of_results = RegionKind.RESULTS if number == layers - 1 else RegionKind.HIDDEN
        results = b.reserve_rows(kind_of_results, graph.nodes, layer.f_out, number)
        command(
            Opcode.LOCATE,
            number,
            first_vertex=0,
            vertices=graph.nodes,
            offsets=offsets.line,
            edges=edges.line,
            edge_count=graph.edge_count,
            tiles=1,
            halving=int(schedule.halving),
            degrees=degrees.line,
            threshold=schedule.threshold,
            step=schedule.step,
            rounds=schedule.rounds,
            c_max=limits.c_max,
            h_max=limits.h_max,
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
            features=features.line,
            feature_offsets=feature_offsets.line if feature_offsets else 0,
            scales_source=source.line,
            scales_destination=destination.line,
            results=results.line,
        )
        # The results are the next layer's dense features.
        features, feature_offsets = results, None
    return assemble(b, commands, problem)
