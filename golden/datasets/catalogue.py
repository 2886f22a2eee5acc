"""Names of data sets and their loaders."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from contracts.errors import InputError, nearest
from golden.datasets import bundled, digits, molecules, npz, planetoid, synthetic
from golden.graph import Graph

__all__ = ["Entry", "catalogue", "load"]


#: Loaders of names with a colon.
_FAMILIES: dict[str, Callable[[str], Graph]] = {
    "planetoid:": planetoid.load,
    "npz:": npz.load,
    "synthetic:": synthetic.load,
}
#: Names of usual citation graphs, which come in files of their own.
_CITATIONS = ("cora", "citeseer", "pubmed", "nell.0.001", "nell.0.01", "nell.0.1")


class Entry(NamedTuple):
    """A line of the list of data sets: name and description."""

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
        if f"{family}:" in _FAMILIES:
            return _FAMILIES[f"{family}:"](rest)
    elif spec == "digits":
        return digits.load()
    elif spec in bundled.GRAPHS:
        return bundled.load(spec)
    raise _unknown(spec)


def _unknown(spec: str) -> InputError:
    """Return the error for an unknown name, with the nearest known one."""
    known = [entry.name for entry in catalogue()]
    family, colon, _ = spec.partition(":")
    if Path(spec).suffix == ".npz" and not colon:
        meant = f", perhaps npz:{spec}"
    elif spec.lower() in _CITATIONS:
        meant = f", perhaps planetoid:DIR/{spec.lower()} with the folder DIR of ind.{spec.lower()}.graph"
    elif colon:
        meant = nearest(f"{family}:", _FAMILIES)
    else:
        meant = nearest(spec, known)
    return InputError("data set", f"there is no {spec!r}{meant}", f"one of {', '.join(known)}")


def catalogue() -> list[Entry]:
    """Return all names for `load`."""
    return [
        Entry("digits", "1,797 handwritten digits, 64 features, 10 classes, joined as an 8-nearest-neighbour graph"),
        *(Entry(name, graph.description) for name, graph in bundled.GRAPHS.items()),
        Entry("planetoid:DIR/SET", "a citation graph in the Planetoid format: files ind.SET.* in the folder DIR"),
        Entry("npz:FILE", "a graph, or a batch of small ones, of one's own: edge_index, x, y, ... in a NumPy archive"),
        *(Entry(f"synthetic:{name}", kind.description) for name, kind in synthetic.KINDS.items()),
        Entry(f"synthetic:{molecules.NAME}", molecules.DESCRIPTION),
    ]
