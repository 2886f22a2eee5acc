"""Jobs for the firmware: images with the results that the golden model has for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from contracts import VERSION
from contracts.job import CHECK, JOB, JOB_MAGIC, NO_LABEL, RUN, SEGMENT
from golden.graph import IntArray
from golden.image_format import Image, Region
from golden.model.layer import Int16Array

__all__ = ["Run", "job"]

#: Bytes of 0 in a row from which on a part of an image is not sent.
_GAP = 64


@dataclass(frozen=True, eq=False)
class Run:
    """An image, what it should leave, and what is known about the vertices.

    Attributes
    ----------
    image
        What the machine runs.
    expected
        Regions of results, int16 [rows, row_elements] each; the last one gives the classes.
    labels
        Class of every row of the last table, negative where it does not count.
    """

    image: Image
    expected: Sequence[tuple[Region, Int16Array]]
    labels: IntArray


def job(runs: Sequence[Run]) -> bytes:
    """Return the bytes of a job (`contracts.job`)."""
    out = [JOB.to_bytes({"magic": JOB_MAGIC, "version": VERSION, "runs": len(runs)})]
    for run in runs:
        segments = list(_segments(run.image.data))
        counts = {"segments": len(segments), "checks": len(run.expected), "labels": run.labels.size}
        out.append(RUN.to_bytes({"bytes": len(run.image.data), **counts}))
        for offset, data in segments:
            out += [SEGMENT.to_bytes({"offset": offset, "bytes": len(data)}), data]
        for region, rows in run.expected:
            shape = {name: int(getattr(region, name)) for name in ("rows", "row_elements", "row_bytes")}
            out.append(CHECK.to_bytes({"offset": region.address, **shape}))
            out.append(np.ascontiguousarray(rows, dtype="<i2").tobytes())
        out.append(np.where(run.labels < 0, NO_LABEL, run.labels).astype("<u2").tobytes())
    return b"".join(out)


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of the parts of an image that are not 0: working space is not sent."""
    lines = np.frombuffer(data, np.uint8).reshape(-1, _GAP).any(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], lines.astype(np.int8), [0]])))
    for first, last in zip(edges[::2] * _GAP, edges[1::2] * _GAP, strict=True):
        yield int(first), data[first:last]
