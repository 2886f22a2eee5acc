"""What a whole machine is judged by: each figure as measured, beside its aim and what others have published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.flows.schema import Result

__all__ = ["Figure", "accuracy", "fpga", "host", "memory", "neural", "ring", "speed", "utilisation", "verilog"]

#: Share of the cycles in which multipliers and adders of a machine of 64 multipliers do useful work, on Cora.
_UTILISATION = 0.9
#: External bytes beside the compulsory ones, where hidden features stay on the chip.
_BYTES = 1.2
#: Rows × links of tiles beside those of communities; Cora on four chiplets.
_HOPS = {"communities": 8.0}
#: Accuracy that may be lost to floating point, and predictions that have to agree.
_LOSS, _AGREEMENT = 0.005, 0.99
#: Simulated cycles a second of four chiplets, and seconds that the Verilog of a machine may take.
_SPEED, _GENERATION = 20_000, 60
#: Clock of the ECP5-85 machine, in MHz.
_MHZ = 80
#: Cycles and utilisation of two layers of GCN on Cora as published, with 4,096 multipliers.
_PUBLISHED = "with 4,096: I-GCN 429 cycles, 76 %; AWB-GCN 759, 43 %; GCNAX 42 %"
#: Rows × links of a layer on Cora that models of other placements give, on four chiplets.
_MODELS = "models: a packet an edge 14,728; annealing of communities 715"


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Attributes
    ----------
    what, measured
        Of which graph and machine, and what came out.
    aim
        What it should be; empty where a figure is only reported.
    met
        Whether it is; None without an aim, or where nothing was measured.
    published
        What others have, and with what.
    """

    what: str
    measured: str
    aim: str = ""
    met: bool | None = None
    published: str = ""


def _of(result: Result) -> str:
    sizes = result.config
    return f"{result.dataset.name}, {sizes.name}, {sizes.chiplets}"


def _on_cora(result: Result) -> bool:
    return bool(result.dataset.name.endswith("cora"))


def _alone(runs: Iterable[Result]) -> list[Result]:
    """Choose the runs of one chiplet that finds communities: work and traffic of these have aims."""
    return [run for run in runs if run.communities and not run.ring]


def utilisation(runs: Iterable[Result]) -> list[Figure]:
    """Judge useful operations in a cycle, beside the limits of multipliers and memory port."""
    figures = []
    for run in _alone(runs):
        macs, share = run.macs, run.macs.utilisation or 0.0
        limit = f"at least {macs.limit_cycles:,}, memory's own limit {run.external_bytes.limit_cycles:,}"
        what = f"utilisation of {macs.lanes} multipliers: {_of(run)}"
        figure = Figure(what, f"{share:.1%}, {run.cycles:,} cycles; {limit}")
        if _on_cora(run):
            figure = Figure(what, figure.measured, f"{_UTILISATION:.0%}", share >= _UTILISATION, _PUBLISHED)
        figures.append(figure)
    return figures


def memory(runs: Iterable[Result]) -> list[Figure]:
    """Judge bytes through the memory port."""
    figures = []
    for run in _alone(runs):
        moved = run.external_bytes
        total, share = moved.total, moved.total / moved.compulsory
        measured = f"{share:.2f}: {total:,} of {moved.compulsory:,}"
        figures.append(
            Figure(f"external bytes / compulsory: {_of(run)}", measured, f"at most {_BYTES}", share <= _BYTES)
        )
    return figures


def ring(runs: Iterable[Result], layers: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """Judge words on every link beside the least there can be, and what placements save.

    Parameters
    ----------
    runs
        What `atoll run` found.
    layers
        ``traffic`` of `atoll bench ring`, one layer on each placement in RTL.
    """
    figures = []
    rings = [run.ring for run in runs if run.ring]
    least = sum(ring.words_by_link == ring.minimum for ring in rings)
    if rings:
        measured = f"the least on every link in {least} of {len(rings)} runs"
        figures.append(Figure("words on links of rings", measured, "the least", least == len(rings)))
    tiles = {entry["dataset"]: entry for entry in layers if entry["placement"] == "tiles"}
    for entry in layers:
        first, aim = tiles[entry["dataset"]], _HOPS.get(entry["placement"])
        if aim is None:
            continue
        exact = entry["measured_words_by_link"] == entry["words_by_link"] and entry["bit_exact"]
        factor = first["minimum"] / entry["minimum"]
        name = entry["dataset"].rpartition("/")[2].partition(",")[0]
        measured = (
            f"{factor:.1f} times fewer: {entry['minimum']:,} for {first['minimum']:,}, bits "
            f"{entry['bits']:,} for {first['bits']:,}{'' if exact else '; RTL DIFFERS'}"
        )
        what = f"rows × links of a layer, {entry['chiplets']} chiplets: {name}, {entry['placement']}"
        if name == "cora":
            figures.append(Figure(what, measured, f"{aim} times fewer", factor >= aim and exact, _MODELS))
        else:
            figures.append(Figure(what, measured))
    return figures


def accuracy(runs: Sequence[Result]) -> list[Figure]:
    """Judge predictions beside those of the float model, the worst of all runs."""
    if not runs:
        return []
    loss = max((run.accuracy.float or 0.0) - (run.accuracy.machine or 0.0) for run in runs)
    agreement = min(run.accuracy.agreement for run in runs)
    exact = sum(bool(run.bit_exact) for run in runs)
    return [
        Figure("bit-exact", f"{exact} of {len(runs)} runs", "all", exact == len(runs)),
        Figure("accuracy below the float model, worst run", f"{loss:.2%}", f"at most {_LOSS:.1%}", loss <= _LOSS),
        Figure(
            "predictions that agree, worst run", f"{agreement:.2%}", f"{_AGREEMENT:.0%}", agreement >= _AGREEMENT
        ),
    ]  # fmt: skip


def neural(runs: Iterable[Result]) -> list[Figure]:
    """Report the share of the neural chip where layers end on it."""
    figures = []
    for run in runs:
        chip = sum(cycles for phase, cycles in (run.cycles_by_phase or {}).items() if phase.endswith(".neural"))
        if chip and run.cycles:
            measured = f"{chip:,} of {run.cycles:,} cycles, {chip / run.cycles:.1%}"
            figures.append(Figure(f"neural chip, {run.model.activation} between layers: {_of(run)}", measured))
    return figures


def speed(runs: Iterable[Result]) -> list[Figure]:
    """Judge simulated cycles a second of rings, the slowest run of each machine."""
    slowest: dict[str, float] = {}
    for run in runs:
        if run.ring:
            machine = f"{run.config.name}, {run.config.chiplets}"
            rate = run.simulation.cycles_per_second or 0.0
            slowest[machine] = min(rate, slowest.get(machine, rate))
    return [
        Figure(f"simulated cycles a second: {machine}", f"{rate:,.0f}", f"{_SPEED:,}", rate >= _SPEED)
        for machine, rate in slowest.items()
    ]


def verilog(seconds: Mapping[str, float]) -> list[Figure]:
    """Judge the seconds that the Verilog of each machine takes."""
    return [
        Figure(f"Verilog: {machine}", f"{took:.0f} s", f"below {_GENERATION} s", took < _GENERATION)
        for machine, took in seconds.items()
    ]


def fpga(runs: Iterable[Result], mhz: float | None) -> list[Figure]:
    """Judge clock and latency of the ECP5-85 machine.

    Parameters
    ----------
    runs
        Of that machine.
    mhz
        Its frequency after place and route; None if that was not done here.
    """
    if mhz is None:
        return [Figure("clock of ecp5-85", "not placed here: atoll synth machine --config ecp5-85", f"{_MHZ} MHz")]
    figures = [Figure("clock of ecp5-85, routed", f"{mhz:.1f} MHz", f"{_MHZ} MHz", mhz >= _MHZ)]
    for run in runs:
        took = (run.cycles or 0) / mhz / 1000
        figures.append(Figure(f"latency: {_of(run)}", f"{took:.2f} ms, {run.cycles:,} cycles"))
    return figures


def host(timed: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """Report the latency of the same network on this machine's processor; see `scripts.bench.latency`."""
    return [
        Figure(f"latency: {one['dataset']}, {one['by']}, cores: {one['threads']}", f"{one['milliseconds']:.2f} ms")
        for one in timed
    ]
