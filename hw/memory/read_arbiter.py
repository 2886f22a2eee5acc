"""Read arbiter: several clients share the read channels of one AXI4 port."""

from collections.abc import Collection

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.block_memory import NO_BYPASS, RegisteredRead, registered_read
from hw.memory.axi import AXI4ReadSignature, Burst, beat_size
from hw.memory.formats import (
    BURST_BEATS,
    ReadBeat,
    ReadRequest,
    beat_address_width,
    check_port,
    line_address_width,
)
from hw.stream.arbiter import Arbiter

__all__ = ["ReadArbiter"]


class ReadArbiter(wiring.Component):
    """Arbitrates the clients' requests onto AR, one a cycle, and routes the beats of R by ID.

    Clients request only beats that they can accept, so R never stalls. The addresses of outstanding bursts are kept
    in one memory for all clients, so that a failed read can be reported with its line. While a client that has
    `outstanding` bursts under way requests another, all clients stall; R goes on, which ends the stall.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    clients
        Number of clients, 2 to 16.
    outstanding
        Outstanding bursts of a client, a power of two. A client of single beats needs as many as the latency
        has cycles.
    silent
        Clients whose failed reads are not reported by `failure`, because they report errors in their beats.

    Attributes
    ----------
    requests
        Bursts of every client.
    beats
        Beats to every client, in the order of its requests.
    m_axi
        AR and R channels; the ID is the client's number.
    failure
        Line address of a beat with SLVERR or DECERR, in the cycle after the beat.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(
        self,
        address_width: int = 32,
        data_width: int = 256,
        clients: int = 4,
        outstanding: int = 128,
        silent: Collection[int] = (),
    ) -> None:
        check_port(address_width, data_width)
        if not 2 <= clients <= 16:
            raise ValueError(f"clients must be in 2..16, not {clients!r}")
        if outstanding < 2 or outstanding & (outstanding - 1):
            raise ValueError(f"outstanding must be a power of two from 2, not {outstanding!r}")
        self.address_width, self.data_width = address_width, data_width
        self.clients, self.outstanding, self.silent = clients, outstanding, tuple(silent)
        self.id_width = ceil_log2(clients)
        #: Clients with `outstanding` bursts under way.
        self.full = Signal(clients)
        #: Bursts requested and bursts answered so far, by client, modulo ``2 * outstanding``.
        self.tails = Array(Signal(range(2 * outstanding), name=f"tail{i}") for i in range(clients))
        self.heads = Array(Signal(range(2 * outstanding), name=f"head{i}") for i in range(clients))
        self._request = ReadRequest(address_width, data_width)
        super().__init__(
            {
                "requests": In(stream.Signature(self._request)).array(clients),
                "beats": Out(stream.Signature(ReadBeat(data_width), always_ready=True)).array(clients),
                "m_axi": Out(AXI4ReadSignature(address_width, data_width, self.id_width)),
                "failure": Out(stream.Signature(line_address_width(address_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the clients to the arbiter, AR to its output and R to the clients."""
        m = Module()
        m.submodules.arbiter = arbiter = Arbiter(self._request, self.clients)
        m.submodules.addresses = addresses = memory.Memory(
            shape=beat_address_width(self.address_width, self.data_width),
            depth=self.outstanding << self.id_width,
            init=[],
            attrs=dict(NO_BYPASS),
        )
        for request, port in zip(self.requests, arbiter.i, strict=True):
            wiring.connect(m, wiring.flipped(request), port)
        self._ask(m, arbiter.o, addresses.write_port())
        self._answer(m, registered_read(m, addresses))
        return m

    def _ask(self, m: Module, requests: stream.Interface, addresses: memory.WritePort) -> None:
        """Send requests to AR, keep their addresses, and keep each client from exceeding `outstanding`."""
        tails, heads = self.tails, self.heads
        axi, burst, source = self.m_axi, requests.payload.payload, requests.payload.source
        size = beat_size(self.data_width)
        room = Signal()
        m.d.comb += [
            room.eq(~self.full.bit_select(source, 1)),
            axi.arvalid.eq(requests.valid & room),
            requests.ready.eq(axi.arready & room),
            axi.arid.eq(source),
            axi.araddr.eq(burst.address << size),
            axi.arlen.eq(burst.length),
            axi.arsize.eq(size),
            axi.arburst.eq(Burst.INCR),
            addresses.en.eq(axi.arvalid & axi.arready),
            addresses.addr.eq(Cat(tails[source][:-1], source)),
            addresses.data.eq(burst.address),
        ]
        # A client's next number, and whether that fills it up, are early; whether it requests is late.
        for n, (tail, head) in enumerate(zip(tails, heads, strict=True)):
            after, answers = Signal.like(tail, name=f"after{n}"), Signal(name=f"answers{n}")
            m.d.comb += [after.eq(tail + 1), answers.eq(axi.rvalid & axi.rlast & (axi.rid == n))]
            with m.If(addresses.en & (source == n)):
                m.d.sync += [tail.eq(after), self.full[n].eq(((after ^ head) == self.outstanding) & ~answers)]
            with m.Elif(answers):
                m.d.sync += self.full[n].eq(0)
        m.d.sync += Cover(requests.valid & ~room, "a client has as many bursts under way as it may")

    def _answer(self, m: Module, addresses: RegisteredRead) -> None:
        """Register the beats of R for the clients; report the line of a failed one."""
        axi, heads = self.m_axi, self.heads
        # The address of the burst is read beside the beat's register.
        beat = Signal(ReadBeat(self.data_width), reset_less=True)
        valid, client = Signal(), Signal(self.id_width)
        position = Array(Signal(range(BURST_BEATS), name=f"position{i}") for i in range(self.clients))
        index = Signal(range(BURST_BEATS))
        m.d.comb += [
            axi.rready.eq(1),
            addresses.en.eq(axi.rvalid),
            addresses.addr.eq(Cat(heads[axi.rid][:-1], axi.rid)),
        ]
        m.d.sync += valid.eq(axi.rvalid)
        with m.If(axi.rvalid):
            m.d.sync += [
                beat.data.eq(axi.rdata),
                beat.error.eq(axi.rresp[1]),
                beat.last.eq(axi.rlast),
                client.eq(axi.rid),
                index.eq(position[axi.rid]),
                position[axi.rid].eq(Mux(axi.rlast, 0, position[axi.rid] + 1)),
                heads[axi.rid].eq(heads[axi.rid] + axi.rlast),
            ]
        for i, port in enumerate(self.beats):
            m.d.comb += [port.payload.eq(beat), port.valid.eq(valid & (client == i))]
        # Error reporting is not timing-critical and block RAM is slow, so it is registered once more.
        address, offset = Signal.like(addresses.data, reset_less=True), Signal.like(index, reset_less=True)
        failed, told = Signal(), Signal()
        m.d.comb += told.eq(Cat(client == n for n in self.silent).any())
        m.d.sync += [address.eq(addresses.data), offset.eq(index), failed.eq(valid & beat.error & ~told)]
        beats_of_a_line = len(addresses.data) - len(self.failure.payload)
        m.d.comb += [
            self.failure.valid.eq(failed),
            self.failure.payload.eq((address + offset) >> beats_of_a_line),
        ]
