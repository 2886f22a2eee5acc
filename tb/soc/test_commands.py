"""The scheduler of A9: firmware feeds single commands to two attribute cores, and both are kept busy."""

import re
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest

from contracts import COMMANDS, Error, Opcode
from golden.attributes.cache import AttributeRam
from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.factories import CORE
from hw.host.queued import Queued
from scripts.flows.generate import generate_component
from scripts.flows.soc import missing_packages
from tb.attributes.mirror import Mirror
from tb.attributes.test_accelerator import MEMORY, plans

if missing_packages():
    pytest.skip("the extra `soc` is not installed: make soc", allow_module_level=True)

from soc.simulation import Ended, simulate_system
from soc.toolchain import COMMAND_FIRMWARE

CORES = 2
COUNT = 16


@pytest.fixture(scope="module")
def accelerator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accelerator")
    component = Queued(AttributeAccelerator(CORE, CORES))
    return generate_component(component, "attribute_cores", folder, parameters={"cores": CORES}, title="cores").verilog


def commands(seed: int) -> tuple[bytes, bytes, Mirror]:
    """Return memory, commands one behind the other, and the memory as they leave it."""
    random = Random(seed)
    mirror = Mirror(random, MEMORY)
    jobs = [mirror.job(roots, plan, flush=1) for roots, plan in plans(random, COUNT)]
    before = mirror.words.astype("<u4").tobytes()
    ram = AttributeRam(CORE.attribute.slots, CORE.attribute.ways)
    words = []
    for number, job in enumerate(jobs):
        words.append(COMMANDS[Opcode.SAMPLE].to_bytes({**job.fields, "tag": number}))
        mirror.sampled(job, mirror.flows(job, ram))
    return before, b"".join(words), mirror


def simulated(accelerator: Path, before: bytes, words: bytes, after: Mirror, folder: Path) -> Ended:
    """Compare every line that has changed, and as many that have not."""
    old, new = (np.frombuffer(data, "<u4").reshape(-1, 16) for data in (before, after.words.astype("<u4").tobytes()))
    changed = np.flatnonzero((old != new).any(axis=1))
    lines = np.unique(np.concatenate([changed, np.flatnonzero(~(old != new).any(axis=1))[: changed.size]]))
    pieces = b"".join(struct.pack("<2I", int(line) * 64, 64) + new[line].tobytes() for line in lines)
    head = struct.pack("<4I", int.from_bytes(b"ATOS", "little"), len(words) // 64, after.base, lines.size)
    return simulate_system(
        accelerator, [], folder, databits=8, prepared=True, limit=20_000_000, memory=before,
        job_bytes=head + words + pieces, firmware=COMMAND_FIRMWARE,
    )  # fmt: skip


def test_two_cores_are_kept_busy_and_every_word_is_right(accelerator: Path, tmp_path: Path) -> None:
    ended = simulated(accelerator, *commands(1), tmp_path)
    assert ended.status == 0, ended.said
    assert ended.said.endswith("every value is right\n")
    (under_way,) = re.findall(rf"^{COUNT} commands, at most (\d+) under way", ended.said, re.M)
    ((working, of_all),) = re.findall(r"^(\d+) cycles with a core at work, (\d+) of all cores", ended.said, re.M)
    # Several are queued, and for most of the time both cores have one.
    assert int(under_way) >= CORES + 2
    assert int(of_all) >= 1.5 * int(working)


def test_a_wrong_word_is_found(accelerator: Path, tmp_path: Path) -> None:
    before, words, after = commands(2)
    changed = np.flatnonzero(after.words != np.frombuffer(before, "<u4"))
    after.words[changed[0]] ^= 1
    ended = simulated(accelerator, before, words, after, tmp_path)
    assert (ended.status, ended.said.splitlines()[-1][-8:]) == (1, " 1 WRONG"), ended.said


def test_commands_that_fail_are_found(accelerator: Path, tmp_path: Path) -> None:
    before, words, after = commands(3)
    ended = simulated(accelerator, before, b"\xee" + words[1:], after, tmp_path / "opcode")
    assert (ended.status, ended.said.splitlines()[-1]) == (2, "opcode 238 is none of the cores'")
    fields = COMMANDS[Opcode.SAMPLE].from_bytes(words[-64:])
    wrong = COMMANDS[Opcode.SAMPLE].to_bytes({**fields, "vertices": 1})
    ended = simulated(accelerator, before, words[:-64] + wrong, after, tmp_path / "vertices")
    assert (ended.status, ended.said.splitlines()[-1]) == (2, f"a command ended with {Error.VID_RANGE.name}")
