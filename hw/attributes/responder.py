"""Responder: the end of each request, for a landed row or for the request that is decided (A3)."""

from amaranth import Elaboratable, Module, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error, Flow
from hw.attributes.formats import FLOW_BITS, AttributeConfig
from hw.stream.queue import Queue

__all__ = ["Responder"]

#: Responses that may wait.
_DEPTH = 4


class Responder(wiring.Component):
    """Queues responses; in a cycle with both, only the landed row gets one.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    ready : Out(1)
        There is room for a response.
    landing : In(1)
        A row has landed; with `ready` only.
    failed : In(1)
        It could not be read.
    landed_tag : In
    answers : In(1)
        The request that is decided ends; with `ready` only.
    tag, flow : In
        Its tag and its `contracts.Flow`.
    o : stream of ``config.response``
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        tag = unsigned(config.tag_bits)
        super().__init__(
            {
                "ready": Out(1),
                "landing": In(1),
                "failed": In(1),
                "landed_tag": In(tag),
                "answers": In(1),
                "tag": In(tag),
                "flow": In(FLOW_BITS),
                "o": Out(stream.Signature(config.response)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Choose, and put into the queue."""
        m = Module()
        m.submodules.queue = queue = Queue(self.config.response, _DEPTH)
        connect(m, queue.o, flipped(self.o))
        response = queue.i.payload
        m.d.comb += [self.ready.eq(queue.i.ready), queue.i.valid.eq(self.landing | self.answers)]
        with m.If(self.landing):
            m.d.comb += [response.tag.eq(self.landed_tag), response.flow.eq(Flow.MISSED)]
            with m.If(self.failed):
                m.d.comb += response.error.eq(Error.MEMORY_READ)
        with m.Else():
            m.d.comb += [response.tag.eq(self.tag), response.flow.eq(self.flow)]
            with m.If(self.flow == Flow.REFUSED):
                m.d.comb += response.error.eq(Error.VID_RANGE)
        return m
