"""Components that the benches of the host interface and the list of blocks share."""

from hw.attributes.accelerator import AttributeAccelerator
from hw.chiplet.config import GatherChipletConfig
from hw.host.hosted import Hosted
from hw.host.queued import Queued
from hw.machine import machine_of
from hw.pe.formats import PEConfig

__all__ = ["NARROW", "hosted_chiplet", "queued_cores"]

#: The chiplet that the bench runs.
NARROW = GatherChipletConfig(
    groups=1, pes=2, depth=32, pe=PEConfig(lanes=2, data_width=64, weight_rows=128, max_out=12, queue=2)
)


def hosted_chiplet(config: GatherChipletConfig | None = None) -> Hosted:
    """Return a chiplet behind a control port."""
    return Hosted(machine_of(config or GatherChipletConfig()))


def queued_cores(cores: int = 2) -> Queued:
    """Return attribute cores behind a queue of commands."""
    return Queued(AttributeAccelerator(cores=cores))
