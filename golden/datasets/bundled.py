"""Small graphs that come with networkx."""

from typing import NamedTuple

import networkx as nx
import numpy as np
from scipy import sparse

from contracts.errors import unknown
from golden.datasets.common import community_labels, stratified_split
from golden.graph import Graph

__all__ = ["GRAPHS", "Bundled", "load"]


class Bundled(NamedTuple):
    """A graph of networkx.

    Attributes
    ----------
    constructor
        Name of the function that makes it.
    description
        A line for the list of data sets.
    attribute
        Node attribute whose values are the classes; without one the classes are communities.
    """

    constructor: str
    description: str
    attribute: str | None = None


#: By the name they have on the command line.
GRAPHS = {
    "karate": Bundled("karate_club_graph", "Zachary's karate club, 34 nodes, 2 clubs", "club"),
    "davis": Bundled(
        "davis_southern_women_graph", "18 women and 14 events of the American South, 2 kinds", "bipartite"
    ),
    "florentine": Bundled("florentine_families_graph", "marriages of 15 Florentine families"),
    "les-miserables": Bundled("les_miserables_graph", "77 characters of a novel who meet in a chapter"),
    "krackhardt": Bundled("krackhardt_kite_graph", "10 actors, for centralities"),
    "petersen": Bundled("petersen_graph", "10 nodes of degree 3"),
    "icosahedron": Bundled("icosahedral_graph", "12 nodes of degree 5"),
    "dodecahedron": Bundled("dodecahedral_graph", "20 nodes of degree 3"),
    "tutte": Bundled("tutte_graph", "46 nodes of degree 3"),
    "maze": Bundled("sedgewick_maze_graph", "a maze of 8 nodes"),
}


def load(name: str) -> Graph:
    """Graph with one-hot features, classes by attribute or community, edge weights ignored, split 60/20/20.

    Parameters
    ----------
    name
        Key of ``GRAPHS``.

    Raises
    ------
    InputError
        If there is no such graph.
    """
    if name not in GRAPHS:
        raise unknown("data set", name, GRAPHS)
    bundled = GRAPHS[name]
    source = getattr(nx, bundled.constructor)()
    graph = nx.convert_node_labels_to_integers(source, ordering="default")
    if bundled.attribute is None:
        labels = community_labels(graph)
    else:
        values = [graph.nodes[node][bundled.attribute] for node in range(len(graph))]
        # In order of first appearance.
        classes = {value: number for number, value in enumerate(dict.fromkeys(values))}
        labels = np.array([classes[value] for value in values], dtype=np.int64)
    ends = np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)
    train, validation, test = stratified_split(labels)
    return Graph.from_edges(
        name,
        len(graph),
        ends[:, 0],
        ends[:, 1],
        features=sparse.eye_array(len(graph), format="csr"),
        labels=labels,
        train=train,
        validation=validation,
        test=test,
        symmetrise=True,
    )
