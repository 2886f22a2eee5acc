"""Proofs of the scratch gate: a client's bursts are never under way to both, so its beats come in their order."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal, Value

from hw.memory.scratch_gate import Place, ScratchGate
from sim.harness.formal import Proof, assume_stream

CLIENTS, OUTSTANDING = 2, 2


class ScratchGateSpec(Elaboratable):
    """Both memories answer at any time what they were asked for, and nothing else; clients ask for anything."""

    def elaborate(self, platform: Any) -> Module:
        """Count what each memory owes each client."""
        m = Module()
        m.submodules.dut = dut = ScratchGate(128, 14, 64, CLIENTS, OUTSTANDING)
        m.d.comb += [dut.first.eq(AnyConst(len(dut.first))), dut.end.eq(AnyConst(len(dut.end)))]
        for source, name in ((dut.write, "write"), *((dut.requests[n], f"request{n}") for n in range(CLIENTS))):
            m.d.comb += [source.valid.eq(AnySeq(1)), source.payload.eq(AnySeq(source.payload.shape().size))]
            assume_stream(m, source, name)
        m.d.comb += [
            dut.write_memory.ready.eq(AnySeq(1)),
            dut.write_scratch.ready.eq(AnySeq(1)),
            dut.reads.ready.eq(AnySeq(1)),
            dut.answers.valid.eq(AnySeq(1)),
            dut.answers.payload.eq(AnySeq(dut.answers.payload.shape().size)),
            Assume(~dut.answers.valid | (dut.answers.payload.client < CLIENTS)),
        ]
        for n in range(CLIENTS):
            self._client(m, dut, n)
        here = (dut.write.payload.address[3:] >= dut.first) & (dut.write.payload.address[3:] < dut.end)
        m.d.comb += [
            Assert(dut.write_scratch.valid == (dut.write.valid & here)),
            Assert(dut.write_memory.valid == (dut.write.valid & ~here)),
        ]
        return m

    def _client(self, m: Module, dut: ScratchGate, n: int) -> None:
        """Follow the bursts of a client."""
        memory, beats, answers = dut.to_memory[n], dut.from_memory[n], dut.answers
        m.d.comb += [
            memory.ready.eq(AnySeq(1)),
            beats.valid.eq(AnySeq(1)),
            beats.payload.eq(AnySeq(beats.payload.shape().size)),
        ]
        # Bursts to the scratchpad are counted where they leave the client, in front of the arbiter.
        owed = {name: Signal(range(OUTSTANDING + 2), name=f"{name}_{n}") for name in ("outside", "inside")}
        scratch, comes = dut.scratch[n], Signal(name=f"comes_{n}")
        asks = {"outside": memory.valid & memory.ready, "inside": scratch.valid & scratch.ready}
        m.d.comb += comes.eq(answers.valid & (answers.payload.client == n))
        ends = {"outside": beats.valid & beats.payload.last, "inside": comes & answers.payload.last}
        m.d.comb += [
            Assume(~beats.valid | (owed["outside"] != 0)),
            Assume(~comes | (owed["inside"] != 0)),
            Assert((owed["outside"] == 0) | (owed["inside"] == 0)),
            Assert(owed["outside"] + owed["inside"] == dut.under_way[n]),
            Assert((owed["inside"] == 0) | (dut.place[n] == Place.SCRATCHPAD)),
            Assert((owed["outside"] == 0) | (dut.place[n] == Place.MEMORY)),
            Assert(owed["outside"] + owed["inside"] <= OUTSTANDING),
            # A burst goes where its lines are.
            Assert(~memory.valid | ~self._here(dut, memory.payload.address)),
            # The beat is that of whoever owes it.
            Assert(dut.beats[n].valid == (beats.valid | comes)),
            Assert(~comes | (dut.beats[n].payload.data == answers.payload.data)),
            Assert(~beats.valid | (dut.beats[n].payload.data == beats.payload.data)),
            Cover((owed["inside"] == OUTSTANDING) & (dut.first != 0)),
        ]
        held = dut.held[n]
        for there, word in ((held.o.valid, held.o.payload), (~held.i.ready, held.behind)):
            place = Mux(self._here(dut, word.burst.address), Place.SCRATCHPAD, Place.MEMORY)
            m.d.comb += Assert(~there | (Value.cast(word.place) == place))
        for name, count in owed.items():
            m.d.sync += count.eq(count + asks[name] - ends[name])
        changed = Signal(2, name=f"changed_{n}")
        with m.If(asks["outside"] | asks["inside"]):
            m.d.sync += changed.eq(Mux(changed[0] == asks["inside"], changed, changed + 1))
        m.d.comb += Cover(changed == 3)

    @staticmethod
    def _here(dut: ScratchGate, address: Any) -> Any:
        return (address[3:] >= dut.first) & (address[3:] < dut.end)


PROOFS = [
    Proof("a_clients_beats_come_in_order", ScratchGateSpec, "prove", 3),
    Proof("a_client_goes_to_both", ScratchGateSpec, "cover", 16),
]
