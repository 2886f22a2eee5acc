"""Proofs of the queue: one symbolic word is followed through it."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Cover, Elaboratable, Module, Signal

from hw.stream.queue import Queue
from sim.harness.formal import Proof, assert_stream, assume_stream

WIDTH = 2
COUNTER = 5


class QueueSpec(Elaboratable):
    """The word written as number `k`, whichever that is, is read as number `k`, unchanged.

    Parameters
    ----------
    depth, storage
        As for :class:`~hw.stream.queue.Queue`.
    """

    def __init__(self, depth: int, storage: Any) -> None:
        self.depth = depth
        self.storage = storage

    def elaborate(self, platform: Any) -> Module:
        """Drive the queue freely, count words on both sides and remember the chosen one."""
        m = Module()
        m.submodules.dut = dut = Queue(WIDTH, self.depth, storage=self.storage)
        m.d.comb += [
            dut.i.payload.eq(AnySeq(WIDTH)),
            dut.i.valid.eq(AnySeq(1)),
            dut.o.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.o, "o")

        chosen = AnyConst(COUNTER)
        word = Signal(WIDTH)
        written = Signal(COUNTER)
        read = Signal(COUNTER)
        put = dut.i.valid & dut.i.ready
        take = dut.o.valid & dut.o.ready
        m.d.sync += [written.eq(written + put), read.eq(read + take)]
        with m.If(put & (written == chosen)):
            m.d.sync += word.eq(dut.i.payload)
        with m.If(dut.o.valid & (read == chosen)):
            m.d.comb += Assert(dut.o.payload == word)

        m.d.comb += [
            Assert(dut.level == (written - read)[:COUNTER]),
            Assert(dut.level <= self.depth),
            # Full means full: a queue that is not full takes a word, at the latest one cycle after it was read from.
            Assert(dut.i.ready | (dut.level + 1 >= self.depth)),
            Assert(~dut.o.valid | (dut.level != 0)),
        ]
        waited = Signal(range(dut.latency + 1))
        with m.If((dut.level != 0) & ~dut.o.valid):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        m.d.comb += Assert(waited < dut.latency)

        wrapped = Signal()
        with m.If(written > 2 * self.depth):
            m.d.sync += wrapped.eq(1)
        m.d.comb += [Cover(dut.level == self.depth), Cover(wrapped & (dut.level == 0))]
        if self.depth > 1:
            m.d.comb += Cover(put & take & (dut.level == self.depth - 1))
        return m


def _proofs(depth: int, storage: str) -> list[Proof]:
    def spec() -> QueueSpec:
        return QueueSpec(depth, storage)

    return [
        Proof(f"words_keep_their_order_{storage}_{depth}", spec, "bmc", 16),
        Proof(f"reaches_its_states_{storage}_{depth}", spec, "cover", 24),
    ]


PROOFS = [*_proofs(1, "distributed"), *_proofs(3, "distributed"), *_proofs(4, "block")]
