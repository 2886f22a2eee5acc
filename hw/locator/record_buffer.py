"""Record buffer: nodes, hubs and bitmap of the record under construction and of the one being emitted."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.formats import Row

__all__ = ["Bits", "FetchSignature", "Member", "ReaderSignature", "RecordBuffer", "WriterSignature"]


#: Vertices of a beat.
_PAIR = 2


class Member(data.StructLayout):
    """A node of a record: the ``vertex`` and the ``row`` of its neighbours."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vertex": config.node_bits, "row": Row(config)})


class Bits(data.StructLayout):
    """Entries of a bitmap ``row`` to set, one for each lane in the ``mask``.

    ``columns`` belong to nodes, or to hubs where ``hub`` is set. ``fresh``: the row was empty.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "row": config.list_bits,
                "half": 1,
                "fresh": 1,
                "mask": config.lanes,
                "hub": config.lanes,
                "columns": data.ArrayLayout(max(config.list_bits, config.hub_bits), config.lanes),
            }
        )


class WriterSignature(wiring.Signature):
    """Writes into the buffer; the highest address bit selects the half.

    Members
    -------
    node, node_index
        A node to store, and its index.
    hub, hub_index
        A hub to store, and its index.
    bits
        Bits to set; they are visible two cycles later.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "node": Out(stream.Signature(Member(config), always_ready=True)),
                "node_index": Out(config.list_bits + 1),
                "hub": Out(stream.Signature(config.node_bits, always_ready=True)),
                "hub_index": Out(config.hub_bits + 1),
                "bits": Out(stream.Signature(Bits(config), always_ready=True)),
            }
        )


class FetchSignature(wiring.Signature):
    """Reads of a searcher while it writes; the highest address bit selects the half.

    Members
    -------
    fetch, fetched
        Index of a node, and its row in the next cycle; a row just written is visible.
    sweep, swept
        Index of a group of nodes, one for each lane, and the group in the next cycle.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "fetch": Out(config.list_bits + 1),
                "fetched": In(Row(config)),
                "sweep": Out(config.list_bits + 1 - exact_log2(config.lanes)),
                "swept": In(config.node_bits).array(config.lanes),
            }
        )


class ReaderSignature(wiring.Signature):
    """Reads of a collector: two nodes, two hubs, a row of the bitmap; data follow in the next cycle."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "node_read": Out(config.list_bits),
                "nodes": In(data.ArrayLayout(config.node_bits, _PAIR)),
                "hub_read": Out(config.hub_bits),
                "hubs": In(data.ArrayLayout(config.node_bits, _PAIR)),
                "row_read": Out(config.list_bits + 1),
                "row": In(config.columns),
            }
        )


class RecordBuffer(wiring.Component):
    """A double buffer: one half is written while the other is read. Rows are written whole, so nothing is cleared.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    writer, nodes
        Write and read ports of the searcher.
    reader
        Read port of the collector.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "writer": In(WriterSignature(config)),
                "nodes": In(FetchSignature(config)),
                "reader": In(ReaderSignature(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the memories; bits are read, merged and written in two steps."""
        m = Module()
        config, writer, reader = self.config, self.writer, self.reader
        # Nodes in groups, as they are swept or emitted.
        depth, group = 2 << config.list_bits, max(_PAIR, config.lanes)
        in_group, groups = exact_log2(group), data.ArrayLayout(config.node_bits, group)
        pair = data.ArrayLayout(config.node_bits, _PAIR)
        m.submodules.vertices = vertices = memory.Memory(shape=groups, depth=depth // group, init=[])
        m.submodules.rows = rows = memory.Memory(shape=Row(config), depth=depth, init=[])
        m.submodules.hubs = hubs = memory.Memory(shape=pair, depth=(2 << config.hub_bits) // _PAIR, init=[])
        m.submodules.bitmap = bitmap = memory.Memory(shape=config.columns, depth=depth, init=[])

        vertex_write, row_write = vertices.write_port(granularity=1), rows.write_port()
        sweep, node_read = vertices.read_port(), vertices.read_port()
        fetch = rows.read_port(transparent_for=(row_write,))
        hub_write, hub_read = hubs.write_port(granularity=1), hubs.read_port()
        # The requested part of a group.
        in_sweep, in_pair = in_group - exact_log2(config.lanes), in_group - exact_log2(_PAIR)
        swept, paired = Signal(max(1, in_sweep)), Signal(max(1, in_pair))
        m.d.sync += [swept.eq(self.nodes.sweep[:in_sweep]), paired.eq(reader.node_read[:in_pair])]
        m.d.comb += [
            vertex_write.en.eq(Mux(writer.node.valid, 1 << writer.node_index[:in_group], 0)),
            vertex_write.addr.eq(writer.node_index >> in_group),
            *(vertex_write.data[place].eq(writer.node.payload.vertex) for place in range(group)),
            row_write.en.eq(writer.node.valid),
            row_write.addr.eq(writer.node_index),
            row_write.data.eq(writer.node.payload.row),
            fetch.addr.eq(self.nodes.fetch),
            self.nodes.fetched.eq(fetch.data),
            sweep.addr.eq(self.nodes.sweep >> in_sweep),
            Cat(self.nodes.swept).eq(sweep.data.as_value().word_select(swept, config.node_bits * config.lanes)),
            node_read.addr.eq(reader.node_read >> in_pair),
            reader.nodes.eq(node_read.data.as_value().word_select(paired, config.node_bits * _PAIR)),
            hub_write.en.eq(Mux(writer.hub.valid, 1 << writer.hub_index[0], 0)),
            hub_write.addr.eq(writer.hub_index >> 1),
            *(hub_write.data[place].eq(writer.hub.payload) for place in range(_PAIR)),
            hub_read.addr.eq(reader.hub_read),
            reader.hubs.eq(hub_read.data),
        ]

        bitmap_write = bitmap.write_port()
        joined, row_read = bitmap.read_port(transparent_for=(bitmap_write,)), bitmap.read_port()
        asked, valid, bits = writer.bits.payload, Signal(), Signal(Bits(config), reset_less=True)
        m.d.sync += [valid.eq(writer.bits.valid), bits.eq(asked)]
        columns = (Mux(bits.hub[lane], config.hub_column, 0) + bits.columns[lane] for lane in range(config.lanes))
        m.d.comb += [
            joined.addr.eq(_place(asked)),
            bitmap_write.en.eq(valid),
            bitmap_write.addr.eq(_place(bits)),
            bitmap_write.data.eq(
                reduce(
                    or_,
                    (Mux(bits.mask[lane], 1 << column, 0) for lane, column in enumerate(columns)),
                    Mux(bits.fresh, 0, joined.data),
                )
            ),
            row_read.addr.eq(reader.row_read),
            reader.row.eq(row_read.data),
        ]
        return m


def _place(bits: object) -> object:
    return bits.row | (bits.half << len(bits.row))  # type: ignore[attr-defined]
