"""Assembler: text to program words and memory contents, and precise complaints about bad text.

One instruction a line, operands source first. ``label:`` names an address, ``;`` begins a comment, ``REP`` before an
instruction sets its repeat flag. ``.program`` (the default), ``.wm`` and ``.xm`` choose the memory that follows;
``.org n`` moves in it, ``.word v …`` puts words there, ``.equ name v`` names a number. Numbers are decimal, ``0x``
or ``0b``; ``name+n`` and ``name-n`` count from a name.
"""

import re
from dataclasses import dataclass, field

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import (
    ACCUMULATOR,
    ACCUMULATOR_CLEARED,
    GENERAL,
    INSTRUCTIONS,
    IOPR_CODE,
    MODES,
    PORTS,
    REPEAT_BIT,
    SET_TARGETS,
    Control,
    Instruction,
    Kind,
)
from contracts.errors import nearest, one_line

__all__ = ["AssemblyError", "Image", "Problem", "assemble"]

_TOKEN = re.compile(r"[^\s,;]+")
_NAME = re.compile(r"[A-Za-z_.][\w.]*")
_EXPRESSION = re.compile(r"(?P<first>-?[\w.]+)(?P<rest>(?:[+-][\w.]+)*)")
_MEMORY = re.compile(r"(?P<memory>WM|XM)(?:\[(?P<pointer>[0-3])\])?(?P<mode>.*)")
_SECTIONS = (".program", ".wm", ".xm")
_MNEMONICS = sorted({row.mnemonic for row in INSTRUCTIONS})
_DIRECTIVES = (*_SECTIONS, ".org", ".word", ".equ")
_RESERVED = {*_MNEMONICS, "REP", "A", "WM", "XM", *(f"RF{i}" for i in range(GENERAL)), *(c.name for c in Control)}
_WORD_RANGE = (-(1 << 15), (1 << 16) - 1)
_CONTROL_TARGET = 32
#: Characters of a token, and complaints, that a message shows.
_SHOWN, _COMPLAINTS = 60, 20
#: Longest number or sum, in characters.
_NUMBER_MAX = 200


@dataclass(frozen=True)
class Problem:
    """One complaint: where, what was found, what was expected."""

    file: str
    line: int
    column: int
    text: str
    expected: str

    def __str__(self) -> str:
        return one_line(f"{self.file}:{self.line}:{self.column}: '{one_line(self.text, _SHOWN)}': {self.expected}")


class AssemblyError(ValueError):
    """The text could not be assembled; ``problems`` has every complaint in the order of the lines.

    The message has a line for each of the first complaints and the number of the others.
    """

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems[:_COMPLAINTS]]
        if len(problems) > _COMPLAINTS:
            lines.append(f"{one_line(problems[0].file)}: {len(problems) - _COMPLAINTS:,} more complaints like these")
        super().__init__("\n".join(lines))


@dataclass
class Image:
    """What a processor is loaded with.

    Attributes
    ----------
    program
        Instruction words from address 0, unsigned.
    wm, xm
        Memory words by address, unsigned.
    labels
        Names and their values.
    lines
        Source line of every program address that has one, for traces.
    """

    program: list[int] = field(default_factory=list)
    wm: dict[int, int] = field(default_factory=dict)
    xm: dict[int, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    column: int


@dataclass
class _Line:
    """An instruction that awaits its labels."""

    head: _Token
    operands: list[_Token]
    address: int
    repeat: _Token | None
    rows: list[Instruction]


class _ComplaintError(Exception):
    """Raised with the offending token and what was expected."""

    def __init__(self, token: _Token, expected: str) -> None:
        super().__init__(expected)
        self.token, self.expected = token, expected


class _Assembler:
    def __init__(self, file: str, config: ProcessorConfig) -> None:
        self.file, self.config = file, config
        self.problems: list[Problem] = []
        self.image = Image()
        self.cells: dict[str, dict[int, int]] = {".program": {}, ".wm": self.image.wm, ".xm": self.image.xm}
        self.depths = {".program": config.p_depth, ".wm": config.wm_depth, ".xm": config.xm_depth}
        self.at = dict.fromkeys(_SECTIONS, 0)
        self.section = ".program"
        self.lines: list[_Line] = []
        self.loops: set[int] = set()
        self.data: list[tuple[str, int, _Token]] = []

    def complain(self, token: _Token, expected: str) -> None:
        self.problems.append(Problem(self.file, token.line, token.column, token.text, expected))

    def run(self, text: str) -> Image:
        for number, line in enumerate(text.splitlines(), 1):
            tokens = [_Token(m.group(), number, m.start() + 1) for m in _TOKEN.finditer(line.split(";", maxsplit=1)[0])]
            try:
                self._read(tokens, line.strip())
            except _ComplaintError as complaint:
                self.complain(complaint.token, complaint.expected)
        for section, address, token in self.data:
            try:
                self.cells[section][address] = self._number(token, token.text, _WORD_RANGE, "a number or name") & 0xFFFF
            except _ComplaintError as complaint:
                self.complain(complaint.token, complaint.expected)
        for instruction in self.lines:
            self._encode(instruction)
        if self.problems:
            raise AssemblyError(sorted(self.problems, key=lambda p: (p.line, p.column)))
        program = self.cells[".program"]
        self.image.program = [program.get(address, 0) for address in range(max(program, default=-1) + 1)]
        return self.image

    # First pass: labels, directives, addresses.

    def _read(self, tokens: list[_Token], source: str) -> None:
        while tokens and tokens[0].text.endswith(":"):
            label = tokens.pop(0)
            self._define(label, label.text[:-1], self.at[self.section])
        if not tokens:
            return
        if tokens[0].text.startswith("."):
            self._directive(tokens[0], tokens[1:])
            return
        repeat = tokens.pop(0) if tokens[0].text.upper() == "REP" else None
        if not tokens:
            raise _ComplaintError(repeat or _Token("", 0, 0), "expected an instruction after REP")
        head = tokens[0]
        rows = [row for row in INSTRUCTIONS if row.mnemonic == head.text.upper()]
        if not rows:
            raise _ComplaintError(
                head, f"unknown mnemonic{nearest(head.text, _MNEMONICS)}; expected one of {' '.join(_MNEMONICS)}"
            )
        if self.section != ".program":
            raise _ComplaintError(head, f"instruction in {self.section}; expected .word or .program")
        address = self._reserve(head, rows[0].words)
        self.lines.append(_Line(head, tokens[1:], address, repeat, rows))
        if rows[0].mnemonic == "LOOP":
            self.loops.add(address)
        self.image.lines[address] = source

    def _define(self, token: _Token, name: str, value: int) -> None:
        if not _NAME.fullmatch(name) or name.upper() in _RESERVED:
            raise _ComplaintError(token, "expected a name that is not a mnemonic or register")
        if name in self.image.labels:
            raise _ComplaintError(token, f"duplicate label; expected a name other than {name}")
        self.image.labels[name] = value

    def _directive(self, head: _Token, operands: list[_Token]) -> None:
        word_range = "a number or a name defined above"
        match head.text:
            case ".program" | ".wm" | ".xm":
                self.section = head.text
            case ".org" if len(operands) == 1:
                depth = self.depths[self.section]
                self.at[self.section] = self._number(operands[0], operands[0].text, (0, depth), word_range)
            case ".equ" if len(operands) == 2:
                value = self._number(operands[1], operands[1].text, _WORD_RANGE, word_range)
                self._define(operands[0], operands[0].text, value)
            case ".word" if operands:
                for operand in operands:
                    self.data.append((self.section, self._reserve(operand, 1), operand))
            case ".org" | ".equ" | ".word":
                wanted = {".org": "an address", ".equ": "a name and a number", ".word": "at least one word"}
                raise _ComplaintError(head, f"expected {wanted[head.text]} after it")
            case _:
                raise _ComplaintError(
                    head, f"unknown directive{nearest(head.text, _DIRECTIVES)}; expected one of {' '.join(_DIRECTIVES)}"
                )

    def _reserve(self, token: _Token, words: int) -> int:
        address, depth = self.at[self.section], self.depths[self.section]
        self.at[self.section] += words
        if address + words > depth:
            name = {".program": "program memory", ".wm": "WM", ".xm": "XM"}[self.section]
            raise _ComplaintError(token, f"does not fit: {name} has {depth} words, expected an address below {depth}")
        return address

    # Second pass: operands.

    def _encode(self, line: _Line) -> None:
        complaints = []
        for row in line.rows:
            try:
                words = self._encode_as(row, line)
            except _ComplaintError as complaint:
                complaints.append(complaint)
                continue
            for offset, word in enumerate(words):
                self.cells[".program"][line.address + offset] = word
            return
        # The form whose operands went furthest is the one that was meant.
        best = max(complaints, key=lambda c: (c.token.line, c.token.column))
        same = [c.expected for c in complaints if c.token == best.token]
        parts = dict.fromkeys(text.removeprefix("expected ") for text in same)
        self.complain(best.token, same[0] if len(parts) == 1 else f"expected {' or '.join(parts)}")

    def _encode_as(self, row: Instruction, line: _Line) -> list[int]:
        if line.repeat and not row.repeatable:
            raise _ComplaintError(line.repeat, f"{row.mnemonic} cannot be repeated; expected no REP")
        words = [row.match | (1 << REPEAT_BIT if line.repeat else 0)]
        for operand, token in zip(row.operands, line.operands, strict=False):
            value = self._operand(operand.kind, token, line.address)
            if operand.letter:
                low, _ = row.field(operand.letter)
                words[0] |= value << low
            elif operand.kind not in (Kind.ACCUMULATOR, Kind.CLEARED):
                words.append(value & 0xFFFF)
        if len(line.operands) < len(row.operands):
            missing = row.operands[len(line.operands)].kind
            raise _ComplaintError(
                line.operands[-1] if line.operands else line.head, f"expected {missing.value} after it"
            )
        if len(line.operands) > len(row.operands):
            raise _ComplaintError(line.operands[len(row.operands)], "expected the end of the line")
        return words

    def _operand(self, kind: Kind, token: _Token, address: int) -> int:
        text = token.text.upper()
        value: int | None
        match kind:
            case Kind.ACCUMULATOR:
                value = 0 if text == "A" else None
            case Kind.CLEARED:
                value = 0 if text == "A!" else None
            case Kind.GENERAL:
                value = _general(text)
            case Kind.SCALAR:
                value = GENERAL if text == "A" else _general(text)
            case Kind.SOURCE | Kind.SOURCE_KEPT:
                value = _source(text, cleared=kind is Kind.SOURCE)
            case Kind.WM_SOURCE | Kind.WM_RESULT | Kind.WM_BOTH:
                value = _memory(text, "WM", kind)
            case Kind.XM_SOURCE | Kind.XM_RESULT:
                value = _memory(text, "XM", kind)
            case Kind.CONTROL:
                value = _control(text)
            case Kind.TARGET:
                control = _control(text)
                value = _CONTROL_TARGET + control if control is not None else GENERAL if text == "A" else _general(text)
            case Kind.SET_TARGET:
                value = next((i for i, c in enumerate(SET_TARGETS) if c.name == text), None)
            case Kind.COUNTER:
                value = {"LC0": 0, "LC1": 1}.get(text)
            case Kind.PORT:
                value = PORTS.index(text) if text in PORTS else IOPR_CODE if text == "IO" else None
            case _:
                return self._value(kind, token, address)
        if value is None:
            raise _ComplaintError(token, f"expected {kind.value}")
        return value

    def _value(self, kind: Kind, token: _Token, address: int) -> int:
        if kind is Kind.ADDRESS:
            return self._number(token, token.text, (0, self.config.p_depth - 1), kind.value)
        if kind is Kind.NEAR:
            bits = 9 if self._is_loop(address) else 8
            limit = 1 << (bits - 1)
            target = self._number(token, token.text, (0, self.config.p_depth - 1), kind.value)
            if not -limit <= target - address < limit:
                low, high = address - limit, address + limit - 1
                raise _ComplaintError(token, f"too far: expected an address in {low}..{high}; use JMP")
            return (target - address) & ((1 << bits) - 1)
        if not token.text.startswith("#"):
            raise _ComplaintError(token, f"expected {kind.value}")
        limits = {Kind.BYTE: (0, 255), Kind.SHIFT: (0, 15), Kind.WORD: _WORD_RANGE}[kind]
        return self._number(token, token.text[1:], limits, kind.value)

    def _is_loop(self, address: int) -> bool:
        return address in self.loops

    def _number(self, token: _Token, text: str, limits: tuple[int, int], wanted: str) -> int:
        if len(text) > _NUMBER_MAX or not _EXPRESSION.fullmatch(text):
            raise _ComplaintError(token, f"expected {wanted}")
        value = 0
        for part in re.findall(r"[+-]?[\w.]+", text):
            sign, term = (-1 if part[0] == "-" else 1), part.lstrip("+-")
            if term in self.image.labels:
                value += sign * self.image.labels[term]
                continue
            try:
                value += sign * int(term, 0)
            except ValueError:
                meant = nearest(term, self.image.labels) if term[0].isalpha() else ""
                raise _ComplaintError(token, f"undefined label {term}{meant}; expected {wanted}") from None
        if not limits[0] <= value <= limits[1]:
            raise _ComplaintError(token, f"value {value} out of range; expected {limits[0]}..{limits[1]}")
        return value


def _general(text: str) -> int | None:
    return int(text[2:]) if re.fullmatch(rf"RF[0-{GENERAL - 1}]", text) else None


def _control(text: str) -> int | None:
    return int(Control[text]) if text in Control.__members__ else None


def _memory(text: str, memory: str, kind: Kind) -> int | None:
    match = _MEMORY.fullmatch(text)
    if not match or match["memory"] != memory or match["mode"] not in MODES:
        return None
    pointer, mode = int(match["pointer"] or 0), MODES.index(match["mode"])
    source = kind in (Kind.WM_SOURCE, Kind.XM_SOURCE)
    if mode == 2 and not source:
        return None
    return pointer << 2 | mode if source else pointer << 1 | mode


def _source(text: str, *, cleared: bool) -> int | None:
    if text == "A":
        return ACCUMULATOR
    if text == "A!" and cleared:
        return ACCUMULATOR_CLEARED
    for memory, base, kind in (("WM", 16, Kind.WM_SOURCE), ("XM", 32, Kind.XM_SOURCE)):
        code = _memory(text, memory, kind)
        if code is not None:
            return base | code
    return _general(text)


def assemble(text: str, file: str = "<text>", config: ProcessorConfig | None = None) -> Image:
    """Assemble a program.

    Parameters
    ----------
    text
        The program.
    file
        Its name, for messages.
    config
        Memory sizes; the defaults of :class:`ProcessorConfig` otherwise.

    Raises
    ------
    AssemblyError
        With every problem found: unknown mnemonic or directive, operand of the wrong kind, duplicate or undefined
        label, value out of range, program or table larger than its memory.
    """
    return _Assembler(file, config or ProcessorConfig()).run(text)
