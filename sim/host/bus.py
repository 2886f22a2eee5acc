"""The driver's way into a simulation, which costs Python nothing between accesses."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import First, RisingEdge, Timer

from sim.driver import DriverError
from sim.harness import CLOCK_NS
from sim.models.memory import Memory

__all__ = ["SimulatedBus"]

#: Signals of the host, by channel.
_DRIVEN = {
    "aw": ("valid", "addr", "prot"), "w": ("valid", "data", "strb"), "b": ("ready",),
    "ar": ("valid", "addr", "prot"), "r": ("ready",),
}  # fmt: skip
#: Answer of a subordinate that has done what it was asked.
_OKAY = 0


class SimulatedBus:
    """Registers behind the AXI4-Lite port of a simulated machine, and its memory; a `sim.driver.Bus`.

    Parameters
    ----------
    dut
        The top.
    memory
        What the machine's memory port sees; its clock is the machine's.
    prefix
        Of the machine's ports.
    """

    def __init__(self, dut: Any, memory: Memory, prefix: str = "") -> None:
        self.memory = memory
        self._dut, self._prefix, self._edge = dut, prefix, RisingEdge(memory.clock)
        for name in (
            "awvalid",
            "awaddr",
            "awprot",
            "wvalid",
            "wdata",
            "wstrb",
            "bready",
            "arvalid",
            "araddr",
            "arprot",
        ):
            self._port(name).value = 0
        self._port("rready").value = 0

    def _port(self, name: str) -> Any:
        return getattr(self._dut, f"{self._prefix}s_axil_{name}")

    async def _hand_over(self, *channels: str) -> None:
        """Hold the requests of channels until each is taken."""
        waiting = set(channels)
        for channel in channels:
            self._port(f"{channel}valid").value = 1
        while waiting:
            await self._edge
            for channel in [one for one in waiting if self._port(f"{one}ready").value]:
                self._port(f"{channel}valid").value = 0
                waiting.remove(channel)

    async def _answer(self, channel: str) -> int:
        """Take an answer; return its code."""
        self._port(f"{channel}ready").value = 1
        await self._edge
        while not self._port(f"{channel}valid").value:
            await self._edge
        self._port(f"{channel}ready").value = 0
        return int(self._port(f"{channel}resp").value)

    async def read(self, address: int) -> int:
        """Read a register."""
        self._port("araddr").value = address
        await self._hand_over("ar")
        answer = await self._answer("r")
        if answer != _OKAY:
            raise DriverError(f"read of {address:#x}: answer {answer}")
        return int(self._port("rdata").value)

    async def write(self, address: int, value: int) -> None:
        """Write a register."""
        self._port("awaddr").value = address
        self._port("wdata").value = value
        self._port("wstrb").value = 0xF
        await self._hand_over("aw", "w")
        answer = await self._answer("b")
        if answer != _OKAY:
            raise DriverError(f"write of {value:#x} to {address:#x}: answer {answer}")

    async def load(self, address: int, contents: bytes) -> None:
        """Write memory; what lies below keeps its contents."""
        await self.memory.load(await self.memory.dump(0, address) + contents if address else contents)

    async def dump(self, address: int, size: int) -> bytes:
        """Read memory."""
        return await self.memory.dump(address, size)

    async def wait(self) -> None:
        """Wait for the interrupt, or a while."""
        limit = Timer(1000 * CLOCK_NS, "ns")
        if await First(RisingEdge(getattr(self._dut, f"{self._prefix}irq")), limit) is limit:
            # It ends just before an edge, at which the design would not see what is driven next.
            await self._edge
