"""A graph that changes in the memory of an accelerator (I10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from contracts import LINE_BYTES
from contracts.errors import InputError
from golden.edits import Edits, edited
from golden.image_format import Image
from golden.model.float_model import FloatModel
from golden.model.network import Problem
from golden.model.topology import topologies_of
from golden.program.session import lines_that_change, resident
from sim.driver import Driver, Finished

__all__ = ["ChangingGraph"]


class ChangingGraph:
    """Keeps a network in memory, and writes what changes with the edges of its graph; the machine does the rest.

    Parameters
    ----------
    driver
        Of an accelerator of one chiplet.
    problem, network
        Network on the graph, quantised and as it was.
    build
        Makes the image of a problem for this accelerator.
    address
        Byte address of the image.
    spare
        Lines of 64 bytes left free for more edges.

    Attributes
    ----------
    problem
        The network on the graph as it is now.
    image
        What is in memory.
    """

    def __init__(
        self,
        driver: Driver,
        problem: Problem,
        network: FloatModel,
        build: Callable[[Problem], Image],
        address: int = 0,
        spare: int = 64,
    ) -> None:
        self.driver, self.problem, self.network, self.address = driver, problem, network, address
        self._build = build
        first = build(problem)
        self._room = lines_that_change(first) + spare
        self.image = resident(first, self._room)

    async def load(self) -> int:
        """Write the whole image; return how many bytes these are."""
        await self.driver.identify()
        await self.driver.bus.load(self.address, self.image.data)
        return len(self.image.data)

    async def update_edges(self, added: npt.ArrayLike = (), removed: npt.ArrayLike = ()) -> int:
        """Change the graph, in memory too; return how many bytes are written.

        Only lines that differ are written: of offsets, edges, scales, the header and the commands. Between runs only.

        Parameters
        ----------
        added, removed
            int [edges, 2], sources and destinations. Of an undirected graph an edge stands for both directions.

        Raises
        ------
        InputError
            As `golden.edits.edited`, or if there is no room for so many edges. Nothing is changed then.
        """
        step = Edits(_pairs("added", added), _pairs("removed", removed))
        (graph,) = edited(self.problem.graph, [step])
        problem = replace(self.problem, graph=graph, topologies=topologies_of(self.network.layers, graph))
        image = resident(self._build(problem), self._room)
        bytes_written = 0
        for first, end in _ranges(self.image.data, image.data):
            await self.driver.bus.load(self.address + first, image.data[first:end])
            bytes_written += end - first
        self.problem, self.image = problem, image
        return bytes_written

    async def run(self) -> Finished:
        """Run what is in memory, and say how it ended."""
        await self.driver.start(self.address)
        return await self.driver.finish()


def _pairs(name: str, edges: npt.ArrayLike) -> npt.NDArray[np.int64]:
    found = np.asarray(edges)
    if found.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu" or found.min() < 0:
        raise InputError(f"edges {name}", f"are {found.dtype} {list(found.shape)}", "vertices [edges, 2]")
    return found.astype(np.int64)


def _ranges(old: bytes, new: bytes) -> Iterator[tuple[int, int]]:
    """Yield where two images of the same layout differ, in bytes, in whole lines."""
    lines = (np.frombuffer(data, dtype=np.uint8).reshape(-1, LINE_BYTES) for data in (old, new))
    differ = np.concatenate([[False], (np.not_equal(*lines)).any(axis=1), [False]])
    changes = np.flatnonzero(differ[1:] != differ[:-1]) * LINE_BYTES
    for number, (first, end) in enumerate(pairwise(changes.tolist())):
        if number % 2 == 0:
            yield first, end
