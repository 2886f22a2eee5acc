"""The machine of one memory port: a chiplet of any kind, alone or for a ring, and the units beside it."""

from dataclasses import dataclass
from typing import Any

from contracts import Opcode
from hw.attributes.core import AttributeCore, AttributeCoreConfig
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import GatherChipletConfig
from hw.chiplet.machine import with_units
from hw.community.chiplet import CommunityChiplet, CommunityChipletConfig
from hw.dnp.neural_unit import NeuralConfig, NeuralUnit
from hw.ring.formats import RingConfig
from hw.ring.ring_chiplet import RingChiplet

__all__ = ["Units", "machine_of"]


@dataclass(frozen=True)
class Units:
    """Sizes of what stands beside a chiplet and carries out commands of its own.

    Attributes
    ----------
    neural
        Of the neural unit (NEURAL); None: there is none.
    attributes
        Of the attribute core (SAMPLE, COPY), with the chiplet's memory port; None: there is none.
    """

    neural: NeuralConfig | None = None
    attributes: AttributeCoreConfig | None = None

    def make(self, port: tuple[int, int], *, once: bool = False) -> dict[str, Any]:
        """Make them by name, for a chiplet with this memory port; with `once`, what repeats is generated apart."""
        made: dict[str, Any] = {}
        if self.attributes:
            made["attribute_core"] = AttributeCore(self.attributes)
        if self.neural:
            made["neural_unit"] = NeuralUnit(self.neural, *port, once=once)
        return made


def machine_of(
    config: GatherChipletConfig | CommunityChipletConfig,
    units: Units | None = None,
    ring: RingConfig | None = None,
    *,
    once: bool = True,
) -> Any:
    """Return a chiplet with the units beside it; a chiplet alone if there are none.

    Parameters
    ----------
    config
        Of a chiplet with gather PEs or with community PEs.
    units
        Default: none.
    ring
        Sizes of its ring interface; None: it works alone.
    once
        What repeats inside (PEs, hub units, neural processors) is left to be generated apart, as its ``modules``.

    Raises
    ------
    ValueError
        If memory ports or the ring interface do not fit the chiplet.
    """

    def chiplet(offload: tuple[Opcode, ...]) -> Any:
        if ring is not None:
            return RingChiplet(config, ring, once=once, offload=offload)
        if isinstance(config, CommunityChipletConfig):
            return CommunityChiplet(config, once=once, offload=offload)
        return Chiplet(config, offload=offload)

    return with_units(chiplet, (units or Units()).make(config.port, once=once))
