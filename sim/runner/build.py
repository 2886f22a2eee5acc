"""Simulators of machines, with a memory behind every chiplet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.config import design_name
from hw.host.hosted import Hosted
from hw.machine import Units, machine_of
from hw.ring.formats import RingConfig
from hw.stream.black_box import black_boxes_of
from sim.harness import BuildOptions
from sim.harness.build import Build, build, remembered
from sim.harness.modules import module_sources
from sim.harness.ports import stream_ports
from sim.models.simulate import NO_FSM
from sim.models.wrap import SOURCES
from sim.runner.top import machine_top, node_of

__all__ = ["build_component", "build_machine"]

#: Smallest memory that is built, in bytes, so that runs of small graphs share one simulator.
_MEMORY_BYTES = 1 << 22


def build_machine(
    config: GatherChipletConfig | CommunityChipletConfig,
    units: Units | None = None,
    ring: RingConfig | None = None,
    *,
    size: int,
    hosted: bool = False,
    options: BuildOptions | None = None,
) -> Build:
    """Build the simulator of a machine, or of a ring of them: one for all with the same sizes.

    Parameters
    ----------
    config, units, ring
        As for `hw.machine.machine_of`.
    size
        Of each memory, in bytes at least.
    hosted
        Whether every machine stands behind its control port.
    options
        Of the build.
    """
    name = design_name(config, ring.chiplets if ring else 1)

    def make() -> Build:
        # A gather chiplet that is alone is small enough to be compiled in one piece.
        component = machine_of(config, units, ring, once=ring is not None or config.kind != "gather")
        return build_component(Hosted(component) if hosted else component, config.port, ring, name, size, options)

    return remembered((config, units, ring, _depth(size, config.port), hosted, options), make)


def build_component(
    component: Any,
    port: tuple[int, int],
    ring: RingConfig | None,
    name: str,
    size: int,
    options: BuildOptions | None = None,
) -> Build:
    """Build the simulator of a chiplet with whatever stands around it, as in `machine_top`.

    Chiplets of a ring are compiled once for all positions, with their memories, so that few signals cross the border: a
    large one would take minutes for each. Modules that repeat inside them are not compiled apart: it would save no time
    there, and a block that is simulated behind its ports takes twice as long.

    Parameters
    ----------
    component
        A chiplet; a ring has as many as `ring` allows.
    port
        Address and data width of its memory port, in bits.
    ring, size, options
        As for `build_machine`.
    name
        Of the top.
    """
    design, options = f"{name}_chiplet", options or BuildOptions()
    # The rules hold for streams of a chiplet that is alone: on a ring one may be reset in the middle of a transfer.
    ports = () if ring else [replace(one, name=f"c0_{one.name}") for one in stream_ports(component)]
    blocks = (node_of(name),) if ring else tuple(black_boxes_of(component))
    return build(
        component,
        design,
        sources=[*SOURCES, *module_sources(component, design)],
        toplevel=name,
        texts={f"{name}.sv": machine_top(component, ring, design, name, _depth(size, port))},
        ports=ports,
        options=replace(options, blocks=blocks, arguments=(*options.arguments, *NO_FSM)),
    )


def _depth(size: int, port: tuple[int, int]) -> int:
    """Return the beats of a memory for so many bytes, behind a port of these widths."""
    return 1 << (max(size, _MEMORY_BYTES) // (port[1] // 8) - 1).bit_length()
