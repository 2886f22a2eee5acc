"""Weight matrices that were stored as [f_out, f_in], as PyTorch keeps them: found by their shapes."""

from collections.abc import Sequence
from typing import Any

from contracts.errors import InputError
from golden.graph import Graph

__all__ = ["WHY", "check_orientation", "names_of"]

#: Origin of transposed matrices, and the remedy.
WHY = "PyTorch's Linear keeps [f_out, f_in]: write weight.T (docs/models.md)"


def check_orientation(path: str, weights: Sequence[Any], biases: Sequence[Any | None], graph: Graph | None) -> None:
    """Refuse matrices that fit the layers beside them, their biases and the graph only when transposed.

    Parameters
    ----------
    path
        File, for messages.
    weights
        Matrices of the layers as read, of any shape.
    biases
        Biases of the layers as read; None: absent.
    graph
        The first layer takes its features; None: any number.

    Raises
    ------
    InputError
        Naming the transposed matrices and those whose shape cannot show it; or, if no matrix is transposed, the first
        one that does not take the graph's features. Other faults are left to `FloatModel`.
    """
    if any(weight.ndim != 2 for weight in weights):
        return
    shapes = [weight.shape for weight in weights]
    widths = [None if bias is None or bias.ndim != 1 else bias.size for bias in biases]
    firsts = [graph.feature_count] if graph is not None else list(dict.fromkeys(shapes[0]))
    as_given = [shape[0] for shape in shapes]
    if any(_chain(shapes, widths, first) == as_given for first in firsts):
        return
    for first in firsts:
        entered = _chain(shapes, widths, first)
        if entered is None:
            continue
        turned = [number for number, shape in enumerate(shapes) if shape[0] != entered[number]]
        square = [number for number, shape in enumerate(shapes) if shape[0] == shape[1]]
        are = "is" if len(square) == 1 else "are"
        also = f"; so {are} {names_of(square)}, although square" if square else ""
        wanted = ", ".join(f"[{shapes[number][1]}, {shapes[number][0]}]" for number in turned)
        found = ", ".join(f"{list(shapes[number])}" for number in turned)
        verb = "is" if len(turned) == 1 else "are"
        what = f"{verb} {found}, probably transposed{also}"
        raise InputError(f"{path}, {names_of(turned)}", what, f"[f_in, f_out], here {wanted}; {WHY}")
    if graph is not None and shapes[0][0] != graph.feature_count:
        what = f"takes {shapes[0][0]} features"
        expected = f"[{graph.feature_count}, f_out] for {graph.name}, which has {graph.feature_count}"
        raise InputError(f"{path}, layer0.weight", f"is {list(shapes[0])}: {what}", expected)


def _chain(shapes: Sequence[tuple[int, int]], widths: Sequence[int | None], first: int) -> list[int] | None:
    """Return the input width of every layer with fitting orientations, as given if both fit; or None."""
    entered = [first]
    for shape, bias in zip(shapes, widths, strict=True):
        if entered[-1] not in shape:
            return None
        leaves = shape[1] if shape[0] == entered[-1] else shape[0]
        if bias not in (None, leaves):
            return None
        entered.append(leaves)
    return entered[:-1]


def names_of(numbers: Sequence[int]) -> str:
    """Return the arrays of some layers' matrices, as a file names them."""
    return ", ".join(f"layer{number}.weight" for number in numbers)
