"""Benchmarks of the DNP-II: `dnp-rates`, `dnp-scaling`, `dnp-learning`, `dnp-gates`.

The first three count RTL cycles, each run compared bit by bit with the golden machine; the last counts gates.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import INSTRUCTIONS
from contracts.dnp.topology import Grid, Topology
from golden.dnp import digits as data
from golden.dnp.assembler import assemble
from golden.dnp.mapper import Mapping, map_network
from golden.dnp.network import Network, NetworkModel
from scripts.dnp.gates import chip_gates
from scripts.dnp.programs import run_rtl
from scripts.flows.outputs import checked_folder, publishing
from scripts.flows.table import show
from sim.dnp.array import run_mapped

__all__ = ["BENCHES", "Bench", "gates", "learning", "rates", "scaling"]

#: Clock of the paper's chip, in MHz (D14).
CLOCK_MHZ = 40
#: Where results go.
OUT = Path("atoll-out/dnp")


@dataclass
class Bench:
    """What a benchmark found.

    Attributes
    ----------
    name
        Its name on the command line.
    columns, rows
        The table.
    numbers
        Everything, as JSON can hold it.
    files
        JSON and plots written.
    """

    name: str
    columns: Sequence[str]
    rows: list[Sequence[Any]]
    numbers: dict[str, Any]
    files: list[Path] = field(default_factory=list)

    def finish(self, out: Path, plots: dict[str, Callable[[Any], None]] | None = None) -> Bench:
        """Write JSON and plots into `out`, print the table."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        with publishing(checked_folder(out)) as files:
            (files / f"{self.name}.json").write_text(json.dumps(self.numbers, indent=1) + "\n")
            for name, draw in (plots or {}).items():
                figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
                draw(axes)
                figure.savefig(files / f"{self.name}-{name}.png", dpi=120)
                plt.close(figure)
            self.files += [out / path.name for path in sorted(files.iterdir())]
        show(self.name, self.columns, self.rows)
        return self


def _clocks(text: str, inputs: dict[str, list[int]], config: ProcessorConfig) -> int:
    """Clocks of a program in RTL; the run fails if golden and RTL differ in any clock."""
    from scripts.dnp.programs import prepared, run_golden

    image = assemble(text)
    run_rtl(image, inputs, config)
    return int(run_golden(prepared(image, inputs, config))["clocks"])


def rates(out: Path = OUT) -> Bench:
    """Measure multiply-accumulates and words a clock inside repetitions, and clocks per instruction (D5, D6)."""
    config = ProcessorConfig()
    supply = {"W": list(range(120))}
    slopes = {}
    for name, text, words in (
        ("multiply-accumulates per clock", "SET #{n} RC\nSET #1 ICR\nREP MADD WM+ XM+ A\nHALT", {}),
        ("weight updates per clock", "SET #{n} RC\nSET #1 ICR\nREP UPD RF1 XM+ WM+\nHALT", {}),
        ("words in per clock (INX)", "SET #{n} RC\nREP INX W XM+\nHALT", supply),
        ("words out per clock (OUT)", "SET #{n} RC\nREP OUT XM+ E\nHALT", {}),
        ("words in and out per clock (PASS)", "SET #{n} RC\nREP PASS W XM+ E\nHALT", supply),
    ):
        few, many = (_clocks(text.format(n=n), words, config) for n in (20, 120))
        slopes[name] = 100 / (many - few)
    clocks = [max(row.clocks, row.clocks_taken) for row in INSTRUCTIONS]
    average = sum(clocks) / len(clocks)
    rows: list[Sequence[Any]] = [(name, f"{value:.3f}", "1") for name, value in slopes.items()]
    rows.append(("Gbit/s per processor, both ways", f"{32 * CLOCK_MHZ / 1000 * slopes[list(slopes)[-1]]:.2f}", "1.28"))
    rows.append(("clocks per instruction over the set, branches taken", f"{average:.3f}", "1.36"))
    numbers = {"slopes": slopes, "clocks_per_instruction": average, "instructions": len(clocks)}
    return Bench("dnp-rates", ["figure", "measured", "paper"], rows, numbers).finish(out)


#: Sizes of the three equal layers (D12), and processors per side; 260 begins at 2.
_PROBLEMS = {60: (1, 2, 4, 8, 16, 32), 260: (2, 4, 8, 16, 32)}
#: Memories of the benchmark's processors: few processors hold more weights each.
_LARGE, _SMALL = ProcessorConfig(40_960, 1024, 4096), ProcessorConfig(4096, 256, 2048)
_SMALL_FROM = 8
_NETWORK_SEED = 1
#: Largest n that the constants of eq. 5 are fitted to.
_FITTED = 16


def scaling_config(side: int) -> ProcessorConfig:
    """Return the memory depths a point of the benchmark uses."""
    return _SMALL if side >= _SMALL_FROM else _LARGE


def _forward(side: int, neurons: int, *, rtl: bool) -> dict[str, Any]:
    """Count the clocks of a forward pass: in RTL, or in the golden machine, which is the hardware clock by clock."""
    config = scaling_config(side)
    mapping = _mapping(side, neurons, config)
    found = _forward_rtl(side, neurons, config) if rtl else _forward_golden(neurons, mapping)
    return {
        "neurons": neurons,
        "side": side,
        "by": "RTL" if rtl else "golden",
        "clocks": max(found["clocks"]),
        "blocked": float(np.mean(found["blocked"])),
        "wm_depth": config.wm_depth,
        "xm_depth": config.xm_depth,
        "wm_used": max(layout.wm_used for layout in mapping.layouts),
        "xm_used": max(layout.xm_used for layout in mapping.layouts),
    }


def _forward_golden(neurons: int, mapping: Mapping) -> dict[str, Any]:
    machine = mapping.machine(np.random.default_rng(_NETWORK_SEED).integers(0, 32768, neurons))
    machine.run()
    return {"clocks": machine.state.clocks.tolist(), "blocked": machine.state.blocked.tolist()}


def _forward_rtl(side: int, neurons: int, config: ProcessorConfig) -> dict[str, Any]:
    given = {"sizes": [neurons] * 3, "seed": _NETWORK_SEED, "topology": "TORUS"}
    return run_mapped(side, config, "forward_pass", given)


def _mapping(side: int, neurons: int, config: ProcessorConfig) -> Mapping:
    return map_network(
        Network.random((neurons,) * 3, seed=_NETWORK_SEED), Grid(side, side, Topology.TORUS), config, stream=False
    )


@dataclass(frozen=True)
class Equation5:
    """Constants of eq. 5 (D11)."""

    t_cp: float
    t: float
    t_cm: float
    t_fill: float

    @classmethod
    def fit(cls, points: Sequence[dict[str, Any]]) -> Equation5:
        """Choose t and t' so that the largest relative error over the points is as small as can be.

        t_cp and t_cm are 1, as `dnp-rates` measures them: with equal layers t_cm could not be told from t.
        """
        from scipy.optimize import linprog

        terms = np.asarray([[2 * _block(p), 2 * p["side"]] for p in points], dtype=float)
        clocks = np.asarray([p["clocks"] for p in points], dtype=float)
        rest = np.asarray([1 - 2 * (_block(p) ** 2 + _block(p)) / p["clocks"] for p in points])
        relative = terms / clocks[:, None]
        ones = np.ones((len(points), 1))
        # Unknowns t, t' and the error e; -e <= relative · (t, t') - rest <= e.
        found = linprog(
            [0, 0, 1],
            A_ub=np.block([[relative, -ones], [-relative, -ones]]),
            b_ub=np.concatenate([rest, -rest]),
            bounds=[(None, None), (None, None), (0, None)],
        ).x
        return cls(1.0, float(found[0]), 1.0, float(found[1]))

    def clocks(self, neurons: int, side: int) -> float:
        """Clocks of a forward pass through three equal layers."""
        block = -(-neurons // side)
        return 2 * (block * (self.t_cp * block + self.t) + self.t_cm * block + self.t_fill * side)

    def error(self, points: Sequence[dict[str, Any]]) -> float:
        """Largest relative error over the points."""
        return max(abs(self.clocks(p["neurons"], p["side"]) / p["clocks"] - 1) for p in points)


def _block(point: dict[str, Any]) -> int:
    return -(-int(point["neurons"]) // int(point["side"]))


def scaling(out: Path = OUT, largest: int | None = None) -> Bench:
    """Run forward passes of 60-60-60 and 260-260-260 on n × n tori, beside eq. 5, as Fig. 8 and 9 (D11, D12).

    Parameters
    ----------
    out
        Folder for JSON and plots.
    largest
        Largest n in RTL: 8, or 16 where ``ATOLL_FULL`` is set. Larger ones are counted by
        the golden machine, and say so.
    """
    largest = largest or (16 if os.environ.get("ATOLL_FULL") else 8)
    points = [_forward(side, neurons, rtl=side <= largest) for neurons, sides in _PROBLEMS.items() for side in sides]
    # Where a layer's computing is shorter than its filling, the two overlap, which eq. 5 does not know.
    equation = Equation5.fit([p for p in points if p["side"] <= _FITTED])
    rows: list[Sequence[Any]] = []
    for point in points:
        connections = 2 * point["neurons"] ** 2
        processors = point["side"] ** 2
        point["connections_per_clock"] = connections / point["clocks"]
        point["per_processor"] = connections / point["clocks"] / processors
        point["gcps"] = connections / point["clocks"] * CLOCK_MHZ / 1000
        point["equation5"] = equation.clocks(point["neurons"], point["side"])
        point["error"] = point["equation5"] / point["clocks"] - 1
        rows.append(
            (
                "-".join([str(point["neurons"])] * 3),
                point["side"],
                processors,
                point["by"],
                point["clocks"],
                f"{point['equation5']:.0f}",
                f"{point['error']:+.1%}",
                f"{point['per_processor']:.3f}",
                f"{point['gcps']:.2f}",
                f"{point['wm_used']}/{point['wm_depth']}",
                f"{point['xm_used']}/{point['xm_depth']}",
            )
        )
    errors = {f"n <= {n}": equation.error([p for p in points if p["side"] <= n]) for n in (8, 16, 32)}
    rows += [(f"largest error, {name}", *[""] * 5, f"{error:.1%}", *[""] * 4) for name, error in errors.items()]
    fitted = f"t_cp 1, t_cm 1, t {equation.t:.2f}, t' {equation.t_fill:.2f}"
    rows.append((fitted, *[""] * 10))
    numbers = {
        "points": points,
        "largest_in_rtl": largest,
        "equation5": vars(equation),
        "errors": errors,
        "fitted_to": _FITTED,
    }
    columns = ["layers", "n", "DNP-IIs", "by", "clocks", "eq. 5", "error", "conn./clock/DNP", "GCPS at 40 MHz",
               "WM used/depth", "XM used/depth"]  # fmt: skip
    plots = {
        "fig8-neurons": lambda axes: _over_neurons(axes, points, equation),
        "fig8-processors": lambda axes: _over_processors(axes, points, equation),
        "fig9": lambda axes: _speeds(axes, points, equation),
    }
    return Bench("dnp-scaling", columns, rows, numbers).finish(out, plots)


def _over_neurons(axes: Any, points: list[dict[str, Any]], equation: Equation5) -> None:
    """Draw Fig. 8 along the neurons: a line for each size of the array, dots counted."""
    neurons = np.arange(20, 301, 5)
    for side in _PROBLEMS[60]:
        (line,) = axes.plot(neurons, [equation.clocks(int(n), side) for n in neurons], lw=1, label=f"{side}×{side}")
        own = [p for p in points if p["side"] == side]
        axes.plot([p["neurons"] for p in own], [p["clocks"] for p in own], "o", ms=5, color=line.get_color())
    axes.set(xlabel="neurons in each of three layers", ylabel="clocks of a forward pass", yscale="log")
    axes.set_title("lines: equation 5; dots: clocks counted")
    axes.legend(fontsize=8, ncols=2, title="processors")


def _over_processors(axes: Any, points: list[dict[str, Any]], equation: Equation5) -> None:
    """Draw Fig. 8 along the processors: a line for each size of the network, dots counted."""
    sides = np.arange(1, 33)
    for neurons in (60, 120, 180, 260):
        clocks = [equation.clocks(neurons, int(side)) for side in sides]
        (line,) = axes.plot(sides**2, clocks, lw=1, label=f"{neurons}-{neurons}-{neurons}")
        own = [p for p in points if p["neurons"] == neurons]
        axes.plot([p["side"] ** 2 for p in own], [p["clocks"] for p in own], "o", ms=5, color=line.get_color())
    axes.set(xlabel="processors", ylabel="clocks of a forward pass", xscale="log", yscale="log")
    axes.set_title("lines: equation 5; dots: clocks counted")
    axes.legend(fontsize=8)


def _speeds(axes: Any, points: list[dict[str, Any]], equation: Equation5) -> None:
    """Draw Fig. 9: connections per second over processors, and one connection a clock and processor as the limit."""
    sides = np.asarray(_PROBLEMS[60])
    axes.plot(sides**2, sides**2 * CLOCK_MHZ / 1000, ":", color="grey", label="one connection a clock and processor")
    for neurons in _PROBLEMS:
        weights = 2 * neurons * neurons
        lines = [weights / equation.clocks(neurons, int(side)) * CLOCK_MHZ / 1000 for side in sides]
        own = [p for p in points if p["neurons"] == neurons]
        (line,) = axes.plot(sides**2, lines, "--", lw=1)
        label = f"{weights:,} weights"
        axes.plot([p["side"] ** 2 for p in own], [p["gcps"] for p in own], "o-", color=line.get_color(), label=label)
    axes.set(xlabel="processors", ylabel="GCPS at 40 MHz", xscale="log", yscale="log", title="dashes: equation 5")
    axes.legend(fontsize=8)


def learning(out: Path = OUT, *, side: int = 4, hidden: int = 32, epochs: int = 12, images: int | None = None) -> Bench:
    """Learn the digits in 16-bit arithmetic; run the first epoch (or some images of it) in RTL, bit by bit.

    Parameters
    ----------
    out
        Folder for JSON and plot.
    side
        Processors along a side of the torus.
    hidden
        Hidden neurons.
    epochs
        Epochs of the model.
    images
        Images of the first epoch that RTL learns; all by default.
    """
    from sklearn.neural_network import MLPClassifier

    config, digits = ProcessorConfig(), data.digits()
    network = data.initial_network(hidden)
    mapping = map_network(network, Grid(side, side, Topology.TORUS), config, learning=data.LEARNING)
    model = NetworkModel(network, mapping.placement, config.table_bits)
    desired = data.targets(digits.train_classes)
    accuracies = []
    for epoch in range(epochs):
        for index in data.order_of_epoch(len(digits.train), epoch):
            model.learn(digits.train[index], desired[index], data.LEARNING)
        accuracies.append(data.accuracy(model, digits.test, digits.test_classes))
    classifier = MLPClassifier((hidden,), activation="logistic", max_iter=600, random_state=0)
    classifier.fit(digits.train / 2**15, digits.train_classes)
    float_accuracy = float(classifier.score(digits.test / 2**15, digits.test_classes))

    images = images or len(digits.train)
    given = {"images": images, "rate": data.LEARNING.rate, "hidden": hidden, "topology": "TORUS"}
    found = run_mapped(side, config, "learn_digits", given)
    weights = sum(w.size for w in network.weights)
    clocks = max(found["clocks"]) / images
    busy = sum(found["clocks"]) - sum(found["blocked"])
    forward = _forward_clocks(hidden, side, config, digits.train[:4])
    numbers = {
        "side": side, "hidden": hidden, "weights": weights, "epochs": epochs, "images_in_rtl": images,
        "bit_identical": True, "accuracy_by_epoch": accuracies, "accuracy": accuracies[-1],
        "float_accuracy": float_accuracy, "clocks_per_image": clocks,
        "clocks_per_instruction": busy / sum(found["instructions"]),
        "blocked_share": sum(found["blocked"]) / sum(found["clocks"]),
        "mcups": weights / clocks * CLOCK_MHZ, "forward_clocks_per_image": forward,
        "mcps": weights / forward * CLOCK_MHZ,
    }  # fmt: skip
    rows: list[Sequence[Any]] = [
        ("test accuracy", f"{accuracies[-1]:.1%}", f"float network of the same size {float_accuracy:.1%}"),
        ("images learned in RTL, weights bit-identical", f"{images:,}", "one epoch is 1,437"),
        ("clocks per image, learning", f"{clocks:.1f}", ""),
        ("clocks per instruction, learning program", f"{numbers['clocks_per_instruction']:.3f}", "paper 1.36"),
        ("share of clocks waiting for partners", f"{numbers['blocked_share']:.1%}", ""),
        (
            f"MCUPS at 40 MHz, {side * side} DNP-IIs",
            f"{numbers['mcups']:.0f}",
            "RAP (20 nodes) 30-60, CNAPS (8 chips) 2300",
        ),
        ("MCPS forward at 40 MHz", f"{numbers['mcps']:.0f}", "RAP 200-300, CNAPS 9600"),
    ]

    def curve(axes: Any) -> None:
        axes.plot(range(1, epochs + 1), accuracies, "o-", label="array, 16 bits")
        axes.axhline(float_accuracy, color="grey", label="float")
        axes.set(xlabel="epoch", ylabel="test accuracy")
        axes.legend()

    return Bench("dnp-learning", ["figure", "measured", "beside it"], rows, numbers).finish(out, {"accuracy": curve})


def _forward_clocks(hidden: int, side: int, config: ProcessorConfig, images: Any) -> float:
    """Clocks per image of forward passes one after the other, in the cycle-exact machine."""
    grid = Grid(side, side, Topology.TORUS)
    mapping = map_network(data.initial_network(hidden), grid, config, samples=len(images))
    machine = mapping.machine()
    machine.edges.update(mapping.feeds([(image, None) for image in images]))
    return machine.run() / len(images)


def gates(out: Path = OUT) -> Bench:
    """Count the gates of a chip without its memories, in NAND2 equivalents (D14)."""
    found = chip_gates()
    rows: list[Sequence[Any]] = [
        ("gates of a chip without memories", f"{found['gates']:,}", f"{found['paper']:,}"),
        ("of them in flip-flops", f"{found['flip_flop_gates']:,} ({found['flip_flops']:,} flip-flops)", ""),
    ]
    return Bench("dnp-gates", ["figure", "measured", "paper"], rows, found).finish(out)


#: Benchmarks by their names on the command line.
BENCHES: dict[str, Callable[..., Bench]] = {
    "dnp-rates": rates,
    "dnp-scaling": scaling,
    "dnp-learning": learning,
    "dnp-gates": gates,
}
