# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""Instruction decoder, built row by row from the table of instructions."""

from itertools import combinations
from typing import Any

from amaranth.hdl import Cat, Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD
from contracts.dnp.isa import CODES, GENERAL, INSTRUCTIONS, REPEAT_BIT, SET_TARGETS, Instruction, Kind, Operand
from hw.dnp.isa import DEFINED_PARTS, Decoded, Left, Logic, Multiplicand, Multiplier, Right, Value

__all__ = ["Decoder"]

#: Bit of an LDI target that is set for control registers.
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
    "NOT": {"left": Left.ONE, "right": Right.REGISTER, "subtract": 1},
    "NEG": {"left": Left.ZERO, "right": Right.REGISTER, "subtract": 1},
    "SHL": {"logic": Logic.SHL},
    "SHR": {"logic": Logic.SHR},
    "LSR": {"logic": Logic.LSR},
    "MOV.G": {"right": Right.VALUE},
    "LDI": {"right": Right.VALUE},
    "INA": {"right": Right.PORT},
    "INX": {"right": Right.PORT},
    "INW": {"right": Right.PORT},
    "INS": {"left": Left.A, "right": Right.PORT},
    "INSX": {"left": Left.VALUE, "value": Value.XM, "right": Right.PORT},
    "OUTA": {"right": Right.REGISTER},
    "PASS": {"right": Right.PORT},
    "FWD": {"right": Right.PORT},
    "OUTS": {"left": Left.VALUE, "value": Value.XM, "right": Right.PORT},
    "OUTS.A": {"left": Left.A, "right": Right.PORT, "clear_a": 1},
}
_ISSUE_ONLY = ("NOP", "JMP", "SET", "LOOP", "BN", "BP", "BZ", "BNZ", "MOV.C")
_BRANCHES = ("BN", "BP", "BZ", "BNZ")
_PRODUCTS = ("MADD", "MSUB", "MUL", "MULR", "UPD", "SCL")
_OPCODE = 0b11111 << 10


def _telling_bits() -> dict[str, int]:
    """Return, for every row, a mask of the fixed bits that distinguish it from all others: its opcode and some more."""
    telling = {row.name: row.mask & _OPCODE for row in INSTRUCTIONS}
    for row, other in combinations(INSTRUCTIONS, 2):
        differing = (row.match ^ other.match) & row.mask & other.mask
        if not differing & telling[row.name] & telling[other.name]:
            highest = 1 << (differing.bit_length() - 1)
            telling[row.name] |= highest
            telling[other.name] |= highest
    return telling


def _pattern(row: Instruction, bits: int) -> str:
    """Return a pattern of the fixed bits of a row that are set in `bits`."""
    return "".join(row.pattern[WORD - 1 - at] if bits >> at & 1 else "-" for at in reversed(range(WORD)))


def _fields(row: Instruction, operand: Operand) -> dict[str, tuple[int, int]]:
    """Fields that are bits of an operand: lowest bit and width in the word; ``slot`` fields with a dot."""
    low, width = row.field(operand.letter)
    match operand.kind:
        case Kind.WM_SOURCE | Kind.XM_SOURCE:
            memory = "wm" if operand.kind is Kind.WM_SOURCE else "xm"
            return {f"{memory}_source_mode": (low, 2), f"{memory}_source_pointer": (low + 2, 2)}
        case Kind.WM_RESULT | Kind.XM_RESULT:
            memory = "wm" if operand.kind is Kind.WM_RESULT else "xm"
            return {f"{memory}_result_step": (low, 1), f"{memory}_result_pointer": (low + 1, 2)}
        case Kind.WM_BOTH:
            places = {"wm_source_mode": (low, 1), "wm_source_pointer": (low + 1, 2)}
            return places | {"wm_result_step": (low, 1), "wm_result_pointer": (low + 1, 2)}
        case Kind.SOURCE | Kind.SOURCE_KEPT:
            modes = {f"{memory}_source_mode": (low, 2) for memory in ("wm", "xm")}
            return modes | {f"{memory}_source_pointer": (low + 2, 2) for memory in ("wm", "xm")}
        case Kind.GENERAL:
            return {"slot.target" if row.name == "MOV.R" else "slot.factor": (low, width)}
        case Kind.SCALAR:
            return {"needed_register": (low, width)} if row.name == "MOV.C" else {"slot.target": (low, width - 1)}
        case Kind.TARGET:
            return {"slot.target": (low, GENERAL.bit_length() - 1), "control": (low, _CONTROL_TARGET_BIT)}
        case Kind.CONTROL:
            return {"control": (low, width)}
        case Kind.PORT:
            name = "send" if operand.letter == "q" else "receive"
            return {f"{name}_code": (low, width), f"slot.{name}_port": (low, width - 1)}
    return {}


class Decoder(wiring.Component):
    """Instruction word to control signals, without a register.

    Flags are decoded from as few bits as distinguish the rows, and operands are taken from the place that most rows
    use, which keeps the path from the program memory short. All other bits are checked in parallel, as ``defined``. A
    field that a row does not use is arbitrary.
    """

    #: Instruction word.
    word: In(unsigned(WORD))
    #: Its control signals.
    decoded: Out(Decoded)

    def elaborate(self, platform: Any) -> Module:
        """Emit flags, operands, and whether the word is defined."""
        m = Module()
        telling = _telling_bits()
        m.d.comb += self.decoded.repeat.eq(self.word[REPEAT_BIT])
        self._operands(m, telling)
        with m.Switch(self.word):
            for row in INSTRUCTIONS:
                with m.Case(_pattern(row, telling[row.name])):
                    self._row(m, row)
        defined: list[Any] = [0] * DEFINED_PARTS
        for row in INSTRUCTIONS:
            allowed: Any = self.word.matches(_pattern(row, row.mask))
            for operand in row.operands:
                if operand.letter and operand.kind in CODES:
                    low, width = row.field(operand.letter)
                    allowed &= self.word[low : low + width].matches(*sorted(CODES[operand.kind]))
            defined[row.match >> (REPEAT_BIT - 2)] |= allowed
        m.d.comb += self.decoded.defined.eq(Cat(defined))
        return m

    def _operands(self, m: Module, telling: dict[str, int]) -> None:
        """Take every field from where most rows have it, and in the other rows from elsewhere."""
        places: dict[str, dict[tuple[int, int], list[str]]] = {}
        for row in INSTRUCTIONS:
            for operand in row.operands:
                if operand.letter:
                    for name, place in _fields(row, operand).items():
                        rows = places.setdefault(name, {}).setdefault(place, [])
                        rows.append(_pattern(row, telling[row.name]))
        for name, found in places.items():
            in_slot = name.startswith("slot.")
            field = getattr(self.decoded.slot if in_slot else self.decoded, name.removeprefix("slot."))
            usual, *others = sorted(found, key=lambda place: -len(found[place]))
            m.d.comb += field.eq(self.word[usual[0] : sum(usual)])
            for place in others:
                with m.If(self.word.matches(*found[place])):
                    m.d.comb += field.eq(self.word[place[0] : sum(place)])
        # Source codes 11.... are A.
        m.d.comb += self.decoded.slot.register.eq(Cat(self.word[:3], self.word[5]))

    def _row(self, m: Module, row: Instruction) -> None:
        d = self.decoded
        for field, value in _ADD_STAGE.get(row.name, _ADD_STAGE.get(row.mnemonic, {})).items():
            m.d.comb += getattr(d.slot, field).eq(value)
        if row.mnemonic in _PRODUCTS:
            form = row.name.partition(".")[2]
            if row.letter_of(Kind.GENERAL):
                m.d.comb += [d.slot.multiplicand.eq(Multiplicand.GENERAL), d.needs_factor.eq(1)]
            if form:
                m.d.comb += [d.slot.multiplier.eq(_MULTIPLIERS[form]), d.needs_a.eq(form == "RA")]
        m.d.comb += [
            d.two_words.eq(row.words > 1),
            d.issue_only.eq(row.name in _ISSUE_ONLY),
            d.branch.eq(row.name in _BRANCHES),
            d.loop.eq(row.name == "LOOP"),
            d.jump.eq(row.name == "JMP"),
            d.halt.eq(row.name == "HALT"),
            d.byte.eq(row.name == "SET"),
            d.write_control.eq(row.name in ("SET", "MOV.C")),
            d.read_control.eq(row.name == "MOV.G"),
            d.slot.write_a.eq(row.effect.startswith("A ←")),
        ]
        if row.name in (*_BRANCHES, "MOV.C"):
            m.d.comb += d.needs_register.eq(1)
        if row.name in _BRANCHES:
            m.d.comb += d.needed_register.eq(GENERAL)
        for operand in row.operands:
            if operand.letter:
                low, width = row.field(operand.letter)
                self._operand(m, row, operand, self.word[low : low + width])

    def _operand(self, m: Module, row: Instruction, operand: Operand, bits: Any) -> None:
        d, slot = self.decoded, self.decoded.slot
        match operand.kind:
            case Kind.GENERAL if row.name == "MOV.R":
                m.d.comb += slot.write_general.eq(1)
            case Kind.WM_SOURCE:
                m.d.comb += d.wm_source.eq(1)
            case Kind.XM_SOURCE:
                m.d.comb += d.xm_source.eq(1)
            case Kind.WM_RESULT:
                m.d.comb += slot.write_wm.eq(1)
            case Kind.XM_RESULT:
                m.d.comb += slot.write_xm.eq(1)
            case Kind.WM_BOTH:
                m.d.comb += [d.wm_source.eq(1), slot.write_wm.eq(1)]
            case Kind.SOURCE | Kind.SOURCE_KEPT:
                self._source(m, bits)
            case Kind.SCALAR if row.name != "MOV.C":
                m.d.comb += [slot.write_a.eq(bits[-1]), slot.write_general.eq(~bits[-1])]
            case Kind.TARGET:
                to_control, to_a = bits[_CONTROL_TARGET_BIT], bits[GENERAL.bit_length() - 1]
                m.d.comb += [d.write_control.eq(to_control), d.issue_only.eq(to_control)]
                m.d.comb += [slot.write_a.eq(to_a), slot.write_general.eq(~to_a)]
            case Kind.SET_TARGET:
                with m.Switch(bits):
                    for code, control in enumerate(SET_TARGETS):
                        with m.Case(code):
                            m.d.comb += d.control.eq(int(control))
            case Kind.PORT if operand.letter == "q":
                m.d.comb += slot.send.eq(1)
            case Kind.PORT:
                m.d.comb += slot.receive.eq(1)

    def _source(self, m: Module, bits: Any) -> None:
        d, slot = self.decoded, self.decoded.slot
        from_wm, from_xm = bits[4:6] == 1, bits[4:6] == 2
        m.d.comb += [
            slot.right.eq(Right.REGISTER),
            slot.value.eq(Value.WM),
            d.wm_source.eq(from_wm),
            d.xm_source.eq(from_xm),
            slot.clear_a.eq(bits[4:6].all() & bits[0]),
        ]
        with m.If(from_wm | from_xm):
            m.d.comb += slot.right.eq(Right.VALUE)
        with m.If(bits[5]):
            m.d.comb += slot.value.eq(Value.XM)
