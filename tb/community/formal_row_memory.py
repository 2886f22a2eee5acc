"""Proof of the row memory: a beat that is read is what was last written, and goes to who asked in time."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.community.row_memory import RowMemory
from sim.harness.formal import Proof, assume_stream

_CLIENTS, _LINES, _WIDTH = 2, 2, 64


class RowMemorySpec(Elaboratable):
    """Requests, writes and the memory outside are free; the contents of one beat are followed."""

    def elaborate(self, platform: Any) -> Module:
        """Ask for single beats and for bursts, on either side."""
        m = Module()
        m.submodules.dut = dut = RowMemory(13, _WIDTH, _LINES, _CLIENTS)
        m.d.comb += [
            # Requests are answered before it changes, which the bench does.
            dut.read_inside.eq(AnyConst(1)),
            dut.write_inside.eq(AnySeq(1)),
            dut.outside_write.ready.eq(AnySeq(1)),
            # Layers read other rows than those that they write.
            Assume(~dut.collides),
        ]
        for source, name in ((dut.write, "write"), *((dut.requests[n], f"request{n}") for n in range(_CLIENTS))):
            m.d.comb += [source.valid.eq(AnySeq(1)), source.payload.eq(AnySeq(source.payload.shape().size))]
            assume_stream(m, source, name)
        for n in range(_CLIENTS):
            m.d.comb += [
                dut.outside_requests[n].ready.eq(AnySeq(1)),
                dut.outside_beats[n].valid.eq(AnySeq(1)),
                dut.outside_beats[n].payload.eq(AnySeq(dut.outside_beats[n].payload.shape().size)),
            ]

        # What the followed beat holds, once it was written.
        followed, held, known = Signal(len(dut.write.payload.address)), Signal(_WIDTH), Signal()
        m.d.comb += [followed.eq(AnyConst(len(followed))), Assume(followed < _LINES * 512 // _WIDTH)]
        write = dut.write
        with m.If(write.valid & write.ready & dut.write_inside & (write.payload.address == followed)):
            m.d.sync += [known.eq(1), held.eq(write.payload.data)]

        # When it is asked for alone: what must come two cycles later, and to whom. Requests wait in an arbiter before.
        asked = [Signal(_CLIENTS, name=f"asked{n}") for n in range(2)]
        values = [Signal(_WIDTH, name=f"value{n}") for n in range(2)]
        certain, turn = Signal(2), dut.arbiter.o
        alone = (turn.payload.payload.address == followed) & (turn.payload.payload.length == 0)
        for n in range(_CLIENTS):
            m.d.sync += asked[0][n].eq(turn.valid & alone & (turn.payload.source == n))
        m.d.sync += [
            asked[1].eq(asked[0]),
            values[0].eq(held),
            values[1].eq(values[0]),
            certain.eq((certain << 1) | known),
        ]
        for n, beat in enumerate(dut.beats):
            with m.If(asked[1][n]):
                m.d.comb += [
                    # The memory outside owes nothing: sides are changed only then.
                    Assume(~dut.outside_beats[n].valid),
                    Assert(beat.valid & beat.payload.last & ~beat.payload.error),
                    Assert(~certain[1] | (beat.payload.data == values[1])),
                ]
            with m.Elif(beat.valid & asked[1].any()):
                m.d.comb += Assert(dut.outside_beats[n].valid)
        m.d.comb += [Cover(asked[1][n] & certain[1] & values[1].any()) for n in range(_CLIENTS)]
        return m


PROOFS = [
    Proof("what_was_written_is_read", RowMemorySpec, "bmc", 10),
    Proof("both_clients_read_it", RowMemorySpec, "cover", 8),
]
