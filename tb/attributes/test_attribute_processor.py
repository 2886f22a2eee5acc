"""Attribute processor against the golden model, request by request; every flow and policy by name."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from contracts import Error, Flow, Policy
from golden.attributes.cache import AttributeRam, Step
from hw.attributes.formats import AttributeConfig
from sim.attributes.trace_bench import Phase, Played, check, narrow, play
from sim.harness.expected import expect_cycles
from tb.attributes import processor_bench
from tb.harness.marks import full

NODES = 60
DEGREES = np.random.default_rng(5).permutation(NODES).tolist()
#: Requests of the long random trace.
LONG = 100_000
Request = tuple[int, int, int]


def ram_of(config: AttributeConfig) -> AttributeRam:
    return AttributeRam(config.slots, config.ways, config.policy, NODES, lambda node: DEGREES[node])


def random_requests(
    rng: np.random.Generator, count: int, slots: int, nodes: int = NODES, beyond: float = 0.01, reads: float = 0.5
) -> tuple[Request, ...]:
    """Draw requests of uneven popularity, often at one slot of the ID, sometimes of IDs outside the graph."""
    ids = np.minimum(rng.geometric(0.06, count) - 1, nodes - 1)
    ids = np.where(rng.random(count) < beyond, nodes + rng.integers(0, 1 << 20, count), ids)
    spots = np.where(rng.random(count) < 0.5, ids % slots, rng.integers(0, slots, count))
    return tuple(zip(ids.tolist(), spots.tolist(), (rng.random(count) < reads).astype(int).tolist(), strict=True))


def played(config: AttributeConfig, phases: list[Phase], directory: Path, beats: int | None = None) -> list[Played]:
    """Play phases and compare all of them with one golden model."""
    out, _ = play(config, phases, directory, nodes=NODES, degrees=DEGREES, beats=beats)
    ram = ram_of(config)
    for phase, one in zip(phases, out, strict=True):
        if phase.forget:
            ram.clear()
        check(config, ram, phase, one, beats)
    return out


def directed(requests: list[Request], expected: list[Step], directory: Path, policy: Policy = Policy.LRU) -> Played:
    """Play requests one by one, each at rest, whose steps are known; then all at once."""
    config = narrow(policy=policy)
    (out, _) = played(config, [Phase(tuple(requests), latency=3), Phase(tuple(requests), forget="flush")], directory)
    for step, want in zip(out.events, expected, strict=True):
        assert step == want
    return out


def play_all(phases: Callable[[Policy], list[Phase]]) -> dict[Policy, list[tuple[Phase, Played]]]:
    """Play phases on the processors with all policies, side by side in one design, one after another."""
    configs = [narrow(policy=policy) for policy in Policy]
    whole: list[Phase] = []
    for number, policy in enumerate(Policy):
        first, *others = (replace(phase, processor=number) for phase in phases(policy))
        whole += [replace(first, forget="reset"), *others]
    with TemporaryDirectory() as folder:
        out, _ = play(
            configs[0], whole, Path(folder), nodes=NODES, degrees=DEGREES, name="attribute_policies", beside=configs
        )
    pairs = list(zip(whole, out, strict=True))
    return {policy: [pair for pair in pairs if pair[0].processor == n] for n, policy in enumerate(Policy)}


def check_all(policy: Policy, pairs: list[tuple[Phase, Played]]) -> None:
    """Compare what `play_all` gave for a policy with the golden model."""
    config = narrow(policy=policy)
    ram = ram_of(config)
    for phase, one in pairs:
        if phase.forget:
            ram.clear()
        check(config, ram, phase, one)


def fill(ids: list[int]) -> list[Request]:
    """Return requests that bring `ids` into slots 0, 1, ..."""
    return [(node, slot, 0) for slot, node in enumerate(ids)]


# Flows of A7 ----------------------------------------------------------------------------------------------------------


def test_flow_a_hit_in_the_cache_swaps_with_the_target(tmp_path: Path) -> None:
    # 1 goes to the cache when 2 takes its slot; asked for at slot 3, it changes places with 4.
    requests = [(1, 0, 1), (2, 0, 1), (4, 3, 1), (1, 3, 1), (4, 3, 1), (1, 5, 1)]
    expected = [
        Step(1, 0, Flow.MISSED),
        Step(2, 0, Flow.MISSED, displaced=1),
        Step(4, 3, Flow.MISSED),
        Step(1, 3, Flow.CACHED, displaced=4),
        Step(4, 3, Flow.CACHED, displaced=1),
        Step(1, 5, Flow.CACHED),
    ]
    directed(requests, expected, tmp_path)


def test_flow_b_hit_at_another_address_swaps_two_entries(tmp_path: Path) -> None:
    requests = [(1, 0, 1), (2, 1, 1), (1, 1, 1), (2, 0, 1), (1, 7, 1), (1, 7, 1), (2, 7, 1), (1, 0, 1)]
    expected = [
        Step(1, 0, Flow.MISSED),
        Step(2, 1, Flow.MISSED),
        Step(1, 1, Flow.MOVED, displaced=2),
        Step(2, 0, Flow.IN_PLACE, displaced=None),
        Step(1, 7, Flow.MOVED),
        Step(1, 7, Flow.IN_PLACE),
        Step(2, 7, Flow.MOVED, displaced=1),
        Step(1, 0, Flow.IN_PLACE),
    ]
    directed(requests, expected, tmp_path)


def test_flow_c_miss_displaces_into_the_cache_which_evicts(tmp_path: Path) -> None:
    ids = list(range(20, 27))
    # Seven IDs at one slot: five displaced fill the cache, the sixth evicts the first.
    requests = [(node, 2, 1) for node in ids]
    expected = [Step(ids[0], 2, Flow.MISSED)]
    expected += [Step(node, 2, Flow.MISSED, displaced=before) for node, before in zip(ids[1:6], ids, strict=False)]
    expected += [Step(ids[6], 2, Flow.MISSED, displaced=ids[5], evicted=ids[0])]
    directed([*requests, (ids[0], 2, 1)], [*expected, Step(20, 2, Flow.MISSED, displaced=26, evicted=21)], tmp_path)


def test_the_method_of_the_source_step_by_step(tmp_path: Path) -> None:
    """A10: receive 710, target 720, is it there 730, fetch 742 and write 744, swap 752."""
    out = directed(
        [(9, 4, 1), (9, 4, 1), (9, 6, 1)],
        [
            Step(9, 4, Flow.MISSED),  # 710, 720; 730: not there; 742, 744: fetched and written to the target address
            Step(9, 4, Flow.IN_PLACE),  # 730: there, at the target address
            Step(9, 6, Flow.MOVED),  # 730: there, at another address; 752: swapped
        ],
        tmp_path,
    )
    assert out.beats == 3
    # The compute units read the same row three times, though memory was read once.
    assert len({rows[0] for rows in out.rows.values()}) == 1
    assert sorted(out.rows) == [0, 1, 2]


# Policies of A8 -------------------------------------------------------------------------------------------------------


#: Five entries of the cache that differ in everything; the requests before their displacement make them so.
ENTRIES = [40, 41, 42, 43, 44]


def policy_phases(policy: Policy) -> list[Phase]:
    requests = [(node, slot, 0) for slot, node in enumerate(ENTRIES)]
    touches = {40: 3, 41: 1, 42: 4, 43: 0, 44: 2}
    for node in (42, 44, 40, 41, 43):
        requests += [(node, ENTRIES.index(node), 0)] * touches[node]
    # Displaced in an order of its own: 41, 44, 40, 43, 42.
    order = [41, 44, 40, 43, 42]
    requests += [(50 + n, ENTRIES.index(node), 0) for n, node in enumerate(order)]
    requests += [(30, 0, 0)]
    rng, slots = np.random.default_rng(int(policy)), narrow().slots
    return [
        Phase(tuple(requests), latency=5),
        Phase(random_requests(rng, 1000, slots), forget="reset"),
        Phase(random_requests(rng, 1000, slots), failing=(3, 9), stall=0.3, hold=0.3, idle=0.3, latency=40),
        Phase(random_requests(rng, 1000, slots), stall=0.5, hold=0.6, latency=3, out_of_order=True),
        Phase(random_requests(rng, 1000, slots), forget="reset", idle=0.2),
    ]


@cache
def policies_played() -> dict[Policy, list[tuple[Phase, Played]]]:
    return play_all(policy_phases)


@pytest.mark.parametrize("policy", list(Policy), ids=lambda policy: policy.name.lower())
def test_policy_evicts(policy: Policy) -> None:
    victims = {
        Policy.DEGREE: min(ENTRIES, key=lambda node: DEGREES[node]),
        Policy.LRU: 43,  # its last request was its first
        Policy.LFU: 43,
        Policy.MRU: 41,
        Policy.FIFO: 41,
        Policy.LIFO: 42,
        Policy.SIEVE: 43,  # the first of those that were requested once
    }
    first, *_ = policies_played()[policy]
    assert first[1].events[-1].evicted == victims[policy]


@pytest.mark.parametrize("policy", list(Policy), ids=lambda policy: policy.name.lower())
def test_random_requests(policy: Policy) -> None:
    check_all(policy, policies_played()[policy])


def contents(ram: AttributeRam) -> list[Request]:
    """Return requests that read everything the RAM holds: the buffer in place, then the cache."""
    buffer = [(node, slot, 1) for slot, node in enumerate(ram.buffer) if node is not None]
    return [*buffer, *((node, 0, 1) for node in ram.cache if node is not None)]


def test_a_long_trace_with_faults_agrees_to_the_end(tmp_path: Path) -> None:
    """A hundred thousand requests, a fault now here, now there; at the end every entry equals external memory."""
    config = narrow()
    rng = np.random.default_rng(99)
    ram = ram_of(config)
    phases = []
    for number in range(10):
        first = int(rng.integers(0, 20))
        phases.append(
            Phase(
                random_requests(rng, LONG // 10, config.slots, reads=0.1),
                failing=(first, first + int(rng.integers(0, 8))) if number % 2 else None,
                stall=(0.0, 0.3)[number % 3 == 0],
                hold=(0.0, 0.2)[number % 4 == 0],
                latency=int(rng.integers(1, 60)),
                out_of_order=number % 2 == 0,
            )
        )
        failing = range(*phases[-1].failing) if phases[-1].failing else range(0)
        failing = range(failing.start, failing.stop + 1) if phases[-1].failing else failing
        for node, slot, _ in phases[-1].requests:
            ram.request(node, slot, node in failing)
    final = Phase(tuple(contents(ram)))
    out = played(config, [*phases, final], tmp_path)
    assert len(final.requests) == config.slots + config.ways or None in ram.buffer
    # None of it was read from memory again.
    assert all(step.flow in (Flow.IN_PLACE, Flow.CACHED) for step in out[-1].events)
    assert out[-1].beats == 0
    assert len(out[-1].rows) == len(final.requests)


# Bad input ------------------------------------------------------------------------------------------------------------


def test_a_failed_read_leaves_nothing(tmp_path: Path) -> None:
    config = narrow()
    requests: tuple[Request, ...] = ((5, 1, 1), (7, 2, 1), (5, 1, 1), (6, 1, 1))
    out = played(
        config,
        [Phase(requests, failing=(5, 5), latency=9), Phase(((5, 1, 1), (5, 1, 1), (6, 1, 1)))],
        tmp_path,
    )
    assert out[0].responses[0] == [(Flow.MISSED, Error.MEMORY_READ)]
    assert [step.flow for step in out[0].events] == [Flow.MISSED] * 4
    assert out[0].events[3].displaced is None
    assert [step.flow for step in out[1].events] == [Flow.MISSED, Flow.IN_PLACE, Flow.CACHED]


def test_an_id_outside_the_graph_is_refused(tmp_path: Path) -> None:
    # The last two look like 5 in the low bits.
    requests: tuple[Request, ...] = ((5, 1, 1), (NODES, 1, 1), (5 + 256, 1, 1), (5 + (1 << 31), 1, 1), (5, 1, 1))
    (out,) = played(narrow(), [Phase(requests)], tmp_path)
    assert [out.responses[n][0][1] for n in range(5)] == [0, Error.VID_RANGE, Error.VID_RANGE, Error.VID_RANGE, 0]


def test_requests_for_a_row_on_its_way_wait_and_make_one_fetch(tmp_path: Path) -> None:
    config = narrow()
    requests: tuple[Request, ...] = (
        (1, 0, 1), (1, 0, 1), (1, 0, 1), (2, 3, 1), (3, 3, 1), (2, 3, 1), (2, 0, 1), (1, 4, 1),
    )  # fmt: skip
    (out,) = played(config, [Phase(requests, latency=50)], tmp_path)
    assert sum(step.flow == Flow.MISSED for step in out.events) == 3
    assert out.beats == 3 * config.row_beats


def test_hits_go_on_under_a_miss(tmp_path: Path) -> None:
    config = narrow()
    before = tuple(fill([10, 11, 12]))
    hits: tuple[Request, ...] = tuple((10 + n % 3, n % 3, 0) for n in range(200))
    out = played(config, [Phase(before), Phase(((1, 5, 0), *hits), latency=200)], tmp_path)
    # All hits fit into the latency of the one miss.
    assert out[1].cycles < 230


# Variants -------------------------------------------------------------------------------------------------------------


def test_the_smallest_sizes(tmp_path: Path) -> None:
    config = narrow(slots=7, ways=1, row_beats=1, data_width=128, policy=Policy.LFU, outstanding=2)
    rng = np.random.default_rng(17)
    phases = [
        Phase(random_requests(rng, 1500, config.slots)),
        Phase(random_requests(rng, 1500, config.slots), failing=(0, 4), stall=0.3, hold=0.3, latency=30),
    ]
    played(config, phases, tmp_path)


def test_looking_into_the_cache_first() -> None:
    """The table is asked after the cache; IDs have so few cells that most are found by a search."""
    given = {"policy": "LFU", "sequential": True}
    processor_bench.launch(processor_bench.machine(**given), given)


@full
@pytest.mark.parametrize("policy", ["LFU", "DEGREE"])
def test_looking_into_both_at_once(policy: str) -> None:
    given = {"policy": policy}
    processor_bench.launch(processor_bench.machine(**given), given)


def test_a_reset_in_the_middle_changes_nothing_later(tmp_path: Path) -> None:
    config = narrow()
    rng = np.random.default_rng(3)
    requests = random_requests(rng, 400, config.slots)
    phases = []
    for cut_off in (11, 100, 333, 1000):
        phases.append(Phase(requests, cut_off=cut_off, latency=20))
        phases.append(Phase(requests))
    out, _ = play(config, phases, tmp_path, nodes=NODES, degrees=DEGREES)
    for one in out[1::2]:
        check(config, ram_of(config), phases[1], one)


def long_phases(policy: Policy) -> list[Phase]:
    rng, slots = np.random.default_rng(int(policy) + 50), narrow().slots
    return [
        Phase(random_requests(rng, 10_000, slots, reads=0.1), failing=(n, n + 4) if n % 2 else None, stall=n / 10)
        for n in range(8)
    ]


@full
def test_long_traces_of_every_policy() -> None:
    for policy, pairs in play_all(long_phases).items():
        check_all(policy, pairs)


# Rates ----------------------------------------------------------------------------------------------------------------


def test_cycles_of_hits_and_swaps(tmp_path: Path) -> None:
    """A hit in place takes a cycle, a swap at most the beats of a row and four more."""
    config = narrow()
    count = 300
    there = fill(list(range(12)))
    hits = Phase(tuple((n % 12, n % 12, 0) for n in range(count)))
    # Two entries change places again and again.
    moves = Phase(tuple((n % 2, 0, 0) for n in range(1, count + 1)))
    # 20 and 21 take turns in slot 3 and in the cache.
    cached = Phase(tuple((20 + n % 2, 3, 0) for n in range(count)))
    for beats in (1, 2, 3):
        out = played(
            config, [Phase(tuple(there)), hits, moves, Phase(((20, 3, 0), (21, 3, 0))), cached], tmp_path, beats
        )
        assert {step.flow for step in out[1].events} == {Flow.IN_PLACE}
        assert {step.flow for step in out[2].events} == {Flow.MOVED}
        assert {step.flow for step in out[4].events} == {Flow.CACHED}
        assert out[1].cycles <= count + 12
        for name, one in (("moved", out[2]), ("cached", out[4])):
            assert one.cycles <= count * (beats + 4) + 12, f"{name}: {one.cycles / count:.2f} cycles with {beats} beats"
            expect_cycles(f"attributes.attribute_processor.{name}.{beats}", one.cycles)
        expect_cycles(f"attributes.attribute_processor.hits.{beats}", out[1].cycles)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"slots": 1}, "slots"),
        ({"ways": 0}, "ways"),
        ({"row_beats": 129}, "row_beats"),
        ({"id_bits": 33}, "id_bits"),
        ({"tag_bits": 0}, "tag_bits"),
        ({"outstanding": 3}, "outstanding"),
        ({"outstanding": 128}, "outstanding"),
        ({"bucket_bits": 0}, "bucket_bits"),
        ({"data_width": 96}, "data_width"),
    ],
)
def test_sizes_out_of_range_are_refused(changes: dict[str, int], parameter: str) -> None:
    with pytest.raises(ValueError, match=parameter):
        narrow(**changes)
