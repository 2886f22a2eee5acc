"""Core of a PE: combines the features of a vertex or gathers its neighbours, one vertex at a time."""

from typing import Any

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.pe.chain import Chain
from hw.pe.drain import Drain
from hw.pe.formats import PEConfig, takes_rows
from hw.pe.lane_issue import LaneIssue, elements_to_combine
from hw.pe.lanes import LaneArray, read_access
from hw.stream.queue import Queue

__all__ = ["PECore"]

#: Most beats that are queued in registers.
_REGISTERS = 2


class PECore(wiring.Component):
    """L multiply-accumulate lanes without weights, which are read outside.

    Where a row of results takes at most half of the lanes, the other half works on features of its own when the PE
    combines: one half on even ones, one on odd ones, with both features' weights in a row (`hw.pe.formats.pairs`).

    Combining and gathering are the same operation for the lanes: a scalar (a feature, or the coefficient of a row)
    times a vector (a row of weights, or a combined row), accumulated over the task.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while tasks are under way.
    weight_addresses, weights
        See `hw.pe.weight_memory.WeightMemory`.
    weighed : Out
        Address of the task that these weights are for. Only if it does not aggregate.
    bias_write : stream of ``config.bias_write``, always ready
        Written before the first task of a layer. Only if it aggregates.
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
        members: dict[str, Any] = {"weighed": Out(config.beat_address_width)}
        if config.aggregates:
            members = {"bias_write": In(stream.Signature(config.bias_write, always_ready=True))}
        super().__init__(
            {
                "settings": In(config.settings),
                "weight_addresses": Out(config.weight_addresses),
                "weights": In(config.weights),
                **members,
                "i": In(stream.Signature(config.task_beat)),
                "o": Out(stream.Signature(config.row_beat)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
                "taken": Out(1),
                "working": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect queue, issue unit, lanes and drain."""
        m = Module()
        config = self.config
        kind = Chain if config.queue <= _REGISTERS else Queue
        m.submodules.queue = queue = kind(config.task_beat, config.queue)
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
        if config.aggregates:
            connect(m, flipped(self.bias_write), drain.bias_write)
        else:
            m.d.comb += self.weighed.eq(issue.task.payload.address)
        connect(m, drain.o, flipped(self.o))
        connect(m, issue.index_error, flipped(self.index_error))
        m.d.comb += [
            issue.settings.eq(self.settings),
            drain.settings.eq(self.settings),
            drain.done.eq(lanes.done),
            *(getattr(lanes, name).eq(getattr(drain, name)) for name in read_access(config)),
            drain.read_data.eq(lanes.read_data),
        ]
        # Reading the weights takes the cycle between the operation and the lanes.
        operation, valid = Signal(config.operation, reset_less=True), Signal()
        m.d.sync += [operation.eq(issue.o.payload), valid.eq(issue.o.valid)]
        m.d.comb += [lanes.i.valid.eq(valid), self.working.eq(valid), lanes.i.payload.eq(operation)]
        m.d.comb += self.weight_addresses.eq(issue.weight_addresses)
        gather = Signal()
        m.d.sync += gather.eq(takes_rows(self.settings.mode))
        for lane, weight in enumerate(self.weights):
            m.d.comb += lanes.i.payload.vector[lane].eq(Mux(gather, operation.vector[lane], weight))
        return m
