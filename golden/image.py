"""The image of a chiplet's memory: what it owns of a graph, and the commands that run a network on it."""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from golden.contracts import LINE_BYTES, SPARSE_ENTRY, Opcode, RegionKind
from golden.dnp.layer_end import ROWS
from golden.graph import IntArray
from golden.image_format import Builder, Command, Image, Region, assemble, place_sparse, row_bytes
from golden.model.layer import QuantisedLayer
from golden.model.network import Problem, QuantisedModel
from golden.model.scale import Scales

__all__ = [
    "Builder",
    "ChipletImage",
    "Command",
    "Features",
    "Image",
    "Region",
    "assemble",
    "build_image",
    "end_operands",
    "place_end",
    "place_sparse",
    "programs_of",
    "row_bytes",
]


def programs_of(model: QuantisedModel, rows: int) -> int:
    """How many NEURAL commands the layers of a network have on so many rows, and as many regions."""
    return len(model.ends) * -(-rows // ROWS)


def end_operands(program: Region, words: int, results: Region, rows: int, first: int = 0) -> dict[str, int]:
    """Return the operands of NEURAL for so many rows of a layer's results, from row `first` on.

    Results are overwritten: each value is written after it was read, and no other depends on it.
    """
    line = results.line + first * results.row_bytes // LINE_BYTES
    return {
        "program": program.line,
        "words": words,
        "rows": line,
        "results": line,
        "vertices": rows,
        "f_in": results.row_elements,
        "f_out": results.row_elements,
    }


def place_end(b: Builder, model: QuantisedModel, number: int, results: Region) -> Iterator[dict[str, int]]:
    """Place the programs that end a layer on the neural chip, if it does; yield the operands of their commands."""
    for first in range(0, results.rows if number in model.ends else 0, ROWS):
        rows = min(ROWS, results.rows - first)
        program = b.words(RegionKind.PROGRAM, model.ends[number].words(rows), number)
        yield end_operands(program, program.rows, results, rows, first)


#: Numbers of commands begin again after so many.
_TAGS = 1 << 16


class Features(NamedTuple):
    """Features of a layer: their region, its length in sparse entries, and the rows' offsets if they are sparse."""

    rows: Region
    entries: int
    offsets: Region | None = None

    @classmethod
    def dense(cls, rows: Region) -> Self:
        """Dense rows."""
        return cls(rows, rows.bytes // SPARSE_ENTRY.bytes)


class ChipletImage:
    """Makes the image of one chiplet; this one owns the whole graph and works alone.

    Every layer becomes LOAD_WEIGHTS, COMBINE, what `exchange` adds, what `gather` adds, and NEURAL if it ends on the
    neural chip; ``tag`` is the number of the command. A chiplet of a ring has other edges and regions, and exchanges
    rows: `golden.ring.image`.

    Attributes
    ----------
    problem
        Network and graph.
    first, end, owned
        VIDs that the chiplet owns, from `first` up to before `end`, and their number.
    chiplet, chiplets
        Position on the ring, and how many there are.
    halves
        Rows behind those of the vertices: halves of partial sums.
    """

    #: Regions without those of layers, and commands of a layer.
    REGIONS, COMMANDS = 9, 3
    #: Whether readers fetch every row of sparse features by itself.
    ROWS_APART = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.first, self.end = 0, problem.graph.nodes
        self.owned = self.end
        self.chiplet, self.chiplets = 0, 1
        self.halves = 0
        self.commands: list[Command] = []

    def boundaries(self) -> IntArray:
        """First VID of every chiplet, then the number of vertices."""
        return np.array([0, self.problem.graph.nodes])

    def in_edges(self) -> tuple[IntArray, IntArray]:
        """Tiled offsets and sources of the own vertices' edges."""
        return self.problem.graph.offsets, self.problem.graph.edges

    def place_edges(self, b: Builder, sources: IntArray) -> None:
        """Place what belongs to the edges; nothing here."""

    def place_ring(self, b: Builder, boundaries: Region) -> None:
        """Place what the ring unit needs; nothing here."""

    def combine(self, number: int, layer: QuantisedLayer, features: Features, scales: Region, combined: Region) -> None:
        """Add the command that combines the own vertices' features."""
        self.command(Opcode.COMBINE, number, **self.combine_operands(layer, features, scales, combined))

    def combine_operands(
        self, layer: QuantisedLayer, features: Features, scales: Region, combined: Region
    ) -> dict[str, int]:
        """Return the operands of COMBINE for all own vertices."""
        return {
            "f_in": layer.f_in,
            "f_out": layer.f_out,
            "shift": layer.shift_source,
            "sparse": int(features.offsets is not None),
            "vertices": self.owned,
            "entries": features.entries,
            "features": features.rows.line,
            "feature_offsets": features.offsets.line if features.offsets else 0,
            "scales": scales.line,
            "combined": combined.line,
            "first_row": self.first,
        }

    def exchange(self, number: int, layer: QuantisedLayer, combined: Region) -> None:
        """Add commands that bring other chiplets' rows; none here."""

    def locate(self, number: int) -> None:
        """Add what comes first in a layer; nothing here."""

    def degrees(self, tiled: IntArray) -> IntArray:
        """Distinct neighbours of the own vertices, or what else the chiplet takes for them; from their offsets."""
        return self.problem.graph.degrees[self.first : self.end]

    def gather(self, number: int, layer: QuantisedLayer, combined: Region, results: Region) -> None:
        """Add the command that sums combined rows up."""
        self.command(
            Opcode.AGGREGATE,
            number,
            first_vertex=self.first,
            vertices=self.owned,
            offsets=self.offsets.line,
            edges=self.edges.line,
            edge_count=self.edge_count,
            tiles=self.chiplets,
            shift=layer.shift_destination,
            activation=layer.activation,
            f_out=layer.f_out,
            self_weight=layer.self_weight,
            neighbour_weight=layer.neighbour_weight,
            scales=self.scale_destination.line,
            combined=combined.line,
            results=results.line,
            first_source=0,
            sources=self.problem.graph.nodes + self.halves,
            partials=self.halves,
        )

    def command(self, opcode: Opcode, layer: int, **fields: int) -> None:
        """Add a command."""
        tag = len(self.commands) % _TAGS
        self.commands.append(Command(opcode, {"layer": layer, "tag": tag, **fields}))

    def _scales(self, scales: Scales) -> Scales:
        own = slice(self.first, self.end)
        return Scales(scales.mantissa[own], scales.exponent[own])

    def build(self) -> Image:
        """Place all regions, write all commands.

        Raises
        ------
        InputError
            If it would be larger than 2^32 lines.
        """
        problem, graph, model = self.problem, self.problem.graph, self.problem.model
        layers, own = len(model.layers), slice(self.first, self.end)
        programs = programs_of(model, self.owned)
        b = Builder(regions=self.REGIONS + 4 * layers + programs, commands=self.COMMANDS * layers + programs)
        boundaries = b.words(RegionKind.BOUNDARIES, self.boundaries())
        tiled, sources = self.in_edges()
        self.offsets = b.words(RegionKind.OFFSETS, tiled)
        self.edges, self.edge_count = b.words(RegionKind.EDGES, sources), sources.size
        self.place_edges(b, sources)
        self.degree_words = b.words(RegionKind.DEGREES, self.degrees(tiled))
        scale_source = b.scales(RegionKind.SCALE_SOURCE, self._scales(problem.scale_source))
        self.scale_destination = b.scales(RegionKind.SCALE_DESTINATION, self._scales(problem.scale_destination))
        if problem.sparse:
            features = Features(*place_sparse(b, problem.features[own], apart=self.ROWS_APART))
        else:
            features = Features.dense(b.rows(RegionKind.FEATURES, problem.features[own]))
        self.place_ring(b, boundaries)
        rows = graph.nodes + self.halves
        combined = b.reserve_rows(RegionKind.COMBINED, rows, max(layer.f_out for layer in model.layers))

        for number, layer in enumerate(model.layers):
            weights = b.rows(RegionKind.WEIGHTS, layer.weights, number)
            biases = b.words(RegionKind.BIASES, layer.biases, number, dtype="<i4")
            kind = RegionKind.RESULTS if number == layers - 1 else RegionKind.HIDDEN
            results = b.reserve_rows(kind, self.owned, layer.f_out, number)
            self.locate(number)
            self.command(
                Opcode.LOAD_WEIGHTS,
                number,
                f_in=layer.f_in,
                f_out=layer.f_out,
                weights=weights.line,
                biases=biases.line,
            )
            self.combine(number, layer, features, scale_source, combined)
            self.exchange(number, layer, combined)
            self.gather(number, layer, combined, results)
            for operands in place_end(b, model, number, results):
                self.command(Opcode.NEURAL, number, **operands)
            # The results are the next layer's dense features.
            features = Features.dense(results)
        return assemble(
            b,
            self.commands,
            problem,
            chiplet=self.chiplet,
            chiplets=self.chiplets,
            first_vertex=self.first,
            owned=self.owned,
            edges=self.edge_count,
        )


def build_image(problem: Problem) -> Image:
    """Image of one chiplet that owns the whole graph.

    Parameters
    ----------
    problem
        Network and graph.

    Raises
    ------
    InputError
        If it would be larger than 2^32 lines.
    """
    return ChipletImage(problem).build()
