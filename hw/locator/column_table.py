"""Column table: maps vertices to their columns in the records under construction."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cover, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.block_memory import NO_BYPASS, registered_read
from hw.locator.config import LocatorConfig
from hw.locator.turns import context_place

__all__ = ["ColumnTable"]


class _Entry(data.StructLayout):
    """A ``vertex`` and its ``column``; empty unless its ``tag`` is the record's."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {"tag": config.tag_bits, "vertex": config.node_bits, "column": max(config.list_bits, config.hub_bits)}
        )


class ColumnTable(wiring.Component):
    """A hash table for each search with linear probing, indexed by the low bits of a vertex.

    A bundle's vertices, all of one search, are looked up at once.

    At most half of a table smaller than the graph is in use, so probe sequences are short. Each lane reads a copy
    of its own. Entries carry the tag of their record, so the table is not cleared between records.

    The first cell of a vertex is read before its bundle is loaded and compared as it is loaded, so a lane's outputs
    come from registers. Insertions during those two cycles are compared as well.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    ahead_context, ahead
        Search and vertices that may be loaded in the next cycle.
    load, context, tag, vertices
        Look these up from the next cycle on, until the next ``load``; they were ``ahead`` in the cycle before. ``tag``
        is that of the search's record.
    wanted
        One bit for each lane: the lane needs a result.
    settled
        One bit for each lane: ``known`` and ``column`` are valid.
    known, column
        Whether each lane's vertex has a column, and which.
    insert, new_column
        Give the vertex of this lane a column. It must be wanted, settled and not known, and all wanted lanes settled.
    clear
        A cell to clear while the table is otherwise idle.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        #: Address of a cell: the search's table, and the place there.
        self.place_bits = config.table_bits + ceil_log2(config.searches)
        #: Cell of the insertion (internal; read by the proof).
        self.address = Signal(self.place_bits)
        column = max(config.list_bits, config.hub_bits)
        super().__init__(
            {
                "ahead_context": In(config.context_bits),
                "ahead": In(config.node_bits).array(config.lanes),
                "load": In(1),
                "context": In(config.context_bits),
                "tag": In(config.tag_bits),
                "vertices": In(config.node_bits).array(config.lanes),
                "wanted": In(config.lanes),
                "settled": Out(config.lanes),
                "known": Out(config.lanes),
                "column": Out(column).array(config.lanes),
                "insert": In(config.lanes),
                "new_column": In(column),
                "clear": In(stream.Signature(self.place_bits, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Make a copy of the memory for each lane; all copies get the same writes."""
        m = Module()
        config, lanes, home = self.config, range(self.config.lanes), self.config.table_bits
        vertices = [Signal(config.node_bits, name=f"vertex{lane}") for lane in lanes]
        places = [Signal(config.table_bits, name=f"place{lane}") for lane in lanes]
        context, tag = Signal(config.context_bits), Signal(config.tag_bits)
        address, entry = self.address, Signal(_Entry(config))

        def cell(search: Value, place: Value) -> Value:
            return context_place(config.searches, search, place)

        m.d.comb += [
            entry.tag.eq(tag),
            entry.column.eq(self.new_column),
            entry.vertex.eq(reduce(or_, (Mux(self.insert[lane], vertices[lane], 0) for lane in lanes))),
            address.eq(cell(context, reduce(or_, (Mux(self.insert[lane], places[lane], 0) for lane in lanes)))),
        ]
        with m.If(self.load):
            m.d.sync += [context.eq(self.context), tag.eq(self.tag)]
        # The last insertion, if that was in the previous cycle: a cell that was read then does not show it, and the
        # lanes have not compared it with their vertices.
        last_valid, last_place, last = Signal(), Signal(self.place_bits), Signal(_Entry(config))
        m.d.sync += [last_valid.eq(self.insert.any()), last_place.eq(address), last.eq(entry)]
        # It was of the search of the bundle in hand; of the search of the bundle that comes.
        mine, coming = Signal(), Signal()
        m.d.comb += [
            mine.eq(last_valid & (cell(context, last_place[:home]) == last_place)),
            coming.eq(last_valid & (cell(self.context, last_place[:home]) == last_place)),
        ]

        for lane in lanes:
            # A cell that is written as it is read is compared with the insertion instead.
            copy = memory.Memory(
                shape=_Entry(config), depth=config.searches << config.table_bits, init=[], attrs=dict(NO_BYPASS)
            )
            m.submodules[f"copy{lane}"] = copy
            write, read = copy.write_port(), registered_read(m, copy, f"read{lane}")
            vertex, place, incoming = vertices[lane], places[lane], self.vertices[lane]
            # The cell held this vertex in this record; the vertex was inserted since; another one was, there; the same
            # two of the previous cycle.
            used, same, added, taken, adds, takes = (
                Signal(name=f"{name}{lane}") for name in ("used", "same", "added", "taken", "adds", "takes")
            )
            column = Signal.like(self.new_column, name=f"column{lane}")
            # The next cell is requested, or the same ``again``; it is being read; the ``ahead`` cell is.
            probes, again, reading, fresh = (
                Signal(name=f"{name}{lane}") for name in ("probes", "again", "reading", "fresh")
            )
            next_place = Signal(config.table_bits, name=f"next_place{lane}")
            m.d.comb += [
                probes.eq(self.wanted[lane] & ~self.settled[lane] & ~reading),
                next_place.eq(place + ~again),
                read.addr.eq(Mux(probes, cell(context, next_place), cell(self.ahead_context, self.ahead[lane][:home]))),
                adds.eq(mine & (last.vertex == vertex)),
                takes.eq(mine & (last_place[:home] == place)),
                self.settled[lane].eq(added | adds | Mux(used, same, ~(taken | takes))),
                self.known[lane].eq(added | adds | (used & same)),
                self.column[lane].eq(Mux(adds, last.column, column)),
                write.en.eq(self.insert.any() | self.clear.valid),
                write.addr.eq(Mux(self.clear.valid, self.clear.payload, address)),
                write.data.eq(Mux(self.clear.valid, 0, entry.as_value())),
            ]
            m.d.sync += [fresh.eq(~probes), reading.eq(probes & ~self.load)]
            found_used, found_same = Signal(name=f"found_used{lane}"), Signal(name=f"found_same{lane}")
            m.d.comb += [
                found_used.eq(read.data.tag == Mux(reading, tag, self.tag)),
                found_same.eq(read.data.vertex == Mux(reading, vertex, incoming)),
            ]
            with m.If(self.load):
                added_last = coming & (last.vertex == incoming)
                taken_last = coming & (last_place[:home] == incoming[:home])
                m.d.sync += [
                    vertex.eq(incoming),
                    place.eq(incoming),
                    # The cell was free when it was taken; what was read meanwhile is undefined.
                    used.eq((found_used & ~taken_last) | ~fresh),
                    same.eq(found_same & fresh),
                    added.eq(added_last),
                    taken.eq(taken_last),
                    again.eq(~fresh),
                    column.eq(Mux(added_last, last.column, read.data.column)),
                ]
            with m.Else():
                m.d.sync += [added.eq(added | adds), taken.eq(taken | takes), column.eq(self.column[lane])]
                with m.If(probes):
                    m.d.sync += [place.eq(next_place), again.eq(0)]
                with m.If(reading):
                    m.d.sync += [used.eq(found_used), same.eq(found_same), taken.eq(0), column.eq(read.data.column)]
            m.d.sync += Cover(reading, "a place is taken")
        return m
