"""Proofs of the task router: no task is split, and no beat lost, doubled or changed."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.pe.formats import PEConfig
from hw.pe.router import TaskRouter
from sim.harness.formal import Proof, assert_stream, assume_stream

#: Narrowest beats: what is proved does not depend on the payload, which only passes.
CONFIG = PEConfig(lanes=1, data_width=64, address_width=20, weight_rows=2, max_out=1)
#: Beats the router can hold.
HELD = 2


class RouterSpec(Elaboratable):
    """All beats of a task go to one taker, in their order, and none waits while that taker is ready.

    Parameters
    ----------
    takers
        Their number.
    """

    def __init__(self, takers: int) -> None:
        self.takers = takers

    def elaborate(self, platform: Any) -> Module:
        """Drive the router with whole tasks and count beats in and out."""
        m = Module()
        m.submodules.dut = dut = TaskRouter(CONFIG, self.takers)
        m.d.comb += [dut.i.valid.eq(AnySeq(1)), dut.i.payload.eq(AnySeq(dut.i.payload.shape().size))]
        assume_stream(m, dut.i, "i")
        for n, port in enumerate(dut.o):
            m.d.comb += port.ready.eq(AnySeq(1))
            assert_stream(m, port, f"o{n}")

        put = dut.i.valid & dut.i.ready
        take = Signal(self.takers)
        m.d.comb += [take[n].eq(port.valid & port.ready) for n, port in enumerate(dut.o)]

        # The environment sends whole tasks: `first` after `last` and nowhere else.
        inside = Signal()
        m.d.comb += Assume(~dut.i.valid | (dut.i.payload.first == ~inside))
        with m.If(put):
            m.d.sync += inside.eq(~dut.i.payload.last)

        # A second, plain model of what is inside: up to two beats in their order.
        held = Signal(range(HELD + 1))
        model = [Signal(dut.i.payload.shape(), name=f"model_{n}") for n in range(HELD)]
        leaves = take.any()
        m.d.sync += held.eq(held + put - leaves)
        with m.If(leaves):
            m.d.sync += model[0].eq(model[1])
        with m.If(put):
            with m.If(held == leaves):
                m.d.sync += model[0].eq(dut.i.payload)
            with m.Else():
                m.d.sync += model[1].eq(dut.i.payload)
        offered, ready = Signal(self.takers), Signal(self.takers)
        m.d.comb += [
            Assert(held <= HELD),
            Assert((offered & (offered - 1)) == 0),
            Assert((held != 0) | ~offered.any()),
        ]
        for n, port in enumerate(dut.o):
            m.d.comb += [offered[n].eq(port.valid), ready[n].eq(port.ready)]
            with m.If(port.valid):
                m.d.comb += Assert(port.payload == model[0])

        # Who takes the first beat of a task takes the rest of it, before anybody takes anything else.
        owner, open_ = Signal(self.takers), Signal()
        with m.If(leaves):
            m.d.sync += [owner.eq(take), open_.eq(~model[0].last)]
            m.d.comb += Assert(model[0].first == ~open_)
            with m.If(open_):
                m.d.comb += Assert(take == owner)
        # No beat waits while one who may take it is ready.
        willing = ready & Mux(open_, owner, -1)
        with m.If((held != 0) & willing.any()):
            m.d.comb += Assert(leaves)

        self._induction(m, dut, held, model, inside, owner, open_)
        m.d.comb += [
            Cover(leaves & open_ & model[0].last & (held == HELD)),
            Cover(take[self.takers - 1] & model[0].first & ~ready[0]),
        ]
        return m

    def _induction(
        self, m: Module, dut: TaskRouter, held: Signal, model: list[Any], inside: Signal, owner: Signal, open_: Signal
    ) -> None:
        """Relate the registers of the design to the model, so that the proof holds for ever."""
        newest = Mux(held == HELD, model[1].last, model[0].last)
        m.d.comb += [
            Assert(dut.beats.o.valid == (held != 0)),
            Assert(dut.beats.i.ready == (held != HELD)),
            Assert((held == 0) | (dut.beats.o.payload == model[0])),
            Assert((held != HELD) | (dut.beats.behind == model[1])),
            Assert(inside == Mux(held == 0, open_, ~newest)),
            Assert((held == 0) | (model[0].first == ~open_)),
            Assert((held != HELD) | (model[1].first == model[0].last)),
            Assert((dut.last != 0) & ((dut.last & (dut.last - 1)) == 0)),
            Assert(~open_ | (dut.last == owner)),
        ]


PROOFS = [
    Proof("no_task_is_split_and_no_beat_lost_2", lambda: RouterSpec(2), "prove", 3),
    Proof("no_task_is_split_and_no_beat_lost_4", lambda: RouterSpec(4), "prove", 3),
    Proof("reaches_its_states_2", lambda: RouterSpec(2), "cover", 12),
]
