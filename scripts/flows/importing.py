"""`atoll import`: a network that was trained with PyTorch Geometric, as an archive that `atoll run` takes."""

from collections.abc import Iterator
from pathlib import Path

from contracts.errors import InputError
from golden.importing.convert import RefusalsError
from golden.importing.importer import Imported, import_model
from golden.importing.layers import GATConv, GINConv, Layer, Options, SAGEConv
from golden.model.weights import write_weights
from scripts.flows.outputs import checked_file, replacing
from scripts.flows.table import show

__all__ = ["import_network"]

_SUFFIX = ".npz"


def import_network(path: Path, options: Options, out: Path) -> list[InputError]:
    """Read a state dict, show its layers, and write the network that the machine computes.

    Parameters
    ----------
    path, options
        As for `golden.importing.importer.import_model`.
    out
        Archive to write.

    Returns
    -------
    list of InputError
        One for each module that is not read, or each layer that the machine does not compute; empty if the archive
        was written.

    Raises
    ------
    InputError
        If the file cannot be read, an option is wrong, or the archive cannot be written.
    """
    if out.suffix != _SUFFIX:
        raise InputError(f"--out {out}", "has another suffix", f"a file {out.stem or 'net'}{_SUFFIX}")
    checked_file(out)
    try:
        imported = import_model(str(path), options)
        _show(imported)
        network = imported.network()
    except RefusalsError as error:
        return list(error.errors)
    with replacing(out) as fresh:
        write_weights(fresh, network)
    widths = [network.weights[0].shape[0], *(weight.shape[1] for weight in network.weights)]
    print(f"taken for granted: {imported.assumptions()}")
    print(f"{out}: {network.model.name.lower()}, {' - '.join(map(str, widths))}; atoll run DATASET --model-file {out}")
    return []


def _show(imported: Imported) -> None:
    rows = [
        (layer.name or "-", type(layer.operation).__name__, layer.operation.f_in, layer.operation.f_out, _parts(layer))
        for layer in imported.layers
    ]
    show(Path(imported.path).name, ("layer", "kind", "in", "out", "with"), rows)


def _parts(layer: Layer) -> str:
    return ", ".join(_named_parts(layer))


def _named_parts(layer: Layer) -> Iterator[str]:
    match layer.operation:
        case SAGEConv(_, root, aggregation):
            yield aggregation
            if root is not None:
                yield "root weight"
        case GINConv(stages, eps):
            yield f"eps {eps:g}"
            if len(stages) > 1:
                yield f"perceptron of {len(stages)}"
        case GATConv() as attention:
            if attention.heads > 1:
                yield f"{attention.heads} heads, {'side by side' if attention.concat else 'their mean'}"
            if attention.residual is not None:
                yield "residual"
        case _:
            pass
    behind = ["BatchNorm"] if layer.norm is not None else []
    if layer.activation is not None:
        behind.insert(0 if layer.act_first else len(behind), layer.activation)
    yield from behind
