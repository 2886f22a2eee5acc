"""A batch of small graphs like molecules, whose class is a bond: ``synthetic:molecules,key=value,...``."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from contracts.errors import InputError
from golden.datasets.common import compact, stratified_split
from golden.datasets.keys import read_keys
from golden.datasets.small_graphs import batch_of
from golden.graph import Graph, IntArray

__all__ = ["DESCRIPTION", "NAME", "Options", "molecules"]

NAME = "molecules"
DESCRIPTION = "a batch of `graphs` small graphs, trees with rings; the class is that of the graph"
#: Fewest and most atoms of a molecule.
_ATOMS = 8, 30
#: Most bonds of an atom of the tree and with rings; most rings, and atoms of a ring.
_BONDS_TREE, _BONDS, _RINGS, _RING = 3, 4, 3, (5, 6)
#: Most bonds of the atom whose partner is the class: enough others stay for the atoms that are not its partner.
_BONDS_MARKED = 2


@dataclass(frozen=True)
class Options:
    """Keys of a batch of molecules.

    Attributes
    ----------
    graphs
        1..20,000.
    features
        Types of atoms, at least two more than classes.
    classes
        1..6.
    seed
        Of everything that is drawn.
    """

    graphs: int = 200
    features: int = 8
    classes: int = 2
    seed: int = 0


_LIMITS: dict[str, tuple[float, float]] = {
    "graphs": (1, 20_000),
    "features": (3, 256),
    "classes": (1, 6),
    "seed": (0, (1 << 32) - 1),
}


def molecules(name: str, settings: Sequence[str]) -> Graph:
    """Make a batch of molecules.

    Every molecule has one atom of each of the types 1 to `classes` + 1. That of type 1 is bonded to the atom of type
    2 + class and to none of the others, so the class is in the bonds: counts of types do not tell it. Other atoms are
    of the other types, half of them of type 0. Features are one-hot types.

    Parameters
    ----------
    name, settings
        Name of the graph, and ``key=value`` each; keys are the attributes of `Options`.

    Raises
    ------
    InputError
        If a key does not exist or a value is out of range.
    """
    where = f"synthetic:{NAME}"
    options = Options(**read_keys(where, settings, Options, _LIMITS))
    if options.features < options.classes + 2:
        what = f"is {options.features}"
        raise InputError(f"{where}, features", what, f"at least {options.classes + 2}, two more than classes")
    rng = np.random.default_rng(options.seed)
    labels = rng.integers(options.classes, size=options.graphs)
    sizes = rng.integers(_ATOMS[0], _ATOMS[1] + 1, size=options.graphs)
    bonds, types = [], []
    for first, size, label in zip(np.cumsum(sizes) - sizes, sizes.tolist(), labels.tolist(), strict=True):
        found = _bonds(size, rng)
        bonds.append(found + first)
        types.append(_types(size, found, label, options, rng))
    one_hot = np.concatenate(types)[:, None] == np.arange(options.features)
    ends = np.concatenate(bonds)
    masks = stratified_split(labels, options.seed)
    graph_of = np.repeat(np.arange(options.graphs), sizes)
    return batch_of(
        name,
        graph_of,
        ends[:, 0],
        ends[:, 1],
        compact(one_hot),
        labels,
        masks,
        classes=options.classes,
        symmetrise=True,
    )


def _bonds(size: int, rng: np.random.Generator) -> IntArray:
    """int64 [bonds, 2], each bond once: a tree in which atoms have few bonds, and rings."""
    free, bonds, count = [0], [], np.zeros(size, dtype=np.int64)
    for atom in range(1, size):
        other = free[int(rng.integers(len(free)))]
        bonds.append((other, atom))
        count[[other, atom]] += 1
        free = [each for each in (*free, atom) if count[each] < _BONDS_TREE]
    for _ in range(int(rng.integers(_RINGS + 1))):
        ends = np.array(bonds)
        joined = sparse.csr_array((np.ones(len(ends)), ends.T), shape=(size, size))
        apart = csgraph.shortest_path(joined, directed=False, unweighted=True)
        full = count >= _BONDS
        apart[full], apart[:, full] = 0, 0
        low, high = np.nonzero(np.triu(np.isin(apart, np.array(_RING) - 1)))
        if low.size:
            chosen = int(rng.integers(low.size))
            bonds.append((int(low[chosen]), int(high[chosen])))
            count[[low[chosen], high[chosen]]] += 1
    return np.array(bonds, dtype=np.int64)


def _types(size: int, bonds: IntArray, label: int, options: Options, rng: np.random.Generator) -> IntArray:
    """int64 [size], types of the atoms of a molecule."""
    special = options.classes + 2
    others = rng.integers(special, options.features, size=size) if special < options.features else np.zeros(size, int)
    types = np.where(rng.random(size) < 0.5, 0, others)
    marked = int(rng.choice(np.flatnonzero(np.bincount(bonds.ravel()) <= _BONDS_MARKED)))
    near = bonds[(bonds == marked).any(axis=1)].sum(axis=1) - marked
    partner = int(rng.choice(near))
    far = np.setdiff1d(np.arange(size), [marked, *near])
    rest = [2 + kind for kind in range(options.classes) if kind != label]
    types[rng.permutation(far)[: len(rest)]] = rest
    types[marked], types[partner] = 1, 2 + label
    return types
