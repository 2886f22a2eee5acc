"""Benchmarks of the DNP-II: `dnp-rates`, `dnp-scaling`, `dnp-learning`, `dnp-gates`.

The first three count RTL cycles, each run compared bit by bit with the golden machine; the last counts gates.
"""

from __future__ import annotations

import json
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
from golden.dnp.passes import pass_through
from scripts.dnp import perceptron
from scripts.dnp.gates import PAPER, chip_gates
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
_LARGE, _SMALL = ProcessorConfig(40_960, 1024, 4096), ProcessorConfig(4096, 256, 4096)
_SMALL_FROM = 8
_NETWORK_SEED = 1
#: The same with boards joined otherwise (D10). Along a line a word passes all processors, so a line has fewer.
_JOINED = ((60, 32, Topology.MESH), (60, 32, Topology.PASF), (60, 16, Topology.LINEAR))
#: Streams of samples: neurons of each of three layers, processors per side, whether RTL carries them out too.
_STREAMS = ((260, 8, True), (260, 16, True), (260, 32, True), (1024, 32, False))
#: Samples of a stream, in two runs whose difference is a pass of the loop.
_SHORT, _LONG = 9, 11


def scaling_config(side: int) -> ProcessorConfig:
    """Return the memory depths a point of the benchmark uses."""
    return _SMALL if side >= _SMALL_FROM else _LARGE


def _forward(side: int, neurons: int, topology: Topology = Topology.TORUS, *, rtl: bool) -> dict[str, Any]:
    """Count the clocks of a forward pass: in RTL, or in the golden machine, which is the hardware clock by clock."""
    config = scaling_config(side)
    mapping = _mapping(side, neurons, topology, config)
    found = _forward_rtl(side, neurons, topology, config) if rtl else _forward_golden(neurons, mapping)
    return {
        "neurons": neurons,
        "side": side,
        "topology": topology.name.lower(),
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


def _forward_rtl(side: int, neurons: int, topology: Topology, config: ProcessorConfig) -> dict[str, Any]:
    given = {"sizes": [neurons] * 3, "seed": _NETWORK_SEED, "topology": topology.name}
    return run_mapped(side, config, "forward_pass", given)


def _mapping(side: int, neurons: int, topology: Topology, config: ProcessorConfig) -> Mapping:
    network = Network.random((neurons,) * 3, seed=_NETWORK_SEED)
    return map_network(network, Grid(side, side, topology), config, stream=False)


def _stream(neurons: int, side: int, *, rtl: bool) -> dict[str, Any]:
    """Count the clocks of a sample in a stream from the host, inputs and outputs included."""
    network, grid = Network.random((neurons,) * 3, seed=_NETWORK_SEED), Grid(side, side, Topology.TORUS)
    rng = np.random.default_rng(_NETWORK_SEED)
    samples = [(rng.integers(0, 32768, neurons), None) for _ in range(_LONG)]
    short, long = (pass_through(network, grid, _SMALL, samples[:n], None) for n in (_SHORT, _LONG))
    if rtl:
        clocks = perceptron.run_rtl(network, grid, _SMALL, samples)
        if clocks != long.clock:
            raise AssertionError(f"RTL takes {clocks} clocks for {_LONG} samples, the golden machine {long.clock}")
    working = [m.state.clocks - m.state.blocked for m in (short, long)]
    clocks_each = (long.clock - short.clock) / (_LONG - _SHORT)
    return {
        "neurons": neurons, "side": side, "by": "RTL" if rtl else "golden", "clocks": clocks_each,
        "busiest": int((working[1] - working[0]).max()) / (_LONG - _SHORT), "samples": _LONG,
    }  # fmt: skip


def _learning_clocks(neurons: int, side: int) -> int:
    """Clocks in which the golden machine learns a sample."""
    network, grid = Network.random((neurons,) * 3, seed=_NETWORK_SEED), Grid(side, side, Topology.TORUS)
    rng = np.random.default_rng(_NETWORK_SEED)
    sample = (rng.integers(0, 32768, neurons), rng.integers(0, 32768, neurons))
    return pass_through(network, grid, _SMALL, [sample], data.LEARNING).clock


@dataclass(frozen=True)
class Equation5:
    """Eq. 5 (D11) with the larger of computing and the way in place of their sum, and its constants.

    For L layers of weights with blocks of B neurons: Σ max(B·(t_cp·B + t), t'·n) + t_own·⌈B/n⌉, then (L - 1) times
    max(t_cm·B, t'·n) for spreading values, and a constant. t_cp, t_cm and t are 1 (a product, a word, passing a sum
    on), as `dnp-rates` measures them, and so is t', a hop of a link. t_own is what a processor needs for each sum that
    it finishes.
    """

    t_own: float
    constant: float

    @classmethod
    def fit(cls, points: Sequence[dict[str, Any]]) -> Equation5:
        """Choose t_own and the constant so that the largest relative error over the points is as small as can be."""
        from scipy.optimize import linprog

        clocks = np.asarray([p["clocks"] for p in points], dtype=float)
        terms = np.asarray([[2 * -(-_block(p) // p["side"]), 1] for p in points], dtype=float)
        known = np.asarray([cls(0, 0).clocks(p["neurons"], p["side"]) for p in points])
        rest, relative = 1 - known / clocks, terms / clocks[:, None]
        ones = np.ones((len(points), 1))
        # Unknowns t_own, the constant and the error e; -e <= relative · (t_own, constant) - rest <= e.
        found = linprog(
            [0, 0, 1],
            A_ub=np.block([[relative, -ones], [-relative, -ones]]),
            b_ub=np.concatenate([rest, -rest]),
            bounds=[(None, None), (None, None), (0, None)],
        ).x
        return cls(float(found[0]), float(found[1]))

    def clocks(self, neurons: int, side: int) -> float:
        """Clocks of a forward pass through three equal layers."""
        block = -(-neurons // side)
        sums = max(block * (block + 1), side) + self.t_own * -(-block // side)
        return 2 * sums + (max(block, side) if side > 1 else 0) + self.constant

    def error(self, points: Sequence[dict[str, Any]]) -> float:
        """Largest relative error over the points."""
        return max(abs(self.clocks(p["neurons"], p["side"]) / p["clocks"] - 1) for p in points)


def _block(point: dict[str, Any]) -> int:
    return -(-int(point["neurons"]) // int(point["side"]))


def scaling(out: Path = OUT, largest: int = 32) -> Bench:
    """Run forward passes of 60-60-60 and 260-260-260 on n × n tori, beside eq. 5, as Fig. 8 and 9 (D11, D12).

    Then boards joined in other ways, streams of samples, and the largest machine's rates beside the paper's.

    Parameters
    ----------
    out
        Folder for JSON and plots.
    largest
        Largest n in RTL. Larger ones are counted by the golden machine, and say so.
    """
    points = [_forward(side, neurons, rtl=side <= largest) for neurons, sides in _PROBLEMS.items() for side in sides]
    joined = [_forward(side, neurons, topology, rtl=side <= largest) for neurons, side, topology in _JOINED]
    streams = [_stream(neurons, side, rtl=rtl and side <= largest) for neurons, side, rtl in _STREAMS]
    equation = Equation5.fit(points)
    rows: list[Sequence[Any]] = []
    for point in points:
        _rate(point)
        point["equation5"] = equation.clocks(point["neurons"], point["side"])
        point["error"] = point["equation5"] / point["clocks"] - 1
        rows.append((*_row(point, ""), f"{point['equation5']:.0f}", f"{point['error']:+.1%}"))
    for point in joined:
        _rate(point)
        rows.append((*_row(point, point["topology"]), "", ""))
    for point in streams:
        _rate(point)
        rows.append((*_row(point, "stream"), f"busiest {point['busiest']:.1f}", ""))
    learning_clocks = _learning_clocks(260, 32)
    gcups = 2 * 260**2 / learning_clocks * CLOCK_MHZ / 1000
    errors = {f"n <= {n}": equation.error([p for p in points if p["side"] <= n]) for n in (8, 16, 32)}
    rows += [(f"largest error, {name}", *[""] * 7, f"{error:.1%}") for name, error in errors.items()]
    rows.append((f"t_own {equation.t_own:.2f}, constant {equation.constant:.1f}", *[""] * 8))
    rows.append(("learning 260-260-260", 32, 1024, "golden", learning_clocks, "", f"{gcups:.2f} GCUPS", "", ""))
    numbers = {
        "points": points,
        "joined": joined,
        "streams": streams,
        "learning": {"neurons": 260, "side": 32, "clocks": learning_clocks, "gcups": gcups},
        "largest_in_rtl": largest,
        "equation5": vars(equation),
        "errors": errors,
    }
    columns = ["layers", "n", "DNP-IIs", "by", "clocks", "conn./clock/DNP", "GCPS at 40 MHz", "eq. 5", "error"]
    plots = {
        "fig8-neurons": lambda axes: _over_neurons(axes, points, equation),
        "fig8-processors": lambda axes: _over_processors(axes, points, equation),
        "fig9": lambda axes: _speeds(axes, points, equation),
    }
    return Bench("dnp-scaling", columns, rows, numbers).finish(out, plots)


def _rate(point: dict[str, Any]) -> None:
    """Add connections per clock, per clock and processor, and per second."""
    rate = 2 * point["neurons"] ** 2 / point["clocks"]
    point |= {"connections_per_clock": rate, "per_processor": rate / point["side"] ** 2}
    point["gcps"] = rate * CLOCK_MHZ / 1000


def _row(point: dict[str, Any], what: str) -> tuple[Any, ...]:
    layers = "-".join([str(point["neurons"])] * 3)
    return (
        f"{layers} {what}".strip(), point["side"], point["side"] ** 2, point["by"], point["clocks"],
        f"{point['per_processor']:.3f}", f"{point['gcps']:.2f}",
    )  # fmt: skip


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
    """Count the gates of a chip without its memories, in NAND2 equivalents, and of its modules (D14)."""
    found = chip_gates()
    rows: list[Sequence[Any]] = [
        (
            name,
            f"{count.gates:,}",
            f"{count.flip_flop_gates:,}",
            count.flip_flops,
            f"{PAPER:,}" if name == "chip" else "",
        )
        for name, count in found.items()
    ]
    columns = ["module", "gates", "in flip-flops", "flip-flops", "paper"]
    numbers = {"paper": PAPER, "modules": {name: vars(count) for name, count in found.items()}}
    return Bench("dnp-gates", columns, rows, numbers).finish(out)


#: Benchmarks by their names on the command line.
BENCHES: dict[str, Callable[..., Bench]] = {
    "dnp-rates": rates,
    "dnp-scaling": scaling,
    "dnp-learning": learning,
    "dnp-gates": gates,
}
