"""Simulators of machines, with a memory behind every chiplet."""

from __future__ import annotations

from dataclasses import replace

from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.host.hosted import Hosted
from hw.machine import Units, machine_of
from hw.ring.formats import RingConfig
from hw.stream.black_box import black_boxes_of
from sim.harness import BuildOptions
from sim.harness.build import Build, remembered
from sim.harness.modules import module_sources
from sim.models.simulate import build_with_memory
from sim.models.wrap import MemoryModel
from sim.ring.machine import build_ring

__all__ = ["build_machine", "depth_of"]

#: Smallest memory that is built, in bytes, so that runs of small graphs share one simulator.
_MEMORY_BYTES = 1 << 22


def depth_of(size: int, port: tuple[int, int]) -> int:
    """Return the beats of a memory for so many bytes, behind a port of these widths."""
    return 1 << (max(size, _MEMORY_BYTES) // (port[1] // 8) - 1).bit_length()


def build_machine(
    config: GatherChipletConfig | CommunityChipletConfig,
    units: Units | None = None,
    ring: RingConfig | None = None,
    *,
    name: str,
    size: int,
    hosted: bool = False,
    options: BuildOptions | None = None,
) -> Build:
    """Build the simulator of a machine, or of a ring of them.

    Parameters
    ----------
    config, units, ring
        As for `hw.machine.machine_of`.
    name
        Of the design.
    size
        Of each memory, in bytes at least.
    hosted
        Whether every machine stands behind its control port.
    options
        Of the build.
    """
    options = options or BuildOptions()
    depth = depth_of(size, config.port)

    def make() -> Build:
        # A chiplet with gather PEs that is alone is small enough to be compiled as one.
        once = ring is not None or config.kind == "community"
        component = machine_of(config, units, ring, once=once)
        component = Hosted(component) if hosted else component
        if ring is not None:
            return build_ring(component, ring, name, depth, options)
        return build_with_memory(
            component,
            name,
            memories={"m_axi": MemoryModel(depth=depth)},
            sources=module_sources(component, name),
            options=replace(options, blocks=tuple(black_boxes_of(component))),
        )

    return remembered((config, units, ring, name, depth, hosted, options), make)
