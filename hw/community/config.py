"""Sizes of a chiplet with community PEs."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hw.community.formats import CommunityConfig, HubConfig
from hw.locator.config import LocatorConfig
from hw.pe.formats import PEConfig

__all__ = ["CommunityChipletConfig"]


@dataclass(frozen=True)
class CommunityChipletConfig:
    """Sizes of a chiplet with community PEs.

    Parameters
    ----------
    community
        Of a PE.
    locator
        Of the locator, whose nodes and edges bound the graph; its record streams, 1 to 4, go side by side.
    pes
        PEs, 1 to 16, which combine nodes and hubs and sum records up.
    units
        Hub units, 1, 2, 4 or 8, which keep and finish hubs.
    hubs
        Hubs of a unit at most, a power of two from 8.
    hops
        Reach of the allocator's smoothing, 0 to 3.
    depth
        Beats a reader may have asked for.
    kept
        Beats of records that are kept for each PE, a power of two from 64: if all records of a graph fit, the layers
        after the first have them without a location.
    ways
        Elements of a hub that a unit finishes in a cycle, a power of two up to the lanes.
    row_lines
        Lines of 64 bytes for rows that stay on the chip between layers, a power of two from 2; 0: all go to memory.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    #: As in `GatherChipletConfig`.
    kind: ClassVar[Literal["community"]] = "community"
    counters: ClassVar[tuple[str, ...]] = (
        "gross", "formed", "worked", "smoothed", "replayed", "communities", "hubs", "rounds", "edges_read",
    )  # fmt: skip

    community: CommunityConfig = field(default_factory=CommunityConfig)
    locator: LocatorConfig = field(default_factory=LocatorConfig)
    pes: int = 8
    units: int = 4
    hubs: int = 512
    hops: int = 3
    depth: int = 128
    kept: int = 2048
    ways: int = 4
    row_lines: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.pes <= 16:
            raise ValueError(f"pes must be in 1..16, not {self.pes!r}")
        if self.units not in (1, 2, 4, 8):
            raise ValueError(f"units must be 1, 2, 4 or 8, not {self.units!r}")
        if self.kept < 64 or self.kept & (self.kept - 1):
            raise ValueError(f"kept must be a power of two from 64, not {self.kept!r}")
        _ = HubConfig.of(self.community, self.hubs, self.ways)  # which checks both
        if self.row_lines == 1 or self.row_lines & (self.row_lines - 1):
            raise ValueError(f"row_lines must be 0 or a power of two from 2, not {self.row_lines!r}")
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

    @property
    def pe(self) -> PEConfig:
        """Sizes of the PEs that combine."""
        return self.community.pe

    @property
    def partials(self) -> bool:
        """Whether it can work on a ring, where vertices may be halves of partial sums."""
        return self.community.partials

    @property
    def port(self) -> tuple[int, int]:
        """Widths of the memory port: of a byte address and of a beat, in bits."""
        return self.locator.address_width, self.community.data_width

    @property
    def parts(self) -> tuple[str, ...]:
        """What is watched at work, in the order of the bits of ``working``."""
        return tuple(f"PE {n} {part}" for n in range(self.pes) for part in ("multipliers", "adders"))

    @property
    def settling(self) -> int:
        """Cycles after a reset in which tables by VID are cleared; work that is started then waits for their end."""
        return max(self.locator.nodes, self.hubs)

    @property
    def lanes(self) -> int:
        """Multipliers of the whole chiplet, as many as adders for rows."""
        return self.pes * self.community.lanes

    @property
    def readers(self) -> int:
        """Feature readers, which share the PEs: each looks a vertex up in two cycles."""
        return min(self.pes, 2)
