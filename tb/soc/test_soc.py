"""The system in RTL: firmware takes jobs, drives the machine by the driver in C, and finds what is wrong with them."""

import importlib.util
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import HEADER, Error, Model, Opcode
from contracts.errors import InputError
from contracts.job import JOB
from golden.graph import IntArray
from golden.image import build_image
from golden.image_format import Image
from golden.model.network import infer
from scripts.config import load_machine
from scripts.flows import soc as flow
from scripts.flows.generate import generate
from scripts.flows.request import Request
from scripts.flows.yosys import BUILD
from scripts.machine import machine_block
from sim.problems import random_graph, random_problem
from soc.job import Run, job

if flow.missing_packages():
    pytest.skip("the extra `soc` is not installed: make soc", allow_module_level=True)

from soc.simulated import SimulatedSystem, sources_of
from soc.simulation import Ended, simulate_system
from soc.toolchain import SOURCES, compile_firmware

CONFIG = "ecpix5"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def machine() -> Path:
    return generate(machine_block(CONFIG, 1), BUILD / "soc" / "machines" / "bench").verilog


def inference(seed: int, nodes: int = 14) -> Run:
    """Return a small network on a small graph, with labels of which some are wrong."""
    graph = random_graph(seed, nodes, 3 * nodes, features=5, density=0.6)
    problem = random_problem(graph, Model(seed % 3), [6, 3], seed)
    image, exact = build_image(problem, load_machine(CONFIG, 1).chiplet.pe.weight_room), infer(problem)
    expected = [(image.results_region(number), layer.results) for number, layer in enumerate(exact)]
    labels: IntArray = np.where(np.arange(nodes) % 4 == 3, -1, exact[-1].results.argmax(axis=1))
    labels[0] = (labels[0] + 1) % 3
    return Run(image, expected, labels)


def changed(run: Run, data: bytearray, *, sum_up: bool = True) -> Run:
    """Return a run with other contents of its image."""
    import zlib

    if sum_up:
        struct.pack_into("<I", data, HEADER.offsets["checksum"] // 8, zlib.crc32(data[HEADER.bytes :]))
    return replace(run, image=Image(bytes(data), run.image.header, run.image.regions))


def simulated(machine: Path, runs: list[Run], folder: Path, **more: object) -> Ended:
    return simulate_system(machine, runs, folder, limit=20_000_000, **more)  # type: ignore[arg-type]


def test_a_queue_of_inferences_is_exact(machine: Path, tmp_path: Path) -> None:
    runs = [inference(seed, 8 + seed) for seed in range(10)]  # more than the queue takes
    ended = simulated(machine, runs, tmp_path)
    assert ended.status == 0, ended.said
    assert ended.said.count("run ended: done") == 10
    assert ended.said.count(", 0 wrong\n") == 20
    counted = sum(int((run.labels >= 0).sum()) for run in runs)
    assert f"accuracy: {counted - 10} of {counted} labels\ninterrupts: 10\nevery value is right\n" in ended.said


def test_a_job_may_lie_in_memory(machine: Path, tmp_path: Path) -> None:
    sent, lies = (simulated(machine, [inference(1)], tmp_path / str(here), prepared=here) for here in (False, True))
    assert sent.status == lies.status == 0, lies.said
    assert lies.cycles < sent.cycles


def test_one_wrong_value_is_found(machine: Path, tmp_path: Path) -> None:
    run = inference(2)
    (first, hidden), (second, results) = run.expected
    wrong = results.copy()
    wrong[3, 1] ^= 1
    ended = simulated(machine, [run, replace(run, expected=[(first, hidden), (second, wrong)])], tmp_path)
    assert ended.status == 1, ended.said
    assert ended.said.endswith("values are WRONG\n")
    assert ended.said.count(", 1 wrong\n") == 1


def test_an_error_of_the_machine_is_named(machine: Path, tmp_path: Path) -> None:
    run = inference(0)
    data = bytearray(run.image.data)
    line = run.image.header["command_list"] + 1
    data[line * 64] = 0xEE  # no opcode
    assert 0xEE not in list(Opcode)
    ended = simulated(machine, [run, changed(run, data), run], tmp_path)
    assert ended.status == 2, ended.said
    assert f"run ended: {Error.BAD_OPCODE.name}, layer" in ended.said
    assert ended.said.count("run ended: done") == 1


def test_damaged_images_and_no_jobs_are_refused(machine: Path, tmp_path: Path) -> None:
    run = inference(1)
    data = bytearray(run.image.data)
    data[run.image.regions[0].address] ^= 1
    ended = simulated(machine, [changed(run, data, sum_up=False)], tmp_path / "damaged")
    assert (ended.status, ended.said.splitlines()[-1]) == (2, "the image is damaged")
    nothing = b"\0" * JOB.bytes + job([run])[JOB.bytes :]
    ended = simulated(machine, [], tmp_path / "nothing", job_bytes=nothing)
    assert (ended.status, ended.said.splitlines()[-1]) == (2, "this is no job")


def test_the_machine_on_the_system_s_own_bus(tmp_path: Path) -> None:
    """A master of 32 bits beside the CPU, and memory on the chip."""
    narrow = generate(machine_block(CONFIG, 1, 32), tmp_path / "machine").verilog
    ended = simulated(narrow, [inference(4), inference(5)], tmp_path, databits=0)
    assert ended.status == 0, ended.said
    assert ended.said.endswith("every value is right\n")


def test_firmware_with_a_warning_is_refused(machine: Path, tmp_path: Path) -> None:
    header = sources_of(SimulatedSystem(machine, 50e6, 16)).header
    assert len(compile_firmware(header, tmp_path / "good")) * 4 <= 0x4000
    sources = tmp_path / "uart.c"
    shutil.copy(SOURCES / "uart.c", sources)
    sources.write_text(sources.read_text() + "\nint unused(int never);\nint unused(int never) { return 0; }\n")
    files = [sources, *(SOURCES / name for name in ("start.S", "main.c"))]
    with pytest.raises(InputError, match="unused parameter"):
        compile_firmware(header, tmp_path / "bad", files)


def test_a_machine_with_other_beats_than_the_memory_is_refused(tmp_path: Path) -> None:
    small = generate(machine_block("small", 1), tmp_path).verilog
    with pytest.raises(InputError, match="has a memory port of 64 bits; expected 128, the width of the memory contr"):
        SimulatedSystem(small, 50e6, 16)
    (tmp_path / "machine_small.ports.json").write_text("[]")
    with pytest.raises(InputError, match="is no machine behind a control port"):
        SimulatedSystem(small, 50e6, 16)
    (tmp_path / "machine_small.ports.json").unlink()
    with pytest.raises(InputError, match="cannot be read; expected the list of ports"):
        SimulatedSystem(small, 50e6, 16)


def test_the_command_ends_with_the_firmware_s_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request("karate", "gcn", CONFIG, 1, layers=1, out=tmp_path)
    assert flow.sim(request) == 0
    assert (tmp_path / "soc.log").read_text().endswith("every value is right\n")
    whole = flow.run_of

    def broken(request: Request) -> object:
        run, sizes = whole(request)
        ((region, rows),) = run.expected
        return replace(run, expected=[(region, rows + 1)]), sizes

    monkeypatch.setattr(flow, "run_of", broken)
    assert flow.sim(request) == 1


def test_without_the_extra_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "litedram" else found(name))
    with pytest.raises(InputError, match="atoll soc: has no litedram; expected `make soc`"):
        flow.need_soc()


def test_only_systems_and_boards_need_litex() -> None:
    import subprocess

    code = "import soc.job, soc.exports.svd, soc.simulation, sys; print('litex' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
