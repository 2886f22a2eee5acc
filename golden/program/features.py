"""Sparse features as sections of a program."""

from typing import Any

import numpy as np

from contracts import ROW_BYTES, SPARSE_ENTRY, RegionKind
from golden.graph import IntArray
from golden.program.program import Program, Section

__all__ = ["offsets_of", "place_sparse"]


def offsets_of(features: Any, *, apart: bool = False) -> IntArray:
    """Return where each row of sparse features begins, and the end of the last.

    With `apart`, for readers that fetch each row separately, every row touches as few granules of 32 bytes as possible:
    zero entries at the end of a row, which cost no operation, move the next row into another granule.
    """
    return _begins_apart(features) if apart else np.asarray(features.indptr, dtype=np.int64)


def place_sparse(p: Program, features: Any, *, apart: bool = False) -> tuple[Section, int, Section]:
    """Add sparse features; return their section, the number of entries and the section of the rows' offsets.

    `apart`: see :func:`offsets_of`.
    """
    offsets = offsets_of(features, apart=apart)
    entries = np.zeros(offsets[-1], dtype=SPARSE_ENTRY.dtype)
    pushed = np.repeat((offsets - features.indptr)[:-1], np.diff(features.indptr))
    at = np.arange(features.nnz) + pushed
    entries["index"][at], entries["value"][at] = features.indices, features.data
    kind, columns = RegionKind.FEATURES_SPARSE, features.shape[1]
    section = p.reserve(kind, 0, entries.nbytes, entries.size, columns, SPARSE_ENTRY.bytes)
    p.fill(section, entries.tobytes())
    return section, entries.size, p.words(RegionKind.FEATURE_OFFSETS, offsets)


def _begins_apart(features: Any) -> IntArray:
    """Return the starts of rows and the end of the last: as dense as possible with the fewest granules for each row.

    A row is padded to at most as many entries as there are columns; an empty row is not padded.
    """
    granule = ROW_BYTES // SPARSE_ENTRY.bytes
    lengths = np.diff(features.indptr)
    filled = np.flatnonzero(lengths)
    begins, begin, end = [], 0, 0
    for length in lengths[filled].tolist():
        next_granule = -(-end // granule) * granule
        touches_more = (end % granule + length - 1) // granule > (length - 1) // granule
        begin = next_granule if touches_more and next_granule - begin <= features.shape[1] else end
        begins.append(begin)
        end = begin + length
    # Empty rows lie at the start of the next row with entries.
    return np.asarray([*begins, end])[np.searchsorted(filled, np.arange(lengths.size + 1))]
