"""Write port: a stream of beats onto the write channels of an AXI4 port."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.block_memory import NO_BYPASS, registered_read
from hw.memory.axi import AXI4WriteSignature, Burst, beat_size
from hw.memory.formats import WriteRequest, beat_address_width, check_port, line_address_width
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["WritePort"]

#: Beats of data that wait. Each `hw.memory.axi_merge.AXIMerge` on the way to the memory takes a beat two cycles after
#: its address, so with room for two beats a merge passes a write only every other cycle, two a third.
_WAITING = 16


class WritePort(wiring.Component):
    """Writes each beat by a burst of its own, so that beats need no order; AW and W are independent.

    One write a cycle is sustained if the memory's latency, from W to B, is below ``outstanding`` cycles.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    id_width
        Width of the port's IDs, in bits; all writes have ID 0 and so are answered in order.
    outstanding
        Most writes without an answer, a power of two.

    Attributes
    ----------
    i
        Beats to write.
    m_axi
        AW, W and B channels.
    mark, answered
        1, but for the cycles with `mark`, once all beats that were taken up to the last of these have an answer.
    busy
        1 while writes have no answer or a `failure` is pending; a write counts from the cycle after its acceptance.
    failure
        Line address of a write with SLVERR or DECERR, two cycles after the answer.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(
        self, address_width: int = 32, data_width: int = 256, id_width: int = 1, outstanding: int = 128
    ) -> None:
        check_port(address_width, data_width)
        if id_width < 1:
            raise ValueError(f"id_width must be at least 1, not {id_width!r}")
        if outstanding < 2 or outstanding & (outstanding - 1):
            raise ValueError(f"outstanding must be a power of two from 2, not {outstanding!r}")
        self.address_width, self.data_width, self.outstanding = address_width, data_width, outstanding
        super().__init__(
            {
                "i": In(stream.Signature(WriteRequest(address_width, data_width))),
                "m_axi": Out(AXI4WriteSignature(address_width, data_width, id_width)),
                "mark": In(1),
                "answered": Out(1),
                "busy": Out(1),
                "failure": Out(stream.Signature(line_address_width(address_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Split beats into AW and W, count the outstanding writes, report the line of a failed one."""
        m = Module()
        address_shape = beat_address_width(self.address_width, self.data_width)
        line_shape = len(self.failure.payload)
        m.submodules.address_channel = aw = Slice(address_shape)
        m.submodules.data_channel = w = Queue(
            data.StructLayout({"data": self.data_width, "strobe": self.data_width // 8}), _WAITING
        )
        m.submodules.lines = lines = memory.Memory(
            shape=line_shape, depth=self.outstanding, init=[], attrs=dict(NO_BYPASS)
        )
        asked, answered = lines.write_port(), registered_read(m, lines)

        tail, head = Signal(range(2 * self.outstanding)), Signal(range(2 * self.outstanding))  # accepted, answered
        accepted, marked, waits = Signal(), Signal.like(tail), Signal()
        # Error reporting is not timing-critical and block RAM is slow, so the address is registered.
        failed, line = Signal(), Signal(line_shape, reset_less=True)
        m.d.comb += [
            self.busy.eq((tail != head) | failed),
            self.i.ready.eq(aw.i.ready & w.i.ready & ((tail ^ head) != self.outstanding)),
            accepted.eq(self.i.valid & self.i.ready),
            aw.i.valid.eq(accepted),
            aw.i.payload.eq(self.i.payload.address),
            w.i.valid.eq(accepted),
            w.i.payload.data.eq(self.i.payload.data),
            w.i.payload.strobe.eq(self.i.payload.strobe),
            asked.en.eq(accepted),
            asked.addr.eq(tail[:-1]),
            asked.data.eq(self.i.payload.address[address_shape - line_shape :]),
            answered.addr.eq(head[:-1]),
            answered.en.eq(self.m_axi.bvalid),
            self.failure.payload.eq(line),
        ]
        m.d.sync += [
            tail.eq(tail + accepted),
            head.eq(head + self.m_axi.bvalid),
            failed.eq(self.m_axi.bvalid & self.m_axi.bresp[1]),
            self.failure.valid.eq(failed),
            line.eq(answered.data),
        ]
        # Answers come one a cycle, so the marked one is not missed.
        m.d.comb += self.answered.eq(~waits & ~self.mark)
        with m.If(self.mark):
            m.d.sync += [marked.eq(tail + accepted), waits.eq(1)]
        with m.Elif(head == marked):
            m.d.sync += waits.eq(0)
        self._channels(m, aw.o, w.o)
        return m

    def _channels(self, m: Module, addresses: stream.Interface, beats: stream.Interface) -> None:
        """Connect AW, W and B."""
        axi = self.m_axi
        size = beat_size(self.data_width)
        m.d.comb += [
            axi.awvalid.eq(addresses.valid),
            addresses.ready.eq(axi.awready),
            axi.awaddr.eq(addresses.payload << size),
            axi.awsize.eq(size),
            axi.awburst.eq(Burst.INCR),
            axi.wvalid.eq(beats.valid),
            beats.ready.eq(axi.wready),
            axi.wdata.eq(beats.payload.data),
            axi.wstrb.eq(beats.payload.strobe),
            axi.wlast.eq(1),
            axi.bready.eq(1),
        ]
