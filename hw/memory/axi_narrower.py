"""AXI narrower: a manager behind a bus with narrower beats."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.memory.axi import AXI4Signature, Burst, beat_size

__all__ = ["AXINarrower"]

#: Beats that a burst has at most.
_MOST = 256
#: Signals of an address channel that pass through.
_PASSED = ("id", "addr", "prot")


class AXINarrower(wiring.Component):
    """Cuts each beat into parts, the lowest bytes first, and joins the parts of reads, ID by ID.

    Bursts are INCR with whole beats, aligned to beats, and at most ``256 * narrow / wide`` beats long, as those of a
    machine are. Answers of different IDs may be interleaved. A beat of a read fails if one of its parts does. All
    channels pass through in the same cycle; only the parts of reads are kept, until the last one has come.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    wide, narrow
        Width of a beat of the manager and of the bus, in bits; `wide` is a multiple of `narrow` by a power of two.
    id_width
        Bits of an ID.

    Attributes
    ----------
    i : AXI4 subordinate
        From the manager.
    o : AXI4 manager
        To the bus.

    Raises
    ------
    ValueError
        If a width is out of its range.
    """

    def __init__(self, address_width: int = 32, wide: int = 128, narrow: int = 32, id_width: int = 3) -> None:
        if narrow < 32 or narrow & (narrow - 1):
            raise ValueError(f"narrow must be a power of two from 32 on, not {narrow!r}")
        if wide not in range(2 * narrow, 16 * narrow + 1) or wide & (wide - 1):
            raise ValueError(f"wide must be 2, 4, 8 or 16 times {narrow}, not {wide!r}")
        self.ratio = wide // narrow
        self._narrow, self._id_width = narrow, id_width
        super().__init__(
            {
                "i": In(AXI4Signature(address_width, wide, id_width)),
                "o": Out(AXI4Signature(address_width, narrow, id_width)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Lengthen bursts, cut beats of writes, join those of reads."""
        m = Module()
        for channel in ("ar", "aw"):
            self._addresses(m, channel)
        self._writes(m)
        self._reads(m)
        m.d.comb += [
            self.i.bvalid.eq(self.o.bvalid),
            self.i.bid.eq(self.o.bid),
            self.i.bresp.eq(self.o.bresp),
            self.o.bready.eq(self.i.bready),
        ]
        return m

    def _addresses(self, m: Module, channel: str) -> None:
        """Pass an address channel on, with as many parts as there are in its beats."""
        own, bus, bits = self.i, self.o, exact_log2(self.ratio)
        m.d.comb += [getattr(bus, channel + name).eq(getattr(own, channel + name)) for name in _PASSED]
        m.d.comb += [
            # (length + 1) * ratio - 1
            getattr(bus, f"{channel}len").eq(Cat(Const(self.ratio - 1, bits), getattr(own, f"{channel}len"))),
            getattr(bus, f"{channel}size").eq(beat_size(self._narrow)),
            getattr(bus, f"{channel}burst").eq(Burst.INCR),
            getattr(bus, f"{channel}valid").eq(getattr(own, f"{channel}valid")),
            getattr(own, f"{channel}ready").eq(getattr(bus, f"{channel}ready")),
        ]

    def _writes(self, m: Module) -> None:
        own, bus = self.i, self.o
        part = Signal(range(self.ratio))
        last = part == self.ratio - 1
        m.d.comb += [
            bus.wdata.eq(own.wdata.word_select(part, self._narrow)),
            bus.wstrb.eq(own.wstrb.word_select(part, self._narrow // 8)),
            bus.wlast.eq(own.wlast & last),
            bus.wvalid.eq(own.wvalid),
            own.wready.eq(bus.wready & last),
        ]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += part.eq(part + 1)

    def _reads(self, m: Module) -> None:
        """Keep the parts of each ID until the last one comes."""
        own, bus, kept = self.i, self.o, (self.ratio - 1) * self._narrow
        m.submodules.parts = parts = Memory(shape=kept, depth=1 << self._id_width, init=[])
        write, read = parts.write_port(granularity=self._narrow), parts.read_port(domain="comb")
        counts = Array(Signal(range(self.ratio), name=f"count_{n}") for n in range(1 << self._id_width))
        answers = Array(Signal(2, name=f"answer_{n}") for n in range(1 << self._id_width))
        count, answer = counts[bus.rid], answers[bus.rid]
        last, passes = Signal(), Signal()
        m.d.comb += [
            last.eq(count == self.ratio - 1),
            passes.eq(bus.rvalid & bus.rready),
            bus.rready.eq(own.rready | ~last),
            own.rvalid.eq(bus.rvalid & last),
            own.rid.eq(bus.rid),
            own.rdata.eq(Cat(read.data, bus.rdata)),
            # The worst answer has the most bits set.
            own.rresp.eq(answer | bus.rresp),
            own.rlast.eq(bus.rlast),
            read.addr.eq(bus.rid),
            write.addr.eq(bus.rid),
            write.data.eq(bus.rdata.replicate(self.ratio - 1)),
            write.en.eq(Mux(passes & ~last, 1 << count, 0)),
        ]
        with m.If(passes):
            m.d.sync += [count.eq(count + 1), answer.eq(Mux(last, 0, answer | bus.rresp))]
