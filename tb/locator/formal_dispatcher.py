"""Proof of the dispatcher: a task goes to one worker that is ready and may work, and waits only if there is none."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cat, Cover, Elaboratable, Module, Signal

from hw.locator.config import LocatorConfig
from hw.locator.dispatcher import Dispatcher
from sim.harness.formal import Proof

_CONFIG = LocatorConfig(engines=3, searches=2, lanes=1, nodes=64, edges=64, banks=2, data_width=128, tag_bits=5)


class DispatcherSpec(Elaboratable):
    """Everything is combinational, so one cycle shows all."""

    def elaborate(self, platform: Any) -> Module:
        """Drive tasks and workers freely."""
        m = Module()
        config = _CONFIG
        m.submodules.dut = dut = Dispatcher(config)
        m.d.comb += [
            dut.active.eq(AnySeq(len(dut.active))),
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.eq(AnySeq(dut.i.payload.shape().size)),
        ]
        taken, free = Signal(config.workers), Signal(config.workers)
        for n, port in enumerate(dut.o):
            works = (dut.active == 0) | (n % config.engines < dut.active)
            m.d.comb += [
                port.ready.eq(AnySeq(1)),
                taken[n].eq(port.valid & port.ready),
                free[n].eq(port.ready & works),
                Assert(~port.valid | works),
                Assert(~taken[n] | (port.payload.as_value() == dut.i.payload.as_value())),
            ]
        m.d.comb += [
            Assert((taken & (taken - 1)) == 0),
            Assert(taken.any() == (dut.i.valid & dut.i.ready)),
            # The first of those that can take it.
            Assert(~dut.i.valid | (taken == (free & (~free + 1)))),
            Cover(taken[-1]),
            Cover(dut.i.valid & ~dut.i.ready & Cat(port.ready for port in dut.o).any()),
        ]
        return m


PROOFS = [
    Proof("one_worker_takes_a_task", DispatcherSpec, "prove", 1),
    Proof("reaches_its_states", DispatcherSpec, "cover", 1),
]
