"""Sizes of a chiplet with community PEs."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from contracts.parameters import Parameters, part, size
from hw.community.formats import PES, CommunityConfig
from hw.community.hub_unit import clearing_cycles
from hw.locator.config import LocatorConfig
from hw.pe.formats import PEConfig

__all__ = ["CommunityChipletConfig"]


@dataclass(frozen=True)
class CommunityChipletConfig(Parameters):
    """Sizes of a chiplet with community PEs.

    Parameters
    ----------
    community
        Sizes of a PE and of a combiner.
    locator
        Sizes of the locator, whose nodes and edges bound the graph; it has at most four record streams.
    clusters
        Parts with as many combiners, PEs, hub units, row finishers and record streams each, and a memory port of their
        own, so all of these are multiples of it. The first one's port is also that of the rest of the chiplet.
    combiners
        Combiners, each of which multiplies features of any vertex by its copy of the weights.
    pes
        PEs, which sum the combined rows of records.
    units
        Hub units, which keep and finish hubs.
    hubs
        Most hubs of a unit.
    hops
        Reach of the allocator's smoothing, in PEs.
    split
        Largest difference between a record's PE and the least busy one of its cluster with which it goes to a PE whole,
        in work, of which a node has two and a hub one; other records are split. 0: none is.
    depth
        Most outstanding beats of the feature reader; as many as the memory's latency in cycles plus a burst keep it
        busy.
    kept
        Pairs of words of records that are kept, see `hw.community.record_words.WordFormat`. If all records of a graph
        fit, layers after the first need no location.
    finishers
        Row finishers, which PEs and hub units share; at most as many as there are of these.
    scratch_lines
        As in `GatherChipletConfig`.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    #: As in `GatherChipletConfig`.
    kind: ClassVar[Literal["community"]] = "community"
    counters: ClassVar[tuple[str, ...]] = (
        "gross", "formed", "worked", "smoothed", "shared", "replayed", "communities", "hubs", "rounds", "edges_read",
    )  # fmt: skip

    community: CommunityConfig = part(CommunityConfig, follows=("partials", "vid_bits", "shares"))
    locator: LocatorConfig = part(LocatorConfig, follows=("apart", "external", "page", "window"))
    clusters: int = size(1, values=(1, 2, 4))
    combiners: int = size(8, 1, 16)
    pes: int = size(8, 1, PES)
    units: int = size(4, values=(1, 2, 4, 8, 16))
    hubs: int = size(512, 8, 1 << 16, power=True)
    hops: int = size(3, 0, 3)
    split: int = size(0, 0, 511)
    depth: int = size(128, 16, 4096)
    kept: int = size(4096, 32, power=True)
    finishers: int = size(1, 1, lambda chiplet: chiplet.pes + chiplet.units)
    scratch_lines: int = size(0, 128, power=True, zero=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, count in (
            *((name, getattr(self, name)) for name in ("combiners", "pes", "units", "finishers")),
            ("locator.outputs", self.locator.outputs),
        ):
            if count % self.clusters:
                raise ValueError(f"{name} must be a multiple of clusters = {self.clusters}, not {count!r}")
        if self.locator.outputs > 4:
            raise ValueError(f"locator.outputs must be in 1..4, not {self.locator.outputs!r}")
        if self.locator.external or self.locator.paged:
            raise ValueError(
                "locator.external must be False and locator.window 0: the chiplet keeps its graph on the chip"
            )
        if self.locator.data_width != self.community.data_width:
            raise ValueError(f"locator.data_width must be {self.community.data_width}, not {self.locator.data_width!r}")
        if self.locator.c_max + self.locator.hubs > self.community.width:
            raise ValueError(
                f"community.width must be at least {self.locator.c_max + self.locator.hubs}, c_max and hubs of the "
                f"locator, not {self.community.width!r}"
            )
        vid_bits = max(3, self.locator.node_bits)
        object.__setattr__(self, "community", replace(self.community, vid_bits=vid_bits, shares=self.split > 0))
        object.__setattr__(self, "locator", replace(self.locator, apart=self.clusters > 1))

    @property
    def pe(self) -> PEConfig:
        """Sizes of a combiner."""
        return self.community.pe

    @property
    def partials(self) -> bool:
        """Whether it can work on a ring, where vertices may be halves of partial sums."""
        return self.community.partials

    @property
    def port(self) -> tuple[int, int]:
        """Widths of a memory port: of a byte address and of a beat, in bits."""
        return self.locator.address_width, self.community.data_width

    @property
    def port_bytes(self) -> int:
        """Bytes that all memory ports together carry each way in a cycle."""
        return self.clusters * self.community.data_width // 8

    @property
    def parts(self) -> tuple[str, ...]:
        """What is watched at work, in the order of the bits of ``working``."""
        multipliers = (f"combiner {n}" for n in range(self.combiners))
        return *multipliers, *(f"PE {n}" for n in range(self.pes))

    @property
    def settling(self) -> int:
        """Cycles after a reset in which tables are cleared; work that is started then waits for their end."""
        return max(clearing_cycles(self.locator.nodes, self.hubs, self.units), self.locator.settling)

    @property
    def lanes(self) -> int:
        """Multipliers of the whole chiplet."""
        return self.combiners * self.pe.lanes
