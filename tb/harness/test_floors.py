"""Floors: a module imports from its own floor and from those below it, and the commands work without benches."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.harness import ROOT

#: What each floor may import beside itself.
BELOW = {
    "contracts": (),
    "golden": ("contracts",),
    "hw": ("contracts",),
    "sim": ("contracts", "golden", "hw"),
    "soc": ("contracts", "golden", "hw", "sim"),
    "scripts": ("contracts", "golden", "hw", "sim", "soc"),
    "tb": ("contracts", "golden", "hw", "sim", "soc", "scripts"),
}
#: A chiplet with gather PEs needs none of these.
NOT_OF_THE_CHIPLET = ("hw.ring", "hw.community", "hw.locator", "hw.attributes", "hw.host")
#: Refuses to be imported, in place of the benches.
HIDDEN = "raise ModuleNotFoundError(\"No module named 'tb'\", name='tb')\n"


def modules(floor: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / floor).rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def atoll(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where `tb` cannot be imported, in the simulator neither."""
    (directory / "tb.py").write_text(HIDDEN)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COCOTB"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(directory), str(ROOT)])
    command = [sys.executable, "-m", "scripts.cli", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("floor", BELOW)
def test_no_import_runs_up(floor: str) -> None:
    allowed = {floor, *BELOW[floor]}
    bad = [
        f"{path}:{line}: {floor} imports {name}"
        for path, tree in modules(floor)
        for line, name in imports(tree)
        if name.split(".")[0] in set(BELOW) - allowed
    ]
    assert not bad, "\n".join(bad)


def test_gather_chiplet_imports_nothing_built_on_it() -> None:
    bad = [
        f"{path}:{line}: imports {name}"
        for path, tree in modules("hw/chiplet")
        for line, name in imports(tree)
        if name.startswith(NOT_OF_THE_CHIPLET)
    ]
    assert not bad, "\n".join(bad)


def test_benches_are_named_only_in_the_list_of_blocks() -> None:
    bad = [
        f"{path}:{node.lineno}: names {node.value}"
        for floor in BELOW
        if floor != "tb"
        for path, tree in modules(floor)
        if not path.is_relative_to("scripts/blocks")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"tb(\.\w+)+(:\w+)?", node.value)
    ]
    assert not bad, "\n".join(bad)


def test_machine_is_generated_without_benches(tmp_path: Path) -> None:
    done = atoll(tmp_path, "generate", "machine", "--config", "small", "-o", "verilog")
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "verilog").glob("*.v"))


def test_blocks_are_made_without_benches(tmp_path: Path) -> None:
    (tmp_path / "tb.py").write_text(HIDDEN)
    made = "from scripts.blocks import BLOCKS\nfor block in BLOCKS:\n    block.make()\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-W", "ignore", "-c", made]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_machine_runs_without_benches(tmp_path: Path) -> None:
    done = atoll(tmp_path, "run", "karate", "--config", "small")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["formal", "cover", "mutate"])
def test_proofs_and_measures_name_the_missing_benches(command: str, tmp_path: Path) -> None:
    done = atoll(tmp_path, command, "stream.queue")
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.fullmatch(
        r"atoll: tb\.stream\.\S+: benches are not installed; expected the folder tb/ beside hw/\n", done.stderr
    )
