# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""The 3-stage arithmetic pipeline: operands, product, sum; one multiply-accumulate a clock (D1, D2)."""

from collections.abc import Callable
from itertools import zip_longest
from operator import mul
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.dnp.arithmetic import FRACTION, HIGHEST, LOWEST, WORD
from golden.dnp.isa import GENERAL, PORTS
from hw.dnp.isa import ADDRESS, SIGNED_WORD, STOP_BITS, Left, Logic, Multiplicand, Multiplier, Right, Slot, Value

__all__ = ["Arithmetic", "Entry", "Flight"]

#: -1 times -1 is +1: the product without its low bits has one bit more than a word.
_PRODUCT = signed(WORD + 1)
_SUM = signed(WORD + 2)


#: What an instruction does; nothing is done where there is none.
_EFFECTS = ("write_a", "clear_a", "write_general", "write_wm", "write_xm")


class Entry(data.Struct):
    """What the issue stage sends: an instruction (``valid``), or a stop with its code, or neither."""

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

    What the add stage chooses from is chosen by one bit each, made ready a stage earlier, and so is the general
    register it reads: with what the instruction before is just writing to it.

    Parameters
    ----------
    multiply
        Returns the product of two factors; proofs put any word in its place.
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
    #: Words at the ports.
    port_words: In(SIGNED_WORD).array(len(PORTS))
    #: Registers.
    a: Out(SIGNED_WORD)
    general: Out(SIGNED_WORD).array(GENERAL)

    def __init__(self, multiply: Callable[[Any, Any], Any] = mul) -> None:
        self.multiply = multiply
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        """Three stages, then what the add stage does."""
        m = Module()
        operand = Signal(Entry)
        multiply = Signal(Entry)
        add = self.last
        factors = [Signal(SIGNED_WORD, name=name) for name in ("multiplicand", "multiplier")]
        values = [Signal(SIGNED_WORD, name=f"value_{stage}") for stage in ("multiply", "add")]
        kept = Signal(_PRODUCT)
        general = Array(self.general)

        for flight, entry in zip(self.flights, (operand, multiply, add), strict=True):
            m.d.comb += [
                flight.writes_a.eq(entry.slot.write_a | entry.slot.clear_a),
                flight.writes_general.eq(entry.slot.write_general),
                flight.target.eq(entry.slot.target),
                flight.writes_wm.eq(entry.slot.write_wm),
                flight.writes_xm.eq(entry.slot.write_xm),
                flight.wm_address.eq(entry.wm_address),
                flight.xm_address.eq(entry.xm_address),
            ]

        rounding = Signal(range(1 << FRACTION))
        m.d.comb += rounding.eq(Mux(multiply.slot.rounded, 1 << (FRACTION - 1), 0))
        with m.If(self.go):
            m.d.sync += [operand.eq(self.entry), multiply.eq(operand), add.eq(multiply)]
            for name in _EFFECTS:
                m.d.sync += getattr(operand.slot, name).eq(getattr(self.entry.slot, name) & self.entry.valid)
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
            m.d.sync += values[1].eq(values[0])
            # What comes from earlier stages is 0 where it is not wanted, and needs no choice in the add stage.
            m.d.sync += kept.eq(0)
            with m.Switch(multiply.slot.right):
                with m.Case(Right.PRODUCT):
                    m.d.sync += kept.eq((self.multiply(*factors) + rounding) >> FRACTION)
                with m.Case(Right.VALUE):
                    m.d.sync += kept.eq(values[0])
        named = multiply.slot.register
        read, forwarded = Signal(SIGNED_WORD), Signal()
        m.d.comb += forwarded.eq(add.slot.write_general & (add.slot.target == named[: len(add.slot.target)]))
        with m.If(self.go):
            m.d.sync += read.eq(0)
            with m.If((multiply.slot.right == Right.REGISTER) & ~named[-1]):
                m.d.sync += read.eq(Mux(forwarded, self.result, general[named[:-1]]))
        self._add(m, add, self._right(m, multiply.slot, kept, read), values[1])
        with m.If(self.go & add.valid):
            with m.If(add.slot.clear_a):
                m.d.sync += self.a.eq(0)
            with m.Elif(add.slot.write_a):
                m.d.sync += self.a.eq(self.result)
            with m.If(add.slot.write_general):
                m.d.sync += general[add.slot.target].eq(self.result)
        return m

    def _right(self, m: Module, slot: Any, kept: Signal, read: Signal) -> Any:
        """Choose the second input of the adder; `slot` is that of the multiply stage."""
        sources = [
            ((slot.right == Right.REGISTER) & slot.register[-1], self.a),
            *(((slot.right == Right.PORT) & (slot.receive_port == port), w) for port, w in enumerate(self.port_words)),
        ]
        chosen = Signal(len(sources))
        with m.If(self.go):
            m.d.sync += chosen.eq(Cat(condition for condition, _ in sources))
        wide_read = Signal(_PRODUCT)
        m.d.comb += wide_read.eq(read)
        gated: list[Any] = [kept.as_unsigned() | wide_read.as_unsigned()]
        for choice, (_, source) in zip(chosen, sources, strict=True):
            wide = Signal(_PRODUCT)
            m.d.comb += wide.eq(source)
            gated.append(wide.as_unsigned() & choice.replicate(len(wide)))
        while len(gated) > 1:
            gated = [one | other for one, other in zip_longest(gated[::2], gated[1::2], fillvalue=0)]
        return gated[0].as_signed()

    def _add(self, m: Module, add: Any, right: Any, value: Signal) -> None:
        """Adder with saturation, and the logic unit beside it."""
        slot = add.slot
        left = Signal(SIGNED_WORD)
        total = Signal(_SUM)
        with m.Switch(slot.left):
            with m.Case(Left.A):
                m.d.comb += left.eq(self.a)
            with m.Case(Left.VALUE):
                m.d.comb += left.eq(value)
            with m.Case(Left.ONE):
                m.d.comb += left.eq(HIGHEST)
        inverted = right.as_unsigned() ^ slot.subtract.replicate(len(right))
        m.d.comb += total.eq(left + inverted.as_signed() + slot.subtract)
        distance = value[:4]
        logic = Signal(WORD)
        with m.Switch(slot.logic):
            with m.Case(Logic.AND):
                m.d.comb += logic.eq(self.a & right)
            with m.Case(Logic.OR):
                m.d.comb += logic.eq(self.a | right)
            with m.Case(Logic.XOR):
                m.d.comb += logic.eq(self.a ^ right)
            with m.Case(Logic.SHL):
                m.d.comb += logic.eq(self.a << distance)
            with m.Case(Logic.SHR):
                m.d.comb += logic.eq(self.a >> distance)
            with m.Case(Logic.LSR):
                m.d.comb += logic.eq(self.a.as_unsigned() >> distance)
        # The sum fits into a word if its upper bits all equal the word's sign.
        fits = total[WORD - 1 :].all() | ~total[WORD - 1 :].any()
        with m.If(slot.logic != Logic.ADDER):
            m.d.comb += self.result.eq(logic)
        with m.Elif(fits):
            m.d.comb += self.result.eq(total)
        with m.Else():
            m.d.comb += self.result.eq(Mux(total[-1], LOWEST, HIGHEST))
