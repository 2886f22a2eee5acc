"""Read arbiter: many clients share the read channels of one AXI4 port."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.memory.axi import AXI4ReadSignature, Burst, beat_size
from hw.memory.formats import (
    BURST_BEATS,
    ReadBeat,
    ReadRequest,
    beat_address_width,
    check_port,
    line_address_width,
)
from hw.memory.skid import Skid

__all__ = ["ReadArbiter"]


class ReadArbiter(wiring.Component):
    """Requests of all clients in turn onto AR, one a cycle; beats from R to the client whose ID they carry.

    Clients ask only for what they can take, so R is never held up. The addresses of outstanding bursts are kept
    in one memory for all clients, so that a failing read can be reported with its line.

    ``requests[i].ready`` depends on ``requests[*].valid`` combinationally, as in every arbiter without a register
    per client; clients must not make ``valid`` depend on ``ready``.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    clients
        Number of clients, 1 to 16.
    outstanding
        Outstanding bursts of a client, a power of two. A client of single beats needs as many as the latency
        has cycles.

    Attributes
    ----------
    requests
        Bursts of every client.
    beats
        Beats to every client, in the order of its requests.
    m_axi
        AR and R channels; the ID is the client's number.
    failure
        Line address of a beat that was answered SLVERR or DECERR, at the same time as the beat.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(
        self, address_width: int = 32, data_width: int = 256, clients: int = 4, outstanding: int = 128
    ) -> None:
        check_port(address_width, data_width)
        if not 1 <= clients <= 16:
            raise ValueError(f"clients must be in 1..16, not {clients!r}")
        if outstanding < 2 or outstanding & (outstanding - 1):
            raise ValueError(f"outstanding must be a power of two from 2, not {outstanding!r}")
        self.address_width, self.data_width = address_width, data_width
        self.clients, self.outstanding = clients, outstanding
        self.id_width = max(1, ceil_log2(clients))
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
        """Build the block."""
        m = Module()
        tagged = data.StructLayout({"request": self._request, "client": self.id_width})
        m.submodules.address_channel = address_channel = Skid(tagged)
        m.submodules.addresses = addresses = memory.Memory(
            shape=beat_address_width(self.address_width, self.data_width),
            depth=self.outstanding << ceil_log2(self.clients),
            init=[],
        )
        granted, answered = addresses.write_port(), addresses.read_port()

        # Bursts granted and bursts answered so far, by client; their difference is what is outstanding.
        tails = Array(Signal(range(2 * self.outstanding), name=f"tail{i}") for i in range(self.clients))
        heads = Array(Signal(range(2 * self.outstanding), name=f"head{i}") for i in range(self.clients))
        wants = Signal(self.clients)
        for i, request in enumerate(self.requests):
            full = (tails[i] ^ heads[i]) == self.outstanding
            m.d.comb += wants[i].eq(request.valid & ~full)

        chosen, last = Signal(self.id_width), Signal(self.id_width)
        with m.Switch(last):
            for i in range(self.clients):
                with m.Case(i):
                    for distance in reversed(range(1, self.clients + 1)):
                        with m.If(wants[(i + distance) % self.clients]):
                            m.d.comb += chosen.eq((i + distance) % self.clients)
        m.d.comb += [
            address_channel.i.valid.eq(wants.any()),
            address_channel.i.payload.client.eq(chosen),
            address_channel.i.payload.request.eq(Array(request.payload for request in self.requests)[chosen]),
        ]
        accepted = Signal()
        m.d.comb += [
            accepted.eq(address_channel.i.valid & address_channel.i.ready),
            granted.en.eq(accepted),
            granted.addr.eq(tails[chosen][:-1] | chosen << (len(tails[0]) - 1)),
            granted.data.eq(address_channel.i.payload.request.address),
        ]
        with m.If(accepted):
            m.d.sync += [last.eq(chosen), tails[chosen].eq(tails[chosen] + 1)]
        for i, request in enumerate(self.requests):
            m.d.comb += request.ready.eq(address_channel.i.ready & wants[i] & (chosen == i))

        axi, burst = self.m_axi, address_channel.o.payload
        size = beat_size(self.data_width)
        m.d.comb += [
            axi.arvalid.eq(address_channel.o.valid),
            address_channel.o.ready.eq(axi.arready),
            axi.arid.eq(burst.client),
            axi.araddr.eq(burst.request.address << size),
            axi.arlen.eq(burst.request.length),
            axi.arsize.eq(size),
            axi.arburst.eq(Burst.INCR),
            axi.rready.eq(1),
        ]

        # A register between R and the clients; the address of the burst comes out of its memory beside it.
        beat = Signal(ReadBeat(self.data_width), reset_less=True)
        valid, client = Signal(), Signal(self.id_width)
        position = Array(Signal(range(BURST_BEATS), name=f"position{i}") for i in range(self.clients))
        index = Signal(range(BURST_BEATS))
        m.d.comb += [
            answered.en.eq(axi.rvalid),
            answered.addr.eq(heads[axi.rid][:-1] | axi.rid << (len(heads[0]) - 1)),
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
        beats_of_a_line = len(answered.data) - len(self.failure.payload)
        m.d.comb += [
            self.failure.valid.eq(valid & beat.error),
            self.failure.payload.eq((answered.data + index) >> beats_of_a_line),
        ]
        return m
