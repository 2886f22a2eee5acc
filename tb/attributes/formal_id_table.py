"""Proof of the ID table: it says where each ID is, an ID is never there twice, and a slot knows its ID.

One symbolic ID is followed by a reference that is told what is done. Look-ups are of any ID and slot, one after
another; what follows each is any change the attribute processor may make. If the reference and the table agree for
every ID, no ID is held twice: the second place would be found when the first is gone.
"""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.attributes.formats import AttributeConfig
from hw.attributes.id_table import IDTable
from hw.attributes.table_formats import CELLS, TableChange
from sim.harness.formal import Proof

#: Cycles from presenting a look-up until its results are there.
LATENCY = 3
CONFIG = AttributeConfig(slots=3, ways=1, row_beats=1, id_bits=4, data_width=64, bucket_bits=1)


class IDTableSpec(Elaboratable):
    """The table, its user, and what is known of one ID.

    Parameters
    ----------
    config
        Sizes.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config

    def elaborate(self, platform: Any) -> Module:
        """Walk: present, wait, compare, change in one or two cycles, perhaps clear."""
        m = Module()
        config = self.config
        m.submodules.dut = dut = IDTable(config)
        watched = Signal(config.id_bits)
        m.d.comb += watched.eq(AnyConst(config.id_bits))
        held, at = Signal(), Signal(range(config.slots))  # the watched ID is there, and where

        identity, slot = Signal(config.id_bits), Signal(range(config.slots))
        free_identity, free_slot = AnySeq(config.id_bits), AnySeq(len(slot))
        fails = AnySeq(1)
        waited = Signal(range(LATENCY + 1))
        cell, cleared = Signal(range(CELLS + 1)), Signal()
        second, clears = Signal(), Signal()
        was_found = Signal()
        mine, here = identity == watched, slot == at
        m.d.comb += [
            dut.run.eq(0),
            dut.id.eq(Mux(waited == 0, free_identity, identity)),
            dut.slot.eq(Mux(waited == 0, free_slot, slot)),
            Assume(free_slot < config.slots),
        ]
        with m.If(dut.ready):
            with m.If(clears):
                m.d.comb += [
                    dut.change.eq(TableChange.CLEAR),
                    dut.clear_slot.eq(slot),
                    dut.clear_id.eq(identity),
                    dut.clear_cell.eq(cell),
                ]
                m.d.sync += [clears.eq(0), cleared.eq(1)]
                with m.If(mine):
                    m.d.sync += held.eq(0)
            with m.Elif(second):
                m.d.comb += dut.change.eq(Mux(was_found, TableChange.MOVE_OTHER, TableChange.PLACE))
                m.d.sync += [second.eq(0), waited.eq(0), cell.eq(dut.placed_cell), clears.eq(fails & ~was_found)]
            with m.Elif(waited <= LATENCY - 1):
                m.d.comb += dut.run.eq(1)
                m.d.sync += waited.eq(waited + 1)
                with m.If(waited == 0):
                    m.d.sync += [identity.eq(free_identity), slot.eq(free_slot)]
            with m.Else():
                # Compare, then change.
                with m.If(mine):
                    m.d.comb += [
                        Assert(dut.in_place == (held & here)),
                        Assert(dut.in_place | (dut.found == held) | (held & dut.unlisted)),
                        Assert(~dut.found | ~held | (dut.address == at)),
                    ]
                m.d.comb += Assert((dut.occupied & (dut.occupant == watched)) == (held & here))
                m.d.sync += [second.eq(~dut.in_place), was_found.eq(dut.found)]
                with m.If(dut.in_place):
                    m.d.sync += waited.eq(0)
                with m.Else():
                    # A search is left out here: IDs that only it finds are not asked for.
                    m.d.comb += Assume(~dut.unlisted | dut.found)
                    m.d.comb += dut.change.eq(Mux(dut.found, TableChange.MOVE, TableChange.DISPLACE))
                    with m.If(mine):
                        m.d.sync += [held.eq(1), at.eq(slot)]
                    with m.Elif(held & here):
                        m.d.sync += [held.eq(dut.found), at.eq(dut.address)]
        m.d.comb += [
            Cover(held & second & was_found & mine),
            Cover(cleared & (waited == LATENCY) & mine & ~held),
            Cover(held & (waited == LATENCY) & mine & ~here),
        ]
        return m


def _spec() -> IDTableSpec:
    return IDTableSpec(CONFIG)


PROOFS = [
    # Two requests; the longer proof takes minutes and has three.
    Proof("every_id_is_where_the_table_says_at_first", _spec, "bmc", 14),
    Proof("every_id_is_where_the_table_says", _spec, "bmc", 20, quick=False),
    Proof("moves_clears_and_finds", _spec, "cover", 20),
]
