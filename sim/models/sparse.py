"""A bench's handle of a sparse memory: pages of 4 KiB that lie anywhere in a large address space."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from sim.models.memory import Memory
from sim.models.wrap import PAGE_BYTES

__all__ = ["SparseMemory"]


class SparseMemory(Memory):
    """Settings, contents and counters of a memory whose model is `sparse`.

    Addresses are those of the design. What lies in no page is answered with DECERR. Bytes that are named together must
    lie in pages that exist and follow each other.

    Parameters
    ----------
    dut, beat_bytes, directory, name, common, clock
        As for `Memory`.
    """

    #: Numbers of the pages that exist, ascending.
    _pages: tuple[int, ...] = ()

    async def load_pages(self, pages: Iterable[int], contents: bytes) -> None:
        """Replace all pages; takes a cycle.

        Parameters
        ----------
        pages
            Their numbers (byte address / 4,096), ascending.
        contents
            Their bytes, one page behind another.
        """
        self._pages = tuple(pages)
        self._file("pages").write_bytes(np.asarray(self._pages, dtype="<u8").tobytes())
        await self.load(contents)

    async def dump(self, address: int, size: int) -> bytes:
        """Contents of `size` bytes from byte `address`; takes a cycle."""
        return await super().dump(self._place(address, size), size)

    async def contents(self) -> bytes:
        """Bytes of all pages, in the order of `load_pages`; takes a cycle."""
        return await super().dump(0, len(self._pages) * PAGE_BYTES)

    def _errors(self, kind: str, addresses: range | None) -> None:
        if addresses:
            first = self._place(addresses[0], len(addresses))
            addresses = range(first, first + len(addresses))
        super()._errors(kind, addresses)

    def _place(self, address: int, size: int) -> int:
        """Return where `size` bytes lie in the model.

        Raises
        ------
        ValueError
            If one of them lies in no page.
        """
        page, last = address // PAGE_BYTES, (address + size - 1) // PAGE_BYTES
        number = bisect_left(self._pages, page)
        if self._pages[number : number + last - page + 1] != tuple(range(page, last + 1)):
            raise ValueError(f"address must lie in pages that were loaded for {size} bytes, not {address:#x}")
        return number * PAGE_BYTES + address % PAGE_BYTES
