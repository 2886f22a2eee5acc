"""Accuracy in float and in integers, as a table: ``python -m golden.model.report DATASET...``."""

import sys

from contracts import Model
from contracts.errors import InputError
from golden.datasets import load
from golden.model.quantise import compare, quantise
from golden.model.training import Training, train

__all__ = ["main", "table"]


def table(names: list[str], how: Training | None = None) -> str:
    """Markdown table of every model on some data sets.

    Parameters
    ----------
    names
        Names for `golden.datasets.load`.
    how
        Settings of the training.

    Raises
    ------
    InputError
        If there is no such data set.
    """
    lines = ["| data set | model | float % | machine % | agreement % |", "|---|---|---|---|---|"]
    for name in names:
        graph = load(name)
        for model in Model:
            network = train(graph, model, how)
            found = compare(network, quantise(network, graph))
            figures = (found.floating, found.machine, found.agreement)
            lines.append(
                " | ".join(["| " + graph.name, model.name, *("-" if x is None else f"{100 * x:.2f}" for x in figures)])
                + " |"
            )
    return "\n".join(lines)


def main(names: list[str]) -> int:
    """Print the table; returns the exit status."""
    try:
        print(table(names or ["digits"]))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
