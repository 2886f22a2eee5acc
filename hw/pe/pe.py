"""Gather PE: combines the features of a vertex or gathers its neighbours, one vertex at a time."""

from amaranth import Elaboratable, Module, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.pe.core import PECore
from hw.pe.formats import PEConfig
from hw.pe.weight_memory import WeightMemory

__all__ = ["PE"]


class PE(wiring.Component):
    """A `PECore` with its own copy of the weights.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings, bias_write, i, o, index_error, working
        As for `hw.pe.core.PECore`.
    weight_write : stream of ``config.weight_write``, always ready
        Written before the first task of a layer.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        biases = {"bias_write": In(stream.Signature(config.bias_write, always_ready=True))} if config.aggregates else {}
        super().__init__(
            {
                "settings": In(config.settings),
                "weight_write": In(stream.Signature(config.weight_write, always_ready=True)),
                **biases,
                "i": In(stream.Signature(config.task_beat)),
                "o": Out(stream.Signature(config.row_beat)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
                "working": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect lanes and weights."""
        m = Module()
        m.submodules.core = core = PECore(self.config)
        m.submodules.weights = weights = WeightMemory(self.config, 1)
        connect(m, flipped(self.weight_write), weights.write)
        if self.config.aggregates:
            connect(m, flipped(self.bias_write), core.bias_write)
        connect(m, flipped(self.i), core.i)
        connect(m, core.o, flipped(self.o))
        connect(m, core.index_error, flipped(self.index_error))
        m.d.comb += [
            core.settings.eq(self.settings),
            self.working.eq(core.working),
            weights.addresses[0].eq(core.weight_addresses),
            core.weights.eq(weights.rows[0]),
        ]
        return m
