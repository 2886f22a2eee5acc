"""Collector: turns a record in the buffer into beats of the record stream (I4)."""

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import RECORD_HEADER
from hw.contracts import struct
from hw.islands.config import LocatorConfig
from hw.islands.formats import Descriptor, RecordBeat, Settings
from hw.islands.record_buffer import ReaderSignature
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
    buffer
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
                "buffer": Out(ReaderSignature(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk through the sections of a record."""
        m = Module()
        config, buffer = self.config, self.buffer
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
        m.d.comb += [self.busy.eq(1), out.i.payload.last.eq(0)]

        # A row: words of node columns, then of hub columns, joined in `rest`.
        word, column = Signal(range(config.columns // _BEAT + 1)), Signal(range(config.columns // _BEAT + 1))
        rest, fill = Signal(_BEAT), Signal(7)
        bits, count = Signal(_BEAT), Signal(7)
        in_nodes, last_word, last_row = Signal(), Signal(), Signal()
        node_words, hub_words = Signal.like(word), Signal.like(word)
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
        # Columns of hubs begin behind the last that a node can have.
        hub_column = config.c_max // _BEAT + (first_hub >> 6) + word - node_words
        m.d.comb += column.eq(Mux(in_nodes, word, hub_column))
        held = Mux(record.blank, 0, buffer.row.word_select(column, _BEAT))
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

        def at_row(row: object) -> object:
            """Address of a row of the bitmap."""
            return Cat(row[: config.list_bits], record.half)  # type: ignore[index]

        def at_pair(first: object, width: int) -> object:
            """Address of two nodes or hubs."""
            return Cat(first[1:width], record.half)  # type: ignore[index]

        def two(vertices: object, alone: object) -> object:
            """Return the beat of two vertices, or of the lower one."""
            gap = Const(0, _BEAT // 2 - config.node_bits)
            return Cat(vertices[0], gap, Mux(alone, 0, vertices[1]))  # type: ignore[index]

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
                    buffer.node_read.eq(at_pair(index, config.list_bits)),
                ]
                with m.If(out.i.ready):
                    m.next = "NODES"
            with m.State("NODES"):
                last, step = index + 2 >= record.nodes, Signal()
                m.d.comb += [
                    out.i.valid.eq(1),
                    out.i.payload.data.eq(two(buffer.nodes, index + 1 == record.nodes)),
                    step.eq(out.i.ready),
                    buffer.node_read.eq(at_pair(Mux(step, index + 2, index), config.list_bits)),
                    buffer.hub_read.eq(at_pair(first_hub, config.hub_bits)),
                    buffer.row_read.eq(at_row(index & 0)),
                ]
                with m.If(step):
                    m.d.sync += index.eq(Mux(last, 0, index + 2))
                    with m.If(last & (hubs != 0)):
                        m.next = "HUBS"
                    with m.Elif(last):
                        m.next = "ROWS"
            with m.State("HUBS"):
                last, step = index + 2 >= hubs, Signal()
                m.d.comb += [
                    out.i.valid.eq(1),
                    out.i.payload.data.eq(two(buffer.hubs, index + 1 == hubs)),
                    step.eq(out.i.ready),
                    buffer.hub_read.eq(at_pair(first_hub + Mux(step, index + 2, index), config.hub_bits)),
                    buffer.row_read.eq(at_row(index & 0)),
                ]
                with m.If(step):
                    m.d.sync += index.eq(Mux(last, 0, index + 2))
                    with m.If(last):
                        m.next = "ROWS"
            with m.State("ROWS"):
                step, full, next_row = Signal(), Signal(), Signal.like(index)
                m.d.comb += [
                    full.eq((total >= _BEAT) | last_word),
                    out.i.valid.eq(full),
                    out.i.payload.data.eq(packed),
                    out.i.payload.last.eq(last_row & last_word & (total <= _BEAT)),
                    step.eq(out.i.ready | ~full),
                    next_row.eq(index + (step & last_word)),
                    buffer.row_read.eq(at_row(next_row)),
                ]
                with m.If(step):
                    m.d.sync += [
                        word.eq(Mux(last_word, 0, word + 1)),
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
                    buffer.row_read.eq(at_row((index + last_tail)[: len(index)])),
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
