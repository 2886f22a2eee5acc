"""Collector: turns a record in the buffer into beats of the record stream (I4)."""

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import RECORD_HEADER
from hw.contracts import struct
from hw.islands.config import LocatorConfig
from hw.islands.formats import Descriptor, RecordBeat, Settings
from hw.islands.record_buffer import reader_members
from hw.stream.slice import Slice

__all__ = ["Collector"]

_BEAT = 64


class Collector(wiring.Component):
    """Emits header, node VIDs, hub VIDs and bitmap rows, part by part.

    In a row the columns of hubs follow those of nodes without a gap.
    Takes a record when the one before is out, so the half of a record is free once the next was taken.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round: ``h_max`` counts.
    i
        Records.
    o
        Their beats.
    busy
        A record is under way.
    node_read, node_out, hub_read, hub_out, word_read, word_out
        To and from the record buffer.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "i": In(stream.Signature(Descriptor(config))),
                "o": Out(stream.Signature(RecordBeat)),
                "busy": Out(1),
                **{name: member.flip() for name, member in reader_members(config).items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk through the sections of a record."""
        m = Module()
        config = self.config
        m.submodules.out = out = Slice(RecordBeat)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        header = struct(RECORD_HEADER)

        record = Signal(Descriptor(config))
        part, first_hub = Signal(8), Signal(config.hub_bits + 1)
        hubs_left, hubs, last_part = Signal(config.hub_bits + 1), Signal(config.hub_bits + 1), Signal()
        m.d.comb += [
            hubs_left.eq(record.hubs - first_hub),
            last_part.eq(hubs_left <= self.settings.h_max),
            hubs.eq(Mux(last_part, hubs_left, self.settings.h_max)),
        ]
        index = Signal(max(config.list_bits, config.hub_bits) + 1)  # of a node, a hub or a row
        low = Signal(config.node_bits)  # the even VID of a beat
        m.d.comb += [self.busy.eq(1), out.i.payload.last.eq(0)]

        # A row: words of node columns, then of hub columns, joined in `rest`.
        word = Signal(range(config.row_words + 1))
        rest, fill = Signal(_BEAT), Signal(7)
        bits, count = Signal(_BEAT), Signal(7)
        in_nodes, last_word, last_row = Signal(), Signal(), Signal()
        node_words, hub_words = Signal(range(config.node_words + 1)), Signal(range(config.row_words + 1))
        node_left = Signal(config.list_bits + 1)
        hub_columns_left = Signal(config.hub_bits + 1)
        m.d.comb += [
            node_words.eq((record.nodes + _BEAT - 1) >> 6),
            hub_words.eq((hubs + _BEAT - 1) >> 6),
            in_nodes.eq(word < node_words),
            last_word.eq(word == node_words + hub_words - 1),
            last_row.eq(index == record.nodes - 1),
            node_left.eq(record.nodes - (word << 6)),
            hub_columns_left.eq(hubs - ((word - node_words) << 6)),
        ]
        held = Mux(self.word_out.tag == record.tag, self.word_out.bits, 0)
        diagonal = Mux((word == index >> 6) & record.head, 1 << index[:6], 0)
        with m.If(in_nodes):
            m.d.comb += [
                bits.eq(Mux(part == 0, held | diagonal, 0)),
                count.eq(Mux(node_left > _BEAT, _BEAT, node_left)),
            ]
        with m.Else():
            m.d.comb += [
                bits.eq(held),
                count.eq(Mux(hub_columns_left > _BEAT, _BEAT, hub_columns_left)),
            ]
        packed, total = Signal(2 * _BEAT), Signal(8)
        m.d.comb += [packed.eq(rest | (bits << fill)), total.eq(fill + count)]

        def at_word(row: object, number: object) -> object:
            """Address of a word of the buffer's bitmap."""
            column = Mux(number < node_words, number, config.node_words + (first_hub >> 6) + number - node_words)
            return Cat(row[: config.list_bits], record.half) * config.row_words + column  # type: ignore[index]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.i.ready.eq(1), self.busy.eq(0)]
                m.d.sync += [record.eq(self.i.payload), part.eq(~self.i.payload.head), first_hub.eq(0)]
                with m.If(self.i.valid):
                    m.next = "HEADER"
            with m.State("HEADER"):
                content = Signal(header)
                m.d.comb += [
                    content.nodes.eq(record.nodes),
                    content.hubs.eq(hubs),
                    content.round.eq(record.round),
                    content.part.eq(part),
                    content.last_part.eq(last_part),
                    content.hub_edges.eq(record.hub_edges),
                    content.end.eq(0),
                    content.reserved.eq(0),
                    out.i.valid.eq(1),
                    out.i.payload.data.eq(content),
                    self.node_read.eq(Cat(index[: config.list_bits], record.half)),
                ]
                with m.If(out.i.ready):
                    m.next = "NODES"
            with m.State("NODES"):
                odd, last = index[0], index == record.nodes - 1
                step = Signal()
                m.d.comb += [
                    out.i.valid.eq(odd | last),
                    out.i.payload.data.eq(
                        Mux(odd, Cat(low, Const(0, 32 - config.node_bits), self.node_out), self.node_out)
                    ),
                    step.eq(out.i.ready | ~out.i.valid),
                    self.node_read.eq(Cat((index + step)[: config.list_bits], record.half)),
                ]
                with m.If(step):
                    m.d.sync += [low.eq(self.node_out), index.eq(Mux(last, 0, index + 1))]
                    m.d.comb += self.hub_read.eq(Cat(first_hub[: config.hub_bits], record.half))
                    with m.If(last & (hubs != 0)):
                        m.next = "HUBS"
                    with m.Elif(last):
                        m.d.comb += self.word_read.eq(at_word(index & 0, word & 0))
                        m.next = "ROWS"
            with m.State("HUBS"):
                odd, last = index[0], index == hubs - 1
                step = Signal()
                m.d.comb += [
                    out.i.valid.eq(odd | last),
                    out.i.payload.data.eq(
                        Mux(odd, Cat(low, Const(0, 32 - config.node_bits), self.hub_out), self.hub_out)
                    ),
                    step.eq(out.i.ready | ~out.i.valid),
                    self.hub_read.eq(Cat((first_hub + index + step)[: config.hub_bits], record.half)),
                    self.word_read.eq(at_word(index & 0, word & 0)),
                ]
                with m.If(step):
                    m.d.sync += [low.eq(self.hub_out), index.eq(Mux(last, 0, index + 1))]
                    with m.If(last):
                        m.next = "ROWS"
            with m.State("ROWS"):
                step, full, next_word, next_row = Signal(), Signal(), Signal.like(word), Signal.like(index)
                m.d.comb += [
                    full.eq((total >= _BEAT) | last_word),
                    out.i.valid.eq(full),
                    out.i.payload.data.eq(packed),
                    out.i.payload.last.eq(last_row & last_word & (total <= _BEAT)),
                    step.eq(out.i.ready | ~full),
                    next_word.eq(Mux(step, Mux(last_word, 0, word + 1), word)),
                    next_row.eq(index + (step & last_word)),
                    self.word_read.eq(at_word(next_row, next_word)),
                ]
                with m.If(step):
                    m.d.sync += [
                        word.eq(next_word),
                        rest.eq(Mux(total >= _BEAT, packed >> _BEAT, packed)),
                        fill.eq(Mux(total >= _BEAT, total - _BEAT, total)),
                    ]
                    with m.If(last_word & (total > _BEAT)):
                        m.next = "TAIL"
                    with m.Elif(last_word):
                        m.d.sync += [rest.eq(0), fill.eq(0), index.eq(next_row)]
                        with m.If(last_row):
                            m.next = "PART"
            with m.State("TAIL"):
                # What the last word of a row has left over.
                last_tail = Signal()
                m.d.comb += [
                    out.i.valid.eq(1),
                    out.i.payload.data.eq(rest),
                    out.i.payload.last.eq(last_row),
                    last_tail.eq(out.i.ready),
                    self.word_read.eq(at_word((index + last_tail)[: len(index)], word & 0)),
                ]
                with m.If(out.i.ready):
                    m.d.sync += [rest.eq(0), fill.eq(0), index.eq(index + 1)]
                    m.next = "ROWS"
                    with m.If(last_row):
                        m.next = "PART"
            with m.State("PART"):
                m.d.sync += [index.eq(0), part.eq(part + 1), first_hub.eq(first_hub + hubs)]
                m.next = "IDLE"
                with m.If(~last_part):
                    m.next = "HEADER"
        m.d.sync += Cover(part == 2, "three parts")
        return m
