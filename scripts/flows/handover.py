"""`atoll image` and `atoll decode`: what goes to hardware by files, and what comes back."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from contracts.errors import InputError
from golden.image_format import Image
from golden.model.layer import Int16Array
from golden.model.network import infer
from scripts.config import load_machine
from scripts.flows.outputs import checked_file, write
from scripts.flows.predictions import write_predictions
from scripts.flows.prepare import examine, prepare
from scripts.flows.request import Request
from scripts.flows.simulations import images_of

__all__ = ["decode", "layout_of", "write_image"]

#: Fields of a region that say where its rows are.
_SHAPE = ("bytes", "rows", "row_elements", "row_bytes")


def layout_of(image: Path) -> Path:
    """Return where the layout of an image is."""
    return image.with_suffix(".layout.json")


def write_image(request: Request, out: Path) -> None:
    """Train or read a network, and write its image and layout.

    Parameters
    ----------
    request
        What to run, on a chiplet that is alone.
    out
        The image; its layout goes beside it.

    Raises
    ------
    InputError
        As for `scripts.flows.run.run`.
    """
    checked_file(out)
    sizes = load_machine(request.config, request.chiplets)
    ready = prepare(examine(request, sizes))
    (image,) = images_of(ready.sizes, ready.placed)
    problem, placed = ready.problem, ready.placed
    region = image.results_region(len(problem.model.layers) - 1)
    exact = infer(placed.problem)[-1].results[: region.rows]
    layout = {
        "dataset": request.dataset,
        "config": request.config,
        "bytes": len(image.data),
        "checksum": image.header["checksum"],
        "commands": image.header["commands"],
        "results": {"offset": region.address, **{name: int(getattr(region, name)) for name in _SHAPE}},
        "regions": [
            {"kind": each.kind.name.lower(), "layer": each.layer, "offset": each.address, "bytes": each.bytes,
             "written": number in image.written}
            for number, each in enumerate(image.regions)
        ],
        # A result times 2^-fraction is the value of the last layer.
        "fraction": problem.model.output_fraction,
        # CRC-32 of the expected results, int16 row by row without padding.
        "expected": zlib.crc32(np.ascontiguousarray(exact, "<i2").tobytes()),
        # Row of every node, rows that are answers, and classes of the float network: int32, little-endian, base64.
        "rows_of_nodes": _packed(placed.position),
        "answers": _packed(problem.graph.answers),
        "float_classes": _packed(ready.network.predictions(ready.graph)),
    }  # fmt: skip
    write(out, bytes(image.data))
    write(layout_of(out), json.dumps(layout, indent=1) + "\n")
    print(f"{out}: {len(image.data):,} bytes, {image.header['commands']} commands")
    print(f"{layout_of(out)}: results of {region.rows:,} rows at byte {region.address:,}")


def decode(image: Path, results: Path, out: Path) -> bool:
    """Write the predictions that a machine has left.

    Parameters
    ----------
    image
        Written by `write_image`, with its layout beside it.
    results
        Bytes of the memory after the run: all that the image takes, or the region of results.
    out
        Archive, as of `scripts.flows.predictions.write_predictions`.

    Returns
    -------
    bool
        Whether every result is that of the golden model.

    Raises
    ------
    InputError
        If files do not belong together.
    """
    checked_file(out)
    given = Image.from_bytes(_read(image))
    text = _read(layout_of(image))
    try:
        layout = json.loads(text)
        region, checksum, rows = layout["results"], layout["checksum"], _unpacked(layout["rows_of_nodes"])
        answers, classes = _unpacked(layout["answers"]), _unpacked(layout["float_classes"])
        fraction, expected = int(layout["fraction"]), int(layout["expected"])
    except (ValueError, KeyError, TypeError):
        raise InputError(str(layout_of(image)), "cannot be read", "the layout that `atoll image` has written") from None
    if checksum != given.header["checksum"]:
        raise InputError(str(layout_of(image)), "is of another image", f"the layout of {image}")
    data = _read(results)
    if len(data) == layout["bytes"]:
        data = data[region["offset"] : region["offset"] + region["bytes"]]
    elif len(data) != region["bytes"]:
        sizes = f"{layout['bytes']} of the image or {region['bytes']} of its results"
        raise InputError(str(results), f"has {len(data)} bytes", sizes)
    table = given.rows(given.results_region(given.header["layers"] - 1), data)
    right = zlib.crc32(np.ascontiguousarray(table, "<i2").tobytes()) == expected
    of_nodes: Int16Array = table[rows]
    write_predictions(out, of_nodes[answers], classes[answers], fraction)
    found = "every value is right" if right else "values DIFFER from the golden model"
    print(f"{out}: {answers.size:,} predictions, {found}")
    return right


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file that can be read") from None


def _packed(values: npt.NDArray[np.int64]) -> str:
    return base64.b64encode(values.astype("<i4").tobytes()).decode()


def _unpacked(text: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(base64.b64decode(text), "<i4").astype(np.int64)
