"""The machine of one memory port: a chiplet with an engine of either kind, alone or for a ring, and its units."""

from dataclasses import dataclass
from typing import Any

from hw.attributes.core import AttributeCore, AttributeCoreConfig
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import GatherChipletConfig
from hw.chiplet.gather_engine import GatherEngine
from hw.chiplet.unit import Unit
from hw.community.config import CommunityChipletConfig
from hw.community.engine import CommunityEngine
from hw.dnp.neural_unit import NeuralConfig, NeuralUnit
from hw.ring.formats import RingConfig
from hw.ring.ring_unit import RingUnit

__all__ = ["Units", "machine_of"]

#: Engines by the kind of their configuration.
_ENGINES: dict[str, type[Any]] = {"gather": GatherEngine, "community": CommunityEngine}


@dataclass(frozen=True)
class Units:
    """Sizes of what stands beside a chiplet's engine and carries out commands of its own.

    Attributes
    ----------
    neural
        Of the neural unit (NEURAL); None: there is none.
    attributes
        Of the attribute core (SAMPLE, FETCH, COPY), with the engine's memory port; None: there is none.
    """

    neural: NeuralConfig | None = None
    attributes: AttributeCoreConfig | None = None

    def make(self, port: tuple[int, int], *, once: bool = False) -> dict[str, Unit]:
        """Make them by name, for this memory port; with `once`, what repeats is generated apart."""
        made: dict[str, Unit] = {}
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
) -> Chiplet:
    """Return a chiplet with an engine and units.

    Parameters
    ----------
    config
        Sizes of the engine, with gather PEs or with community PEs.
    units
        Default: none.
    ring
        Sizes of its ring interface; None: it works alone.
    once
        What repeats inside (PEs, hub units, neural processors) is left to be generated apart, as its ``modules``.

    Raises
    ------
    ValueError
        If memory ports or the ring interface do not fit the engine.
    """
    engine = _ENGINES[config.kind](config, once=once)
    units = units or Units()
    divided = units.attributes is not None
    beside: dict[str, Unit] = {"ring": RingUnit.beside(config, ring, divided=divided)} if ring else {}
    return Chiplet(engine, beside | units.make(config.port, once=once))
