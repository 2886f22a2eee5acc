"""Proofs that passes do not mix: without a barrier, a row is taken in the pass in which it was sent (R14)."""

from functools import partial
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data

from contracts import PACKET_HEADER, PacketKind
from hw.contracts import struct
from hw.ring.tokens import Tokens
from hw.stream.queue import Queue
from sim.harness.formal import Proof

#: Bits of a layer's number, which the hardware does not send.
_LAYER = 2
#: Bits of a flit: a header.
_LINK = PACKET_HEADER.bits
#: Packets on a link.
_SLOTS = 2


class PassesSpec(Elaboratable):
    """A ring of chiplets that do their work, send and take rows at any pace; each row carries its layer for the proof.

    Parameters
    ----------
    chiplets
        Of the ring.
    upsets
        Chiplets come to barriers and stop at any time; then nothing is proved, but more states are reached.
    """

    def __init__(self, chiplets: int, *, upsets: bool = False) -> None:
        self.chiplets, self.upsets = chiplets, upsets
        self.packet = data.StructLayout({"row": 1, "layer": _LAYER, "source": 2, "destination": 2, "vid": 32})

    def elaborate(self, platform: Any) -> Module:
        """Join the chiplets by links that keep the order."""
        m = Module()
        links = [Queue(self.packet, _SLOTS, storage="distributed") for _ in range(self.chiplets)]
        for n, link in enumerate(links):
            m.submodules[f"link_{n}"] = link
        layers = [Signal(_LAYER, name=f"layer_{n}") for n in range(self.chiplets)]
        for n in range(self.chiplets):
            self._chiplet(m, n, links[n - 1], links[n], layers[n])
        ahead = (layers[0] - layers[1])[:_LAYER]
        m.d.comb += [
            # No chiplet is more than a pass ahead, so that these numbers tell layers apart.
            Assert((ahead == 0) | (ahead == 1) | (ahead == (1 << _LAYER) - 1) | self.upsets),
            Cover(ahead == 1),
            Cover((layers[0] == 2) & (layers[1] == 2)),
        ]
        return m

    def _chiplet(self, m: Module, n: int, before: Queue, after: Queue, layer: Signal) -> None:
        """Work, send rows, say so, wait for the others, and begin the next layer."""
        m.submodules[f"tokens_{n}"] = tokens = Tokens(_LINK, self.chiplets)
        flows, drains, begins, sends, ends = (
            Signal(name=f"{name}_{n}") for name in ("flows", "drains", "begins", "sends", "ends")
        )
        last = (n - 1) % self.chiplets
        if self.upsets:
            m.d.comb += [port.eq(AnySeq(1)) for port in (tokens.arrive, tokens.passed, tokens.stop)]
        m.d.comb += [
            tokens.position.eq(n),
            tokens.chiplets.eq(self.chiplets),
            # What it does when is its own affair.
            begins.eq(AnySeq(1) & ~flows & ~drains),
            sends.eq(AnySeq(1) & flows & ~drains),
            tokens.drain.eq(AnySeq(1) & flows & ~drains & ~sends),
            ends.eq(AnySeq(1) & drains & tokens.drained),
            tokens.forget.eq(ends),
        ]
        m.d.sync += [
            flows.eq(Mux(ends, 0, flows | begins)),
            drains.eq(Mux(ends, 0, drains | tokens.drain)),
            layer.eq(layer + ends),
        ]
        # What comes: rows wait for their pass, tokens for nothing; either goes on unless it ends here.
        head, out = before.o.payload, after.i.payload
        here, receives = head.destination == n, flows & ~tokens.drained
        decided, forwards, moves = (Signal(name=f"{name}_{n}") for name in ("decided", "forwards", "moves"))
        m.d.comb += [
            decided.eq(before.o.valid & (~head.row | receives)),
            forwards.eq(decided & ~here),
            moves.eq(decided & (here | after.i.ready)),
            before.o.ready.eq(moves),
            Assert(~(moves & head.row) | (head.layer == layer) | self.upsets),
        ]
        heard = data.View(struct(PACKET_HEADER), tokens.i.payload.data)
        m.d.comb += [
            tokens.i.valid.eq(moves & ~head.row),
            heard.kind.eq(PacketKind.CONTROL),
            heard.source.eq(head.source),
            heard.vid.eq(head.vid),
        ]
        # Own packets enter behind what passes, tokens in their order among them; anything may wait.
        said = data.View(struct(PACKET_HEADER), tokens.o.payload.data)
        to, enters = Signal(2, name=f"to_{n}"), Signal(name=f"enters_{n}")
        m.d.comb += [
            to.eq(AnySeq(2)),
            Assume(~sends | ((to != n) & (to < self.chiplets))),
            Assume(~sends | (after.i.ready & ~forwards & ~tokens.o.valid)),
            enters.eq(tokens.o.valid & ~forwards & AnySeq(1)),
            tokens.o.ready.eq(enters & after.i.ready),
            after.i.valid.eq(forwards | sends | enters),
        ]
        with m.If(forwards):
            m.d.comb += out.eq(head)
        with m.Elif(sends):
            m.d.comb += [out.row.eq(1), out.layer.eq(layer), out.source.eq(n), out.destination.eq(to)]
        with m.Else():
            m.d.comb += [out.source.eq(n), out.destination.eq(last), out.vid.eq(said.vid)]
        m.d.comb += [
            Cover(moves & head.row & (layer == 1)),
            # The row of a chiplet that is through waits for one that is not.
            Cover(before.o.valid & head.row & (head.layer != layer)),
        ]


PROOFS = [
    Proof("a_row_is_of_the_pass_under_way", partial(PassesSpec, 2), "bmc", 8),
    Proof("passes_follow_each_other", partial(PassesSpec, 2, upsets=True), "cover", 14, quick=False),
    Proof("a_row_is_of_the_pass_for_longer", partial(PassesSpec, 2), "bmc", 11, quick=False),
]
