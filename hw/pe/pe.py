"""Gather PE: combines the features of a vertex or gathers its neighbours, one vertex at a time."""

from amaranth import Elaboratable, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VALUE_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.pe.drain import Drain
from hw.pe.formats import PEConfig, takes_rows
from hw.pe.lane_issue import LaneIssue, elements_to_combine
from hw.pe.lanes import LaneArray
from hw.stream.queue import Queue

__all__ = ["PE"]


class PE(wiring.Component):
    """L multiply-accumulate lanes with their own copy of the weights.

    Combining and gathering are the same operation for the lanes: a scalar (a feature, or the coefficient of a row)
    times a vector (a row of weights, or a combined row), accumulated over the task.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while tasks are under way.
    weight_write, bias_write : streams, always ready
        Written before the first task of a layer.
    i : stream of ``config.task_beat``
    o : stream of ``config.row_beat``
        Result rows in the order of the tasks.
    index_error : stream of unsigned(17), always ready
        See `hw.pe.lane_issue.LaneIssue`.
    taken : Out(1)
        Pulse: a beat has left the queue in front.
    working : Out(1)
        The lanes multiply.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "weight_write": In(stream.Signature(config.weight_write, always_ready=True)),
                "bias_write": In(stream.Signature(config.bias_write, always_ready=True)),
                "i": In(stream.Signature(config.task_beat)),
                "o": Out(stream.Signature(config.row_beat)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
                "taken": Out(1),
                "working": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect queue, issue unit, weight memory, lanes and drain."""
        m = Module()
        config = self.config
        m.submodules.queue = queue = Queue(config.task_beat, config.queue)
        m.submodules.issue = issue = LaneIssue(config)
        m.submodules.lanes = lanes = LaneArray(config)
        m.submodules.drain = drain = Drain(config)
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(self.i.payload),
            queue.i.payload.mask.eq(elements_to_combine(self.i.payload, self.settings.mode, config)),
            self.i.ready.eq(queue.i.ready),
            self.taken.eq(queue.o.valid & queue.o.ready),
            issue.released.eq(drain.released),
        ]
        connect(m, queue.o, issue.i)
        connect(m, issue.task, drain.task)
        connect(m, flipped(self.bias_write), drain.bias_write)
        connect(m, drain.o, flipped(self.o))
        connect(m, issue.index_error, flipped(self.index_error))
        m.d.comb += [
            issue.settings.eq(self.settings),
            drain.settings.eq(self.settings),
            drain.done.eq(lanes.done),
            lanes.read_bank.eq(drain.read_bank),
            lanes.read_chunk.eq(drain.read_chunk),
            drain.read_data.eq(lanes.read_data),
        ]
        # Reading the weights takes the cycle between the operation and the lanes.
        operation, valid = Signal(config.operation, reset_less=True), Signal()
        m.d.sync += [operation.eq(issue.o.payload), valid.eq(issue.o.valid)]
        m.d.comb += [lanes.i.valid.eq(valid), self.working.eq(valid), lanes.i.payload.eq(operation)]
        weight = self._weights(m, issue.weight_address)
        gather = Signal()
        m.d.sync += gather.eq(takes_rows(self.settings.mode))
        for lane in range(config.lanes):
            m.d.comb += lanes.i.payload.vector[lane].eq(Mux(gather, operation.vector[lane], weight[lane]))
        return m

    def _weights(self, m: Module, address: Signal) -> data.View:
        """Keep the weights; return the row at `address`, a cycle later."""
        row = data.ArrayLayout(signed(VALUE_BITS), self.config.lanes)
        # Never read while it is written.
        m.submodules.weights = weights = Memory(
            shape=row, depth=self.config.weight_rows, init=[], attrs=dict(NO_BYPASS)
        )
        weight_write, weight_read = weights.write_port(), registered_read(m, weights, "weight")
        m.d.comb += [
            weight_read.addr.eq(address),
            weight_write.en.eq(self.weight_write.valid),
            weight_write.addr.eq(self.weight_write.payload.address),
            weight_write.data.eq(self.weight_write.payload.data),
        ]
        return weight_read.data
