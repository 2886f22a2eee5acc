"""Command router: each command goes to the unit of a chiplet that carries it out."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import COMMAND_BYTES, COMMANDS, Opcode
from hw.contracts import struct
from hw.graph.formats import ErrorReport

__all__ = ["CommandRouter"]


class CommandRouter(wiring.Component):
    """Hands each command to the target that has its opcode, and that target's answer back.

    Parameters
    ----------
    opcodes
        Commands of targets 1, 2, ...; all others, unknown ones too, go to target 0.

    Attributes
    ----------
    i : stream of unsigned(512)
        Commands, one at a time.
    executed : stream of `ErrorReport`
        Their answers.
    o : streams of unsigned(512)
        To the targets. ``valid`` depends on `i` combinationally, and ``i.ready`` on ``ready``.
    answers : streams of `ErrorReport`
        From the targets.
    opcode, layer : Out(8)
        Command under way in another target than 0; `Opcode.NOP` while there is none.

    Raises
    ------
    ValueError
        If a target has no opcode, or an opcode several targets.
    """

    def __init__(self, opcodes: Sequence[tuple[Opcode, ...]] = ()) -> None:
        self.opcodes = tuple(opcodes)
        listed = [opcode for target in self.opcodes for opcode in target]
        if not all(self.opcodes) or len(set(listed)) < len(listed):
            raise ValueError(f"opcodes must be at least one for each target, each for one target, not {opcodes!r}")
        targets = 1 + len(self.opcodes)
        command, answer = stream.Signature(8 * COMMAND_BYTES), stream.Signature(ErrorReport)
        super().__init__(
            {
                "i": In(command),
                "executed": Out(answer),
                "o": Out(command).array(targets),
                "answers": In(answer).array(targets),
                "opcode": Out(8),
                "layer": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Route by opcode; remember the command under way for the counters."""
        m = Module()
        head = data.View(struct(COMMANDS[Opcode.NOP]), self.i.payload)
        chosen = Signal(len(self.o), init=1)
        with m.Switch(head.opcode):
            for n, opcodes in enumerate(self.opcodes, start=1):
                with m.Case(*opcodes):
                    m.d.comb += chosen.eq(1 << n)
        m.d.comb += self.i.ready.eq((chosen & Cat(target.ready for target in self.o)).any())
        for n, target in enumerate(self.o):
            m.d.comb += [target.payload.eq(self.i.payload), target.valid.eq(self.i.valid & chosen[n])]
        # One command is under way at a time, so there is one answer.
        first, *others = self.answers
        m.d.comb += [self.executed.valid.eq(first.valid), self.executed.payload.eq(first.payload)]
        m.d.comb += [answer.ready.eq(self.executed.ready) for answer in self.answers]
        for answer in others:
            with m.If(answer.valid):
                m.d.comb += [self.executed.valid.eq(1), self.executed.payload.eq(answer.payload)]
        for target, answer in zip(self.o[1:], others, strict=True):
            with m.If(target.valid & target.ready):
                m.d.sync += [self.opcode.eq(head.opcode), self.layer.eq(head.layer)]
            with m.If(answer.valid & answer.ready):
                m.d.sync += [self.opcode.eq(Opcode.NOP), self.layer.eq(0)]
        return m
