"""Read gate: stands between the readers and the read arbiter, so that a command can be broken off."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import ReadRequest, check_port

__all__ = ["ReadGate"]


class ReadGate(wiring.Component):
    """Passes requests on until it is closed, and knows whether any that passed has no answer yet.

    Only wires lie between `i` and `o`. Closing withdraws requests that wait, which the rules of streams forbid: the
    receiver has to take nothing into account before it takes a request, as the read arbiter does.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    clients
        Number of readers.
    most
        Largest number of unanswered requests of a reader.

    Attributes
    ----------
    closed : In(1)
    i, o : streams of `ReadRequest`
        From the readers, to the arbiter.
    answered : In(1)
        The last beat of a request comes back.
    unanswered : Out(1)
        Requests that passed before this cycle have no answer yet.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, clients: int = 4, most: int = 128) -> None:
        check_port(address_width, data_width)
        if clients < 1:
            raise ValueError(f"clients must be at least 1, not {clients!r}")
        if most < 1:
            raise ValueError(f"most must be at least 1, not {most!r}")
        self.clients, self.most = clients, most
        requests = stream.Signature(ReadRequest(address_width, data_width))
        super().__init__(
            {
                "closed": In(1),
                "i": In(requests).array(clients),
                "o": Out(requests).array(clients),
                "answered": In(1),
                "unanswered": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Cut the handshakes and count."""
        m = Module()
        passed = Signal(self.clients)
        for n, (source, sink) in enumerate(zip(self.i, self.o, strict=True)):
            m.d.comb += [
                sink.payload.eq(source.payload),
                sink.valid.eq(source.valid & ~self.closed),
                source.ready.eq(sink.ready & ~self.closed),
                passed[n].eq(sink.valid & sink.ready),
            ]
        count = Signal(range(self.clients * self.most + 1))
        m.d.sync += count.eq(count + sum(passed) - self.answered)
        m.d.comb += self.unanswered.eq(count != 0)
        return m
