"""Fetcher: reads bursts in order and requests only beats that it has room for."""

from amaranth.hdl import Assert, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import BURST_BEATS, ReadBeat, ReadRequest, check_port
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["Fetcher"]


class Fetcher(wiring.Component):
    """Client of the read arbiter with a FIFO that has a free entry for every requested beat.

    A request waits until the FIFO has room for all its beats, so beats from memory are always accepted. One beat a
    cycle is sustained if no more than ``depth - BURST_BEATS - 2`` cycles pass between a burst on ``request`` and its
    first beat on ``beat``: behind the read arbiter, if the memory's latency is at most ``depth - BURST_BEATS - 4``.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats requested or waiting in the FIFO, at least one burst.

    Attributes
    ----------
    i
        Bursts to read.
    o
        Their beats, in order.
    request
        Bursts to the arbiter.
    beat
        Beats from the arbiter, always accepted.

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
        #: Beats that may still be asked for: `depth` less those asked for and those in the FIFO.
        self.free = Signal(range(depth + 1), init=depth)
        #: Beats in the FIFO.
        self.level = Signal(range(depth + 1))
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
        m.submodules.slice = burst = Slice(self._request)
        m.submodules.store = store = Queue(self._beat, self.depth)
        wiring.connect(m, wiring.flipped(self.i), burst.i)
        wiring.connect(m, store.o, wiring.flipped(self.o))

        enough = Signal()
        asked = Signal(range(BURST_BEATS + 1))
        m.d.comb += [
            enough.eq(self.free > burst.o.payload.length),
            self.request.payload.eq(burst.o.payload),
            self.request.valid.eq(burst.o.valid & enough),
            burst.o.ready.eq(self.request.ready & enough),
            store.i.payload.eq(self.beat.payload),
            store.i.valid.eq(self.beat.valid),
            self.level.eq(store.level),
            asked.eq(Mux(self.request.valid & self.request.ready, burst.o.payload.length + 1, 0)),
        ]
        m.d.sync += self.free.eq(self.free - asked + (self.o.valid & self.o.ready))
        m.d.sync += [
            Assert(~self.beat.valid | store.i.ready, "a beat came that there was no room for"),
            Cover(burst.o.valid & ~enough, "a burst waits for room"),
            Cover(self.free == 0, "no room is left"),
        ]
        return m
