"""Proofs of the executor: given units that respond, every command is answered within a bounded time."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from contracts import COMMANDS, Error, Opcode
from hw.chiplet.executor import Executor, Route
from hw.pe.formats import PEConfig
from sim.harness.formal import Proof, assert_stream, assume_stream

#: As few bits as can be.
CONFIG = PEConfig(lanes=4, data_width=64, address_width=20, weight_rows=4, max_out=4)
ERROR_SOURCES = 2
#: Cycles for which a unit keeps the executor waiting, and results of a step, at most.
DELAY = 1
RESULTS = 1
#: Longest command: weights, biases, then an error.
BOUND = 30
#: Operands of 32 bits have these bits: small, or beyond all sizes. Numbers in between take the same paths.
OPERAND_BITS = 0x8000_0007


def _operand_bits(opcode: Opcode) -> int:
    """Return, as a mask of the command, the bits that operands of an opcode may have."""
    mask, start = 0, 0
    for field in COMMANDS[opcode].fields:
        mask |= (OPERAND_BITS if field.bits == 32 else (1 << field.bits) - 1) << start
        start += field.bits
    return mask


class ExecutorSpec(Elaboratable):
    """One command at a time; units that take, work and end within their time, and report what they like."""

    def elaborate(self, platform: Any) -> Module:
        """Model the units by what they still owe."""
        m = Module()
        m.submodules.dut = dut = Executor(CONFIG, ERROR_SOURCES)
        m.d.comb += [
            # How long a command takes does not depend on where it reads.
            dut.base.eq(0),
            dut.command.valid.eq(AnySeq(1)),
            dut.command.payload.eq(AnySeq(512)),
            dut.executed.ready.eq(AnySeq(1)),
        ]
        with m.Switch(dut.command.payload[:8]):
            for opcode in COMMANDS:
                with m.Case(opcode):
                    m.d.comb += Assume(dut.command.payload & ~_operand_bits(opcode) == 0)
        assume_stream(m, dut.command, "command")
        for name, port in (("executed", dut.executed), ("csr", dut.csr), ("scales", dut.scales)):
            assert_stream(m, port, name)
        for error in dut.errors:
            m.d.comb += [error.valid.eq(AnySeq(1)), error.payload.eq(AnySeq(40)), Assume(error.payload.code != 0)]

        def patient(signal: Any, wanted: Any, name: str) -> None:
            """Let `signal` be late for `wanted` by no more than `DELAY` cycles."""
            late = Signal(range(DELAY + 2), name=f"late_{name}")
            m.d.comb += Assume(late <= DELAY)
            m.d.sync += late.eq(Mux(wanted & ~signal, late + 1, 0))

        for name, port in (("csr_ready", dut.csr), ("scales_ready", dut.scales)):
            m.d.comb += port.ready.eq(AnySeq(1))
            patient(port.ready, port.valid, name)

        # What the step under way still owes: rows, or biases by the word.
        asked = dut.csr.valid & dut.csr.ready
        results = Signal(32)
        m.d.comb += results.eq(Mux(dut.route == Route.BIASES, dut.csr.payload.words, dut.csr.payload.rows))
        m.d.comb += Assume(~dut.csr.valid | (results <= RESULTS))
        left = Signal(range(RESULTS + 1))
        m.d.comb += [dut.progress.eq(AnySeq(1)), Assume(~dut.progress | (left != 0))]
        patient(dut.progress, left != 0, "progress")
        m.d.sync += left.eq(Mux(dut.clear, 0, Mux(asked, results, left - dut.progress)))
        # Units become idle in their time, and stay idle until there is more to do.
        worked = Signal()
        m.d.sync += worked.eq(dut.progress)
        causes = (("reading", left != 0), ("writing", worked), ("unanswered", ~dut.halt))
        for name, cause in causes:
            busy, before = getattr(dut, name), Signal(name=f"{name}_before")
            m.d.comb += [busy.eq(AnySeq(1)), Assume(~busy | before | cause)]
            m.d.sync += before.eq(busy)
            patient(~busy, ~cause, name)
        m.d.comb += Assume(dut.reading | (left == 0))
        return self._properties(m, dut, asked, left)

    def _properties(self, m: Module, dut: Executor, asked: Any, left: Any) -> Module:
        taken = dut.command.valid & dut.command.ready
        answered = dut.executed.valid & dut.executed.ready
        open_command, elapsed = Signal(), Signal(range(BOUND + 2))
        m.d.sync += open_command.eq((open_command | taken) & ~answered)
        with m.If(~open_command | dut.executed.valid):
            m.d.sync += elapsed.eq(0)
        with m.Else():
            m.d.sync += elapsed.eq(elapsed + 1)
        m.d.comb += [
            Assert(elapsed <= BOUND),
            Assert(~(taken & open_command)),
            Assert(~dut.executed.valid | open_command),
        ]
        # A unit's report while it works is answered, the first one; without a report or a refusal, there is none.
        halted, cleared = Signal(), Signal()
        # In the first cycle after a reset too.
        quiet = Signal(init=1)
        m.d.sync += quiet.eq(dut.halt & ~dut.unanswered & ~dut.writing)
        with m.If(taken):
            m.d.sync += [halted.eq(0), cleared.eq(0)]
        with m.Else():
            m.d.sync += [halted.eq(halted | dut.halt), cleared.eq(cleared | dut.clear)]
        code = dut.executed.payload.code
        m.d.comb += [
            Assert(~dut.clear | (dut.halt & quiet & ~cleared)),
            Assert(~dut.halt | ~(dut.csr.valid | dut.scales.valid | dut.start)),
            Assert(~dut.executed.valid | (halted == cleared)),
            Assert(~dut.executed.valid | ~halted | (code != Error.NONE)),
            # Answered as good, nothing is under way.
            Assert(~dut.executed.valid | (code != Error.NONE) | (left == 0)),
        ]
        steps = Signal(2)
        with m.If(taken):
            m.d.sync += steps.eq(0)
        with m.Elif(asked):
            m.d.sync += steps.eq(steps + 1)
        good = answered & (code == Error.NONE)
        m.d.comb += [
            Cover(good & (dut.opcode == Opcode.LOAD_WEIGHTS) & (steps == 2)),
            Cover(good & (dut.opcode == Opcode.COMBINE) & (steps == 1)),
            Cover(good & (dut.opcode == Opcode.AGGREGATE) & (steps == 1)),
            Cover(good & (dut.opcode == Opcode.AGGREGATE) & (steps == 0)),
            Cover(answered & cleared & (dut.opcode == Opcode.AGGREGATE)),
            Cover(answered & (code == Error.BAD_OPERAND) & (steps == 0)),
        ]
        return m


PROOFS = [
    Proof("what_is_answered_is_true", ExecutorSpec, "bmc", 16),
    Proof("every_command_is_answered_in_time", ExecutorSpec, "bmc", BOUND + 4, quick=False),
    Proof("reaches_its_states", ExecutorSpec, "cover", 26),
]
