"""PE group: PEs that share one stream of tasks and one stream of results."""

from amaranth import Elaboratable, Module, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.pe.formats import PEConfig
from hw.pe.pe import PE
from hw.pe.router import TaskRouter
from hw.stream.arbiter import Arbiter

__all__ = ["PEGroup"]


class PEGroup(wiring.Component):
    """Several gather PEs behind one router.

    Parameters
    ----------
    config : PEConfig
    pes
        Number of PEs, at least 1.

    Attributes
    ----------
    settings, weight_write, bias_write
        Common to all PEs, see `hw.pe.pe.PE`.
    i : stream of ``config.task_beat``
    o : stream of ``config.row_beat``
        Beats of results in any order; each carries its address.
    index_error : stream of unsigned(17), always ready
        One of the indices that were out of range in this cycle.
    working : Out(pes)
        PEs that multiply in this cycle.
    """

    def __init__(self, config: PEConfig, pes: int) -> None:
        if pes < 1:
            raise ValueError(f"pes must be at least 1, not {pes!r}")
        self.config, self.pes = config, pes
        super().__init__(
            {
                "settings": In(config.settings),
                "weight_write": In(stream.Signature(config.weight_write, always_ready=True)),
                "bias_write": In(stream.Signature(config.bias_write, always_ready=True)),
                "i": In(stream.Signature(config.task_beat)),
                "o": Out(stream.Signature(config.row_beat)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
                "working": Out(pes),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Put the PEs between a router and an arbiter."""
        m = Module()
        m.submodules.router = router = TaskRouter(self.config, self.pes)
        connect(m, flipped(self.i), router.i)
        pes = [PE(self.config) for _ in range(self.pes)]
        for n, pe in enumerate(pes):
            m.submodules[f"pe_{n}"] = pe
            connect(m, router.o[n], pe.i)
            connect(m, flipped(self.weight_write), pe.weight_write)
            connect(m, flipped(self.bias_write), pe.bias_write)
            m.d.comb += [pe.settings.eq(self.settings), self.working[n].eq(pe.working)]
            with m.If(pe.index_error.valid):
                m.d.comb += [self.index_error.valid.eq(1), self.index_error.payload.eq(pe.index_error.payload)]
        if self.pes == 1:
            connect(m, pes[0].o, flipped(self.o))
        else:
            m.submodules.arbiter = arbiter = Arbiter(self.config.row_beat, self.pes)
            for n, pe in enumerate(pes):
                connect(m, pe.o, arbiter.i[n])
            m.d.comb += [
                self.o.valid.eq(arbiter.o.valid),
                self.o.payload.eq(arbiter.o.payload.payload),
                arbiter.o.ready.eq(self.o.ready),
            ]
        return m
