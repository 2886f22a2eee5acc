"""The AXI4 rule checker: traffic that keeps the rules passes, each broken rule ends the simulation."""

from collections.abc import Iterator
from typing import Any

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from sim.harness import CLOCK_NS, parameters, simulate
from sim.models.wrap import SOURCES

#: A cycle: values of signals that are not 0.
Cycle = dict[str, int]
#: A legal burst's address channel.
ADDRESS = {"addr": 0x1000, "len": 1, "size": 5, "burst": 1, "valid": 1, "ready": 1}


def channel(prefix: str, **values: int) -> Cycle:
    """Return a cycle on AR or AW: a legal burst of two beats, but for `values`."""
    return {f"{prefix}{name}": value for name, value in (ADDRESS | values).items()}


def write_beat(last: int, **values: int) -> Cycle:
    """Return a cycle on W."""
    return {"wvalid": 1, "wready": 1, "wlast": last, "wdata": 5, "wstrb": 1, **values}


def read_beat(last: int, **values: int) -> Cycle:
    """Return a cycle on R."""
    return {"rvalid": 1, "rready": 1, "rlast": last, **values}


ANSWER = {"bvalid": 1, "bready": 1}
IDLE: Cycle = {}
LEGAL: list[Cycle] = [
    IDLE,
    channel("ar", ready=0),
    channel("ar"),
    channel("ar", addr=0xFC0, id=1, len=1),
    read_beat(0, rready=0),
    read_beat(0),
    read_beat(0, rid=1),
    read_beat(1),
    read_beat(1, rid=1),
    write_beat(0),
    write_beat(1),
    channel("aw"),
    channel("aw", addr=0x80, len=15) | write_beat(0),
    *[write_beat(0)] * 14,
    write_beat(1) | ANSWER,
    IDLE,
    ANSWER,
    IDLE,
]
#: Each breaks one rule; what the checker says about it.
ILLEGAL: dict[str, tuple[list[Cycle], str]] = {
    "valid dropped": ([channel("ar", ready=0), IDLE], "AR: valid was dropped before ready"),
    "payload changed": ([channel("aw", ready=0), channel("aw", len=2)], "AW: payload changed before it was taken"),
    "data changed": ([write_beat(0, wready=0), write_beat(0, wdata=6)], "W: payload changed before it was taken"),
    "read data changed": (
        [channel("ar"), read_beat(0, rready=0), read_beat(0, rdata=1)],
        "R: payload changed before it was taken",
    ),
    "answer changed": (
        [channel("aw"), write_beat(0), write_beat(1), IDLE, ANSWER | {"bready": 0}, ANSWER | {"bresp": 2}],
        "B: payload changed before it was taken",
    ),
    "not INCR": ([channel("ar", burst=2)], "AR: burst is not INCR but 2"),
    "narrow": ([channel("aw", size=2)], "AW: size 2 is not the width of the bus"),
    "too long": ([channel("ar", len=16)], "AR: 17 beats"),
    "not aligned": ([channel("ar", addr=0x1004)], "AR: address 1004 is not aligned"),
    "over 4 KiB": ([channel("ar", addr=0xFE0)], "AR: 64 bytes from fe0 cross 4 KiB"),
    "last too early": ([channel("ar"), read_beat(1)], "R: last is 1 in beat 0 of a burst of 2"),
    "last too late": ([channel("ar"), read_beat(0), read_beat(0)], "R: last is 0 in beat 1 of a burst of 2"),
    "nothing was read": ([channel("ar"), read_beat(0, rid=1)], "R: nothing was read with ID 1"),
    "too few beats": ([channel("aw"), write_beat(1), IDLE], "W: 1 beats, AW announced 2"),
    "too many beats": (
        [write_beat(0), write_beat(0), write_beat(1), channel("aw"), IDLE],
        "W: 3 beats, AW announced 2",
    ),
    "nothing was written": ([channel("aw"), write_beat(0), ANSWER], "B: nothing was written with ID 0"),
}


def cycles() -> Iterator[Cycle]:
    """Yield, inside the simulator, what to drive."""
    yield from LEGAL
    case = parameters().get("case")
    if case:
        yield from ILLEGAL[case][0]
        yield IDLE


@cocotb.test()
async def drive(dut: Any) -> None:
    signals = {name.removeprefix("s_axi_"): getattr(dut, name) for name in dir(dut) if name.startswith("s_axi_")}
    edge = RisingEdge(dut.clk)
    dut.rst.value = 1
    for signal in signals.values():
        signal.value = 0
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    for _ in range(3):
        await edge
    dut.rst.value = 0
    for cycle in cycles():
        for name, signal in signals.items():
            signal.value = cycle.get(name, 0)
        await edge
    await edge


def run(**given: str) -> None:
    """Run `drive` on the checker alone."""
    simulate(
        None, __name__, name="axi_checker", toplevel="axi_checker", sources=SOURCES[1:], ports=(), parameters=given
    )


def test_legal_traffic_passes() -> None:
    run()


@pytest.mark.parametrize("case", ILLEGAL)
def test_broken_rule_is_noticed(case: str) -> None:
    with pytest.raises(AssertionError) as failure:
        run(case=case)
    assert ILLEGAL[case][1] in str(failure.value)
