"""Proofs of the credits behind a divided graph: what comes from the ring is taken without waiting for the ring.

A chiplet has at most as many requests on the way as it has slots. If all others keep to that, its server has room for
their requests; and each reply finds the slot that was reserved for it.
"""

from functools import partial
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import connect

from contracts import PACKET_HEADER, PACKET_LINES
from hw.contracts import struct
from hw.ring.formats import RingConfig
from hw.ring.line_receiver import LineReceiver
from hw.ring.line_server import LineServer
from hw.ring.shared_lines import SharedLines
from sim.harness.formal import Proof, assume_stream

ADDRESS, WIDTH, CHIPLETS, SLOTS = 13, 64, 2, 2


class ServerSpec(Elaboratable):
    """A receiver and a server; others ask within their credits, the ring and the memory take their time.

    Parameters
    ----------
    requests
        Room of the server; enough is ``CHIPLETS * SLOTS``.
    """

    def __init__(self, requests: int) -> None:
        self.requests = requests

    def elaborate(self, platform: Any) -> Module:
        """Count requests that have come and whose reply has not left."""
        m = Module()
        port = (ADDRESS, WIDTH)
        m.submodules.receiver = receiver = LineReceiver(*port, WIDTH, SLOTS, 1)
        m.submodules.server = server = LineServer(*port, WIDTH, CHIPLETS, self.requests, 16)
        connect(m, receiver.requests, server.i)
        m.d.comb += [
            receiver.i.valid.eq(AnySeq(1)),
            receiver.i.payload.eq(AnySeq(WIDTH + 1)),
            receiver.awaited.eq(AnySeq(SLOTS)),
            receiver.fill.ready.eq(AnySeq(1)),
            server.serves.eq(AnySeq(1)),
            server.o.ready.eq(AnySeq(1)),
            server.request.ready.eq(AnySeq(1)),
            server.beat.payload.eq(AnySeq(WIDTH + 2)),
            *(shift.eq(AnySeq(len(shift))) for shift in server.shifts),
        ]
        assume_stream(m, receiver.i, "i")
        # The memory has no more beats than were requested.
        asked = Signal(8)
        due = server.request.payload.length + 1
        comes = AnySeq(1)
        m.d.comb += server.beat.valid.eq(comes & (asked != 0))
        takes, leaves = Signal(), Signal()
        m.d.sync += asked.eq(asked + (due * (server.request.valid & server.request.ready))[:5] - server.beat.valid)
        owed = Signal(range(CHIPLETS * SLOTS + 2))
        m.d.comb += [
            takes.eq(receiver.requests.valid & receiver.requests.ready),
            leaves.eq(server.o.valid & server.o.ready & server.o.payload.last),
            # All others together.
            Assume(~receiver.requests.valid | (owed < (CHIPLETS - 1) * SLOTS)),
            Assert(owed == server.waiting.level + server.locating + server.under_way.level),
            Assert(server.fetcher.free + server.fetcher.level + asked == server.depth),
            Assert(~receiver.requests.valid | receiver.requests.ready),
            # A reply waits for a write of the own memory's beats at most.
            Assert(~receiver.i.valid | receiver.i.ready | receiver.fill.valid),
            Cover((owed == (CHIPLETS - 1) * SLOTS) & server.o.valid & ~server.o.ready),
        ]
        m.d.sync += owed.eq(owed + takes - leaves)
        return m


class ReaderSpec(Elaboratable):
    """Shared lines of a chiplet that reads anything; replies come at any time for requests that have left."""

    def elaborate(self, platform: Any) -> Module:
        """Follow each slot from the request that leaves to the reply that has come."""
        m = Module()
        config = RingConfig(chiplets=CHIPLETS, link_width=WIDTH, max_out=1, requests=SLOTS, reply_beats=1)
        m.submodules.dut = dut = SharedLines(config, ADDRESS, WIDTH, 16)
        header = data.View(struct(PACKET_HEADER), dut.requests.payload.data)
        comes = data.View(struct(PACKET_HEADER), dut.i.payload.data)
        asks, reply = (data.View(struct(PACKET_LINES), each.elements) for each in (header, comes))
        m.d.comb += [
            dut.chiplets.eq(CHIPLETS),
            dut.lines.reads.valid.eq(AnySeq(1)),
            dut.lines.reads.payload.eq(AnySeq(dut.lines.reads.payload.shape().size)),
            dut.requests.ready.eq(AnySeq(1)),
            dut.replies.ready.eq(AnySeq(1)),
            dut.cut.eq(0),
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.eq(AnySeq(WIDTH + 1)),
        ]
        assume_stream(m, dut.lines.reads, "reads")
        assume_stream(m, dut.i, "i")
        # Requests that have left and have no whole reply yet.
        out, inside, slot = Signal(SLOTS), Signal(), Signal(6)
        sent, ended = Signal(SLOTS), Signal(SLOTS)
        first, takes = dut.i.valid & ~inside, dut.i.valid & dut.i.ready
        with m.If(dut.requests.valid & dut.requests.ready):
            m.d.comb += sent.eq(1 << asks.tag)
        with m.If(takes):
            m.d.sync += inside.eq(~dut.i.payload.last)
            with m.If(~inside):
                m.d.sync += slot.eq(reply.tag)
            with m.If(dut.i.payload.last):
                m.d.comb += ended.eq(1 << Mux(inside, slot, reply.tag))
        m.d.comb += [
            # A reply is a header alone, or a header and a beat.
            Assume(~first | (reply.reply & (reply.last_beat == 0) & (out & (1 << reply.tag)).any())),
            Assume(~inside | dut.i.payload.last),
            Assert((out & ~dut.store.awaited) == 0),
            Assert((sent & out) == 0),
            Assert(~dut.i.valid | dut.i.ready),
            Assert(~dut.error.valid),
            Cover(out.all()),
            Cover(dut.lines.beats.valid & dut.lines.beats.payload.error),
            Cover(dut.lines.beats.valid & ~dut.lines.beats.payload.error),
        ]
        m.d.sync += out.eq((out | sent) & ~ended)
        return m


PROOFS = [
    Proof("a_server_has_room_for_all_requests", partial(ServerSpec, CHIPLETS * SLOTS), "prove", 3),
    Proof("a_server_is_full", partial(ServerSpec, CHIPLETS * SLOTS), "cover", 24, outer=True),
    Proof("each_reply_has_its_place", ReaderSpec, "bmc", 16),
    Proof("all_places_are_used", ReaderSpec, "cover", 20, outer=True),
]
#: With fewer places than others may ask for, a request waits at the head of the station.
REFUTED = Proof("a_server_has_room_for_few_requests", partial(ServerSpec, 1), "bmc", 12)
