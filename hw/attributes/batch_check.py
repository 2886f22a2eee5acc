"""Batch check: whether a core has room for what a SAMPLE command asks for, counted before anything is sampled (A2)."""

from typing import Any

from amaranth import Array, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import COMMANDS, LINE_BYTES, Error, Opcode
from contracts.sampling import HOPS_MAX
from hw.attributes.formats import AttributeCoreConfig
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES

__all__ = ["BatchCheck"]

_LINE_WORDS = LINE_BYTES // WORD_BYTES


class BatchCheck(wiring.Component):
    """Multiplies the roots by the fan-outs, hop by hop, and by the negatives.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    command : In
        SAMPLE, constant from `start` to `done`; its ``hops`` and ``negatives`` are in their ranges.
    start : In(1)
        Begin to count.
    done : Out(1)
        The check ends in this cycle, with `error`.
    error : Out
        `ErrorReport`: ``NONE``; ``FAN_OUT`` with a fan-out that is 0 or too large; ``BAD_OPERAND`` with the number of
        positions to expand, or of all positions, if there is no room for them.
    """

    def __init__(self, config: AttributeCoreConfig) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(struct(COMMANDS[Opcode.SAMPLE])),
                "start": In(1),
                "done": Out(1),
                "error": Out(ErrorReport),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count a hop in two cycles: check and multiply, then add."""
        m = Module()
        config, attribute, command = self.config, self.config.attribute, self.command
        # Positions of a level, of those that are expanded, and of all. A level is multiplied only after the check
        # that there is room to expand it; roots are multiplied by the negatives whatever their number is.
        hop = Signal(range(HOPS_MAX + 1), reset_less=True)
        most_roots = (1 << len(command.root_count)) - 1
        level = Signal(range(max(most_roots, config.frontier * config.most) + 1), reset_less=True)
        inner = Signal(range(config.frontier + 1), reset_less=True)
        product = Signal(range(max(most_roots, config.frontier) * config.most + 1), reset_less=True)
        most_positions = max(most_roots * (1 + config.most), config.frontier * (1 + 2 * config.most))
        total = Signal(range(most_positions + 1), reset_less=True)
        fan = Array(command.fan_out[8 * n : 8 * (n + 1)] for n in range(HOPS_MAX))[hop[: exact_log2(HOPS_MAX)]]

        def fail(code: Error, info: Any) -> None:
            m.d.comb += [self.done.eq(1), self.error.code.eq(code), self.error.info.eq(info)]
            m.next = "IDLE"

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [level.eq(command.root_count), total.eq(command.root_count), hop.eq(0), inner.eq(0)]
                with m.If(self.start):
                    m.next = "CHECK_HOP"
            with m.State("CHECK_HOP"):
                m.d.sync += product.eq(level * fan)
                with m.If(hop == command.hops):
                    m.d.sync += product.eq(command.root_count * command.negatives[: config.most.bit_length()])
                    m.next = "COUNT_NEGATIVES"
                with m.Elif((fan == 0) | (fan > config.fan_out_max)):
                    fail(Error.FAN_OUT, fan)
                with m.Elif(inner + level > config.frontier):
                    fail(Error.BAD_OPERAND, inner + level)
                with m.Else():
                    m.next = "COUNT_HOP"
            with m.State("COUNT_HOP"):
                m.d.sync += [inner.eq(inner + level), level.eq(product), total.eq(total + product), hop.eq(hop + 1)]
                m.next = "CHECK_HOP"
            with m.State("COUNT_NEGATIVES"):
                m.d.sync += total.eq(total + product)
                m.next = "CHECK_TOTAL"
            with m.State("CHECK_TOTAL"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
                with m.If((total > 1 << attribute.tag_bits) | (total >= command.span * _LINE_WORDS)):
                    fail(Error.BAD_OPERAND, total)
        return m
