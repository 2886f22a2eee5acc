"""The memory model behind several ports of one design."""

from pathlib import Path
from typing import Any

import cocotb
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.fetcher import Fetcher
from hw.memory.formats import ReadBeat, ReadRequest, WriteRequest
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.write_port import WritePort
from sim.harness.bench import start
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory


class TwoPorts(wiring.Component):
    """What is written by one memory port is read by the other.

    Attributes
    ----------
    write_i, fetch_i, fetch_o
        Streams of a write port at ``m_axi`` and a fetcher at ``m_axi_1``.
    """

    def __init__(self) -> None:
        port = 32, 64
        super().__init__(
            {
                "write_i": In(stream.Signature(WriteRequest(*port))),
                "busy": Out(1),
                "fetch_i": In(stream.Signature(ReadRequest(*port))),
                "fetch_o": Out(stream.Signature(ReadBeat(64))),
                **flat_members("m_axi", Out(AXI4Signature(*port, 1))),
                **flat_members("m_axi_1", Out(AXI4Signature(*port, 1))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Leave one client of the read arbiter alone."""
        m = Module()
        m.submodules.writer = writer = WritePort(32, 64, id_width=1)
        m.submodules.arbiter = arbiter = ReadArbiter(32, 64, clients=2, outstanding=16)
        m.submodules.fetcher = fetcher = Fetcher(32, 64, depth=16)
        wiring.connect(m, fetcher.request, arbiter.requests[0])
        wiring.connect(m, arbiter.beats[0], fetcher.beat)
        connect_flat(m, self, "m_axi", writer.m_axi)
        connect_flat(m, self, "m_axi_1", arbiter.m_axi)
        wiring.connect(m, wiring.flipped(self.write_i), writer.i)
        wiring.connect(m, wiring.flipped(self.fetch_i), fetcher.i)
        wiring.connect(m, fetcher.o, wiring.flipped(self.fetch_o))
        m.d.comb += self.busy.eq(writer.busy)
        return m


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def ports_share_a_memory(dut: Any, stall: float) -> None:
    """Write by one port while the other reads, then read all that was written; the counters are of both."""
    memory = Memory(dut, 8)
    memory.latency(5)
    memory.stall(stall)
    bench = await start(dut, TwoPorts())
    words = [bench.random.getrandbits(64) for _ in range(64)]
    beats: list[int] = []
    bench.take("fetch_o", lambda beat: beats.append(beat["data"]))
    bench.drive("write_i", [{"address": n, "data": word, "strobe": 0xFF} for n, word in enumerate(words)])
    bench.drive("fetch_i", [{"address": 64 + 16 * n, "length": 15} for n in range(4)])
    await bench.until(lambda: len(beats) == 64)
    await bench.drain()
    while int(dut.busy.value):
        await bench.cycles(1)
    beats.clear()
    bench.drive("fetch_i", [{"address": 16 * n, "length": 15} for n in range(4)])
    await bench.until(lambda: len(beats) == 64)
    assert beats == words
    await bench.cycles(2)
    counted = memory.counters()
    assert (counted["beats_written"], counted["beats_read"]) == (64, 128)


def test_numbered_ports_reach_the_same_memory(tmp_path: Path) -> None:
    simulate_with_memory(TwoPorts(), __name__, tmp_path, name="two_ports")
