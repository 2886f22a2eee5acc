"""Record buffer: nodes, hubs and bitmap of the record an engine builds, beside the one its collector emits."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.config import LocatorConfig
from hw.islands.formats import Row

__all__ = ["BitmapWord", "Member", "RecordBuffer", "reader_members", "writer_members"]


class Member(data.StructLayout):
    """A node of a record: the ``vertex`` and the ``row`` of its neighbours."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vertex": config.node_bits, "row": Row(config)})


class BitmapWord(data.StructLayout):
    """A beat of a bitmap row, empty unless its ``tag`` is that of the record."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"bits": 64, "tag": config.tag_bits})


class _Bit(data.StructLayout):
    """An entry of the bitmap to set: ``row``, and the ``column`` of a node or, with ``hub``, of a hub."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {"row": config.list_bits, "column": max(config.list_bits, config.hub_bits), "hub": 1, "half": 1}
        )


def writer_members(config: LocatorConfig) -> dict[str, wiring.Member]:
    """Members of a `RecordBuffer` that the searcher is connected to."""
    return {
        "tag": In(config.tag_bits),
        "clear": In(stream.Signature(range(config.bitmap_words), always_ready=True)),
        "node": In(stream.Signature(Member(config), always_ready=True)),
        "node_index": In(config.list_bits + 1),
        "fetch": In(config.list_bits + 1),
        "fetched": Out(Member(config)),
        "hub": In(stream.Signature(config.node_bits, always_ready=True)),
        "hub_index": In(config.hub_bits + 1),
        "bit": In(stream.Signature(_Bit(config), always_ready=True)),
    }


def reader_members(config: LocatorConfig) -> dict[str, wiring.Member]:
    """Members of a `RecordBuffer` that the collector is connected to."""
    return {
        "node_read": In(config.list_bits + 1),
        "node_out": Out(config.node_bits),
        "hub_read": In(config.hub_bits + 1),
        "hub_out": Out(config.node_bits),
        "word_read": In(range(config.bitmap_words)),
        "word_out": Out(BitmapWord(config)),
    }


class RecordBuffer(wiring.Component):
    """Two halves; every member but ``tag`` and the streams names the half by its highest address bit.

    Words of the bitmap carry the tag of their record, so that nothing has to be cleared between records.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    tag
        Of the record that is built.
    clear
        A bitmap word to forget, while nothing else happens.
    node, node_index
        A node to keep, and where.
    fetch, fetched
        Index of a node, and the node in the next cycle; it may be the one just written.
    hub, hub_index
        A hub to keep, and where.
    bit
        A bit to set, one a cycle; it is set two cycles later.
    node_read, node_out, hub_read, hub_out, word_read, word_out
        For the collector: an address, and what is there in the next cycle.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__({**writer_members(config), **reader_members(config)})

    def elaborate(self, platform: object) -> Module:
        """Connect the memories; bits are read, joined and written in two steps."""
        m = Module()
        config = self.config
        member, word = Member(config), BitmapWord(config)
        m.submodules.nodes = nodes = memory.Memory(shape=member, depth=2 << config.list_bits, init=[])
        m.submodules.hubs = hubs = memory.Memory(shape=config.node_bits, depth=2 << config.hub_bits, init=[])
        m.submodules.bitmap = bitmap = memory.Memory(shape=word, depth=config.bitmap_words, init=[])

        node_write = nodes.write_port()
        fetch, node_read = nodes.read_port(transparent_for=(node_write,)), nodes.read_port()
        hub_write, hub_read = hubs.write_port(), hubs.read_port()
        word_write = bitmap.write_port()
        joined, word_read = bitmap.read_port(transparent_for=(word_write,)), bitmap.read_port()
        m.d.comb += [
            node_write.en.eq(self.node.valid),
            node_write.addr.eq(self.node_index),
            node_write.data.eq(self.node.payload),
            fetch.addr.eq(self.fetch),
            self.fetched.eq(fetch.data),
            node_read.addr.eq(self.node_read),
            self.node_out.eq(node_read.data.vertex),
            hub_write.en.eq(self.hub.valid),
            hub_write.addr.eq(self.hub_index),
            hub_write.data.eq(self.hub.payload),
            hub_read.addr.eq(self.hub_read),
            self.hub_out.eq(hub_read.data),
            word_read.addr.eq(self.word_read),
            self.word_out.eq(word_read.data),
        ]

        bit = self.bit.payload
        place = Signal(range(config.bitmap_words))
        column = Mux(bit.hub, config.c_max, 0) + bit.column
        m.d.comb += [
            place.eq((Cat(bit.row, bit.half) * config.row_words) + (column >> 6)),
            joined.addr.eq(place),
        ]
        valid, at, position, tag = Signal(), Signal.like(place), Signal(6), Signal(config.tag_bits)
        m.d.sync += [valid.eq(self.bit.valid), at.eq(place), position.eq(column), tag.eq(self.tag)]
        m.d.comb += [
            word_write.en.eq(valid | self.clear.valid),
            word_write.addr.eq(Mux(self.clear.valid, self.clear.payload, at)),
        ]
        with m.If(~self.clear.valid):
            m.d.comb += [
                word_write.data.tag.eq(tag),
                word_write.data.bits.eq(Mux(joined.data.tag == tag, joined.data.bits, 0) | (1 << position)),
            ]
        return m
