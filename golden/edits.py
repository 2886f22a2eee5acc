"""Changes of a graph: steps of edges that come and go, from a file (I10)."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts.errors import InputError
from golden.canonical import canonical_rows
from golden.graph import Graph, IntArray

__all__ = ["Edits", "edited", "read_edits"]

#: What begins a line of a text file: an edge that comes, one that goes.
_SIGNS = ("+", "-")
#: A line of a text file between two steps.
_NEXT = "step"
#: Most steps of a file, each of which is a run.
_STEPS = 1 << 16
#: Words of a line: a sign and two vertices.
_WORDS = 3
_COLUMNS = ("added", "removed")


@dataclass(frozen=True, eq=False)
class Edits:
    """One step: the graph changes, and is then run.

    Attributes
    ----------
    added, removed
        int64 [edges, 2], sources and destinations. Of an undirected graph an edge stands for both directions.
    """

    added: IntArray
    removed: IntArray


def read_edits(path: Path) -> list[Edits]:
    """Read the steps of a file.

    Parameters
    ----------
    path
        A text file: a line ``+ u v`` or ``- u v`` for every edge, ``step`` between steps, comments from ``#`` on. Or an
        archive ``.npz`` of the integer arrays ``added`` and ``removed``, [edges, 3]: step from 0 on, source,
        destination.

    Raises
    ------
    InputError
        If it cannot be read, or has no step.
    """
    try:
        steps = _of_archive(path) if path.suffix == ".npz" else _of_text(path.read_text())
    except InputError as error:
        raise InputError(f"edits {path}, {error.where}", error.what, error.expected) from None
    except OSError as error:
        raise InputError(f"edits {path}", error.strerror or str(error), "a file that can be read") from None
    except UnicodeDecodeError:
        raise InputError(f"edits {path}", "is no text", "lines + u v and - u v, or an archive .npz") from None
    except (ValueError, zipfile.BadZipFile, EOFError):
        raise InputError(f"edits {path}", "is no archive", "an archive .npz with added and removed") from None
    if not steps:
        raise InputError(f"edits {path}", "has no step", "at least one edge that comes or goes")
    return steps


def _of_text(text: str) -> list[Edits]:
    steps: list[dict[str, list[list[int]]]] = [{sign: [] for sign in _SIGNS}]
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words == [_NEXT]:
            steps.append({sign: [] for sign in _SIGNS})
            continue
        if not words:
            continue
        if len(words) != _WORDS or words[0] not in _SIGNS or not all(word.isdecimal() for word in words[1:]):
            raise InputError(f"line {number}", f"is {line.strip()[:40]!r}", "+ u v, - u v or step")
        steps[-1][words[0]].append([min(int(word), 1 << 32) for word in words[1:]])
    # Steps at the end of a file may be closed as well.
    if not any(steps[-1].values()):
        steps.pop()
    return [Edits(*(np.array(step[sign], dtype=np.int64).reshape(-1, 2) for sign in _SIGNS)) for step in steps]


def _of_archive(path: Path) -> list[Edits]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = [_rows(name, archive.get(name)) for name in _COLUMNS]
    count = 1 + max(int(rows[:, 0].max(initial=-1)) for rows in arrays)
    if count > _STEPS:
        raise InputError("step", f"is {count - 1}", f"0..{_STEPS - 1}")
    return [Edits(*(rows[rows[:, 0] == step, 1:] for rows in arrays)) for step in range(count)]


def _rows(name: str, found: Any) -> IntArray:
    if found is None:
        return np.zeros((0, 3), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != _WORDS or found.dtype.kind not in "iu":
        raise InputError(name, f"is {found.dtype} {list(found.shape)}", "integers [edges, 3]")
    rows = found.astype(np.int64)
    if rows.size and rows.min() < 0:
        raise InputError(name, f"has {int(rows.min())}", "steps and vertices from 0 on")
    return rows


def edited(graph: Graph, steps: Sequence[Edits]) -> Iterator[Graph]:
    """Yield the graph after each step.

    Parameters
    ----------
    graph
        A graph whose edges have no weights and no attributes, which is no batch of small graphs.
    steps
        What changes, step by step.

    Raises
    ------
    InputError
        If a vertex does not exist, an edge is a self loop, one that comes is there already, one that goes is not, or an
        edge is named twice in a step.
    """
    if graph.edge_weight is not None:
        raise InputError("--edits", f"edges of {graph.name} have weights", "edges without, or --no-edge-weights")
    if graph.edge_attributes is not None:
        what = f"edges of {graph.name} have attributes"
        raise InputError("--edits", what, "edges without, or --no-edge-attributes")
    if graph.graph_of is not None:
        raise InputError("--edits", f"{graph.name} has many small graphs", "a single graph")
    both = graph.symmetric
    codes = graph.destinations * graph.nodes + graph.edges
    for number, step in enumerate(steps):
        added, removed = (
            _codes(graph, edges, both, f"step {number}, edges {name}")
            for name, edges in (("added", step.added), ("removed", step.removed))
        )
        _refuse(graph, added[np.isin(added, codes)], f"step {number}, edges added", "is there", "a new one")
        _refuse(graph, removed[~np.isin(removed, codes)], f"step {number}, edges removed", "is not there", "an edge")
        codes = np.union1d(np.setdiff1d(codes, removed), added)
        rows = canonical_rows(graph.nodes, codes % graph.nodes, codes // graph.nodes)
        graph = replace(graph, offsets=rows.offsets, edges=rows.edges)
        yield graph


def _codes(graph: Graph, edges: IntArray, both: bool, where: str) -> IntArray:
    """Return a number for each edge, of an undirected graph for both directions, each once."""
    if edges.size and edges.max() >= graph.nodes:
        raise InputError(f"--edits, {where}", f"have the vertex {int(edges.max())}", f"0..{graph.nodes - 1}")
    source, destination = edges.T
    codes = destination * graph.nodes + source
    loops = codes[source == destination]
    _refuse(graph, loops, where, "is a self loop", "two vertices; a layer counts the node itself")
    if both:
        codes = np.concatenate([codes, source * graph.nodes + destination])
    values, counts = np.unique(codes, return_counts=True)
    _refuse(graph, values[counts > 1], where, "is named twice", "each edge once")
    return values


def _refuse(graph: Graph, codes: IntArray, where: str, what: str, expected: str) -> None:
    if codes.size:
        destination, source = divmod(int(codes[0]), graph.nodes)
        raise InputError(f"--edits, {where}", f"{source} to {destination} {what}", expected)
