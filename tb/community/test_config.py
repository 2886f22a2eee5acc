"""Selection of the kind of PE in a configuration, and what a chiplet with community PEs cannot do."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from golden.errors import InputError
from hw.community.chiplet import MachineConfig
from scripts.cli import app
from scripts.config import as_dict, load_config, load_machine


def test_a_configuration_says_which_pe() -> None:
    assert isinstance(load_machine("community"), MachineConfig)
    assert not isinstance(load_machine("default"), MachineConfig)
    assert as_dict(load_machine("community"))["lanes"] == 64
    with pytest.raises(InputError, match="gather PEs"):
        load_config("community")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('pe = "other"', "pe: is 'other'"),
        ('pe = "community"\n[pe]\n', "is not TOML"),
        ('pe = "community"\n[ring]\n', "has a section 'ring'"),
        ('pe = "community"\n[chiplet]\nunits = 3\n', "units must be"),
        ('pe = "community"\n[community]\nk = 2\n', "community.k: is unknown"),
    ],
)
def test_bad_configurations_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_machine(str(tmp_path / "c.toml"))


def test_several_chiplets_and_large_graphs_are_refused(tmp_path: Path) -> None:
    for arguments, message in (
        (["karate", "--chiplets", "2"], "1 with community PEs"),
        (["synthetic:erdos,nodes=5000,degree=2"], "at most 4096"),
    ):
        done = CliRunner().invoke(app, ["run", *arguments, "--config", "community", "--out", str(tmp_path)])
        assert isinstance(done.exception, InputError)
        assert message in str(done.exception)
