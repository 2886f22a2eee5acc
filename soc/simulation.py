"""Building and running the simulated system: the program runs in Verilator, and Python waits until it has ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.harness import BuildOptions
from sim.harness.build import Build, build
from sim.harness.run import run
from sim.models.verilog import Pin, held, instance, vector
from soc import CLOCK_HZ
from soc.job import Run, job
from soc.toolchain import compile_firmware

__all__ = ["Ended", "simulate_system"]

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
        Data pins of the DRAM.
    prepared
        Whether the job lies in the DRAM when the system wakes up; otherwise it comes over the serial port.
    limit
        Cycles after which the system is given up.
    job_bytes
        Another job than that of `runs`.

    Raises
    ------
    AssertionError
        If the simulator ends abnormally.
    """
    # LiteX lists every part that it adds.
    logging.getLogger("SoC").setLevel(logging.ERROR)
    for name in ("SoCBusHandler", "SoCCSRHandler", "SoCIRQHandler", "SoC"):
        logging.getLogger(name).setLevel(logging.ERROR)
    from soc.simulated import ROWS, SimulatedSystem, sources_of

    data = job(runs) if job_bytes is None else job_bytes
    half = 8 * ROWS * 1024 * databits // 8 // 2
    contents = bytes(half) + data if prepared else b""
    # Twice: the firmware is compiled for the addresses of the system, and the system holds the firmware.
    header = sources_of(SimulatedSystem(machine, CLOCK_HZ, databits)).header
    program = compile_firmware(header, folder / "firmware")
    sources = sources_of(SimulatedSystem(machine, CLOCK_HZ, databits, contents=contents, firmware=program))
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
