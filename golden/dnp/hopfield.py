"""Another model than back-propagation: a Hopfield network that recalls patterns, on a ring of processors (D13).

Position c of the ring holds the states of its share of the neurons and the columns of W that they drive. A sweep is a
forward pass whose outputs are the next inputs: what a position finishes is exactly what it holds, so nothing but the
partial sums travels. The table is the sign function.
"""

from dataclasses import dataclass

import numpy as np

from contracts.dnp.config import HIGHEST, LOWEST, WORD, ProcessorConfig
from contracts.dnp.topology import Grid, Topology
from golden.dnp.arithmetic import Ints, saturate
from golden.dnp.array import ArrayModel
from golden.dnp.assembler import assemble
from golden.dnp.layout import Layout
from golden.dnp.network import WEIGHT_FRACTION
from golden.dnp.placement import Placement
from golden.dnp.program_text import ProgramText

__all__ = ["Hopfield", "hebbian", "map_hopfield"]


def hebbian(patterns: Ints) -> Ints:
    """Weights Σ p·pᵀ / neurons without self-connections, Q3.12, for patterns of ±1, shape (patterns, neurons)."""
    weights = patterns.T @ patterns / patterns.shape[1] * (1 << WEIGHT_FRACTION)
    np.fill_diagonal(weights, 0)
    return saturate(np.round(weights).astype(np.int64))


@dataclass
class Hopfield:
    """A Hopfield network on a ring.

    Attributes
    ----------
    weights
        Q3.12, shape (neurons, neurons).
    placement, config, layouts, texts
        As for a mapped layered network.
    """

    weights: Ints
    placement: Placement
    config: ProcessorConfig
    layouts: list[Layout]
    texts: list[str]

    def machine(self, states: Ints) -> ArrayModel:
        """Golden machine loaded with everything, started from states of ±1, shape (neurons,)."""
        machine = ArrayModel(self.config, Grid(1, self.placement.columns, Topology.TORUS))
        for processor, text in enumerate(self.texts):
            machine.load(processor, assemble(text, config=self.config).program, *self.memories(processor, states))
        machine.start()
        return machine

    def memories(self, processor: int, states: Ints) -> tuple[dict[int, int], dict[int, int]]:
        """Words of WM and XM of a processor by address."""
        at, held = self.layouts[processor], self.placement.held(0, 0, processor)
        rows = self.placement.held(1, 0, processor)
        sums = np.arange(self.config.table_size) * (1 << (WORD - self.config.table_bits)) + LOWEST
        wm = dict(enumerate(np.where(sums < 0, -HIGHEST, HIGHEST).tolist()))
        wm |= dict(enumerate(self.weights[rows][:, held].reshape(-1).tolist(), at.weights[1]))
        # No biases; a memory holds anything before it is loaded.
        wm |= dict.fromkeys(range(at.biases[1], at.biases[1] + len(held)), 0)
        return wm, dict(enumerate((states[held] * HIGHEST).tolist(), at.values[0]))

    def states(self, machine: ArrayModel) -> Ints:
        """States of ±1 after the program, shape (neurons,)."""
        found = np.zeros(len(self.weights), dtype=np.int64)
        for processor, at in enumerate(self.layouts):
            held = self.placement.held(0, 0, processor)
            found[held] = np.sign(machine.state.xm[processor, at.values[0] : at.values[0] + len(held)])
        return found


def map_hopfield(weights: Ints, positions: int, sweeps: int, config: ProcessorConfig | None = None) -> Hopfield:
    """Place a Hopfield network on a ring of processors, all neurons updated at once in each sweep.

    Raises
    ------
    DoesNotFitError
        If a memory is too small.
    ValueError
        If `sweeps` is not in 1..255.
    """
    if not 1 <= sweeps <= 255:
        raise ValueError(f"sweeps must be in 1..255, not {sweeps!r}")
    config = config or ProcessorConfig()
    placement = Placement((len(weights), len(weights)), 1, positions, ring=True)
    layouts, texts = [], []
    for column in range(positions):
        layout = Layout.of(placement, 0, column, config, learning=False)
        layout.values[1] = layout.values[0]
        program = ProgramText(placement, layout, 0, column)
        program.emit(f"SET #{sweeps} LC0", "sweep:")
        program.forward(1)
        program.emit("LOOP LC0 again", "HALT", "again: JMP sweep")
        layouts.append(layout)
        texts.append("\n".join(program.lines))
    return Hopfield(weights, placement, config, layouts, texts)
