"""A classifier head with hidden layers that learns on a neural chip (eq. 1-4, D8, D9).

The chip's processors are a ring, 0 - 1 - 3 - 2, and the head is placed on it as the mapper places networks on a row of
a torus: features are shared out, sums of odd layers go round the ring and finished values with them; classes of even
layers are shared out and their sums stay where they are. Errors of hidden layers (eq. 3) are summed round the ring.

A row's words come to one processor, which keeps its share and hands the others on round the ring; targets likewise.
Outputs go on round the ring to that processor, in the order of classes. Tasks are those of `golden.dnp.head`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from contracts.dnp.config import HIGHEST, LOWEST
from contracts.dnp.topology import CHIP, OUTER
from golden.dnp.arithmetic import Ints
from golden.dnp.head import Head, Task
from golden.dnp.layout import Layout
from golden.dnp.network import Network, NetworkModel
from golden.dnp.placement import Placement
from golden.dnp.program_text import ProgramText

__all__ = ["DeepHead"]

#: Processors in the order of the ring, and the port that leads each to the next one.
_RING, _AHEAD = (0, 1, 3, 2), ("E", "S", "W", "N")
_POSITIONS = len(_RING)


class _Text(ProgramText):
    """Text of a processor whose logical row is the ring."""

    def ports(self, layer: int) -> tuple[str, str]:
        return self.ahead, self.behind

    @property
    def ahead(self) -> str:
        """Port to the next processor."""
        return _AHEAD[self.column]

    @property
    def behind(self) -> str:
        """Port to the processor before, which is that processor's port ahead, seen from the other end."""
        return {"E": "W", "S": "N", "W": "E", "N": "S"}[_AHEAD[self.column - 1]]

    def take(self, shares: list[list[int]], base: int, owner: int, port: str) -> None:
        """Keep the own share of words that come in the order of positions, hand those of positions beyond on."""
        distance = (self.column - owner) % _POSITIONS
        came = self.behind if distance else port
        self.point(xr2=base)
        for position, share in enumerate(shares):
            if position == self.column:
                self.repeat(len(share), f"INX {came} XM[2]+")
            elif (position - owner) % _POSITIONS > distance:
                self.repeat(len(share), f"FWD {came} {self.ahead}")

    def give(self, shares: list[list[int]], base: int, owner: int, port: str) -> None:
        """Send own outputs, and hand on those of positions between the owner and this one, in the order of classes."""
        distance = (self.column - owner) % _POSITIONS
        to = self.ahead if distance else port
        self.point(xa2=base)
        for position, share in enumerate(shares):
            if position == self.column:
                self.repeat(len(share), f"OUT XM[2]+ {to}")
            elif not distance or 0 < (position - owner) % _POSITIONS < distance:
                self.repeat(len(share), f"FWD {self.behind} {to}")


@dataclass(frozen=True, eq=False)
class DeepHead(Head):
    """Programs and data of a head with hidden layers; its interface is that of `Head`.

    Raises
    ------
    ValueError
        If the network has a single layer, WM or XM is too small, a weight does not fit 16 bits, or the momentum is so
        near to 1 that Q0.15 has no word for it.
    """

    def __post_init__(self) -> None:
        if len(self.network.weights) < 2:
            raise ValueError("network must have two layers of weights or more, not 1")
        for name, words in (("weights", self.network.weights), ("biases", self.network.biases)):
            low, high = min(int(w.min()) for w in words), max(int(w.max()) for w in words)
            if low < LOWEST or high > HIGHEST:
                raise ValueError(f"{name} must be in {LOWEST}..{HIGHEST}, not {low}..{high}")
        if (self.learning.momentum_factor or 0) > HIGHEST:
            raise ValueError(f"momentum must be 1 or at most {HIGHEST / (HIGHEST + 1)}, not {self.learning.momentum}")
        self.layouts  # noqa: B018 - raises if a memory is too small

    @cached_property
    def placement(self) -> Placement:
        """Where neurons and weights are: a row of a torus."""
        return Placement(self.network.sizes, 1, _POSITIONS, ring=True)

    @cached_property
    def layouts(self) -> list[Layout]:
        """Addresses by position."""
        return [Layout.of(self.placement, 0, p, self.config, learning=True) for p in range(_POSITIONS)]

    @property
    def read_words(self) -> int:
        """Words of weights and biases of the processor that has most."""
        return max(layout.wm_used for layout in self.layouts) - self.config.table_size

    def own(self, processor: int) -> list[int]:
        """Classes whose outputs a processor finishes."""
        return self.placement.owned(self.placement.layers[-1], 0, _RING.index(processor))

    def widths(self, task: Task) -> tuple[int, int]:
        """Words of a row in, and of a row out."""
        return (1, self.read_words) if task is Task.READ else super().widths(task)

    def model(self) -> NetworkModel:
        """Make a new model of the same head, without clocks: the same bits, with weights of its own."""
        weights, biases = ([a.astype(np.int64) for a in part] for part in (self.network.weights, self.network.biases))
        return NetworkModel(Network(weights, biases), self.placement, self.config.table_bits)

    def _places(self, position: int) -> Iterator[tuple[int, int, list[int], int]]:
        """Yield layer, neuron, its inputs (none: its bias) and the address behind the table, in the order of WM."""
        at, held = 0, self.placement.held
        for layer in self.placement.layers:
            for neuron in held(layer, 0, position):
                inputs = held(layer - 1, 0, position)
                if inputs:
                    yield layer - 1, neuron, inputs, at
                at += len(inputs)
        for layer in self.placement.layers:
            for neuron in self.placement.owned(layer, 0, position):
                yield layer - 1, neuron, [], at
                at += 1

    def _weights(self, processor: int) -> list[int]:
        words: list[int] = []
        for layer, neuron, inputs, _ in self._places(_RING.index(processor)):
            weights, biases = self.network.weights[layer], self.network.biases[layer]
            words += weights[neuron, inputs].tolist() if inputs else [int(biases[neuron])]
        return words

    def read(self, rows: Ints) -> Network:
        """Weights and biases in the rows that READ gives, int [4, width]."""
        made = self.network.copy()
        for processor in range(CHIP.processors):
            for layer, neuron, inputs, at in self._places(_RING.index(processor)):
                if inputs:
                    made.weights[layer][neuron, inputs] = rows[processor, at : at + len(inputs)]
                else:
                    made.biases[layer][neuron] = rows[processor, at]
        return made

    def _lines(self, processor: int, task: Task, rows: int) -> Iterable[str]:
        """Yield a program that takes rows of the four processors in turn.

        What a row takes and gives depends on its owner, what is computed between does not: RF7 keeps the owner, and
        RF6 is 1. A is 0 before and after each part.
        """
        position, last = _RING.index(processor), self.placement.layers[-1]
        at, held, owned = self.layouts[position], self.placement.held, self.placement.owned
        features, classes = ([f(layer, 0, p) for p in range(_POSITIONS)] for f, layer in ((held, 0), (owned, last)))
        text = _Text(self.placement, at, 0, position)
        text.emit(f"LDI #{rows} LC1", "LDI #1 RF6")
        for owner, ring in enumerate(map(_RING.index, range(CHIP.processors))):
            arrive, leave = OUTER[owner]
            text.known.clear()
            text.emit(f"row{owner}:", f"LDI #{owner} RF7")
            text.take(features, at.values[0], ring, arrive)
            if task is Task.LEARN:
                text.take(classes, at.targets, ring, arrive)
            text.emit("JMP row")
            text.known.clear()
            text.emit(f"give{owner}:")
            text.give(classes, at.values[last], ring, leave)
            text.emit(f"LOOP LC1 row{owner + 1}", "HALT")
        text.emit(f"row{CHIP.processors}:", "JMP row0")
        text.known.clear()
        text.emit("row:")
        self._row(text, task)
        text.emit("MOV RF7 A")
        for owner in range(CHIP.processors - 1):
            text.emit(f"BZ from{owner}", "SUB RF6 A")
        text.emit(f"JMP give{CHIP.processors - 1}")
        for owner in range(CHIP.processors - 1):
            text.emit(f"from{owner}:", f"JMP give{owner}")
        return text.lines

    def _row(self, text: _Text, task: Task) -> None:
        """Compute with a row; its outputs stay where the forward pass left them."""
        layers = self.placement.layers
        for layer in layers:
            text.forward(layer)
            if layer < layers[-1]:
                text.gather(layer, text.layout.values[layer])
        if task is Task.LEARN:
            text.output_errors(layers[-1])
            for layer in reversed(layers[:-1]):
                text.hidden_errors(layer)
            for layer in layers:
                text.update(layer, self.learning, output=layer == layers[-1])
