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
    "PART_ROWS",
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


#: A part of the own vertices begins at a multiple of so many, so that words and rows of it begin on a line.
PART_ROWS = LINE_BYTES // 4


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
    """Features of some vertices: lines of the rows and, if they are sparse, of their offsets; length in entries."""

    rows: int
    entries: int
    offsets: int = 0

    @classmethod
    def sparse(cls, rows: Region, entries: int, offsets: Region) -> Self:
        """Sparse rows in a region of their own."""
        return cls(rows.line, entries, offsets.line)

    @classmethod
    def dense(cls, rows: Region, part: range) -> Self:
        """Dense rows of a part of a region's."""
        first = rows.line + part.start * rows.row_bytes // LINE_BYTES
        return cls(first, len(part) * rows.row_bytes // SPARSE_ENTRY.bytes)


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
    parts
        Own vertices, counted from 0, that are combined with one command each; they begin at multiples of `PART_ROWS`.
    """

    #: Regions without those of layers, and commands before those of the first layer.
    REGIONS, FIRST_COMMANDS = 9, 0
    #: Whether readers fetch every row of sparse features by itself.
    ROWS_APART = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.first, self.end = 0, problem.graph.nodes
        self.owned = self.end
        self.chiplet, self.chiplets = 0, 1
        self.halves = 0
        self.parts = [range(self.owned)]
        self.commands: list[Command] = []

    def commands_of_layer(self) -> int:
        """How many a layer has, without NEURAL: LOAD_WEIGHTS, COMBINE of every part, and what `gather` adds."""
        return 2 + len(self.parts)

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

    def combine(
        self, number: int, layer: QuantisedLayer, part: range, features: Features, scales: Region, combined: Region
    ) -> None:
        """Add the command that combines the features of a part."""
        self.command(
            Opcode.COMBINE,
            number,
            f_in=layer.f_in,
            f_out=layer.f_out,
            shift=layer.shift_source,
            sparse=int(features.offsets != 0),
            vertices=len(part),
            entries=features.entries,
            features=features.rows,
            feature_offsets=features.offsets,
            scales=scales.line + part.start // PART_ROWS,
            combined=combined.line,
            first_row=self.first + part.start,
        )

    def exchange(self, number: int, layer: QuantisedLayer, part: range, combined: Region) -> None:
        """Add commands that bring other chiplets' rows, when a part is combined; none here."""

    def prepare(self) -> None:
        """Add what goes on beside the first layer's combination; nothing here."""

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
        b = Builder(
            regions=self.REGIONS + 2 * (len(self.parts) - 1) + 4 * layers + programs,
            commands=self.FIRST_COMMANDS + self.commands_of_layer() * layers + programs,
        )
        boundaries = b.words(RegionKind.BOUNDARIES, self.boundaries())
        tiled, sources = self.in_edges()
        self.offsets = b.words(RegionKind.OFFSETS, tiled)
        self.edges, self.edge_count = b.words(RegionKind.EDGES, sources), sources.size
        self.place_edges(b, sources)
        self.degree_words = b.words(RegionKind.DEGREES, self.degrees(tiled))
        scale_source = b.scales(RegionKind.SCALE_SOURCE, self._scales(problem.scale_source))
        self.scale_destination = b.scales(RegionKind.SCALE_DESTINATION, self._scales(problem.scale_destination))
        if problem.sparse:
            rows = [problem.features[own][part.start : part.stop] for part in self.parts]
            features = [Features.sparse(*place_sparse(b, some, apart=self.ROWS_APART)) for some in rows]
        else:
            region = b.rows(RegionKind.FEATURES, problem.features[own])
            features = [Features.dense(region, part) for part in self.parts]
        self.place_ring(b, boundaries)
        widest = max(layer.f_out for layer in model.layers)
        combined = b.reserve_rows(RegionKind.COMBINED, graph.nodes + self.halves, widest)

        for number, layer in enumerate(model.layers):
            weights = b.rows(RegionKind.WEIGHTS, layer.weights, number)
            biases = b.words(RegionKind.BIASES, layer.biases, number, dtype="<i4")
            kind = RegionKind.RESULTS if number == layers - 1 else RegionKind.HIDDEN
            results = b.reserve_rows(kind, self.owned, layer.f_out, number)
            self.locate(number)
            if number == 0:
                self.prepare()
            self.command(
                Opcode.LOAD_WEIGHTS,
                number,
                f_in=layer.f_in,
                f_out=layer.f_out,
                weights=weights.line,
                biases=biases.line,
            )
            for part, given in zip(self.parts, features, strict=True):
                self.combine(number, layer, part, given, scale_source, combined)
                self.exchange(number, layer, part, combined)
            self.gather(number, layer, combined, results)
            for operands in place_end(b, model, number, results):
                self.command(Opcode.NEURAL, number, **operands)
            # The results are the next layer's dense features.
            features = [Features.dense(results, part) for part in self.parts]
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
