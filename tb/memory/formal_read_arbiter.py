"""Proofs of the read arbiter: R is never held up, each beat goes to its client, and failures carry their line."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Elaboratable, Module, Mux, Signal

from hw.memory.read_arbiter import ReadArbiter
from sim.harness.formal import Proof, assume_stream

CLIENTS = 2
OUTSTANDING = 2
#: Widest of the burst numbers that are followed.
NUMBER = 2


class ReadArbiterSpec(Elaboratable):
    """R is always taken and each beat is its client's in the next cycle; no client has more bursts than allowed.

    Parameters
    ----------
    follow
        Whether to follow one burst too, symbolic in its client and its number among that client's bursts, from request
        to answer; this proof is bounded, the others are not.
    silent
        Clients whose failures are not reported.
    """

    def __init__(self, follow: bool, silent: tuple[int, ...] = ()) -> None:
        self.follow, self.silent = follow, silent

    def elaborate(self, platform: Any) -> Module:
        """Drive clients and memory freely, within the rules of AXI4."""
        m = Module()
        m.submodules.dut = dut = ReadArbiter(13, 64, CLIENTS, OUTSTANDING, self.silent)
        axi = dut.m_axi
        for i, request in enumerate(dut.requests):
            m.d.comb += [request.valid.eq(AnySeq(1)), request.payload.eq(AnySeq(request.payload.shape().size))]
            assume_stream(m, request, f"request{i}")
        m.d.comb += [
            axi.arready.eq(AnySeq(1)),
            axi.rvalid.eq(AnySeq(1)),
            axi.rid.eq(AnySeq(len(axi.rid))),
            axi.rdata.eq(AnySeq(64)),
            axi.rresp.eq(AnySeq(2)),
            axi.rlast.eq(AnySeq(1)),
            Assert(axi.rready),
        ]
        asks, answers = Signal(), Signal()
        m.d.comb += [asks.eq(axi.arvalid & axi.arready), answers.eq(axi.rvalid & axi.rlast)]
        under_way = [Signal(range(OUTSTANDING + 1), name=f"under_way{i}") for i in range(CLIENTS)]
        m.d.comb += Assume(axi.rid < CLIENTS)
        for i, count in enumerate(under_way):
            m.d.comb += [
                Assume(~axi.rvalid | (axi.rid != i) | (count != 0)),
                # A client's bursts are never more than the table of addresses holds.
                Assert(~axi.arvalid | (axi.arid != i) | (count != OUTSTANDING)),
            ]
            m.d.comb += Assert(count <= OUTSTANDING)
            m.d.comb += Assert(count == (dut.tails[i] - dut.heads[i])[: len(dut.tails[i])])
            m.d.comb += Assert(dut.full[i] == (count == OUTSTANDING))
            m.d.sync += count.eq(count + (asks & (axi.arid == i)) - (answers & (axi.rid == i)))
        waiting, offered = Signal(), Signal.like(axi.araddr)
        m.d.sync += [waiting.eq(axi.arvalid & ~axi.arready), offered.eq(axi.araddr)]
        m.d.comb += Assert(~waiting | (axi.arvalid & (axi.araddr == offered)))
        self._beats(m, dut)
        if self.follow:
            self._burst(m, dut)
        else:
            m.d.comb += Cover(under_way[1] == OUTSTANDING)
        return m

    def _beats(self, m: Module, dut: ReadArbiter) -> None:
        """Demand that every beat of R is its client's beat in the next cycle."""
        axi = dut.m_axi
        was = {
            name: Signal.like(getattr(axi, name), name=f"was_{name}") for name in ("rvalid", "rid", "rdata", "rlast")
        }
        failed = Signal()
        m.d.sync += [signal.eq(getattr(axi, name)) for name, signal in was.items()]
        m.d.sync += failed.eq(axi.rresp[1])
        for i, port in enumerate(dut.beats):
            m.d.comb += Assert(port.valid == (was["rvalid"] & (was["rid"] == i)))
            with m.If(port.valid):
                m.d.comb += [
                    Assert(port.payload.data == was["rdata"]),
                    Assert(port.payload.last == was["rlast"]),
                    Assert(port.payload.error == failed),
                ]
        reported = Signal()
        told = Cat(was["rid"] == client for client in self.silent).any()
        m.d.sync += reported.eq(was["rvalid"] & failed & ~told)
        m.d.comb += Assert(dut.failure.valid == reported)

    def _burst(self, m: Module, dut: ReadArbiter) -> None:
        """Follow the symbolic burst."""
        axi = dut.m_axi
        client, number = AnyConst(range(CLIENTS)), AnyConst(range(NUMBER))
        m.d.comb += [Assume(client < CLIENTS), Assume(number < NUMBER)]
        ports = Array(dut.requests)
        request = Signal(dut.requests[0].payload.shape())
        accepted = Signal(range(64))
        with m.If(ports[client].valid & ports[client].ready):
            m.d.sync += accepted.eq(accepted + 1)
            with m.If(accepted == number):
                m.d.sync += request.eq(ports[client].payload)
        asked = Signal(range(64))
        with m.If(axi.arvalid & axi.arready & (axi.arid == client)):
            m.d.sync += asked.eq(asked + 1)
            with m.If(asked == number):
                m.d.comb += [
                    Assert(accepted > number),
                    Assert(axi.araddr == request.address << 3),
                    Assert(axi.arlen == request.length),
                ]
        answered, index = Signal(range(64)), Signal(4)
        # The failure is reported two cycles after its beat.
        fails, reported = Signal(), Signal()
        line, reported_line = Signal.like(dut.failure.payload), Signal.like(dut.failure.payload)
        m.d.sync += [fails.eq(0), reported.eq(fails), reported_line.eq(line)]
        with m.If(axi.rvalid & (axi.rid == client)):
            m.d.sync += [answered.eq(answered + axi.rlast), index.eq(Mux(axi.rlast, 0, index + 1))]
            with m.If(answered == number):
                m.d.comb += Assume(axi.rlast == (index == request.length))
                m.d.sync += [fails.eq(axi.rresp[1]), line.eq((request.address + index) >> 3)]
            with m.Else():
                m.d.comb += Assume(axi.rlast | (index != 15))
        with m.If(reported):
            m.d.comb += [
                Assert(dut.failure.valid & (dut.failure.payload == reported_line)),
                Cover((number == NUMBER - 1) & (index == 2)),
            ]
        m.d.comb += Cover((asked == number + 1) & (number == NUMBER - 1) & (client == CLIENTS - 1))


PROOFS = [
    Proof("each_beat_goes_to_its_client", lambda: ReadArbiterSpec(follow=False), "prove", 3),
    Proof("silent_clients_fail_silently", lambda: ReadArbiterSpec(follow=False, silent=(1,)), "prove", 3),
    Proof("reaches_the_limit", lambda: ReadArbiterSpec(follow=False), "cover", 8),
    Proof("failures_carry_their_line", lambda: ReadArbiterSpec(follow=True), "bmc", 10),
    Proof("follows_a_burst_to_its_failure", lambda: ReadArbiterSpec(follow=True), "cover", 12, quick=False),
]
