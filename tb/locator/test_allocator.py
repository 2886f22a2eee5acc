"""Golden allocator: every row once, bounded differences of loads, better than taking turns."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import InputError
from golden.datasets import load
from golden.locator.allocator import Allocator, longest_first, lower_bound, work_of
from golden.locator.locator import locate
from golden.locator.schedule import Schedule


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 50)), max_size=60),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 500),
    st.integers(1, 8),
    st.integers(0, 9),
)
@settings(max_examples=200, deadline=None)
def test_every_row_is_given_once_and_loads_in_reach_differ_by_a_threshold_or_a_piece(
    tasks: list[tuple[int, int]], pes: int, hops: int, threshold: int, grain: int, every: int
) -> None:
    golden = Allocator(pes, hops, threshold, grain)
    for number, (rows, columns) in enumerate(tasks):
        golden.add(number, rows, columns, every)
    found = golden.allocation
    rows_of: dict[int, list[int]] = {number: [] for number in range(len(tasks))}
    for share in found.assignments:
        rows_of[share.task] += range(share.first, share.first + share.rows)
    assert all(sorted(rows) == list(range(tasks[number][0])) for number, rows in rows_of.items())
    assert sum(found.loads) == sum(rows * columns for rows, columns in tasks) + every * len(found.assignments)
    pieces = [min(grain, rows) * columns + every for rows, columns in tasks]
    if 2 * hops + 1 >= pes:
        assert max(found.loads) - min(found.loads) <= max(threshold, *pieces, 0)
    works = [rows * columns for rows, columns in tasks]
    assert max(longest_first(works, pes)) >= lower_bound(works, pes)


@pytest.mark.parametrize("name", ["cora", "synthetic:power-law,nodes=3000,degree=4"])
def test_the_busiest_of_eight_has_at_most_a_tenth_more_than_the_mean(name: str) -> None:
    if name == "cora":
        if "ATOLL_PLANETOID" not in os.environ:
            pytest.skip("ATOLL_PLANETOID is not set")
        name = f"planetoid:{os.environ['ATOLL_PLANETOID']}/cora"
    works = [work_of(record) for record in locate(load(name), Schedule(16, False, 1)).records]
    golden, turns = Allocator(8, 2, 512, 8), Allocator(8, 0, 1 << 30, 1)
    for number, (rows, columns) in enumerate(works):
        golden.add(number, rows, columns)
        turns.add(number, rows, columns)
    assert golden.allocation.imbalance <= 1.1 < turns.allocation.imbalance


def test_loads_beyond_the_largest_count_as_much() -> None:
    """One of two PEs gets all of the work, then the other."""
    golden = Allocator(2, 0, 10, 1, most=63)
    for rows in (1, 1, 1, 1):
        golden.add(0, rows, 0 if golden.turn else 40)
    assert golden.allocation.loads == [80, 0]
    golden.hops = 1
    # The first one is thought to have 63.
    for work, pe in ((62, 1), (2, 1), (1, 0)):
        golden.add(0, 1, work)
        assert golden.allocation.assignments[-1].pe == pe
    assert golden.allocation.loads == [81, 64]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 1, 1, 1), "pes: is 0"),
        ((1, 4, 1, 1), r"hops: is 4; expected 0\.\.3"),
        ((1, 1, -1, 1), "threshold: is -1"),
        ((1, 1, 1, 0), "grain: is 0"),
    ],
)
def test_values_out_of_range_are_refused(values: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Allocator(*values)
