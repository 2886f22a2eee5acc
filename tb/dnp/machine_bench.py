# mypy: disable-error-code="attr-defined,index"
"""What benches of an array behind AXI share: its streams as the harness drives them, and a host with a driver."""

from collections.abc import Sequence
from itertools import cycle
from random import Random
from typing import Any

from amaranth.hdl import Module, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import Event, First, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from contracts.dnp.board import BEAT
from hw.dnp.machine import ArrayConfig, NeuralMachine
from sim.dnp.machine_driver import MachineDriver
from sim.driver import DriverError
from sim.harness.bench import Bench, start
from sim.harness.run import CLOCK_NS

__all__ = ["Host", "StreamedMachine"]

#: Clocks that a host waits for a packet before it looks at the registers.
PAUSE = 2000
_LAST = 1 << BEAT.bits


class StreamedMachine(wiring.Component):
    """The machine with its AXI4-Streams as streams of beat and TLAST, so that their rules are checked.

    Parameters
    ----------
    config : ArrayConfig

    Attributes
    ----------
    s, m : streams of unsigned(33)
        TLAST in the highest bit.
    """

    def __init__(self, config: ArrayConfig) -> None:
        self.machine = NeuralMachine(config)
        members = self.machine.signature.members
        self._passed = [name for name in members if "_axis_" not in name]
        word = stream.Signature(unsigned(BEAT.bits + 1))
        super().__init__({"s": In(word), "m": Out(word), **{name: members[name] for name in self._passed}})

    def elaborate(self, platform: Any) -> Module:
        """Connect."""
        m = Module()
        m.submodules.machine = machine = self.machine
        m.d.comb += [
            machine.s_axis_tvalid.eq(self.s.valid),
            machine.s_axis_tdata.eq(self.s.payload[:-1]),
            machine.s_axis_tlast.eq(self.s.payload[-1]),
            self.s.ready.eq(machine.s_axis_tready),
            self.m.valid.eq(machine.m_axis_tvalid),
            self.m.payload[:-1].eq(machine.m_axis_tdata),
            self.m.payload[-1].eq(machine.m_axis_tlast),
            machine.m_axis_tready.eq(self.m.ready),
        ]
        for name in self._passed:
            outer, inner = getattr(self, name), getattr(machine, name)
            m.d.comb += outer.eq(inner) if self.signature.members[name].flow == Out else inner.eq(outer)
        return m


class Host:
    """A host with both streams and the registers; everything it does is stalled at random.

    Attributes
    ----------
    bench
        Clock, reset and streams.
    driver
        Of the machine.
    packets
        Packets that have come and were not received.
    beats
        Beats of a packet that has not ended.
    """

    def __init__(self, bench: Bench, stall: float) -> None:
        self.bench = bench
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(bench.dut, "s_axil"), bench.dut.clk, bench.dut.rst)
        if stall:
            write, read = self.lite.write_if, self.lite.read_if
            for channel in (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel):
                random = Random(bench.random.getrandbits(32))
                channel.set_pause_generator(random.random() < stall for _ in cycle([0]))
        bench.pace(idle=stall, stall=stall)
        self.packets: list[list[int]] = []
        self.beats: list[int] = []
        self._came = Event()
        bench.take("m", self._take)
        self.driver = MachineDriver(self, self, patience=20)

    @classmethod
    async def make(cls, dut: Any, stall: float = 0.3) -> "Host":
        """Start the clock and reset."""
        return cls(await start(dut, shapes={"s": unsigned(33), "m": unsigned(33)}), stall)

    async def reset(self) -> None:
        """Reset the machine, whatever it is doing, and begin anew."""
        await self.bench.reset()
        self.packets.clear()
        self.beats.clear()
        self.driver = MachineDriver(self, self, patience=20)

    def _take(self, word: int) -> None:
        self.beats.append(word % _LAST)
        if word >= _LAST:
            self.packets.append(self.beats)
            self.beats = []
            self._came.set()

    async def read(self, address: int) -> int:
        """Read a register."""
        answer = await self.lite.read(address, 4)
        if answer.resp != AxiResp.OKAY:
            raise DriverError(f"read of {address:#x}: {answer.resp.name}")
        return int.from_bytes(answer.data, "little")

    async def write(self, address: int, value: int) -> None:
        """Write a register."""
        answer = await self.lite.write(address, value.to_bytes(4, "little"))
        if answer.resp != AxiResp.OKAY:
            raise DriverError(f"write of {value:#x} to {address:#x}: {answer.resp.name}")

    async def wait(self) -> None:
        """Wait a while."""
        await self.bench.cycles(500)

    async def send(self, packet: Sequence[int], *, last: bool = True) -> None:
        """Queue the beats of a packet."""
        words = [*packet[:-1], packet[-1] | (_LAST if last else 0)]
        self.bench.drive("s", words)

    async def receive(self) -> list[int]:
        """Return the oldest packet."""
        if not self.packets:
            self._came.clear()
            await First(self._came.wait(), Timer(PAUSE * CLOCK_NS, unit="ns"))
            # It may have ended between two edges.
            await self.bench.edge
        return self.packets.pop(0) if self.packets else []

    async def packet(self) -> list[int]:
        """Wait for the next packet."""
        while not (packet := await self.receive()):
            pass
        return packet

    async def sent(self) -> None:
        """Wait until the machine has taken all beats that were queued."""
        await self.bench.until(lambda: not self.bench.drivers["s"].busy_words, 200_000)
