"""What a whole machine is judged by: figures that meet their aim, that miss it, and that are missing."""

from typing import Any

import pytest

from scripts.bench import aims
from scripts.flows.schema import Communities, Result, RingTraffic, Thresholds
from tb.flows.results import made


def run(**changed: Any) -> Result:
    """Return the result of a run of one community chiplet on Cora."""
    found = Communities(1, 2, 3, 1, [1], "tiles", 0.5, Thresholds(5, False, 1, 64))
    return made(**{
        "dataset": {"name": "cora"},
        "config": {"name": "community", "chiplets": 1},
        "cycles": 20_000,
        "cycles_by_phase": {"layer0.process": 15_000, "layer0.neural": 3_000, "layer1.neural": 1_000},
        "macs": {"lanes": 64, "limit_cycles": 18_000, "utilisation": 0.91},
        "external_bytes": {"read": 1_000, "written": 150, "compulsory": 1_000, "limit_cycles": 9_000},
        "ring": None,
        "communities": found,
        "accuracy": {"float": 0.8, "machine": 0.8},
        "simulation": {"cycles_per_second": 25_000.0},
        **changed,
    })  # fmt: skip


def on_ring(words: list[int], rate: float = 25_000.0) -> Result:
    """Return the result of a run on a ring, with these words on links of which the least is 7."""
    ring = RingTraffic("tiles", 1.0, 0.5, words_by_link=words, minimum=[7, 7], unicast=30, broadcast=20)
    return run(ring=ring, simulation={"cycles_per_second": rate})


def layer(placement: str, minimum: int, **changed: Any) -> dict[str, Any]:
    """Return what one layer on a placement gives."""
    return {
        "dataset": "planetoid:somewhere/cora", "placement": placement, "chiplets": 4, "minimum": minimum,
        "bits": 256 * minimum, "words_by_link": [minimum], "measured_words_by_link": [minimum], "bit_exact": True,
        **changed,
    }  # fmt: skip


def met(figures: list[aims.Figure]) -> list[bool | None]:
    return [figure.met for figure in figures]


@pytest.mark.parametrize(("share", "expected"), [(0.9, True), (0.899, False)])
def test_utilisation_on_cora_has_an_aim(share: float, expected: bool) -> None:
    macs = {"lanes": 64, "limit_cycles": 18_000, "utilisation": share}
    (figure,) = aims.utilisation([run(macs=macs)])
    assert figure.met is expected
    assert "20,000 cycles; at least 18,000, memory's own limit 9,000" in figure.measured
    assert "I-GCN 429" in figure.published


def test_other_graphs_are_reported_without_one() -> None:
    (figure,) = aims.utilisation([run(dataset={"name": "digits"})])
    assert (figure.met, figure.aim, figure.published) == (None, "", "")


def test_only_communities_of_one_chiplet_count_for_work_and_traffic() -> None:
    others = [run(communities=None), on_ring([7, 7])]
    assert aims.utilisation(others) == aims.memory(others) == []


@pytest.mark.parametrize(("written", "expected"), [(200, True), (201, False)])
def test_bytes_beside_the_compulsory_ones(written: int, expected: bool) -> None:
    moved = {"read": 1_000, "written": written, "compulsory": 1_000, "limit_cycles": 9_000}
    assert met(aims.memory([run(external_bytes=moved)])) == [expected]


def test_one_word_too_many_on_a_link_is_told() -> None:
    assert met(aims.ring([on_ring([7, 7])], [])) == [True]
    (figure,) = aims.ring([on_ring([7, 7]), on_ring([7, 8])], [])
    assert (figure.met, figure.measured) == (False, "the least on every link in 1 of 2 runs")


def test_placements_are_compared_with_tiles() -> None:
    layers = [layer("tiles", 700), layer("tiles, 54 hubs", 690)]
    few, many = layer("communities", 80), layer("communities", 100)
    figures = aims.ring([], [*layers, few, many])
    assert met(figures) == [True, False]
    assert figures[1].measured.startswith("7.0 times fewer: 100 for 700, bits 25,600 for 179,200")


@pytest.mark.parametrize("wrong", [{"bit_exact": False}, {"measured_words_by_link": [201]}])
def test_a_placement_counts_only_if_the_hardware_agrees(wrong: dict[str, Any]) -> None:
    figures = aims.ring([], [layer("tiles", 700), layer("communities", 80, **wrong)])
    assert met(figures) == [False]
    assert "RTL DIFFERS" in figures[0].measured


def test_the_worst_run_decides_about_accuracy() -> None:
    assert met(aims.accuracy([run()])) == [True, True, True]
    worse = run(bit_exact=False, accuracy={"float": 0.8, "machine": 0.79, "agreement": 0.98})
    assert met(aims.accuracy([run(), worse])) == [False, False, False]


def test_the_neural_chip_is_reported_apart() -> None:
    (figure,) = aims.neural([run(), run(cycles_by_phase={"layer0.process": 5})])
    assert (figure.measured, figure.met) == ("4,000 of 20,000 cycles, 20.0%", None)


def test_the_slowest_ring_decides_about_simulation() -> None:
    assert aims.speed([run()]) == []
    (figure,) = aims.speed([on_ring([7, 7]), on_ring([7, 7], 19_999.0)])
    assert (figure.measured, figure.met) == ("19,999", False)
    assert met(aims.speed([on_ring([7, 7], 20_000.0)])) == [True]


def test_time_of_verilog() -> None:
    assert met(aims.verilog({"a": 59.0, "b": 60.0})) == [True, False]


def test_a_clock_that_was_not_measured_is_not_judged() -> None:
    (figure,) = aims.fpga([run()], None)
    assert figure.met is None
    assert "atoll synth machine --config ecp5-85" in figure.measured
    clock, latency = aims.fpga([run()], 50.0)
    assert (clock.met, latency.measured) == (False, "0.40 ms, 20,000 cycles")


def test_the_processor_beside_it() -> None:
    (figure,) = aims.host([{"dataset": "cora", "by": "SciPy", "threads": 1, "milliseconds": 0.5}])
    assert (figure.what, figure.measured) == ("latency: cora, SciPy, cores: 1", "0.50 ms")
