# mypy: disable-error-code="attr-defined,index"
"""Bench behind `atoll dnp run --rtl`: one program, everything compared with the golden machine."""

from typing import Any

import cocotb

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import PORTS
from golden.dnp.array import ArrayModel, EdgePort
from hw.dnp.core import Space
from sim.dnp.driver import CoreDriver, expected
from sim.harness import parameters

LIMIT = 1_000_000


def _signed(word: int) -> int:
    return word - 0x10000 if word > 0x7FFF else word


@cocotb.test()
async def the_program_does_the_same_in_rtl(dut: Any) -> None:
    """Load, run, read back, compare."""
    given = parameters()
    config = ProcessorConfig(*given["config"])
    wm, xm = ({int(a): v for a, v in given[name].items()} for name in ("wm", "xm"))
    driver = CoreDriver(dut, config)
    await driver.reset()
    machine = ArrayModel(config)
    machine.load(0, given["program"], wm, xm)
    machine.start()
    ends = {}
    for index, name in enumerate(PORTS):
        words = [_signed(word) for word in given["inputs"].get(name, [])]
        machine.edges[(index, 0)], ends[index] = EdgePort(list(words)), EdgePort(list(words))
    s = machine.state
    for space, memory in ((Space.PROGRAM, s.p), (Space.WM, s.wm), (Space.XM, s.xm)):
        await driver.write(space, 0, memory[0].tolist())
    clocks = machine.run(LIMIT)
    assert await driver.run(ends, LIMIT) == clocks
    await driver.stop()
    found, wanted = await driver.state(), expected(machine)
    for name, values in wanted.items():
        assert found[name] == values, f"{name}: {found[name]}, golden {values}"
    for index, end in ends.items():
        golden = machine.edges[(index, 0)].received
        assert end.received[: len(golden)] == golden, f"port {PORTS[index]}: {end.received}, golden {golden}"
