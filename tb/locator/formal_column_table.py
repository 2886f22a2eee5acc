"""Proof of the column table: a vertex is known if and only if it was inserted, with the column it was given."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, ResetSignal, Signal

from hw.locator.column_table import ColumnTable
from hw.locator.config import LocatorConfig
from sim.harness.formal import Proof


class _Crowded(LocatorConfig):
    """Four vertices share a place of the table."""

    @property
    def table_bits(self) -> int:
        """Width of an address."""
        return 2


_CONFIG = _Crowded(engines=1, searches=2, lanes=2, nodes=16, edges=16, banks=2, load_words=1, data_width=64, tag_bits=4)


#: Cycles until a lane is settled, of vertices that are as many as there are places: two for each place, and one more.
_LONGEST = 2 * 4 + 1


class ColumnTableSpec(Elaboratable):
    """Any bundles of two vertices of either search are looked up, and any that are settled and not known are inserted.

    One vertex of one search, any, is watched.
    """

    def elaborate(self, platform: Any) -> Module:
        """Drive everything freely."""
        m = Module()
        m.submodules.dut = dut = ColumnTable(_CONFIG)
        width = _CONFIG.node_bits
        # The tags of both searches' records; the search of the bundle in hand.
        tags, search = [Signal(_CONFIG.tag_bits, name=f"tag{n}") for n in range(2)], Signal()
        held, wanted = [Signal(width, name=f"held{n}") for n in range(2)], Signal(2)
        m.d.comb += [
            dut.tag.eq(Mux(dut.context, *tags)),
            *(tag.eq(AnyConst(_CONFIG.tag_bits)) for tag in tags),
            *(Assume(tag != 0) for tag in tags),
            dut.ahead_context.eq(AnySeq(1)),
            # A reset is followed by clearing the table.
            Assume(~ResetSignal()),
            dut.load.eq(AnySeq(1)),
            *(vertex.eq(AnySeq(width)) for vertex in dut.ahead),
            dut.wanted.eq(wanted),
            dut.insert.eq(AnySeq(2)),
            dut.new_column.eq(AnySeq(len(dut.new_column))),
            dut.clear.valid.eq(0),
            Assume(~dut.insert.all()),
            Assume((dut.insert & ~(wanted & dut.settled & ~dut.known)) == 0),
            Assume((dut.insert == 0) | ((wanted & ~dut.settled) == 0)),
        ]
        m.d.sync += [
            dut.context.eq(dut.ahead_context),
            *(vertex.eq(ahead) for vertex, ahead in zip(dut.vertices, dut.ahead, strict=True)),
        ]
        m.d.sync += wanted.eq(wanted & ~dut.insert & AnySeq(2))
        with m.If(dut.load):
            m.d.sync += [
                search.eq(dut.context),
                wanted.eq(AnySeq(2)),
                *(kept.eq(vertex) for kept, vertex in zip(held, dut.vertices, strict=True)),
            ]

        watched, inserted, column = Signal(width), Signal(), Signal.like(dut.new_column)
        mine = Signal()
        place = Signal.like(dut.address)
        m.d.comb += [watched.eq(AnyConst(width)), mine.eq(search == AnyConst(1))]
        for lane in range(2):
            with m.If(dut.insert[lane] & mine & (held[lane] == watched)):
                m.d.sync += [inserted.eq(1), column.eq(dut.new_column), place.eq(dut.address)]
            with m.If(wanted[lane] & dut.settled[lane] & mine & (held[lane] == watched)):
                m.d.comb += Assert(dut.known[lane] == inserted)
                with m.If(inserted):
                    m.d.comb += Assert(dut.column[lane] == column)
        # It keeps its place.
        m.d.comb += Assert(~inserted | ~dut.insert.any() | (dut.address != place))
        # A lane that is wanted settles if nothing is loaded: it passes the others of its place one by one.
        waited = Signal(range(_LONGEST + 2))
        m.d.sync += waited.eq(Mux(dut.load | (wanted & ~dut.settled == 0) | dut.insert.any(), 0, waited + 1))
        m.d.comb += Assert(waited <= _LONGEST)
        seen = inserted & mine & (held[1] == watched) & wanted[1]
        m.d.comb += [
            Cover(seen & dut.settled[1] & dut.known[1]),
            Cover(seen & (wanted & dut.settled & dut.known).all()),
            # Another vertex stands in its place.
            Cover(seen & ~dut.settled[1]),
            # The other search has the same vertex.
            Cover(inserted & ~mine & (held[1] == watched) & wanted[1] & dut.settled[1] & ~dut.known[1]),
            # Both lanes wait, one of them for a place that is taken from it.
            Cover(wanted.all() & (dut.settled == 0) & seen),
        ]
        return m


PROOFS = [
    Proof("knows_what_was_inserted", ColumnTableSpec, "bmc", 8),
    Proof("reaches_its_states", ColumnTableSpec, "cover", 9),
]
