"""Attribute processor against the golden model, request by request."""

from pathlib import Path

import numpy as np
import pytest

from golden.attributes.cache import AttributeRam
from golden.contracts import Policy
from hw.attributes.formats import AttributeConfig
from tb.attributes.trace_bench import Phase, check, narrow, play

NODES = 60
DEGREES = np.random.default_rng(5).integers(0, 30, NODES).tolist()


def ram_of(config: AttributeConfig) -> AttributeRam:
    return AttributeRam(config.slots, config.ways, config.policy, NODES, lambda node: DEGREES[node])


def random_requests(
    rng: np.random.Generator, count: int, slots: int, nodes: int = NODES, beyond: float = 0.01
) -> tuple[tuple[int, int, int], ...]:
    """Draw requests of uneven popularity, often at the slot of the one before, sometimes of IDs outside the graph."""
    ids = np.minimum(rng.geometric(0.06, count) - 1, nodes - 1)
    ids = np.where(rng.random(count) < beyond, nodes + rng.integers(0, 1 << 20, count), ids)
    spots = np.where(rng.random(count) < 0.5, ids % slots, rng.integers(0, slots, count))
    return tuple(zip(ids.tolist(), spots.tolist(), rng.integers(0, 2, count).tolist(), strict=True))


@pytest.mark.parametrize("policy", list(Policy), ids=lambda policy: policy.name.lower())
def test_random_requests(policy: Policy, tmp_path: Path) -> None:
    config = narrow(policy=policy)
    rng = np.random.default_rng(int(policy))
    phases = [
        Phase(random_requests(rng, 1500, config.slots)),
        Phase(random_requests(rng, 1500, config.slots), failing=(3, 9), stall=0.3, hold=0.3, idle=0.3, latency=40),
        Phase(random_requests(rng, 1500, config.slots), stall=0.5, hold=0.6, latency=3, out_of_order=True),
    ]
    played, _ = play(config, phases, tmp_path, nodes=NODES, degrees=DEGREES)
    ram = ram_of(config)
    for phase, out in zip(phases, played, strict=True):
        check(config, ram, phase, out)
