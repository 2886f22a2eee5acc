"""Dispatcher: gives each task to an idle worker (I3)."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Task
from hw.lowest import only_lowest

__all__ = ["Dispatcher"]


class Dispatcher(wiring.Component):
    """Gives the task to the lowest ready worker.

    Workers are numbered across engines first, so that every engine has one search before any has two.
    A worker's ``ready`` must not depend on its ``valid``: it selects the worker.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    active
        Number of engines that get tasks, from the first; 0: all. Constant during a run.
    i
        Tasks.
    o
        Tasks for each worker.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "active": In(range(config.engines + 1)),
                "i": In(stream.Signature(Task(config))),
                "o": Out(stream.Signature(Task(config))).array(config.workers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Select by priority."""
        m = Module()
        ready, first = Signal(self.config.workers), Signal(self.config.workers)
        engines = self.config.engines
        works = Signal(engines)
        m.d.comb += works.eq(Cat((self.active == 0) | (n < self.active) for n in range(engines)))
        m.d.comb += [ready[n].eq(port.ready & works[n % engines]) for n, port in enumerate(self.o)]
        m.d.comb += [self.i.ready.eq(ready.any()), first.eq(only_lowest(ready))]
        for n, port in enumerate(self.o):
            m.d.comb += [
                port.payload.eq(self.i.payload),
                port.valid.eq(self.i.valid & first[n]),
            ]
        return m
