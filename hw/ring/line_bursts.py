"""Line bursts: reads some beats in bursts that end with a line."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES
from hw.memory.formats import ReadRequest, beat_address_width
from hw.ring.line_formats import LAST_BEAT_BITS
from hw.stream.slice import Slice

__all__ = ["BeatRange", "LineBursts"]


class BeatRange(data.StructLayout):
    """Beats of the own memory: ``address`` of the first one, ``last_beat``: their number, less one."""

    def __init__(self, address_width: int, data_width: int) -> None:
        super().__init__({"address": beat_address_width(address_width, data_width), "last_beat": LAST_BEAT_BITS})


class LineBursts(wiring.Component):
    """A burst for each line, so that none crosses 4 KiB wherever the range begins.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    i : stream of `BeatRange`
    o : stream of `ReadRequest`
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self.data_width = data_width
        self._range = BeatRange(address_width, data_width)
        super().__init__(
            {
                "i": In(stream.Signature(self._range)),
                "o": Out(stream.Signature(ReadRequest(address_width, data_width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk through the range."""
        m = Module()
        m.submodules.slice = taken = Slice(self._range)
        connect(m, flipped(self.i), taken.i)
        whole, done = taken.o.payload, Signal(LAST_BEAT_BITS + 1)
        address, left, rest = Signal.like(whole.address), Signal(LAST_BEAT_BITS), Signal(LAST_BEAT_BITS)
        to_line_end = ~address[: exact_log2(8 * LINE_BYTES // self.data_width)]
        ends = Signal()
        m.d.comb += [
            address.eq(whole.address + done),
            left.eq(whole.last_beat - done),
            rest.eq(to_line_end),
            ends.eq(left <= rest),
            self.o.valid.eq(taken.o.valid),
            self.o.payload.address.eq(address),
            self.o.payload.length.eq(Mux(ends, left, rest)),
            taken.o.ready.eq(self.o.ready & ends),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += done.eq(Mux(ends, 0, done + rest + 1))
        return m
