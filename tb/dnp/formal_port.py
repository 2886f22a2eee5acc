"""Proof that a link between two ports neither loses nor doubles a word, nor changes its place (D6)."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cover, Elaboratable, Module, Signal, signed
from amaranth.lib import wiring

from contracts.dnp.config import WORD
from hw.dnp.port import Port
from sim.harness.formal import Proof, assert_stream


class LinkSpec(Elaboratable):
    """A sender's output and a receiver's input are a queue of two words, whatever the two processors do."""

    def elaborate(self, platform: Any) -> Module:
        """Let both cores do anything they may, and compare the link with a queue in every clock."""
        m = Module()
        m.submodules.sender = sender = Port()
        m.submodules.receiver = receiver = Port()
        wiring.connect(m, sender.o, receiver.i)
        put, take = Signal(), Signal()
        word = Signal(signed(WORD))
        m.d.comb += [
            receiver.online.eq(1),
            put.eq(AnySeq(1) & sender.has_room),
            take.eq(AnySeq(1) & receiver.has_word),
            word.eq(AnySeq(WORD)),
            sender.put.eq(put),
            sender.put_word.eq(word),
            receiver.take.eq(take),
        ]
        assert_stream(m, sender.o, "link")

        held = Signal(range(3))
        oldest, second = Signal(signed(WORD)), Signal(signed(WORD))
        m.d.sync += held.eq(held + put - take)
        with m.If(take):
            m.d.sync += oldest.eq(second)
        with m.If(put):
            with m.If(held == take):
                m.d.sync += oldest.eq(word)
            with m.Else():
                m.d.sync += second.eq(word)
        m.d.comb += [
            Assert(held <= 2),
            Assert(receiver.has_word == (held != 0)),
            # A word on the wire is the oldest if the input buffer is empty, else the second one.
            Assert(sender.o.valid == ((held == 2) | ((held == 1) & receiver.i.ready))),
            Assert(receiver.i.ready == ((held == 0) | ((held == 1) & sender.o.valid))),
        ]
        with m.If(held != 0):
            m.d.comb += Assert(receiver.word == oldest)
        with m.If(sender.o.valid & ~receiver.i.ready):
            m.d.comb += Assert(sender.o.payload == second)

        streak = Signal(range(8))
        m.d.sync += streak.eq(0)
        with m.If(put & take & (streak != 7)):
            m.d.sync += streak.eq(streak + 1)
        m.d.comb += [Cover(held == 2), Cover((held == 2) & take), Cover(streak == 6)]
        return m


PROOFS = [
    Proof("is_a_queue_of_two", LinkSpec, "prove", 3),
    Proof("reaches_its_states", LinkSpec, "cover", 14),
]
