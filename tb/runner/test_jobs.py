"""Outcomes of jobs and how they are judged, without a simulation; the tops that a machine is simulated in."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import Error, Model
from golden.community.image import build_community_images
from golden.datasets import load
from golden.locator.schedule import SLOW
from golden.ring.placement import Placement
from hw.chiplet.config import GatherChipletConfig
from hw.machine import machine_of
from hw.pe.formats import PEConfig
from hw.ring.formats import Clocks, RingConfig
from sim.models.recorders import recorder_plusargs, recording
from sim.problems import random_problem
from sim.runner.clocks import start_clocks
from sim.runner.host import Run
from sim.runner.jobs import Expected, Job, Outcome
from sim.runner.phases import Phase
from sim.runner.top import machine_top

PE = PEConfig(lanes=2, data_width=64, weight_rows=64, max_out=8)
CONFIG = GatherChipletConfig(groups=1, pes=1, pe=PE, depth=32)
ROWS = np.arange(6, dtype=np.int16).reshape(3, 2)


def one(began: int, ended: int, error: Error = Error.NONE, info: int = 0) -> Run:
    completion = {"error": int(error), "layer": 0, "tag": 0, "info": info}
    return Run(completion, began, ended, [Phase(0, "combine", 5, began + 1)], {}, {})


OUTCOME = Outcome([one(10, 30), one(12, 41, Error.PEER, 7)], [{"flits": 3}, {"flits": 4}], {0: ROWS}, None, False)
EXPECTED = Expected(
    errors=[Error.NONE, [Error.LINK, Error.PEER]],
    infos=[0, {Error.LINK: None, Error.PEER: [6, 7]}],
    results=[ROWS],
    links={"flits": [3, 4]},
    phases=[[(0, "combine")]] * 2,
)


@pytest.mark.parametrize(
    ("boundaries", "lines", "kept"),
    [([0, 4, 34], 88, [1]), ([0, 30, 34], 88, [1]), ([0, 34, 34], 88, [0, 1]), ([0, 30, 34], 64, [0, 1])],
)
def test_rows_that_a_scratchpad_has_are_not_read_back(boundaries: list[int], lines: int, kept: list[int]) -> None:
    """Of no chiplet, since they are compared together; a chiplet without vertices has none anywhere."""
    given = random_problem(load("karate"), Model.GCN, [16, 4], 3)
    images = build_community_images(given, Placement.at(boundaries, []), SLOW, scratch_lines=lines)
    assert Job(images).kept == kept


def test_time_runs_from_the_first_start_to_the_last_completion() -> None:
    assert OUTCOME.cycles == 31
    assert [run.cycles for run in OUTCOME.runs] == [20, 29]
    assert replace(OUTCOME, runs=OUTCOME.runs[:1]).run.cycles == 20
    with pytest.raises(ValueError, match="too many values"):
        _ = OUTCOME.run


def test_time_of_different_clocks_is_in_cycles_of_the_slowest() -> None:
    fast, slow = one(10, 30), replace(one(6, 20), period=20_000)
    # From 100 ns to 400 ns, and a part of a cycle more.
    assert Outcome([fast, slow], [], {}, None, False).cycles == 15
    assert Outcome([replace(fast, ended=41), slow], [], {}, None, False).cycles == 16


@pytest.mark.parametrize(
    ("periods", "wrong"),
    [
        ((7, 10), "periods must be at most 1, one for each clock, not 2"),
        ((7,), "periods must be even numbers of ps from 2 on, not 7"),
        ((0,), "periods must be even numbers of ps from 2 on, not 0"),
    ],
)
def test_periods_out_of_range_are_refused(periods: tuple[int, ...], wrong: str) -> None:
    clocks: Any = [None]
    with pytest.raises(ValueError, match=wrong):
        start_clocks(clocks, periods).send(None)


@pytest.mark.parametrize(
    "change",
    [
        lambda outcome: replace(outcome, runs=[one(10, 30, Error.LINK), outcome.runs[1]]),
        lambda outcome: replace(outcome, runs=[one(10, 30, info=1), outcome.runs[1]]),
        lambda outcome: replace(outcome, runs=[outcome.runs[0], one(12, 41, Error.PEER, 8)]),
        lambda outcome: replace(outcome, runs=[replace(outcome.runs[0], phases=[]), outcome.runs[1]]),
        lambda outcome: replace(outcome, links=[{"flits": 3}, {"flits": 5}]),
        lambda outcome: replace(outcome, results={0: ROWS + 1}),
    ],
    ids=["error", "info", "info by error", "phases", "links", "results"],
)
def test_each_difference_fails(change: Callable[[Outcome], Outcome]) -> None:
    EXPECTED.judge(OUTCOME)
    with pytest.raises(AssertionError):
        EXPECTED.judge(change(OUTCOME))


def test_a_chiplet_alone_has_the_names_of_the_first_of_a_ring() -> None:
    """So that one host drives both; what belongs to links is missing."""
    ring = RingConfig(chiplets=2, link_width=64, slots=2, max_out=8, window=2, bitmap=64)
    alone = machine_top(machine_of(CONFIG), None, "chiplet", "top", 64)
    several = machine_top(machine_of(CONFIG, ring=ring), ring, "chiplet", "top", 64)
    for text in (alone, several):
        for port in ("c0_start__valid", "c0_done__payload", "mem0_load", "mem0_bytes_read", "mem_latency", "rst"):
            assert f"{port}," in text or f"{port}\n" in text, port
    for name in ("link0_flits", "position", "link_monitor", "c1_start__valid"):
        assert name in several
        assert name not in alone


def test_chiplets_have_one_clock_or_each_its_own() -> None:
    one = RingConfig(chiplets=2, link_width=64, slots=2, max_out=8, window=2, bitmap=64)
    for ring, clocks in ((one, 1), (replace(one, clocks=Clocks.OWN), 2)):
        text = machine_top(machine_of(CONFIG, ring=ring), ring, "chiplet", "top", 64)
        assert text.count("  input clk_1") == 2 * (clocks - 1)
        assert len(set(re.findall(r"\.link_clk\((.*?)\)", text)) - {"link_clk"}) == 2 * (clocks - 1)


def test_recorders_of_each_chiplet_have_files_of_their_own() -> None:
    folder = Path("folder")
    arguments = recorder_plusargs(folder, 2)
    assert len(set(arguments)) == 4
    for kind in ("activity", "records"):
        for number in range(2):
            assert f"+{kind}{number}={recording(kind, folder, number)}" in arguments
