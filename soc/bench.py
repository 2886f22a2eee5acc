"""The half of `soc.simulation` inside the simulator: starts the clock, waits for the firmware's last byte."""

from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer

from sim.harness import CLOCK_NS, parameters


@cocotb.test()
async def the_firmware_ends(dut: Any) -> None:
    """Run until the firmware has sent its last byte, and keep its status and the cycles until then."""
    given = parameters()
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    limit = Timer(int(given["limit"]) * CLOCK_NS, "ns")
    first = await First(RisingEdge(dut.finished), limit)
    status = "-" if first is limit else str(int(dut.status.value))
    (Path(given["directory"]) / "status").write_text(f"{status} {int(dut.cycles.value)}\n")
