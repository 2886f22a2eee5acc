"""Table look-up: compares an ID with the cells and the entry read for it, and finds it a free cell (A5)."""

from typing import Any

from amaranth import Array, Cat, Elaboratable, Module, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig
from hw.attributes.table_formats import (
    CELLS,
    SIDE_CELLS,
    UNLISTED,
    LookedUp,
    TableCell,
    TableEntry,
    bucket_bits,
    bucket_of,
)

__all__ = ["TableLookUp"]


class TableLookUp(wiring.Component):
    """Three stages: memories are read, their contents compared, the results encoded.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    run : In(1)
        Look-ups advance.
    id, slot : In
        ID and target slot of the look-up that enters.
    cells : array of In
        `TableCell`, read for the look-up that entered with the `run` before.
    entry : In
        `TableEntry`, read for it.
    o : Out
        `LookedUp`, three cycles with `run` after the look-up entered.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "run": In(1),
                "id": In(config.id_bits),
                "slot": In(range(config.slots)),
                "cells": In(TableCell(config)).array(CELLS),
                "entry": In(TableEntry(config)),
                "o": Out(LookedUp(config)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Register the look-up, the comparisons, the results."""
        m = Module()
        config, o = self.config, self.o
        request = data.StructLayout({"id": config.id_bits, "slot": range(config.slots)})
        buckets = data.ArrayLayout(unsigned(bucket_bits(config)), 2)
        asked, compared, held = Signal(request), Signal(request), Signal(request)
        asked_bucket, wanted_bucket, entry_bucket = (
            Signal(buckets, name=f"{n}_bucket") for n in ("asked", "wanted", "entry")
        )
        match, taken = Signal(CELLS), Signal(CELLS)
        addresses = Array(Signal(range(config.slots), name=f"address_{n}") for n in range(CELLS))
        entry, occupant = Signal(TableEntry(config), name="entry_read"), Signal(TableEntry(config))
        same, in_place, found = Signal(), Signal(), Signal()
        address, cell_found, free = (Signal.like(o[name], name=f"{name}_found") for name in ("address", "cell", "free"))
        with m.If(self.run):
            m.d.sync += [
                asked.id.eq(self.id),
                asked.slot.eq(self.slot),
                *(asked_bucket[side].eq(bucket_of(config, side, self.id)) for side in range(2)),
            ]
            m.d.sync += [
                compared.eq(asked),
                wanted_bucket.eq(asked_bucket),
                entry.eq(self.entry),
                same.eq(self.entry.valid & (self.entry.id == asked.id)),
                *(entry_bucket[side].eq(bucket_of(config, side, self.entry.id)) for side in range(2)),
            ]
            for n, cell in enumerate(self.cells):
                m.d.sync += [
                    match[n].eq(cell.valid & (cell.id == asked.id)),
                    taken[n].eq(cell.valid),
                    addresses[n].eq(cell.slot),
                ]
            # At most one cell matches.
            m.d.sync += [
                held.eq(compared),
                in_place.eq(same),
                occupant.eq(entry),
                found.eq(match.any()),
                address.eq(0),
                cell_found.eq(UNLISTED),
                free.eq(UNLISTED),
            ]
            for n in range(CELLS):
                with m.If(match[n]):
                    m.d.sync += [address.eq(addresses[n]), cell_found.eq(n)]
            same_bucket = Cat(entry_bucket[side] == wanted_bucket[side] for side in range(2))
            self._choose_free(m, free, taken, entry, same_bucket)
        m.d.comb += [
            o.id.eq(held.id),
            o.slot.eq(held.slot),
            o.found.eq(found),
            o.address.eq(address),
            o.cell.eq(cell_found),
            o.in_place.eq(in_place),
            o.occupied.eq(occupant.valid),
            o.occupant.eq(occupant.id),
            o.occupant_cell.eq(occupant.cell),
            o.free.eq(free),
        ]
        return m

    def _choose_free(self, m: Module, free: Signal, taken: Value, entry: Any, same_bucket: Value) -> None:
        """Choose a free cell in the emptier bucket; the cell of the target slot's entry becomes free as well."""
        leaves = Cat(entry.valid & (entry.cell == n) & same_bucket[n // SIDE_CELLS] for n in range(CELLS))
        busy = Signal(CELLS)
        m.d.comb += busy.eq(taken & ~leaves)
        fuller = sum(busy[SIDE_CELLS:]) < sum(busy[:SIDE_CELLS])  # the first bucket
        for n in reversed(range(CELLS)):
            wanted = fuller if n >= SIDE_CELLS else ~fuller
            with m.If(~busy[n] & wanted):
                m.d.sync += free.eq(n)
