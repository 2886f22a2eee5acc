"""Engine: searches that take turns at the lanes to the node state and at one port to the adjacency (I3)."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Elaboratable, Instance, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.bank_arbiter import BankArbiter
from hw.islands.config import LINES, LocatorConfig
from hw.islands.formats import AccessSignature, RecordBeat, SearchSignature
from hw.islands.worker import Worker
from hw.stream.queue import Queue

__all__ = ["Engine"]


class Engine(wiring.Component):
    """Its workers share each lane a request at a time, so that one search's waiting is another's time.

    Parameters
    ----------
    config
        Sizes.
    number
        Of the engine; its workers are every ``config.engines``-th from there.
    module
        Name of the Verilog module of a `hw.islands.worker.Worker` that is generated apart; default: each worker is
        generated here, which costs a simulator's compilation more the more there are.

    Attributes
    ----------
    searches, o
        Of every worker.
    access
        The shared ports.
    emitting
        A record is under way.
    """

    def __init__(self, config: LocatorConfig, number: int, module: str = "") -> None:
        self.config, self.number, self.module = config, number, module
        super().__init__(
            {
                "searches": Out(SearchSignature(config)).array(config.searches),
                "access": Out(AccessSignature(config)),
                "o": Out(stream.Signature(RecordBeat)).array(config.searches),
                "emitting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect workers; give each port to one of those that want it."""
        m = Module()
        config, access = self.config, self.access
        workers = [Worker(config) for _ in range(config.searches)]
        for n, worker in enumerate(workers):
            m.submodules[f"worker{n}"] = _Apart(worker, self.module) if self.module else worker
            wiring.connect(m, worker.search, wiring.flipped(self.searches[n]))
            wiring.connect(m, worker.o, wiring.flipped(self.o[n]))
        for lane in range(config.lanes):
            # The first lane is used most: it is another one for every worker.
            own = [(lane - n) % config.lanes for n in range(config.searches)]
            ports = [worker.access.request[own[n]] for n, worker in enumerate(workers)]
            _share(m, f"lane{lane}", access.request[lane], ports)
            m.d.comb += [worker.access.answer[own[n]].eq(access.answer[lane]) for n, worker in enumerate(workers)]
        chosen = _share(m, "lines", access.line_request, [worker.access.line_request for worker in workers])
        awaits: Any = [1]
        if config.searches > 1:
            # Lines come in the order in which they were asked for; a search has room for all it asks for.
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


class _Apart(Elaboratable):
    """Stands for a component whose module is generated apart."""

    def __init__(self, component: Any, module: str) -> None:
        self.component, self.module = component, module
        # It is made for its ports; one like it is elaborated elsewhere.
        component._MustUse__used = True

    def elaborate(self, platform: object) -> Module:
        """Emit an instance with clock, reset and every port."""
        m = Module()
        ports: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.component.signature.flatten(self.component):
            signal = Value.cast(value)
            # The constant side of a stream is no port.
            if isinstance(signal, Signal):
                ports[f"{'i' if member.flow == In else 'o'}_{'__'.join(map(str, path))}"] = signal
        m.submodules.instance = Instance(self.module, **ports)
        return m


def _share(m: Module, name: str, shared: stream.Interface, ports: list[stream.Interface]) -> Signal:
    """Connect one of the ports that ask; return which."""
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
