"""Whole inferences whose layers end on the neural chip beside a chiplet: any activation, errors, resets."""

from pathlib import Path

import numpy as np
import pytest

from contracts import COMMANDS, LINE_BYTES, Error, Model, Opcode, RegionKind
from golden.image import Image, build_image
from golden.model.activation import FUNCTIONS, RELU
from golden.model.network import Problem
from sim.problems import CORNERS, corner_graph, random_graph, random_problem
from sim.runner.jobs import Job, Settings, mismatches
from tb.chiplet.test_chiplet import NARROW, NEURAL, STALLS, simulate, with_command, with_word

CORE = NEURAL[NARROW].core
#: Activations that the neural chip has.
TABLES = [name for name in FUNCTIONS if name != RELU]


def small_problem(activation: str = "tanh") -> Problem:
    graph = random_graph(11, 30, 120, features=8, density=0.4)
    return random_problem(graph, Model.GCN, [6, 3], 4, activation, CORE)


def check(problems: list[Problem], settings: list[Settings], directory: Path) -> None:
    """Run and compare; every layer but the last ends on the chip, where there are rows."""
    jobs = [Job([build_image(problem)], how) for problem, how in zip(problems, settings, strict=True)]
    for problem, outcome in zip(problems, simulate(NARROW, jobs, directory)[0], strict=True):
        name = problem.graph.name
        assert outcome.errors == [Error.NONE], name
        assert mismatches(problem, outcome) == [], name
        ended = [phase.layer for phase in outcome.run.phases if phase.opcode == "neural"]
        assert ended == [layer for layer in problem.model.ends if problem.graph.nodes], name


def test_corner_graphs_are_bit_exact(tmp_path: Path) -> None:
    problems = [
        random_problem(
            corner_graph(name, 5, (0.4, 1.0)[seed % 2], seed),
            list(Model)[seed % 3],
            ([4, 2], [9], [3, 12, 5])[seed % 3],
            seed,
            TABLES[seed % len(TABLES)],
            CORE,
        )
        for seed, name in enumerate(CORNERS)
    ]
    check(problems, [STALLS[n % len(STALLS)] for n in range(len(problems))], tmp_path)


@pytest.mark.parametrize("activation", TABLES)
def test_random_graphs_are_bit_exact_with_any_activation(activation: str, tmp_path: Path) -> None:
    problems = [
        random_problem(random_graph(seed, 50, 300, 7, density), model, [12, 7, 3], seed, activation, CORE)
        for seed, (model, density) in enumerate(zip(Model, (0.3, 1.0, 0.5), strict=True))
    ]
    # The tables do something.
    for problem in problems:
        assert all(end.table.size == CORE.table_size for end in problem.model.ends.values())
    check(problems, [STALLS[3], STALLS[2], STALLS[0]], tmp_path)


def command_number(image: Image, opcode: Opcode) -> int:
    """Place of the first command of an opcode."""
    first = image.header["command_list"] * LINE_BYTES
    opcodes = image.data[first : first + image.header["commands"] * LINE_BYTES : LINE_BYTES]
    return opcodes.index(opcode)


def test_errors_are_told_and_the_next_run_is_right(tmp_path: Path) -> None:
    problem = small_problem()
    image = build_image(problem)
    number = command_number(image, Opcode.NEURAL)
    program, hidden = image.region(RegionKind.PROGRAM, 0), image.region(RegionKind.HIDDEN, 0)
    at = (image.header["command_list"] + number) * LINE_BYTES
    assert COMMANDS[Opcode.NEURAL].from_bytes(image.data[at : at + LINE_BYTES])["words"] == program.rows
    cases = [
        (Job([with_command(image, number, words=0)]), Error.BAD_OPERAND, 0),
        (Job([with_command(image, number, words=1)]), Error.BAD_OPERAND, 1),
        (Job([with_command(image, number, f_out=0)]), Error.BAD_OPERAND, 0),
        (Job([with_command(image, number, program=0xFFFFFFFF)]), Error.BAD_OPERAND, 0xFFFFFFFF),
        (
            Job([image], Settings(read_errors=(program.address, program.address + 7))),
            Error.MEMORY_READ,
            program.address // LINE_BYTES,
        ),
        # Rows are written twice, by the PEs and by the neural unit; the first notices.
        (
            Job([image], Settings(write_errors=(hidden.address, hidden.address + 7))),
            Error.MEMORY_WRITE,
            hidden.address // LINE_BYTES,
        ),
    ]
    good = Job([image], STALLS[2])
    outcomes, _ = simulate(NARROW, [job for bad, _, _ in cases for job in (bad, good)], tmp_path)
    for (_, error, info), bad, after in zip(cases, outcomes[::2], outcomes[1::2], strict=True):
        said = bad.run.completion
        assert (Error(said["error"]), said["info"]) == (error, info)
        assert after.errors == [Error.NONE]
        assert mismatches(problem, after) == []


def test_a_stopped_processor_ends_the_run(tmp_path: Path) -> None:
    """An instruction that there is not, in each processor in turn."""
    problem = small_problem("sigmoid")
    image = build_image(problem)
    number = command_number(image, Opcode.NEURAL)
    words = image.data[image.region(RegionKind.PROGRAM, 0).address :]
    frames = np.frombuffer(words, "<u2")[: 2 * image.region(RegionKind.PROGRAM, 0).rows]
    # Frames begin with header, address and length; the first fills WM of all.
    at, jobs = 3 + int(frames[2]), []
    for _ in range(4):
        first = at + 3
        word = first // 2
        pair = int(frames[2 * word]), int(frames[2 * word + 1])
        spoilt = (0xFFFF, pair[1]) if first % 2 == 0 else (pair[0], 0xFFFF)
        jobs.append(Job([with_word(image, RegionKind.PROGRAM, word, spoilt[0] | spoilt[1] << 16)]))
        at = first + int(frames[at + 2])
    good = Job([image])
    outcomes, _ = simulate(NARROW, [job for bad in jobs for job in (bad, good)], tmp_path)
    for processor, (bad, after) in enumerate(zip(outcomes[::2], outcomes[1::2], strict=True)):
        said = bad.run.completion
        assert (Error(said["error"]), said["info"] & 0xFF, said["tag"]) == (Error.NEURAL, processor, number)
        assert said["info"] >> 8
        assert mismatches(problem, after) == []


def test_reset_in_the_middle_is_followed_by_a_right_run(tmp_path: Path) -> None:
    problem = small_problem("elu")
    image = build_image(problem)
    (whole,), _ = simulate(NARROW, [Job([image])], tmp_path)
    # Within the NEURAL command: when it loads, and when rows pass.
    before = 0
    for _, opcode, cycles, _ in whole.run.phases:
        if opcode == "neural":
            break
        before += cycles
    cuts = [before + cycles * part // 6 for part in range(1, 7)]
    outcomes, _ = simulate(NARROW, [Job([image], Settings(reset_after=cut)) for cut in cuts], tmp_path)
    for after in outcomes:
        assert after.cut_off
        assert after.cycles == whole.cycles
        assert mismatches(problem, after) == []
