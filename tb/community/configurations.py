"""Configurations of chiplets with community PEs."""

from collections.abc import Mapping
from typing import Any

from contracts.dnp.config import ProcessorConfig
from hw.community.config import CommunityChipletConfig
from hw.community.formats import CommunityConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.locator.config import LocatorConfig
from hw.ring.formats import RingConfig

__all__ = ["NEURAL", "chiplet_config", "ring_config", "small_chiplet"]

#: Beside each chiplet.
NEURAL = NeuralConfig(ProcessorConfig(wm_depth=64, xm_depth=8, p_depth=64, table_bits=5), queue=8, depth=16)


def chiplet_config(
    *, community: Mapping[str, Any] | None = None, locator: Mapping[str, Any] | None = None, **sizes: int
) -> CommunityChipletConfig:
    """Return a configuration from plain numbers."""
    return CommunityChipletConfig(CommunityConfig(**(community or {})), LocatorConfig(**(locator or {})), **sizes)


def small_chiplet(*, partials: bool) -> CommunityChipletConfig:
    """Return two PEs and two hub units with the smallest locator and a port of 64 bits; with `partials` for a ring."""
    return chiplet_config(
        community={
            "lanes": 4, "width": 128, "columns": 256, "partners": 2, "max_out": 16, "weight_rows": 128,
            "data_width": 64, "ways": 2, "partials": partials,
        },
        locator={
            "engines": 2, "searches": 1, "nodes": 512, "edges": 4096, "banks": 4, "lanes": 1, "outputs": 2,
            "data_width": 64,
        },
        combiners=2, pes=2, units=2, hubs=128, kept=64, finishers=2, depth=32, scratch_lines=256,
    )  # fmt: skip


def ring_config(chiplets: int) -> RingConfig:
    """Return a ring of these, with flits of two beats."""
    return RingConfig(chiplets=chiplets, link_width=128, slots=2, max_out=16, window=2, bitmap=64)
