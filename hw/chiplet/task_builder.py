"""Task builder: gives every task the address of its result and its factor."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import SCALE
from hw.chiplet.gather import GatherBeat
from hw.contracts import struct
from hw.graph.csr_reader import RowBeat
from hw.memory.formats import Word, row_beats_width
from hw.pe.formats import POWER_BITS, Coefficient, PEConfig
from hw.stream.slice import Slice

__all__ = ["TaskBuilder", "TaskSettings"]


class TaskSettings(data.StructLayout):
    """Settings of the task builder, constant during a command.

    ``gather``: tasks come from `rows`, not from `features`; all of their elements count. ``attends``: rows bring their
    tasks' scales. ``rooted``: a vertex's own row counts 2^exponent times as much, by the exponent of its scale.
    ``results``: beat address of the first result row. ``stride``: distance of result rows, in beats.
    """

    def __init__(self, config: PEConfig) -> None:
        super().__init__(
            {
                "gather": unsigned(1),
                "attends": unsigned(1),
                "rooted": unsigned(1),
                "results": unsigned(config.beat_address_width),
                "stride": row_beats_width(config.data_width),
            }
        )


class TaskBuilder(wiring.Component):
    """Joins the beats of each vertex with its scale; vertices come in order.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        `TaskSettings`, constant while tasks are under way.
    start : In(1)
        The next task is that of the first vertex.
    features : stream of `RowBeat`
        Input features of each vertex, when combining.
    rows : stream of `GatherBeat`
        Combined rows of each neighbourhood, when gathering; parts of rows of features, when these lie apart.
    scales : stream of `Word`
        One `Scale` a vertex; none if rows bring it.
    o : stream of ``config.task_beat``
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(TaskSettings(config)),
                "start": In(1),
                "features": In(stream.Signature(RowBeat(config.data_width))),
                "rows": In(stream.Signature(GatherBeat(config.data_width))),
                "scales": In(stream.Signature(Word())),
                "o": Out(stream.Signature(config.task_beat)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Choose the source, join on the first beat of a task, count addresses."""
        m = Module()
        m.submodules.out = out = Slice(self.config.task_beat)
        connect(m, out.o, flipped(self.o))
        settings, task = self.settings, out.i.payload
        features, rows = self.features, self.rows

        address = Signal(self.config.beat_address_width, reset_less=True)
        first, valid, ready, scaled = Signal(), Signal(), Signal(), Signal()
        # The exponent comes with the first beat, and the own row may have more of them.
        power, kept, own = Signal(POWER_BITS), Signal(POWER_BITS, reset_less=True), Signal()
        m.d.comb += [
            first.eq(Mux(settings.gather, rows.payload.first, features.payload.first)),
            power.eq(Mux(first, data.View(struct(SCALE), self.scales.payload.data).exponent, kept)),
            own.eq(settings.rooted & (rows.payload.coefficient == Coefficient.SELF)),
        ]
        with m.If(out.i.valid):
            m.d.sync += kept.eq(power)
        m.d.comb += [
            valid.eq(Mux(settings.gather, rows.valid, features.valid)),
            ready.eq(out.i.ready & scaled),
            features.ready.eq(ready & ~settings.gather),
            rows.ready.eq(ready & settings.gather),
            scaled.eq(self.scales.valid | ~first | settings.attends),
            self.scales.ready.eq(out.i.ready & valid & first),
            out.i.valid.eq(valid & scaled),
            task.first.eq(first),
            task.address.eq(address),
            task.scale.eq(Mux(settings.attends, rows.payload.scale, self.scales.payload.data)),
        ]
        with m.If(settings.gather):
            m.d.comb += [
                task.data.eq(rows.payload.data),
                task.mask.eq(~0),
                task.scalar.eq(rows.payload.scalar << Mux(own, power, 0)),
                task.high.eq(rows.payload.coefficient == Coefficient.NEIGHBOUR_HIGH),
                task.last.eq(rows.payload.last),
            ]
        with m.Else():
            m.d.comb += [
                task.data.eq(features.payload.data),
                task.mask.eq(Cat(word.replicate(2) for word in features.payload.mask)),
                task.last.eq(features.payload.last),
            ]
        with m.If(self.start):
            m.d.sync += address.eq(settings.results)
        with m.Elif(out.i.valid & out.i.ready & first):
            m.d.sync += address.eq(address + settings.stride)
        return m
