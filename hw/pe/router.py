"""Task router: hands each task, with all its beats, to one of several takers."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.pe.formats import PEConfig
from hw.stream.slice import Slice

__all__ = ["TaskRouter"]


class TaskRouter(wiring.Component):
    """Routes a task to the next taker in turn that accepts its first beat; its other beats follow.

    Selecting a taker that is ready, rather than always the next, keeps a long task from blocking those behind it.

    Parameters
    ----------
    config : PEConfig
    takers
        Number of takers, at least 1.

    Attributes
    ----------
    i : stream of ``config.task_beat``
    o : streams of ``config.task_beat``
        The first beat of a task is offered only to a taker that is ready: ``o[n].valid`` depends on every
        ``o[...].ready`` combinationally, so takers must not make ``ready`` depend on ``valid``.
    beats, last
        Register slice; taker of the last beat, one-hot. Internal, named for proofs.

    Raises
    ------
    ValueError
        If `takers` is below 1.
    """

    def __init__(self, config: PEConfig, takers: int) -> None:
        if takers < 1:
            raise ValueError(f"takers must be at least 1, not {takers!r}")
        self.config, self.takers = config, takers
        self.beats = Slice(config.task_beat)
        self.last = Signal(takers, init=1)
        super().__init__(
            {
                "i": In(stream.Signature(config.task_beat)),
                "o": Out(stream.Signature(config.task_beat)).array(takers),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the choice and its register."""
        m = Module()
        m.submodules.slice = beats = self.beats
        last = self.last
        connect(m, flipped(self.i), beats.i)

        ready, offered = Signal(self.takers), Signal(self.takers)
        m.d.comb += [ready[n].eq(port.ready) for n, port in enumerate(self.o)]
        with m.If(beats.o.valid & ~beats.o.payload.first):
            m.d.comb += offered.eq(last)
        with m.Elif(beats.o.valid):
            for n in range(self.takers):
                with m.If(last[n]):
                    # The last assignment wins, so the nearest one after n stands last, and n itself first.
                    for distance in reversed(range(1, self.takers + 1)):
                        candidate = (n + distance) % self.takers
                        with m.If(ready[candidate]):
                            m.d.comb += offered.eq(1 << candidate)
        m.d.comb += beats.o.ready.eq((offered & ready).any())
        for n, port in enumerate(self.o):
            m.d.comb += [port.payload.eq(beats.o.payload), port.valid.eq(offered[n])]
        with m.If(beats.o.ready):
            m.d.sync += last.eq(offered)
        m.d.sync += [
            Cover(beats.o.valid & beats.o.payload.first & ~ready.any(), "no taker is ready for a task"),
            Cover(beats.o.valid & ~beats.o.payload.first & ~beats.o.ready & ready.any(), "a beat waits for its taker"),
            Cover(beats.o.ready & (offered == last) & beats.o.payload.first, "a taker takes two tasks in a row"),
        ]
        return m
