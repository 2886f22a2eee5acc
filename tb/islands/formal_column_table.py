"""Proof of the column table: a vertex is known if and only if it was inserted, with the column it was given."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, ResetSignal, Signal

from hw.islands.column_table import ColumnTable
from hw.islands.config import LocatorConfig
from tb.harness.formal import Proof


class _Crowded(LocatorConfig):
    """Four vertices share a place of the table."""

    @property
    def table_bits(self) -> int:
        """Width of an address."""
        return 2


_CONFIG = _Crowded(engines=1, searches=1, lanes=2, nodes=16, edges=16, banks=2, line_banks=2, data_width=64, tag_bits=3)


class ColumnTableSpec(Elaboratable):
    """Any bundles of two different vertices are looked up, and any that are settled and not known are inserted.

    One vertex, any, is watched.
    """

    def elaborate(self, platform: Any) -> Module:
        """Drive everything freely."""
        m = Module()
        m.submodules.dut = dut = ColumnTable(_CONFIG)
        width = _CONFIG.node_bits
        loaded, held = Signal(), [Signal(width, name=f"held{n}") for n in range(2)]
        m.d.comb += [
            dut.tag.eq(AnyConst(_CONFIG.tag_bits)),
            Assume(dut.tag != 0),
            # A reset is followed by clearing the table.
            Assume(~ResetSignal()),
            dut.load.eq(AnySeq(1)),
            *(vertex.eq(AnySeq(width)) for vertex in dut.vertices),
            Assume(dut.vertices[0] != dut.vertices[1]),
            dut.insert.eq(AnySeq(1)),
            dut.lane.eq(AnySeq(1)),
            dut.new_column.eq(AnySeq(len(dut.new_column))),
            dut.clear.valid.eq(0),
            Assume(~dut.insert | (loaded & (dut.settled & ~dut.known).bit_select(dut.lane, 1))),
        ]
        with m.If(dut.load):
            m.d.sync += [loaded.eq(1), *(kept.eq(vertex) for kept, vertex in zip(held, dut.vertices, strict=True))]

        watched, inserted, column = Signal(width), Signal(), Signal.like(dut.new_column)
        m.d.comb += watched.eq(AnyConst(width))
        with m.If(dut.insert & (Array(held)[dut.lane] == watched)):
            m.d.sync += [inserted.eq(1), column.eq(dut.new_column)]
        for lane in range(2):
            with m.If(loaded & dut.settled[lane] & (held[lane] == watched)):
                m.d.comb += Assert(dut.known[lane] == inserted)
                with m.If(inserted):
                    m.d.comb += Assert(dut.column[lane] == column)
        seen = loaded & inserted & (held[1] == watched)
        m.d.comb += [
            Cover(seen & dut.settled[1] & dut.known[1]),
            Cover(seen & dut.settled.all() & dut.known.all()),
            # Another vertex stands in its place.
            Cover(seen & ~dut.settled[1]),
        ]
        return m


PROOFS = [
    Proof("knows_what_was_inserted", ColumnTableSpec, "bmc", 7),
    Proof("reaches_its_states", ColumnTableSpec, "cover", 9),
]
