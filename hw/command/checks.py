"""Checks: what a unit refuses, as a table of conditions in the order of their priority."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Signal, Value, ValueLike

from contracts import Error, Opcode

__all__ = ["Check", "beyond", "refuse"]


@dataclass(frozen=True)
class Check:
    """One reason to refuse a command.

    Attributes
    ----------
    wrong
        The condition, one bit; it counts in the cycle in which the command is accepted or refused.
    operand
        What is reported, 32 bits at most.
    code
        The error.
    """

    wrong: ValueLike
    operand: ValueLike
    code: Error = Error.BAD_OPERAND


def beyond(m: Module, begin: Value, size: Value, end: Value) -> Signal:
    """Return whether `size` from `begin` on goes beyond `end`, two cycles after the operands."""
    behind, goes_beyond = Signal((begin + size).shape(), name="behind", reset_less=True), Signal(name="goes_beyond")
    m.d.sync += [behind.eq(begin + size), goes_beyond.eq(behind > end)]
    return goes_beyond


def refuse(m: Module, front: Any, checks: Mapping[Opcode, Iterable[Check]], *, registered: bool = False) -> None:
    """Connect a table of checks to a `hw.command.front_end.CommandFrontEnd`.

    Parameters
    ----------
    m
        Of the unit.
    front
        The front end; drives its ``wrong`` and ``refusal``.
    checks
        For each opcode its checks; of several that apply the first counts.
    registered
        All is known a cycle later, from registers.

    Raises
    ------
    ValueError
        If the front end does not take one of the opcodes.
    """
    unknown = [opcode for opcode in checks if opcode not in front.operands.opcodes]
    if unknown:
        raise ValueError(f"checks must be of commands of the unit, not {unknown!r}")
    domain = "sync" if registered else "comb"
    m.d[domain] += front.wrong.eq(0)
    with m.Switch(front.opcode):
        for opcode, table in checks.items():
            with m.Case(opcode):
                for check in reversed(list(table)):
                    with m.If(check.wrong):
                        m.d[domain] += [
                            front.wrong.eq(1),
                            front.refusal.code.eq(check.code),
                            front.refusal.info.eq(check.operand),
                        ]
