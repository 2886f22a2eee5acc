"""`atoll soc`, `atoll image` and `atoll decode`: the command line of everything that goes to hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scripts.flows.request import Request
from scripts.options import Strict

__all__ = ["add_to"]

#: Exit status of a comparison that failed, or of a clock that is missed.
FAILED = 1
#: Machine of the boards.
_CONFIG = "ecpix5"

soc = typer.Typer(
    help="A system with a soft core, memory and Atoll: simulated, or as a bitstream.", no_args_is_help=True
)

_Dataset = Annotated[str, typer.Argument(help="What `atoll datasets` lists.")]
_Config = Annotated[str, typer.Option("--config", help="Configuration of the machine: a name or a TOML file.")]
_Model = Annotated[str | None, typer.Option(help="gcn, sage or gin.  [default: gcn]", show_default=False)]
_Layers = Annotated[int, typer.Option(help="Layers to train.", min=1, max=32)]
_Hidden = Annotated[int, typer.Option(help="Width of the layers before the last.", min=1)]
_Seed = Annotated[int, typer.Option(help="Of initial weights and dropout.", min=0)]
_ModelFile = Annotated[
    Path | None, typer.Option(help="Weights to use instead of training: .npz, .safetensors or .pt (docs/models.md).")
]


@soc.command("sim", cls=Strict)
def sim(
    dataset: _Dataset = "karate",
    config: _Config = _CONFIG,
    model: _Model = None,
    layers: _Layers = 2,
    hidden: _Hidden = 16,
    seed: _Seed = 0,
    model_file: _ModelFile = None,
    runs: Annotated[int, typer.Option(help="How often the inference is queued.", min=1, max=64)] = 2,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="The job lies in the DRAM from the start; otherwise it is sent.")
    ] = False,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for soc.log.")] = Path("atoll-out"),
) -> None:
    """Run an inference by firmware: VexRiscv, LiteDRAM and Atoll in RTL.

    Exit status 0 only if the firmware found every value right, 1 if not, 2 if the job or the input cannot be used.
    """
    from scripts.flows import soc as flow

    request = Request(dataset, model, config, 1, "tiles", layers, hidden, seed, model_file=model_file, out=out)
    if status := flow.sim(request, runs=runs, prepared=prepared):
        raise typer.Exit(status)


@soc.command("build")
def build(
    board: Annotated[str, typer.Argument(help="ecpix5.")] = "ecpix5",
    config: _Config = _CONFIG,
    seed: Annotated[int, typer.Option(help="Of the first placement.", min=1)] = 1,
    tries: Annotated[int, typer.Option(help="Placements to try until one meets the clock.", min=1)] = 4,
) -> None:
    """Make a bitstream with open tools, and say what it takes and whether the board's clock is met.

    Exit status 1 if the clock is missed.
    """
    from scripts.flows.soc import need_soc

    need_soc()
    from scripts.flows import bitstream as flow
    from soc.boards import board_of

    if not flow.report(flow.build_board(board_of(board), config, seed=seed, tries=tries)):
        raise typer.Exit(FAILED)


def image(
    dataset: _Dataset,
    config: _Config = _CONFIG,
    model: _Model = None,
    layers: _Layers = 2,
    hidden: _Hidden = 16,
    seed: _Seed = 0,
    model_file: _ModelFile = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="Image to write; its layout goes beside it.")] = Path(
        "atoll-out/atoll.image"
    ),
) -> None:
    """Write the memory image of an inference, for hardware, and its layout in JSON."""
    from scripts.flows import handover

    request = Request(dataset, model, config, 1, "tiles", layers, hidden, seed, model_file=model_file)
    handover.write_image(request, out)


def decode(
    image: Annotated[Path, typer.Argument(help="Image that `atoll image` has written.", metavar="IMAGE")],
    results: Annotated[
        Path, typer.Argument(help="Memory after the run: the whole image, or its region of results.", metavar="RESULTS")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Archive to write.")] = Path("predictions.npz"),
) -> None:
    """Turn what a machine has left in memory into predictions.

    Exit status 1 if a value differs from the golden model.
    """
    from scripts.flows import handover

    if not handover.decode(image, results, out):
        raise typer.Exit(FAILED)


def add_to(app: typer.Typer) -> None:
    """Add these verbs to the program."""
    app.add_typer(soc, name="soc")
    app.command(cls=Strict)(image)
    app.command()(decode)
