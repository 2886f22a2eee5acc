"""Several attribute processors in the place of one: each has its own IDs, and does with them what it does alone."""

from pathlib import Path

import numpy as np
import pytest

from contracts import Error, Flow, Policy
from golden.attributes.cache import AttributeRam, by_processor, replay
from hw.attributes.attribute_processors import AttributeProcessors
from hw.attributes.formats import AttributeConfig, AttributeCoreConfig
from sim.attributes.trace_bench import Phase, Played, narrow, play, row_of
from tb.attributes.test_attribute_processor import DEGREES, NODES, Request, ram_of, random_requests


def compare(config: AttributeConfig, rams: list[AttributeRam], phase: Phase, played: Played, beats: int) -> None:
    """Compare flow, error and row of each request with a golden model for each processor, which go on."""
    failing = range(phase.failing[0], phase.failing[1] + 1) if phase.failing else range(0)
    shares = by_processor(((node, slot) for node, slot, _ in phase.requests), len(rams))
    steps = [iter(replay(ram, share, failing)) for ram, share in zip(rams, shares, strict=True)]
    read = 0
    for number, (node, _, wants) in enumerate(phase.requests):
        step = next(steps[node % len(rams)])
        failed = step.flow == Flow.MISSED and node in failing
        error = Error.VID_RANGE if step.flow == Flow.REFUSED else Error.MEMORY_READ if failed else Error.NONE
        assert played.responses.get(number) == [(step.flow, error)], f"request {number}: {played.responses.get(number)}"
        rows = [row_of(config, beats, node)] if wants and error == Error.NONE else []
        assert played.rows.get(number, []) == rows, f"request {number} of ID {node}: wrong row; {step}"
        read += step.flow == Flow.MISSED
    # The event of a request is counted once.
    assert sorted(step.flow for step in played.events) == sorted(said[0][0] for said in played.responses.values())
    if config.policy != Policy.DEGREE:
        assert played.beats == read * beats


def played(config: AttributeConfig, count: int, phases: list[Phase], folder: Path, beats: int = 3) -> list[Played]:
    """Play phases on so many processors and compare all of them."""
    name = f"attribute_processors_{count}_{config.policy.name.lower()}"
    out, _ = play(config, phases, folder, nodes=NODES, degrees=DEGREES, beats=beats, name=name, count=count)
    rams = [ram_of(config) for _ in range(count)]
    for phase, one in zip(phases, out, strict=True):
        if phase.forget:
            for ram in rams:
                ram.clear()
        if not phase.cut_off:
            compare(config, rams, phase, one, beats)
    return out


def phases(config: AttributeConfig, count: int, many: int) -> list[Phase]:
    """Draw so many requests for each phase: rows that cannot be read, stalls everywhere, a reset in the middle."""
    rng = np.random.default_rng(count)

    def some() -> tuple[Request, ...]:
        return random_requests(rng, many, config.slots)

    return [
        Phase(some()),
        Phase(some(), failing=(3, 9), stall=0.3, hold=0.3, idle=0.3, latency=40),
        Phase(some(), hold=0.8, out_of_order=True, latency=90),
        Phase(some(), cut_off=many // 4),
        Phase(some(), forget="reset", failing=(0, 30)),
        Phase(some(), forget="flush", stall=0.5),
        # All of one processor: the others are idle, and requests for it wait for each other alone.
        *(
            Phase(tuple((node - node % count + n, slot, read) for node, slot, read in some()), hold=0.2)
            for n in range(count)
        ),
    ]


def in_turn(many: int) -> Phase:
    """IDs in turn, each missed and displacing a row into a full cache."""
    return Phase(tuple((n % NODES, n % 12, 1) for n in range(many)))


@pytest.mark.parametrize(("count", "policy"), [(2, Policy.LRU), (4, Policy.DEGREE)])
def test_each_id_has_one_processor(count: int, policy: Policy, tmp_path: Path) -> None:
    config = narrow(policy=policy)
    played(config, count, phases(config, count, 3000), tmp_path)


def test_misses_of_different_processors_overlap(tmp_path: Path) -> None:
    """Twice as many misses in the time of one."""
    phase = in_turn(2400)
    config, cycles = narrow(outstanding=16, depth=64), []
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        (out,) = played(config, count, [phase], folder)
        assert sum(step.flow == Flow.MISSED for step in out.events) == len(phase.requests)
        cycles.append(out.cycles)
    assert cycles[1] < 0.65 * cycles[0], cycles


def test_counts_are_checked() -> None:
    with pytest.raises(ValueError, match="count must be 2 or 4, not 3"):
        AttributeProcessors(narrow(), 3)
    with pytest.raises(ValueError, match="processors must be 1, 2 or 4, not 3"):
        AttributeCoreConfig(processors=3)
