# mypy: disable-error-code="attr-defined,index"
"""A core on the bench: loading it, running it against the host's ends of its ports, reading everything back."""

from collections.abc import Mapping, Sequence
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import GENERAL, PORTS, Control
from golden.dnp.array import ArrayModel, EdgePort
from hw.dnp.core import Space, Status
from sim.harness.run import CLOCK_NS

__all__ = ["READ_CLOCKS", "CoreDriver", "expected", "words16"]

_WORD = 0xFFFF


def words16(values: Sequence[int]) -> list[int]:
    """Words as the buses carry them, unsigned."""
    return [int(value) & _WORD for value in values]


#: Clocks in which a word is read.
READ_CLOCKS = 3


class CoreDriver:
    """Drives the ports of one core; every method returns right after a clock edge."""

    def __init__(self, dut: Any, config: ProcessorConfig) -> None:
        self.dut, self.config = dut, config
        self.edge = RisingEdge(dut.clk)

    async def reset(self) -> None:
        """Start the clock and reset, off-line, no neighbour willing."""
        Clock(self.dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
        await self.reset_again()

    async def reset_again(self) -> None:
        """Reset, whatever the core is doing."""
        dut = self.dut
        dut.rst.value = 1
        # As the control block does.
        dut.start.value = 1
        for name in ("online", "access__write", "access__space", "access__address", "access__write_data"):
            getattr(dut, name).value = 0
        for port in range(len(PORTS)):
            getattr(dut, f"i__{port}__valid").value = 0
            getattr(dut, f"i__{port}__payload").value = 0
            getattr(dut, f"o__{port}__ready").value = 0
        await self.edge
        await self.edge
        dut.rst.value = 0
        dut.start.value = 0

    async def write(self, space: Any, address: int, words: Sequence[int]) -> None:
        """Write consecutive words of a memory."""
        dut = self.dut
        dut.access__write.value = 1
        dut.access__space.value = space.value
        for offset, word in enumerate(words):
            dut.access__address.value = address + offset
            dut.access__write_data.value = int(word) & _WORD
            await self.edge
        dut.access__write.value = 0

    async def read(self, space: Any, address: int, count: int) -> list[int]:
        """Read consecutive words, unsigned."""
        dut = self.dut
        dut.access__space.value = space.value
        words = []
        for offset in range(count):
            dut.access__address.value = address + offset
            await ClockCycles(dut.clk, READ_CLOCKS)
            words.append(int(dut.access__read_data.value))
        return words

    async def run(self, ends: Mapping[int, EdgePort], limit: int) -> int:
        """Start the program and serve its ports until it halts; returns the clocks on-line."""
        dut = self.dut
        for port in range(len(PORTS)):
            assert not getattr(dut, f"i__{port}__ready").value, f"port {port} takes words off-line"
        dut.start.value = 1
        await self.edge
        dut.start.value = 0
        dut.online.value = 1
        inputs = [(getattr(dut, f"i__{p}__valid"), getattr(dut, f"i__{p}__payload"), ends[p]) for p in ends]
        readies = [getattr(dut, f"i__{p}__ready") for p in ends]
        outputs = [(getattr(dut, f"o__{p}__valid"), getattr(dut, f"o__{p}__payload"), ends[p]) for p in ends]
        accepts = [getattr(dut, f"o__{p}__ready") for p in ends]
        for clock in range(limit):
            offered = []
            for valid, payload, end in inputs:
                word = end.offer(clock)
                offered.append(word is not None)
                valid.value = word is not None
                if word is not None:
                    payload.value = word
            willing = []
            for accept, (_, _, end) in zip(accepts, outputs, strict=True):
                willing.append(bool(end.accepts[clock % len(end.accepts)]))
                accept.value = willing[-1]
            await self.edge
            for ready, offer, (_, _, end) in zip(readies, offered, inputs, strict=True):
                if offer and ready.value:
                    end.take()
            for wanted, (valid, payload, end) in zip(willing, outputs, strict=True):
                if wanted and valid.value:
                    end.received.append(payload.value.to_signed())
            if dut.halted.value:
                return clock
        raise AssertionError(f"the program did not halt within {limit} clocks")

    async def stop(self) -> None:
        """Go off-line; words on offer stay there until the next reset."""
        self.dut.online.value = 0
        for port in range(len(PORTS)):
            getattr(self.dut, f"o__{port}__ready").value = 0
        await self.edge

    async def state(self) -> dict[str, list[int]]:
        """Read everything the G-bus can see back."""
        result = {
            "wm": await self.read(Space.WM, 0, self.config.wm_depth),
            "xm": await self.read(Space.XM, 0, self.config.xm_depth),
            "general": await self.read(Space.STATUS, Status.GENERAL.value, GENERAL),
            "control": await self.read(Space.STATUS, Status.CONTROL.value, len(Control)),
        }
        head = await self.read(Space.STATUS, 0, Status.BLOCKED.value + 2)
        result["state"] = [head[Status.STATE.value] >> 1, head[Status.PC.value], head[Status.A.value]]
        for status in (Status.CLOCKS, Status.INSTRUCTIONS, Status.BLOCKED):
            result[status.name.lower()] = [head[status.value] + (head[status.value + 1] << 16)]
        return result


def expected(machine: ArrayModel, processor: int = 0) -> dict[str, list[int]]:
    """Return what :meth:`CoreDriver.state` must give, from the golden machine."""
    s = machine.state
    return {
        "wm": words16(s.wm[processor]),
        "xm": words16(s.xm[processor]),
        "general": words16(s.rf[processor]),
        "control": words16(s.control[processor]),
        "state": [
            int(s.halted[processor]) | int(s.code[processor]) << 7,
            int(s.stop_pc[processor]),
            int(s.a[processor]) & _WORD,
        ],
        "clocks": [int(s.clocks[processor])],
        "instructions": [int(s.instructions[processor])],
        "blocked": [int(s.blocked[processor])],
    }
