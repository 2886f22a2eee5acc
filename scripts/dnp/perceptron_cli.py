"""`atoll dnp map`, `infer` and `train`: layered networks on an array, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import Grid, Topology
from contracts.errors import InputError, unknown
from golden.dnp.array import DeadlockError
from golden.dnp.assembler import assemble
from golden.dnp.network import Learning, Network, NetworkModel
from golden.dnp.passes import Clocks, Samples, count
from golden.dnp.problems import NAMES, Dataset, dataset
from scripts.dnp import perceptron, waiting
from scripts.flows.outputs import checked_folder, publishing
from scripts.flows.table import show
from scripts.options import Strict

__all__ = ["add_to"]

#: Exit status of a comparison that failed, and of programs that wait for each other.
FAILED = 1
_DEFAULTS = ProcessorConfig()
_LARGEST = 65536
#: Most processors along a side (D10).
_SIDE = 32
#: Largest initial weight with up to one hidden layer, and with more.
_SPREAD, _SPREAD_DEEP = 0.3, 1.0
_TOPOLOGIES = [topology.name.lower() for topology in Topology]

_Problem = Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or an .npz file.", metavar="PROBLEM")]
_ModelFile = Annotated[
    Path | None, typer.Option(help="Weights: .npz, or an MLPClassifier saved with joblib.", show_default=False)
]
_Hidden = Annotated[str, typer.Option(help="Widths of the hidden layers, with commas; none: ''.")]
_Side = Annotated[int, typer.Option(help="Processors along a side.", min=1, max=_SIDE)]
_TopologyName = Annotated[str, typer.Option("--topology", help=f"{', '.join(_TOPOLOGIES)}.")]
_Seed = Annotated[int, typer.Option(help="Of initial weights, and of the order of samples.", min=0)]
_Exact = Annotated[
    int, typer.Option(help="Samples that pass the cycle-exact machine, for clocks and waiting.", min=1, max=1000)
]
_Rtl = Annotated[
    int, typer.Option(help="Samples that pass in RTL too, compared bit by bit; 0: none.", min=0, max=65535)
]
_Clock = Annotated[float, typer.Option(help="Clock in MHz, for connections a second.", min=0.001)]
_Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for results.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_WmDepth = Annotated[int, typer.Option(help="Words of WM.", min=2, max=_LARGEST)]
_XmDepth = Annotated[int, typer.Option(help="Words of XM.", min=2, max=_LARGEST)]
_PDepth = Annotated[int, typer.Option(help="Words of program memory.", min=2, max=_LARGEST)]


def _grid(side: int, topology: str) -> Grid:
    if topology.lower() not in _TOPOLOGIES:
        raise unknown("--topology", topology, _TOPOLOGIES)
    return Grid(side, side, Topology[topology.upper()])


@contextmanager
def _comparing() -> Iterator[None]:
    """End the command with one line and status 1 where results differ or programs wait for each other."""
    try:
        yield
    except (AssertionError, DeadlockError) as error:
        typer.echo(f"atoll: {error}", err=True)
        raise typer.Exit(FAILED) from None


def _figures(network: Network, clocks: Clocks, clock: float, grid: Grid, *, learns: bool) -> dict[str, Any]:
    """Figures of some samples, as JSON can hold them."""
    weights = sum(w.size for w in network.weights)
    return {
        "layers": list(network.sizes), "weights": weights, "side": grid.rows, "topology": grid.topology.name.lower(),
        "processors": grid.processors, "samples": clocks.samples, "clock_mhz": clock, "clocks_first": clocks.first,
        "clocks_each": clocks.each, "mega_per_second": weights / clocks.each * clock,
        "per_clock_and_processor": weights / clocks.each / grid.processors,
        "clocks_per_instruction": clocks.busy / clocks.instructions,
        "waiting": clocks.waiting.reshape(grid.rows, grid.columns).round(4).tolist(),
        "waiting_mean": float(clocks.waiting.mean()), "counts": "updates" if learns else "connections",
    }  # fmt: skip


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows of the table that every command shows."""
    rate = found["mega_per_second"]
    unit = "CUPS" if found["counts"] == "updates" else "CPS"
    speed = f"{rate / 1000:.2f} G{unit}" if rate >= 1000 else f"{rate:.1f} M{unit}"
    return [
        ("layers", "-".join(map(str, found["layers"]))),
        ("array", f"{found['side']} x {found['side']}, {found['topology']}: {found['processors']} processors"),
        ("clocks of the first sample, alone", f"{found['clocks_first']:,}"),
        (f"clocks of each further one, {found['samples']} in a stream", f"{found['clocks_each']:,.1f}"),
        (f"{found['counts']} a second at {found['clock_mhz']:g} MHz", speed),
        (f"{found['counts']} per clock and processor", f"{found['per_clock_and_processor']:.3f}"),
        ("clocks per instruction", f"{found['clocks_per_instruction']:.3f}"),
        ("clocks waiting for partners", f"{found['waiting_mean']:.1%}"),
    ]


def _finish(
    title: str, found: dict[str, Any], more: list[tuple[str, str]], out: Path, network: Network, *, as_json: bool
) -> None:
    """Write JSON, weights and the map of waiting into `out`, and print them."""
    shares = np.array(found["waiting"])
    with publishing(out) as files:
        (files / "result.json").write_text(json.dumps(found, indent=1) + "\n")
        waiting.draw(shares, title, files / "waiting.png")
        perceptron.save_network(network, files / "network.npz")
    if as_json:
        print(json.dumps(found, indent=1))
        return
    show(title, ("figure", "value"), [*more, *_rows(found)])
    print("waiting for partners, % of the clocks:")
    print(waiting.as_text(shares))
    print(f"{out}: network.npz, result.json, waiting.png")


def _compare_rtl(found: dict[str, Any], clocks: int, samples: int) -> tuple[str, str]:
    found["rtl_samples"], found["rtl_clocks"] = samples, clocks
    return ("in RTL", f"{samples} samples bit-exact, {clocks:,} clocks")


def _samples(data: Dataset, number: int, *, learns: bool, seed: int = 0) -> Samples:
    """Return the first samples that are learnt, or the first test samples."""
    if not learns:
        return [(sample, None) for sample in data.test[:number]]
    chosen = perceptron.order_of_epoch(len(data.train), 0, seed)[:number]
    return list(zip(data.train[chosen], data.targets()[chosen], strict=True))


def _checked_number(option: str, number: int, most: int) -> int:
    if number > most:
        raise InputError(option, f"asks for {number} samples", f"at most {most}, which the problem has")
    return number


def _check_sizes(network: Network, data: Dataset, where: object) -> None:
    outputs = {data.classes, 1} if data.classes == 2 else {data.classes}
    if network.sizes[0] != data.inputs or network.sizes[-1] not in outputs:
        raise InputError(
            where, f"has {network.sizes[0]} inputs and {network.sizes[-1]} outputs",
            f"{data.inputs} and {data.classes}, as {data.name} has",
        )  # fmt: skip


def train(
    problem: _Problem = "digits",
    hidden: _Hidden = "32",
    model_file: _ModelFile = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training samples.", min=1, max=10_000)] = 12,
    rate: Annotated[float, typer.Option(help="η of eq. 4 in the first epoch, below 4.")] = 2.0,
    decay: Annotated[float, typer.Option(help="Factor of η from epoch to epoch.", min=0.01, max=1)] = 0.8,
    momentum: Annotated[float, typer.Option(help="α of eq. 4, 0 to 1; 1 leaves out its product.")] = 1.0,
    spread: Annotated[
        float | None,
        typer.Option(
            help="Largest initial weight.  [default: 0.3, or 1 with several hidden layers]",
            min=0.001,
            max=7.9,
            show_default=False,
        ),
    ] = None,
    side: _Side = 4,
    topology: _TopologyName = "torus",
    seed: _Seed = 0,
    exact: _Exact = 4,
    rtl: _Rtl = 0,
    clock: _Clock = 40.0,
    out: _Out = Path("atoll-out/dnp-train"),
    as_json: _Json = False,
    wm_depth: _WmDepth = _DEFAULTS.wm_depth,
    xm_depth: _XmDepth = _DEFAULTS.xm_depth,
    p_depth: _PDepth = _DEFAULTS.p_depth,
) -> None:
    """Let an array learn a problem by its own programs (eq. 1-4), beside a float network of the same size.

    With --rtl K the first K samples are learnt in RTL, and then the first K test samples pass with the weights of the
    last epoch. Exit status 1 if anything differs, 2 if the input cannot be used.
    """
    config, grid = ProcessorConfig(wm_depth, xm_depth, p_depth), _grid(side, topology)
    checked_folder(out)
    data = dataset(problem)
    if model_file is not None:
        begun = perceptron.read_network(model_file)
        _check_sizes(begun, data, model_file)
    else:
        widths = perceptron.widths(hidden)
        # Errors get smaller from layer to layer, by less where weights are larger.
        begun = Network.random(
            (data.inputs, *widths, data.classes), seed, spread or (_SPREAD if len(widths) < 2 else _SPREAD_DEEP)
        )
    if begun.sizes[-1] != data.classes:
        raise InputError(model_file, "has one output", f"{data.classes} outputs, a target for each class")
    try:
        rates = [Learning(rate * decay**epoch, momentum) for epoch in range(epochs)]
    except ValueError as error:
        raise InputError("--rate, --momentum", str(error), "constants of eq. 4") from None
    most = len(data.train)
    first = _samples(data, _checked_number("--exact", exact, most), learns=True, seed=seed)
    _checked_number("--rtl", rtl, min(most, len(data.test)))

    mapping = perceptron.mapped(begun, grid, config, rates[0])
    network = begun.copy()
    model = NetworkModel(network, mapping.placement, config.table_bits)
    accuracies = list(perceptron.learned(model, data, rates, seed))
    with _comparing():
        clocks = count(begun, grid, config, first, rates[0])
    beside = perceptron.trained_float(data, begun.sizes[1:-1], seed)
    float_accuracy = perceptron.float_accuracy(Network.from_classifier(beside), data.test, data.test_classes)
    found = _figures(begun, clocks, clock, grid, learns=True)
    found |= {
        "problem": data.name, "epochs": epochs, "rate": rate, "decay": decay, "momentum": momentum,
        "accuracy_by_epoch": accuracies, "accuracy": accuracies[-1], "float_accuracy": float_accuracy,
    }  # fmt: skip
    more = [
        ("problem", f"{data.name}: {len(data.train):,} samples to learn, {len(data.test):,} to test"),
        ("test accuracy of the array", f"{accuracies[-1]:.2%} after {epochs} epochs"),
        ("of a float network of that size", f"{float_accuracy:.2%} (MLPClassifier)"),
    ]
    if rtl:
        with _comparing():
            learnt = perceptron.run_rtl(begun, grid, config, _samples(data, rtl, learns=True, seed=seed), rates[0])
            more.append(_compare_rtl(found, learnt, rtl))
            passed = perceptron.run_rtl(network, grid, config, _samples(data, rtl, learns=False))
            found["rtl_clocks_forward"] = passed
            more.append(("in RTL, forward with the trained weights", f"{rtl} samples bit-exact, {passed:,} clocks"))
    _finish(f"atoll dnp train {problem}", found, more, out, network, as_json=as_json)


def infer(
    problem: _Problem = "digits",
    model_file: _ModelFile = None,
    hidden: _Hidden = "32",
    side: _Side = 4,
    topology: _TopologyName = "torus",
    seed: _Seed = 0,
    exact: _Exact = 8,
    rtl: _Rtl = 0,
    clock: _Clock = 40.0,
    out: _Out = Path("atoll-out/dnp-infer"),
    as_json: _Json = False,
    wm_depth: _WmDepth = _DEFAULTS.wm_depth,
    xm_depth: _XmDepth = _DEFAULTS.xm_depth,
    p_depth: _PDepth = _DEFAULTS.p_depth,
) -> None:
    """Run a trained network on an array, beside the same weights in floating point.

    Without --model-file scikit-learn's MLPClassifier is fitted first. Exit status 1 if the array's words differ from
    the model's, 2 if the input cannot be used.
    """
    config, grid = ProcessorConfig(wm_depth, xm_depth, p_depth), _grid(side, topology)
    checked_folder(out)
    data = dataset(problem)
    if model_file is not None:
        network = perceptron.read_network(model_file)
        _check_sizes(network, data, model_file)
    else:
        network = Network.from_classifier(perceptron.trained_float(data, perceptron.widths(hidden), seed))
    first = _samples(data, _checked_number("--exact", exact, len(data.test)), learns=False)
    _checked_number("--rtl", rtl, len(data.test))

    mapping = perceptron.mapped(network, grid, config)
    model = NetworkModel(network, mapping.placement, config.table_bits)
    accuracy = perceptron.accuracy(model, data.test, data.test_classes)
    float_accuracy = perceptron.float_accuracy(network, data.test, data.test_classes)
    with _comparing():
        clocks = count(network, grid, config, first)
    found = _figures(network, clocks, clock, grid, learns=False)
    found |= {"problem": data.name, "accuracy": accuracy, "float_accuracy": float_accuracy}
    more = [
        ("problem", f"{data.name}: {len(data.test):,} samples to test"),
        ("test accuracy of the array", f"{accuracy:.2%}"),
        ("of the same weights in floating point", f"{float_accuracy:.2%}"),
    ]
    if rtl:
        with _comparing():
            passed = perceptron.run_rtl(network, grid, config, _samples(data, rtl, learns=False))
        more.append(_compare_rtl(found, passed, rtl))
    _finish(f"atoll dnp infer {problem}", found, more, out, network, as_json=as_json)


def map_(
    network: Annotated[
        str, typer.Argument(help="Widths, 64-32-10, or weights: .npz, .joblib.", metavar="WIDTHS|FILE")
    ] = "64-32-10",
    learn: Annotated[bool, typer.Option("--learn", help="Programs that learn; otherwise forward passes.")] = False,
    side: _Side = 4,
    topology: _TopologyName = "torus",
    seed: _Seed = 0,
    exact: _Exact = 4,
    clock: _Clock = 40.0,
    out: _Out = Path("atoll-out/dnp-map"),
    as_json: _Json = False,
    wm_depth: _WmDepth = _DEFAULTS.wm_depth,
    xm_depth: _XmDepth = _DEFAULTS.xm_depth,
    p_depth: _PDepth = _DEFAULTS.p_depth,
) -> None:
    """Place a network on an array: memories, clocks, and every processor's program as `atoll dnp run` reads it.

    Exit status 1 if programs wait for each other, 2 if the input cannot be used.
    """
    config, grid = ProcessorConfig(wm_depth, xm_depth, p_depth), _grid(side, topology)
    checked_folder(out)
    if Path(network).suffix:
        placed = perceptron.read_network(Path(network))
    else:
        widths = perceptron.widths(network, network)
        if len(widths) < 2:
            raise InputError(network, "has no layer", "two or more widths, 64-32-10, or a file")
        placed = Network.random(widths, seed)
    learning = Learning() if learn else None
    mapping = perceptron.mapped(placed, grid, config, learning)
    rng = np.random.default_rng(seed)
    given = rng.integers(0, _LARGEST // 2, (exact, placed.sizes[0]))
    wanted = rng.integers(0, _LARGEST // 2, (exact, placed.sizes[-1])) if learn else [None] * exact
    with _comparing():
        clocks = count(placed, grid, config, list(zip(given, wanted, strict=True)), learning)
    found = _figures(placed, clocks, clock, grid, learns=learn)
    used = {
        "WM": (max(layout.wm_used for layout in mapping.layouts), config.wm_depth),
        "XM": (max(layout.xm_used for layout in mapping.layouts), config.xm_depth),
    }
    images = {text: assemble(text, config=config).program for text in set(mapping.texts)}
    used["program"] = (max(map(len, images.values())), config.p_depth)
    found["memories"] = {name: {"used": most, "depth": depth} for name, (most, depth) in used.items()}
    more = [(f"words of {name}, most and depth", f"{most:,} of {depth:,}") for name, (most, depth) in used.items()]
    more.append(("different programs", f"{len(images):,}"))
    with publishing(out) as files:
        for processor, text in enumerate(mapping.texts):
            row, column = divmod(processor, grid.columns)
            dump = {"program": images[text], "wm": mapping.wm(processor), "xm": {}}
            (files / f"processor-{row}-{column}.json").write_text(json.dumps(dump) + "\n")
    _finish(f"atoll dnp map {network}", found, more, out, placed, as_json=as_json)


def add_to(dnp: typer.Typer) -> None:
    """Give the commands to the group."""
    dnp.command("map")(map_)
    dnp.command(cls=Strict)(infer)
    dnp.command(cls=Strict)(train)
