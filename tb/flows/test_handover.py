"""What goes to hardware by files, and what comes back: images, layouts, predictions."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from contracts.errors import InputError
from golden.image_format import Image
from golden.model.network import infer
from scripts.cli import app
from scripts.config import load_machine
from scripts.flows import handover, soc
from scripts.flows import run as flow
from scripts.flows.prepare import examine, prepare
from scripts.flows.request import Request

CONFIG = "small"


def asked(**more: object) -> Request:
    return Request("karate", "gcn", CONFIG, 1, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = tmp_path_factory.mktemp("handover") / "karate.image"
    handover.write_image(asked(), image)
    return image


@pytest.fixture(scope="module")
def memory(written: Path) -> bytes:
    """Return what a machine leaves: the golden model's results in their place."""
    image = Image.from_bytes(written.read_bytes())
    ready = prepare(examine(asked(), load_machine(CONFIG, 1)))
    region = image.results_region(1)
    data = bytearray(image.data)
    for number, row in enumerate(infer(ready.placed.problem)[-1].results):
        struct.pack_into(f"<{row.size}h", data, region.address + number * region.row_bytes, *row.tolist())
    return bytes(data)


def test_predictions_are_those_of_a_run(written: Path, memory: bytes, tmp_path: Path) -> None:
    (tmp_path / "memory.bin").write_bytes(memory)
    assert handover.decode(written, tmp_path / "memory.bin", tmp_path / "predictions.npz")
    flow.run(asked(rtl=False, out=tmp_path / "out"))
    with np.load(tmp_path / "predictions.npz") as mine, np.load(tmp_path / "out" / "predictions.npz") as theirs:
        assert set(mine) == set(theirs) == {"results", "classes", "agreement"}
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


def test_the_results_alone_will_do(written: Path, memory: bytes, tmp_path: Path) -> None:
    region = json.loads(handover.layout_of(written).read_text())["results"]
    (tmp_path / "results.bin").write_bytes(memory[region["offset"] : region["offset"] + region["bytes"]])
    assert handover.decode(written, tmp_path / "results.bin", tmp_path / "predictions.npz")


def test_a_wrong_value_ends_with_status_1(written: Path, memory: bytes, tmp_path: Path) -> None:
    region = json.loads(handover.layout_of(written).read_text())["results"]
    wrong = bytearray(memory)
    wrong[region["offset"] + 3 * region["row_bytes"]] ^= 1
    (tmp_path / "memory.bin").write_bytes(wrong)
    command = ["decode", str(written), str(tmp_path / "memory.bin"), "-o", str(tmp_path / "p.npz")]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, "values DIFFER from the golden model" in done.output) == (1, True)
    assert (tmp_path / "p.npz").exists()


def test_the_layout_has_every_region(written: Path) -> None:
    layout, image = json.loads(handover.layout_of(written).read_text()), Image.from_bytes(written.read_bytes())
    assert [(one["kind"], one["layer"], one["offset"], one["bytes"]) for one in layout["regions"]] == [
        (region.kind.name.lower(), region.layer, region.address, region.bytes) for region in image.regions
    ]
    results = [one for one in layout["regions"] if one["kind"] == "results"]
    assert [one["written"] for one in results] == [False]
    assert results[0]["offset"] == layout["results"]["offset"]


def test_files_that_do_not_belong_together_are_refused(written: Path, memory: bytes, tmp_path: Path) -> None:
    results, out = tmp_path / "results.bin", tmp_path / "p.npz"
    results.write_bytes(memory[:100])
    with pytest.raises(InputError, match=r"has 100 bytes; expected [0-9]+ of the image or [0-9]+ of its results"):
        handover.decode(written, results, out)
    other = tmp_path / "karate.image"
    other.write_bytes(written.read_bytes())
    with pytest.raises(InputError, match=r"karate\.layout\.json: No such file"):
        handover.decode(other, results, out)
    layout = json.loads(handover.layout_of(written).read_text())
    handover.layout_of(other).write_text(json.dumps(layout | {"checksum": 1}))
    with pytest.raises(InputError, match=r"is of another image; expected the layout of .*karate\.image"):
        handover.decode(other, results, out)
    handover.layout_of(other).write_text("{}")
    with pytest.raises(InputError, match="cannot be read; expected the layout that `atoll image` has written"):
        handover.decode(other, results, out)
    assert not out.exists()


def test_a_job_expects_every_layer(tmp_path: Path) -> None:
    run, sizes = soc.run_of(asked(layers=3))
    assert sizes.chiplets == 1
    assert [region.layer for region, _ in run.expected] == [0, 1, 2]
    assert all(rows.shape == (region.rows, region.row_elements) for region, rows in run.expected)
    assert (run.labels >= 0).sum() == 8
