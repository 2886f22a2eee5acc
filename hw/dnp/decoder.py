# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""Instruction decoder, built row by row from the table of instructions."""

from typing import Any

from amaranth.hdl import Module, unsigned
from amaranth.hdl import Value as HdlValue
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from golden.dnp.arithmetic import WORD
from golden.dnp.isa import (
    ACCUMULATOR,
    ACCUMULATOR_CLEARED,
    CODES,
    GENERAL,
    INSTRUCTIONS,
    REPEAT_BIT,
    SET_TARGETS,
    Instruction,
    Kind,
    Operand,
)
from hw.dnp.isa import Decoded, Left, Logic, Multiplicand, Multiplier, Right, Value

__all__ = ["Decoder"]

#: Bit of an LDI target that tells control registers from the others.
_CONTROL_TARGET_BIT = 5
_MULTIPLIERS = {"WX": Multiplier.XM, "RX": Multiplier.XM, "RW": Multiplier.WM, "RA": Multiplier.A}

#: How the add stage treats each mnemonic: its inputs and unit. A source operand decides about ``right`` by itself.
_ADD_STAGE: dict[str, dict[str, Any]] = {
    "MADD": {"left": Left.A},
    "MSUB": {"left": Left.A, "subtract": 1},
    "MUL": {"left": Left.ZERO},
    "MULR": {"left": Left.ZERO, "rounded": 1},
    "UPD": {"left": Left.VALUE, "value": Value.WM, "rounded": 1},
    "SCL": {"left": Left.ZERO, "rounded": 1, "multiplier": Multiplier.WM},
    "ADD": {"left": Left.A},
    "SUB": {"left": Left.A, "subtract": 1},
    "AND": {"logic": Logic.AND},
    "OR": {"logic": Logic.OR},
    "XOR": {"logic": Logic.XOR},
    "NOT": {"left": Left.ONE, "right": Right.REGISTER, "register": GENERAL, "subtract": 1},
    "NEG": {"left": Left.ZERO, "right": Right.REGISTER, "register": GENERAL, "subtract": 1},
    "SHL": {"logic": Logic.SHL},
    "SHR": {"logic": Logic.SHR},
    "LSR": {"logic": Logic.LSR},
    "LDI": {"right": Right.VALUE},
    "INA": {"right": Right.PORT},
    "INX": {"right": Right.PORT},
    "INW": {"right": Right.PORT},
    "INS": {"left": Left.A, "right": Right.PORT},
    "INSX": {"left": Left.VALUE, "value": Value.XM, "right": Right.PORT},
    "OUTA": {"right": Right.REGISTER, "register": GENERAL},
    "PASS": {"right": Right.PORT},
    "FWD": {"right": Right.PORT},
    "OUTS": {"left": Left.VALUE, "value": Value.XM, "right": Right.PORT},
}
_ISSUE_ONLY = ("NOP", "JMP", "SET", "LOOP", "BN", "BP", "BZ", "BNZ")
_BRANCHES = ("BN", "BP", "BZ", "BNZ")
_PRODUCTS = ("MADD", "MSUB", "MUL", "MULR", "UPD", "SCL")


class Decoder(wiring.Component):
    """Instruction word to control signals, without a register."""

    #: Instruction word.
    word: In(unsigned(WORD))
    #: What it means.
    decoded: Out(Decoded)

    def elaborate(self, platform: Any) -> Module:
        """Emit one case for each row."""
        m = Module()
        m.d.comb += self.decoded.repeat.eq(self.word[REPEAT_BIT])
        with m.Switch(self.word):
            for row in INSTRUCTIONS:
                pattern = "".join(bit if bit in "01" else "-" for bit in row.pattern)
                with m.Case(pattern):
                    self._row(m, row)
        return m

    def _row(self, m: Module, row: Instruction) -> None:
        d = self.decoded
        m.d.comb += d.defined.eq(1)
        for field, value in _ADD_STAGE.get(row.mnemonic, {}).items():
            m.d.comb += getattr(d.slot, field).eq(value)
        if row.mnemonic in _PRODUCTS:
            form = row.name.partition(".")[2]
            if row.letter_of(Kind.GENERAL):
                m.d.comb += [d.slot.multiplicand.eq(Multiplicand.GENERAL), d.needs_factor.eq(1)]
            if form:
                m.d.comb += [d.slot.multiplier.eq(_MULTIPLIERS[form]), d.needs_a.eq(form == "RA")]
        m.d.comb += [
            d.two_words.eq(row.words > 1),
            d.issue_only.eq(row.mnemonic in _ISSUE_ONLY or row.name == "MOV.C"),
            d.branch.eq(row.name in _BRANCHES),
            d.loop.eq(row.name == "LOOP"),
            d.jump.eq(row.name == "JMP"),
            d.halt.eq(row.name == "HALT"),
            d.byte.eq(row.name == "SET"),
            d.slot.write_a.eq(row.effect.startswith("A ←")),
        ]
        if row.name in _BRANCHES:
            m.d.comb += [d.needs_register.eq(1), d.needed_register.eq(GENERAL)]
        if row.name in ("SET", "MOV.C"):
            m.d.comb += d.write_control.eq(1)
        undefined = []
        for operand in row.operands:
            if operand.letter:
                low, width = row.field(operand.letter)
                bits = self.word[low : low + width]
                if operand.kind in CODES:
                    undefined.append(~bits.matches(*sorted(CODES[operand.kind])))
                self._operand(m, row, operand, bits)
        for condition in undefined:
            with m.If(condition):
                m.d.comb += d.defined.eq(0)

    def _operand(self, m: Module, row: Instruction, operand: Operand, bits: HdlValue) -> None:
        d = self.decoded
        match operand.kind:
            case Kind.GENERAL:
                m.d.comb += [d.slot.factor.eq(bits), d.slot.target.eq(bits)]
                if row.name == "MOV.R":
                    m.d.comb += d.slot.write_general.eq(1)
            case Kind.WM_SOURCE:
                self._wm_source(m, bits[2:], bits[:2])
            case Kind.XM_SOURCE:
                self._xm_source(m, bits[2:], bits[:2])
            case Kind.WM_RESULT:
                self._wm_result(m, bits[2:], bits[0])
            case Kind.XM_RESULT:
                self._xm_result(m, bits[2:], bits[0])
            case Kind.XM_SHORT:
                self._xm_result(m, bits[1:], bits[0])
            case Kind.WM_BOTH:
                self._wm_source(m, bits[1:], bits[0])
                self._wm_result(m, bits[1:], bits[0])
            case Kind.SOURCE | Kind.SOURCE_KEPT:
                if row.name not in ("NOT", "NEG"):
                    self._source(m, bits)
            case Kind.SCALAR if row.name == "MOV.C":
                m.d.comb += [d.needs_register.eq(1), d.needed_register.eq(bits)]
            case Kind.SCALAR:
                m.d.comb += d.slot.right.eq(Right.VALUE)
                self._target(m, bits)
            case Kind.TARGET:
                with m.If(bits[_CONTROL_TARGET_BIT]):
                    m.d.comb += [d.write_control.eq(1), d.control.eq(bits), d.issue_only.eq(1)]
                with m.Else():
                    self._target(m, bits)
            case Kind.CONTROL:
                m.d.comb += [d.control.eq(bits), d.read_control.eq(row.name == "MOV.G")]
            case Kind.SET_TARGET:
                with m.Switch(bits):
                    for code, control in enumerate(SET_TARGETS):
                        with m.Case(code):
                            m.d.comb += d.control.eq(int(control))
            case Kind.PORT:
                sends = operand.letter == "q" or row.name in ("OUTA", "OUT")
                if sends:
                    m.d.comb += [d.send_code.eq(bits), d.slot.send_port.eq(bits), d.slot.send.eq(1)]
                else:
                    m.d.comb += [d.receive_code.eq(bits), d.slot.receive_port.eq(bits), d.slot.receive.eq(1)]

    def _target(self, m: Module, bits: HdlValue) -> None:
        slot = self.decoded.slot
        m.d.comb += slot.target.eq(bits)
        with m.If(bits[: GENERAL.bit_length()] == GENERAL):
            m.d.comb += slot.write_a.eq(1)
        with m.Else():
            m.d.comb += slot.write_general.eq(1)

    def _source(self, m: Module, bits: HdlValue) -> None:
        slot = self.decoded.slot
        with m.Switch(bits):
            with m.Case("00----"):
                m.d.comb += [slot.right.eq(Right.REGISTER), slot.register.eq(bits[:3])]
            with m.Case("01----"):
                m.d.comb += [slot.right.eq(Right.VALUE), slot.value.eq(Value.WM)]
                self._wm_source(m, bits[2:4], bits[:2])
            with m.Case("10----"):
                m.d.comb += [slot.right.eq(Right.VALUE), slot.value.eq(Value.XM)]
                self._xm_source(m, bits[2:4], bits[:2])
            with m.Case(ACCUMULATOR, ACCUMULATOR_CLEARED):
                m.d.comb += [
                    slot.right.eq(Right.REGISTER),
                    slot.register.eq(GENERAL),
                    slot.clear_a.eq(bits == ACCUMULATOR_CLEARED),
                ]

    def _wm_source(self, m: Module, pointer: HdlValue, mode: HdlValue) -> None:
        d = self.decoded
        m.d.comb += [d.wm_source.eq(1), d.wm_source_pointer.eq(pointer), d.wm_source_mode.eq(mode)]

    def _xm_source(self, m: Module, pointer: HdlValue, mode: HdlValue) -> None:
        d = self.decoded
        m.d.comb += [d.xm_source.eq(1), d.xm_source_pointer.eq(pointer), d.xm_source_mode.eq(mode)]

    def _wm_result(self, m: Module, pointer: HdlValue, step: HdlValue) -> None:
        d = self.decoded
        m.d.comb += [d.slot.write_wm.eq(1), d.wm_result_pointer.eq(pointer), d.wm_result_step.eq(step)]

    def _xm_result(self, m: Module, pointer: HdlValue, step: HdlValue) -> None:
        d = self.decoded
        m.d.comb += [d.slot.write_xm.eq(1), d.xm_result_pointer.eq(pointer), d.xm_result_step.eq(step)]
