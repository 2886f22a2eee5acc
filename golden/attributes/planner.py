"""Planned target addresses: each row in the slot that serves the requests that are known best (A4).

Registers are given to variables in the same way: the next use of each decides who has to go. `SlotPlanner` is the
rule of `hw.attributes.slot_planner`, one request after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from contracts.planning import CELLS, FIRST_REACH, GROUPS, LANES, REACH_STEP, SLACK

__all__ = ["SlotPlanner"]


@dataclass
class _Slot:
    """``node`` whose row it has, the number of its ``next`` request, and whether it was requested ``again``."""

    node: int | None = None
    next: int | None = None
    again: bool = False


@dataclass
class _Request:
    """``following``: the next request for the same node. ``slot``: who has its row, if the one before has said it."""

    node: int
    following: int | None = None
    slot: int | None = None


@dataclass
class _Share:
    """The slots of an attribute processor, and the one at which the next search begins."""

    slots: list[_Slot] = field(default_factory=list)
    hand: int = 0


class SlotPlanner:
    """Plans the slots of requests, list by list.

    A request knows those behind it up to a reach that grows with each request. A row that no slot has takes, of
    `GROUPS` groups of slots from the hand on, the first slot whose row is not requested within reach and never was
    requested twice, else one that is not requested, else the one that is requested last.

    Parameters
    ----------
    slots
        Slots of each attribute processor, more than `LANES`.
    depth
        Requests of the hardware's ring, a power of two.
    processors
        Attribute processors; the lowest bits of a node's ID say whose it is.
    """

    def __init__(self, slots: int, depth: int, processors: int = 1) -> None:
        self.slots, self.depth, self.processors = slots, depth, processors
        #: Of each hash, the last request that came, or the slot that it left its row in.
        self._latest: dict[tuple[int, int], tuple[str, int]] = {}
        self._requests: dict[int, _Request] = {}
        self._entered = self._gone = 0
        self.forget()

    def forget(self) -> None:
        """Empty all slots."""
        self._shares = [_Share([_Slot() for _ in range(self.slots)]) for _ in range(self.processors)]

    def plan(self, nodes: Sequence[int]) -> list[int]:
        """Return the slots of a list of requests."""
        first, reach, slots = self._entered, FIRST_REACH, list[int]()
        for number in range(first, first + len(nodes)):
            while self._entered < min(first + len(nodes), number + reach):
                self._enter(nodes[self._entered - first])
            slots.append(self._leave(number, reach))
            reach = min(reach + REACH_STEP, self.depth - SLACK)
        return slots

    def _hash(self, node: int) -> tuple[int, int]:
        """Return the place of a node in the table: its processor, and pieces of its ID, added without carries."""
        size, folded, left = CELLS * self.depth // self.processors, 0, node // self.processors
        while left:
            folded, left = folded ^ left % size, left // size
        return node % self.processors, folded

    def _enter(self, node: int) -> None:
        """Link a request to the one before, or to the slot that has its row."""
        number, request, place = self._entered, _Request(node), self._hash(node)
        kind, of = self._latest.get(place, ("request", -1))
        if kind == "request" and of >= self._gone and self._requests[of].node == node:
            self._requests[of].following = number
        if kind == "slot":
            slot = self._of(node).slots[of]
            if slot.node == node:
                slot.next, request.slot = number, of
        self._latest[place] = ("request", number)
        self._requests[number] = request
        self._entered += 1

    def _leave(self, number: int, reach: int) -> int:
        """Give a request its slot."""
        request = self._requests.pop(number)
        share = self._of(request.node)
        self._gone = number + 1
        chosen = request.slot
        here = chosen is not None and share.slots[chosen].node == request.node
        if chosen is None or not here:
            chosen = self._search(share, number, reach)
            share.hand = (chosen + 1) % self.slots
        share.slots[chosen] = _Slot(request.node, request.following, here)
        if request.following is not None:
            self._requests[request.following].slot = chosen
        elif self._latest[self._hash(request.node)] == ("request", number):
            self._latest[self._hash(request.node)] = ("slot", chosen)
        return chosen

    def _search(self, share: _Share, number: int, reach: int) -> int:
        """Return the slot whose row goes."""
        groups = -(-self.slots // LANES)
        found: tuple[tuple[int, int], int] | None = None
        for n in range(GROUPS):
            group = (share.hand // LANES + n) % groups
            for slot in range(group * LANES, min(self.slots, (group + 1) * LANES)):
                if n == 0 and slot < share.hand:
                    continue
                of = share.slots[slot]
                wanted = of.next is not None and of.next < number + reach
                worth = (0, of.next or 0) if wanted else (2 - of.again, 0)
                if found is None or worth > found[0]:
                    found = worth, slot
            if found is not None and found[0][0] == 2:
                break
        assert found is not None
        return found[1]

    def _of(self, node: int) -> _Share:
        return self._shares[node % self.processors]
