# mypy: disable-error-code="valid-type,attr-defined,index"
"""Modules stepped in threads: the same clocks as in one design, seeds of their own, and no path through a module."""

from typing import Any

import cocotb
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.black_box import BlackBox
from hw.stream.slice import Slice
from sim.harness import BuildOptions, parameters, simulate
from sim.harness.bench import start
from sim.harness.stepped import stepped_module

STATIONS, WORDS = 5, 200


class Chain(wiring.Component):
    """A line of slices, each an instance of one module, or each a part of the design."""

    i: In(stream.Signature(16))
    o: Out(stream.Signature(16))

    def __init__(self, *, apart: bool) -> None:
        self.apart = apart
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        """Connect the stations."""
        m = Module()
        before = wiring.flipped(self.i)
        for number in range(STATIONS):
            one = Slice(16)
            m.submodules[f"station_{number}"] = BlackBox(one, "station") if self.apart else one
            wiring.connect(m, before, one.i)
            before = one.o
        wiring.connect(m, before, wiring.flipped(self.o))
        return m


class Wire(wiring.Component):
    """A register beside a path from input to output: not a module that can be stepped."""

    i: In(stream.Signature(16))
    o: Out(stream.Signature(16))

    def elaborate(self, platform: Any) -> Module:
        """Lead the input to the output."""
        m = Module()
        m.d.comb += [self.o.payload.eq(self.i.payload), self.i.ready.eq(self.o.ready)]
        held = Signal()
        m.d.sync += held.eq(self.i.valid & ~self.o.ready)
        m.d.comb += self.o.valid.eq(self.i.valid | held)
        return m


@cocotb.test()
async def words_take_the_clocks_they_take(dut: Any) -> None:
    bench = await start(dut, Chain(apart=False))
    for idle, stall in ((0.0, 0.0), (0.3, 0.5)):
        await bench.reset()
        bench.pace(idle=idle, stall={"o": stall})
        words = [bench.random.getrandbits(16) for _ in range(WORDS)]
        bench.drive("i", words)
        bench.expect("o", words)
        clocks = await bench.drain(20 * WORDS)
        if not stall:
            assert clocks == parameters()["clocks"]


#: A slice holds a word for a clock; words follow each other at once.
CLOCKS = WORDS + STATIONS


def run(made: Any, *, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATOLL_THREADS", threads)
    simulate(
        Chain(apart=True), __name__, name="chain", sources=[made.wrapper], parameters={"clocks": CLOCKS},
        options=BuildOptions(arguments=("-LDFLAGS", str(made.library))),
    )  # fmt: skip


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_instances_behave_as_parts_of_a_design(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if threads == "1":
        simulate(Chain(apart=False), __name__, name="chain", parameters={"clocks": CLOCKS})
    run(stepped_module(Slice(16), "station"), threads=threads, monkeypatch=monkeypatch)


def test_a_path_through_a_module_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="an output depends on an input within a clock"):
        run(stepped_module(Wire(), "station"), threads="2", monkeypatch=monkeypatch)
