"""Rows that the filter array takes, its requests, and the rows that the remote array sends (R4-R7, R12-R14)."""

from collections.abc import Sequence

import numpy as np

from golden.graph import IntArray

__all__ = ["FilterWindow", "bound_of", "departures", "filter_requests", "needed_list", "over_banks"]

#: Words of the widest beat.
_BANKS = 16


class FilterWindow:
    """Entries of one owner, in ascending order.

    Parameters
    ----------
    in_order
        Entry i + 1 is not taken before entry i: until then its packet waits.
    """

    def __init__(self, in_order: bool) -> None:
        self.in_order = in_order
        self.entries: list[int] = []
        self._waiting: set[int] = set()

    def wants(self, vid: int) -> bool:
        """Whether a VID is needed and its packet has not come yet."""
        return vid in self.entries and vid not in self._waiting

    def arrives(self, vid: int) -> list[int]:
        """Return the VIDs that are taken when this one's packet has come, in their order; their entries are gone."""
        if vid in self.entries:
            self._waiting.add(vid)
        taken = []
        for entry in sorted(self.entries):
            if entry in self._waiting:
                taken.append(entry)
            elif self.in_order:
                break
        self.entries = [entry for entry in self.entries if entry not in taken]
        self._waiting.difference_update(taken)
        return taken


def needed_list(sources: IntArray, first: int, end: int, vertices: int) -> IntArray:
    """Sort the sources that another chiplet owns, not `first` up to before `end`, each once.

    Those behind the last of so many `vertices` are halves of partial sums, and are left out.
    """
    return np.unique(sources[(sources < vertices) & ((sources < first) | (sources >= end))])


def over_banks(vids: IntArray) -> IntArray:
    """Return VIDs in an order in which a beat has as few as it can of the same bank of the needed list.

    The lowest bits choose the bank, and in each one is marked in a cycle.

    Parameters
    ----------
    vids
        int64 [rows], ascending.
    """
    banks = vids % _BANKS
    by_bank = np.argsort(banks, kind="stable")
    turn = np.empty_like(vids)
    turn[by_bank] = np.arange(vids.size) - np.searchsorted(banks[by_bank], banks[by_bank])
    return vids[np.lexsort((banks, turn))]


def departures(out_tiles: IntArray, chiplets: int, position: int, first_vertex: int) -> list[tuple[int, int]]:
    """Return the VIDs that travel and where they leave the ring.

    Parameters
    ----------
    out_tiles
        int [vertices], bit t: the vertex has out-edges into tile t.
    chiplets, position
        Size of the ring; position of the owner.
    first_vertex
        VID of row 0.
    """
    tiles = out_tiles[:, None] >> np.arange(chiplets) & 1
    hops = np.where(tiles, (np.arange(chiplets) - position) % chiplets, 0).max(axis=1, initial=0)
    return [(first_vertex + row, int((position + hops[row]) % chiplets)) for row in np.flatnonzero(hops).tolist()]


def bound_of(groups: Sequence[Sequence[int]], tile: range) -> int | None:
    """Largest VID that all groups may have now (R13 a, b); None if none requests from the tile.

    Parameters
    ----------
    groups
        Requested source VIDs of every PE group.
    tile
        VIDs of the tile.
    """
    maxima = [max(vid for vid in group if vid in tile) for group in groups if any(vid in tile for vid in group)]
    return min(maxima) if maxima else None


def filter_requests(groups: Sequence[Sequence[int]], tile: range) -> list[int]:
    """Entries for the filter array: requests up to the bound, each once, sorted (R13 c, d)."""
    bound = bound_of(groups, tile)
    return [] if bound is None else sorted({vid for group in groups for vid in group if vid in tile and vid <= bound})
