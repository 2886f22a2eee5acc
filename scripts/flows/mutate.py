"""`atoll mutate`: how many small faults in a block its own bench notices.

All mutants live in one Verilator program that reads the number of one from a file; the bench runs once for each in a
process of its own (:mod:`sim.harness.forked`) and stops at its first failure. What survives is compared with the
original: first all at once, by whether anything depends on the mutated bit; then its module, register by register, for
all time; failing that the whole block by bounded model checking from reset, for all inputs that keep the rules of
streams and for all outputs that those rules define.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hw.stream.black_box import black_boxes_of
from scripts.blocks import Block, UserError, measured_by, measured_elsewhere
from scripts.flows.equivalence import Verdict, compare, without_effect
from scripts.flows.modules import own_modules
from scripts.flows.outputs import write
from scripts.flows.ports import boxes
from scripts.flows.table import show
from scripts.flows.yosys import BUILD, yosys
from sim.harness.build import digest, locked, to_rtlil
from sim.harness.forked import SELECTION
from sim.harness.override import Override, overriding
from sim.harness.run import passed

#: Changes when the way mutants are made does.
RECIPE = "6"
#: Mutants tried by default, the seed of their choice, and how many simulators run at once.
COUNT = 200
SEED = 1
WORKERS = 2
#: A mutant is killed by time when its bench takes this many times as long as the original's, plus this many seconds.
SLOWER = 5
SLACK = 60.0
#: Seconds between looks at the progress.
LOOK = 0.5
#: Cycles over which a survivor is compared with the original, and the solver's limit in seconds.
DEPTH = 16
LIMIT = 300.0
#: Mutants may loop or stick by their nature.
TOLERANT = ("-Wno-lint", "-Wno-style", "-Wno-UNOPTFLAT", "-Wno-LATCH", "-Wno-MULTIDRIVEN", "-Wno-fatal")


@dataclass(frozen=True)
class Mutant:
    """One small fault.

    Attributes
    ----------
    number
        Its value of ``mutsel``, from 1.
    mode
        ``inv``, ``const0``, ``const1``, ``cnot0`` or ``cnot1``.
    place
        Module, cell, port and bit.
    source
        Line of the Amaranth source.
    options
        As Yosys wants them.
    """

    number: int
    mode: str
    place: str
    source: str
    options: str


@dataclass(frozen=True)
class Score:
    """What the bench of one block is worth.

    Attributes
    ----------
    block
        Name of the block.
    mutants, killed, proved, bounded
        How many were tried, noticed by the bench, proved to behave like the original, and found to do so for `DEPTH`
        cycles from reset.
    survivors
        Mutants that are neither.
    seconds
        Wall time.
    """

    block: str
    mutants: int
    killed: int
    proved: int
    bounded: int
    survivors: tuple[Mutant, ...]
    seconds: float

    @property
    def percent(self) -> float:
        """Killed mutants per hundred that are not equivalent."""
        different = self.mutants - self.proved - self.bounded
        return 100.0 * self.killed / different if different else 100.0


class Mutator:
    """Makes one design with `count` mutants of any component; results are kept on disk by content.

    Modules from the files `elsewhere` stay as they are, and all but those from the file `only` if there is one.
    """

    def __init__(self, count: int, seed: int, elsewhere: Collection[str] = (), only: str = "") -> None:
        self.count = count
        self.seed = seed
        self.elsewhere, self.only = frozenset(elsewhere), only
        self.folder: Path | None = None

    def __call__(self, component: Any, name: str) -> str:
        """Return Verilog of `component` as module `name` with its mutants behind the register ``mutsel``."""
        model = to_rtlil(component, name, sources=True)
        own = sorted(own_modules(model, name, self.elsewhere, self.only))
        bare = re.sub(r"^\s*attribute .*\n", "", model, flags=re.M)
        key = digest(RECIPE, bare, str(self.count), str(self.seed), *own)
        self.folder = BUILD / "mutate" / f"{name}-{key}"
        with locked(BUILD / "mutate" / f"{self.folder.name}.lock"):
            if not (self.folder / "mutated.v").exists():
                self._make(model, boxes(black_boxes_of(component)), name, own, self.folder)
        return (self.folder / "mutated.v").read_text()

    def _make(self, model: str, boxes: str, name: str, own: Iterable[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "original.il").write_text(model + boxes)
        yosys(
            # Assertions and covers are no part of the hardware; a memory's ports are mutated, its array is not.
            f"read_rtlil original.il\nhierarchy -top {name}\nproc -nomux -norom\nproc\nchformal -remove\n"
            "delete t:$print\nopt_clean\nmemory_collect\nopt_clean\nsetundef -init -zero\n"
            f"write_rtlil plain.il\nselect {' '.join(own)}\nmutate -list {self.count} -seed {self.seed} -o list.txt\n",
            cwd=folder,
            name="list",
        )
        lines = [line for line in (folder / "list.txt").read_text().splitlines() if line.startswith("mutate")]
        plain = (folder / "plain.il").read_text()
        lines = [line for line in lines if _possible(line, plain)]
        width = max(1, len(lines).bit_length())
        script = ["read_rtlil plain.il"]
        mutants = []
        for number, line in enumerate(lines, start=1):
            options = line.removeprefix("mutate ")
            script.append(f"mutate -ctrl mutsel {width} {number} {options}")
            mutants.append(_describe(number, options))
        script += [
            "opt_clean",
            "write_rtlil mutated.il",
            "attrmap -remove src",
            "attrmap -modattr -remove src",
            "write_verilog -norename mutated.raw.v",
        ]
        yosys("\n".join(script) + "\n", cwd=folder, name="apply")
        (folder / "mutants.json").write_text(json.dumps([asdict(mutant) for mutant in mutants], indent=1))
        text = (folder / "mutated.raw.v").read_text()
        # Last, and whole: where it is, the rest is too.
        write(folder / "mutated.v", _selected(text, name, width))

    def mutants(self) -> list[Mutant]:
        """Return the mutants of the design made last."""
        assert self.folder is not None
        return [Mutant(**entry) for entry in json.loads((self.folder / "mutants.json").read_text())]


def _possible(line: str, model: str) -> bool:
    """Whether hardware can have a fault: not in a clock, nor in the enable of a read port that has no clock."""
    found = re.search(r"-cell (\S+) -port \S*?(CLK|RD_EN|RD_ARST|RD_SRST)\b", line)
    if found is None:
        return True
    if found[2] == "CLK":
        return False
    memory = re.search(rf"cell \$mem_v2 {re.escape(found[1])}\n.*?\n  end\n", model, re.S)
    clocked = memory and re.search(r"parameter \\RD_CLK_ENABLE \d+'1+\n", memory[0])
    return bool(clocked) and found[2] == "RD_EN"


def _describe(number: int, options: str) -> Mutant:
    found = dict(re.findall(r"-(\w+) (\S+)", options))
    sources = re.findall(r"-src (\S+)", options)
    place = f"{found.get('module', '')} {found.get('cell', '')} {found.get('port', '')}[{found.get('portbit', '')}]"
    return Mutant(number, found.get("mode", "?"), place.replace("\\", ""), " ".join(sources), options)


def _selected(text: str, name: str, width: int) -> str:
    """Turn the top module's input ``mutsel`` into a register that is read from a file in the first step."""
    head = re.search(rf"^module \\?{re.escape(name)}\s*\(([^)]*)\);", text, re.M)
    if head is None or not re.search(r"\bmutsel\b", head[1]):
        raise UserError(f"{name}: the mutated design has no selection input")
    # A port whose name is a keyword is written with a backslash, and ends with a blank.
    ports = " , ".join(port.strip() for port in head[1].split(",") if port.strip() != "mutsel")
    start, end = head.span()
    body_end = text.index("endmodule", end)
    body = re.sub(r"^\s*(input|wire) (\[\d+:0\] )?mutsel;\n", "", text[end:body_end], flags=re.M)
    register = (
        f"\n  reg [{width - 1}:0] mutsel; integer mutsel_file, mutsel_read;\n"
        f'  initial begin mutsel = 0; mutsel_file = $fopen("{SELECTION}", "r");\n'
        '    if (mutsel_file != 0) mutsel_read = $fscanf(mutsel_file, "%d", mutsel); end\n'
    )
    return f"{text[:start]}module {name}({ports} );{register}{body}{text[body_end:]}"


def _launch(block: Block, override: Override) -> None:
    with overriding(override):
        block.run_bench(block.bench_parameters if block.narrow is None else block.narrow)


def mutate(
    block: Block,
    *,
    count: int = COUNT,
    seed: int = SEED,
    patience: float = LIMIT,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Score:
    """Measure the bench of `block` with `count` mutants of its narrowest configuration.

    Parameters
    ----------
    block
        The block; its bench must pass without a mutant. If another block's bench measures it, that one is run, and
        mutants are in this block's own modules only.
    count, seed
        How many mutants, and which.
    patience
        Seconds for each solver to show that a survivor behaves like the original.
    progress
        Called with the number of mutants done and of all.

    Returns
    -------
    Score
        Kept in ``build/mutate/<block>.json`` too.

    Raises
    ------
    UserError
        If no bench measures the block, or its bench fails without a mutant.
    """
    whole = measured_by(block)
    began = time.perf_counter()
    mutator = Mutator(count, seed, measured_elsewhere(whole), "" if whole is block else block.file)
    runs = BUILD / "mutate" / "runs" / block.module
    shutil.rmtree(runs, ignore_errors=True)
    plain = Override(verilog=mutator, arguments=TOLERANT, directory=runs)
    try:
        _launch(whole, plain)
        original = time.perf_counter()
        _launch(whole, plain)
    except AssertionError:
        raise UserError(f"{block.name}: the bench fails without a mutant; see {runs / 'run.log'}") from None
    mutants = mutator.mutants()
    override = replace(
        plain,
        environment={"COCOTB_MAX_FAILURES": "1", "COCOTB_LOG_LEVEL": "WARNING"},
        limit=SLOWER * (time.perf_counter() - original) + SLACK,
        mutants=tuple(mutant.number for mutant in mutants),
        # A launch of its own may share files between its runs.
        workers=1 if whole.launch else WORKERS,
    )
    with ThreadPoolExecutor(1) as background:
        job = background.submit(_launch, whole, override)
        while not job.done():
            progress(sum(1 for _ in runs.glob("*/run.log")), len(mutants))
            time.sleep(LOOK)
        job.result()
    alive = [mutant for mutant in mutants if passed(runs / str(mutant.number) / "results.xml")]
    progress(len(mutants), len(mutants))
    component = whole.make_for_bench(whole.bench_parameters if whole.narrow is None else whole.narrow)
    assert mutator.folder is not None
    folder = mutator.folder
    idle = without_effect(folder, (mutant.number for mutant in alive), LIMIT)

    def verdict(mutant: Mutant) -> Verdict:
        if mutant.number in idle:
            return "proved"
        return compare(component, folder, mutant.place.split()[0], mutant.number, DEPTH, patience)

    with ThreadPoolExecutor(WORKERS) as solvers:
        verdicts = list(solvers.map(verdict, alive))
    score = Score(
        block=block.name,
        mutants=len(mutants),
        killed=len(mutants) - len(alive),
        proved=verdicts.count("proved"),
        bounded=verdicts.count("bounded"),
        survivors=tuple(mutant for mutant, verdict in zip(alive, verdicts, strict=True) if verdict == "different"),
        seconds=time.perf_counter() - began,
    )
    (BUILD / "mutate" / f"{block.module}.json").write_text(
        json.dumps({**asdict(score), "percent": score.percent, "count": count, "seed": seed, "depth": DEPTH}, indent=1)
    )
    return score


def report(scores: Iterable[Score], least: float = 95.0) -> bool:
    """Print scores and survivors; return whether every score is at least `least` per cent."""
    done = list(scores)
    show(
        "mutation",
        ["block", "mutants", "killed", "equal", f"equal for {DEPTH} cycles", "survived", "score %", "seconds"],
        [(s.block, s.mutants, s.killed, s.proved, s.bounded, len(s.survivors), s.percent, s.seconds) for s in done],
    )
    lines = [(s.block, m.number, m.mode, m.place, _short(m.source)) for s in done for m in s.survivors]
    if lines:
        show("survivors", ["block", "mutant", "mode", "place", "source"], lines)
    return all(score.percent >= least for score in done)


def _short(source: str) -> str:
    return " ".join(re.sub(r"^.*/(hw|site-packages)/", r"\1/", part) for part in source.split())
