# mypy: disable-error-code="attr-defined,index"
"""The issue stage against the table of instructions: what it sends on, waits for, branches to and does to registers.

The specification is the stage once more, written from the table and the rules of `golden.dnp.instruction_issue`
without the decoder and address generators of the hardware. Words, registers, instructions on their way and stalls are
arbitrary in every clock; all outputs and all registers must agree in every clock, from any state in which the
registers do: by induction, for programs of any length.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Assert, Assume, Const, Cover, Elaboratable, Module, Mux, Signal

from contracts.dnp.config import WORD, pointer_bits
from contracts.dnp.isa import (
    CODES,
    GENERAL,
    INSTRUCTIONS,
    IOPR_CODE,
    REPEAT_BIT,
    SET_TARGETS,
    TABLE_POINTER,
    Control,
    Instruction,
    Kind,
    StopCode,
)
from hw.dnp.arithmetic import flight_layout
from hw.dnp.decoder import Decoder
from hw.dnp.factories import CONFIG
from hw.dnp.instruction_issue import InstructionIssue
from sim.harness.formal import Proof

_BRANCHES = ("BN", "BP", "BZ", "BNZ")
_ISSUE_ONLY = ("NOP", "JMP", "MOV.C", "SET", "LOOP", *_BRANCHES)
#: Flights whose results come too late for the operand stage.
_LATE = 2


def _any(values: Any) -> Any:
    result: Any = Const(0)
    for value in values:
        result |= value
    return result


def _pointer(value: Any, depth: int) -> Any:
    """Return what a pointer keeps: an address of the memory, or that it lies beyond and its low bits."""
    inside = 1 << (pointer_bits(depth) - 1)
    return Mux(value < inside, value, inside | (value & (inside - 1)))


def _port(word: "_Word", letter: str, row: Instruction) -> Any:
    """Bits of a port operand, if the row has one of this letter."""
    has = any(operand.letter == letter and operand.kind is Kind.PORT for operand in row.operands)
    return (1, word.bits(row, letter)) if has else None


def _source(word: "_Word", kind: Kind, source_code: int, row: Instruction) -> Any:
    """Condition and operand bits (pointer, mode) of a source operand in one of the memories."""
    letter = row.letter_of(kind)
    if letter:
        return 1, word.bits(row, letter)
    letter = row.letter_of(Kind.WM_BOTH) if kind is Kind.WM_SOURCE else None
    if letter:
        both = word.bits(row, letter)
        return 1, (both[1:] << 2) | both[0]
    letter = row.letter_of(Kind.SOURCE, Kind.SOURCE_KEPT)
    if letter:
        code = word.bits(row, letter)
        return code[4:] == source_code, code[:4]
    return None


def _named(word: "_Word", kinds: tuple[Kind, ...], row: Instruction) -> Any:
    """Bits of an operand of one of these kinds, if the row has one."""
    letter = row.letter_of(*kinds)
    return (1, word.bits(row, letter)) if letter else None


def _factor(word: "_Word", row: Instruction) -> Any:
    """Bits of a general register that is a factor, if the row has one."""
    return None if row.name == "MOV.R" else _named(word, (Kind.GENERAL,), row)


class _Word:
    """What the table says about an instruction word."""

    def __init__(self, m: Module, word: Any) -> None:
        self.word = word
        self.rows: dict[str, Any] = {}
        for row in INSTRUCTIONS:
            match = Signal(name=f"is_{row.name.replace('.', '_')}")
            fixed = word.matches("".join(bit if bit in "01" else "-" for bit in row.pattern))
            for operand in row.operands:
                if operand.letter and operand.kind in CODES:
                    fixed &= self.bits(row, operand.letter).matches(*sorted(CODES[operand.kind]))
            m.d.comb += match.eq(fixed)
            self.rows[row.name] = match
        self.defined = _any(self.rows.values())

    def bits(self, row: Instruction, letter: str) -> Any:
        """Bits of an operand."""
        low, width = row.field(letter)
        return self.word[low : low + width]

    def named(self, *names: str) -> Any:
        """Whether it is one of these rows."""
        return _any(self.rows[name] for name in names)

    def choose(self, m: Module, name: str, width: int, pick: Callable[[Instruction], Any]) -> tuple[Signal, Signal]:
        """Return whether `pick` finds something in the row, and what: pairs of condition and value, or ``None``."""
        there, value = Signal(name=f"{name}_there"), Signal(width, name=name)
        for row in INSTRUCTIONS:
            found = pick(row)
            if found is not None:
                with m.If(self.rows[row.name] & found[0]):
                    m.d.comb += [there.eq(1), value.eq(found[1])]
        return there, value


class IssueSpec(Elaboratable):
    """The stage and its specification side by side."""

    def elaborate(self, platform: Any) -> Module:
        """Drive both with anything, compare everything."""
        m = Module()
        dut = InstructionIssue(CONFIG)
        m.submodules.dut = dut
        m.d.comb += [dut.go.eq(AnySeq(1)), dut.p_word.eq(AnySeq(WORD)), dut.a.eq(AnySeq(WORD))]
        m.d.comb += [register.eq(AnySeq(WORD)) for register in dut.general]
        # Registers are read back while the processor stands still, which it does then until the next start.
        stood = Signal()
        m.d.comb += [dut.looking.eq(AnySeq(1)), dut.place.eq(AnySeq(len(dut.place)))]
        m.d.comb += Assume(~dut.go | ~(dut.looking | stood))
        with m.If(dut.looking):
            m.d.sync += stood.eq(1)
        # Stages that have any instructions at first, and then those that were issued.
        slot = dut.entry.slot
        entering = Signal(flight_layout(CONFIG))
        m.d.comb += [
            entering.writes_a.eq(dut.entry.valid & (slot.write_a | slot.clear_a)),
            entering.writes_general.eq(dut.entry.valid & slot.write_general),
            entering.target.eq(slot.target),
            entering.writes_wm.eq(dut.entry.valid & slot.write_wm),
            entering.writes_xm.eq(dut.entry.valid & slot.write_xm),
            entering.wm_address.eq(dut.entry.wm_address),
            entering.xm_address.eq(dut.entry.xm_address),
        ]
        before = entering
        for number, flight in enumerate(dut.flights):
            stage = Signal(flight_layout(CONFIG), name=f"stage_{number}")
            m.d.comb += [
                flight.eq(stage),
                Assert(~stage.writes_wm | (stage.wm_address < CONFIG.wm_depth)),
                Assert(~stage.writes_xm | (stage.xm_address < CONFIG.xm_depth)),
            ]
            with m.If(dut.go):
                m.d.sync += stage.eq(before)
            before = stage
        self._specify(m, dut, stood)
        return m

    def _specify(self, m: Module, dut: InstructionIssue, stood: Signal) -> None:
        # Words on their way: at the memory's output, before the decoder, in the stage; the first of two is kept.
        at = [Signal(pointer_bits(CONFIG.p_depth), name=f"at_{i}") for i in range(3)]
        wanted, fetched, second, stopping = (Signal(name=n) for n in ("wanted", "fetched", "second", "stopping"))
        raw, current, instruction = (Signal(WORD, name=n) for n in ("raw", "current", "instruction"))
        control = [Signal(WORD, name=f"control_{c.name}") for c in Control]
        repeating, remaining = Signal(), Signal(WORD)
        began = {memory: Signal(WORD, name=f"began_{memory}") for memory in "wx"}
        word = _Word(m, instruction)
        defined = word.defined
        live, outside = Signal(), Signal()
        m.d.comb += [live.eq(dut.go & fetched & ~stopping), outside.eq(at[2] >= CONFIG.p_depth)]
        first_half = live & defined & ~outside & ~second & word.named("LDI", "JMP")

        repeat = instruction[REPEAT_BIT] & ~second
        count, skip, last = Signal(WORD), Signal(), Signal()
        m.d.comb += [
            count.eq(Mux(repeating, remaining, control[Control.RC])),
            skip.eq(repeat & (count == 0)),
            last.eq(~repeat | (count <= 1)),
        ]

        reads, writes, address, result = {}, {}, {}, {}
        mode, step = {}, {}
        pointers = {"w": (Control.WA0, Control.WR0), "x": (Control.XA0, Control.XR0)}
        kinds = {"w": (Kind.WM_SOURCE, 1, (Kind.WM_RESULT, Kind.WM_BOTH)), "x": (Kind.XM_SOURCE, 2, (Kind.XM_RESULT,))}
        for memory, (source_base, result_base) in pointers.items():
            kind, code, results = kinds[memory]
            reads[memory], operand = word.choose(m, f"source_{memory}", 4, partial(_source, word, kind, code))
            writes[memory], target = word.choose(
                m,
                f"result_{memory}",
                3,
                partial(_named, word, results),
            )
            address[memory] = Array(control[source_base : source_base + 4])[operand[2:]]
            result[memory] = Array(control[result_base : result_base + 4])[target[1:]]
            mode[memory], step[memory] = (operand[2:], operand[:2]), (target[1:], target[0])

        # What must have been written before.
        needs_factor, factor = word.choose(m, "factor", 3, partial(_factor, word))
        moved = next(row for row in INSTRUCTIONS if row.name == "MOV.C")
        needed = Mux(word.named("MOV.C"), word.bits(moved, "a"), GENERAL)
        needs = word.named("MOV.C", *_BRANCHES)
        pending, registers = Signal(), Signal()
        awaited: Any = 0
        in_memory: Any = 0
        for number, flight in enumerate(dut.flights):
            to_needed = Mux(needed[3], flight.writes_a, flight.writes_general & (flight.target == needed[:3]))
            awaited |= needs & to_needed
            if number < _LATE:
                awaited |= needs_factor & flight.writes_general & (flight.target == factor)
                awaited |= word.named("MUL.RA", "MULR.RA") & flight.writes_a
            in_memory |= reads["w"] & flight.writes_wm & (flight.wm_address == address["w"])
            in_memory |= reads["x"] & flight.writes_xm & (flight.xm_address == address["x"])
        m.d.comb += [registers.eq(awaited), pending.eq(awaited | in_memory)]
        depths = {"w": CONFIG.wm_depth, "x": CONFIG.xm_depth}
        beyond = {
            memory: (reads[memory] & (address[memory] >= depth)) | (writes[memory] & (result[memory] >= depth))
            for memory, depth in depths.items()
        }
        considered = defined & ~outside & ~second & ~skip
        ready, stop, act, does = (Signal(name=n) for n in ("ready", "stop", "act", "does"))
        bad = considered & (beyond["w"] | beyond["x"])
        m.d.comb += [
            ready.eq(live & ~first_half & ~(considered & pending)),
            stop.eq(ready & (outside | ~defined | word.named("HALT") | bad)),
            act.eq(ready & ~stop),
            does.eq(act & ~skip),
        ]
        code, cause, place = Signal(StopCode), Signal(StopCode), Signal(WORD)
        with m.If(outside):
            m.d.comb += code.eq(StopCode.PC_RANGE)
        with m.Elif(~defined):
            m.d.comb += code.eq(StopCode.OPCODE)
        with m.Elif(bad):
            m.d.comb += code.eq(Mux(beyond["w"], StopCode.WM_RANGE, StopCode.XM_RANGE))

        taken, target = self._branches(m, dut, word, control, act=act, second=second, at=at[2], current=current)
        advance = (dut.go & ~fetched) | first_half | (act & last)
        following = (at[0] + 1)[: len(at[0])]
        m.d.comb += [
            Assert(dut.issued == does),
            # A processor that stops may fetch once more.
            Assert(stop | stopping | (dut.p_enable == advance)),
            Assert(stopping | ~advance | (dut.p_address == Mux(taken, target, following))),
            Assert(~dut.go | (dut.entry.stop == stop)),
            Assert((dut.stop == cause) & (dut.stop_pc == place)),
        ]
        with m.If(advance):
            m.d.sync += [at[2].eq(at[1]), at[1].eq(at[0]), at[0].eq(Mux(taken, target, following))]
            m.d.sync += [raw.eq(dut.p_word), current.eq(raw), wanted.eq(~taken), fetched.eq(wanted & ~taken)]
            with m.If(~first_half):
                m.d.sync += instruction.eq(raw)
        with m.If(live):
            m.d.sync += second.eq(first_half)
        with m.If(stop):
            m.d.sync += [stopping.eq(1), cause.eq(code), place.eq(at[2])]
        with m.If(does & repeat):
            m.d.sync += remaining.eq(count - 1)
        with m.If(act):
            m.d.sync += repeating.eq(repeat & ~last)

        self._registers(m, dut, word, control, does=does, act=act, second=second, current=current)
        for memory, stride, past in (("w", control[Control.ICR], 1), ("x", 1, 0)):
            source_base, result_base = pointers[memory]
            start = Mux(repeating, began[memory], address[memory])
            (which, kind), (written, steps) = mode[memory], step[memory]
            with m.If(does & ~second & reads[memory]):
                m.d.sync += began[memory].eq(start)
                with m.Switch(which):
                    for index in range(4):
                        with m.Case(index):
                            register = control[source_base + index]
                            with m.If((kind == 2) & last):
                                m.d.sync += register.eq(_pointer((start + past)[:WORD], depths[memory]))
                            with m.Elif(kind != 0):
                                m.d.sync += register.eq(_pointer((register + stride)[:WORD], depths[memory]))
            with m.If(does & ~second & writes[memory] & steps):
                with m.Switch(written):
                    for index in range(4):
                        with m.Case(index):
                            register = control[result_base + index]
                            m.d.sync += register.eq(_pointer((register + stride)[:WORD], depths[memory]))
        for found, wanted_value in zip(dut.control(), control, strict=True):
            m.d.comb += Assert(found == wanted_value)
        looked, named = Signal(), Signal.like(dut.place)
        m.d.sync += [looked.eq(dut.looking), named.eq(dut.place)]
        read = Mux(named[-1], Array(dut.general)[named[:3]], dut.a)
        m.d.comb += [
            Assert(~looked | stood),
            Assert(~looked | (dut.register_found == read.as_unsigned())),
            Assert(~looked | (named >= len(Control)) | (dut.control_found == Array(control)[named])),
        ]
        m.submodules.reference = reference = Decoder()
        m.d.comb += reference.word.eq(instruction)
        memories = {"w": dut.wm, "x": dut.xm}
        # Where a processor that stands still would go on means nothing.
        m.d.comb += [
            Assert(stopping | (dut.pc_fetch == at[0])),
            Assert(stopping | ~wanted | ((dut.pc_read == at[1]) & (dut.raw == raw))),
            Assert(stopping | ~fetched | ((dut.pc == at[2]) & (dut.word == current))),
            Assert(stopping | stood | ~fetched | (dut.decoded.as_value() == reference.decoded.as_value())),
            Assert(stopping | ~fetched | second | ~defined | (dut.register_pending == registers)),
            Assert(stopping | (dut.read == wanted)),
            Assert(stopping | (dut.fetched == fetched)),
            Assert(stopping | (dut.second == second)),
            Assert(stopping | ~fetched | (dut.outside == outside)),
            Assert(dut.repeating == repeating),
            Assert(~repeating | (dut.remaining == remaining)),
            Assert(dut.stopping == stopping),
            *(Assert(stopping | ~repeating | ~reads[x] | (memories[x].began == began[x])) for x in "wx"),
            Assert(dut.rc_none == (control[Control.RC] == 0)),
            Assert(dut.rc_short == (control[Control.RC] <= 1)),
            *(
                Assert(stopping | ~fetched | ~reads[x] | second | (memories[x].source_address == address[x]))
                for x in "wx"
            ),
            *(
                Assert(stopping | ~fetched | ~writes[x] | second | (memories[x].result_address == result[x]))
                for x in "wx"
            ),
            # What can be said about all states that are reached, until the processor stands still.
            Assert(~fetched | wanted),
            Assert(~fetched | second | stopping | (current == instruction)),
            Assert(~second | stopping | (fetched & defined & word.named("LDI", "JMP"))),
            Assert(~repeating | stopping | (fetched & instruction[REPEAT_BIT] & ~second & (remaining != 0))),
            Assert(~repeating | stopping | (dut.ending == (remaining <= 1))),
        ]
        self._sent(m, dut, word, control, does=does, second=second, current=current,
                   reads=reads, writes=writes, address=address, result=result)  # fmt: skip
        m.d.comb += [
            Cover(does & second & taken),
            Cover(does & word.named("BZ") & taken),
            Cover(does & word.named("LOOP") & ~taken),
            Cover(does & repeating & last & word.named("MADD.WX") & (mode["w"][1] == 2)),
            Cover(live & considered & pending & reads["w"]),
            Cover(live & considered & pending & needs_factor),
            Cover(act & skip),
            *(Cover(stop & (code == stop_code)) for stop_code in StopCode),
        ]

    def _branches(
        self,
        m: Module,
        dut: InstructionIssue,
        word: _Word,
        control: list[Signal],
        *,
        act: Any,
        second: Any,
        at: Any,
        current: Any,
    ) -> tuple[Any, Signal]:
        """Return whether the instruction branches, and where to (D5)."""
        rows = {row.name: row for row in INSTRUCTIONS}
        target, left = Signal(pointer_bits(CONFIG.p_depth), name="target"), Signal(WORD, name="left")
        loop = rows["LOOP"]
        m.d.comb += left.eq(Mux(word.bits(loop, "l"), control[Control.LC1], control[Control.LC0]) - 1)
        holds = (
            (word.named("BN") & (dut.a < 0))
            | (word.named("BP") & (dut.a >= 0))
            | (word.named("BZ") & (dut.a == 0))
            | (word.named("BNZ") & (dut.a != 0))
        )
        away = Signal(WORD, name="away")
        m.d.comb += [
            away.eq(at + word.bits(rows["BN"], "o").as_signed()),
            target.eq(_pointer(away, CONFIG.p_depth)),
        ]
        with m.If(word.named("LOOP")):
            m.d.comb += away.eq(at + word.bits(loop, "o").as_signed())
        with m.If(word.named("JMP")):
            m.d.comb += away.eq(current)
        taken = act & Mux(second, word.named("JMP"), holds | (word.named("LOOP") & (left != 0)))
        with m.If(act & word.named("LOOP")):
            with m.If(word.bits(loop, "l")):
                m.d.sync += control[Control.LC1].eq(left)
            with m.Else():
                m.d.sync += control[Control.LC0].eq(left)
        return taken, target

    def _registers(
        self,
        m: Module,
        dut: InstructionIssue,
        word: _Word,
        control: list[Signal],
        *,
        does: Any,
        act: Any,
        second: Any,
        current: Any,
    ) -> None:
        """SET, MOV to a control register and LDI of one; WA3 and IOPR take what they are given in their own way."""
        rows = {row.name: row for row in INSTRUCTIONS}
        value, which, stores = Signal(WORD, name="loaded"), Signal(5, name="loaded_register"), Signal(name="stores")
        code = word.bits(rows["MOV.C"], "a")
        target = word.bits(rows["LDI"], "t")
        with m.If(word.named("SET")):
            targets = Array([int(c) for c in SET_TARGETS])
            m.d.comb += [stores.eq(does), which.eq(targets[word.bits(rows["SET"], "e")])]
            m.d.comb += value.eq(word.bits(rows["SET"], "i"))
        with m.Elif(word.named("MOV.C")):
            m.d.comb += [stores.eq(does), which.eq(word.bits(rows["MOV.C"], "c"))]
            m.d.comb += value.eq(Mux(code[3], dut.a, Array(dut.general)[code[:3]]))
        with m.Elif(word.named("LDI")):
            m.d.comb += [stores.eq(act & second & target[5]), which.eq(target[:5]), value.eq(current)]
        for register, signal in zip(Control, control, strict=True):
            given: Any = value
            if register == TABLE_POINTER:
                given = control[Control.TB] + ((value + (1 << (WORD - 1)))[:WORD] >> (WORD - CONFIG.table_bits))
            if register == Control.IOPR:
                given = value & 3
            if register <= Control.WR3:
                given = _pointer(given[:WORD], CONFIG.wm_depth)
            elif register <= Control.XR3:
                given = _pointer(given[:WORD], CONFIG.xm_depth)
            with m.If(stores & (which == int(register))):
                m.d.sync += signal.eq(given)

    def _sent(
        self, m: Module, dut: InstructionIssue, word: _Word, control: list[Signal], *,
        does: Any, second: Any, current: Any,
        reads: dict[str, Any], writes: dict[str, Any], address: dict[str, Any], result: dict[str, Any],
    ) -> None:  # fmt: skip
        """Compare what enters the arithmetic pipeline."""
        rows = {row.name: row for row in INSTRUCTIONS}
        entry = dut.entry
        target = word.bits(rows["LDI"], "t")
        stays = word.named(*_ISSUE_ONLY) | (word.named("LDI") & target[5])
        with m.If(does):
            m.d.comb += Assert(entry.valid == ~stays)
        with m.Elif(dut.go):
            m.d.comb += Assert(~entry.valid)
        with m.If(does & ~stays):
            m.d.comb += [
                Assert(~reads["w"] | second | (dut.wm_address == address["w"])),
                Assert(~reads["x"] | second | (dut.xm_address == address["x"])),
                Assert(second | (entry.slot.write_wm == writes["w"])),
                Assert(second | (entry.slot.write_xm == writes["x"])),
                Assert(~writes["w"] | second | (entry.wm_address == result["w"])),
                Assert(~writes["x"] | second | (entry.xm_address == result["x"])),
                Assert(~word.named("LDI") | (entry.constant == current.as_signed())),
                Assert(~word.named("SHL", "SHR", "LSR") | (entry.constant[:4] == word.word[:4])),
                Assert(
                    ~word.named("MOV.G") | (entry.constant == Array(control)[word.bits(rows["MOV.G"], "c")].as_signed())
                ),
            ]
            for letter, name in (("p", "receive"), ("q", "send")):
                there, code = word.choose(m, f"port_{letter}", 3, partial(_port, word, letter))
                port = getattr(entry.slot, f"{name}_port")
                m.d.comb += [
                    Assert(getattr(entry.slot, name) == there),
                    Assert(~there | (port == Mux(code == IOPR_CODE, control[Control.IOPR], code)[:2])),
                ]


PROOFS = [
    Proof("agrees_with_the_table", IssueSpec, "prove", 1),
    Proof("reaches_what_it_is_about", IssueSpec, "cover", 11, quick=False),
]
