"""Damaged images: whatever an image holds, its run ends, and the next run is right."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from contracts import COMMANDS, LINE_BYTES, Error, Model, Opcode
from golden.image import Image, build_image
from golden.model.network import Problem
from hw.chiplet.config import GatherChipletConfig
from hw.pe.formats import PEConfig
from sim.problems import random_graph, random_problem
from sim.runner import build
from sim.runner.host import Run
from sim.runner.jobs import Job, Outcome, Settings, mismatches
from sim.runner.run import run_jobs

#: The same sizes as in the chiplet's own bench, so that one simulator serves both.
CONFIG = GatherChipletConfig(
    groups=1, pes=3, depth=32, pe=PEConfig(lanes=2, data_width=64, weight_rows=128, max_out=12, queue=2)
)
#: Damaged words of the header and of each command, and of each other region.
CONTROL_WORDS, DATA_WORDS = (3, 2) if not os.environ.get("ATOLL_FULL") else (12, 12)
#: A damaged run ends within so many cycles; the good ones take a tenth of it.
LONGEST = 20_000
#: Size of the memory, in bytes; what lies behind it is answered with an error.
MEMORY = 1 << 14


def problems() -> list[Problem]:
    """Both forms of features, in small."""
    sparse = random_graph(11, 12, 30, features=6, density=0.4)
    dense = random_graph(12, 9, 20, features=5, density=1)
    return [random_problem(sparse, Model.GCN, [5, 2], seed=4), random_problem(dense, Model.GIN, [3], seed=5)]


def values(random: Random, word: int) -> int:
    """Return what a damaged word may hold: anything, one bit changed, the extremes, a little more or less."""
    kind = random.randrange(6)
    if kind == 0:
        return random.getrandbits(32)
    if kind <= 2:
        return word ^ 1 << random.randrange(32)
    return (0, 0xFFFFFFFF, 0x80000000, word + 1 & 0xFFFFFFFF, word - 1 & 0xFFFFFFFF)[random.randrange(5)]


def places(image: Image) -> dict[str, tuple[int, int, int]]:
    """Start and size in bytes, and number of words to damage, of every part of an image."""
    found = {"header": (0, LINE_BYTES, 4 * CONTROL_WORDS)}
    first = image.header["command_list"] * LINE_BYTES
    for number in range(image.header["commands"]):
        found[f"command {number}"] = (first + number * LINE_BYTES, LINE_BYTES, 2 * CONTROL_WORDS)
    for region in image.regions:
        if region.bytes:
            found[f"{region.kind.name.lower()} {region.layer}"] = (region.address, region.bytes, DATA_WORDS)
    return found


def damaged(image: Image, random: Random) -> Iterator[tuple[str, Image]]:
    """Yield images with one word of one part replaced, and what was replaced."""
    for what, (address, size, count) in places(image).items():
        for _ in range(count):
            at = address + 4 * random.randrange(-(-size // 4))
            old = int.from_bytes(image.data[at : at + 4], "little")
            new = values(random, old)
            data = image.data[:at] + new.to_bytes(4, "little") + image.data[at + 4 :]
            yield f"{what}, byte {at - address}: 0x{old:08x} -> 0x{new:08x}", replace(image, data=data)


@pytest.fixture(autouse=True)
def _small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever lies behind a small memory be an error."""
    monkeypatch.setattr(build, "_MEMORY_BYTES", MEMORY)


def run_in_turn(bad: list[Job], good: list[Job], directory: Path) -> list[tuple[Run, Outcome]]:
    """Run damaged images, each followed by a good one, all without a reset but the first."""
    runs = [job for pair in zip(bad, good, strict=True) for job in pair]
    runs = [replace(job, settings=replace(job.settings, reset=number == 0)) for number, job in enumerate(runs)]
    outcomes, _ = run_jobs(CONFIG, runs, directory)
    return [(damaged_run.run, after) for damaged_run, after in zip(outcomes[::2], outcomes[1::2], strict=True)]


def is_right(problem: Problem, outcome: Outcome) -> bool:
    """Whether a good run was one."""
    return outcome.errors == [Error.NONE] and not mismatches(problem, outcome)


def test_every_damaged_image_ends_and_the_next_run_is_right(tmp_path: Path, subtests: pytest.Subtests) -> None:
    seed = int(os.environ.get("ATOLL_SEED", "1"))
    print(f"seed {seed}")
    random = Random(seed)
    chosen = problems()
    images = [build_image(problem) for problem in chosen]
    cases = [(number, *case) for number, image in enumerate(images) for case in damaged(image, random)]
    assert len(cases) >= 100
    bad = []
    for _, _, image in cases:
        how = Settings(latency=random.choice((1, 5, 30)), stall=random.choice((0.0, 0.3)))
        bad.append(Job([image], replace(how, out_of_order=random.random() < 0.5)))
    good = [Job([images[number % 2]], Settings(latency=3)) for number in range(len(bad))]
    ended: dict[str, int] = {}
    for number, ((_, what, _), (run, after)) in enumerate(zip(cases, run_in_turn(bad, good, tmp_path), strict=True)):
        with subtests.test(what):
            name = Error(run.completion["error"]).name.lower()
            ended[name] = ended.get(name, 0) + 1
            assert is_right(chosen[number % 2], after)
            assert run.cycles < LONGEST
    print(", ".join(f"{count} {name}" for name, count in sorted(ended.items())))
    assert set(ended) >= {"none", "bad_magic", "bad_operand", "memory_read", "offset_order", "edge_range"}


def with_operands(image: Image, number: int, **fields: int) -> Image:
    """Image with operands of a command replaced."""
    at = (image.header["command_list"] + number) * LINE_BYTES
    layout = COMMANDS[Opcode(image.data[at])]
    values = layout.from_bytes(image.data[at : at + LINE_BYTES])
    data = image.data[:at] + layout.to_bytes(values | fields) + image.data[at + LINE_BYTES :]
    return replace(image, data=data)


def wild(image: Image) -> Iterator[tuple[str, Image, set[Error]]]:
    """Addresses behind the memory or the address space, and lengths that no memory has: with what they end."""
    top = 1 << CONFIG.pe.address_width
    for number in range(image.header["commands"]):
        at = (image.header["command_list"] + number) * LINE_BYTES
        opcode = Opcode(image.data[at])
        operands = COMMANDS[opcode].from_bytes(image.data[at : at + LINE_BYTES])
        for field in COMMANDS[opcode].fields:
            flag = {"feature_offsets": "sparse", "own": "rooted", "scales_destination": "table"}.get(field.name)
            unused = flag is not None and not operands[flag]
            if field.doc.endswith("from the start of the image") and not unused:
                writes = (opcode, field.name) in ((Opcode.COMBINE, "combined"), (Opcode.AGGREGATE, "results"))
                code = Error.MEMORY_WRITE if writes else Error.MEMORY_READ
                for line in (MEMORY // LINE_BYTES, top // LINE_BYTES - 1, 0x2AAAAAA):
                    yield f"{number} {field.name} {line}", with_operands(image, number, **{field.name: line}), {code}
                far = with_operands(image, number, **{field.name: top // LINE_BYTES})
                yield f"{number} {field.name} past the address space", far, {Error.BAD_OPERAND}
        if opcode == Opcode.COMBINE:
            for vertices in (0xFFFFFFFF, 0xFFFFFFFE, 1 << 20):
                codes = {Error.BAD_OPERAND, Error.EDGE_RANGE, Error.OFFSET_ORDER}
                yield f"{number} vertices {vertices}", with_operands(image, number, vertices=vertices), codes
            yield f"{number} entries", with_operands(image, number, entries=0xFFFFFFFF), {Error.EDGE_RANGE}
        if opcode == Opcode.AGGREGATE:
            for vertices in (0xFFFFFFFF, 0xFFFFFFFE, 1 << 20):
                many = with_operands(image, number, vertices=vertices, sources=0xFFFFFFFF)
                yield f"{number} vertices {vertices}", many, {Error.BAD_OPERAND, Error.EDGE_RANGE, Error.OFFSET_ORDER}
            tiled = with_operands(image, number, tiles=255)
            yield f"{number} tiles", tiled, {Error.EDGE_RANGE, Error.OFFSET_ORDER}
            yield f"{number} edges", with_operands(image, number, edge_count=0xFFFFFFFF), {Error.EDGE_RANGE}


def test_wild_operands_end_in_an_error_at_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    chosen = problems()
    cases = [(number, *case) for number, problem in enumerate(chosen) for case in wild(build_image(problem))]
    bad = [Job([image], Settings(latency=20)) for _, _, image, _ in cases]
    good = [Job([build_image(chosen[number])], Settings(latency=3)) for number, _, _, _ in cases]
    results = run_in_turn(bad, good, tmp_path)
    for (number, what, _, codes), (run, after) in zip(cases, results, strict=True):
        with subtests.test(what):
            assert Error(run.completion["error"]) in codes
            assert is_right(chosen[number], after)
            assert run.cycles < LONGEST
