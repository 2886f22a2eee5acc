"""AXI merge: two managers share one AXI4 port."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.axi import AXI4Signature
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue

__all__ = ["AXIMerge"]

_MANAGERS = 2
_ADDRESS = ("id", "addr", "len", "size", "burst", "prot")


class AXIMerge(wiring.Component):
    """Arbitrates addresses and routes answers by the highest bit of their ID, which names the manager.

    Managers accept every answer at once. Write data follow in the order of their addresses.

    Parameters
    ----------
    address_width, data_width
        Widths of the port, in bits.
    id_width
        Bits of a manager's IDs; the port has one more.
    outstanding
        Bursts whose write data have not been sent, at least 2.

    Attributes
    ----------
    i : AXI4 subordinates
    o : AXI4 manager
    """

    def __init__(
        self, address_width: int = 32, data_width: int = 256, id_width: int = 3, outstanding: int = 16
    ) -> None:
        self.id_width, self.outstanding = id_width, outstanding
        super().__init__(
            {
                "i": In(AXI4Signature(address_width, data_width, id_width)).array(_MANAGERS),
                "o": Out(AXI4Signature(address_width, data_width, id_width + 1)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Arbitrate the address channels, order write data like their addresses, route answers by ID."""
        m = Module()
        reads, writes = self._arbiter(m, "ar"), self._arbiter(m, "aw")
        m.d.comb += [self.o.arvalid.eq(reads.valid), reads.ready.eq(self.o.arready)]
        m.submodules.order = order = Queue(1, self.outstanding - 1)
        coming, turn = self._order(m, writes, order)
        self._route(m, coming, turn)
        return m

    def _arbiter(self, m: Module, channel: str) -> stream.Interface:
        """Arbitrate an address channel onto the port; return the arbiter's output, for the handshake."""
        o = self.o
        layout = data.StructLayout({name: len(getattr(self.i[0], channel + name)) for name in _ADDRESS})
        m.submodules[f"{channel}_arbiter"] = arbiter = Arbiter(layout, _MANAGERS)
        for n, manager in enumerate(self.i):
            m.d.comb += [
                arbiter.i[n].valid.eq(getattr(manager, f"{channel}valid")),
                getattr(manager, f"{channel}ready").eq(arbiter.i[n].ready),
            ]
            m.d.comb += [arbiter.i[n].payload[name].eq(getattr(manager, channel + name)) for name in _ADDRESS]
        chosen = arbiter.o.payload
        m.d.comb += [getattr(o, channel + name).eq(chosen.payload[name]) for name in _ADDRESS]
        m.d.comb += getattr(o, f"{channel}id").eq((chosen.source << self.id_width) | chosen.payload.id)
        return arbiter.o

    def _order(self, m: Module, writes: stream.Interface, order: Queue) -> tuple[Signal, Signal]:
        """Send write addresses while their order can be kept; return whether data are due, and from which manager."""
        o = self.o
        coming, turn = Signal(), Signal()
        # An address is sent when its place in the order of the data is noted.
        noted = writes.valid & o.awready & order.i.ready
        # The manager whose data are next drives a wide multiplexer, so it is in a register; an entry bypasses the
        # queue while that is empty.
        free = ~coming | (o.wvalid & o.wready & o.wlast)
        m.d.comb += [
            o.awvalid.eq(writes.valid & order.i.ready),
            writes.ready.eq(o.awready & order.i.ready),
            order.i.valid.eq(noted & (order.o.valid | ~free)),
            order.i.payload.eq(writes.payload.source),
            order.o.ready.eq(free),
        ]
        with m.If(free):
            m.d.sync += [
                coming.eq(order.o.valid | noted),
                turn.eq(Mux(order.o.valid, order.o.payload, writes.payload.source)),
            ]
        return coming, turn

    def _route(self, m: Module, coming: Signal, turn: Signal) -> None:
        """Connect the write data of the manager in turn, and the answers by the highest bit of their ID."""
        o = self.o
        for n, manager in enumerate(self.i):
            mine = coming & (turn == n)
            m.d.comb += manager.wready.eq(mine & o.wready)
            with m.If(mine):
                m.d.comb += [
                    o.wvalid.eq(manager.wvalid),
                    o.wdata.eq(manager.wdata),
                    o.wstrb.eq(manager.wstrb),
                    o.wlast.eq(manager.wlast),
                ]
            m.d.comb += [
                manager.rvalid.eq(o.rvalid & (o.rid[self.id_width :] == n)),
                manager.rid.eq(o.rid),
                manager.rdata.eq(o.rdata),
                manager.rresp.eq(o.rresp),
                manager.rlast.eq(o.rlast),
                manager.bvalid.eq(o.bvalid & (o.bid[self.id_width :] == n)),
                manager.bid.eq(o.bid),
                manager.bresp.eq(o.bresp),
            ]
        m.d.comb += [o.rready.eq(1), o.bready.eq(1)]
