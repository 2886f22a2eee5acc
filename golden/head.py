"""A classifier head on the results of a graph layer: rows to learn and to score, exact results, the image.

The host reads the layer's results back, scales them by a power of two into Q0.15, puts the training vertices' rows and
their targets into one region and all vertices' rows into another. The image has only NEURAL commands: one for
each epoch, of which the first loads table and weights, one that reads the weights back, one that scores all vertices.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contracts import RegionKind
from contracts.dnp.config import FRACTION, HIGHEST, ProcessorConfig
from contracts.dnp.topology import CHIP
from contracts.errors import InputError
from golden.compare import value_differences
from golden.dnp.arithmetic import Ints
from golden.dnp.assembler import AssemblyError
from golden.dnp.deep_head import DeepHead
from golden.dnp.head import ROWS, Head, Task
from golden.dnp.network import WEIGHT_FRACTION, Learning, Network
from golden.graph import Graph
from golden.image_format import Image
from golden.model.layer import Int16Array
from golden.model.network import Problem
from golden.program.layer import End, neural
from golden.program.program import Program, Reference, Section

__all__ = ["TASKS", "HeadProblem", "HeadResults", "check_head", "head_of"]

#: Tasks by their index in the image, where they stand for layers.
TASKS = (Task.LEARN, Task.READ, Task.SCORE)
#: Rows of a command: each one's first row is at the first processor, and at the start of a line.
_TOGETHER = ROWS - ROWS % CHIP.processors
#: η of eq. 4, and the largest initial weight, without and with hidden layers: errors get smaller from layer to layer.
_RATE, _SPREAD, _SPREAD_DEEP = 2.0, 0.1, 1.0


class HeadResults(NamedTuple):
    """Results of a head.

    Attributes
    ----------
    learning
        Outputs before every step of the last epoch, int16 [training vertices, classes].
    network
        Weights and biases after it.
    scoring
        Outputs of all vertices, int16 [nodes, classes].
    """

    learning: Int16Array
    network: Network
    scoring: Int16Array


def head_of(features: int, classes: int, core: ProcessorConfig, seed: int = 0, hidden: Sequence[int] = ()) -> Head:
    """Return a head with small random weights and hidden layers of the given widths.

    Raises
    ------
    InputError
        If it does not fit on a processor.
    """
    try:
        sizes, kind = (features, *hidden, classes), DeepHead if hidden else Head
        head = kind(Network.random(sizes, seed, _SPREAD_DEEP if hidden else _SPREAD), Learning(_RATE), core)
        # This is its longest program.
        head.words(Task.LEARN, ROWS, load=True)
    except AssemblyError:
        raise InputError(
            "head", f"has programs of more than {core.p_depth} words", "a larger [neural] p_depth"
        ) from None
    except ValueError as error:
        raise InputError("head", str(error), "fewer features or classes, or larger memories in [neural]") from None
    return head


def check_head(graph: Graph, epochs: int, layers: int) -> None:
    """Refuse a problem without training data.

    Raises
    ------
    InputError
        If there is no epoch, no layer before the last, or no training vertex of known class.
    """
    if epochs < 1:
        raise InputError("head", f"learns {epochs} epochs", "at least 1")
    if layers < 2:
        raise InputError("head", f"there are {layers} layers", "at least 2; it learns from the results before the last")
    if not (graph.train & (graph.labels >= 0)).any():
        raise InputError(f"graph {graph.name}, train", "has no node of known class", "at least one to learn from")


@dataclass(frozen=True, eq=False)
class HeadProblem:
    """A head, its training data, and the number of epochs.

    Attributes
    ----------
    problem
        The network and its graph.
    features
        int16 [nodes, features], results of a layer of the network.
    head
        Head with the number of features of `features` and of classes of the graph.
    epochs
        Passes over the training vertices of known class, in the order of VIDs; at least 1.
    """

    problem: Problem
    features: Int16Array
    head: Head
    epochs: int

    @cached_property
    def learnt(self) -> npt.NDArray[np.intp]:
        """VIDs of the training vertices."""
        graph = self.problem.graph
        return np.flatnonzero(graph.train & (graph.labels >= 0))

    @cached_property
    def shift(self) -> int:
        """Bits by which features can be shifted to the left so that the largest still fits."""
        values = self.features.astype(np.int64)
        return FRACTION - int(np.where(values < 0, ~values, values).max(initial=0)).bit_length()

    @cached_property
    def scaled(self) -> Int16Array:
        """Features in Q0.15."""
        return (self.features.astype(np.int64) << self.shift).astype(np.int16)

    @cached_property
    def targets(self) -> Int16Array:
        """int16 [training vertices, classes]: the largest word for the vertex's class, 0 for the others."""
        classes = np.arange(self.head.classes)
        return np.where(self.problem.graph.labels[self.learnt, None] == classes, HIGHEST, 0).astype(np.int16)

    @cached_property
    def exact(self) -> HeadResults:
        """Expected results of the chip."""
        model = self.head.model()
        outputs: list[Ints] = []
        rows, targets = self.scaled.astype(np.int64), self.targets.astype(np.int64)
        for _ in range(self.epochs):
            steps = zip(rows[self.learnt], targets, strict=True)
            outputs = [model.learn(row, target, self.head.learning) for row, target in steps]
        scores = [model.forward(row)[-1] for row in rows]
        return HeadResults(np.array(outputs).astype(np.int16), model.network, np.array(scores).astype(np.int16))

    def differences(self, results: Sequence[Int16Array]) -> list[str]:
        """Return the differences of results from those of the golden head, a line for each task; empty if bit-exact."""
        learning, reading, scoring = results
        network = self.head.read(reading.astype(np.int64))
        many = len(network.weights) > 1
        pairs: list[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]] = [
            ("outputs while learning", self.exact.learning, learning)
        ]
        for layer in range(len(network.weights)):
            of = f" of layer {layer + 1}" if many else ""
            pairs.append((f"weights{of}", self.exact.network.weights[layer], network.weights[layer]))
            pairs.append((f"biases{of}", self.exact.network.biases[layer], network.biases[layer]))
        pairs.append(("outputs", self.exact.scoring, scoring))
        return [line for what, want, got in pairs for line in value_differences(f"head, {what}", want, got)]

    def floating(self) -> npt.NDArray[np.int64]:
        """Classes by a head in floating point with the same rows, rule and initial weights: int64 [nodes]."""
        return np.argmax(self.float_outputs(), axis=1).astype(np.int64)

    def float_outputs(self) -> npt.NDArray[np.float64]:
        """Return the outputs of that head for all vertices: float64 [nodes, classes]."""
        network, rate = self.head.network, self.head.learning.rate
        rows, targets = (np.ldexp(values.astype(np.float64), -FRACTION) for values in (self.scaled, self.targets))
        weights, biases = (
            [np.ldexp(layer.astype(np.float64), -WEIGHT_FRACTION) for layer in part]
            for part in (network.weights, network.biases)
        )

        def forward(row: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
            layers = [row]
            for w, b in zip(weights, biases, strict=True):
                layers.append(1 / (1 + np.exp(-(layers[-1] @ w.T + b))))
            return layers

        for _ in range(self.epochs):
            for row, target in zip(rows[self.learnt], targets, strict=True):
                layers = forward(row)
                error = target - layers[-1]
                steps: list[npt.NDArray[np.float64]] = []
                for w, output in zip(reversed(weights), reversed(layers[1:]), strict=True):
                    steps.insert(0, error * output * (1 - output))
                    error = steps[0] @ w
                for w, b, step, given in zip(weights, biases, steps, layers[:-1], strict=True):
                    w += rate * np.outer(step, given)
                    b += rate * step
        return forward(rows)[-1]

    def image(self) -> Image:
        """Image of one chiplet: its layers are `TASKS`, their results as in `HeadResults`.

        Raises
        ------
        InputError
            If it would be larger than 2^32 lines.
        """
        p, programs = Program(), dict[tuple[Task, int, bool], Section]()
        commands = list(self._commands())
        for task, _, count, load in commands:
            if (task, count, load) not in programs:
                words = self.head.words(task, count, load=load)
                programs[task, count, load] = p.words(RegionKind.PROGRAM, words, len(programs))
        scored = p.rows(RegionKind.FEATURES, self.scaled, TASKS.index(Task.SCORE))
        # A read command consumes a word of each of four rows, with any value.
        rows = {
            Task.LEARN: p.rows(RegionKind.FEATURES, np.hstack([self.scaled[self.learnt], self.targets])),
            Task.READ: scored,
            Task.SCORE: scored,
        }
        results = {}
        for layer, task in enumerate(TASKS):
            kind = RegionKind.RESULTS if task is TASKS[-1] else RegionKind.HIDDEN
            results[task] = p.reserve_rows(kind, self._counts[task], self.head.widths(task)[1], layer)
        for task, first, count, load in commands:
            program = programs[task, count, load]
            given, left = Reference.row(rows[task], first), Reference.row(results[task], first)
            end = End(program, program.rows, first, count)
            neural(p, TASKS.index(task), end, given, left, self.head.widths(task))
        return p.image(self.problem, layers=len(TASKS), edges=0)

    @cached_property
    def _counts(self) -> dict[Task, int]:
        """Rows of each task."""
        return {Task.LEARN: self.learnt.size, Task.READ: CHIP.processors, Task.SCORE: len(self.features)}

    def _commands(self) -> Iterator[tuple[Task, int, int, bool]]:
        """Yield task, first row, number of rows, and whether weights are loaded, of every command."""
        for number, task in enumerate([Task.LEARN] * self.epochs + [Task.READ, Task.SCORE]):
            for first in range(0, self._counts[task], _TOGETHER):
                yield task, first, min(_TOGETHER, self._counts[task] - first), number == first == 0
