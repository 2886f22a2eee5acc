"""Images of community chiplets: sparse rows, of which nothing is lost.

No sparse row touches a granule too many.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from contracts import ROW_BYTES, SPARSE_ENTRY
from golden.program.features import place_sparse
from golden.program.program import Program

_GRANULE = ROW_BYTES // SPARSE_ENTRY.bytes


def placed(features: sparse.csr_array, *, apart: bool) -> tuple[bytes, bytes, int]:
    """Return entries and offsets as they lie in memory, and the number of entries."""
    p = Program()
    entries, count, begins = place_sparse(p, features, apart=apart)
    regions, memory = p.layout().regions, p.memory()
    data, words = (memory[at.address : at.address + at.bytes] for at in (regions[entries], regions[begins]))
    return data, words, count


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 60), st.integers(0, 1 << 30))
def test_rows_apart_touch_as_few_granules_as_they_can(lengths: list[int], columns: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = sparse.lil_array((len(lengths), columns), dtype=np.int16)
    for row, length in enumerate(lengths):
        for column in random.choice(columns, min(length, columns), replace=False):
            rows[row, column] = random.integers(1, 1 << 15)
    features = sparse.csr_array(rows)
    data, words, count = placed(features, apart=True)
    entries, offsets = np.frombuffer(data, dtype=SPARSE_ENTRY.dtype), np.frombuffer(words, dtype="<u4").astype(int)
    assert offsets[0] == 0
    assert offsets[-1] == count == entries.size
    before = 0
    for row, (begin, end) in enumerate(pairwise(offsets)):
        index, value = (features[[row]].indices, features[[row]].data)
        length, filled = index.size, end - begin - index.size
        assert (entries["index"][begin : begin + length] == index).all()
        assert (entries["value"][begin : begin + length] == value).all()
        assert not entries["index"][begin + length : end].any()
        assert not entries["value"][begin + length : end].any()
        assert 0 <= filled < _GRANULE
        assert end - begin <= columns
        assert not filled or length, "a row without entries was filled up"
        if length:
            # What fills it up lies in a granule that it has anyway.
            touched = (end - 1) // _GRANULE - begin // _GRANULE + 1
            assert touched == (begin + length - 1) // _GRANULE - begin // _GRANULE + 1
            # The row before could not be filled up that far, or it touches as few as it can.
            push = -begin % _GRANULE
            assert touched == -(-length // _GRANULE) or before + push > columns
            before = end - begin


@pytest.mark.parametrize("apart", [False, True])
def test_rows_without_entries(apart: bool) -> None:
    _, words, count = placed(sparse.csr_array((3, 5), dtype=np.int16), apart=apart)
    assert count == 0
    assert words == bytes(16)
