"""Options of the command line: the same ones everywhere, and none that does nothing."""

import re
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from contracts.errors import InputError
from scripts.cli import app, main
from scripts.version import commit, described
from sim.harness import ROOT


def refusal(arguments: list[str]) -> str:
    """Run the program in vain; its one line."""
    with pytest.raises(InputError) as refused:
        app(arguments, standalone_mode=False)
    line = str(refused.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run karate --model-file w.npz --layers 2", "--layers: does nothing with --model-file, which says it"),
        ("run karate --model-file w.npz --hidden 16", "--hidden: does nothing with --model-file"),
        ("run karate --model-file w.npz --activation relu", "--activation: does nothing with --model-file"),
        (
            "run karate --model-file w.npz --seed 1",
            "--seed: does nothing with --model-file; expected --batch or --head",
        ),
        ("run karate --layers 1 --hidden 8", "--hidden: does nothing with --layers 1; expected at least 2 layers"),
        ("run karate --layers 1 --activation tanh", "--activation: does nothing with --layers 1"),
        ("run karate --batches 4", "--batches: does nothing without --batch; expected --batch ROOTS beside it"),
        ("run karate --fanout 10,10", "--fanout: does nothing without --batch"),
        ("run karate --order BFS --batch 0", "--order: does nothing without --batch"),
        ("run karate --slots hash", "--slots: does nothing without --batch"),
        ("run karate --replicas", "--replicas: does nothing without --batch"),
        ("run karate --negatives 4", "--negatives: does nothing without --batch; expected --batch ROOTS beside it"),
        (
            "run karate --clock 50",
            "--clock: does nothing without --session or --edits; expected --session RUNS beside it",
        ),
        (
            "run karate --edits e.txt --session 3",
            "--session: does nothing with --edits, whose steps are the runs; expected one of the two",
        ),
        (
            "run karate --chiplets 1 --placement communities",
            "--placement: does nothing on one chiplet with gather PEs; expected several --chiplets, or --config commu",
        ),
        ("run karate --head-hidden 8", "--head-hidden: does nothing without --head; expected --head EPOCHS beside it"),
        ("generate stream.queue --config small", "--config: does nothing for stream.queue; expected it with machine"),
        ("generate all --chiplets 2", "--chiplets: does nothing for all"),
        ("synth stream.queue --chiplets 2", "--chiplets: does nothing for stream.queue"),
        ("synth stream.queue --check --update", "--check: does nothing with --update"),
        ("synth stream.queue --tree --check", "--check: does nothing with --tree, which prints areas only"),
        ("synth stream.queue --paths 5 --tree", "--tree: does nothing with --paths, which prints paths"),
        (
            "synth stream.queue --device xilinx --fmax",
            "--fmax: does nothing with --device xilinx, which is for the area",
        ),
        ("image karate --model-file w.npz --hidden 8", "--hidden: does nothing with --model-file"),
        ("soc sim --layers 1 --hidden 8", "--hidden: does nothing with --layers 1"),
        ("contracts --print --check", "--check: does nothing with --print"),
        ("contracts --print -o x.md", "--out: does nothing with --print"),
        ("asm p.asm --json --out p.json", "--json: does nothing with --out"),
        ("dnp train iris --model-file w.npz --hidden 8", "--hidden: does nothing with --model-file"),
        ("dnp infer iris --model-file w.npz --seed 8", "--seed: does nothing with --model-file"),
        ("asm p.json --xm-depth 4", "--xm-depth: does nothing for a dump"),
    ],
)
def test_an_option_that_does_nothing_is_refused(arguments: str, message: str) -> None:
    assert message in refusal(arguments.split())


def test_the_seed_of_batches_and_heads_stands_beside_weights(tmp_path: Path) -> None:
    """It is the file that is missed then."""
    for beside in (["--batch", "2"], ["--head", "1"]):
        assert refusal(["run", "karate", "--model-file", str(tmp_path / "w.npz"), "--seed", "1", *beside]).startswith(
            str(tmp_path / "w.npz")
        )


def test_what_is_written_goes_where_out_says() -> None:
    """Under one name with one letter, wherever something is written."""
    program = typer.main.get_command(app)
    found = {}
    for name, verb in program.commands.items():  # type: ignore[attr-defined]
        options = [parameter.opts for parameter in verb.params]
        assert not any("--output" in names for names in options)
        found[name] = any(names == ["-o", "--out"] for names in options)
        assert found[name] == any("--out" in names for names in options)
    writing = {"run", "import", "islands", "generate", "bench", "contracts", "asm", "image", "decode"}
    assert {name for name, has in found.items() if has} == writing


def test_version_has_the_commit_of_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output.strip()) == (0, described())
    assert re.fullmatch(r"atoll \d+\.\d+\.\d+( \([0-9a-f]{12}\))?", described())
    if (ROOT / ".git").exists():
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert commit() == head.stdout.strip()
    # An installed copy has none, even if it lies inside somebody else's checkout.
    monkeypatch.setattr("scripts.version.ROOT", tmp_path)
    assert commit() is None
    assert "(" not in described()


def test_the_shell_can_complete_verbs() -> None:
    words = {"_ATOLL_COMPLETE": "complete_bash", "COMP_WORDS": "atoll isl", "COMP_CWORD": "1"}
    assert CliRunner().invoke(app, [], env=words, prog_name="atoll").output.split() == ["islands"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run --chiplets 99", "Invalid value for '--chiplets': Input should be less than or equal to 16; expected"),
        ("run --chiplet 4", "No such option: --chiplet (Possible options: --chiplets, --placement); expected"),
        ("rum", "No such command 'rum'. Did you mean 'run'?; expected"),
        ("dnp run", "Missing argument 'PROGRAM'; expected"),
        ("", ""),
    ],
)
def test_a_command_line_that_does_not_exist_ends_in_one_line(
    arguments: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any arguments the help is on the screen, and there is no line."""
    monkeypatch.setattr("sys.argv", ["atoll", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == bool(said)
    assert "".join(lines).startswith(f"atoll: {said}" if said else "")
