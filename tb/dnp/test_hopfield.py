"""A Hopfield network recalls its patterns, as a float network does."""

import numpy as np
import pytest

from contracts.dnp.config import ProcessorConfig
from golden.dnp.hopfield import hebbian, map_hopfield

NEURONS, PATTERNS, SWEEPS = 40, 3, 4


@pytest.mark.parametrize("positions", [1, 3, 4])
@pytest.mark.parametrize("flipped", [0, 5, 8])
def test_patterns_are_recalled_from_damaged_ones(positions: int, flipped: int) -> None:
    rng = np.random.default_rng(flipped)
    patterns = np.where(rng.random((PATTERNS, NEURONS)) < 0.5, -1, 1)
    damaged = patterns[0].copy()
    damaged[rng.choice(NEURONS, flipped, replace=False)] *= -1
    weights = hebbian(patterns)
    network = map_hopfield(weights, positions, SWEEPS, ProcessorConfig(wm_depth=2000))
    machine = network.machine(damaged)
    machine.run(100_000)
    states = damaged
    for _ in range(SWEEPS):
        states = np.where(weights @ states < 0, -1, 1)
    np.testing.assert_array_equal(network.states(machine), states)
    assert (states == patterns[0]).mean() > 0.9


def test_sweeps_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sweeps must be in 1..255, not 0"):
        map_hopfield(hebbian(np.ones((1, 4), dtype=np.int64)), 1, 0)
