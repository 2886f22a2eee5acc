"""Table writer: turns changes of the ID table into writes to its cells and entries (A5)."""

from typing import Any

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Cover
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig
from hw.attributes.table_formats import (
    CELLS,
    SIDE_CELLS,
    UNLISTED,
    LookedUp,
    TableCell,
    TableChange,
    TableEntry,
    bucket_bits,
    bucket_of,
)

__all__ = ["TableWriter"]


class TableWriter(wiring.Component):
    """Carries out changes, and empties the whole table after reset and after a flush.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    flush : In(1)
        Empty the table.
    ready : Out(1)
        The table has been emptied.
    change : In(TableChange)
    looked_up : In
        `LookedUp`, the look-up that is changed.
    by_search, searched_address : In
        As for `IDTable`.
    clear_slot, clear_id, clear_cell : In
        As for `IDTable`.
    unlisted : Out(1)
        There are IDs without a cell.
    entry_enable, entry_slot, entry : Out
        Write to the entry of a slot, a `TableEntry`.
    cell_enable : Out
        Write to these cells.
    cell_buckets : array of Out
        Buckets, one for each side.
    cell : Out
        `TableCell` to write.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot = range(config.slots)
        super().__init__(
            {
                "flush": In(1),
                "ready": Out(1),
                "change": In(TableChange),
                "looked_up": In(LookedUp(config)),
                "by_search": In(1),
                "searched_address": In(slot),
                "clear_slot": In(slot),
                "clear_id": In(config.id_bits),
                "clear_cell": In(range(CELLS + 1)),
                "unlisted": Out(1),
                "entry_enable": Out(1),
                "entry_slot": Out(slot),
                "entry": Out(TableEntry(config)),
                "cell_enable": Out(CELLS),
                "cell_buckets": Out(bucket_bits(config)).array(2),
                "cell": Out(TableCell(config)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Decode a change, or sweep."""
        m = Module()
        config = self.config
        lost, more, fewer = Signal(range(config.slots + 1)), Signal(), Signal()  # IDs without a cell
        m.d.sync += lost.eq(lost + more - fewer)
        m.d.comb += self.unlisted.eq(lost != 0)

        word = Signal(TableCell(config), name="word")
        where, changes = Signal(range(CELLS + 1)), Signal()  # its cell, and whether it is written
        self._decode(m, word, where, changes, more, fewer)
        m.d.comb += [
            self.cell.eq(word),
            *(self.cell_enable[n].eq(changes & (where == n)) for n in range(CELLS)),
            *(self.cell_buckets[side].eq(bucket_of(config, side, word.id)) for side in range(2)),
        ]

        last = max(config.slots, config.buckets)
        sweep = Signal(range(last + 1))
        m.d.comb += self.ready.eq(sweep == last)
        with m.If(~self.ready):
            m.d.sync += sweep.eq(sweep + 1)
            m.d.comb += [
                self.entry_enable.eq(sweep < config.slots),
                self.entry_slot.eq(sweep),
                self.entry.eq(0),
                self.cell_enable.eq((sweep < config.buckets).replicate(CELLS)),
                *(bucket.eq(sweep) for bucket in self.cell_buckets),
                self.cell.eq(0),
            ]
        with m.If(self.flush):
            m.d.sync += [sweep.eq(0), lost.eq(0)]
        placing = self.ready & (self.change == TableChange.PLACE)
        m.d.sync += Cover(placing & (self.looked_up.free >= SIDE_CELLS), "the second bucket has more room")
        if config.slots > CELLS:
            m.d.sync += Cover(self.ready & self.unlisted, "an ID found no cell")
        return m

    def _decode(self, m: Module, word: Any, where: Signal, changes: Signal, more: Signal, fewer: Signal) -> None:
        """Decode a change into a cell, an entry, and one more or one fewer ID without a cell."""
        looked_up, entry = self.looked_up, self.entry
        moved_cell = Mux(self.by_search, UNLISTED, looked_up.cell)
        moved_from = Mux(self.by_search, self.searched_address, looked_up.address)

        def put(valid: Any, identity: Any, slot: Any, cell: Any) -> None:
            """Write an entry, and the cell of its ID."""
            m.d.comb += [
                word.valid.eq(1),
                word.id.eq(identity),
                word.slot.eq(slot),
                where.eq(cell),
                changes.eq(valid),
                self.entry_enable.eq(1),
                self.entry_slot.eq(slot),
                entry.valid.eq(valid),
                entry.id.eq(identity),
                entry.cell.eq(cell),
            ]

        with m.Switch(self.change):
            with m.Case(TableChange.DISPLACE):
                m.d.comb += [
                    changes.eq(looked_up.occupied),
                    where.eq(looked_up.occupant_cell),
                    word.id.eq(looked_up.occupant),
                    fewer.eq(looked_up.occupied & (looked_up.occupant_cell == UNLISTED)),
                ]
            with m.Case(TableChange.PLACE):
                put(1, looked_up.id, looked_up.slot, looked_up.free)
                m.d.comb += more.eq(looked_up.free == UNLISTED)
            with m.Case(TableChange.MOVE):
                put(1, looked_up.id, looked_up.slot, moved_cell)
            with m.Case(TableChange.MOVE_OTHER):
                put(looked_up.occupied, looked_up.occupant, moved_from, looked_up.occupant_cell)
            with m.Case(TableChange.CLEAR):
                m.d.comb += [
                    changes.eq(1),
                    where.eq(self.clear_cell),
                    word.id.eq(self.clear_id),
                    fewer.eq(self.clear_cell == UNLISTED),
                    self.entry_enable.eq(1),
                    self.entry_slot.eq(self.clear_slot),
                ]
