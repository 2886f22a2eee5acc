"""Sizes of a chiplet."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from contracts.parameters import Parameters, part, size
from hw.pe.formats import PEConfig

__all__ = ["GatherChipletConfig"]


@dataclass(frozen=True)
class GatherChipletConfig(Parameters):
    """Sizes of a chiplet with gather PEs, fixed at generation.

    Parameters
    ----------
    groups
        PE groups.
    pes
        PEs of a group.
    pe
        Sizes of a PE, and of the memory port.
    depth
        Most outstanding beats of a reader; as many as the memory's latency in cycles plus a burst keep it busy.
    scratch_lines
        Lines of 64 bytes of the scratchpad, which has the working space of an image as far as it fits; 0: there is
        none.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    #: Kind of its PEs, by which code that serves both kinds tells them apart (``config.kind == "community"``).
    kind: ClassVar[Literal["gather"]] = "gather"
    #: Names of the ports on which the chiplet counts its work.
    counters: ClassVar[tuple[str, ...]] = ()

    groups: int = size(2, 1, 64)
    pes: int = size(2, 1, 64)
    pe: PEConfig = part(PEConfig, follows=("aggregates",))
    depth: int = size(128, 16, 1024)
    scratch_lines: int = size(0, 128, power=True, zero=True)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is watched at work, in the order of the bits of ``working``."""
        return tuple(f"PE {n}" for n in range(self.groups * self.pes))

    @property
    def settling(self) -> int:
        """Cycles after a reset in which a chiplet is not ready to work; this one is at once."""
        return 0

    @property
    def lanes(self) -> int:
        """Multiply-accumulate units of the whole chiplet."""
        return self.groups * self.pes * self.pe.lanes

    @property
    def partials(self) -> bool:
        """Whether it can work on a ring, where vertices may be halves of partial sums: the ring unit adds them up."""
        return True

    @property
    def port(self) -> tuple[int, int]:
        """Widths of the memory port: of a byte address and of a beat, in bits."""
        return self.pe.address_width, self.pe.data_width

    @property
    def port_bytes(self) -> int:
        """Bytes that the memory port carries each way in a cycle."""
        return self.pe.data_width // 8
