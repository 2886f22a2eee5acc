"""Schedules: thresholds fall to 0, and those that cannot are refused."""

import pytest

from golden.datasets import load
from golden.errors import InputError
from golden.islands.locator import locate
from golden.islands.schedule import ROUNDS_MAX, SLOW, Schedule, falling


def thresholds(schedule: Schedule) -> list[int]:
    found = [schedule.threshold]
    while found[-1]:
        found.append(schedule.after(found[-1]))
    return found


def test_a_threshold_halves_or_falls_by_its_step_to_zero() -> None:
    assert thresholds(Schedule(16, True)) == [16, 8, 4, 2, 1, 0]
    assert thresholds(Schedule(7, False, 3)) == [7, 4, 1, 0]
    assert thresholds(Schedule(0, False, 0)) == [0]


@pytest.mark.parametrize("threshold", [0, 1, 2, 3, 16, 1023])
@pytest.mark.parametrize(("halving", "step"), [(True, 0), (False, 1), (False, 5)])
def test_the_least_number_of_rounds_is_exact(threshold: int, halving: bool, step: int) -> None:
    needed = len(thresholds(Schedule(threshold, halving, step)))
    if needed <= ROUNDS_MAX:
        Schedule(threshold, halving, step, needed).require_end()
    if needed > 1:
        with pytest.raises(InputError, match=f"at least {needed}, until the threshold is 0"):
            Schedule(threshold, halving, step, min(needed - 1, ROUNDS_MAX)).require_end()


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        ("synthetic:empty,nodes=3", 0),
        ("synthetic:empty,nodes=1", 0),
        ("synthetic:cycle,nodes=9", 4),
        ("synthetic:clique,nodes=30", 16),
        ("karate", 9),
    ],
)
def test_a_run_falls_from_twice_the_mean_degree(name: str, threshold: int) -> None:
    graph = load(name)
    schedule = falling(graph)
    schedule.require_end()
    assert schedule == Schedule(threshold, False, 1)
    assert locate(graph, schedule).edges_read <= locate(graph, SLOW).edges_read


def test_a_threshold_that_never_falls_is_refused() -> None:
    with pytest.raises(InputError, match="is 0, so the threshold never falls; expected at least 1"):
        Schedule(5, False, 0).require_end()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": -1}, "schedule, threshold: is -1"),
        ({"threshold": 1 << 32}, "schedule, threshold"),
        ({"step": 1 << 16}, "schedule, step"),
        ({"rounds": 0}, "schedule, rounds: is 0; expected 1..1,023"),
        ({"rounds": 1024}, "schedule, rounds: is 1024"),
    ],
)
def test_values_out_of_range_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schedule(**fields)  # type: ignore[arg-type]
