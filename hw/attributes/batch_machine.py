"""Batch machine: a chiplet with gather PEs and an attribute core, for sampled networks on mini-batches."""

from dataclasses import replace

from hw.attributes.core import AttributeCore, CoreConfig
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import ChipletConfig
from hw.chiplet.machine import Machine, opcodes_of

__all__ = ["batch_machine"]


def batch_machine(config: ChipletConfig | None = None, core: CoreConfig | None = None) -> Machine:
    """Return a machine in which SAMPLE and COPY go to an attribute core, all other commands to the chiplet.

    SAMPLE brings the attributes of a mini-batch through the two-level cache into consecutive rows of memory, and leaves
    the sampled graph as offsets, edges and factors; COMBINE and AGGREGATE work on these as on any graph.

    Parameters
    ----------
    config
        Of the chiplet.
    core
        With the memory port of `config`; default: the source's sizes.

    Raises
    ------
    ValueError
        If the ports of `core` and `config` differ.
    """
    config = config or ChipletConfig()
    address_width, data_width = config.port
    if core is None:
        core = CoreConfig(replace(CoreConfig().attribute, address_width=address_width, data_width=data_width))
    units = {"core": AttributeCore(core)}
    return Machine(Chiplet(config, offload=opcodes_of(units)), units)
