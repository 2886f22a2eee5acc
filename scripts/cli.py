"""The program `atoll`: one verb for each thing to do with blocks, machines and data sets."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from amaranth.hdl import UnusedElaboratable
from rich.progress import Progress

from scripts.blocks import Block, UserError, find
from scripts.dnp.cli import add_to as add_dnp_to
from scripts.options import Strict
from scripts.soc_cli import add_to as add_soc_to
from scripts.version import described

app = typer.Typer(
    name="atoll",
    help="Generator, simulator and synthesis flow for a graph-neural-network accelerator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

BlockName = Annotated[str, typer.Argument(help="A block as <area>.<block>, an area, or 'all'.", metavar="BLOCK")]
BlockOrMachine = Annotated[
    str, typer.Argument(help="A block as <area>.<block>, an area, 'all', or 'machine'.", metavar="BLOCK|machine")
]
MachineName = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="Configuration of the machine, or of dnp.machine: a name or a TOML file.  [default: default]",
        show_default=False,
    ),
]
MachineChiplets = Annotated[
    int | None, typer.Option("--chiplets", help="Chiplets of the machine; default: as configured.", min=1, max=16)
]

Threshold = Annotated[
    int | None,
    typer.Option(
        help="Degree above which a vertex is a hub, in the first round.  [default: from the degrees of all]",
        min=0,
        show_default=False,
    ),
]
Step = Annotated[
    int | None, typer.Option(help="Fall of the threshold a round.  [default: 1]", min=0, show_default=False)
]
Halving = Annotated[bool, typer.Option("--halving", help="Halve the threshold every round instead.")]

#: Exit status of a comparison that failed, and of a request that cannot be carried out.
FAILED = 1
REFUSED = 2
#: Exit status after SIGINT, by convention and by typer.
INTERRUPTED = 130
#: Seconds after which an interrupt that was dropped comes again.
_AGAIN = 0.05


def _finish(good: bool) -> None:
    if not good:
        raise typer.Exit(FAILED)


def _version(wanted: bool) -> None:
    if wanted:
        print(described())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version and commit.")
    ] = False,
) -> None:
    pass


@app.command(cls=Strict)
def run(
    dataset: Annotated[str, typer.Argument(help="What `atoll datasets` lists.")] = "digits",
    config: Annotated[str, typer.Option(help="Name of a file in configs/, or a path.")] = "default",
    model: Annotated[str | None, typer.Option(help="gcn, sage or gin.  [default: gcn]", show_default=False)] = None,
    chiplets: Annotated[
        int | None,
        typer.Option(
            help="Chiplets on the ring.  [default: what the configuration says]", min=1, max=16, show_default=False
        ),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            help="Of a graph that is shared out or cut: tiles in the order of VIDs, or whole communities.  "
            "[default: communities where one chiplet has no room for the graph at once, otherwise tiles]",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers to train.", min=1, max=32)] = 2,
    hidden: Annotated[int, typer.Option(help="Width of the layers before the last.", min=1)] = 16,
    seed: Annotated[int, typer.Option(help="Of initial weights, dropout, a head and samples.", min=0)] = 0,
    activation: Annotated[
        str, typer.Option(help="Between layers: relu in the PEs; sigmoid, tanh or elu on the neural chip.")
    ] = "relu",
    model_file: Annotated[
        Path | None,
        typer.Option(help="Weights to use instead of training: .npz, .safetensors or .pt (docs/models.md)."),
    ] = None,
    rtl: Annotated[bool, typer.Option("--rtl/--no-rtl", help="Simulate, or use the golden model alone.")] = True,
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Folder for result.json, report.html and predictions.npz.")
    ] = Path("atoll-out"),
    head: Annotated[
        int | None,
        typer.Option(
            help="Epochs that a classifier head learns on the neural chip from the results before the last layer.",
            show_default=False,
        ),
    ] = None,
    head_hidden: Annotated[
        str, typer.Option(help="Widths of the head's hidden layers, with commas; '': it is a single layer.")
    ] = "",
    batch: Annotated[
        int, typer.Option(help="Roots of a mini-batch (GraphSAGE), beside the whole graph; 0: none.", min=0)
    ] = 0,
    batches: Annotated[int, typer.Option(help="Mini-batches of each chiplet at most; 0: no limit.", min=0)] = 0,
    fanout: Annotated[str, typer.Option(help="Neighbours to sample in each hop, one hop a layer.")] = "10,10",
    order: Annotated[str, typer.Option(help="Of the roots of mini-batches: ID, random, BFS or community.")] = "ID",
    slots: Annotated[
        str | None,
        typer.Option(
            help="Slots of attribute rows: ahead (by the next requests), hash or position.  [default: ahead if it can]",
            show_default=False,
        ),
    ] = None,
    negatives: Annotated[
        int,
        typer.Option(
            help="Nodes to draw for each root of a mini-batch that are not joined to it, for link prediction; 0: none.",
            min=0,
        ),
    ] = 0,
    replicas: Annotated[
        bool,
        typer.Option(
            "--replicas/--no-replicas",
            help="Copy the rows that mini-batches want most of other chiplets into each chiplet's memory.",
        ),
    ] = False,
    threshold: Threshold = None,
    step: Step = None,
    halving: Halving = False,
    c_max: Annotated[
        int | None,
        typer.Option(
            "--c-max",
            help="Largest community, in vertices.  [default: as large as configured; on a ring a part of a PE's share]",
            show_default=False,
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            help="How sums of a community are shared: pairs, window or none.  [default: pairs]", show_default=False
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", help="Columns of a window: 2, 4 or 8.  [default: 2]", show_default=False),
    ] = None,
    bits: Annotated[int, typer.Option(help="Bits of features and weights: 8 or 16.")] = 16,
    percentile: Annotated[
        float, typer.Option(help="Share of the values of a tensor that must fit; larger ones saturate.")
    ] = 100,
    session: Annotated[
        int, typer.Option(help="Runs of graphs one after another while weights stay in memory; 0: none.", min=0)
    ] = 0,
    clock: Annotated[
        float | None, typer.Option(help="Clock in MHz, for graphs a second of a session.", min=0.001)
    ] = None,
    edits: Annotated[
        Path | None,
        typer.Option(help="File of edges that come and go: a run after each of its steps.", show_default=False),
    ] = None,
    edge_weights: Annotated[
        bool, typer.Option("--edge-weights/--no-edge-weights", help="Use weights of edges, or count every edge once.")
    ] = True,
    edge_attributes: Annotated[
        bool,
        typer.Option(
            "--edge-attributes/--no-edge-attributes",
            help="Use attributes of edges in the first layer (GraphSAGE), or leave them out.",
        ),
    ] = True,
) -> None:
    """Run an inference in RTL and compare it bit by bit with the golden model.

    Exit status 0 only if every value is the same, 1 if not, 2 if the input cannot be used.
    """
    from golden.locator.schedule import Choice
    from golden.model.calibration import Calibration
    from scripts.dnp.perceptron import widths
    from scripts.flows import batch as sampled
    from scripts.flows import run as flow

    sampling = None
    if batch:
        targets = sampled.parse_slots(slots)
        sampling = sampled.Sampling(batch, sampled.parse_fan_out(fanout), order, batches, targets, negatives, replicas)
    request = flow.Request(
        dataset, model, config, chiplets, placement, layers, hidden, seed, activation, model_file, rtl, out, head,
        sampling, Choice(threshold, step, halving, c_max, scheme, k), Calibration(percentile, bits), session, clock,
        edge_weights, edits, widths(head_hidden, "--head-hidden"), edge_attributes,
    )  # fmt: skip
    _finish(flow.run(request).bit_exact is not False)


@app.command("import")
def import_model(
    model: Annotated[
        Path, typer.Argument(help="State dict of a PyTorch Geometric network: .safetensors, .pt or .pth.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Archive for `atoll run --model-file`.")] = Path("net.npz"),
    activation: Annotated[str, typer.Option(help="Between layers: relu, sigmoid, tanh or elu.")] = "relu",
    act_first: Annotated[bool, typer.Option("--act-first", help="The activation is before the BatchNorm.")] = False,
    aggr: Annotated[
        str | None,
        typer.Option(
            help="mean, sum or max.  [default: mean of SAGEConv, sum of GraphConv]",
            show_default=False,
        ),
    ] = None,
    self_loops: Annotated[
        bool, typer.Option("--self-loops", help="It was trained on add_self_loops(edge_index)[0].")
    ] = False,
    heads: Annotated[
        str, typer.Option(help="Of a last GATConv without bias, whose arrays do not show it: concat or mean.")
    ] = "concat",
    negative_slope: Annotated[float, typer.Option(help="Of GATConv.")] = 0.2,
    plain_last: Annotated[
        bool, typer.Option("--plain-last/--no-plain-last", help="Perceptrons in GINConv end without activation.")
    ] = True,
    norm_eps: Annotated[float, typer.Option(help="Of BatchNorm.", min=0)] = 1e-5,
    pool: Annotated[
        str | None,
        typer.Option(
            help="Mean or sum of every small graph's rows behind the last convolution.  [default: neither]",
            show_default=False,
        ),
    ] = None,
    plain_pool: Annotated[bool, typer.Option("--plain-pool", help="No activation is before the pooling.")] = False,
    order: Annotated[
        str, typer.Option(help="Modules in the order of forward(), with commas.  [default: by names and widths]")
    ] = "",
) -> None:
    """Convert a network that was trained with PyTorch Geometric.

    Options say what a state dict does not hold. Exit status 2 if the network cannot be read or converted: a line for
    each layer says why.
    """
    from golden.importing.layers import Options
    from scripts.flows import importing as flow

    names = tuple(name.strip() for name in order.split(",")) if order else ()
    options = Options(
        activation, act_first, aggr, heads, negative_slope, norm_eps, plain_last, self_loops, pool, plain_pool, names
    )
    refused = flow.import_network(model, options, out)
    for error in refused:
        print(f"atoll: {error}", file=sys.stderr)
    if refused:
        raise typer.Exit(REFUSED)


@app.command()
def program(
    dataset: Annotated[str, typer.Argument(help="What `atoll datasets` lists.")] = "digits",
    config: Annotated[str, typer.Option(help="Name of a file in configs/, or a path.")] = "default",
    model: Annotated[str | None, typer.Option(help="gcn, sage or gin.  [default: gcn]", show_default=False)] = None,
    chiplets: MachineChiplets = None,
    placement: Annotated[
        str | None, typer.Option(help="tiles or communities, as for `atoll run`.", show_default=False)
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers to train.", min=1, max=32)] = 2,
    hidden: Annotated[int, typer.Option(help="Width of the layers before the last.", min=1)] = 16,
    activation: Annotated[str, typer.Option(help="Between layers: relu, sigmoid, tanh or elu.")] = "relu",
) -> None:
    """Print the commands that every chiplet carries out for an inference of `atoll run` with these options.

    Exit status 2 if the input cannot be used.
    """
    from scripts.flows import program as flow
    from scripts.flows.request import Request

    flow.program(Request(dataset, model, config, chiplets, placement, layers, hidden, activation=activation))


@app.command()
def islands(
    dataset: Annotated[str, typer.Argument(help="What `atoll datasets` lists.")] = "karate",
    engines: Annotated[int, typer.Option(help="Search engines.", min=1, max=64)] = 4,
    threshold: Threshold = None,
    step: Step = None,
    halving: Halving = False,
    c_max: Annotated[
        int | None,
        typer.Option(
            "--c-max",
            help="Largest community, in vertices.  [default: a quarter of all, 64 at most]",
            show_default=False,
        ),
    ] = None,
    window: Annotated[int, typer.Option(help="Vertices whose state is on the chip; 0: all.", min=0)] = 0,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for islands.json and the picture.")] = Path(
        "atoll-out"
    ),
) -> None:
    """Find hubs and communities in RTL, check them, and draw the adjacency before and after reordering.

    Exit status 1 if a record is wrong, 2 if the input cannot be used.
    """
    from golden.locator.schedule import Choice
    from scripts.flows import islands as flow

    choice = Choice(threshold, step, halving, c_max)
    try:
        flow.islands(flow.Request(dataset, engines, choice=choice, window=window, out=out))
    except AssertionError as error:
        print(f"atoll: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None


@app.command()
def datasets() -> None:
    """List what can be named as a data set."""
    from golden.datasets import catalogue
    from scripts.flows.table import show

    show("data sets", ("name", "what it is"), catalogue())


@app.command()
def configs(
    name: Annotated[
        str | None, typer.Argument(help="A configuration: a name or a TOML file.  [default: list the names]")
    ] = None,
    chiplets: MachineChiplets = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the documents' page of all keys instead.")
    ] = False,
) -> None:
    """List the named configurations, or every key of one with its value, default, range and meaning."""
    from scripts.flows import configs as flow

    if markdown:
        print(flow.markdown(), end="")
    elif name is None:
        flow.list_configs()
    else:
        flow.list_keys(name, chiplets)


def _chosen(block: str, config: str | None, chiplets: int | None, bus_width: int | None = None) -> list[Block]:
    """Return the blocks that a name stands for, or what a configuration makes of it."""
    from scripts.machine import ARRAY, MACHINE, array_block, machine_block

    if block == MACHINE:
        return [machine_block(config or "default", chiplets, bus_width)]
    return [array_block(config)] if block == ARRAY and config else find(block, MACHINE)


@app.command(cls=Strict)
def generate(
    block: BlockOrMachine = "all",
    config: MachineName = None,
    chiplets: MachineChiplets = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the files.")] = Path("build/verilog"),
    lint: Annotated[bool, typer.Option("--lint", help="Read the result with Verilator's lint and Yosys.")] = False,
    apart: Annotated[bool, typer.Option("--split", help="A file for each part of a design.")] = False,
    bus_width: Annotated[
        int | None,
        typer.Option(help="Bits of the bus at the machine's memory port.  [default: its own]", show_default=False),
    ] = None,
) -> None:
    """Write Verilog, the ports as JSON and a FuseSoC core file, of blocks or of a whole machine."""
    from scripts.flows import generate as flow
    from scripts.flows.outputs import checked_folder

    checked_folder(out)
    flow.report(
        [flow.generate(entry, out, linted=lint, apart=apart) for entry in _chosen(block, config, chiplets, bus_width)]
    )


@app.command(cls=Strict)
def synth(
    block: BlockOrMachine = "all",
    config: MachineName = None,
    chiplets: MachineChiplets = None,
    fmax: Annotated[bool, typer.Option(help="Place and route too, for the maximum clock frequency.")] = True,
    check: Annotated[bool, typer.Option("--check", help="Compare areas with tb/expected.toml.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Write the areas into tb/expected.toml.")] = False,
    device: Annotated[str, typer.Option(help="ecp5, or xilinx: UltraScale+, the area only.")] = "ecp5",
    tree: Annotated[bool, typer.Option("--tree", help="Print areas by hierarchy, each module mapped apart.")] = False,
    paths: Annotated[
        int, typer.Option(help="Print so many of the longest paths, of a design that need not fit a device.", min=0)
    ] = 0,
) -> None:
    """Synthesise for ECP5 and print LUTs, flip-flops, multipliers, block RAMs and Fmax; or the area for UltraScale+."""
    from scripts.flows import area_tree, logic_paths
    from scripts.flows import synth as flow
    from scripts.flows.devices import device_of

    chosen = _chosen(block, config, chiplets)
    # One that is named is wanted, whether it is one of all or not.
    blocks = chosen if len(chosen) == 1 else [entry for entry in chosen if entry.synth]
    target = device_of(device)
    if paths:
        for entry in blocks:
            logic_paths.report(entry, logic_paths.paths_of(entry, paths))
        return
    if tree:
        for entry in blocks:
            area_tree.report(area_tree.area_tree(entry, target), target)
        return
    areas = [flow.synth(entry, fmax=fmax, device=target) for entry in blocks]
    if update:
        flow.update(areas)
    _finish(flow.report(areas, check=check, device=target))


@app.command()
def formal(block: BlockName = "all") -> None:
    """Run the formal proofs and their covers."""
    from scripts.flows import formal as flow

    _finish(flow.report(flow.formal(find(block))))


@app.command()
def mutate(
    block: BlockName = "all",
    count: Annotated[int, typer.Option(help="Mutants for each block.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="Which mutants.")] = 1,
    least: Annotated[float, typer.Option(help="Score below which the exit status is 1, in per cent.")] = 95.0,
    patience: Annotated[
        float, typer.Option(help="Seconds for each solver to show that a survivor is equivalent.", min=0)
    ] = 300.0,
) -> None:
    """Count how many small faults in a block its bench notices."""
    from scripts.flows import mutate as flow
    from scripts.flows.table import console

    scores = []
    blocks = [entry for entry in find(block) if entry.bench or entry.name == block]
    with Progress(console=console, transient=True) as bar:
        for entry in blocks:
            task = bar.add_task(entry.name, total=count)
            scores.append(
                flow.mutate(
                    entry,
                    count=count,
                    seed=seed,
                    patience=patience,
                    progress=lambda done, total, task=task: bar.update(task, completed=done, total=total),  # type: ignore[misc]
                )
            )
    _finish(flow.report(scores, least))


@app.command()
def cover(block: BlockName = "all") -> None:
    """Measure line, branch and toggle coverage of blocks by their own benches."""
    from scripts.flows import cover as flow

    _finish(flow.report([flow.cover(entry) for entry in find(block) if entry.bench or entry.name == block]))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="A benchmark, or 'all'.", metavar="NAME")] = "all",
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for tables and plots.")] = Path("atoll-out/bench"),
) -> None:
    """Run a benchmark.

    One of ring, islands, community, machine, portfolio, schemes, networks, growth, scaling, stream, latency,
    attributes, divided, cache-2050, cache-rates, dnp-rates, dnp-scaling, dnp-learning, dnp-gates. A table goes to the
    screen, JSON and a plot to disk.
    """
    from scripts.bench import catalogue
    from scripts.flows.outputs import checked_folder

    checked_folder(out)
    for run_bench in catalogue.find(name):
        run_bench(out)


@app.command(cls=Strict)
def contracts(
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write.")] = Path("docs/contracts.md"),
    check: Annotated[bool, typer.Option("--check", help="Only compare the file with the table in code.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print instead of writing.")] = False,
) -> None:
    """Write every format and code that blocks share, from the one table in code."""
    from scripts.flows import contracts as flow
    from scripts.flows.outputs import checked_file, write

    text = flow.markdown()
    if show:
        print(text, end="")
    elif check:
        if not out.exists() or out.read_text() != text:
            print(f"{out} differs from contracts; run `atoll contracts`", file=sys.stderr)
            raise typer.Exit(FAILED)
    else:
        write(checked_file(out), text)
        print(out)


@app.command()
def doctor(
    brief: Annotated[bool, typer.Option("--brief", help="One line of versions.")] = False,
) -> None:
    """Print the tools' versions and what is missing."""
    from scripts.flows import doctor as flow

    _finish(flow.report(flow.doctor(), brief=brief))


add_dnp_to(app)
add_soc_to(app)


def _undropped(raised: Any) -> None:
    """Let an interrupt come again that came in a destructor, where Python drops it; say what else was raised there."""
    if issubclass(raised.exc_type, KeyboardInterrupt):
        again = threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(raised)


def main() -> None:
    """Run the program; a request that cannot be carried out ends in one line and status 2, SIGINT in one and 130."""
    from typer.exceptions import TyperException

    from contracts.errors import InputError
    from scripts.flows.yosys import ToolError
    from sim.harness.build import BuildError

    # Components are also made only to ask for their ports.
    warnings.simplefilter("ignore", UnusedElaboratable)
    sys.unraisablehook = _undropped
    try:
        status = app(standalone_mode=False)
    except TyperException as error:
        # The command line itself is wrong. A verb that was called without anything has shown its help already.
        if said := " ".join(error.format_message().split()).rstrip("."):
            print(f"atoll: {said}; expected what `atoll --help`, `atoll VERB --help` list", file=sys.stderr)
        sys.exit(REFUSED)
    except (UserError, InputError) as error:
        print(f"atoll: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    except (ToolError, BuildError) as error:
        print(f"atoll: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except OSError as error:
        # A full disk, a folder that cannot be read, a program that is not there.
        where = f"{error.filename}: " if error.filename else ""
        print(f"atoll: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(REFUSED)
    if status == INTERRUPTED:
        print("atoll: interrupted", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
