"""Selection of the kind of PE in a configuration, and what a chiplet with community PEs cannot do."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from contracts.errors import InputError
from scripts.cli import app
from scripts.config import load_machine

#: Two clusters.
CLUSTERS = """pe = "community"
[ring]
chiplets = 1
[chiplet]
clusters = 2
finishers = 2
scratch_lines = 128
[locator]
engines = 2
outputs = 2
"""


def test_a_configuration_says_which_pe() -> None:
    assert load_machine("community", 1).chiplet.kind == "community"
    assert load_machine("default").chiplet.kind == "gather"
    assert load_machine("community", 1).chiplet.lanes == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('pe = "other"', "pe: is 'other'"),
        ('pe = "community"\n[pe]\n', "is not TOML"),
        ('pe = "community"\n[array]\n', "has a section 'array'"),
        ('pe = "community"\n[ring]\ngroups = 2\n', "ring.groups: is unknown"),
        ('pe = "community"\n[community]\npartials = 1\n', "community.partials: is unknown"),
        ('pe = "community"\n[chiplet]\nunits = 3\n', "units must be"),
        ('pe = "community"\n[community]\nk = 2\n', "community.k: is unknown"),
        (CLUSTERS.replace("chiplets = 1", "chiplets = 2"), "clusters must be 1 on a ring, not 2"),
        (CLUSTERS + "[attributes]\nwindow = 64\n", "window must be 0 with several clusters, not 64"),
    ],
)
def test_bad_configurations_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_machine(str(tmp_path / "c.toml"))


def test_chiplets_of_a_ring_have_sizes_of_their_own() -> None:
    alone, several = load_machine("community", 1).chiplet, load_machine("community", 4).chiplet
    assert alone.kind == several.kind == "community"
    assert (alone.lanes, alone.scratch_lines, alone.community.partials) == (64, 4096, False)
    assert (several.lanes, several.scratch_lines, several.community.partials) == (16, 4096, True)


def test_vertices_with_too_many_neighbours_are_refused(tmp_path: Path) -> None:
    """Of graphs that do not fit as a whole. Whatever they are, 4,095 fit with their vertex, 2,047 on a ring."""
    for arguments, message in (
        (["synthetic:star,nodes=9000"], "vertex 0: has 8999 neighbours; expected at most 4095 "),
        (["synthetic:star,nodes=9000", "--chiplets", "3"], "vertex 0: has 8999 neighbours; expected at most 2047 "),
    ):
        done = CliRunner().invoke(app, ["run", *arguments, "--config", "community", "--out", str(tmp_path)])
        assert isinstance(done.exception, InputError)
        assert message in str(done.exception)
