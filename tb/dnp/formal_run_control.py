# mypy: disable-error-code="attr-defined"
"""Proof that a run switches programs on once and off once, whatever array and host do, and ends behind its results."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.dnp.run_control import RunControl
from sim.harness.formal import Proof, assert_stream


class RunControlSpec(Elaboratable):
    """Any host; an array that goes on-line and off-line some time after it is told."""

    def elaborate(self, platform: Any) -> Module:
        """Drive everything freely and keep account of what has been said."""
        m = Module()
        m.submodules.dut = dut = RunControl()
        inputs = (dut.start, dut.stop, dut.settled, dut.online, dut.halted, dut.results)
        m.d.comb += [port.eq(AnySeq(1)) for port in (*inputs, dut.command.ready, dut.end.ready)]
        assert_stream(m, dut.command, "command")
        assert_stream(m, dut.end, "end")
        commanded, ended = dut.command.valid & dut.command.ready, dut.end.valid & dut.end.ready
        #: A run is under way; programs are switched on; they have been switched off in this run; a stop was asked for.
        run, on, over, stopped = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            # Registers refuse another start; an array is on-line only between ON and a while after OFF.
            Assume(~(dut.start & dut.busy)),
            Assume(~dut.online | on | over),
        ]
        with m.If(dut.start):
            m.d.sync += [run.eq(1), over.eq(0), stopped.eq(0)]
        with m.If(commanded):
            m.d.sync += [on.eq(dut.command.payload), over.eq(~dut.command.payload)]
        with m.If(dut.stop & run):
            m.d.sync += stopped.eq(1)
        with m.If(dut.done):
            m.d.sync += [run.eq(0), over.eq(0)]
        was_off = Signal()
        m.d.sync += was_off.eq(~dut.online & ~dut.results)
        first = Signal(init=1)
        m.d.sync += first.eq(~dut.end.valid)
        m.d.comb += [
            Assert(dut.busy == run),
            Assert(dut.done == ended),
            # ON comes once, OFF behind it, and memories are closed from the first to the end.
            Assert(~dut.command.valid | (run & (dut.command.payload != on) & ~over)),
            Assert(~(on | over) | dut.closed),
            Assert(~dut.closed | run),
            # The end comes with the programs off and no result left, or before they were on.
            Assert(~dut.end.valid | (run & ~on)),
            Assert(~(dut.end.valid & first & over) | was_off),
            Assert(~(dut.end.valid & ~over) | stopped),
            Assert(~dut.end.payload | ~dut.end.valid | stopped),
            Assert(dut.running == (dut.online & ~dut.halted)),
            Cover(ended & dut.end.payload & over),
            Cover(ended & dut.end.payload & ~over),
            Cover(ended & ~dut.end.payload),
        ]
        return m


PROOFS = [
    Proof("a_run_is_on_once_and_off_once", RunControlSpec, "bmc", 24),
    Proof("reaches_its_states", RunControlSpec, "cover", 16),
]
