"""Programs of every instruction with every value of every operand, in straight lines that no error ends.

Pointers, strides and registers hold words of all bits. Before an instruction uses a pointer that may lie outside its
memory, the pointer is sent through a port, which shows all its bits, and loaded anew.
"""

import random
from itertools import count

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import (
    CODES,
    GENERAL,
    INSTRUCTIONS,
    PORTS,
    REPEAT_BIT,
    SET_TARGETS,
    TABLE_POINTER,
    Control,
    Instruction,
    Kind,
)
from golden.dnp.decode import NONE, Trait, traits

__all__ = ["dense_programs", "instruction"]

#: Rows that leave a straight line.
_LEAVING = {"HALT", "JMP", "BN", "BP", "BZ", "BNZ", "LOOP"}
_ROWS = {row.name: row for row in INSTRUCTIONS}
#: Most passes of a repetition, and largest stride of one.
_MOST_PASSES, _MOST_STRIDE = 5, 40
#: Words for an instruction and all it may need before it; bytes of SET that are tried.
_ROOM, _BYTES = 48, 12
#: Words that leave every register with a word of its own.
_LAST = 2 * (len(Control) + GENERAL + 1)
_CONTROL_TARGET = 32
_SOURCES = (
    (Trait.WM_SOURCE, Control.WA0, "W"),
    (Trait.WM_RESULT, Control.WR0, "W"),
    (Trait.XM_SOURCE, Control.XA0, "X"),
    (Trait.XM_RESULT, Control.XR0, "X"),
)


def instruction(name: str, **bits: int) -> int:
    """Word of a row with operand bits by letter."""
    row, word = _ROWS[name], _ROWS[name].match
    for letter, value in bits.items():
        word |= value << row.field(letter)[0]
    return word


def _codes(row: Instruction, kind: Kind, letter: str, rng: random.Random) -> list[int]:
    codes = sorted(CODES.get(kind, range(1 << row.field(letter)[1])))
    return rng.sample(codes, _BYTES) if kind is Kind.BYTE else rng.sample(codes, len(codes))


def _words(rng: random.Random) -> list[int]:
    """Words in which every operand of every row has each of its values."""
    words = []
    for row in INSTRUCTIONS:
        if row.name in _LEAVING:
            continue
        fields = {o.letter: _codes(row, o.kind, o.letter, rng) for o in row.operands if o.letter}
        for turn in range(max([2, *map(len, fields.values())])):
            # Each value once, in an order of each field's own, then any.
            bits = {letter: codes[turn] if turn < len(codes) else rng.choice(codes) for letter, codes in fields.items()}
            words.append(instruction(row.name, **bits) | (row.repeatable and rng.random() < 0.5) << REPEAT_BIT)
    rng.shuffle(words)
    return words


class _Writer:
    """Writes one program and knows what its pointers are."""

    def __init__(self, rng: random.Random, config: ProcessorConfig) -> None:
        self.rng, self.config = rng, config
        self.words: list[int] = []
        self.values: dict[int, int | None] = dict.fromkeys(Control, 0)

    def load(self, target: int, value: int) -> None:
        """LDI, with what it does to control registers."""
        self.words += [instruction("LDI", t=target), value & 0xFFFF]
        if target >= _CONTROL_TARGET:
            self.note(target - _CONTROL_TARGET, value & 0xFFFF)

    def note(self, control: int, value: int | None) -> None:
        """Take note of what a control register is given."""
        if control == TABLE_POINTER:
            table = self.values[Control.TB]
            value = None if value is None or table is None else (table + self.entry(value)) & 0xFFFF
        self.values[control] = value

    def entry(self, value: int) -> int:
        """Index of a value's table entry (D8)."""
        return (value ^ 0x8000) >> (16 - self.config.table_bits)

    def place(self, pointer: int, value: int) -> None:
        """Show a pointer and load it."""
        self.words.append(instruction("MOV.G", c=pointer, a=GENERAL))
        self.words.append(instruction("OUTA", q=self.rng.randrange(len(PORTS))))
        if pointer == TABLE_POINTER:
            index = self.rng.getrandbits(16)
            self.load(_CONTROL_TARGET + Control.TB, value - self.entry(index))
            self.load(_CONTROL_TARGET + pointer, index)
        else:
            self.load(_CONTROL_TARGET + pointer, value)

    def registers(self) -> None:
        """Give a register, and now and then the stride, a word of any bits."""
        rng = self.rng
        self.load(rng.randrange(GENERAL + 1), rng.getrandbits(16))
        if rng.random() < 0.3:
            self.load(_CONTROL_TARGET + Control.ICR, rng.getrandbits(16))

    def run(self, word: int) -> None:
        """Write an instruction with all it needs."""
        rng, t = self.rng, traits()[word]
        row = INSTRUCTIONS[t[Trait.ROW]]
        repeated = t[Trait.REPEAT] == 1
        if repeated:
            passes = self.values[Control.RC]
            if passes is None or passes > _MOST_PASSES or rng.random() < 0.3:
                self.set(Control.RC, rng.randrange(_MOST_PASSES + 1))
        passes = self.values[Control.RC] if repeated else 1
        assert passes is not None
        steps_wm = any(t[trait] != NONE and t[trait + 1] > 0 for trait in (Trait.WM_SOURCE, Trait.WM_RESULT))
        icr = self.values[Control.ICR]
        if steps_wm and passes > 1 and (icr is None or icr > _MOST_STRIDE):
            self.set(Control.ICR, rng.randrange(_MOST_STRIDE + 1))
        used = []
        for trait, base, memory in _SOURCES:
            if t[trait] != NONE:
                depth = self.config.wm_depth if memory == "W" else self.config.xm_depth
                steps = (self.values[Control.ICR] if memory == "W" else 1) if t[trait + 1] > 0 else 0
                reach = 0 if passes < 2 or steps is None else steps * (passes - 1)
                used.append((base + int(t[trait]), int(t[trait + 1]), memory, depth, reach, steps))
        for pointer, _, _, depth, reach, _ in used:
            value = self.values[pointer]
            if value is None or value + reach >= depth or rng.random() < 0.1:
                self.place(pointer, rng.randrange(depth - reach))
        shadow = rng.random()
        if shadow < 0.1:  # fetched and decoded, not issued
            self.words += [instruction("JMP"), len(self.words) + 3, word]
        elif shadow < 0.2:
            self.load(GENERAL, 0)
            self.words += [instruction("BZ", o=2), word]
        elif shadow < 0.3 and row.repeatable and not repeated:
            self.set(Control.RC, 0)
            self.words.append(word | 1 << REPEAT_BIT)
        self.words.append(word)
        second = rng.getrandbits(16)
        self.words += [second] * (row.words - 1)
        if passes:
            self.effects(row, word, second)
            for pointer, mode, memory, _, reach, steps in used:
                self.step(pointer, mode, memory, reach, steps)
        self.show(word)

    def fill(self, words: list[int]) -> None:
        """Give every register a word; the table's address first."""
        targets = [_CONTROL_TARGET + int(control) for control in reversed(Control)] + list(range(GENERAL + 1))
        for target, word in zip(targets, words, strict=True):
            self.load(target, word)

    def set(self, control: Control, value: int) -> None:
        """SET."""
        self.words.append(instruction("SET", e=SET_TARGETS.index(control), i=value))
        self.values[control] = value

    def effects(self, row: Instruction, word: int, second: int) -> None:
        """Take note of control registers that an instruction writes."""
        control = int(traits()[word][Trait.CONTROL])
        if row.name == "SET":
            self.values[control] = word & 0xFF
        elif row.name == "MOV.C":
            self.note(control, None)
        elif row.name == "LDI" and control != NONE:
            self.note(control, second)

    def step(self, pointer: int, mode: int, memory: str, reach: int, steps: int | None) -> None:
        """Take note of where a pointer stands after all passes."""
        value = self.values[pointer]
        if value is None or mode == 0:
            return
        if mode == 2:
            self.values[pointer] = value + (memory == "W")
        else:
            self.values[pointer] = None if steps is None else (value + reach + steps) & 0xFFFF

    def show(self, word: int) -> None:
        """Send what was written to a register now and then, before something else is."""
        writes, port = int(traits()[word][Trait.WRITES]), self.rng.randrange(len(PORTS))
        if writes == GENERAL:
            self.words.append(instruction("OUTA", q=port))
        elif writes != NONE:
            self.words.append(instruction("OUT", q=port, s=writes))


def dense_programs(seed: int, config: ProcessorConfig) -> list[list[int]]:
    """Return programs that together hold every operand value of every instruction, as words.

    Parameters
    ----------
    seed
        Seed of all choices.
    config
        Memory sizes.
    """
    rng = random.Random(seed)
    writers = [_Writer(rng, config)]
    for number, word in zip(count(), _words(rng), strict=False):
        if len(writers[-1].words) + _ROOM + _LAST > config.p_depth:
            writers.append(_Writer(rng, config))
        if number % 3 == 0:
            writers[-1].registers()
        writers[-1].run(word)
    last = [rng.getrandbits(16) for _ in range(_LAST // 2)]
    for writer in writers:
        writer.fill(last)
        last = [word ^ 0xFFFF for word in last]
    return [[*writer.words, instruction("HALT")] for writer in writers]
