"""`atoll import`: a network that was trained with PyTorch Geometric, as an archive that `atoll run` takes."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from contracts.errors import InputError
from golden.importing.convert import RefusalsError
from golden.importing.importer import Imported, import_model
from golden.importing.layers import GATConv, GINConv, Layer, Options, Pool, SAGEConv
from golden.model.weights import kind_of, write_weights
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
        try:
            converted = imported.converted()
        except RefusalsError:
            _show(imported, {})
            raise
    except RefusalsError as error:
        return list(error.errors)
    network = converted.network
    runs: dict[str, list[str]] = {layer.name: [] for layer in imported.layers}
    for name, layer in zip(converted.names, network.layers, strict=True):
        runs[name].append(kind_of(layer))
    _show(imported, runs)
    with replacing(out) as fresh:
        write_weights(fresh, network)
    widths = [network.f_in, *(layer.f_out for layer in network.layers)]
    print(f"taken for granted: {imported.assumptions()}")
    print(f"{out}: {len(network.layers)} layers, {' - '.join(map(str, widths))}; atoll run DATASET --model-file {out}")
    return []


def _show(imported: Imported, runs: Mapping[str, list[str]]) -> None:
    """Print the layers that were found, and if they run, as which layers of the machine."""
    rows = []
    for layer in imported.layers:
        kind, sizes = type(layer.operation).__name__, (layer.operation.f_in, layer.operation.f_out)
        row = (layer.name or "-", kind, *sizes, _parts(layer))
        rows.append((*row, " + ".join(runs[layer.name]) or "in the next") if runs else row)
    heads = ("layer", "kind", "in", "out", "with", "runs as")
    show(Path(imported.path).name, heads if runs else heads[:-1], rows)


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
        case Pool(kind):
            yield kind
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
