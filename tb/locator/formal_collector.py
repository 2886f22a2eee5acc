"""Proof of the collector: whole records one after another, each from the engine that has it, in turn; then one end."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data

from contracts import RECORD_HEADER
from hw.contracts import struct
from hw.locator.collector import Collector
from hw.locator.config import LocatorConfig
from sim.harness.formal import Proof

_COUNT = 2
_CONFIG = LocatorConfig(engines=_COUNT, searches=2, lanes=2, nodes=64, edges=64, c_max=32, hubs=32, banks=2, tag_bits=6)
#: Most nodes and hubs of a record, so that a trace has several records.
_MOST = 3
#: Records of which beats are left to emit: one in hand, one behind it in the two words of the slice.
_OPEN = 2


class CollectorSpec(Elaboratable):
    """Every engine's nodes and hubs have its number as their lowest bit.

    A record has as many beats of vertices as its header says, all from the engine that it was taken from. Rows are
    compared by simulation.
    """

    def elaborate(self, platform: Any) -> Module:
        """Offer any small records and any contents of the buffers."""
        m = Module()
        config = _CONFIG
        m.submodules.dut = dut = Collector(config, _COUNT)
        m.d.comb += [dut.settings.h_max.eq(config.hubs), dut.settings.first.eq(0)]
        expected = data.StructLayout({"source": 1, "nodes": 3, "hubs": 3})
        queue, level = Array(Signal(expected, name=f"expected{n}") for n in range(_OPEN)), Signal(range(_OPEN + 1))
        takes, leaves, ended = Signal(), Signal(), Signal()
        with m.If(leaves):
            m.d.sync += queue[0].eq(queue[1])
        for n, engine in enumerate(dut.engines):
            offer, given, reading = engine.complete, engine.complete.payload, Signal(name=f"reading{n}")
            before, last = Signal(name=f"before{n}"), Signal.like(given, name=f"last{n}")
            for member in (engine.reader.nodes, engine.reader.hubs):
                m.d.comb += [member.eq(AnySeq(len(member.as_value()))), *(Assume(vertex[0] == n) for vertex in member)]
            m.d.comb += [
                engine.reader.row.eq(AnySeq(config.columns)),
                offer.valid.eq(AnySeq(1)),
                given.eq(AnySeq(given.shape().size)),
                Assume(~before | (offer.valid & (given.as_value() == last.as_value()))),
                Assume((given.nodes > 0) & (given.nodes <= _MOST) & (given.hubs <= _MOST)),
                # No record follows the end of the stream.
                Assume(~(ended | dut.finish) | ~offer.valid),
                # A half is freed by the collector that reads it, once.
                Assert(~engine.done | reading),
                Assert(~(offer.valid & offer.ready & reading) | engine.done),
                Assert(~offer.valid | dut.busy),
            ]
            m.d.sync += [before.eq(offer.valid & ~offer.ready), last.eq(given)]
            with m.If(engine.done):
                m.d.sync += reading.eq(0)
            with m.If(offer.valid & offer.ready):
                m.d.comb += [takes.eq(1), Assert(level - leaves < _OPEN)]
                m.d.sync += reading.eq(1)
                entry = queue[level - leaves]
                m.d.sync += [entry.source.eq(n), entry.nodes.eq(given.nodes), entry.hubs.eq(given.hubs)]
        offers = [engine.complete for engine in dut.engines]
        m.d.comb += Assert(~Cat(offer.valid & offer.ready for offer in offers).all())

        # Beats of vertices are left of the record that is being emitted.
        word, moves, inside = dut.o.payload, Signal(), Signal()
        front, header, vertices = queue[0], data.View(struct(RECORD_HEADER), word.data), Signal(3)
        nodes_left, hubs_left = Signal(3), Signal(3)
        waits = Signal()
        m.d.comb += [
            dut.o.ready.eq(AnySeq(1)),
            moves.eq(dut.o.valid & dut.o.ready),
            dut.finish.eq(AnySeq(1)),
            Assume(~dut.finish | (~ended & ~dut.busy)),
            Assert(~(waits | inside | dut.o.valid) | dut.busy),
        ]
        with m.If(dut.finish):
            m.d.sync += [ended.eq(1), waits.eq(1)]
        with m.If(moves & ~inside):
            m.d.comb += Assert(header.end == (waits & (level == 0)))
            with m.If(header.end):
                m.d.comb += [Assert(word.data == RECORD_HEADER.pack({"end": 1})), Assert(word.last)]
                m.d.sync += waits.eq(0)
            with m.Else():
                m.d.comb += [
                    Assert(level != 0),
                    Assert((header.nodes == front.nodes) & (header.hubs == front.hubs) & header.last_part),
                    Assert(~word.last),
                ]
                m.d.sync += [inside.eq(1), nodes_left.eq(header.nodes), hubs_left.eq(header.hubs)]
        with m.Elif(moves & ((nodes_left != 0) | (hubs_left != 0))):
            nodes = nodes_left != 0
            m.d.comb += [
                vertices.eq(Mux(nodes, nodes_left, hubs_left)),
                Assert(word.data[0] == front.source),
                Assert(word.data[32] == (front.source & (vertices > 1))),
                Assert(~word.last),
            ]
            rest = Mux(vertices > 1, vertices - 2, 0)
            with m.If(nodes):
                m.d.sync += nodes_left.eq(rest)
            with m.Else():
                m.d.sync += hubs_left.eq(rest)
        with m.Elif(moves & word.last):
            m.d.comb += leaves.eq(1)
            m.d.sync += inside.eq(0)
        m.d.sync += level.eq(level + takes - leaves)

        # An engine that waits is served after at most one record of the other.
        seen = Signal(_COUNT)
        for n, engine in enumerate(dut.engines):
            others, offer = Signal(2, name=f"others{n}"), engine.complete
            with m.If(~offer.valid | offer.ready):
                m.d.sync += others.eq(0)
            with m.Elif(takes):
                m.d.sync += others.eq(others + 1)
            m.d.comb += Assert(others <= 1)
        with m.If(leaves):
            m.d.sync += seen.eq(seen | (1 << front.source))
        m.d.comb += [
            Cover(ended & ~waits & seen.all()),
            Cover(inside & Cat(offer.valid for offer in offers).all()),
            Cover(leaves & (level == _OPEN)),
        ]
        return m


PROOFS = [
    Proof("keeps_records_whole", CollectorSpec, "bmc", 12),
    Proof("keeps_several_records_whole", CollectorSpec, "bmc", 15, quick=False),
    Proof("reaches_its_states", CollectorSpec, "cover", 20, outer=True),
]
