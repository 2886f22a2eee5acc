"""Collector: turns records in the buffers of engines into beats of one stream (I4)."""

from typing import Any

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import RECORD_HEADER
from hw.contracts import struct
from hw.locator.config import ROW_WORD, LocatorConfig
from hw.locator.formats import Descriptor, RecordBeat, Settings
from hw.locator.record_buffer import ReaderSignature, RecordsSignature
from hw.locator.turns import in_turn, number_of
from hw.stream.slice import Slice

__all__ = ["Collector"]

_BEAT = 2 * ROW_WORD
#: Bits of a place in a word.
_PLACE = exact_log2(ROW_WORD)
#: A word of a row, ``valid`` until it is out: its ``bits`` come behind ``place`` others in the ``upper`` half of a beat
#: or in the lower one. It ``fills`` the beat; the rest is carried ``over`` into the next. ``ends_row``, ``last_row``:
#: its position.
_WORD = data.StructLayout(
    {
        "valid": 1,
        "bits": ROW_WORD,
        "place": _PLACE,
        "upper": 1,
        "fills": 1,
        "over": 1,
        "ends_row": 1,
        "last_row": 1,
    }
)


class Collector(wiring.Component):
    """Emits header, node VIDs, hub VIDs and bitmap rows, part by part.

    In a row, the hub columns follow the node columns without a gap.
    A record is taken when the previous one has been read; engines take turns, record by record.

    Parameters
    ----------
    config
        Sizes.
    count
        Engines, at least 1.

    Attributes
    ----------
    settings
        Of the round.
    engines
        Complete records of each engine.
    o
        Their beats, as a record stream.
    finish
        Emit the end of the stream once; no engine may have a record.
    busy
        An engine has a complete record, or a beat is left to emit.

    Raises
    ------
    ValueError
        If `count` is below 1.
    """

    def __init__(self, config: LocatorConfig, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count!r}")
        self.config, self.count = config, count
        super().__init__(
            {
                "settings": In(Settings(config)),
                "engines": In(RecordsSignature(config)).array(count),
                "o": Out(stream.Signature(RecordBeat)),
                "finish": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through the sections of a record."""
        m = Module()
        config = self.config
        m.submodules.slice = cut = Slice(RecordBeat)
        wiring.connect(m, cut.o, wiring.flipped(self.o))
        out, header = cut.i, struct(RECORD_HEADER)

        record = Signal(Descriptor(config))
        takes, done, complete = Signal(), Signal(), Signal(self.count)
        given, buffer = self._select(m, record, complete, takes, done)
        part, first_hub = Signal(8), Signal(config.hub_bits + 1)
        hubs_left, hubs, last_part = Signal(config.hub_bits + 1), Signal(config.hub_bits + 1), Signal()
        index = Signal(max(config.list_bits, config.hub_bits) + 1)  # of a node or a hub

        # Words of a row: node columns, then hub columns; computed while the header is sent.
        last_node_word, last_word = (
            Signal(range(config.columns // ROW_WORD), name=name) for name in ("last_node_word", "last_word")
        )
        node_count, hub_count = Signal(_PLACE + 1), Signal(_PLACE + 1)  # columns in the last word of each kind
        first_hub_word, last_row = Signal.like(last_word), Signal(config.list_bits)

        # A word is read from the buffer, then rotated to its place behind the bits of its row in `rest`; bits that the
        # half of the beat has no room for come out below it and begin the next half. The amount is registered with the
        # word, so the rotation follows neither the memory nor an adder.
        row, word, column = Signal(config.list_bits), Signal.like(last_word), Signal.like(last_word)
        left, place, count, total = Signal(), Signal(_PLACE + 1), Signal(_PLACE + 1), Signal(_PLACE + 2)
        ends_row, next_row, comes, goes = Signal(), Signal.like(row), Signal(), Signal()
        taken, rest, last_tail = Signal(_WORD), Signal(data.ArrayLayout(ROW_WORD, 2)), Signal()
        held = Mux(record.blank, 0, buffer.row.word_select(column, ROW_WORD))
        diagonal = Mux((word == row >> _PLACE) & record.head, 1 << row[:_PLACE], 0)
        m.d.comb += [
            ends_row.eq(word == last_word),
            count.eq(Mux(word == last_node_word, node_count, Mux(ends_row, hub_count, ROW_WORD))),
            total.eq(place + count),
            comes.eq(left & (~taken.valid | goes)),
            next_row.eq(row + (comes & ends_row)),
            buffer.row_read.eq(next_row),
        ]
        with m.If(goes):
            m.d.sync += taken.valid.eq(0)
        with m.If(comes):
            m.d.sync += [
                taken.valid.eq(1),
                taken.bits.eq(Mux(word > last_node_word, held, Mux(part == 0, held | diagonal, 0))),
                Cat(taken.place, taken.upper).eq(place),
                taken.fills.eq((total >= _BEAT) | ends_row),
                taken.over.eq(total > _BEAT),
                taken.ends_row.eq(ends_row),
                taken.last_row.eq(row == last_row),
                place.eq(Mux(ends_row, 0, total)),
                word.eq(Mux(ends_row, 0, word + 1)),
                column.eq(Mux(ends_row, 0, Mux(word == last_node_word, first_hub_word, column + 1))),
                row.eq(next_row),
                left.eq(~ends_row | (row != last_row)),
            ]
        turned, before, joined = taken.bits, Signal(ROW_WORD), Signal(rest.shape())
        for n in range(_PLACE):
            further = Signal(ROW_WORD, name=f"turned_{n}")
            m.d.comb += further.eq(Mux(taken.place[n], turned.rotate_left(1 << n), turned))
            turned = further
        m.d.comb += [
            before.eq((1 << taken.place) - 1),
            joined[0].eq(rest[0] | Mux(taken.upper, 0, turned & ~before)),
            joined[1].eq(rest[1] | (turned & (taken.upper.replicate(ROW_WORD) ^ before))),
        ]

        # A beat of two vertices, or of the lower one.
        pair, alone, vids = Signal.like(buffer.nodes), Signal(), Signal(data.ArrayLayout(ROW_WORD, 2))
        m.d.comb += [pair.eq(buffer.nodes), alone.eq(index + 1 == record.nodes)]
        for vid, vertex in zip(vids, pair, strict=True):
            m.d.comb += vid.eq((vertex + self.settings.first)[: config.node_bits])
        with m.If(alone):
            m.d.comb += vids[1].eq(0)

        idle, ends = Signal(), Signal()
        m.d.comb += self.busy.eq(complete.any() | ~idle | self.o.valid)

        def end_part() -> None:
            """Go on with the next part, or with the next record if there is one."""
            m.d.comb += ends.eq(1)
            m.next = "HEADER"
            with m.If(last_part & ~complete.any()):
                m.next = "IDLE"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                with m.If(complete.any()):
                    m.next = "HEADER"
                with m.Elif(self.finish):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += [out.valid.eq(1), out.payload.data.eq(RECORD_HEADER.pack({"end": 1}))]
                m.d.comb += out.payload.last.eq(1)
                with m.If(out.ready):
                    m.next = "IDLE"
            with m.State("HEADER"):
                content, fits, columns = Signal(header), Signal(), Signal.like(hubs)
                m.d.comb += [
                    fits.eq(hubs_left <= self.settings.h_max),
                    columns.eq(Mux(fits, hubs_left, self.settings.h_max)),
                    content.nodes.eq(record.nodes),
                    content.hubs.eq(columns),
                    content.round.eq(record.round),
                    content.part.eq(part),
                    content.last_part.eq(fits),
                    content.hub_edges.eq(record.hub_edges),
                    content.end.eq(0),
                    content.shared.eq(0),
                    content.piece.eq(0),
                    content.reserved.eq(0),
                    out.valid.eq(1),
                    out.payload.data.eq(content),
                    buffer.node_read.eq(index >> 1),
                ]
                # Hub columns begin behind the last possible node column.
                m.d.sync += [
                    hubs.eq(columns),
                    last_part.eq(fits),
                    last_row.eq(record.nodes - 1),
                    last_node_word.eq((record.nodes - 1) >> _PLACE),
                    last_word.eq(((record.nodes - 1) >> _PLACE) + ((columns + ROW_WORD - 1) >> _PLACE)),
                    node_count.eq(_in_last_word(record.nodes)),
                    hub_count.eq(_in_last_word(columns)),
                    first_hub_word.eq(config.c_max // ROW_WORD + (first_hub >> _PLACE)),
                    left.eq(out.ready),
                ]
                with m.If(out.ready):
                    m.next = "NODES"
            with m.State("NODES"):
                last, step = index + 2 >= record.nodes, Signal()
                m.d.comb += [
                    out.valid.eq(1),
                    out.payload.data.eq(vids),
                    step.eq(out.ready),
                    buffer.node_read.eq(Mux(step, index + 2, index) >> 1),
                    buffer.hub_read.eq(first_hub >> 1),
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
                    out.valid.eq(1),
                    pair.eq(buffer.hubs),
                    alone.eq(index + 1 == hubs),
                    out.payload.data.eq(vids),
                    step.eq(out.ready),
                    buffer.hub_read.eq((first_hub + Mux(step, index + 2, index)) >> 1),
                ]
                with m.If(step):
                    m.d.sync += index.eq(Mux(last, 0, index + 2))
                    with m.If(last):
                        m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += [
                    out.valid.eq(taken.valid & taken.fills),
                    out.payload.data.eq(joined),
                    out.payload.last.eq(taken.last_row & taken.ends_row & ~taken.over),
                    goes.eq(taken.valid & (out.ready | ~taken.fills)),
                ]
                with m.If(goes):
                    m.d.sync += [
                        rest[0].eq(Mux(taken.fills, Mux(taken.over, turned & before, 0), joined[0])),
                        rest[1].eq(Mux(taken.fills, 0, joined[1])),
                        last_tail.eq(taken.last_row),
                    ]
                    with m.If(taken.ends_row & taken.over):
                        m.next = "TAIL"
                    with m.Elif(taken.ends_row & taken.last_row):
                        end_part()
            with m.State("TAIL"):
                # Bits that the last word of a row has left over.
                m.d.comb += [out.valid.eq(1), out.payload.data.eq(rest), out.payload.last.eq(last_tail)]
                with m.If(out.ready):
                    m.d.sync += rest.eq(0)
                    m.next = "ROWS"
                    with m.If(last_tail):
                        end_part()
        with m.If(ends):
            m.d.sync += [row.eq(0), part.eq(part + 1)]
            m.d.sync += [first_hub.eq(first_hub + hubs), hubs_left.eq(hubs_left - hubs)]
        m.d.comb += [done.eq(ends & last_part), takes.eq(idle | done)]
        with m.If(takes & complete.any()):
            m.d.sync += [record.eq(given), part.eq(~given.head), hubs_left.eq(given.hubs), first_hub.eq(0)]
        m.d.sync += Cover(part == 2, "three parts")
        return m

    def _select(self, m: Module, record: data.View, complete: Signal, takes: Signal, done: Signal) -> tuple[Any, Any]:
        """Return the complete record that is next, and the read port of the engine whose record is in hand.

        All engines are given the addresses; data follow in a cycle in which the record is still the same.
        """
        config, engines = self.config, self.engines
        given, buffer = Signal(Descriptor(config)), ReaderSignature(config).create(path=("buffer",))
        m.d.comb += complete.eq(Cat(engine.complete.valid for engine in engines))
        chosen = in_turn(m, "turn", complete, takes)
        number, source = number_of(chosen), Signal(range(max(2, self.count)))
        with m.If(takes & complete.any()):
            m.d.sync += source.eq(number)
        m.d.comb += [
            given.eq(Array(engine.complete.payload.as_value() for engine in engines)[number]),
            buffer.context.eq(record.context),
            buffer.half.eq(record.half),
        ]
        for name, member in buffer.signature.members.items():
            ports = [getattr(engine.reader, name) for engine in engines]
            if member.flow == Out:
                m.d.comb += [port.eq(getattr(buffer, name)) for port in ports]
            else:
                m.d.comb += getattr(buffer, name).eq(Array(Value.cast(port) for port in ports)[source])
        for n, engine in enumerate(engines):
            m.d.comb += [engine.complete.ready.eq(takes & chosen[n]), engine.done.eq(done & (source == n))]
        return given, buffer


def _in_last_word(columns: Signal) -> Value:
    """Return how many columns the last word has."""
    return Cat(columns[:_PLACE], columns[:_PLACE] == 0)
