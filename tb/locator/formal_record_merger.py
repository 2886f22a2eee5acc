"""Proof of the record merger: whole records one after another, no beat lost or changed, and none waits for ever."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from contracts import RECORD_HEADER
from hw.locator.record_merger import RecordMerger
from sim.harness.formal import Proof

_COUNT = 2
_NUMBER_BITS = 4


class RecordMergerSpec(Elaboratable):
    """Every input numbers its beats; what comes out is in order, and records are not mixed.

    The stream is ended, once, while nothing is under way.
    """

    def elaborate(self, platform: Any) -> Module:
        """Drive records of any length."""
        m = Module()
        m.submodules.dut = dut = RecordMerger(_COUNT)
        sent = Array(Signal(_NUMBER_BITS, name=f"sent{n}") for n in range(_COUNT))
        seen = Array(Signal(_NUMBER_BITS, name=f"seen{n}") for n in range(_COUNT))
        waits, ended = Signal(), Signal()
        for n, port in enumerate(dut.i):
            before, last, offered = Signal(name=f"before{n}"), Signal(name=f"last{n}"), Signal(name=f"offered{n}")
            m.d.comb += [
                port.valid.eq(AnySeq(1)),
                port.payload.last.eq(AnySeq(1)),
                port.payload.data.eq(n | (sent[n] << 1)),
                Assume(~before | (port.valid & (port.payload.last == last))),
                # No record follows the end of the stream.
                Assume(~(ended | dut.finish) | ~port.valid),
            ]
            m.d.comb += offered.eq(port.valid & ~port.ready)
            m.d.sync += [before.eq(offered), last.eq(port.payload.last)]
            with m.If(port.valid & port.ready):
                m.d.sync += sent[n].eq(sent[n] + 1)
        word, moves, inside, current = dut.o.payload, Signal(), Signal(), Signal()
        end = RECORD_HEADER.pack({"end": 1})
        inputs_inside = Signal(_COUNT)
        for n, port in enumerate(dut.i):
            with m.If(port.valid & port.ready):
                m.d.sync += inputs_inside[n].eq(~port.payload.last)
        m.d.comb += [
            dut.o.ready.eq(AnySeq(1)),
            moves.eq(dut.o.valid & dut.o.ready),
            dut.finish.eq(AnySeq(1)),
            Assume(~dut.finish | (~ended & ~inputs_inside.any())),
        ]
        with m.If(dut.finish):
            m.d.sync += [ended.eq(1), waits.eq(1)]
        with m.If(moves & waits & (word.data == end)):
            m.d.comb += [Assert(~inside), Assert(word.last)]
            m.d.sync += waits.eq(0)
        with m.Elif(moves):
            source = word.data[0]
            m.d.comb += [
                Assert(word.data >> 1 == seen[source]),
                Assert(~inside | (source == current)),
            ]
            m.d.sync += [seen[source].eq(seen[source] + 1), inside.eq(~word.last), current.eq(source)]
        # What has come in and not gone out is in the two words of the slice.
        under_way = Signal(_NUMBER_BITS)
        m.d.comb += [
            under_way.eq(sum(sent[n] - seen[n] for n in range(_COUNT))),
            Assert(under_way <= 2),
            Assert(~waits | dut.busy),
        ]
        # An input that waits is served when the other has ended a record, before that begins another.
        records, waiting = Signal(2), Signal()
        m.d.comb += waiting.eq(dut.i[0].valid & ~dut.i[0].ready)
        ends = dut.i[1].valid & dut.i[1].ready & dut.i[1].payload.last
        m.d.sync += records.eq(Mux(waiting, Mux(ends & (records != 3), records + 1, records), 0))
        m.d.comb += Assert(records <= 2)
        m.d.comb += [
            Cover(ended & ~waits & (seen[0] > 2) & (seen[1] > 2)),
            Cover(inside & dut.i[0].valid & dut.i[1].valid),
        ]
        return m


PROOFS = [
    Proof("keeps_short_records_whole", RecordMergerSpec, "bmc", 9),
    Proof("keeps_records_whole", RecordMergerSpec, "bmc", 12, quick=False),
    Proof("reaches_its_states", RecordMergerSpec, "cover", 20),
]
