"""Whole inferences on one chiplet: corner graphs, random graphs, stalls, errors and resets in the middle."""

import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import COMMANDS, HEADER, LINE_BYTES, Combination, Error, Model, Opcode, RegionKind
from contracts.dnp.config import ProcessorConfig
from golden.datasets import load
from golden.image import Image, build_image
from golden.model.network import Problem
from hw.chiplet.config import GatherChipletConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.machine import Units
from hw.pe.formats import PEConfig
from sim.harness import Result
from sim.harness.expected import expect_cycles
from sim.models.activity import WINDOW, activity
from sim.problems import CORNERS, corner_graph, random_graph, random_problem, rooted_problem
from sim.runner.jobs import Job, Outcome, Settings, mismatches
from sim.runner.run import run_jobs

FULL = bool(os.environ.get("ATOLL_FULL"))
NARROW = GatherChipletConfig(
    groups=1, pes=3, depth=32, pe=PEConfig(lanes=2, data_width=64, weight_rows=128, max_out=12, queue=2)
)
DEFAULT = GatherChipletConfig()
MIDDLE = GatherChipletConfig(
    groups=3, pes=1, depth=64, pe=PEConfig(lanes=8, data_width=128, weight_rows=256, max_out=32, queue=3)
)
#: Room for the weights of 64 features, of one granule of results.
TINY = GatherChipletConfig(groups=1, pes=2, depth=32, pe=PEConfig(lanes=16, weight_rows=64, max_out=40, queue=2))
CONFIGS = {"narrow": NARROW, "default": DEFAULT}
if FULL:
    CONFIGS["middle"] = MIDDLE
STALLS = (
    Settings(latency=1),
    Settings(latency=100),
    Settings(latency=7, stall=0.3, seed=2),
    Settings(latency=40, stall=0.6, out_of_order=True, seed=3),
)


#: The narrow chiplet has a neural unit beside it; no other command may notice.
NEURAL = {NARROW: NeuralConfig(ProcessorConfig(wm_depth=128, xm_depth=8, p_depth=256, table_bits=6), queue=8, depth=16)}


def simulate(config: GatherChipletConfig, jobs: list[Job], directory: Path) -> tuple[list[Outcome], Result]:
    """Run jobs on the chiplet with what is beside it."""
    return run_jobs(config, jobs, directory, units=Units(NEURAL.get(config)))


@pytest.fixture(params=sorted(CONFIGS))
def config(request: pytest.FixtureRequest) -> GatherChipletConfig:
    return CONFIGS[request.param]


def check(
    config: GatherChipletConfig, problems: list[Problem], settings: list[Settings], directory: Path
) -> list[Outcome]:
    jobs = [Job([build_image(problem)], how) for problem, how in zip(problems, settings, strict=True)]
    outcomes, _ = simulate(config, jobs, directory)
    for number, (problem, outcome) in enumerate(zip(problems, outcomes, strict=True)):
        assert outcome.errors == [Error.NONE], f"job {number}, {problem.graph.name}"
        assert mismatches(problem, outcome) == [], f"job {number}, {problem.graph.name}"
    return outcomes


def test_corner_graphs_are_bit_exact(config: GatherChipletConfig, tmp_path: Path) -> None:
    problems, settings = [], []
    models = list(Model)
    for number, name in enumerate(CORNERS):
        graph = corner_graph(name, features=5, density=(1.0, 0.4)[number % 2], seed=number)
        widths = ([9, 3], [4], [6, 8, 2])[number % 3]
        for model in (models[number % 3], models[(number + 1) % 3]):
            problems.append(random_problem(graph, model, widths, seed=number))
            settings.append(STALLS[len(problems) % len(STALLS)])
    check(config, problems, settings, tmp_path)


def test_random_graphs_are_bit_exact_under_random_stalls(config: GatherChipletConfig, tmp_path: Path) -> None:
    problems, settings = [], []
    for seed in range(40 if FULL else 8):
        random = np.random.default_rng(seed)
        nodes = int(random.integers(1, 60))
        graph = random_graph(
            seed, nodes, int(random.integers(0, 6 * nodes)), int(random.integers(1, 17)), 0.5 + seed % 2
        )
        widths = random.integers(1, 13, size=random.integers(1, 4))
        problems.append(random_problem(graph, list(Model)[seed % 3], [int(width) for width in widths], seed))
        settings.append(replace(STALLS[seed % len(STALLS)], seed=seed + 1))
    check(config, problems, settings, tmp_path)


def test_feature_rows_longer_than_a_burst_are_bit_exact(tmp_path: Path) -> None:
    graph = random_graph(5, 20, 60, features=500, density=0.3)
    dense = random_graph(6, 12, 30, features=300, density=1)
    problems = [random_problem(graph, Model.GCN, [33, 64], 1), random_problem(dense, Model.SAGE, [64, 17], 2)]
    check(DEFAULT, problems, [STALLS[1], STALLS[3]], tmp_path)


@pytest.mark.parametrize("config", [NARROW, TINY], ids=["narrow", "tiny"])
def test_features_without_room_are_combined_in_blocks(config: GatherChipletConfig, tmp_path: Path) -> None:
    """Sparse and dense features in few and many blocks of rows, beside blocks of columns; the same bits as in one."""
    problems, settings = [], []
    most = 4 if config is NARROW else 70
    for seed, f_in in enumerate((64, 65, 97, 128, 200, 333)):
        graph = random_graph(seed, 12 + seed, 40, features=f_in, density=(0.2, 1)[seed % 2])
        widths = [int(width) for width in np.random.default_rng(seed).integers(1, most + 1, size=2)]
        widths = [widths[0], 130, widths[1]] if seed == 5 and config is TINY else widths
        problems.append(random_problem(graph, list(Model)[seed % 3], widths, seed))
        settings.append(replace(STALLS[seed % len(STALLS)], seed=seed + 1))
    room = config.pe.weight_room
    images = [build_image(problem, room) for problem in problems]
    used = {command.fields["kind"] for image in images for command in image.commands if "kind" in command.fields}
    assert used == {Combination.DIGITS, Combination.SUM}
    outcomes, _ = simulate(config, [Job([image], how) for image, how in zip(images, settings, strict=True)], tmp_path)
    for problem, outcome in zip(problems, outcomes, strict=True):
        assert outcome.errors == [Error.NONE]
        assert mismatches(problem, outcome) == []


def test_it_is_known_when_each_pe_multiplied(tmp_path: Path) -> None:
    problem = random_problem(random_graph(4, 50, 200, features=9, density=0.4), Model.GCN, [11, 5], 4)
    # The slower memory comes last: of a window that is under way when the simulation ends nothing is recorded.
    first, second = check(NARROW, [problem, problem], [STALLS[2], STALLS[1]], tmp_path)
    # Each entry of a row is multiplied by a row of weights, each row of the neighbourhood by a coefficient. The last
    # beat of a row takes a cycle even if it is empty, as it is where 11 values lie in 16 places.
    graph = problem.graph
    widths = [layer.f_out for layer in problem.model.layers]
    sparse = np.count_nonzero(problem.features.toarray(), axis=1)
    entries = [np.maximum(sparse, 1).sum(), np.count_nonzero(first.results[0]) + graph.nodes]
    chunks = [-(-width // NARROW.pe.lanes) for width in widths]
    work = [n * (entry + graph.edge_count + graph.nodes) for n, entry in zip(chunks, entries, strict=True)]
    counts = activity(tmp_path).astype(np.int64)
    assert counts.shape[1] == len(NARROW.parts)
    assert counts.sum() == 2 * sum(work)
    # Between commands nothing is multiplied, nor in those that load.
    busy = np.zeros(len(counts) * WINDOW, dtype=bool)
    for phase in (*first.run.phases, *second.run.phases):
        busy[phase.began : phase.began + phase.cycles] |= phase.opcode in ("combine", "aggregate")
    assert (counts <= busy.reshape(-1, WINDOW).sum(axis=1)[:, None] + 1).all()


@pytest.mark.parametrize("model", list(Model) if FULL else [Model.GCN, Model.GIN], ids=lambda model: model.name.lower())
def test_digits_take_the_expected_cycles(model: Model, tmp_path: Path) -> None:
    graph = load("digits")
    # Random weights are the same on every machine; trained ones are not, and with them zeros and cycles.
    problem = random_problem(graph, model, [16, graph.classes], seed=1)
    (outcome,) = check(DEFAULT, [problem], [Settings()], tmp_path)
    expect_cycles(f"chiplet.digits.{model.name.lower()}", outcome.cycles)


def test_cora_is_bit_exact(tmp_path: Path) -> None:
    folder = os.environ.get("ATOLL_PLANETOID")
    if not folder:
        pytest.skip("ATOLL_PLANETOID does not name the folder with Cora")
    graph = load(f"planetoid:{folder}/cora")
    problem = random_problem(graph, Model.GCN, [16, graph.classes], seed=1)
    (outcome,) = check(DEFAULT, [problem], [Settings()], tmp_path)
    expect_cycles("chiplet.cora.gcn", outcome.cycles)


# Errors ---------------------------------------------------------------------------------------------------------------


def small_problem(sparse: bool = True) -> Problem:
    graph = random_graph(11, 30, 120, features=8, density=0.4 if sparse else 1)
    return random_problem(graph, Model.GCN, [6, 3], seed=4)


def with_word(image: Image, kind: RegionKind, index: int, value: int, layer: int = 0) -> Image:
    """Image with a 32-bit word of a region replaced."""
    data = bytearray(image.data)
    struct.pack_into("<I", data, image.region(kind, layer).address + 4 * index, value)
    return replace(image, data=bytes(data))


def with_command(image: Image, number: int, **fields: int) -> Image:
    """Image with operands of a command replaced."""
    data = bytearray(image.data)
    at = (image.header["command_list"] + number) * LINE_BYTES
    layout = COMMANDS[Opcode(data[at])]
    values = layout.from_bytes(bytes(data[at : at + LINE_BYTES]))
    data[at : at + LINE_BYTES] = layout.to_bytes(values | fields)
    return replace(image, data=bytes(data))


def with_header(image: Image, **fields: int) -> Image:
    """Image with fields of the header replaced."""
    return replace(image, data=HEADER.to_bytes({**image.header, **fields}) + image.data[LINE_BYTES:])


def error_cases(image: Image) -> dict[str, tuple[Job, Error, int]]:
    """Every way to spoil the image or the memory: the job, the error and its info."""
    edges = image.region(RegionKind.EDGES).rows
    cases = {
        "magic": (Job([with_header(image, magic=0x12345678)]), Error.BAD_MAGIC, 0x12345678),
        "version": (Job([with_header(image, version=77)]), Error.BAD_VERSION, 77),
        "opcode": (Job([with_command(image, 1, opcode=200)]), Error.BAD_OPCODE, 200),
        "unsupported opcode": (Job([with_command(image, 0, opcode=Opcode.LOCATE)]), Error.BAD_OPCODE, Opcode.LOCATE),
        "f_out of 0": (Job([with_command(image, 1, f_out=0)]), Error.BAD_OPERAND, 0),
        "f_out too large": (Job([with_command(image, 2, f_out=999)]), Error.BAD_OPERAND, 999),
        "f_in of 0": (Job([with_command(image, 0, f_in=0)]), Error.BAD_OPERAND, 0),
        "f_in too large": (Job([with_command(image, 0, f_in=1 << 30)]), Error.BAD_OPERAND, 1 << 30),
        "no tiles": (Job([with_command(image, 2, tiles=0)]), Error.BAD_OPERAND, 0),
        "rows missing": (Job([with_command(image, 2, sources=29)]), Error.BAD_OPERAND, 0),
        "VID past the graph": (Job([with_word(image, RegionKind.EDGES, 5, 30)]), Error.VID_RANGE, 30),
        "VID far past the graph": (
            Job([with_word(image, RegionKind.EDGES, 0, 0xFFFFFFFF)]),
            Error.VID_RANGE,
            0xFFFFFFFF,
        ),
        "offset falls": (Job([with_word(image, RegionKind.OFFSETS, 7, 0)]), Error.OFFSET_ORDER, 6),
        "offset past the edges": (Job([with_word(image, RegionKind.OFFSETS, 9, edges + 1)]), Error.EDGE_RANGE, 8),
        "first offset": (Job([with_word(image, RegionKind.OFFSETS, 0, 1)]), Error.OFFSET_ORDER, 0),
        "feature index": (Job([with_word(image, RegionKind.FEATURES_SPARSE, 3, 0x0001_0008)]), Error.INDEX_RANGE, 8),
    }
    reads = {
        "header": 0,
        "region table is not read": None,
        "commands": image.header["command_list"] * LINE_BYTES,
        **{
            kind.name.lower(): image.region(kind).address
            for kind in (
                RegionKind.OFFSETS,
                RegionKind.EDGES,
                RegionKind.SCALE_SOURCE,
                RegionKind.SCALE_DESTINATION,
                RegionKind.FEATURE_OFFSETS,
                RegionKind.FEATURES_SPARSE,
                RegionKind.WEIGHTS,
                RegionKind.BIASES,
                RegionKind.COMBINED,
                RegionKind.HIDDEN,
            )
        },
    }
    for what, address in reads.items():
        if address is not None:
            settings = Settings(read_errors=(address, address))
            cases[f"read of {what}"] = (Job([image], settings), Error.MEMORY_READ, address // LINE_BYTES)
    for kind, layer in ((RegionKind.COMBINED, 0), (RegionKind.HIDDEN, 0), (RegionKind.RESULTS, 1)):
        address = image.region(kind, layer).address + LINE_BYTES
        settings = Settings(write_errors=(address, address + 7))
        cases[f"write of {kind.name.lower()}"] = (Job([image], settings), Error.MEMORY_WRITE, address // LINE_BYTES)
    return cases


def test_errors_are_reported_and_the_next_run_is_right(config: GatherChipletConfig, tmp_path: Path) -> None:
    problem = small_problem()
    image = build_image(problem)
    cases = error_cases(image)
    good = Job([image], STALLS[2])
    jobs = [job for bad, _, _ in cases.values() for job in (bad, good)]
    outcomes, _ = simulate(config, jobs, tmp_path)
    for (name, (_, error, info)), bad, after in zip(cases.items(), outcomes[::2], outcomes[1::2], strict=True):
        said = bad.run.completion
        assert (Error(said["error"]), said["info"]) == (error, info), name
        assert after.errors == [Error.NONE], f"after {name}"
        assert mismatches(problem, after) == [], f"after {name}"


def test_errors_of_own_rows_are_reported(config: GatherChipletConfig, tmp_path: Path) -> None:
    """Failed reads and writes of them, and a place outside the memory; then a right run, and one after a reset."""
    problem = rooted_problem(random_graph(12, 30, 120, features=8, density=0.4), Model.SAGE, [6, 3], 5)
    image = build_image(problem)
    own, number = image.region(RegionKind.OWN), _first(image, Opcode.AGGREGATE)
    address, beyond = own.address + LINE_BYTES, 1 << config.pe.address_width - 6
    cases = [
        (Job([image], Settings(read_errors=(address, address))), Error.MEMORY_READ, address // LINE_BYTES),
        (Job([image], Settings(write_errors=(address, address + 7))), Error.MEMORY_WRITE, address // LINE_BYTES),
        (Job([with_command(image, number, own=beyond)]), Error.BAD_OPERAND, beyond),
    ]
    good = [Job([image], settings) for settings in (STALLS[3], Settings(latency=9, reset_after=700))]
    outcomes, _ = simulate(config, [job for bad, _, _ in cases for job in (bad, *good)], tmp_path)
    for n, (_, error, info) in enumerate(cases):
        bad, *right = outcomes[3 * n : 3 * n + 3]
        assert (Error(bad.run.completion["error"]), bad.run.completion["info"]) == (error, info)
        assert [mismatches(problem, after) for after in right] == [[], []]


def _first(image: Image, opcode: Opcode) -> int:
    """Return the number of the first command of an opcode."""
    return next(number for number, command in enumerate(image.commands) if command.opcode == opcode)


def test_completion_names_the_command_that_failed(tmp_path: Path) -> None:
    image = build_image(small_problem())
    jobs = [Job([with_command(image, number, f_out=0)]) for number in range(6)]
    outcomes, _ = simulate(NARROW, jobs, tmp_path)
    for number, outcome in enumerate(outcomes):
        said = outcome.run.completion
        assert (said["tag"], said["layer"]) == (number, number // 3)
        # The commands after it were not carried out.
        assert len(outcome.run.phases) == number + 1


def test_reset_in_the_middle_is_followed_by_a_right_run(config: GatherChipletConfig, tmp_path: Path) -> None:
    problem = small_problem(sparse=False)
    image = build_image(problem)
    (whole,), _ = simulate(config, [Job([image])], tmp_path)
    cuts = [int(cut) for cut in np.linspace(3, whole.cycles - 10, 12 if FULL else 5)]
    outcomes, _ = simulate(config, [Job([image], Settings(reset_after=cut)) for cut in cuts], tmp_path)
    for cut, after in zip(cuts, outcomes, strict=True):
        assert after.cut_off, f"reset after {cut} cycles came too late"
        assert after.cycles == whole.cycles
        assert mismatches(problem, after) == [], f"after a reset in cycle {cut}"


def test_damaged_images_are_refused_before_simulation() -> None:
    image = build_image(small_problem())
    assert Image.from_bytes(image.data).regions == image.regions
    damaged = bytearray(image.data)
    damaged[-1] ^= 1
    wrong = {
        "has 10 bytes": image.data[:10],
        "magic": b"LOTA" + image.data[4:],
        "version": with_header(image, version=2).data,
        "size": image.data + bytes(LINE_BYTES),
        "checksum": bytes(damaged),
    }
    for message, data in wrong.items():
        with pytest.raises(ValueError, match=message):
            Image.from_bytes(data)
    table = image.header["region_table"] * LINE_BYTES
    wrong_entries = (
        (4, 0x7FFFFFFF, "region 0: ends past"),
        (0, 99, "region 0: 99 is not a valid"),
        (12, 0xFFFF, "region 0: has 65535 rows of 4 bytes; expected at most its"),
    )
    for offset, value, message in wrong_entries:
        changed = bytearray(image.data)
        struct.pack_into("<I", changed, table + offset, value)
        header = HEADER.to_bytes({**image.header, "checksum": zlib.crc32(changed[LINE_BYTES:])})
        with pytest.raises(ValueError, match=message):
            Image.from_bytes(header + bytes(changed[LINE_BYTES:]))
    for field, message in (
        ("regions", "image, region table: has 65535 entries"),
        ("commands", "image, command list: has"),
    ):
        header = HEADER.to_bytes({**image.header, field: 0xFFFF})
        with pytest.raises(ValueError, match=message):
            Image.from_bytes(header + image.data[LINE_BYTES:])
