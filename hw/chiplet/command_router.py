"""Command router: some commands are carried out by a unit outside the executor."""

from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMMAND_BYTES, COMMANDS, Opcode
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import line_address_width

__all__ = ["CommandRouter", "offload_members", "route_commands"]


def offload_members(address_width: int) -> dict[str, wiring.Member]:
    """Return the ports of a chiplet whose commands a unit outside carries out in part.

    ``offload``: the commands; ``offloaded``: their answers; ``base``: line address that their addresses count from.
    """
    return {
        "offload": Out(stream.Signature(8 * COMMAND_BYTES)),
        "offloaded": In(stream.Signature(ErrorReport)),
        "base": Out(line_address_width(address_width)),
    }


def route_commands(m: Module, chiplet: Any, opcodes: tuple[Opcode, ...], reader: Any, inside: Any) -> None:
    """Share the commands of `reader` between the unit `inside` a chiplet and the one outside.

    Parameters
    ----------
    m
        Of the chiplet.
    chiplet
        Has `offload_members`, ``opcode`` and ``layer``, which are set to those of the command outside if there is one.
    opcodes
        Commands of the unit outside.
    reader, inside
        ``reader.command`` and ``reader.executed``, ``inside.command`` and ``inside.executed``.
    """
    m.submodules.command_router = router = CommandRouter(opcodes)
    connect(m, reader.command, router.i)
    connect(m, router.executed, reader.executed)
    connect(m, router.o[0], inside.command)
    connect(m, router.o[1], flipped(chiplet.offload))
    connect(m, inside.executed, router.answers[0])
    connect(m, flipped(chiplet.offloaded), router.answers[1])
    m.d.comb += chiplet.base.eq(reader.base)
    with m.If(router.opcode != Opcode.NOP):
        m.d.comb += [chiplet.opcode.eq(router.opcode), chiplet.layer.eq(router.layer)]


class CommandRouter(wiring.Component):
    """Hands each command to the unit that knows its opcode, and the unit's answer back.

    Parameters
    ----------
    opcodes
        Commands of the unit outside; all others, unknown ones too, are the executor's.

    Attributes
    ----------
    i : stream of unsigned(512)
        Commands, one at a time.
    executed : stream of `ErrorReport`
        Their answers.
    o : streams of unsigned(512)
        0: to the executor, 1: to the unit outside. ``valid`` depends on `i` combinationally, and ``i.ready`` on
        ``ready``.
    answers : streams of `ErrorReport`
        Of both.
    opcode, layer : Out(8)
        Command of the unit outside that is under way; `Opcode.NOP` while there is none.

    Raises
    ------
    ValueError
        If there are no opcodes.
    """

    def __init__(self, opcodes: tuple[Opcode, ...]) -> None:
        if not opcodes:
            raise ValueError(f"opcodes must name at least one command, not {opcodes!r}")
        self.opcodes = opcodes
        command, answer = stream.Signature(8 * COMMAND_BYTES), stream.Signature(ErrorReport)
        super().__init__(
            {
                "i": In(command),
                "executed": Out(answer),
                "o": Out(command).array(2),
                "answers": In(answer).array(2),
                "opcode": Out(8),
                "layer": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Route by opcode; remember the command under way for the counters."""
        m = Module()
        head = data.View(struct(COMMANDS[Opcode.NOP]), self.i.payload)
        outside = Signal()
        with m.Switch(head.opcode):
            with m.Case(*self.opcodes):
                m.d.comb += outside.eq(1)
        for n, target in enumerate(self.o):
            m.d.comb += [target.payload.eq(self.i.payload), target.valid.eq(self.i.valid & (outside == n))]
            with m.If(outside == n):
                m.d.comb += self.i.ready.eq(target.ready)
        with m.If(self.o[1].valid & self.o[1].ready):
            m.d.sync += [self.opcode.eq(head.opcode), self.layer.eq(head.layer)]
        # One command is under way at a time, so there is one answer.
        for answer in self.answers:
            m.d.comb += answer.ready.eq(self.executed.ready)
            with m.If(answer.valid):
                m.d.comb += [self.executed.valid.eq(1), self.executed.payload.eq(answer.payload)]
        with m.If(self.answers[1].valid & self.answers[1].ready):
            m.d.sync += [self.opcode.eq(Opcode.NOP), self.layer.eq(0)]
        return m
