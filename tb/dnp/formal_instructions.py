# mypy: disable-error-code="attr-defined,index"
"""Each instruction, from any state of the registers and any operands, does what the table says (D1, D2, D8).

The registers are filled with arbitrary words through the pipeline itself; then one arbitrary instruction word of the
rows under proof passes decoder and arithmetic pipeline. In the add stage its
result, from the registers as they stand then, is compared with a formula for each row, and so is where it goes: A, RFn,
WM, XM or a port.
"""

from collections.abc import Callable
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Elaboratable, Module, Mux, Signal, signed

from contracts.dnp.config import FRACTION, HIGHEST, LOWEST, WORD
from contracts.dnp.isa import ACCUMULATOR_CLEARED, GENERAL, INSTRUCTIONS, Instruction, Kind
from hw.dnp.arithmetic import EFFECTS, Arithmetic
from hw.dnp.decoder import Decoder
from hw.dnp.isa import Right, Value
from sim.harness.formal import Proof

_SUM = signed(WORD + 3)
#: Products of two words.
_LOWEST_PRODUCT, _HIGHEST_PRODUCT = LOWEST * HIGHEST, LOWEST * LOWEST


class _Operands:
    """Values an instruction may use, as the formulas name them."""

    def __init__(self, row: Instruction, word: Any, a: Any, general: Any, values: dict[str, Any], product: Any) -> None:
        self.product = product
        self.factors: tuple[Any, Any] | None = None
        self.a, self.w, self.x, self.p, self.c = a, values["w"], values["x"], values["p"], values["c"]
        letter = row.letter_of(Kind.GENERAL)
        self.r = general[self._bits(row, word, letter)] if letter else self.a
        source = row.letter_of(Kind.SOURCE, Kind.SOURCE_KEPT)
        self.cleared: Any = 0
        self.s = self.a
        if source:
            code = self._bits(row, word, source)
            chosen = Array([general[code[:3]], self.w, self.x, self.a])
            self.s = chosen[code[4:]]
            self.cleared = code == ACCUMULATOR_CLEARED
        if any(operand.kind is Kind.CLEARED for operand in row.operands):
            self.cleared = 1

    @staticmethod
    def _bits(row: Instruction, word: Any, letter: str) -> Any:
        low, width = row.field(letter)
        return word[low : low + width]


def _sat(m: Module, value: Any) -> Any:
    wide = Signal(_SUM, name="wide")
    m.d.comb += wide.eq(value)
    return Mux(wide > HIGHEST, HIGHEST, Mux(wide < LOWEST, LOWEST, wide))


def _product(o: _Operands, first: Any, second: Any, half: int = 0) -> Any:
    """Note which factors the row wants; their product is any word, the one that the hardware got in its place."""
    o.factors = (first, second)
    return (o.product + half) >> FRACTION


_HALF = 1 << (FRACTION - 1)
_FORMULAS: dict[str, Callable[[_Operands], Any]] = {
    "MADD.WX": lambda o: o.a + _product(o, o.w, o.x),
    "MADD.RX": lambda o: o.a + _product(o, o.r, o.x),
    "MADD.RW": lambda o: o.a + _product(o, o.r, o.w),
    "MSUB.WX": lambda o: o.a - _product(o, o.w, o.x),
    "MSUB.RX": lambda o: o.a - _product(o, o.r, o.x),
    "MSUB.RW": lambda o: o.a - _product(o, o.r, o.w),
    "MUL.WX": lambda o: _product(o, o.w, o.x),
    "MUL.RX": lambda o: _product(o, o.r, o.x),
    "MUL.RW": lambda o: _product(o, o.r, o.w),
    "MUL.RA": lambda o: _product(o, o.r, o.a),
    "MULR.WX": lambda o: _product(o, o.w, o.x, _HALF),
    "MULR.RX": lambda o: _product(o, o.r, o.x, _HALF),
    "MULR.RW": lambda o: _product(o, o.r, o.w, _HALF),
    "MULR.RA": lambda o: _product(o, o.r, o.a, _HALF),
    "UPD": lambda o: o.w + _product(o, o.r, o.x, _HALF),
    "SCL": lambda o: _product(o, o.r, o.w, _HALF),
    "ADD": lambda o: o.a + o.s,
    "SUB": lambda o: o.a - o.s,
    "AND": lambda o: o.a & o.s,
    "OR": lambda o: o.a | o.s,
    "XOR": lambda o: o.a ^ o.s,
    "MOV.A": lambda o: o.s,
    "NOT": lambda o: HIGHEST - o.a,
    "NEG": lambda o: -o.a,
    "SHL": lambda o: (o.a << o.c[:4])[:WORD].as_signed(),
    "SHR": lambda o: o.a >> o.c[:4],
    "LSR": lambda o: (o.a.as_unsigned() >> o.c[:4])[:WORD].as_signed(),
    "MOV.R": lambda o: o.s,
    "MOV.W": lambda o: o.s,
    "MOV.X": lambda o: o.s,
    "MOV.G": lambda o: o.c,
    "LDI": lambda o: o.c,
    "INA": lambda o: o.p,
    "INX": lambda o: o.p,
    "INW": lambda o: o.p,
    "INS": lambda o: o.a + o.p,
    "INSX": lambda o: o.x + o.p,
    "OUTA": lambda o: o.a,
    "OUT": lambda o: o.s,
    "PASS": lambda o: o.p,
    "FWD": lambda o: o.p,
    "OUTS": lambda o: o.x + o.p,
    "OUTS.A": lambda o: o.a + o.p,
}
_MULTIPLYING = tuple(name for name in _FORMULAS if name.partition(".")[0] in ("MADD", "MSUB", "MUL", "MULR"))
_MULTIPLYING += ("UPD", "SCL")
_TO_WM = ("UPD", "SCL", "MOV.W", "INW")
_TO_XM = ("MOV.X", "INX", "INSX", "PASS")
_SENDS = ("OUTA", "OUT", "PASS", "FWD", "OUTS", "OUTS.A")
_RECEIVES = ("INA", "INX", "INW", "INS", "INSX", "PASS", "FWD", "OUTS", "OUTS.A")
#: Clocks until the registers are filled, and until the last of them has left the pipeline.
_FILL, _SETTLE = GENERAL + 1, 4


class InstructionSpec(Elaboratable):
    """Rows of the table against their formulas.

    Parameters
    ----------
    names
        Rows.
    settle
        Clocks between the last of the instructions that fill the registers (it writes RF7) and the one under proof.
    """

    def __init__(self, names: tuple[str, ...], settle: int) -> None:
        self.rows = [row for row in INSTRUCTIONS if row.name in names]
        self.settle = settle

    def elaborate(self, platform: Any) -> Module:
        """Fill, send one instruction, compare."""
        m = Module()
        m.submodules.decoder = decoder = Decoder()
        # The multiplier is left out: its factors are compared, and its result may be anything a product can be.
        factors: list[Any] = []
        product = Signal(signed(2 * WORD))
        m.d.comb += [
            product.eq(AnyConst(2 * WORD)),
            Assume((product >= _LOWEST_PRODUCT) & (product <= _HIGHEST_PRODUCT)),
        ]

        def multiply(one: Any, other: Any) -> Any:
            factors.extend((one, other))
            return product

        dut = Arithmetic(multiply=multiply)
        m.submodules.dut = dut.elaborate(platform)
        dut._MustUse__used = True
        word = Signal(WORD)
        values = {name: Signal(signed(WORD), name=f"value_{name}") for name in "wxpc"}
        initial = [Signal(signed(WORD), name=f"initial_{i}") for i in range(GENERAL + 1)]
        m.d.comb += word.eq(AnyConst(WORD))
        for value in (*values.values(), *initial):
            m.d.comb += value.eq(AnyConst(WORD))
        m.d.comb += [
            decoder.word.eq(word),
            dut.go.eq(1),
            dut.wm_word.eq(values["w"]),
            dut.xm_word.eq(values["x"]),
            *(port_word.eq(values["p"]) for port_word in dut.port_words),
        ]
        begin = _FILL + self.settle
        step = Signal(range(begin + 5))
        with m.If(dut.go & (step != begin + 4)):
            m.d.sync += step.eq(step + 1)
        entry = dut.entry
        with m.If(step < _FILL):
            m.d.comb += [
                entry.valid.eq(1),
                entry.slot.right.eq(Right.VALUE),
                entry.slot.value.eq(Value.CONSTANT),
                entry.slot.write_a.eq(step == 0),
                entry.slot.write_general.eq(step != 0),
                entry.slot.target.eq((step - 1)[:3]),
                entry.constant.eq(Array([initial[GENERAL], *initial[:GENERAL]])[step]),
            ]
        with m.Elif(step == begin):
            m.d.comb += [entry.valid.eq(1), entry.slot.eq(decoder.decoded.slot), entry.constant.eq(values["c"])]
        about_to = step == begin + 3

        general, a = Array(initial[:GENERAL]), initial[GENERAL]
        chosen = []
        for row in self.rows:
            match = Signal(name=f"is_{row.name.replace('.', '_')}")
            pattern = "".join(bit if bit in "01" else "-" for bit in row.pattern)
            m.d.comb += match.eq(word.matches(pattern) & decoder.decoded.defined.any())
            chosen.append(match)
            self._row(m, row, match, dut, word, general, a, values, product=product, factors=factors,
                      multiplying=step == begin + 2, about_to=about_to)  # fmt: skip
            m.d.comb += Cover(match & about_to)
        any_row: Any = 0
        for match in chosen:
            any_row |= match
        m.d.comb += Assume(any_row)
        return m

    def _row(
        self, m: Module, row: Instruction, match: Any, dut: Any, word: Any, general: Any, a: Any,
        values: dict[str, Any], *, product: Any, factors: list[Any], multiplying: Any, about_to: Any,
    ) -> None:  # fmt: skip
        operands = _Operands(row, word, a, general, values, product)
        wanted = Signal(signed(WORD), name=f"wanted_{row.name.replace('.', '_')}")
        m.d.comb += wanted.eq(_sat(m, _FORMULAS[row.name](operands)))
        if operands.factors:
            with m.If(match & multiplying):
                m.d.comb += [Assert(f == w) for f, w in zip(factors, operands.factors, strict=True)]
        slot = dut.last.slot
        target = {"MOV.R": "r", "MOV.G": "a", "LDI": "t"}.get(row.name)
        to_a: Any = row.effect.startswith("A ←")
        to_general: Any = 0
        index: Any = 0
        if target:
            low, width = row.field(target)
            code = word[low : low + width]
            index = code[:3]
            control = code[5] if row.name == "LDI" else 0
            to_a = (code == GENERAL) if row.name != "MOV.R" else 0
            to_general = ~control & (code < GENERAL)
            if row.name == "LDI":
                m.d.comb += Assume(~match | ~code[5])
        with m.If(match & about_to):
            m.d.comb += [
                Assert(dut.last.valid),
                Assert(dut.result == wanted),
                Assert(slot.clear_a == operands.cleared),
                Assert(operands.cleared | (slot.write_a == to_a)),
                Assert(slot.write_general == to_general),
                Assert(~slot.write_general | (slot.target == index)),
                Assert(slot.write_wm == (row.name in _TO_WM)),
                Assert(slot.write_xm == (row.name in _TO_XM)),
                Assert(slot.send == (row.name in _SENDS)),
                Assert(slot.receive == (row.name in _RECEIVES)),
            ]


class StallSpec(Elaboratable):
    """While a port blocks, nothing in the arithmetic pipeline changes; and nothing is done without an instruction."""

    def elaborate(self, platform: Any) -> Module:
        """Feed it anything, and compare what it remembers with the clock before."""
        m = Module()
        m.submodules.dut = dut = Arithmetic()
        m.d.comb += [
            dut.go.eq(AnySeq(1)),
            dut.entry.eq(AnySeq(len(dut.entry.as_value()))),
            dut.wm_word.eq(AnySeq(WORD)),
            dut.xm_word.eq(AnySeq(WORD)),
            *(word.eq(AnySeq(WORD)) for word in dut.port_words),
        ]
        kept = Cat(dut.a, *dut.general, *(flight.as_value() for flight in dut.flights), dut.last.as_value())
        before, registers = Signal(len(kept)), Signal(WORD * (GENERAL + 1))
        went, acted, begun = Signal(), Signal(), Signal()
        m.d.sync += [before.eq(kept), registers.eq(Cat(dut.a, *dut.general))]
        m.d.sync += [went.eq(dut.go), acted.eq(dut.last.valid), begun.eq(1)]
        for stage in (*dut.stages, dut.last):
            effects = Cat(getattr(stage.slot, name) for name in EFFECTS)
            m.d.comb += Assert(stage.valid | ~effects.any())
        m.d.comb += [
            Assert(~begun | went | (kept == before)),
            Assert(~begun | acted | (Cat(dut.a, *dut.general) == registers)),
            Cover(begun & ~went & dut.last.valid),
        ]
        return m


def _proofs() -> list[Proof]:
    groups = {
        "moves_and_ports": tuple(n for n in _FORMULAS if n not in _MULTIPLYING),
        "products": _MULTIPLYING,
    }
    depth = _FILL + _SETTLE + 5
    proofs = []
    for name, rows in groups.items():
        spec = lambda rows=rows: InstructionSpec(rows, _SETTLE)  # noqa: E731
        proofs.append(Proof(f"{name}_do_what_the_table_says", spec, "bmc", depth))
        proofs.append(Proof(f"{name}_are_all_reached", spec, "cover", depth, quick=False))
    at_once = lambda: InstructionSpec(groups["moves_and_ports"], 0)  # noqa: E731
    proofs.append(Proof("moves_see_what_the_one_before_writes", at_once, "bmc", depth - _SETTLE))
    proofs.append(Proof("nothing_moves_in_a_stall", StallSpec, "prove", 2))
    proofs.append(Proof("stalls_with_an_instruction", StallSpec, "cover", 6, quick=False))
    return proofs


PROOFS = _proofs()
