"""Building and running the simulated system: the program runs in Verilator, and Python waits until it has ended."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

from sim.harness import BuildOptions
from sim.harness.build import Build, build
from sim.harness.run import run
from sim.models.verilog import Pin, held, instance, vector
from soc import CLOCK_HZ
from soc.job import Run, job
from soc.toolchain import FIRMWARE, compile_firmware

if TYPE_CHECKING:
    from soc.simulated import Sources

__all__ = ["DEVICE_BYTES", "Ended", "elaborate", "simulate_system"]

T = TypeVar("T")
#: Bytes of the simulated DRAM with 16 data pins: 8 banks of `ROWS` rows of 1,024 columns.
ROWS = 1 << 11
DEVICE_BYTES = 8 * ROWS * 1024 * 2

_TOP = "board"
_SERIAL = Path(__file__).parent / "serial_host.sv"


@dataclass(frozen=True)
class Ended:
    """How a simulated job ended.

    Attributes
    ----------
    status
        What the firmware sent last: 0, every value is right; 1, one is not; 2, the job was not carried out. None: it
        did not end within the limit.
    said
        What the firmware said over its serial port.
    cycles
        Simulated cycles.
    seconds
        Wall time of the simulation.
    """

    status: int | None
    said: str
    cycles: int
    seconds: float


def simulate_system(
    machine: Path,
    runs: Sequence[Run],
    folder: Path,
    *,
    databits: int = 16,
    prepared: bool = False,
    limit: int = 200_000_000,
    job_bytes: bytes | None = None,
    memory: bytes = b"",
    firmware: Sequence[Path] = FIRMWARE,
) -> Ended:
    """Run a job on the simulated system.

    Parameters
    ----------
    machine
        Verilog of `atoll generate machine`.
    runs
        The job.
    folder
        For the program, memories and what was said.
    databits
        Data pins of the DRAM; 0: memory on the chip behind the system's bus, where no job is prepared.
    prepared
        Whether the job lies in the DRAM when the system wakes up; otherwise it comes over the serial port.
    limit
        Cycles after which the system is given up.
    job_bytes
        Another job than that of `runs`.
    memory
        Contents of the DRAM from its start on, with a job that lies there.
    firmware
        Files of the program.

    Raises
    ------
    AssertionError
        If the simulator ends abnormally.
    """
    data = job(runs) if job_bytes is None else job_bytes
    half = DEVICE_BYTES * databits // 16 // 2
    contents = memory + bytes(half - len(memory)) + data if prepared else b""
    sources = _always_alike(elaborate, machine, CLOCK_HZ, databits, contents, folder / "firmware", firmware)
    made = _build(machine, sources.texts, sources.top)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sources.files.items():
        (folder / name).write_text(text)
    (folder / "job.bin").write_bytes(data)
    said = folder / "said.txt"
    ended = run(
        made,
        "soc.bench",
        parameters={"limit": limit, "directory": str(folder.resolve())},
        directory=folder.resolve(),
        plusargs=[f"+said={said.resolve()}", *([] if prepared else [f"+job={(folder / 'job.bin').resolve()}"])],
    )
    if ended.message:
        raise AssertionError(ended.message)
    outcome = (folder / "status").read_text().split()
    return Ended(
        None if outcome[0] == "-" else int(outcome[0]), said.read_text(errors="replace"), int(outcome[1]), ended.seconds
    )


def _always_alike(make: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process of its own, where sets have one order.

    Names in LiteX' Verilog depend on these and on all that it has made before, and the simulator is built again for
    other names.
    """
    with patch.dict(os.environ, PYTHONHASHSEED="0"), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(make, *arguments).result()


def elaborate(
    machine: Path, clock_hz: int, databits: int, contents: bytes, folder: Path, firmware: Sequence[Path]
) -> Sources:
    """Compile the firmware for a system, and return the system that holds it.

    Parameters
    ----------
    machine, clock_hz, databits, contents
        As for `soc.simulated.SimulatedSystem`.
    folder, firmware
        As for `soc.toolchain.compile_firmware`.
    """
    # LiteX lists every part that it adds.
    logging.disable(logging.WARNING)
    from soc.simulated import SimulatedSystem, sources_of

    header = sources_of(SimulatedSystem(machine, clock_hz, databits)).header
    program = compile_firmware(header, folder, firmware)
    return sources_of(SimulatedSystem(machine, clock_hz, databits, contents=contents, firmware=program))


def _build(machine: Path, texts: dict[str, str], top: str) -> Build:
    """Build the system with the other end of its serial port."""
    wires = {
        f"serial_{way}_{name}": 8 if name == "data" else 1
        for way in ("sink", "source")
        for name in ("data", "valid", "ready")
    }
    pins = [
        Pin("rst", True),
        Pin("irq", False),
        Pin("finished", False),
        Pin("status", False, 8),
        Pin("cycles", False, 64),
    ]
    body = [f"  wire {vector(width)}{name};" for name, width in wires.items()]
    body.append(instance(top, "system", {"clk": "clk", "rst": "rst", "irq": "irq", **{name: name for name in wires}}))
    serial = {name.removeprefix("serial_"): name for name in wires}
    serial |= {name: name for name in ("clk", "rst", "finished", "status", "cycles")}
    body.append(instance("serial_host", "host", serial))
    return build(
        None,
        f"soc_{machine.stem}",
        sources=[_SERIAL],
        toplevel=_TOP,
        texts={**texts, f"{_TOP}.sv": held(_TOP, pins, body)},
        # Style of other people's Verilog.
        options=BuildOptions(rules=False, arguments=("-Wno-lint", "-Wno-style", "-Wno-TIMESCALEMOD", "-Wno-COMBDLY")),
    )
