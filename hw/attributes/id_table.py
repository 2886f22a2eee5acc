"""ID table: exact map between IDs and the slots of the attribute buffer, both ways (A5)."""

from amaranth import Elaboratable, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig
from hw.attributes.table_formats import CELLS, SIDE_CELLS, TableCell, TableChange, TableEntry, bucket_of
from hw.attributes.table_look_up import TableLookUp
from hw.attributes.table_writer import TableWriter
from hw.block_memory import wide_style

__all__ = ["IDTable"]


class IDTable(wiring.Component):
    """A hash table with two buckets of four cells for every ID, and the ID and cell of every slot.

    A look-up reads the cells of the ID and the entry of the target slot at the same time, and ends three cycles after
    it has been presented; one can begin in every cycle. An ID goes into the emptier of its buckets. If both are full it
    is *unlisted*: only the entry of its slot has it. While there are such IDs, a look-up without a result must be
    followed by a search through all slots. So the table is exact for any set of IDs, and answers at once as long as the
    hashes spread them.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    ready : Out(1)
        All memories have been emptied; 0 after reset and after `flush`.
    flush : In(1)
        Empty the table.
    run : In(1)
        Look-ups advance; otherwise all results stay.
    id, slot : In
        ID to look up, and its target slot.
    found, address : Out
        A cell has the ID, and its slot.
    in_place : Out(1)
        The ID is at the target slot; then the two above are not needed.
    occupied, occupant : Out
        The target slot has an entry, and its ID.
    unlisted : Out(1)
        There are IDs that only a search finds.
    change : In(TableChange)
        Change of the table for the look-up whose results stand above.
    by_search, searched_address : In
        The ID that moves has no cell; a search has found it at this slot.
    clear_slot, clear_id, clear_cell : In
        Entry that `TableChange.CLEAR` empties, its ID and cell.
    placed_cell : Out
        Cell that `TableChange.PLACE` takes.
    search, search_slot : In
        Read the entry of a slot; only while `run` is 0.
    search_hit : Out(1)
        The entry read in the cycle before has the ID looked up.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot, cell = range(config.slots), range(CELLS + 1)
        super().__init__(
            {
                "ready": Out(1),
                "flush": In(1),
                "run": In(1),
                "id": In(config.id_bits),
                "slot": In(slot),
                "found": Out(1),
                "address": Out(slot),
                "in_place": Out(1),
                "occupied": Out(1),
                "occupant": Out(config.id_bits),
                "unlisted": Out(1),
                "change": In(TableChange),
                "by_search": In(1),
                "searched_address": In(slot),
                "clear_slot": In(slot),
                "clear_id": In(config.id_bits),
                "clear_cell": In(cell),
                "placed_cell": Out(cell),
                "search": In(1),
                "search_slot": In(slot),
                "search_hit": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the memories to look-ups, searches and changes."""
        m = Module()
        config = self.config
        m.submodules.look_up = look_up = TableLookUp(config)
        m.submodules.writer = writer = TableWriter(config)
        m.submodules.entries = entries = Memory(shape=TableEntry(config), depth=config.slots, init=[])
        entry_write, entry_read = entries.write_port(), entries.read_port()
        looked_up = look_up.o
        m.d.comb += [
            entry_read.addr.eq(Mux(self.search, self.search_slot, self.slot)),
            entry_read.en.eq(self.run | self.search),
            look_up.entry.eq(entry_read.data),
            look_up.run.eq(self.run),
            look_up.id.eq(self.id),
            look_up.slot.eq(self.slot),
            *(
                getattr(self, name).eq(looked_up[name])
                for name in ("found", "address", "in_place", "occupied", "occupant")
            ),
            self.placed_cell.eq(looked_up.free),
            # A search reads past the pipeline, so it compares with the look-up whose results are held.
            self.search_hit.eq(entry_read.data.valid & (entry_read.data.id == looked_up.id)),
            writer.flush.eq(self.flush),
            self.ready.eq(writer.ready),
            writer.looked_up.eq(looked_up),
            *(
                getattr(writer, name).eq(getattr(self, name))
                for name in ("change", "by_search", "searched_address", "clear_slot", "clear_id", "clear_cell")
            ),
            self.unlisted.eq(writer.unlisted),
            entry_write.en.eq(writer.entry_enable),
            entry_write.addr.eq(writer.entry_slot),
            entry_write.data.eq(writer.entry),
        ]
        buckets = [bucket_of(config, side, self.id) for side in range(2)]
        cell, depth = TableCell(config), config.buckets
        for n in range(CELLS):
            style = wide_style(cell.size, depth)
            m.submodules[f"cells_{n}"] = cells = Memory(shape=cell, depth=depth, init=[], attrs=style)
            write, read = cells.write_port(), cells.read_port()
            side = n // SIDE_CELLS
            m.d.comb += [
                read.addr.eq(buckets[side]),
                read.en.eq(self.run),
                look_up.cells[n].eq(read.data),
                write.en.eq(writer.cell_enable[n]),
                write.addr.eq(writer.cell_buckets[side]),
                write.data.eq(writer.cell),
            ]
        return m
