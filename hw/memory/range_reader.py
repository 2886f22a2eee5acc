"""Range reader: turns ranges of 32-bit words into bursts and marks the words of the beats that belong to them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.memory.fetcher import Fetcher
from hw.memory.formats import (
    BURST_BEATS,
    RangeBeat,
    RangeRequest,
    ReadBeat,
    ReadRequest,
    beat_address_width,
    check_port,
)
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["RangeMasker", "RangeReader", "RangeSplitter"]

_WORD_WIDTH = 32


class _Part(data.StructLayout):
    """Description of a burst for the masker.

    ``length``: beats - 1. ``first``: first word of the first beat that belongs to the range. ``final``: last word of
    the last beat that belongs to it. ``last``: last burst of the range. ``empty``: an empty range, without a burst.
    """

    def __init__(self, data_width: int) -> None:
        position = exact_log2(data_width // _WORD_WIDTH)
        super().__init__({"length": 4, "first": position, "final": position, "last": 1, "empty": 1})


class RangeSplitter(wiring.Component):
    """Splits ranges into bursts that end at multiples of 16 beats, so that none crosses 4 KiB.

    One burst a cycle; the next range follows without a gap. ``request`` and ``part`` are accepted together: each is
    valid only while the other is ready, and a receiver's ``ready`` must not depend on its ``valid``.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    i
        Ranges.
    request
        Their bursts.
    part
        A description of every burst, and of every empty range, for the masker.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        check_port(address_width, data_width)
        self.address_width, self.data_width = address_width, data_width
        super().__init__(
            {
                "i": In(stream.Signature(RangeRequest(address_width))),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "part": Out(stream.Signature(_Part(data_width))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the block."""
        m = Module()
        position = exact_log2(self.data_width // _WORD_WIDTH)
        in_block = position + exact_log2(BURST_BEATS)  # bits of a word's place in its block of 16 beats

        # Rest of the current range. A burst ends with its block, the last one with the range.
        busy, empty = Signal(), Signal(reset_less=True)
        block_bits = beat_address_width(self.address_width, self.data_width) - exact_log2(BURST_BEATS)
        block = Signal(block_bits, reset_less=True)
        blocks = Signal(_WORD_WIDTH + 1 - in_block, reset_less=True)  # blocks left - 1
        # In their blocks, and in their beats.
        beat, final_beat = Signal(range(BURST_BEATS), reset_less=True), Signal(range(BURST_BEATS), reset_less=True)
        first, final = Signal(position, reset_less=True), Signal(position, reset_less=True)

        last, length = Signal(), Signal(range(BURST_BEATS))
        m.d.comb += [last.eq(blocks == 0), length.eq(Mux(last, final_beat, BURST_BEATS - 1) - beat)]
        request, part = self.request, self.part
        advance = Signal()
        m.d.comb += [
            request.payload.address.eq(Cat(beat, block)),
            request.payload.length.eq(length),
            request.valid.eq(busy & ~empty & part.ready),
            part.payload.length.eq(length),
            part.payload.first.eq(first),
            part.payload.final.eq(final),
            part.payload.last.eq(last),
            part.payload.empty.eq(empty),
            part.valid.eq(busy & (empty | request.ready)),
            advance.eq(part.valid & part.ready),
            self.i.ready.eq(~busy | (advance & last)),
        ]
        with m.If(advance):
            m.d.sync += [block.eq(block + 1), blocks.eq(blocks - 1), beat.eq(0), first.eq(0), busy.eq(~last)]
        start, end = Signal(in_block), Signal(_WORD_WIDTH + 1)  # first and last word, from the start of the first block
        m.d.comb += [
            start.eq(self.i.payload.address[:in_block]),
            end.eq(self.i.payload.words + (Cat(start, 0).as_signed() - 1)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                busy.eq(1),
                empty.eq(self.i.payload.words == 0),
                Cat(first, beat, block).eq(self.i.payload.address),
                Cat(final, final_beat, blocks).eq(Mux(self.i.payload.words == 0, 0, end)),
            ]
        return m


class RangeMasker(wiring.Component):
    """Marks the words of every beat that belong to the range, and the range's last beat.

    It counts the beats of a burst, so that ``valid`` and ``ready`` depend on registers and not on the beats' block
    RAM.

    Parameters
    ----------
    data_width
        Width of a beat, in bits.

    Attributes
    ----------
    part
        Bursts of the ranges, in order.
    beat
        Their beats, in order.
    o
        Beats of ranges.
    """

    def __init__(self, data_width: int = 256) -> None:
        check_port(32, data_width)
        self.data_width = data_width
        super().__init__(
            {
                "part": In(stream.Signature(_Part(data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width))),
                "o": Out(stream.Signature(RangeBeat(data_width))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the block."""
        m = Module()
        part, beat, o = self.part.payload, self.beat.payload, self.o
        index = Signal(range(BURST_BEATS))  # of the beat in its burst
        final_beat, last, moves = Signal(), Signal(), Signal()
        m.d.comb += [
            final_beat.eq((index == part.length) | part.empty),
            last.eq(part.last & final_beat),
            o.valid.eq(self.part.valid & (part.empty | self.beat.valid)),
            o.payload.data.eq(beat.data),
            o.payload.last.eq(last),
            o.payload.error.eq(beat.error & ~part.empty),
            moves.eq(o.valid & o.ready),
            self.beat.ready.eq(moves & ~part.empty),
            self.part.ready.eq(moves & final_beat),
        ]
        for word in range(self.data_width // _WORD_WIDTH):
            before = (index == 0) & (word < part.first)
            after = last & (word > part.final)
            m.d.comb += o.payload.mask[word].eq(~(part.empty | before | after))
        with m.If(moves):
            m.d.sync += index.eq(Mux(final_beat, 0, index + 1))
        return m


class RangeReader(wiring.Component):
    """Reads ranges of 32-bit words, one beat a cycle, the next range's requests ahead of the last one's beats.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats requested or waiting, as in `Fetcher`; also the bursts and empty ranges under way.

    Attributes
    ----------
    i
        Ranges; ``ready`` depends on registers and on no other stream.
    o
        Their beats; an empty range is one beat with mask 0.
    request
        Bursts to the arbiter.
    beat
        Beats from the arbiter, always accepted.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, depth: int = 128) -> None:
        self._fetcher = Fetcher(address_width, data_width, depth)
        self.address_width, self.data_width, self.depth = address_width, data_width, depth
        super().__init__(
            {
                "i": In(stream.Signature(RangeRequest(address_width))),
                "o": Out(stream.Signature(RangeBeat(data_width))),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the block."""
        m = Module()
        m.submodules.splitter = splitter = RangeSplitter(self.address_width, self.data_width)
        m.submodules.fetcher = fetcher = self._fetcher
        m.submodules.parts = parts = Queue(_Part(self.data_width), self.depth)
        m.submodules.part = part = Slice(_Part(self.data_width))
        m.submodules.masker = masker = RangeMasker(self.data_width)
        wiring.connect(m, wiring.flipped(self.i), splitter.i)
        wiring.connect(m, splitter.request, fetcher.i)
        wiring.connect(m, splitter.part, parts.i)
        wiring.connect(m, parts.o, part.i)
        wiring.connect(m, part.o, masker.part)
        wiring.connect(m, fetcher.o, masker.beat)
        wiring.connect(m, masker.o, wiring.flipped(self.o))
        wiring.connect(m, fetcher.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beat), fetcher.beat)
        return m
