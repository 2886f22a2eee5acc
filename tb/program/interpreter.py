"""Carries out the commands of an image of a gather chiplet in NumPy, from the bytes alone."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from contracts import LINE_BYTES, ROW_BYTES, SCALE, SPARSE_ENTRY, Activation, Combination, Opcode
from golden.image_format import Image, row_bytes
from golden.model.layer import Int16Array
from golden.model.rounding import requantise
from golden.pe.pe import digits_of, sum_of_digits

__all__ = ["executed"]

Fields = Mapping[str, int]


class _Machine:
    """Memory, and the weights that were loaded last."""

    def __init__(self, image: Image) -> None:
        self.memory = np.frombuffer(image.data, np.uint8).copy()
        self.weights = np.zeros((0, 0), np.int16)
        self.biases: npt.NDArray[np.integer] = np.zeros(0, np.int32)

    def words(self, line: int, count: int, dtype: str = "<u4") -> npt.NDArray[np.integer]:
        """Return an array of words that begins at a line."""
        first = line * LINE_BYTES
        return self.memory[first : first + 4 * count].view(dtype)

    def row(self, line: int, number: int, distance: int, elements: int) -> Int16Array:
        """Return a row, for reading and writing; the distance is in bytes."""
        first = line * LINE_BYTES + number * distance
        return self.memory[first : first + 2 * elements].view("<i2")

    def load(self, fields: Fields) -> None:
        """LOAD_WEIGHTS."""
        f_in, f_out = fields["f_in"], fields["f_out"]
        self.weights = np.stack([self.row(fields["weights"], n, row_bytes(f_out), f_out) for n in range(f_in)]).copy()
        self.biases = self.words(fields["biases"], f_out, "<i4").copy()

    def features(self, fields: Fields, vertex: int) -> npt.NDArray[np.int64]:
        """Return the features of a vertex of COMBINE."""
        f_in = fields["f_in"]
        if not fields.get("sparse"):
            distance = fields.get("distance", 0) * ROW_BYTES or row_bytes(f_in)
            return self.row(fields["features"], vertex, distance, f_in).astype(np.int64)
        first, end = self.words(fields["feature_offsets"], vertex + 2)[-2:]
        entries = self.words(fields["features"], int(end))[first:].copy().view(SPARSE_ENTRY.dtype)
        found = np.zeros(f_in, np.int64)
        np.add.at(found, entries["index"], entries["value"])
        return found

    def combine(self, fields: Fields) -> None:
        """COMBINE of all kinds."""
        f_out, kind = fields["f_out"], Combination(fields.get("kind", 0))
        granules = row_bytes(f_out) // ROW_BYTES
        scales = self.words(fields["scales"], fields["vertices"])
        for vertex in range(fields["vertices"]):
            number = fields["first_row"] + vertex
            if kind == Combination.SUM:
                distance = fields["distance"]
                rows = self.row(fields["features"], vertex, distance * ROW_BYTES, distance * 16)
                total = sum_of_digits(rows.reshape(-1, granules * 16)[:, :f_out])
            else:
                total = self.features(fields, vertex) @ self.weights.astype(np.int64)
            if kind == Combination.DIGITS:
                distance = fields["row_granules"] * ROW_BYTES
                row = self.row(fields["combined"], number, distance, fields["row_granules"] * 16)
                for digit, values in enumerate(digits_of(total)):
                    first = (fields["first_granule"] + digit * granules) * 16
                    row[first : first + f_out] = values
                continue
            scale = SCALE.unpack(int(scales[vertex]))
            row = self.row(fields["combined"], number, row_bytes(f_out), f_out)
            row[:] = requantise(total, scale["mantissa"], scale["exponent"], fields["shift"])

    def aggregate(self, fields: Fields) -> None:
        """AGGREGATE of a chiplet that works alone."""
        f_out, vertices = fields["f_out"], fields["vertices"]
        offsets = self.words(fields["offsets"], vertices + 1)
        edges = self.words(fields["edges"], fields["edge_count"])
        scales = self.words(fields["scales"], vertices)
        bias = self.biases if fields["activation"] != Activation.DNP else 0 * self.biases

        def combined(vid: int) -> npt.NDArray[np.int64]:
            return self.row(fields["combined"], vid, row_bytes(f_out), f_out).astype(np.int64)

        for vertex in range(vertices):
            total = fields["self_weight"] * combined(vertex)
            for source in edges[offsets[vertex] : offsets[vertex + 1]]:
                total = total + fields["neighbour_weight"] * combined(int(source))
            scale = SCALE.unpack(int(scales[vertex]))
            result = requantise(total, scale["mantissa"], scale["exponent"], fields["shift"], bias)
            row = self.row(fields["results"], vertex, fields["row_granules"] * ROW_BYTES, fields["row_granules"] * 16)
            first = fields["first_granule"] * 16
            relu = fields["activation"] == Activation.RELU
            row[first : first + f_out] = np.maximum(result, 0) if relu else result


def executed(image: Image) -> bytes:
    """Return the memory behind the commands of an image of a gather chiplet that works alone."""
    machine = _Machine(image)
    for command in image.commands:
        fields = command.values()
        {Opcode.LOAD_WEIGHTS: machine.load, Opcode.COMBINE: machine.combine, Opcode.AGGREGATE: machine.aggregate}[
            command.opcode
        ](fields)
    return machine.memory.tobytes()
