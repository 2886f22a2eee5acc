"""Proofs of the command front end: one answer a command, its first error, no start after a refusal."""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from contracts import Error, Opcode
from hw.command.front_end import CommandFrontEnd
from hw.graph.formats import ErrorReport
from sim.harness.formal import Proof, assert_stream, assume_stream

#: Fewest bits of a port; two sources, so that there is a lowest.
ADDRESS_WIDTH, SOURCES = 13, 2
#: Cycle of the decision: with addresses and without, and later than necessary.
COMMANDS = {Opcode.COPY: 2, Opcode.BARRIER: 1, Opcode.LIST: 3}


class FrontEndSpec(Elaboratable):
    """A unit and a memory that do anything at any time, and what must hold for every command.

    Parameters
    ----------
    sticky
        As for the front end.
    """

    def __init__(self, *, sticky: bool) -> None:
        self.sticky = sticky

    def elaborate(self, platform: Any) -> Module:
        """Choose all inputs freely, within the rules of streams."""
        m = Module()
        m.submodules.dut = dut = CommandFrontEnd(COMMANDS, ADDRESS_WIDTH, SOURCES, sticky=self.sticky)
        free = ("unused", "wrong", "hold", "listen", "early", "done", "closing")
        for port in (*(getattr(dut, name) for name in free), dut.command.valid, dut.executed.ready):
            m.d.comb += port.eq(AnySeq(len(port)))
        for payload in (dut.refusal, dut.own.payload, *(error.payload for error in dut.errors)):
            m.d.comb += [payload.eq(AnySeq(40)), Assume(payload.code != Error.NONE)]
        for valid in (dut.own.valid, *(error.valid for error in dut.errors)):
            m.d.comb += valid.eq(AnySeq(1))
        m.d.comb += [
            dut.base.eq(AnyConst(len(dut.base))),
            dut.command.payload.eq(AnySeq(512)),
        ]
        assume_stream(m, dut.command, "command")
        assert_stream(m, dut.executed, "executed")

        taken, answered = dut.command.valid & dut.command.ready, dut.executed.valid & dut.executed.ready
        #: An answer is owed; the unit works; the command was refused, was started, was offered a good answer.
        owed, working, refused, started, early = (
            Signal(name=name) for name in ("owed", "at_work", "was_refused", "was_started", "was_early")
        )
        bits = Signal.like(dut.bits)
        ends = dut.done & (dut.start | working)
        with m.If(taken):
            m.d.sync += [refused.eq(0), started.eq(0), early.eq(0), bits.eq(dut.operands.pack(dut.command.payload))]
        with m.Else():
            m.d.sync += [refused.eq(refused | dut.refused), started.eq(started | dut.start)]
            m.d.sync += early.eq(early | (dut.executed.valid & (dut.start | working | ~dut.failed)))
        m.d.sync += [owed.eq((owed | taken) & ~answered), working.eq((working | dut.start) & ~ends)]
        under_way = owed | working
        m.d.comb += [
            Assert(dut.command.ready == ~under_way),
            Assert(dut.working == working),
            Assert(~dut.executed.valid | owed),
            Assert(~(dut.start | dut.refused) | (owed & ~started & ~refused)),
            Assert(~(dut.start & dut.refused)),
            Assert(~dut.executed.valid | started | dut.start | refused | (dut.opcode == Opcode.NOP)),
            Assert(~under_way | (dut.bits == bits)),
            Assert(under_way | (dut.opcode == Opcode.NOP)),
        ]
        # The answer comes as soon as it may; it is held back from the end of the work on, not later.
        due, may_close = Signal(), Signal()
        m.d.sync += due.eq((dut.refused | ends) & owed & ~answered)
        m.d.sync += may_close.eq(dut.refused | ends | (dut.closing & may_close))
        m.d.comb += [Assume(~dut.closing | may_close), Assert(~due | dut.closing | dut.executed.valid)]

        first = self._first_error(m, dut)
        now_early = early | (dut.executed.valid & (dut.start | working))
        with m.If(dut.executed.valid):
            m.d.comb += Assert(dut.executed.payload.as_value() == Mux(now_early, 0, first.as_value()))
        good = answered & (dut.executed.payload.code == Error.NONE)
        code = dut.executed.payload.code
        m.d.comb += [
            Cover(good & working & ~dut.done & (dut.opcode == Opcode.LIST)),
            Cover(good & early & started & ~working & (dut.opcode == Opcode.LIST)),
            Cover(good & ~now_early & (dut.opcode == Opcode.COPY)),
            Cover(good & (dut.opcode == Opcode.NOP) & owed),
            Cover(answered & refused & (code == Error.BAD_OPCODE)),
            Cover(answered & refused & (code == Error.BAD_OPERAND) & (dut.opcode == Opcode.COPY)),
            Cover(answered & started & (code != Error.NONE) & (dut.opcode == Opcode.BARRIER)),
        ]
        return m

    def _first_error(self, m: Module, dut: CommandFrontEnd) -> Any:
        """Compare the error, and the decision, with the rule; return the error."""
        first = Signal(ErrorReport)
        decided = dut.start | dut.refused
        known, operand, beyond = Signal(), Signal(32), Signal()
        with m.Switch(dut.opcode):
            for opcode in COMMANDS:
                with m.Case(opcode):
                    m.d.comb += known.eq(1)
                    for name in reversed(dut.operands.lines[opcode]):
                        slot, line = dut.slot(opcode, name), dut.view(opcode)[name]
                        address = Signal(33, name=f"{opcode.name.lower()}_{name}")
                        m.d.comb += [
                            address.eq(dut.base + line),
                            Assert(~decided | (dut.line(opcode, name) == address[: len(dut.base)])),
                        ]
                        with m.If(address[len(dut.base) :].any() & ~dut.unused[slot]):
                            m.d.comb += [beyond.eq(1), operand.eq(line)]
        failed = first.code != Error.NONE
        bad = ~known | dut.wrong | beyond
        m.d.comb += [
            Assert(~dut.start | ~(bad | (failed if self.sticky else 0) | dut.hold)),
            Assert(~dut.refused | bad | (failed if self.sticky else 0)),
            Assert((dut.report == first) & (dut.failed == failed)),
        ]
        clears = dut.command.ready & (not self.sticky)
        with m.If(clears):
            m.d.sync += first.eq(0)
        with m.Elif(~failed):
            for error in reversed(dut.errors):
                with m.If(error.valid & (1 if self.sticky else dut.working & dut.listen)):
                    m.d.sync += first.eq(error.payload)
            with m.If(dut.working & dut.own.valid):
                m.d.sync += first.eq(dut.own.payload)
            with m.If(dut.refused):
                m.d.sync += [first.code.eq(Error.BAD_OPERAND), first.info.eq(operand)]
                with m.If(dut.wrong):
                    m.d.sync += first.eq(dut.refusal)
                with m.If(~known):
                    m.d.sync += [first.code.eq(Error.BAD_OPCODE), first.info.eq(dut.opcode)]
        return first


EACH, STICKY = partial(FrontEndSpec, sticky=False), partial(FrontEndSpec, sticky=True)
PROOFS = [
    Proof("each_command_is_answered_once", EACH, "bmc", 14),
    Proof("each_command_is_answered_once_if_errors_stay", STICKY, "bmc", 14),
    Proof("reaches_its_states", EACH, "cover", 12),
    Proof("reaches_its_states_if_errors_stay", STICKY, "cover", 12),
]
