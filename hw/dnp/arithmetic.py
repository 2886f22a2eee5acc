# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""The 3-stage arithmetic pipeline: operands, product, sum; one multiply-accumulate a clock (D1, D2)."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.dnp.arithmetic import FRACTION, HIGHEST, LOWEST, WORD
from golden.dnp.isa import GENERAL
from hw.dnp.isa import ADDRESS, SIGNED_WORD, STOP_BITS, Left, Logic, Multiplicand, Multiplier, Right, Slot, Value

__all__ = ["Arithmetic", "Entry", "Flight"]

#: -1 times -1 is +1: the product without its low bits has one bit more than a word.
_PRODUCT = signed(WORD + 1)
_SUM = signed(WORD + 2)


class Entry(data.Struct):
    """What the issue stage sends: an instruction, or a stop with its code."""

    valid: unsigned(1)
    slot: Slot
    stop: unsigned(1)
    code: unsigned(STOP_BITS)
    pc: ADDRESS
    constant: signed(WORD)
    wm_address: ADDRESS
    xm_address: ADDRESS


class Flight(data.Struct):
    """What the issue stage has to know about an instruction on its way."""

    writes_a: unsigned(1)
    writes_general: unsigned(1)
    target: unsigned(3)
    writes_wm: unsigned(1)
    writes_xm: unsigned(1)
    wm_address: ADDRESS
    xm_address: ADDRESS


class Arithmetic(wiring.Component):
    """Operand, multiply and add stages with A and RF0..RF7.

    Everything an instruction does to registers, memories and ports happens in the add stage, in program order. It is
    also the only place where an instruction waits for a partner; then all stages wait.
    """

    #: All stages move on; low while a port blocks or the processor stands still.
    go: In(1)
    #: Instruction from the issue stage.
    entry: In(Entry)
    #: Words read from the memories for the instruction in the operand stage.
    wm_word: In(SIGNED_WORD)
    xm_word: In(SIGNED_WORD)
    #: Instructions in the three stages.
    flights: Out(Flight).array(3)
    #: The instruction in the add stage, and whether there is one.
    last: Out(Entry)
    #: Its result, for memories and ports.
    result: Out(SIGNED_WORD)
    #: Word from the port it receives from.
    port_word: In(SIGNED_WORD)
    #: Registers.
    a: Out(SIGNED_WORD)
    general: Out(SIGNED_WORD).array(GENERAL)

    def elaborate(self, platform: Any) -> Module:
        """Three stages, then what the add stage does."""
        m = Module()
        operand = Signal(Entry)
        multiply = Signal(Entry)
        add = self.last
        factors = [Signal(SIGNED_WORD, name=name) for name in ("multiplicand", "multiplier")]
        values = [Signal(SIGNED_WORD, name=f"value_{stage}") for stage in ("multiply", "add")]
        product = Signal(_PRODUCT)
        general = Array(self.general)

        for flight, entry in zip(self.flights, (operand, multiply, add), strict=True):
            acts = entry.valid & ~entry.stop
            m.d.comb += [
                flight.writes_a.eq(acts & (entry.slot.write_a | entry.slot.clear_a)),
                flight.writes_general.eq(acts & entry.slot.write_general),
                flight.target.eq(entry.slot.target),
                flight.writes_wm.eq(acts & entry.slot.write_wm),
                flight.writes_xm.eq(acts & entry.slot.write_xm),
                flight.wm_address.eq(entry.wm_address),
                flight.xm_address.eq(entry.xm_address),
            ]

        rounding = Signal(range(1 << FRACTION))
        m.d.comb += rounding.eq(Mux(multiply.slot.rounded, 1 << (FRACTION - 1), 0))
        with m.If(self.go):
            m.d.sync += [operand.eq(self.entry), multiply.eq(operand), add.eq(multiply)]
            m.d.sync += factors[0].eq(
                Mux(operand.slot.multiplicand == Multiplicand.WM, self.wm_word, general[operand.slot.factor])
            )
            with m.Switch(operand.slot.multiplier):
                with m.Case(Multiplier.XM):
                    m.d.sync += factors[1].eq(self.xm_word)
                with m.Case(Multiplier.WM):
                    m.d.sync += factors[1].eq(self.wm_word)
                with m.Default():
                    m.d.sync += factors[1].eq(self.a)
            with m.Switch(operand.slot.value):
                with m.Case(Value.WM):
                    m.d.sync += values[0].eq(self.wm_word)
                with m.Case(Value.XM):
                    m.d.sync += values[0].eq(self.xm_word)
                with m.Default():
                    m.d.sync += values[0].eq(operand.constant)
            m.d.sync += [values[1].eq(values[0]), product.eq((factors[0] * factors[1] + rounding) >> FRACTION)]
        self._add(m, add, product, values[1])
        with m.If(self.go & add.valid & ~add.stop):
            with m.If(add.slot.clear_a):
                m.d.sync += self.a.eq(0)
            with m.Elif(add.slot.write_a):
                m.d.sync += self.a.eq(self.result)
            with m.If(add.slot.write_general):
                m.d.sync += general[add.slot.target].eq(self.result)
        return m

    def _add(self, m: Module, add: Any, product: Signal, value: Signal) -> None:
        """Adder with saturation, and the logic unit beside it."""
        slot = add.slot
        register = Signal(SIGNED_WORD)
        left = Signal(SIGNED_WORD)
        right = Signal(_PRODUCT)
        total = Signal(_SUM)
        m.d.comb += register.eq(Mux(slot.register[-1], self.a, Array(self.general)[slot.register[:-1]]))
        with m.Switch(slot.left):
            with m.Case(Left.A):
                m.d.comb += left.eq(self.a)
            with m.Case(Left.VALUE):
                m.d.comb += left.eq(value)
            with m.Case(Left.ONE):
                m.d.comb += left.eq(HIGHEST)
        with m.Switch(slot.right):
            with m.Case(Right.PRODUCT):
                m.d.comb += right.eq(product)
            with m.Case(Right.VALUE):
                m.d.comb += right.eq(value)
            with m.Case(Right.REGISTER):
                m.d.comb += right.eq(register)
            with m.Case(Right.PORT):
                m.d.comb += right.eq(self.port_word)
        inverted = right.as_unsigned() ^ slot.subtract.replicate(len(right))
        m.d.comb += total.eq(left + inverted.as_signed() + slot.subtract)
        distance = value[:4]
        with m.Switch(slot.logic):
            with m.Case(Logic.AND):
                m.d.comb += self.result.eq(self.a & right)
            with m.Case(Logic.OR):
                m.d.comb += self.result.eq(self.a | right)
            with m.Case(Logic.XOR):
                m.d.comb += self.result.eq(self.a ^ right)
            with m.Case(Logic.SHL):
                m.d.comb += self.result.eq(self.a << distance)
            with m.Case(Logic.SHR):
                m.d.comb += self.result.eq(self.a >> distance)
            with m.Case(Logic.LSR):
                m.d.comb += self.result.eq(self.a.as_unsigned() >> distance)
            with m.Default():
                m.d.comb += self.result.eq(
                    Mux(total > HIGHEST, HIGHEST, Mux(total < LOWEST, LOWEST, total[:WORD].as_signed()))
                )
