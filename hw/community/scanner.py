"""Scanner: turns a task into steps, one row at a time (I7)."""

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import CommunityConfig
from hw.lowest import lowest_one, without_lowest

__all__ = ["Scanner"]


class Scanner(wiring.Component):
    """Emits the step that forms a task's vector, then one for each row, lowest first, and the end of the record.

    A task is kept while parts of it go on to the steps: its form, a group of rows, or the end. The next task takes the
    place of one whose last part leaves, so that a step is emitted in every cycle, also of tasks of one row.

    Parameters
    ----------
    config : CommunityConfig
    group
        Rows from which the lowest one is chosen in a cycle, a power of two.

    Attributes
    ----------
    i : stream of ``config.task``
    o : stream of ``config.step``
    task, full, form, rest
        The task; whether there is one; what is to be done of it: its vector to form, rows (internal; read by proofs).
    now, busy, ends, rows, at
        The part under way: its step but for the row; whether there is one; it is the task's last; its rows, and the
        number of their group (internal).
    """

    def __init__(self, config: CommunityConfig, group: int = 16) -> None:
        self.config, self.group = config, min(group, config.width)
        self.task, self.full = Signal(config.task, reset_less=True), Signal()
        self.form, self.rest = Signal(reset_less=True), Signal(config.width, reset_less=True)
        self.now, self.busy, self.ends = Signal(config.step, reset_less=True), Signal(), Signal(reset_less=True)
        self.rows = Signal(self.group, reset_less=True)
        self.at = Signal(range(max(2, config.width // self.group)), reset_less=True)
        super().__init__({"i": In(stream.Signature(config.task)), "o": Out(stream.Signature(config.step))})

    def elaborate(self, platform: object) -> Module:
        """Choose the next part of the task, emit its steps, take a task when nothing is left to choose."""
        m = Module()
        config, task, size = self.config, self.task, self.group
        groups = [self.rest[at : at + size] for at in range(0, config.width, size)]
        some, lowest, last_group = groups[0].any(), Const(0), Const(1)
        if len(groups) > 1:
            filled = Signal(len(groups))
            m.d.comb += filled.eq(Cat(group.any() for group in groups))
            some, lowest = lowest_one(filled)
            last_group = without_lowest(filled) == 0
        through, goes, ends = Signal(), Signal(), Signal()
        rest = Signal(size)
        m.d.comb += [
            rest.eq(self.rows & (self.rows - 1)),
            through.eq(~self.busy | (self.o.ready & (rest == 0))),
            goes.eq(self.full & through),
            ends.eq(Mux(self.form, ~some, last_group)),
            self.i.ready.eq(~self.full | (goes & ends)),
            self.o.valid.eq(self.busy),
            self.o.payload.eq(self.now),
            self.o.payload.row.eq(Cat(lowest_one(self.rows)[1], self.at)),
        ]
        with m.If(through):
            m.d.sync += self.busy.eq(self.full)
        with m.If(self.o.ready):
            m.d.sync += self.rows.eq(rest)
        with m.If(goes):
            m.d.sync += [
                self.now.active.eq(self.form | some),
                self.now.form.eq(self.form),
                self.now.negative.eq(task.negative),
                self.now.last.eq(~self.form & ~some),
                self.now.index.eq(task.index),
                self.now.left.eq(task.left),
                self.now.right.eq(Mux(self.form, task.right, task.index)),
                self.ends.eq(ends),
                self.at.eq(lowest),
                self.rows.eq(Mux(self.form, 0, self.rest.word_select(lowest, size))),
                self.form.eq(0),
                self.full.eq(~ends),
            ]
            with m.If(~self.form):
                m.d.sync += self.rest.word_select(lowest, size).eq(0)
        with m.If(self.i.valid & self.i.ready):
            payload = self.i.payload
            m.d.sync += [task.eq(payload), self.form.eq(payload.form), self.rest.eq(payload.rows), self.full.eq(1)]
        m.d.sync += [
            Cover(self.busy & self.now.form & self.ends, "a vector is formed for later sums only"),
            Cover(self.busy & self.now.last, "end of a record"),
            Cover(self.busy & self.ends & self.full, "the next task waits"),
        ]
        return m
