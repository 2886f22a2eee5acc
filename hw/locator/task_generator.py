"""Task generator: cuts rows of new hubs into tasks of neighbours to search from (I2)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.formats import Task
from hw.locator.hub_detector import Hub
from hw.stream.queue import Queue

__all__ = ["TaskGenerator"]


class TaskGenerator(wiring.Component):
    """Queues the neighbours of every hub, a line of the adjacency at a time, one task a cycle.

    A task has at most as many neighbours as an engine can hold, so an engine completes a task without another one, and
    no deadlock is possible.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    i
        Hubs.
    o
        Tasks; at most ``config.tasks`` are queued.
    level
        Queued tasks.
    busy
        A hub is being cut or a task is queued.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Hub(config))),
                "o": Out(stream.Signature(Task(config))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the hub that is being cut and the position in its row."""
        m = Module()
        config = self.config
        m.submodules.queue = queue = Queue(Task(config), config.tasks)
        wiring.connect(m, queue.o, wiring.flipped(self.o))

        hub, busy, head = Signal(Hub(config)), Signal(), Signal()
        at, left = Signal(config.edge_bits), Signal(config.node_bits)
        room, count = Signal(range(config.line_words + 1)), Signal(range(config.line_words + 1))
        last, moves = Signal(), Signal()
        task = queue.i.payload
        m.d.comb += [
            room.eq(config.line_words - at[: exact_log2(config.line_words)]),
            last.eq(left <= room),
            count.eq(Mux(last, left, room)),
            task.vertex.eq(hub.vertex),
            task.start.eq(at),
            task.count.eq(count),
            task.head.eq(head),
            task.isolated.eq(hub.isolated),
            queue.i.valid.eq(busy),
            moves.eq(busy & queue.i.ready),
            self.i.ready.eq(~busy | (queue.i.ready & last)),
            self.busy.eq(busy | queue.o.valid | (queue.level != 0)),
        ]
        with m.If(moves):
            m.d.sync += [at.eq(at + count), left.eq(left - count), head.eq(0), busy.eq(~last)]
        with m.If(self.i.valid & self.i.ready):
            row = self.i.payload.row
            m.d.sync += [hub.eq(self.i.payload), busy.eq(1), head.eq(1), at.eq(row.start), left.eq(row.degree)]
        return m
