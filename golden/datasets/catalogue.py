"""Names of data sets and their loaders."""

from typing import NamedTuple

from golden.datasets import bundled, digits, npz, planetoid, synthetic
from golden.errors import InputError
from golden.graph import Graph

__all__ = ["Entry", "catalogue", "load"]


class Entry(NamedTuple):
    """A line of the list of data sets: how it is named and what it is."""

    name: str
    description: str


def load(spec: str) -> Graph:
    """Load a data set.

    Parameters
    ----------
    spec
        ``digits``, a graph bundled with networkx (``karate``, ...), ``planetoid:DIR/SET``, ``npz:FILE`` or
        ``synthetic:KIND,key=value,...``.

    Raises
    ------
    InputError
        If there is no such data set or its content cannot be used.
    """
    family, colon, rest = spec.partition(":")
    if colon:
        loaders = {"planetoid": planetoid.load, "npz": npz.load, "synthetic": synthetic.load}
        if family in loaders:
            return loaders[family](rest)
    elif spec == "digits":
        return digits.load()
    elif spec in bundled.GRAPHS:
        return bundled.load(spec)
    known = ", ".join(entry.name for entry in catalogue())
    raise InputError("data set", f"there is no {spec!r}", f"one of {known}")


def catalogue() -> list[Entry]:
    """Everything that `load` takes."""
    return [
        Entry("digits", "1,797 handwritten digits, 64 features, 10 classes, joined as an 8-nearest-neighbour graph"),
        *(Entry(name, graph.description) for name, graph in bundled.GRAPHS.items()),
        Entry("planetoid:DIR/SET", "a citation graph in the Planetoid format: files ind.SET.* in the folder DIR"),
        Entry("npz:FILE", "a graph of one's own: edge_index, x, y and optional masks in a NumPy archive"),
        *(Entry(f"synthetic:{name}", kind.description) for name, kind in synthetic.KINDS.items()),
    ]
