"""Scanner: turns a task into steps, one row at a time (I7)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import CommunityConfig
from hw.lowest import lowest_one, without_lowest
from hw.stream.slice import Slice

__all__ = ["Scanner"]


class Scanner(wiring.Component):
    """Emits the step that forms a task's vector, then one for each row, lowest first, and the end of the record.

    A task takes one cycle more than its number of steps.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    i : stream of ``config.task``
    o : stream of ``config.step``
    task, rest, busy, form, steps
        The task; its remaining rows; whether there is one; its vector is not formed yet; the slice behind its steps
        (internal; read by proofs).
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        self.rest, self.busy, self.form = Signal(config.width), Signal(), Signal()
        self.task, self.steps = Signal(config.task), Slice(config.step)
        super().__init__({"i": In(stream.Signature(config.task)), "o": Out(stream.Signature(config.step))})

    def elaborate(self, platform: object) -> Module:
        """Take a task when the previous one is through."""
        m = Module()
        config, rest, busy, form = self.config, self.rest, self.busy, self.form
        m.submodules.out = out = self.steps
        wiring.connect(m, out.o, wiring.flipped(self.o))
        step = out.i.payload

        task = self.task
        any_row, row = lowest_one(rest)
        below = Signal(config.width)
        m.d.comb += [
            below.eq(without_lowest(rest)),
            step.active.eq(form | any_row),
            step.form.eq(form),
            step.negative.eq(task.negative),
            step.last.eq(task.last & ~step.active),
            step.row.eq(row),
            step.index.eq(task.index),
            step.left.eq(task.left),
            step.right.eq(Mux(form, task.right, task.index)),
            out.i.valid.eq(busy),
            self.i.ready.eq(~busy),
        ]
        with m.If(self.i.valid & ~busy):
            m.d.sync += [
                task.eq(self.i.payload),
                form.eq(self.i.payload.form),
                rest.eq(self.i.payload.rows),
                busy.eq(1),
            ]
        with m.If(busy & out.i.ready):
            m.d.sync += form.eq(0)
            with m.If(form):
                m.d.sync += busy.eq(rest.any() | task.last)
            with m.Else():
                m.d.sync += [rest.eq(below), busy.eq(task.last & step.active | (below != 0))]
        m.d.sync += [
            Cover(busy & form & (rest == 0), "a vector is formed for later sums only"),
            Cover(busy & task.last & (rest == 0), "end of a record"),
        ]
        return m
