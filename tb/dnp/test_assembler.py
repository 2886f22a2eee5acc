"""Assembler and disassembler: every instruction there and back, and every complaint with its place."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import INSTRUCTIONS, REPEAT_BIT, Instruction, Kind, lookup
from contracts.errors import InputError
from golden.dnp.array import DeadlockError
from golden.dnp.assembler import AssemblyError, assemble
from golden.dnp.decode import Trait, traits
from golden.dnp.disassembler import disassemble
from scripts.cli import app
from scripts.dnp import programs
from tb.dnp.programs import random_program

SMALL = ProcessorConfig(wm_depth=4, xm_depth=2, p_depth=8)


@given(st.integers(0, 10_000))
def test_what_was_assembled_disassembles_to_the_same_words(seed: int) -> None:
    words = assemble(random_program(seed, blocks=3)).program
    text = "\n".join(line for _, line in disassemble(words))
    assert assemble(text).program == words


@pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: row.name)
def test_every_defined_word_of_a_row_survives_there_and_back(row: object) -> None:
    index = INSTRUCTIONS.index(row)
    defined = np.flatnonzero(traits()[:, Trait.ROW] == index)[::23].tolist()
    assert defined
    for word in defined:
        words = [0] * 600 + [word] + [7] * (row.words - 1)  # type: ignore[attr-defined]
        texts = [line for _, line in disassemble(words)]
        assert assemble("\n".join(texts)).program == words


def test_undefined_words_become_data() -> None:
    assert disassemble([0xFFFF, 1]) == [(0, ".word 0xffff"), (1, "HALT")]
    assert not lookup(1 << REPEAT_BIT)


def test_labels_constants_comments_and_memories() -> None:
    image = assemble(
        """
        .equ count 3        ; a number
        start: SET #count RC
        REP MADD WM[1]+ XM[0]~ A ; sums
        BNZ start
        LDI #table+1 WA2, HALT
        """.replace(", HALT", "\nHALT")
        + "\n.wm\n.org 2\ntable: .word -1 0x10 0b11 start\n.xm\n.word count-4"
    )
    assert image.labels == {"count": 3, "start": 0, "table": 2}
    assert image.wm == {2: 0xFFFF, 3: 16, 4: 3, 5: 0}
    assert image.xm == {0: 0xFFFF}
    assert image.program[4] == 3
    assert image.lines[0] == "start: SET #count RC"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NOP\n  FROB A", "t.asm:2:3: 'FROB': unknown mnemonic; expected one of ADD AND BN"),
        ("ADD WM[4] A", r"t.asm:1:5: 'WM\[4\]': expected RF0..RF7, WM, XM or A"),
        ("ADD RF8 A", "t.asm:1:5: 'RF8': expected RF0..RF7, WM, XM or A"),
        ("ADD RF1 RF2", "t.asm:1:9: 'RF2': expected A"),
        ("MADD WM XM RF1", "t.asm:1:12: 'RF1': expected A"),
        ("MADD XM WM A", r"t.asm:1:6: 'XM': expected WM\[0..3\] with nothing, \+ or ~ or a general register"),
        ("MOV A", "t.asm:1:5: 'A': expected .* after it"),
        ("MOV A WM~", "t.asm:1:7: 'WM~': expected"),
        ("MOV A! A", "t.asm:1:8: 'A': expected a general register RF0..RF7 or WM"),
        ("INA Q", "t.asm:1:5: 'Q': expected a port N, E, S, W or IO"),
        ("INA N A", "t.asm:1:7: 'A': expected the end of the line"),
        ("SET #256 RC", "t.asm:1:5: '#256': value 256 out of range; expected 0..255"),
        ("SET #1 TB", "t.asm:1:8: 'TB': expected RC, ICR, LC0 or LC1"),
        ("SET 1 RC", "t.asm:1:5: '1': expected #0..#255"),
        ("SHL #16 A", "t.asm:1:5: '#16': value 16 out of range; expected 0..15"),
        ("LDI #65536 A", "t.asm:1:5: '#65536': value 65536 out of range; expected -32768..65535"),
        ("LDI #1 PC", "t.asm:1:8: 'PC': expected RF0..RF7, A or a control register"),
        ("x: NOP\nx: NOP", "t.asm:2:1: 'x:': duplicate label; expected a name other than x"),
        ("NOP: HALT", "t.asm:1:1: 'NOP:': expected a name that is not a mnemonic or register"),
        ("JMP there", "t.asm:1:5: 'there': undefined label there; expected a label or address"),
        ("BZ there", "t.asm:1:4: 'there': undefined label there; expected a label nearby"),
        ("BZ far\n.org 200\nfar: HALT", "t.asm:1:4: 'far': too far: expected an address in -128..127; use JMP"),
        ("REP BZ 0", "t.asm:1:1: 'REP': BZ cannot be repeated; expected no REP"),
        ("REP", "t.asm:1:1: 'REP': expected an instruction after REP"),
        (".foo 1", r"t.asm:1:1: '.foo': unknown directive; expected one of .program .wm .xm .org .word .equ"),
        (".org", "t.asm:1:1: '.org': expected an address after it"),
        (".equ a", "t.asm:1:1: '.equ': expected a name and a number after it"),
        (".word", "t.asm:1:1: '.word': expected at least one word after it"),
        (".word 0x10000", "t.asm:1:7: '0x10000': value 65536 out of range; expected -32768..65535"),
        (".word 1*2", r"t.asm:1:7: '1\*2': expected a number or name"),
        (".wm\nNOP", "t.asm:2:1: 'NOP': instruction in .wm; expected .word or .program"),
        (".equ 1x 5", "t.asm:1:6: '1x': expected a name that is not a mnemonic or register"),
        (".equ RF1 5", "t.asm:1:6: 'RF1': expected a name that is not a mnemonic or register"),
        (".equ n 1\n.equ n 2", "t.asm:2:6: 'n': duplicate label; expected a name other than n"),
        (".equ n b", "t.asm:1:8: 'b': undefined label b; expected a number or a name defined above"),
        (".org there", "t.asm:1:6: 'there': undefined label there; expected a number or a name defined above"),
        (".word there", "t.asm:1:7: 'there': undefined label there; expected a number or name"),
        ("LOOP LC0 far\n.org 300\nfar: HALT", "t.asm:1:10: 'far': too far: expected an address in -256..255; use JMP"),
        ("LOOP RC 0", "t.asm:1:6: 'RC': expected LC0 or LC1"),
        ("OUTS W A E", r"t.asm:1:8: 'A': expected XM\[0..3\] with nothing, \+ or ~ or A!"),
        ("REP SET #1 RC", "t.asm:1:1: 'REP': SET cannot be repeated; expected no REP"),
        ("LDI #0x A", "t.asm:1:5: '#0x': undefined label 0x; expected #-32768..#65535"),
    ],
)
def test_complaints_name_place_text_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=f"^{message}"):
        assemble(text, "t.asm")


#: A right operand of every kind.
RIGHT = {
    Kind.GENERAL: "RF3", Kind.ACCUMULATOR: "A", Kind.CLEARED: "A!", Kind.WM_SOURCE: "WM[1]+", Kind.XM_SOURCE: "XM[2]~",
    Kind.WM_RESULT: "WM[3]", Kind.XM_RESULT: "XM+", Kind.WM_BOTH: "WM[2]+", Kind.SOURCE: "RF1", Kind.SOURCE_KEPT: "A",
    Kind.SCALAR: "RF7", Kind.CONTROL: "TB", Kind.TARGET: "RF0", Kind.SET_TARGET: "ICR", Kind.COUNTER: "LC1",
    Kind.PORT: "IO", Kind.BYTE: "#9", Kind.SHIFT: "#3", Kind.WORD: "#-5", Kind.ADDRESS: "3", Kind.NEAR: "3",
}  # fmt: skip


@pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: row.name)
def test_every_operand_of_every_row_says_what_it_wants(row: Instruction) -> None:
    right = [RIGHT[operand.kind] for operand in row.operands]
    assert lookup(assemble(" ".join([row.mnemonic, *right])).program[0]) is row
    for place, operand in enumerate(row.operands):
        line = " ".join([row.mnemonic, *right[:place], "%", *right[place + 1 :]])
        with pytest.raises(AssemblyError) as caught:
            assemble(line)
        assert operand.kind.value in str(caught.value)
        assert f"1:{line.index('%') + 1}: '%': expected " in str(caught.value)
        with pytest.raises(AssemblyError, match=r"expected .* after it"):
            assemble(" ".join([row.mnemonic, *right[:place]]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NOP\n" * 9, "s:9:1: 'NOP': does not fit: program memory has 8 words, expected an address below 8"),
        (".wm\n.word 1 2 3 4 5", "s:2:15: '5': does not fit: WM has 4 words, expected an address below 4"),
        (".xm\n.org 2\n.word 7", "s:3:7: '7': does not fit: XM has 2 words, expected an address below 2"),
        (".org 9", "s:1:6: '9': value 9 out of range; expected 0..8"),
        ("JMP 8", "s:1:5: '8': value 8 out of range; expected 0..7"),
    ],
)
def test_what_is_larger_than_its_memory_is_refused(text: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        assemble(text, "s", SMALL)


def test_all_complaints_come_at_once_in_the_order_of_the_lines() -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble("JMP nowhere\nFROB\nADD RF9 A", "t")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3]


def test_dumps_are_read_back(tmp_path: Path) -> None:
    image = assemble("x: LDI #x+7 RF1\nHALT\n.wm\n.word 5")
    path = tmp_path / "x.json"
    path.write_text(programs.dump(image))
    again = programs.load(path, ProcessorConfig())
    assert (again.program, again.wm, again.xm) == (image.program, image.wm, image.xm)
    assert json.loads(path.read_text())["labels"] == {"x": 0}
    with pytest.raises(InputError, match=r"missing.asm: cannot be read \(No such file"):
        programs.load(tmp_path / "missing.asm", ProcessorConfig())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "has no program; expected a dump of `atoll asm`"),
        ("[" * 100_000, "is not JSON"),
        ('{"program": [NaN]}', "program: has the word nan; expected whole numbers in -32768..65535"),
        ('{"program": [1e999]}', "program: has the word inf"),
        ('{"program": ["1"]}', "program: has the word str"),
        ('{"program": [65536]}', "program: has the word 65536"),
        ('{"program": [' + "0," * 1024 + "0]}", "program: has 1025 words; expected at most 1024"),
        ('{"program": [], "wm": [1]}', "wm: is list"),
        ('{"program": [], "wm": {"-1": 1}}', "wm: has the address '-1'; expected addresses in 0..525"),
        ('{"program": [], "xm": {"128": 1}}', "xm: has the address '128'; expected addresses in 0..127"),
        ('{"program": [], "xm": {"1": true}}', "xm: has the word True"),
    ],
)
def test_a_dump_is_checked(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        programs.load(tmp_path / "x.json", ProcessorConfig())


def test_negative_words_of_a_dump_are_those_of_sixteen_bits(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"program": [-1], "wm": {"3": -2}}')
    image = programs.load(tmp_path / "x.json", ProcessorConfig())
    assert (image.program, image.wm, image.xm) == ([0xFFFF], {3: 0xFFFE}, {})


def test_a_program_without_words_has_an_empty_listing() -> None:
    assert programs.listing(assemble("; nothing").program) == ""


def test_a_program_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "loop.asm").write_text("here: JMP here")
    done = CliRunner().invoke(app, ["dnp", "run", str(tmp_path / "loop.asm"), "--clocks", "50"])
    assert "is still running after 50 clocks; expected HALT, or more --clocks" in str(done.exception)
    image = assemble("INA W\nHALT")
    for run in (programs.run_golden, lambda machine: list(programs.trace(machine, image))):
        with pytest.raises(DeadlockError, match="waits for a word from the host on port W"):
            run(programs.prepared(image, {"W": []}, ProcessorConfig()))


def test_long_and_strange_text_is_shown_in_short() -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble("\x1b[1m" + "x" * 5000 + "\n" + "FROB\n" * 100 + "LDI #0x" + "f" * 9000 + " A", "t")
    lines = str(caught.value).split("\n")
    assert len(lines) == 21
    assert lines[0].startswith("t:1:1: '\\x1b[1mxxx")
    assert lines[-1] == "t: 82 more complaints like these"
    assert max(map(len, lines)) < 600
    assert str(caught.value).isprintable() is False
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MAD RF1 XM", "'MAD': unknown mnemonic, perhaps MADD"),
        (".wrd 1", "'.wrd': unknown directive, perhaps .word"),
        ("start: JMP strat", "'strat': undefined label strat, perhaps start; expected"),
        ("MADD RF1 XM[9]", r"'XM\[9\]': expected"),
    ],
)
def test_the_nearest_name_is_proposed(text: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        assemble(text)


@pytest.mark.parametrize("given", [["X=1"], ["W"], ["W=a"], ["W=70000"], ["W=1", "w=2"]])
def test_words_for_ports_are_checked(given: list[str]) -> None:
    with pytest.raises(InputError, match=r"--in: is .*; expected PORT=word,word"):
        programs.parse_inputs(given)


def test_a_trace_has_a_line_for_every_pass() -> None:
    image = assemble("SET #3 RC\nREP ADD A A\nLDI #2 A\nHALT")
    machine = programs.prepared(image, {}, ProcessorConfig())
    lines = list(programs.trace(machine, image))
    assert ["ADD" in line for line in lines].count(True) == 3
    assert "LDI #2 A" in lines[3]
    assert "A =      2" in lines[3]
