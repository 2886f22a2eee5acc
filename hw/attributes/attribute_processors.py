"""Attribute processors side by side: each brings the attributes of its own IDs to its own buffer (A3, A9)."""

from typing import Any

from amaranth import Cat, Elaboratable, Module, Signal
from amaranth.hdl import Cover
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import exact_log2

from hw.attributes.attribute_processor import AttributeProcessor, processor_signature
from hw.attributes.formats import AttributeConfig
from hw.stream.arbiter import Arbiter

__all__ = ["PROCESSORS", "AttributeProcessors", "processors_of"]

#: Numbers of processors beside one.
PROCESSORS = (2, 4)


class AttributeProcessors(wiring.Component):
    """Several attribute processors in the place of one; the lowest bits of an ID say whose it is.

    An ID has one processor, so no attribute is in two buffers. Requests come in order and wait for the processor of
    the first one. So while a processor displaces rows for a miss, the others decide. Requests of one processor take
    effect in their order, those of different ones in any: they have no state in common.

    Parameters
    ----------
    config : AttributeConfig
        Sizes of each.
    count
        Number of processors, one of `PROCESSORS`.

    Attributes
    ----------
    settings, i, responses, rows, flush, idle, replica
        As of `AttributeProcessor`. Rows come whole.
    event, event_valid : Out
        As of `AttributeProcessor`, but with a request's flow alone, when its response is taken.
    requests, beats
        Clients' ends of the read arbiter, those of the first processor first.

    Raises
    ------
    ValueError
        If `count` is none of `PROCESSORS`.
    """

    def __init__(self, config: AttributeConfig, count: int = 2) -> None:
        if count not in PROCESSORS:
            raise ValueError(f"count must be 2 or 4, not {count!r}")
        self.config, self.count = config, count
        self._processors = [AttributeProcessor(config) for _ in range(count)]
        #: Read clients.
        self.clients = sum(each.clients for each in self._processors)
        super().__init__(processor_signature(config, self.clients))

    def elaborate(self, platform: object) -> Elaboratable:
        """Hand each request to the processor of its ID; collect responses, and rows as wholes."""
        m = Module()
        processors = self._processors
        m.submodules.responses = responses = Arbiter(self.config.response, self.count)
        m.submodules.rows = rows = Arbiter(self.config.row, self.count, whole=True)
        whose = self.i.payload.id[: exact_log2(self.count)]
        accepts, idle = Signal(self.count), Signal(self.count)
        clients = list[tuple[Any, Any]]()
        for n, each in enumerate(processors):
            m.submodules[f"processor_{n}"] = each
            connect(m, each.responses, responses.i[n])
            connect(m, each.rows, rows.i[n])
            if self.config.replicas:
                m.d.comb += [
                    each.replica.valid.eq(self.replica.valid),
                    each.replica.payload.eq(self.replica.payload),
                ]
            clients += zip(each.requests, each.beats, strict=True)
            m.d.comb += [
                each.settings.eq(self.settings),
                each.flush.eq(self.flush),
                each.i.payload.eq(self.i.payload),
                each.i.valid.eq(self.i.valid & (whose == n)),
                accepts[n].eq(each.i.ready),
                idle[n].eq(each.idle),
            ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        for merged, out in ((responses, self.responses), (rows, self.rows)):
            m.d.comb += [
                out.valid.eq(merged.o.valid),
                out.payload.eq(merged.o.payload.payload),
                merged.o.ready.eq(out.ready),
            ]
        m.d.comb += [
            self.i.ready.eq(accepts.bit_select(whose, 1)),
            self.idle.eq(idle.all()),
            self.event_valid.eq(self.responses.valid & self.responses.ready),
            self.event.flow.eq(self.responses.payload.flow),
        ]
        m.d.sync += [
            Cover(self.i.valid & ~self.i.ready & accepts.any(), "a request waits while another processor has room"),
            Cover(~idle.any(), "all processors have requests"),
            Cover(Cat(each.rows.valid for each in processors).all(), "all processors have rows"),
            Cover(Cat(each.responses.valid for each in processors).all(), "all processors have responses"),
        ]
        return m


def processors_of(config: AttributeConfig, count: int) -> AttributeProcessor | AttributeProcessors:
    """Return so many attribute processors as one block; one is an `AttributeProcessor` itself."""
    return AttributeProcessor(config) if count == 1 else AttributeProcessors(config, count)
