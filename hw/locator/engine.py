"""Engine: searches that share the lanes to the node state and one port to the adjacency (I3)."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from hw.locator.bank_arbiter import BankArbiter
from hw.locator.config import LINES, LocatorConfig
from hw.locator.formats import AccessSignature, RecordBeat, SearchSignature
from hw.locator.worker import Worker
from hw.stream.black_box import BlackBox
from hw.stream.queue import Queue

__all__ = ["WORKER_MODULE", "Engine"]

#: Module of a worker where workers are black boxes.
WORKER_MODULE = "locator_worker"


class Engine(wiring.Component):
    """Workers share each lane request by request, so one search proceeds while another waits.

    Parameters
    ----------
    config
        Sizes.
    number
        Number of the engine; its workers are every ``config.engines``-th from there.
    once
        Make each worker a black box; `hw.locator.worker.Worker` is then generated separately, as `WORKER_MODULE`.

    Attributes
    ----------
    searches, o
        Ports of each worker to the rest of the locator; records of each worker.
    access
        The shared ports.
    emitting
        A record is being emitted.
    """

    def __init__(self, config: LocatorConfig, number: int, *, once: bool = False) -> None:
        self.config, self.number, self.once = config, number, once
        super().__init__(
            {
                "searches": Out(SearchSignature(config)).array(config.searches),
                "access": Out(AccessSignature(config)),
                "o": Out(stream.Signature(RecordBeat)).array(config.searches),
                "emitting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect workers; arbitrate each port."""
        m = Module()
        config, access = self.config, self.access
        workers = [Worker(config) for _ in range(config.searches)]
        for n, worker in enumerate(workers):
            m.submodules[f"worker{n}"] = BlackBox(worker, WORKER_MODULE) if self.once else worker
            wiring.connect(m, worker.search, wiring.flipped(self.searches[n]))
            wiring.connect(m, worker.o, wiring.flipped(self.o[n]))
        for lane in range(config.lanes):
            # The first lane is used most, so lanes are rotated from worker to worker.
            own = [(lane - n) % config.lanes for n in range(config.searches)]
            ports = [worker.access.request[own[n]] for n, worker in enumerate(workers)]
            _share(m, f"lane{lane}", access.request[lane], ports)
            m.d.comb += [worker.access.answer[own[n]].eq(access.answer[lane]) for n, worker in enumerate(workers)]
        chosen = _share(m, "lines", access.line_request, [worker.access.line_request for worker in workers])
        awaits: Any = [1]
        if config.searches > 1:
            # Lines return in the order of requests; a search has room for all lines that it requests.
            m.submodules.order = order = Queue(config.searches, LINES * config.searches, storage="distributed")
            m.d.comb += [
                order.i.payload.eq(chosen),
                order.i.valid.eq(access.line_request.valid & access.line_request.ready),
                order.o.ready.eq(access.line.valid),
            ]
            awaits = order.o.payload
        for n, worker in enumerate(workers):
            m.d.comb += [
                worker.access.line.valid.eq(access.line.valid & awaits[n]),
                worker.access.line.payload.eq(access.line.payload),
            ]
        m.d.comb += self.emitting.eq(Cat(worker.emitting for worker in workers).any())
        return m


def _share(m: Module, name: str, shared: stream.Interface, ports: list[stream.Interface]) -> Signal:
    """Arbitrate `ports` onto the shared one; return the granted index."""
    if len(ports) == 1:
        m.d.comb += [
            shared.valid.eq(ports[0].valid),
            shared.payload.eq(_bits(ports[0])),
            ports[0].ready.eq(shared.ready),
        ]
        return ports[0].valid
    m.submodules[name] = turns = BankArbiter(len(ports), 1)
    chosen = turns.chosen[0]
    m.d.comb += [
        *(turns.valid[n].eq(port.valid) for n, port in enumerate(ports)),
        *(port.ready.eq(shared.ready & chosen[n]) for n, port in enumerate(ports)),
        shared.valid.eq(chosen.any()),
        shared.payload.eq(reduce(or_, (Mux(chosen[n], _bits(port), 0) for n, port in enumerate(ports)))),
    ]
    return chosen


def _bits(port: stream.Interface) -> object:
    payload = port.payload
    return payload if isinstance(payload, Signal) else payload.as_value()
