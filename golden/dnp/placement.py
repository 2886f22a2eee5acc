"""Where a layered network's neurons, weights and sums live on an array of processors (D11, D13).

Layers alternate between two directions. In an odd layer (the first is number 1) column c holds input block c and row r
sums output block r: partial sums travel along the rows. The outputs of row r are then spread along the row, so that
every processor of row r holds input block r of the next layer, whose sums travel along the columns; and so on.

In a forward pass on a ring sums are passed on as they are made, in *rounds*: in each one every position makes its
part of a sum of everybody else, in the order in which they come by, then finishes one of its own.

On a *ring* (torus) every position of the row or column finishes its own share of the sums; on a *line* (mesh, linear
array) the last position finishes all of them.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

__all__ = ["Axis", "Placement", "blocks"]


def blocks(total: int, parts: int, *, larger_last: bool = False) -> list[list[int]]:
    """Split 0..total-1 into consecutive parts whose sizes differ by at most 1, larger ones first or last."""
    sizes = [total // parts + (part < total % parts) for part in range(parts)]
    ends = np.cumsum([0, *(reversed(sizes) if larger_last else sizes)]).tolist()
    return [list(range(*pair)) for pair in pairwise(ends)]


@dataclass(frozen=True)
class Axis:
    """A row or column of processors along which sums travel.

    Attributes
    ----------
    length
        Processors.
    ring
        Whether its ends are joined.
    rounds
        Whether a block is kept in the order of rounds, own sums last in each, or own sums first.
    light
        Positions of a ring that have less to compute than others. Where they are more than half, and enough for one sum
        each, they finish them all; fewer ones would make some sums' way longer.
    """

    length: int
    ring: bool
    rounds: bool = False
    light: tuple[int, ...] = ()

    def chunks(self, size: int) -> list[list[int]]:
        """Which sums of a block of `size` every position finishes."""
        if self.ring and not self.rounds:
            return blocks(size, self.length)
        if self.ring:
            # Evenly spread: every sum is then under way for as long, and words of neighbours do not queue.
            most = 2 * len(self.light) > self.length and size <= len(self.light)
            light = self.light if most else range(self.length)
            ends = [place * size // len(light) for place in range(len(light) + 1)]
            shares = {position: list(range(*pair)) for position, pair in zip(light, pairwise(ends), strict=True)}
            return [shares.get(position, []) for position in range(self.length)]
        return [*([] for _ in range(self.length - 1)), list(range(size))]

    def order(self, size: int, position: int) -> list[int]:
        """Order in which a position keeps a block: its own sums first or last, the others as they arrive."""
        chunks = self.chunks(size)
        if self.rounds:
            return [
                chunks[(position - distance) % self.length][item]
                for item in range(max(map(len, chunks)))
                for distance in range(1, self.length + 1)
                if item < len(chunks[(position - distance) % self.length])
            ]
        others = [
            chunks[(position - distance) % self.length][item]
            for item in range(max(map(len, chunks)))
            for distance in range(1, self.length)
            if item < len(chunks[(position - distance) % self.length])
        ]
        return chunks[position] + others

    def travel(self, owner: int) -> list[int]:
        """Positions in the order in which they add to a sum that ends at `owner`."""
        return [(owner + 1 + step) % self.length for step in range(self.length)]


@dataclass(frozen=True)
class Placement:
    """A network of given layer sizes on a grid of rows × columns.

    Attributes
    ----------
    sizes
        Neurons of every layer, inputs first.
    rows, columns
        Logical array; a linear array is one row.
    ring
        Whether rows and columns are rings.
    rounds
        Whether blocks are kept in the order of rounds; only rings can.

    Raises
    ------
    ValueError
        If there is no layer of weights, or a layer has no neuron, or lines are asked for rounds.
    """

    sizes: tuple[int, ...]
    rows: int
    columns: int
    ring: bool
    rounds: bool = False

    def __post_init__(self) -> None:
        if self.rounds and not self.ring:
            raise ValueError("rounds must be False on lines, not True")
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise ValueError(f"sizes must be two or more numbers of at least 1, not {self.sizes}")

    @property
    def layers(self) -> range:
        """Numbers of the layers that have weights."""
        return range(1, len(self.sizes))

    def axis(self, layer: int) -> Axis:
        """Axis along which the sums of a layer travel: rows for odd layers, columns for even ones."""
        return Axis(self.columns if layer % 2 else self.rows, self.ring, self.rounds, self._light(layer))

    def _light(self, layer: int) -> tuple[int, ...]:
        """Positions of a layer's axis with small blocks of the layers before and behind it, which they compute with."""
        sizes = [[len(block) for block in self._blocks[k]] for k in (layer - 1, layer + 1) if k < len(self.sizes)]
        loads = [sum(position) for position in zip(*sizes, strict=True)]
        return tuple(position for position, load in enumerate(loads) if load == min(loads))

    def position(self, layer: int, row: int, column: int) -> int:
        """Position of a processor on the axis of a layer; also the number of its input block."""
        return column if layer % 2 else row

    def block(self, layer: int, row: int, column: int) -> int:
        """Return the number of a processor's output block in a layer."""
        return row if layer % 2 else column

    @cached_property
    def _blocks(self) -> list[list[list[int]]]:
        # Layer 0 is split over the columns, as the outputs of a layer 0 summed along columns would be. The larger
        # blocks of layers 0 and 2 are at different ends, so that no processor has both, and so on; the row where
        # outputs of even layers leave has a smaller block of layer 1.
        return [
            blocks(size, self.rows if layer % 2 else self.columns, larger_last=layer % 4 in (1, 2))
            for layer, size in enumerate(self.sizes)
        ]

    def held(self, layer: int, row: int, column: int) -> list[int]:
        """Neurons of a layer that a processor holds, in its order: inputs of the next layer, rows of this one's W."""
        members = self._blocks[layer][self.block(layer, row, column)]
        if layer == 0:
            return members
        order = self.axis(layer).order(len(members), self.position(layer, row, column))
        return [members[i] for i in order]

    def owned(self, layer: int, row: int, column: int) -> list[int]:
        """Neurons whose sums a processor finishes; without rounds they come first in :meth:`held`."""
        members = self._blocks[layer][self.block(layer, row, column)]
        chunk = self.axis(layer).chunks(len(members))[self.position(layer, row, column)]
        return [members[i] for i in chunk]

    def sum_orders(self, layer: int, *, backward: bool = False) -> np.ndarray:
        """Order of addition behind every finished sum, for models that must give the same bits.

        Parameters
        ----------
        layer
            Layer whose neurons are summed: its net inputs, or, backward, the errors that reach them from above.

        Returns
        -------
        np.ndarray
            int64, shape (neurons, positions, longest): indices of the addends, positions in the order of travel;
            the number of addends where a position has fewer than the longest.
        """
        source = layer + 1 if backward else layer - 1
        axis = self.axis(layer)
        table: list[list[list[int]]] = [[] for _ in range(self.sizes[layer])]
        for row in range(self.rows):
            for column in range(self.columns):
                position = self.position(layer, row, column)
                for neuron in self.owned(layer, row, column):
                    travel = axis.travel(position)
                    places = [(row, p) if layer % 2 else (p, column) for p in travel]
                    table[neuron] = [self.held(source, *place) for place in places]
        longest = max(len(addends) for sums in table for addends in sums)
        filled = [[a + [self.sizes[source]] * (longest - len(a)) for a in sums] for sums in table]
        return np.asarray(filled, dtype=np.int64)
