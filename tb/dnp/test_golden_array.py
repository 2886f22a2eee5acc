"""The golden machine against the equations, plain integers and hand-counted clocks."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import INSTRUCTIONS, StopCode, lookup
from contracts.dnp.topology import EAST, NORTH, SOUTH, WEST, Grid, Topology
from golden.dnp.arithmetic import invert, product, product_rounded, saturate
from golden.dnp.array import ArrayModel, DeadlockError, EdgePort
from golden.dnp.assembler import assemble
from tb.dnp.figure4 import PROGRAMS

PORTS = "NESW"
words = st.integers(-32768, 32767)


def run(text: str, inputs: dict[str, list[int]] | None = None, config: ProcessorConfig | None = None) -> ArrayModel:
    """Run a program on one processor, its neighbours always ready."""
    machine = ArrayModel(config)
    image = assemble(text, config=config)
    machine.load(0, image.program, image.wm, image.xm)
    machine.start()
    for letter, sent in (inputs or {}).items():
        machine.edges[(PORTS.index(letter), 0)] = EdgePort(list(sent))
    machine.run(100_000)
    return machine


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_figure_4_give_what_the_equations_say(name: str) -> None:
    program = PROGRAMS[name]
    machine = run(program.text, program.inputs)
    sent = {PORTS[side]: end.received for (side, _), end in machine.edges.items()}
    xm = dict(enumerate(machine.state.xm[0].tolist()))
    assert program.check(int(machine.state.a[0]), xm, sent)
    assert machine.clock == program.clocks


@given(words, words, words)
def test_the_adder_saturates_and_keeps_all_17_bits_of_a_product(a: int, x: int, w: int) -> None:
    total = a + (x * w // 2**15)
    found = saturate(np.asarray(a) + product(np.asarray(x), np.asarray(w)))
    assert found == max(-32768, min(32767, total))


@given(words, words)
def test_rounding_goes_to_the_nearest_and_halves_go_up(x: int, w: int) -> None:
    assert product_rounded(np.asarray(x), np.asarray(w)) == int(np.floor(x * w / 2**15 + 0.5))


def test_not_is_one_minus_a_and_saturates_below_zero() -> None:
    values = np.asarray([0, 1, 0x7FFF, -1, -32768])
    assert invert(values).tolist() == [0x7FFF, 0x7FFE, 0, 0x7FFF, 0x7FFF]


def test_every_word_belongs_to_at_most_one_row() -> None:
    for word in range(0, 1 << 16, 7):
        assert sum(word & row.mask == row.match for row in INSTRUCTIONS) <= 1


def test_one_multiply_accumulate_a_clock_inside_a_repetition() -> None:
    short, long = (run(f"SET #{n} RC\nSET #1 ICR\nREP MADD WM+ XM+ A\nHALT").clock for n in (20, 120))
    assert long - short == 100


def test_words_pass_in_and_out_every_clock_inside_a_repetition() -> None:
    clocks = []
    for count in (20, 120):
        machine = run(f"SET #{count} RC\nREP FWD W E\nHALT", {"W": list(range(200))})
        assert machine.edges[(EAST, 0)].received == list(range(count))
        assert machine.state.blocked[0] == 0
        clocks.append(machine.clock)
    assert clocks[1] - clocks[0] == 100


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("NOP\n.word 0xffff\nHALT", StopCode.OPCODE, 1),
        ("LDI #526 WA0\nMOV WM A\nHALT", StopCode.WM_RANGE, 2),
        ("LDI #526 WR1\nMOV A WM[1]\nHALT", StopCode.WM_RANGE, 2),
        ("LDI #128 XA2\nSET #3 RC\nREP MADD WM XM[2]+ A\nHALT", StopCode.XM_RANGE, 3),
        ("LDI #127 XR0\nSET #3 RC\nREP MOV A XM+\nHALT", StopCode.XM_RANGE, 3),
        ("NOP", StopCode.PC_RANGE, 1024),
    ],
)
def test_errors_stop_the_processor_with_a_code_and_the_place(text: str, code: StopCode, at: int) -> None:
    machine = run(text)
    assert (machine.state.code[0], machine.state.stop_pc[0]) == (code, at)


def test_a_repetition_of_none_does_nothing_in_one_clock() -> None:
    none = run("LDI #5 A\nSET #0 RC\nREP ADD A A\nHALT")
    assert none.state.a[0] == 5
    assert none.clock == run("LDI #5 A\nSET #0 RC\nNOP\nHALT").clock


def test_weights_updated_in_place_take_one_clock_each() -> None:
    """W ← W + round(δ·X), pointers for reading and writing apart (D3, D9)."""
    text = """
        SET #1 ICR
        SET #3 RC
        LDI #-20000 RF1
        REP UPD RF1 XM+ WM[2]+
        HALT
        .wm
        .word 100 -32768 32767
        .xm
        .word 3 32767 -32768"""
    machine = run(text)
    assert machine.state.wm[0, :3].tolist() == [100 - 2, -32768, 32767]
    # Fetch, decode, 4 words, 2 clocks until RF1 is written, 3 updates, HALT and its 3 stages.
    assert machine.clock == 2 + 4 + 2 + 3 + 1 + 3


def test_all_four_topologies_join_each_edge_port_once() -> None:
    for topology in Topology:
        sources = Grid(4, 4, topology).sources()
        joined = sources[sources >= 0]
        assert len(set(joined.tolist())) == len(joined)


def test_joints_lead_where_figure_7_says() -> None:
    torus = Grid(3, 3, Topology.TORUS)
    assert torus.joint(WEST, 1) == (EAST, 1)
    assert torus.joint(NORTH, 2) == (SOUTH, 2)
    pasf = Grid(3, 3, Topology.PASF)
    assert pasf.joint(NORTH, 2) == (EAST, 2)
    assert pasf.joint(EAST, 2) == (NORTH, 2)
    linear = Grid(3, 3, Topology.LINEAR)
    assert linear.joint(WEST, 1) == (EAST, 0)
    assert linear.joint(EAST, 1) == (WEST, 2)
    assert linear.joint(WEST, 0) is None
    assert Grid(3, 3).joint(EAST, 0) is None
    assert Grid(3, 3, Topology.TORUS, frozenset({EAST})).joint(EAST, 0) is None


def test_a_word_travels_round_a_torus() -> None:
    machine = ArrayModel(grid=Grid(1, 4, Topology.TORUS))
    for processor in range(4):
        start = "LDI #7 A\nOUTA E\nINA W\nHALT" if processor == 0 else "FWD W E\nHALT"
        machine.load(processor, assemble(start).program)
    machine.start()
    machine.run(100)
    assert machine.state.a[0] == 7


def test_a_deadlock_says_who_waits_for_whom() -> None:
    machine = ArrayModel(grid=Grid(1, 2))
    machine.load(0, assemble("NOP\nINA E\nHALT").program)
    machine.load(1, assemble("INA W\nHALT").program)
    machine.start()
    with pytest.raises(DeadlockError) as caught:
        machine.run(1000)
    assert re.search(r"processor 0 at address 1 \(INA\) waits for a word from processor 1 on port E", str(caught.value))
    assert re.search(r"processor 1 at address 0 \(INA\) waits for a word from processor 0 on port W", str(caught.value))


def test_a_processor_that_waits_for_a_stopped_one_is_found() -> None:
    machine = ArrayModel(grid=Grid(2, 1))
    machine.load(0, assemble(".word 0xffff").program)
    machine.load(1, assemble("SET #3 RC\nREP OUTA N\nREP OUTA N\nINA N\nHALT").program)
    machine.start()
    with pytest.raises(DeadlockError, match=r"processor 1 .* room at processor 0 \(halted, code OPCODE\) on port N"):
        machine.run(1000)
    assert machine.state.halted.tolist() == [True, False]


def test_rows_and_lookup_agree() -> None:
    for row in INSTRUCTIONS:
        found = lookup(row.match)
        assert found is row or found is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("wm_depth", 1, "wm_depth must be in 2..65536, not 1"), ("table_bits", 13, "table_bits must be in 1..12, not 13")],
)
def test_sizes_out_of_range_are_refused(name: str, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProcessorConfig(**{name: value})


def test_a_linear_grid_needs_no_square_but_pasf_does() -> None:
    with pytest.raises(ValueError, match="a PASF array must be square, not 2 by 3"):
        Grid(2, 3, Topology.PASF)
