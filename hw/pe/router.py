"""Task router: hands each task, with all its beats, to one of several takers."""

from amaranth import Array, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.pe.formats import PEConfig
from hw.stream.slice import Slice

__all__ = ["TaskRouter"]


class TaskRouter(wiring.Component):
    """Gives a task to the next taker in turn that can take its first beat; the others follow it.

    Choosing a taker that is ready, instead of the next in any case, keeps a long task from holding up those behind it.

    Parameters
    ----------
    config : PEConfig
    takers
        Their number, at least 1.

    Attributes
    ----------
    i : stream of ``config.task_beat``
    o : streams of ``config.task_beat``
        ``o[n].valid`` depends on every ``o[...].ready`` combinationally while a taker is being chosen; takers
        must not make ``ready`` depend on ``valid``.

    Raises
    ------
    ValueError
        If `takers` is below 1.
    """

    def __init__(self, config: PEConfig, takers: int) -> None:
        if takers < 1:
            raise ValueError(f"takers must be at least 1, not {takers!r}")
        self.config, self.takers = config, takers
        super().__init__(
            {
                "i": In(stream.Signature(config.task_beat)),
                "o": Out(stream.Signature(config.task_beat)).array(takers),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the choice and its register."""
        m = Module()
        m.submodules.slice = beats = Slice(self.config.task_beat)
        connect(m, flipped(self.i), beats.i)

        last, taker = Signal(range(max(2, self.takers))), Signal(range(max(2, self.takers)))
        m.d.comb += taker.eq(last)
        with m.If(beats.o.payload.first):
            with m.Switch(last):
                for n in range(self.takers):
                    with m.Case(n):
                        for distance in reversed(range(1, self.takers + 1)):
                            candidate = (n + distance) % self.takers
                            with m.If(self.o[candidate].ready):
                                m.d.comb += taker.eq(candidate)
        m.d.comb += beats.o.ready.eq(Array(port.ready for port in self.o)[taker])
        for n, port in enumerate(self.o):
            m.d.comb += [port.payload.eq(beats.o.payload), port.valid.eq(beats.o.valid & (taker == n))]
        with m.If(beats.o.valid & beats.o.ready):
            m.d.sync += last.eq(taker)
        return m
