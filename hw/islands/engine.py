"""Engine: searches that take turns at one port to the node state and one to the adjacency (I3)."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.bank_arbiter import BankArbiter
from hw.islands.config import LocatorConfig
from hw.islands.formats import Answer, Claim, Owner, RecordBeat, Request, Settings, Status, Task, Verdict
from hw.islands.worker import Worker

__all__ = ["EVENTS", "Engine"]

#: What a worker says to be counted.
EVENTS = ("read", "began", "gave_up", "retreated")


class Engine(wiring.Component):
    """Its workers share the ports a request at a time, so that one search's waiting is another's time.

    Parameters
    ----------
    config
        Sizes.
    number
        Of the engine; its workers are every ``config.engines``-th from there.

    Attributes
    ----------
    settings, clear
        To all workers.
    request, answer, line_request, line
        The shared ports, as those of a `hw.islands.searcher.Searcher`.
    task, conflict, verdict, status, claim, o
        Of every worker.
    busy, emitting
        Of any worker.
    read, began, gave_up, retreated
        A bit for each worker.
    """

    def __init__(self, config: LocatorConfig, number: int) -> None:
        self.config, self.number = config, number
        count = config.searches
        super().__init__(
            {
                "settings": In(Settings(config)),
                "clear": In(1),
                "request": Out(stream.Signature(Request(config))),
                "answer": In(Answer(config)),
                "line_request": Out(stream.Signature(config.line_bits)),
                "line": In(stream.Signature(config.data_width, always_ready=True)),
                "task": In(stream.Signature(Task(config))).array(count),
                "conflict": Out(stream.Signature(Owner(config))).array(count),
                "verdict": In(stream.Signature(Verdict, always_ready=True)).array(count),
                "status": Out(Status(config)).array(count),
                "claim": In(Claim()).array(count),
                "o": Out(stream.Signature(RecordBeat)).array(count),
                "busy": Out(1),
                "emitting": Out(1),
                **{event: Out(count) for event in EVENTS},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect workers; give each port to one of those that want it."""
        m = Module()
        config = self.config
        workers = [Worker(config, self.number + n * config.engines) for n in range(config.searches)]
        for name, shared in (("request", self.request), ("line_request", self.line_request)):
            turns = BankArbiter(config.searches, 1)
            m.submodules[f"{name}_turns"] = turns
            ports = [getattr(worker, name) for worker in workers]
            chosen = turns.chosen[0]
            m.d.comb += [
                *(turns.valid[n].eq(port.valid) for n, port in enumerate(ports)),
                *(port.ready.eq(shared.ready & chosen[n]) for n, port in enumerate(ports)),
                shared.valid.eq(chosen.any()),
                shared.payload.eq(reduce(or_, (Mux(chosen[n], _bits(port), 0) for n, port in enumerate(ports)))),
            ]
            if name == "line_request":
                asked = Signal(config.searches)
                m.d.sync += asked.eq(chosen)
        for n, worker in enumerate(workers):
            m.submodules[f"worker{n}"] = worker
            wiring.connect(m, wiring.flipped(self.task[n]), worker.task)
            wiring.connect(m, worker.conflict, wiring.flipped(self.conflict[n]))
            wiring.connect(m, wiring.flipped(self.verdict[n]), worker.verdict)
            wiring.connect(m, worker.o, wiring.flipped(self.o[n]))
            m.d.comb += [
                worker.settings.eq(self.settings),
                worker.clear.eq(self.clear),
                worker.answer.eq(self.answer),
                worker.line.valid.eq(self.line.valid & asked[n]),
                worker.line.payload.eq(self.line.payload),
                worker.claim.eq(self.claim[n]),
                self.status[n].eq(worker.status),
                *(getattr(self, event)[n].eq(getattr(worker, event)) for event in EVENTS),
            ]
        m.d.comb += [
            self.busy.eq(reduce(or_, (worker.busy for worker in workers))),
            self.emitting.eq(reduce(or_, (worker.emitting for worker in workers))),
        ]
        return m


def _bits(port: stream.Interface) -> object:
    payload = port.payload
    return payload if isinstance(payload, Signal) else payload.as_value()
