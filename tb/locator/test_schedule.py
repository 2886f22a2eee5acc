"""Schedules: thresholds fall to 0, and those that cannot are refused."""

import pytest

from contracts.communities import BRANCHES, ROUNDS_MAX, SHARE, TOP_DEGREE
from contracts.errors import InputError
from golden.datasets import load
from golden.locator.locator import Limits, locate
from golden.locator.partition import partition
from golden.locator.schedule import ANY, SLOW, Choice, Schedule, balanced, falling, quarter


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
        ("synthetic:cycle,nodes=9", 2),
        ("synthetic:clique,nodes=30", 29),
        ("synthetic:star,nodes=30", 1),
        ("synthetic:grid,nodes=100", 4),
        ("karate", 9),
        # More than an eighth of the vertices are hubs, since searches would find too many.
        ("les-miserables", 9),
        ("digits", 10),
        ("synthetic:clique,nodes=256", 255),
    ],
)
def test_a_run_falls_from_a_degree_that_follows_from_all(name: str, threshold: int) -> None:
    graph = load(name)
    schedule = falling(graph)
    schedule.require_end()
    assert schedule == Schedule(threshold, False, 1, by_degrees=True)
    assert (graph.degrees > threshold).sum() <= graph.nodes / 2
    assert locate(graph, schedule).edges_read <= locate(graph, SLOW).edges_read


def test_chiplets_that_share_a_graph_out_begin_where_an_eighth_are_hubs() -> None:
    graph = load("digits")
    assert falling(graph, 4) == ANY.schedule(graph, 4) == Schedule(15, False, 1)
    assert 0 < SHARE * (graph.degrees > 15).sum() <= graph.nodes < SHARE * (graph.degrees > 14).sum()


def test_no_threshold_is_above_the_degrees_that_are_told_apart() -> None:
    assert falling(load("synthetic:clique,nodes=300")).threshold == TOP_DEGREE


@pytest.mark.parametrize("degree", [1, 4, 9])
@pytest.mark.parametrize("nodes", [*range(12, 32), 99, 100, 101])
def test_the_first_threshold_is_the_highest_with_which_searches_end(nodes: int, degree: int) -> None:
    """Degree by degree, as the rule has it."""
    degrees = (graph := load(f"synthetic:erdos,nodes={nodes},degree={degree}")).degrees.tolist()

    def least(share: int) -> int:
        return min(t for t in range(nodes) if share * sum(d > t for d in degrees) <= nodes)

    def branches(threshold: int) -> int:
        return sum(d * (d - 1) for d in degrees if d <= threshold)

    sparse = max(t for t in range(nodes) if 2 * branches(t) <= BRANCHES * graph.edge_count)
    assert falling(graph).threshold == min(least(SHARE), max(sparse, least(2)))


def test_cliques_are_communities_by_default() -> None:
    """Those of alike degrees above 16, each with two vertices that join it to the next."""
    graph = load("synthetic:caveman,nodes=300,degree=29")
    found = locate(graph, falling(graph))
    assert len(found.hubs) == 20
    assert [record.nodes.size for record in found.communities] == [28] * 10


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


@pytest.mark.parametrize(
    ("name", "hubs", "communities", "largest"),
    [
        ("karate", 5, 14, 8),
        ("davis", 11, 9, 8),
        ("florentine", 3, 6, 4),
        ("les-miserables", 22, 30, 8),
        ("digits", 1297, 225, 18),
        ("synthetic:power-law", 73, 74, 31),
        ("synthetic:community,nodes=240,degree=5,classes=30,mixing=0.05", 37, 31, 37),
    ],
)
def test_small_graphs_come_apart_by_default(name: str, hubs: int, communities: int, largest: int) -> None:
    """As docs/locator.md has it."""
    graph = load(name)
    found = partition(graph, falling(graph), Limits(quarter(graph)))
    assert (len(found[0]), len(found[1])) == (hubs, communities)
    assert max(len(nodes) for nodes, _ in found[1]) == largest


@pytest.mark.parametrize(("nodes", "most"), [(1, 5), (23, 5), (24, 6), (255, 63), (256, 64), (10_000, 64)])
def test_a_community_is_a_quarter_of_the_graph_at_most(nodes: int, most: int) -> None:
    assert quarter(load(f"synthetic:empty,nodes={nodes}")) == most


@pytest.mark.parametrize(
    ("name", "pes", "most"),
    [
        ("empty,nodes=3200", 32, 10),
        ("empty,nodes=3200", 128, 6),
        ("empty,nodes=1", 32, 6),
        ("empty,nodes=320000", 32, 32),
        # Whole cliques, unless a PE has fewer vertices.
        ("caveman,nodes=1800,degree=19", 32, 20),
        ("caveman,nodes=1800,degree=19", 128, 14),
        # Neighbours have no neighbours in common.
        ("bipartite,nodes=1000,degree=16", 32, 6),
        ("grid,nodes=1600", 32, 6),
    ],
)
def test_communities_of_a_ring_are_small_unless_they_share_sums(name: str, pes: int, most: int) -> None:
    assert balanced(load(f"synthetic:{name}"), pes, 32) == most


def test_what_is_not_chosen_follows_from_the_graph() -> None:
    graph = load("karate")
    assert ANY.schedule(graph) == falling(graph) == Schedule(9, False, 1, by_degrees=True)
    assert Choice(threshold=4).schedule(graph) == Schedule(4, False, 1)
    assert Choice(step=3).schedule(graph) == Schedule(9, False, 3, by_degrees=True)
    assert Choice(halving=True).schedule(graph) == Schedule(9, True, 1, by_degrees=True)
    assert not ANY
    assert all([Choice(0), Choice(step=1), Choice(halving=True), Choice(c_max=64)])
    with pytest.raises(InputError, match="--step: does nothing where the threshold halves"):
        Choice(step=2, halving=True)
    for scheme, k, message in (
        ("windows", None, "--scheme: is 'windows'; expected one of pairs, window, none"),
        ("pairs", 4, "--k: is the number of columns of a window; expected --scheme window"),
        (None, 2, "--k: is the number"),
        ("window", 3, "--k: is 3; expected one of 2, 4, 8"),
    ):
        with pytest.raises(InputError, match=message):
            Choice(scheme=scheme, k=k)
    with pytest.raises(InputError, match="so the threshold never falls"):
        Choice(step=0).schedule(graph)
    with pytest.raises(InputError, match="schedule, rounds: is 1023; expected at least 2001"):
        Choice(threshold=2000).schedule(graph)
