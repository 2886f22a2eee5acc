"""Configuration files: every parameter of the hardware has a key, a meaning and a range, and reaches the hardware."""

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Fragment
from typer.testing import CliRunner

from contracts.errors import InputError
from contracts.parameters import Range
from hw.config import MachineConfig
from hw.dnp.machine import NeuralMachine
from hw.machine import machine_of
from hw.stream.black_box import black_boxes_of
from scripts.cli import app
from scripts.config import KINDS, Key, array_keys, array_names, keys_of, load_array, load_machine, names
from scripts.flows.configs import markdown, rows
from sim.harness import ROOT
from tb.flows.configurations import small_community

#: A machine of each kind, with everything.
WHOLE = {
    "gather": "[chiplet]\ngroups = 1\n[pe]\nlanes = 4\ndata_width = 128\nweight_rows = 64\nmax_out = 16\n",
    # With room to change one size without another.
    "community": small_community(512)
    .replace("columns = 256", "columns = 512")
    .replace("width = 128", "width = 256")
    .replace("data_width = 64", "data_width = 128")
    .replace("kept", "finishers = 2\nkept"),
}
BESIDE = "[ring]\nchiplets = 2\n[neural]\ntable_bits = 4\n[attributes]\nslots = 8\nways = 4\nid_bits = 12\n"


def load(folder: Path, text: str, chiplets: int | None = None) -> MachineConfig:
    (folder / "c.toml").write_text(text)
    return load_machine(str(folder / "c.toml"), chiplets)


def tree(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type, str]]:
    """Yield every parameter of a configuration: the fields that lead to it, the last one's class, its name."""
    for entry in fields(value):
        inside = getattr(value, entry.name)
        if is_dataclass(inside):
            yield from tree(inside, (*path, entry.name))
        else:
            yield path, type(value), entry.name


@pytest.mark.parametrize("pe", KINDS)
def test_every_parameter_is_listed_with_a_meaning_and_a_range(pe: str, tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE[pe] + BESIDE)
    found = [(key.path, key.owner, key.name) for key in keys_of(pe)]
    assert sorted(found, key=str) == sorted(tree(config), key=str)
    listed = list(rows(config))
    assert sorted(row.key for row in listed) == sorted({f"{key.section}.{key.name}" for key in keys_of(pe)})
    for row in listed:
        assert row.meaning, row
        assert row.values, row


def _other(value: Any) -> Iterator[Any]:
    """Yield values that a key may have instead of this one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, Enum):
        yield from (choice.name.lower() for choice in type(value) if choice != value)
    elif value is None:
        yield 4
    else:
        yield from (2 * value, value // 2, value + 64, value + 1, value - 1, 1)


def parameter(config: MachineConfig, key: Key) -> Any:
    return getattr(reduce(getattr, key.path, config), key.name)


def with_key(text: str, key: Key, value: Any) -> str:
    """Return a file with another value of a key."""
    written = str(value).lower() if isinstance(value, bool | int) else f'"{value}"'
    lines = [line for line in text.splitlines() if line]
    if key.name == "data_width":
        # The locator has the port of the PEs.
        lines = [line.replace("data_width = 128", f"data_width = {written}") for line in lines]
    at = lines.index(f"[{key.section}]") if f"[{key.section}]" in lines else len(lines)
    end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("[")), len(lines))
    section = [line for line in lines[at + 1 : end] if line.split(" = ")[0] != key.name]
    return "\n".join([*lines[:at], f"[{key.section}]", f"{key.name} = {written}", *section, *lines[end:]])


@pytest.mark.parametrize("pe", KINDS)
def test_every_parameter_is_set_by_its_key_or_follows(pe: str, tmp_path: Path) -> None:
    text = WHOLE[pe] + BESIDE
    config = load(tmp_path, text)
    for key in keys_of(pe):
        old = parameter(config, key)
        where = f"{key.section}.{key.name}"
        if where == "ring.chiplets":
            continue
        if key.follows:
            with pytest.raises(InputError, match=rf"{where}: is unknown"):
                load(tmp_path, with_key(text, key, 1))
            continue
        with pytest.raises(InputError, match=rf"\.{key.name}: is 1.5; expected "):
            load(tmp_path, with_key(text, key, "X").replace('"X"', "1.5"))
        for value in _other(old):
            try:
                changed = load(tmp_path, with_key(text, key, value))
            except InputError:
                continue
            new = parameter(changed, key)
            assert new == (getattr(type(new), value.upper()) if isinstance(value, str) else value), where
            break
        else:
            pytest.fail(f"no other value of {where} is accepted")


@pytest.mark.parametrize("pe", KINDS)
def test_hardware_reads_every_parameter(pe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, read = load(tmp_path, WHOLE[pe] + BESIDE), set[tuple[type, str]]()
    keys = [key for key in keys_of(pe) if key.owner is not MachineConfig and not key.follows]
    kinds = {key.owner for key in keys}

    def note(value: Any, name: str) -> Any:
        # Copies and comparisons of configurations do not count.
        code = sys._getframe(1).f_code
        if code.co_filename not in ("<string>", dataclasses.__file__):
            read.update((kind, name) for kind in type(value).__mro__)
        return object.__getattribute__(value, name)

    for kind in kinds:
        monkeypatch.setattr(kind, "__getattribute__", note)
        # Nor do checks.
        monkeypatch.setattr(kind, "__post_init__", lambda value: None)
    machine = machine_of(config.chiplet, config.units, config.ring)
    for component in (machine, *black_boxes_of(machine).values()):
        Fragment.get(component, None)
    missing = [f"{key.section}.{key.name}" for key in keys if (key.owner, key.name) not in read]
    assert missing == []


def test_named_configurations_and_their_keys_are_listed() -> None:
    done = CliRunner().invoke(app, ["configs"])
    assert done.exit_code == 0
    assert all(name in done.output for name in names())
    done = CliRunner().invoke(app, ["configs", "default", "--chiplets", "4"])
    assert done.exit_code == 0
    for key in ("pe", "chiplet.groups", "ring.link_width", "attributes.policy"):
        assert f" {key} " in done.output
    with pytest.raises(InputError, match="configuration huge: is no file"):
        app(["configs", "huge"], standalone_mode=False)


def test_the_page_of_keys_is_that_of_the_code() -> None:
    """`atoll configs --markdown` writes it."""
    assert (ROOT / "docs" / "configurations.md").read_text() == markdown()


#: An array whose sizes all differ from the defaults.
ARRAY = {
    "array": {"rows": 2, "columns": 6, "board": 4, "input": 40, "output": 50, "port": 5},
    "core": {"wm_depth": 80, "xm_depth": 60, "p_depth": 70, "table_bits": 4},
}


def array_file(folder: Path, sections: dict[str, dict[str, Any]]) -> str:
    path = folder / "array.toml"
    path.write_text("".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())
                            for name, keys in sections.items()))  # fmt: skip
    return str(path)


def test_every_size_of_an_array_is_set_by_its_key(tmp_path: Path) -> None:
    config = load_array(array_file(tmp_path, ARRAY))
    assert {key.section for key in array_keys()} == set(ARRAY)
    assert sorted((key.path, key.owner, key.name) for key in array_keys()) == sorted(tree(config))
    for key in array_keys():
        owner = reduce(getattr, key.path, config)
        assert getattr(owner, key.name) == ARRAY[key.section][key.name] != getattr(type(owner)(), key.name)
    for row in rows(config):
        assert row.meaning, row
        assert row.values, row
    assert set(array_names()).isdisjoint(names())
    for name in array_names():
        NeuralMachine(load_array(name))


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"array": {"rows": 3}}, "array: rows must be a multiple of 2 in 2..64, not 3"),
        ({"array": {"rows": "true"}}, r"array.rows: is True; expected a whole number"),
        ({"array": {}, "core": {"wm": 1}}, r"core.wm: is unknown.*; expected p_depth, table_bits, wm_depth, xm_depth"),
        ({"array": {}, "chiplet": {}}, "has a section 'chiplet'; expected array and core"),
    ],
)
def test_a_wrong_file_of_an_array_is_refused(sections: dict[str, dict[str, Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        load_array(array_file(tmp_path, sections))


def test_arrays_and_machines_are_not_taken_for_each_other() -> None:
    with pytest.raises(InputError, match="has a section 'array'; expected chiplet, pe, "):
        load_machine("dnp-board")
    with pytest.raises(InputError, match="has a section 'chiplet'; expected array and core"):
        load_array("small")
    with pytest.raises(InputError, match="configuration dnp-bord: is no file, perhaps dnp-board; expected a path or"):
        load_array("dnp-bord")
    done = CliRunner().invoke(app, ["configs", "dnp-board"])
    assert done.exit_code == 0
    assert " core.wm_depth " in done.output


@pytest.mark.parametrize(
    ("limits", "good", "bad", "said"),
    [
        (Range(1, 4), (1, 4), (0, 5), "in 1..4"),
        (Range(2), (2, 99), (1,), "at least 2"),
        (Range(2, power=True), (2, 64), (1, 3), "a power of two from 2"),
        (Range(2, 8, power=True, zero=True), (0, 2, 8), (1, 6, 16), "0 or a power of two in 2..8"),
        (Range(64, 256, step=64), (64, 192), (32, 96, 320), "a multiple of 64 in 64..256"),
        (Range(values=(1, 2, 4)), (1, 4), (0, 3), "1, 2 or 4"),
        (Range(1, lambda config: config["most"]), (1, 7), (8,), "in 1..7"),
    ],
)
def test_ranges(limits: Range, good: tuple[int, ...], bad: tuple[int, ...], said: str) -> None:
    config = {"most": 7}
    assert all(limits.holds(value, config) for value in good)
    assert not any(limits.holds(value, config) for value in bad)
    assert limits.describe(config) == said
