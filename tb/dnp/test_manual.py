"""The manual is the one the code makes, and its tutorial does what it says."""

import re
from pathlib import Path

from typer.testing import CliRunner

from scripts.cli import app
from scripts.dnp.manual import manual
from sim.harness.build import ROOT

_BLOCK = re.compile(r"```(\w+)\n(.*?)\n```", re.DOTALL)


def test_the_manual_is_up_to_date() -> None:
    assert (ROOT / "docs" / "dnp2.md").read_text() == manual(), "run `python -m scripts.dnp.manual`"


def test_the_tutorial_works_as_printed(tmp_path: Path, monkeypatch: object) -> None:
    blocks = _BLOCK.findall((ROOT / "docs" / "dnp2.md").read_text())
    source = next(text for kind, text in blocks if kind == "asm")
    monkeypatch.chdir(tmp_path)  # type: ignore[attr-defined]
    Path("neuron.asm").write_text(source)
    consoles = [text for kind, text in blocks if kind == "console"]
    assert len(consoles) == 4
    for console in consoles:
        command, _, wanted = console.partition("\n")
        result = CliRunner().invoke(app, command.removeprefix("$ atoll ").split())
        if "deadlock" in wanted:
            assert f"atoll: {result.exception}" == wanted
        else:
            assert result.exit_code == 0, result.output
            assert result.output.rstrip("\n").startswith(wanted)


def test_the_python_example_runs(capsys: object) -> None:
    blocks = _BLOCK.findall((ROOT / "docs" / "dnp2.md").read_text())
    source = next(text for kind, text in blocks if kind == "python")
    names: dict[str, object] = {}
    exec(source, names)
    assert "REP MADD" in capsys.readouterr().out  # type: ignore[attr-defined]
    assert names["machine"].grid.processors == 16  # type: ignore[attr-defined]
