"""Samples through a mapped network on the cycle-exact machine, and what an array leaves behind beside the model."""

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import Edge, Grid
from golden.dnp.arithmetic import Ints
from golden.dnp.array import ArrayModel
from golden.dnp.mapper import Mapping, map_network
from golden.dnp.network import Learning, Network, NetworkModel

__all__ = ["Clocks", "Samples", "check", "count", "pass_through"]

#: Inputs, and targets to learn, sample after sample.
Samples: TypeAlias = Sequence[tuple[Ints, Ints | None]]
#: Clocks a sample may take.
_LIMIT = 1_000_000


@dataclass(frozen=True)
class Clocks:
    """What the cycle-exact machine counted.

    Attributes
    ----------
    samples
        Samples that passed.
    first
        Clocks until every processor had halted with the first one alone.
    all
        Clocks with all of them one after the other.
    waiting
        Share of the clocks in which a processor waits for a partner, float [processors].
    instructions
        Carried out by all processors.
    busy
        Clocks of all processors in which they do not wait.
    """

    samples: int
    first: int
    all: int
    waiting: npt.NDArray[np.float64]
    instructions: int
    busy: int

    @property
    def each(self) -> float:
        """Clocks for a sample of a stream."""
        return (self.all - self.first) / (self.samples - 1) if self.samples > 1 else float(self.all)


def count(
    network: Network,
    grid: Grid,
    config: ProcessorConfig,
    samples: Samples,
    learning: Learning | None = None,
) -> Clocks:
    """Let samples pass the cycle-exact machine, first one alone, then all; compare its words with the model's.

    Raises
    ------
    AssertionError
        If the machine leaves other words than the model.
    DeadlockError
        If the programs wait for each other.
    """
    first = pass_through(network, grid, config, samples[:1], learning)
    machine = pass_through(network, grid, config, samples, learning) if len(samples) > 1 else first
    s = machine.state
    return Clocks(
        len(samples), first.clock, machine.clock, s.blocked / np.maximum(s.clocks, 1), int(s.instructions.sum()),
        int((s.clocks - s.blocked).sum()),
    )  # fmt: skip


def pass_through(
    network: Network,
    grid: Grid,
    config: ProcessorConfig,
    samples: Samples,
    learning: Learning | None,
) -> ArrayModel:
    """Let samples pass; return the machine, whose clock is that in which the last processor halted.

    Raises
    ------
    AssertionError
        If the machine leaves other words than the model.
    DeadlockError
        If the programs wait for each other.
    DoesNotFitError
        If a memory is too small.
    """
    mapping = map_network(network.copy(), grid, config, learning=learning, samples=len(samples))
    machine = mapping.machine()
    machine.edges.update(mapping.feeds(samples))
    clocks = machine.run(_LIMIT * len(samples))
    machine.step()  # the last words leave the output buffers
    machine.clock = clocks
    model = NetworkModel(network.copy(), mapping.placement, config.table_bits)
    check(mapping, model, samples, machine.state.wm.tolist(), {e: end.received for e, end in machine.edges.items()})
    return machine


def check(
    mapping: Mapping,
    model: NetworkModel,
    samples: Samples,
    wm: Sequence[Sequence[int]],
    received: Dictionary[Edge, list[int]],
) -> None:
    """Compare what an array left with the model: weights after learning, or the words that came out.

    Parameters
    ----------
    mapping
        Of the network before the first sample.
    model
        The same network; learning changes it.
    samples
        Inputs and targets.
    wm
        Words of WM afterwards, signed, [processors][depth].
    received
        Words that left at the edge ports; not looked at after learning.

    Raises
    ------
    AssertionError
        If they differ.
    """
    if mapping.learning:
        for inputs, target in samples:
            assert target is not None
            model.learn(inputs, target, mapping.learning)
        found, wanted = mapping.read(wm), model.network
        for layer, pair in enumerate(zip(found.weights, wanted.weights, strict=True), 1):
            assert np.array_equal(*pair), f"weights of layer {layer} differ from the model"
        for layer, pair in enumerate(zip(found.biases, wanted.biases, strict=True), 1):
            assert np.array_equal(*pair), f"biases of layer {layer} differ from the model"
        return
    outputs = [model.forward(inputs)[-1] for inputs, _ in samples]
    for edge in mapping.results():
        order = mapping.order_of_results(edge[1])
        expected = [int(values[n]) for values in outputs for n in order]
        assert received[edge] == expected, f"outputs at edge {edge} differ from the model"
