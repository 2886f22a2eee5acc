"""Filter and remote arrays in Python: the worked examples, and what the bound is for (R14)."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from golden.ring.matching import FilterWindow, bound_of, departures, filter_requests, needed_list, over_banks


def test_r7_worked_example_of_both_modes() -> None:
    for in_order, taken in ((False, [[2], [8], [5]]), (True, [[2], [], [5, 8]])):
        window = FilterWindow(in_order)
        window.entries = [2, 5, 8]
        assert [window.arrives(vid) for vid in (2, 8, 5)] == taken
        assert window.entries == []


def test_r13_worked_example_of_the_bound() -> None:
    groups = [[9], [0, 1, 2], [12], [1]]
    assert bound_of(groups, range(4)) == 1
    assert filter_requests(groups, range(4)) == [0, 1]
    assert filter_requests(groups, range(20, 24)) == []


def test_departures_name_the_farthest_consumer() -> None:
    # Row 0 is needed by chiplets 1 and 3, row 1 by its owner 2 only, row 2 by chiplet 1.
    assert departures(np.array([0b1010, 0b0100, 0b0010]), 4, 2, 10) == [(10, 1), (12, 1)]


def test_needed_list_sorts_drops_and_leaves_out() -> None:
    assert needed_list(np.array([9, 3, 4, 9, 0, 30]), 3, 6, 10).tolist() == [0, 9]


@given(st.sets(st.integers(0, 999)))
def test_vids_of_a_beat_are_in_different_banks(vids: set[int]) -> None:
    """Each turn has one of every bank that still has some, so no order has fewer of one bank in a beat of 8 or 16."""
    ordered = over_banks(np.array(sorted(vids), dtype=np.int64)).tolist()
    assert sorted(ordered) == sorted(vids)
    left = [sorted(vid for vid in vids if vid % 16 == bank) for bank in range(16)]
    while any(left):
        for bank in left:
            assert not bank or ordered.pop(0) == bank.pop(0)


def served(groups: Sequence[Sequence[int]], window: int, bounded: bool) -> bool:
    """Run passes until all sources are served; return whether every group saw the same version of each.

    Each group works through its ascending sources, `window` at a time. After a pass the owner gives every source that
    it has sent a new version. Without the bound it sends all that anybody requests.
    """
    left = [sorted(set(group)) for group in groups]
    version: dict[int, int] = {}
    seen: dict[int, set[int]] = {}
    while any(left):
        requests = [group[:window] for group in left]
        tile = range(1 << 20)
        sent = filter_requests(requests, tile) if bounded else sorted({vid for group in requests for vid in group})
        for number, group in enumerate(requests):
            for vid in group:
                if vid in sent:
                    seen.setdefault(vid, set()).add(version.get(vid, 0))
                    left[number].remove(vid)
        for vid in sent:
            version[vid] = version.get(vid, 0) + 1
    return all(len(versions) == 1 for versions in seen.values())


def test_r14_without_the_bound_a_group_can_read_the_wrong_version() -> None:
    groups = [[0, 1, 2], [1, 2]]
    assert not served(groups, 2, bounded=False)
    assert served(groups, 2, bounded=True)


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=5), st.integers(1, 5))
def test_r14_with_the_bound_no_group_ever_does(groups: list[list[int]], window: int) -> None:
    assert served(groups, window, bounded=True)
