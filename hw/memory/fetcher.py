"""Fetcher: reads bursts in order and never asks for more than it can take."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import BURST_BEATS, ReadBeat, ReadRequest, check_port
from hw.memory.skid import Skid

__all__ = ["Fetcher"]


class Fetcher(wiring.Component):
    """Client of the read arbiter with a FIFO that has a free entry for every beat asked for.

    A request waits until the FIFO has room for all its beats, so what comes back is never held up. One beat a
    cycle is sustained if the memory's latency, from ``request`` to ``beat``, is at most
    ``depth - BURST_BEATS`` cycles.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats asked for or waiting in the FIFO, at least one burst.

    Attributes
    ----------
    i
        Bursts to read.
    o
        Their beats, in order.
    request
        Bursts to the arbiter.
    beat
        Beats from the arbiter; they cannot be held up.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, depth: int = 128) -> None:
        check_port(address_width, data_width)
        if not BURST_BEATS <= depth <= 4096:
            raise ValueError(f"depth must be in {BURST_BEATS}..4096, not {depth!r}")
        self.depth = depth
        self._request = ReadRequest(address_width, data_width)
        self._beat = ReadBeat(data_width)
        super().__init__(
            {
                "i": In(stream.Signature(self._request)),
                "o": Out(stream.Signature(self._beat)),
                "request": Out(stream.Signature(self._request)),
                "beat": In(stream.Signature(self._beat, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the block."""
        m = Module()
        m.submodules.skid = skid = Skid(self._request)
        # One more entry than credits: the FIFO's memory then has `depth` rows, a power of two as a rule.
        m.submodules.store = store = fifo.SyncFIFOBuffered(width=self._beat.size, depth=self.depth + 1)
        wiring.connect(m, wiring.flipped(self.i), skid.i)

        free = Signal(range(self.depth + 1), init=self.depth)
        enough = Signal()
        asked = Signal(range(BURST_BEATS + 1))
        m.d.comb += [
            enough.eq(free > skid.o.payload.length),
            self.request.payload.eq(skid.o.payload),
            self.request.valid.eq(skid.o.valid & enough),
            skid.o.ready.eq(self.request.ready & enough),
            store.w_data.eq(self.beat.payload),
            store.w_en.eq(self.beat.valid),
            self.o.payload.eq(store.r_data),
            self.o.valid.eq(store.r_rdy),
            store.r_en.eq(self.o.ready),
            asked.eq(Mux(self.request.valid & self.request.ready, skid.o.payload.length + 1, 0)),
        ]
        m.d.sync += free.eq(free - asked + (self.o.valid & self.o.ready))
        return m
