"""Record buffer: nodes, hubs and bitmap of the records under construction and of those being emitted."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.config import LocatorConfig
from hw.locator.formats import Descriptor, KeptRow
from hw.locator.turns import context_place

__all__ = [
    "Bits",
    "FetchSignature",
    "Member",
    "ReaderSignature",
    "RecordBuffer",
    "RecordsSignature",
    "WriterSignature",
]


#: Vertices of a beat.
_PAIR = 2


class Member(data.StructLayout):
    """A node of a record: the ``vertex`` and the ``row`` of its neighbours."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vertex": config.node_bits, "row": KeptRow(config)})


class Bits(data.StructLayout):
    """Entries of a bitmap ``row`` to set, one for each lane in the ``mask``.

    ``columns`` belong to nodes, or to hubs where ``hub`` is set. ``fresh``: the row was empty.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "context": config.context_bits,
                "half": 1,
                "row": config.list_bits,
                "fresh": 1,
                "mask": config.lanes,
                "hub": config.lanes,
                "columns": data.ArrayLayout(max(config.list_bits, config.hub_bits), config.lanes),
            }
        )


class WriterSignature(wiring.Signature):
    """Writes into the buffer.

    Members
    -------
    context, half
        Search, and half of its part.
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
                "context": Out(config.context_bits),
                "half": Out(1),
                "node": Out(stream.Signature(Member(config), always_ready=True)),
                "node_index": Out(config.list_bits),
                "hub": Out(stream.Signature(config.node_bits, always_ready=True)),
                "hub_index": Out(config.hub_bits),
                "bits": Out(stream.Signature(Bits(config), always_ready=True)),
            }
        )


class FetchSignature(wiring.Signature):
    """Reads of one record while others are written.

    Members
    -------
    fetch_context, fetch, fetches, fetched
        Index of a node, whether to read its row, and the row from the next cycle on; not one that is being written.
    sweep_context, sweep_half, sweep, swept
        Index of a group of nodes, one for each lane, and the group in the next cycle.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "fetch_context": Out(config.context_bits),
                "fetch": Out(config.list_bits),
                "fetches": Out(1),
                "fetched": In(KeptRow(config)),
                "sweep_context": Out(config.context_bits),
                "sweep_half": Out(1),
                "sweep": Out(config.list_bits - exact_log2(config.lanes)),
                "swept": In(config.node_bits).array(config.lanes),
            }
        )


class ReaderSignature(wiring.Signature):
    """Reads of a collector: two nodes, two hubs, a row of the bitmap; data follow in the next cycle."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "context": Out(config.context_bits),
                "half": Out(1),
                "node_read": Out(config.list_bits - 1),
                "nodes": In(data.ArrayLayout(config.node_bits, _PAIR)),
                "hub_read": Out(config.hub_bits - 1),
                "hubs": In(data.ArrayLayout(config.node_bits, _PAIR)),
                "row_read": Out(config.list_bits),
                "row": In(config.columns),
            }
        )


class RecordsSignature(wiring.Signature):
    """Complete records of an engine, seen from the engine.

    Members
    -------
    complete
        Records in the buffer, in the order in which they are to be emitted.
    reader
        Reads of the record that was taken last.
    done
        Pulse: all of it has been read.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "complete": Out(stream.Signature(Descriptor(config))),
                "reader": In(ReaderSignature(config)),
                "done": In(1),
            }
        )


class RecordBuffer(wiring.Component):
    """A double buffer for each search: one half is written while the other is read. Nothing is cleared.

    Rows of the bitmap are written whole. No port but that of the bitmap under construction reads what is being written.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    writer, nodes
        Write and read ports of the searches.
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
        self._vertices(m)
        self._rows(m)
        self._hubs(m)
        self._bitmap(m)
        return m

    def _place(self, context: Value, half: Value, place: Value) -> Value:
        """Return the address of a place in a search's half."""
        return context_place(self.config.searches, context, place, half)

    def _vertices(self, m: Module) -> None:
        """Nodes in groups, as they are swept or emitted."""
        config, writer, reader, nodes = self.config, self.writer, self.reader, self.nodes
        group = max(_PAIR, config.lanes)
        in_group = exact_log2(group)
        depth = config.searches * (2 << config.list_bits) // group
        at, by_lanes, by_pairs = writer.node_index, in_group - exact_log2(config.lanes), in_group - 1
        # The requested part of a group.
        swept, paired = Signal(max(1, by_lanes)), Signal(max(1, by_pairs))
        m.d.sync += [swept.eq(nodes.sweep[:by_lanes]), paired.eq(reader.node_read[:by_pairs])]
        words = memory.Memory(
            shape=data.ArrayLayout(config.node_bits, group), depth=depth, init=[], attrs=dict(NO_BYPASS)
        )
        m.submodules.vertices = words
        write = words.write_port(granularity=1)
        sweep, read = (registered_read(m, words, name) for name in ("sweep", "read"))
        m.d.comb += [
            write.en.eq(Mux(writer.node.valid, 1 << at[:in_group], 0)),
            write.addr.eq(self._place(writer.context, writer.half, at[in_group:])),
            *(write.data[place].eq(writer.node.payload.vertex) for place in range(group)),
            sweep.addr.eq(self._place(nodes.sweep_context, nodes.sweep_half, nodes.sweep[by_lanes:])),
            read.addr.eq(self._place(reader.context, reader.half, reader.node_read[by_pairs:])),
            Cat(nodes.swept).eq(sweep.data.as_value().word_select(swept, config.node_bits * config.lanes)),
            reader.nodes.eq(read.data.as_value().word_select(paired, config.node_bits * _PAIR)),
        ]

    def _rows(self, m: Module) -> None:
        """Rows of nodes, only of records under construction."""
        config, writer, nodes = self.config, self.writer, self.nodes
        depth = config.searches << config.list_bits
        m.submodules.rows = rows = memory.Memory(shape=KeptRow(config), depth=depth, init=[], attrs=dict(NO_BYPASS))
        write, fetch = rows.write_port(), registered_read(m, rows, "fetch")
        m.d.comb += [
            write.en.eq(writer.node.valid),
            write.addr.eq(context_place(config.searches, writer.context, writer.node_index)),
            write.data.eq(writer.node.payload.row),
            fetch.addr.eq(context_place(config.searches, nodes.fetch_context, nodes.fetch)),
            fetch.en.eq(nodes.fetches),
            nodes.fetched.eq(fetch.data),
        ]

    def _hubs(self, m: Module) -> None:
        """Hubs in pairs."""
        config, writer, reader = self.config, self.writer, self.reader
        depth = config.searches << config.hub_bits
        m.submodules.hubs = words = memory.Memory(
            shape=data.ArrayLayout(config.node_bits, _PAIR), depth=depth, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = words.write_port(granularity=1), registered_read(m, words, "hub_read")
        m.d.comb += [
            write.en.eq(Mux(writer.hub.valid, 1 << writer.hub_index[0], 0)),
            write.addr.eq(self._place(writer.context, writer.half, writer.hub_index[1:])),
            *(write.data[place].eq(writer.hub.payload) for place in range(_PAIR)),
            read.addr.eq(self._place(reader.context, reader.half, reader.hub_read)),
            reader.hubs.eq(read.data),
        ]

    def _bitmap(self, m: Module) -> None:
        """Rows are read, joined with new bits and written in two steps."""
        config, writer, reader = self.config, self.writer, self.reader
        in_row = ceil_log2(config.c_max)
        depth = config.searches * (2 << in_row)
        m.submodules.bitmap = bitmap = memory.Memory(shape=config.columns, depth=depth, init=[], attrs=dict(NO_BYPASS))
        write = bitmap.write_port()
        joined, row_read = (registered_read(m, bitmap, name) for name in ("joined", "row"))
        asked, valid, again = writer.bits.payload, Signal(), Signal()
        bits, place, last = Signal(Bits(config), reset_less=True), Signal.like(write.addr), Signal(config.columns)
        m.d.comb += place.eq(self._place(asked.context, asked.half, asked.row[:in_row]))
        # A row that is written as it is read is the last one written.
        m.d.sync += [
            valid.eq(writer.bits.valid),
            bits.eq(asked),
            write.addr.eq(place),
            again.eq(valid & (write.addr == place)),
            last.eq(write.data),
        ]
        columns = (Mux(bits.hub[lane], config.c_max, 0) + bits.columns[lane] for lane in range(config.lanes))
        new = reduce(or_, (Mux(bits.mask[lane], 1 << column, 0) for lane, column in enumerate(columns)))
        m.d.comb += [
            joined.addr.eq(place),
            write.en.eq(valid),
            write.data.eq(new | Mux(bits.fresh, 0, Mux(again, last, joined.data))),
            row_read.addr.eq(self._place(reader.context, reader.half, reader.row_read[:in_row])),
            reader.row.eq(row_read.data),
        ]
