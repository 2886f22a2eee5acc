"""Configuration of a machine: one tree of frozen dataclasses with every size of the hardware."""

from dataclasses import dataclass

from contracts import Matching, Split
from contracts.parameters import Parameters, choice, part, size
from hw.attributes.core import AttributeCoreConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.machine import Units
from hw.ring.formats import RingConfig

__all__ = ["MachineConfig", "design_name"]


def design_name(chiplet: GatherChipletConfig | CommunityChipletConfig, chiplets: int) -> str:
    """Return the name of a design: a chiplet, or a ring of them."""
    if chiplets > 1:
        return f"ring_{chiplets}"
    return "community_chiplet" if chiplet.kind == "community" else "chiplet"


@dataclass(frozen=True)
class MachineConfig(Parameters):
    """Sizes of a machine: of one chiplet, or of a ring of equal chiplets.

    Parameters
    ----------
    chiplet
        Sizes of each chiplet, with gather PEs or with community PEs.
    chiplets
        Number of chiplets; several are joined to a ring.
    ring
        Sizes of each chiplet's ring interface; None with one chiplet.
    neural
        Sizes of the neural unit beside each chiplet; None: there is none.
    attributes
        Sizes of the attribute core beside each chiplet; None: there is none.
    matching
        Order in which a chiplet of a ring takes an owner's rows (R7): as they come, or ascending.
    split
        End of an edge between two chiplets whose owner adds it up (R8); always the destination along edges with weights
        or attention.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or parts do not fit together.
    """

    chiplet: GatherChipletConfig | CommunityChipletConfig = part(GatherChipletConfig)
    chiplets: int = size(1, 1, 16, section="ring")
    ring: RingConfig | None = part(follows=("chiplets", "max_out"))
    neural: NeuralConfig | None = part()
    attributes: AttributeCoreConfig | None = part()
    matching: Matching = choice(Matching.UNORDERED, section="ring")
    split: Split = choice(Split.DESTINATION, section="ring")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chiplets != (self.ring.chiplets if self.ring else 1):
            raise ValueError(f"ring must be of {self.chiplets} chiplets, not {self.ring!r}")
        if self.attributes and self.attributes.window and not self.chiplet.scratch_lines:
            raise ValueError(f"window must be 0 without a scratchpad, not {self.attributes.window!r}")
        clusters = self.community.clusters if self.community else 1
        if clusters > 1 and self.ring:
            raise ValueError(f"clusters must be 1 on a ring, not {clusters!r}")
        if clusters > 1 and self.attributes and self.attributes.window:
            raise ValueError(f"window must be 0 with several clusters, not {self.attributes.window!r}")

    @property
    def name(self) -> str:
        """Name of the design."""
        return design_name(self.chiplet, self.chiplets)

    @property
    def community(self) -> CommunityChipletConfig | None:
        """Sizes of each chiplet if it has community PEs; None with gather PEs."""
        return self.chiplet if self.chiplet.kind == "community" else None

    @property
    def units(self) -> Units:
        """Sizes of the units beside each chiplet."""
        return Units(self.neural, self.attributes)
