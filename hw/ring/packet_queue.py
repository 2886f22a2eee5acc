"""Packet queue: arbitrates whole packets of several senders and forwards them without gaps."""

from amaranth.hdl import Array, Cover, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from hw.ring.formats import Flit, LinkFlit
from hw.ring.packer import Packer
from hw.stream.queue import Queue

__all__ = ["PacketQueue"]


class PacketQueue(wiring.Component):
    """Queues packets one behind another; a packet leaves without gaps, because it is forwarded only when whole.

    Parameters
    ----------
    width, link_width
        Bits of a sender's flit and of the link's.
    senders
        Number of inputs; the lowest has priority when several begin a packet.
    max_flits
        Flits of the link of the longest packet; the queue holds two.

    Attributes
    ----------
    i : streams of `Flit`
        ``ready`` depends on ``valid`` of the other inputs.
    o : stream of `LinkFlit`
    """

    def __init__(self, width: int = 64, link_width: int = 64, senders: int = 3, max_flits: int = 33) -> None:
        self.width, self.link_width, self.senders, self.max_flits = width, link_width, senders, max_flits
        super().__init__(
            {
                "i": In(stream.Signature(Flit(width))).array(senders),
                "o": Out(stream.Signature(LinkFlit(link_width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Hold a sender until its packet ends; count the packets that are whole."""
        m = Module()
        m.submodules.queue = queue = Queue(LinkFlit(self.link_width), 2 * self.max_flits)
        m.submodules.packer = packer = Packer(self.width, self.link_width)
        connect(m, packer.o, queue.i)
        given = packer.i
        sender, held = Signal(range(self.senders)), Signal(range(self.senders))
        inside = Signal()
        m.d.comb += sender.eq(held)
        with m.If(~inside):
            for n in reversed(range(self.senders)):
                with m.If(self.i[n].valid):
                    m.d.comb += sender.eq(n)
        m.d.comb += [
            given.valid.eq(Array(port.valid for port in self.i)[sender]),
            given.payload.eq(Array(port.payload.as_value() for port in self.i)[sender]),
        ]
        for n, port in enumerate(self.i):
            m.d.comb += port.ready.eq(given.ready & (sender == n))
        put, got = queue.i.valid & queue.i.ready, self.o.valid & self.o.ready
        with m.If(given.valid & given.ready):
            m.d.sync += [held.eq(sender), inside.eq(~given.payload.last)]

        whole = Signal(range(2 * self.max_flits + 1))
        m.d.sync += whole.eq(whole + (put & queue.i.payload.last) - (got & self.o.payload.last))
        m.d.comb += [
            self.o.valid.eq(queue.o.valid & (whole != 0)),
            self.o.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.o.ready & (whole != 0)),
        ]
        m.d.sync += Cover(whole == 2)
        return m
