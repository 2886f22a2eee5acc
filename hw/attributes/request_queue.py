"""Request queue: requests in order, looked up ahead of their turn, and again after a change of the state."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig

__all__ = ["RequestQueue"]

#: Requests held; look-ups run ahead of the oldest by the length of the pipeline, at most 5, and one to refill.
DEPTH = 8


class RequestQueue(wiring.Component):
    """A short queue that can be read ahead and rewound.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    i : stream of ``config.request``
    ahead_valid, ahead : Out
        The next request to look up.
    advance : In(1)
        It has been taken.
    retire : In(1)
        The oldest request is done.
    rewind : In(1)
        Look up again from the oldest request that is not retired by the end of this cycle; overrides `advance`.
    empty : Out(1)
        No request is held.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.request)),
                "ahead_valid": Out(1),
                "ahead": Out(config.request),
                "advance": In(1),
                "retire": In(1),
                "rewind": In(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep three pointers into a small memory."""
        m = Module()
        m.submodules.requests = requests = Memory(shape=self.config.request, depth=DEPTH, init=[])
        write, read = requests.write_port(), requests.read_port(domain="comb")
        tail, ahead, head = (Signal(range(2 * DEPTH), name=name) for name in ("tail", "ahead_at", "head"))
        oldest = Signal.like(head)
        m.d.comb += [
            self.i.ready.eq((tail ^ head) != DEPTH),
            write.en.eq(self.i.valid & self.i.ready),
            write.addr.eq(tail[:-1]),
            write.data.eq(self.i.payload),
            read.addr.eq(ahead[:-1]),
            self.ahead.eq(read.data),
            self.ahead_valid.eq(ahead != tail),
            self.empty.eq(tail == head),
            oldest.eq(head + self.retire),
        ]
        m.d.sync += [tail.eq(tail + write.en), ahead.eq(ahead + self.advance), head.eq(oldest)]
        with m.If(self.rewind):
            m.d.sync += ahead.eq(oldest)
        return m
