"""Sizes of a chiplet with community PEs."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from contracts.parameters import Parameters, part, size
from hw.community.formats import CommunityConfig
from hw.locator.config import LocatorConfig
from hw.pe.formats import PEConfig

__all__ = ["CommunityChipletConfig"]


@dataclass(frozen=True)
class CommunityChipletConfig(Parameters):
    """Sizes of a chiplet with community PEs.

    Parameters
    ----------
    community
        Sizes of a PE.
    locator
        Sizes of the locator, whose nodes and edges bound the graph; it has at most four record streams.
    pes
        PEs, which combine nodes and hubs and sum records.
    units
        Hub units, which keep and finish hubs.
    hubs
        Most hubs of a unit.
    hops
        Reach of the allocator's smoothing, in PEs.
    depth
        Most outstanding beats of a reader; as many as the memory's latency in cycles plus a burst keep it busy.
    kept
        Words of records that are kept, see `hw.community.record_words.WordFormat`. If all records of a graph fit,
        layers after the first need no location.
    ways
        Elements of a hub that a unit finishes in a cycle, at most ``lanes`` of a PE.
    row_lines
        Lines of 64 bytes for rows that stay on the chip between layers; 0: all go to memory. A ring has none.

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

    community: CommunityConfig = part(CommunityConfig, follows=("partials",))
    locator: LocatorConfig = part(LocatorConfig, follows=("external", "page", "window"))
    pes: int = size(8, 1, 16)
    units: int = size(4, values=(1, 2, 4, 8))
    hubs: int = size(512, 8, 1 << 16, power=True)
    hops: int = size(3, 0, 3)
    depth: int = size(128, 16, 4096)
    kept: int = size(8192, 64, power=True)
    ways: int = size(4, 1, lambda chiplet: chiplet.community.lanes, power=True)
    row_lines: int = size(0, 2, power=True, zero=True)

    def __post_init__(self) -> None:
        super().__post_init__()
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
