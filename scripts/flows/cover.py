"""`atoll cover`: which lines, branches, cover points and port bits of a block its own bench reaches."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hw.stream.ports import flat_ports
from scripts.blocks import Block, UserError, measured_by, measured_elsewhere
from scripts.flows.modules import own_modules
from scripts.flows.table import show
from scripts.flows.yosys import BUILD, ROOT, yosys
from sim.harness.build import digest, locked, to_rtlil
from sim.harness.override import Override, overriding

#: What may stay uncovered, each with a reason.
EXCEPTIONS = ROOT / "tb" / "exceptions.toml"
#: Kinds of points that count, by Verilator's names.
KINDS = {"line": "line", "branch": "branch", "user": "cover", "toggle": "toggle"}
#: A word made of parts seems to loop where one part depends on another; true loops stop every other build.
TOLERANT = ("-Wno-UNOPTFLAT",)
#: Lines and branches to reach, in per cent.
LEAST = 95.0


@dataclass(frozen=True)
class Point:
    """One thing to reach.

    Attributes
    ----------
    kind
        ``line``, ``branch``, ``cover`` or ``toggle`` (of a port bit, in one direction).
    what
        Line of the Amaranth source and of the Verilog, or port, bit and direction.
    hits
        How often it was reached.
    excuse
        Why it need not be; empty without an exception.
    """

    kind: str
    what: str
    hits: int
    excuse: str = ""


@dataclass(frozen=True)
class Coverage:
    """What the bench of one block reaches.

    Attributes
    ----------
    block
        Name of the block.
    points
        Everything that counts.
    """

    block: str
    points: tuple[Point, ...]

    def counts(self, kind: str) -> tuple[int, int]:
        """Return how many points of `kind` were reached, and how many there are without exceptions."""
        points = [point for point in self.points if point.kind == kind and not (point.excuse and not point.hits)]
        return sum(1 for point in points if point.hits), len(points)

    def percent(self, *kinds: str) -> float:
        """Return reached points of `kinds` per hundred."""
        hit, total = map(sum, zip(*(self.counts(kind) for kind in kinds), strict=True))
        return 100.0 * hit / total if total else 100.0

    @property
    def good(self) -> bool:
        """Whether lines and branches reach `LEAST`, and every cover point and port toggle is reached."""
        return (
            all(self.percent(kind) >= LEAST for kind in ("line", "branch")) and self.percent("cover", "toggle") == 100
        )


class Sourced:
    """Writes Verilog whose lines know their Amaranth source; results are kept on disk by content."""

    def __init__(self) -> None:
        self.name = ""
        self.text = ""
        self.model = ""

    def __call__(self, component: Any, name: str) -> str:
        """Return Verilog of `component` as module `name`."""
        model = to_rtlil(component, name, sources=True)
        folder = BUILD / "cover" / f"{name}-{digest(model)}"
        with locked(BUILD / "cover" / f"{folder.name}.lock"):
            if not (folder / "sourced.v").exists():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "model.il").write_text(model)
                script = "read_rtlil model.il\nproc -nomux -norom\nmemory_collect\nwrite_verilog -norename raw.v\n"
                yosys(script, cwd=folder)
                (folder / "raw.v").replace(folder / "sourced.v")
        self.name, self.model = name, model
        self.text = (folder / "sourced.v").read_text()
        return self.text


def _read(path: Path, modules: set[str]) -> dict[tuple[str, int, str, str], int]:
    """Return hits by kind, line, comment and module of every point in `modules`."""
    hits: dict[tuple[str, int, str, str], int] = defaultdict(int)
    for record in path.read_text(errors="replace").splitlines():
        if not record.startswith("C '"):
            continue
        keys, _, count = record[3:].rpartition("' ")
        fields = dict(part.split("\x02", 1) for part in keys.split("\x01") if "\x02" in part)
        kind, _, module = fields.get("page", "").removeprefix("v_").partition("/")
        module = _decoded(module)
        if module in modules:
            hits[kind, int(fields.get("l", 0)), _decoded(fields.get("o", "")), module] += int(count)
    return hits


def _decoded(name: str) -> str:
    """Undo Verilator's spelling of special characters."""
    return re.sub(r"__0([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), name)


def _sources(lines: list[str]) -> list[str]:
    """Return for every line of Verilog the Amaranth line it comes from, as far as known."""
    current, found = "", []
    for line in lines:
        attribute = re.search(r'\(\* src = "([^"]*)" \*\)', line)
        if attribute:
            current = re.sub(r"^.*/((hw|amaranth)/\S+?)(\|.*)?$", r"\1", attribute[1])
        found.append(current)
    return found


def _generated(lines: list[str], number: int) -> bool:
    """Whether a line only switches an assertion or cover on, which is no branch of the hardware."""
    near = "\n".join(lines[number - 1 : number + 2])
    switch = "verilog_backend" in lines[number - 1] or "if (1'h1)" in lines[number - 1]
    return switch or bool(re.search(r"\b(cover|assert|assume)\s*\(", near))


def exceptions(block: str) -> list[tuple[str, re.Pattern[str], str]]:
    """Return kind, pattern and reason of every exception of `block`."""
    if not EXCEPTIONS.exists():
        return []
    entries = tomllib.loads(EXCEPTIONS.read_text()).get("exception", [])
    return [(e["kind"], re.compile(e["match"]), e["reason"]) for e in entries if e["block"] == block]


def cover(block: Block) -> Coverage:
    """Run the bench of `block` on a program with coverage.

    Parameters
    ----------
    block
        The block; built with its `bench_parameters`. If another block's bench measures it, that one is run, and only
        points in this block's own modules count, without ports.

    Returns
    -------
    Coverage
        Kept in ``build/cover/<block>.json`` too.

    Raises
    ------
    UserError
        If no bench measures it, or its bench fails or leaves no coverage.
    """
    whole = measured_by(block)
    only = "" if whole is block else block.file
    sourced = Sourced()
    directory = BUILD / "cover" / "runs" / block.module
    data = directory / "coverage.dat"
    data.unlink(missing_ok=True)
    with overriding(Override(verilog=sourced, coverage=True, arguments=TOLERANT, directory=directory)):
        try:
            whole.run_bench(whole.bench_parameters)
        except AssertionError as error:
            raise UserError(f"{block.name}: the bench fails: {str(error).splitlines()[0]}") from None
    if not data.exists():
        raise UserError(f"{block.name}: the run left no {data}")
    own = own_modules(sourced.model, sourced.name, measured_elsewhere(whole), only)
    lines = sourced.text.splitlines()
    sources = _sources(lines)
    ports = {port.name for port in flat_ports(whole.make_for_bench(whole.bench_parameters))} | {"rst"}
    excuses = exceptions(whole.name)
    points = []
    for (kind, number, comment, module), hits in _read(data, own | {sourced.name}).items():
        if kind not in KINDS:
            continue
        if kind == "toggle":
            if only or module != sourced.name or re.split(r"[\[:]", comment)[0] not in ports:
                continue
            what = comment
        elif module not in own or (kind == "branch" and _generated(lines, number)):
            continue
        else:
            what = f"{sources[number - 1]} ({comment}) {module}:{number}: {lines[number - 1].strip()[:60]}"
        excuse = next((reason for k, match, reason in excuses if k == KINDS[kind] and match.search(what)), "")
        points.append(Point(KINDS[kind], what, hits, excuse))
    coverage = Coverage(block.name, tuple(points))
    summary = {"block": block.name, "counts": {kind: coverage.counts(kind) for kind in KINDS.values()}}
    missed = [asdict(point) for point in points if not point.hits]
    (BUILD / "cover" / f"{block.module}.json").write_text(json.dumps({**summary, "missed": missed}, indent=1))
    return coverage


def report(results: Iterable[Coverage]) -> bool:
    """Print a table and every point missed; return whether all blocks reach their aims."""
    done = list(results)
    rows = []
    for coverage in done:
        cells: list[Any] = [coverage.block]
        for kind in KINDS.values():
            hit, total = coverage.counts(kind)
            cells += [f"{hit}/{total}", coverage.percent(kind) if total else None]
        rows.append([*cells, coverage.good])
    show("coverage", ["block", "line", "%", "branch", "%", "cover", "%", "port toggle", "%", "reached"], rows)
    missed = [(c.block, p.kind, p.what, p.excuse) for c in done for p in c.points if not p.hits]
    if missed:
        show("missed", ["block", "kind", "what", "exception"], missed)
    return all(coverage.good for coverage in done)
