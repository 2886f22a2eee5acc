"""Programs: what was emitted is laid out, sections never overlap, references that lead nowhere are refused."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import COMMANDS, LINE_BYTES, Model, Opcode, RegionKind
from contracts.errors import InputError
from golden.model.network import Problem
from golden.program.program import Operand, Program, Reference, Section
from sim.problems import corner_graph, random_problem
from tb.program.images import check_image

#: Operands that are lines, by opcode, and those that are numbers of 32 bits.
LINES = {code: [field.name for field in layout.fields if field.line] for code, layout in COMMANDS.items()}


def problem() -> Problem:
    return random_problem(corner_graph("path", 3, 1.0, 0), Model.GCN, [2], 0)


def words(p: Program, count: int) -> Section:
    return p.words(RegionKind.EDGES, list(range(1, count + 1)))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_emitted_is_what_is_laid_out(data: st.DataObject) -> None:
    """Sections and commands in any order and number, with references to any line of any section."""
    p, sections, contents = Program(), list[Section](), list[bytes]()
    p.spare = data.draw(st.integers(0, 5))
    expected: list[tuple[Opcode, dict[str, Operand]]] = []
    for _ in range(data.draw(st.integers(0, 12))):
        if data.draw(st.booleans()) or not sections:
            count = data.draw(st.integers(0, 40))
            sections.append(words(p, count))
            contents.append(b"".join(word.to_bytes(4, "little") for word in range(1, count + 1)))
            continue
        opcode = data.draw(st.sampled_from(list(COMMANDS)))
        operands: dict[str, Operand] = {}
        for name in LINES[opcode]:
            section = data.draw(st.sampled_from(sections))
            line = data.draw(st.integers(0, section.lines - 1))
            operands[name] = section if line == 0 else Reference(section, line)
        p.command(opcode, len(expected) % 256, **operands)
        expected.append((opcode, operands))
    placed = p.layout()
    image = p.image(problem())
    check_image(image)
    assert list(placed.regions) == sections
    assert [(command.opcode, command.fields["layer"]) for command in image.commands] == [
        (opcode, number % 256) for number, (opcode, _) in enumerate(expected)
    ]
    for section, content in zip(sections, contents, strict=True):
        region = placed.regions[section]
        assert image.data[region.address : region.address + region.bytes] == content
    for command, (_, operands) in zip(image.commands, expected, strict=True):
        for name, operand in operands.items():
            assert not isinstance(operand, int)
            section, line = operand if isinstance(operand, Reference) else (operand, 0)
            assert command.references[name] == (placed.regions[section], line)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=8))
def test_arrays_begin_on_lines(sizes: list[int]) -> None:
    p = Program()
    arrays = [list(range(size)) for size in sizes]
    at = p.arrays(RegionKind.TILES, [np.array(array, dtype=np.int64) for array in arrays])
    memory = p.memory()
    (region,) = p.layout().regions.values()
    end = 0
    for array, reference in zip(arrays, at, strict=True):
        assert reference.line == end
        end += max(1, -(-len(array) // 16))
        first = region.address + reference.line * LINE_BYTES
        data = memory[first : first + 4 * len(array)]
        assert [int.from_bytes(data[n : n + 4], "little") for n in range(0, len(data), 4)] == array
    assert region.lines == max(1, end)


def test_a_front_changes_while_sections_stay() -> None:
    """Header, commands and the first sections are written again; nothing else moves."""
    p = Program(room=4)
    roots = p.reserve(RegionKind.ROOTS, 0, 8, 2, 1, 4)
    edges = words(p, 30)
    memory = p.memory()
    run = p.again()
    run.fill(roots, b"\x05\x00\x00\x00")
    run.command(Opcode.SAMPLE, 0, edges=edges, roots=roots)
    front = run.front(problem(), roots)
    assert len(front) == 5 * LINE_BYTES
    assert memory[5 * LINE_BYTES : 5 * LINE_BYTES + 4] == b"\x01\x00\x00\x00"
    command = COMMANDS[Opcode.SAMPLE].from_bytes(front[LINE_BYTES : 2 * LINE_BYTES])
    assert (command["roots"], command["edges"]) == (4, 5)
    assert front[4 * LINE_BYTES] == 5
    for _ in range(3):
        run.command(Opcode.NOP, 0)
    with pytest.raises(InputError, match=r"^image: has 4 commands; expected at most 3$"):
        run.layout()


def _elsewhere(p: Program) -> None:
    p.command(Opcode.COPY, 0, source=words(Program(), 3))


def _behind(p: Program) -> None:
    p.command(Opcode.COPY, 0, source=Reference(words(p, 16), 1))


def _no_line(p: Program) -> None:
    p.command(Opcode.COPY, 0, lines=words(p, 16))


def _within_a_line(p: Program) -> None:
    p.command(Opcode.COPY, 0, source=Reference.row(words(p, 32), 3))


def _too_much(p: Program) -> None:
    p.fill(words(p, 3), bytes(13))


@pytest.mark.parametrize(
    ("emit", "message"),
    [
        (_elsewhere, "command 0, COPY, source: is line 0 of EDGES, which is not in the program"),
        (_behind, "command 0, COPY, source: is line 1 of EDGES, which is not in the program"),
        (_no_line, "command 0, COPY, lines: is line 0 of EDGES, but the operand is no line"),
        (_within_a_line, "row 3 of EDGES begins at byte 12 of a line"),
        (_too_much, "EDGES has 12 bytes, not 13"),
    ],
)
def test_references_that_lead_nowhere_are_refused(emit: Callable[[Program], None], message: str) -> None:
    p = Program()

    def laid_out() -> None:
        emit(p)
        p.layout()

    with pytest.raises(ValueError, match=f"^{message}$"):
        laid_out()


def test_operands_are_checked() -> None:
    p = Program()
    with pytest.raises(KeyError, match=r"COPY has no operand \['vertices'\]"):
        p.command(Opcode.COPY, 0, vertices=1)
    p.command(Opcode.COMBINE, 0, shift=64)
    with pytest.raises(InputError, match=r"^image, command 0: Combine.shift: 64 is not in 0..63; expected a number"):
        p.image(problem())
    large = Program()
    large.reserve(RegionKind.COMBINED, 0, 1 << 39, 1 << 33, 32, 64)
    with pytest.raises(InputError, match=r"^image: would have \d+ lines; expected fewer than 4294967296$"):
        large.layout()
