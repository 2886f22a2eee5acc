"""Proof of the hub port: the k-th row that a PE gets is that of its k-th request, and never more are owed than fit."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Const, Cover, Elaboratable, Module, Mux, Signal

from hw.community.formats import CommunityConfig
from hw.community.hub_port import HubPort
from sim.harness.formal import Proof, assert_stream, assume_stream

#: The shortest rows, of up to four beats.
CONFIG = CommunityConfig(lanes=1, width=8, columns=16, partners=1, max_out=1, weight_rows=2, data_width=64)
_UNITS, _ROWS = 2, 2
#: Rows and requests are counted in so many bits; none of them begins again in the cycles looked at.
_COUNT_BITS = 4


class HubPortSpec(Elaboratable):
    """PE and units are free but for what they promise; a beat of one row is followed from its unit to the PE."""

    def elaborate(self, platform: Any) -> Module:
        """Count requests and rows on both sides."""
        m = Module()
        m.submodules.dut = dut = HubPort(CONFIG, _UNITS, _ROWS)
        for source, name in ((dut.i, "i"), (dut.partial, "partial")):
            m.d.comb += [source.valid.eq(AnySeq(1)), source.payload.eq(AnySeq(source.payload.shape().size))]
            assume_stream(m, source, name)
        m.d.comb += dut.o.ready.eq(AnySeq(1))
        assert_stream(m, dut.o, "o")
        for n in range(_UNITS):
            m.d.comb += [
                dut.requests[n].ready.eq(AnySeq(1)),
                dut.partials[n].ready.eq(AnySeq(1)),
                dut.rows[n].valid.eq(AnySeq(1)),
                # Two bits tell a beat from others.
                dut.rows[n].payload.eq(Cat(AnySeq(2), Const(0, CONFIG.hub_row.size - 3), AnySeq(1))),
            ]

        # Every word goes to its unit, whole, and passes on both sides at once.
        for source, ends, name in ((dut.i, dut.requests, "request"), (dut.partial, dut.partials, "partial")):
            moves = Cat(end.valid & end.ready for end in ends)
            m.d.comb += Assert((source.valid & source.ready) == moves.any())
            for n, end in enumerate(ends):
                assert_stream(m, end, f"{name}{n}")
                meant = (source.payload.vid[0] == n) & (source.payload.as_value() == end.payload.as_value())
                m.d.comb += Assert(~end.valid | (source.valid & meant))

        # Units send what they were asked for, and no row has too many beats.
        asked, sent, beats = (
            Array(Signal(_COUNT_BITS, name=f"{name}{n}") for n in range(_UNITS)) for name in ("asked", "sent", "beats")
        )
        for n in range(_UNITS):
            row = dut.rows[n]
            m.d.comb += [
                Assume(~row.valid | (asked[n] != sent[n])),
                Assume(~row.valid | row.payload.last | (beats[n] != CONFIG.pe.max_beats - 1)),
            ]
            m.d.sync += asked[n].eq(asked[n] + (dut.requests[n].valid & dut.requests[n].ready))
            with m.If(row.valid):
                m.d.sync += [
                    sent[n].eq(sent[n] + row.payload.last),
                    beats[n].eq(Mux(row.payload.last, 0, beats[n] + 1)),
                ]

        # The PE's side.
        requested, taken, beat = (Signal(_COUNT_BITS, name=name) for name in ("requested", "taken", "beat"))
        moves = dut.o.valid & dut.o.ready
        m.d.sync += requested.eq(requested + (dut.i.valid & dut.i.ready))
        with m.If(moves):
            m.d.sync += [taken.eq(taken + dut.o.payload.last), beat.eq(Mux(dut.o.payload.last, 0, beat + 1))]
        owed = Signal(_COUNT_BITS)
        m.d.comb += [owed.eq(requested - taken), Assert(owed <= _ROWS)]

        # The beat that is followed: of which request, of which unit's row that makes, and what it holds.
        number, place = Signal(_COUNT_BITS), Signal(_COUNT_BITS)
        m.d.comb += [number.eq(AnyConst(_COUNT_BITS)), place.eq(AnyConst(_COUNT_BITS))]
        unit, which, known = Signal(range(_UNITS)), Signal(_COUNT_BITS), Signal()
        held, arrived = Signal(CONFIG.hub_row.size), Signal()
        with m.If(dut.i.valid & dut.i.ready & (requested == number)):
            m.d.sync += [known.eq(1), unit.eq(dut.i.payload.vid[0]), which.eq(asked[dut.i.payload.vid[0]])]
        for n, row in enumerate(dut.rows):
            with m.If(known & (unit == n) & row.valid & (sent[n] == which) & (beats[n] == place)):
                m.d.sync += [arrived.eq(1), held.eq(row.payload.as_value())]
        followed = dut.o.valid & (taken == number) & (beat == place)
        with m.If(followed):
            m.d.comb += [Assert(arrived), Assert(dut.o.payload.as_value() == held)]
        m.d.comb += [Cover(followed & (number == 1) & (place == 1) & (unit == n)) for n in range(_UNITS)]
        # Both units have sent all they can at once, and the PE has taken nothing.
        m.d.comb += Cover((owed == _ROWS) & (taken == 0) & (sent[0] + sent[1] == _ROWS) & dut.i.valid & ~dut.i.ready)
        return m


PROOFS = [
    Proof("rows_come_as_they_were_asked_for", HubPortSpec, "bmc", 7),
    # Every cycle more takes about five times as long.
    Proof("and_two_cycles_longer", HubPortSpec, "bmc", 9, quick=False),
    # The queue of a unit is full in the last of them.
    Proof("reaches_its_states", HubPortSpec, "cover", 12),
]
