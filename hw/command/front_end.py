"""Command front end: takes a command, decides whether it can be carried out, keeps its first error, answers it once."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Signal, Value, ValueLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMMAND_BYTES, Error, Opcode
from hw.command.first_error import FirstError
from hw.command.operands import Operands
from hw.command.relocator import Relocator, Slots, in_beats, in_words, slots_of
from hw.graph.formats import ErrorReport
from hw.memory.formats import line_address_width

__all__ = ["CommandFrontEnd"]

#: Cycles after a command is taken until its addresses have been checked, by `registered`.
_CHECKED = {False: 2, True: 4}


class CommandFrontEnd(wiring.Component):
    """One command at a time: latched, decoded, relocated, checked, started, answered.

    A command is taken in cycle 0. Its operands are valid from cycle 1 on, its addresses from cycle 2 on (3 if
    `registered`), until the command has ended. In the cycle that `commands` names it is decided: it is refused and
    answered, or `start` is 1, and the unit works until it raises `done`. `Opcode.NOP`, and opcodes that are not the
    unit's, are decided in cycle 1 and start nothing. A command is refused for the first of: its opcode; a check of the
    unit (`hw.command.checks`); an address that the memory port does not reach.

    Parameters
    ----------
    commands
        For each opcode of the unit the cycle in which a command is accepted or refused: at least 1, and at least 2 (4
        if `registered`) if it has addresses.
    address_width
        Of the memory port, in bits.
    error_sources
        Number of units that report errors.
    slots
        Which operand each address adder takes, as for `hw.command.relocator.slots_of`.
    registered
        Whether addresses are chosen, added and compared in three cycles instead of one.
    sticky
        Whether errors stay until the next reset: reports count at any time, and every later command is answered with
        the first one.

    Attributes
    ----------
    base : In
        Line address that a command's addresses count from; constant while one is under way.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        The first error, or code 0.
    errors : streams of `ErrorReport`, always ready
        Reports; they count while the unit works.
    opcode, layer : Out(8)
        Command under way; 0 while there is none.
    bits : Out
        What is kept of it, for `Operands.view`; of no meaning while there is none.
    lines : Out
        Relocated addresses; `line`, `words` and `beats` return them by name.
    unused : In
        As for `hw.command.relocator.Relocator`; `among` makes them.
    wrong : In(1), refusal : In
        A check of the unit fails, and the error; looked at in the cycle of the decision.
    hold : In(1)
        The unit cannot start: the command waits unless it is refused.
    start : Out(1)
        For a cycle: the command is accepted.
    refused : Out(1)
        For a cycle: it is not.
    working : Out(1)
        From the cycle after `start` until `done`.
    listen : In(1)
        Reports count. 1 if it is not connected.
    own : stream of `ErrorReport`, always ready
        An error that the unit itself finds while it works; the unit still ends the command.
    failed : Out(1), report : Out
        The first error of the command under way.
    early : In(1)
        Answer with code 0 although work goes on, in the cycle of `start` or later. Only the next command can report a
        later error, and only if errors are `sticky`.
    answered : Out(1)
        The command has been answered early.
    done : In(1)
        The unit has ended its work, in the cycle of `start` or later.
    closing : In(1)
        The answer waits until the unit has cleaned up: from the cycle after `done` or `refused` on.
    """

    def __init__(
        self,
        commands: Mapping[Opcode, int],
        address_width: int,
        error_sources: int,
        *,
        slots: Slots | None = None,
        registered: bool = False,
        sticky: bool = False,
    ) -> None:
        self.commands, self.sticky = dict(commands), sticky
        self.operands = Operands(tuple(commands))
        for opcode, cycle in commands.items():
            least = _CHECKED[registered] if self.operands.lines[opcode] else 1
            if cycle < least:
                raise ValueError(f"commands must decide {opcode.name} in cycle {least} or later, not {cycle!r}")
        self._slots = slots_of(self.operands, slots)
        self._relocator = Relocator(self.operands, address_width, self._slots, registered=registered)
        self._first_error = FirstError(error_sources)
        report = stream.Signature(ErrorReport, always_ready=True)
        line, count = line_address_width(address_width), self._relocator.count
        super().__init__(
            {
                "base": In(line),
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "errors": In(report).array(error_sources),
                "opcode": Out(8),
                "layer": Out(8),
                "bits": Out(self.operands.width),
                "lines": Out(line).array(count),
                "unused": In(count),
                "wrong": In(1),
                "refusal": In(ErrorReport),
                "hold": In(1),
                "start": Out(1),
                "refused": Out(1),
                "working": Out(1),
                "listen": In(1, init=1),
                "own": In(report),
                "failed": Out(1),
                "report": Out(ErrorReport),
                "early": In(1),
                "answered": Out(1),
                "done": In(1),
                "closing": In(1),
            }
        )

    def view(self, opcode: Opcode) -> Any:
        """Return the command under way as one of `opcode`."""
        return self.operands.view(self.bits, opcode)

    def slot(self, opcode: Opcode, name: str) -> int:
        """Return the number of the adder of an address."""
        return self._slots[opcode].index(name)

    def line(self, opcode: Opcode, name: str) -> Value:
        """Return an address of a command in lines."""
        line: Value = self.lines[self.slot(opcode, name)]
        return line

    def words(self, opcode: Opcode, name: str) -> Value:
        """Return an address of a command in words of 32 bits."""
        return in_words(self.line(opcode, name))

    def beats(self, opcode: Opcode, name: str, data_width: int) -> Value:
        """Return an address of a command in beats of `data_width` bits."""
        return in_beats(self.line(opcode, name), data_width)

    def among(self, *cases: tuple[Opcode, str, ValueLike]) -> Value:
        """Return a bit for each adder, for `unused`.

        Parameters
        ----------
        cases
            Opcode, operand and condition: the bit is 1 if the adder has that operand and the condition holds.
        """
        bits: list[Value] = [Const(0, 1)] * len(self.lines)
        for opcode, name, condition in cases:
            slot = self.slot(opcode, name)
            bits[slot] = bits[slot] | ((self.opcode == opcode) & condition)
        return Cat(*bits)

    def elaborate(self, platform: object) -> Elaboratable:
        """Take, decide, wait, answer."""
        m = Module()
        m.submodules.relocator = relocator = self._relocator
        m.submodules.first_error = first_error = self._first_error
        head = self.view(Opcode.NOP)
        kept = Signal(self.operands.width, reset_less=True)
        for source, port in zip(self.errors, first_error.errors, strict=True):
            connect(m, flipped(source), port)
        m.d.comb += [
            self.bits.eq(kept),
            relocator.base.eq(self.base),
            relocator.bits.eq(self.bits),
            relocator.unused.eq(self.unused),
            *(line.eq(found) for line, found in zip(self.lines, relocator.lines, strict=True)),
            self.failed.eq(first_error.failed),
            self.report.eq(first_error.report),
            first_error.listen.eq(1 if self.sticky else self.working & self.listen),
        ]
        with m.If(self.working & self.own.valid):
            m.d.comb += [first_error.own.valid.eq(1), first_error.own.payload.eq(self.own.payload)]

        known, decides, age = self._decision(m, head.opcode)
        bad = ErrorReport.const({"code": Error.BAD_OPERAND, "info": 0})
        refusal = Signal(ErrorReport)
        wrong = self.failed | ~known | self.wrong | relocator.beyond
        with m.If(~known):
            m.d.comb += [refusal.code.eq(Error.BAD_OPCODE), refusal.info.eq(head.opcode)]
        with m.Elif(self.wrong):
            m.d.comb += refusal.eq(self.refusal)
        with m.Else():
            m.d.comb += [refusal.eq(bad), refusal.info.eq(relocator.operand)]

        # A good answer that has been offered stays until it is taken, whatever is reported meanwhile.
        offered, offers = Signal(), Signal()
        # None has been when the unit starts.
        m.d.comb += offers.eq(((self.start & self.early) | (self.working & (self.early | offered))) & ~self.answered)

        def end() -> None:
            with m.If(self.done):
                m.next = "ANSWER"
                with m.If(self.answered | (offers & self.executed.ready)):
                    m.next = "IDLE"

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [self.command.ready.eq(1), first_error.clear.eq(not self.sticky)]
                m.d.sync += [
                    kept.eq(self.operands.pack(self.command.payload)),
                    age.eq(1),
                    offered.eq(0),
                    self.answered.eq(0),
                ]
                with m.If(self.command.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(~decides):
                    m.d.sync += age.eq(age + 1)
                with m.Elif((head.opcode == Opcode.NOP) & ~self.failed):
                    m.next = "ANSWER"
                with m.Elif(wrong):
                    m.d.comb += [
                        self.refused.eq(1),
                        first_error.own.valid.eq(1),
                        first_error.own.payload.eq(refusal),
                    ]
                    m.next = "ANSWER"
                with m.Elif(~self.hold):
                    m.d.comb += self.start.eq(1)
                    m.next = "WORK"
                    end()
            with m.State("WORK"):
                m.d.comb += self.working.eq(1)
                end()
            with m.State("ANSWER"):
                with m.If(offered | ~self.closing):
                    m.d.comb += self.executed.valid.eq(1)
                    if self.sticky:
                        m.d.sync += offered.eq(offered | ~self.failed)
                    with m.If(self.executed.ready):
                        m.next = "IDLE"
        with m.If(offers):
            m.d.sync += [offered.eq(1), self.answered.eq(self.executed.ready)]
            m.d.comb += self.executed.valid.eq(1)
        with m.If(~offers & ~offered):
            m.d.comb += self.executed.payload.eq(self.report)
        with m.If(~fsm.ongoing("IDLE")):
            m.d.comb += [self.opcode.eq(head.opcode), self.layer.eq(head.layer)]
        return m

    def _decision(self, m: Module, opcode: Value) -> tuple[Value, Value, Signal]:
        """Return whether the opcode is the unit's, whether its cycle has come, and the counter of cycles."""
        last = max(self.commands.values())
        age, due, known = Signal(range(last + 1), init=1), Signal(range(last + 1)), Signal()
        m.d.comb += due.eq(1)
        with m.Switch(opcode):
            for number, cycle in self.commands.items():
                with m.Case(number):
                    m.d.comb += [known.eq(1), due.eq(cycle)]
            with m.Case(Opcode.NOP):
                m.d.comb += known.eq(1)
        decides = Signal()
        m.d.comb += decides.eq(age == due)
        return known, decides, age
