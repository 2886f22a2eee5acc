"""Formats between the blocks of the locator."""

from functools import cache
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import COMMANDS, VID_BITS, Opcode
from hw.contracts import struct
from hw.locator.config import LocatorConfig
from hw.memory.formats import line_address_width

__all__ = [
    "SETS",
    "AccessSignature",
    "Answer",
    "Bundle",
    "Claim",
    "Conflict",
    "Counts",
    "Descriptor",
    "HubDegree",
    "KeptRow",
    "Kind",
    "Line",
    "Operation",
    "Outcome",
    "Owner",
    "RecordBeat",
    "Request",
    "Row",
    "SearchSignature",
    "Settings",
    "Status",
    "Task",
    "Work",
    "keep",
    "location_command",
    "name_line",
]


@cache
def location_command(address_width: int) -> data.StructLayout:
    """Return the layout of LOCATE with addresses in the memory, in lines: as wide as the memory's.

    `address_width` is that of a byte address, in bits. An operand of the command is narrower where a memory has more
    than 256 GiB, and counts from the image's base.
    """
    operands = COMMANDS[Opcode.LOCATE].fields
    members = dict(struct(COMMANDS[Opcode.LOCATE]).members)
    line = line_address_width(address_width)
    return data.StructLayout(members | {operand.name: line for operand in operands if operand.line})


class Kind(enum.Enum, shape=2):  # type: ignore[call-arg]
    """State of a vertex that is no hub; hubs are recognised by their degree."""

    #: Pending and in no search.
    FREE = 0
    #: Claimed by the search that its value names.
    OWNED = 1
    #: Visited, in the round that its value names, by a search that was given up; in later rounds the same as `FREE`.
    MARKED = 2
    #: In a community.
    DONE = 3


class Operation(enum.Enum, shape=3):  # type: ignore[call-arg]
    """Operation on the state of a vertex; the low bits are the `Kind` that it writes."""

    #: Read only.
    LOOK = 0
    #: Make it the owner's if it is free.
    CLAIM = 1
    #: Set the state, `MARK` with the round of the settings.
    RELEASE = 4
    MARK = 6
    FINISH = 7


#: Bit of an `Operation` that sets a state, whatever it was.
SETS = 4


class Outcome(enum.Enum, shape=3):  # type: ignore[call-arg]
    """State of a vertex as found."""

    #: Free; with `Operation.CLAIM` now the requester's.
    FREE = 0
    #: A hub of an earlier round, or of another chiplet.
    OLD_HUB = 1
    #: A hub of this round.
    NEW_HUB = 2
    #: Already the requester's.
    MINE = 3
    #: Another search's.
    OTHER = 4
    #: Given up in this round.
    MARKED = 5
    #: In a community.
    DONE = 6


class Settings(data.StructLayout):
    """Settings that are constant during a round.

    ``threshold``, ``previous``: of this round and of the one before. ``round``: its number. ``c_max``, ``h_max``:
    limits of records. ``first``, ``vertices``: range of the vertices that are searched.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "threshold": config.node_bits + 1,
                "previous": config.node_bits + 1,
                "round": config.round_bits,
                "c_max": 16,
                "h_max": 16,
                "first": config.node_bits,
                "vertices": config.node_bits + 1,
            }
        )


class Row(data.StructLayout):
    """Where the neighbours of a vertex are: ``degree`` edges from ``start``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"start": config.edge_bits, "degree": config.node_bits})


class HubDegree(data.StructLayout):
    """A hub's VID and the number of its neighbours; ``ahead``: it is told before its round."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vid": VID_BITS, "degree": config.node_bits, "ahead": 1})


class KeptRow(data.StructLayout):
    """A row, and what would be found out too late behind its memory: it is ``empty``; its first line is its last."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"row": Row(config), "empty": 1, "short": 1})


def keep(kept: Any, start: Value, degree: Value, line_words: int) -> list[Any]:
    """Return the assignments to a `KeptRow`."""
    return [
        kept.row.start.eq(start),
        kept.row.degree.eq(degree),
        kept.empty.eq(degree == 0),
        kept.short.eq(degree <= line_words - start[: exact_log2(line_words)]),
    ]


class Line(data.StructLayout):
    """A line of the adjacency: ``names`` of vertices, and which are ``remote``, outside the range that is searched.

    A name is the distance from the first vertex of that range, which is the vertex's place in the state.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"names": data.ArrayLayout(config.node_bits, config.line_words), "remote": config.line_words})


def name_line(line: data.View, words: Value, first: Value, vertices: Value) -> list[object]:
    """Assign a `Line` of `words` as they are in the image, of which `vertices` from the `first` one are searched."""
    count = len(line.remote)
    names: list[object] = []
    for n in range(count):
        name, vid = line.names[n], words.word_select(n, len(words) // count)
        names += [name.eq(vid - first), line.remote[n].eq(name >= vertices)]
    return names


class Owner(data.StructLayout):
    """A search: its ``worker``, and the ``epoch``, which changes with every search of the worker."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"worker": config.worker_bits, "epoch": config.epoch_bits})


class Request(data.StructLayout):
    """Asks for the state of the ``node``-th vertex, and for an operation on it."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"node": config.node_bits, "operation": Operation})


class Answer(data.StructLayout):
    """State of a vertex: ``outcome``, and in ``of`` its ``row`` if it is free, its ``owner`` if that is another one."""

    def __init__(self, config: LocatorConfig) -> None:
        of = data.UnionLayout({"row": Row(config), "owner": Owner(config)})
        super().__init__({"outcome": Outcome, "of": of})


class Task(data.StructLayout):
    """Part of a hub's row to search from, or an isolated vertex.

    ``vertex``: the hub. ``start``, ``count``: edges, all in one line. ``head``: first part of the row.
    ``isolated``: the vertex has no edges.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "vertex": config.node_bits,
                "start": config.edge_bits,
                "count": range(config.line_words + 1),
                "head": 1,
                "isolated": 1,
            }
        )


class Status(data.StructLayout):
    """Status of a search: whether it is running, its epoch, its number of nodes."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"searching": 1, "epoch": config.epoch_bits, "count": config.list_bits + 1})


class Conflict(data.StructLayout):
    """A search has met a vertex of the ``owner``, and whether it has a ``need`` of it to go on."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"owner": Owner(config), "need": 1})


class Claim(data.StructLayout):
    """Said to a search from outside: it is ``suspended``; it has ``lost`` its vertices, and has to ``mark`` them."""

    def __init__(self) -> None:
        super().__init__({"suspended": 1, "lost": 1, "mark": 1})


class Work(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What the vertices of a bundle are looked up for."""

    #: Neighbours of a hub: nothing is claimed.
    READ = 0
    #: A neighbour of a hub, as a seed: if it is free, it is the first node of a record.
    SEED = 1
    #: Neighbours of the record's nodes.
    SEARCH = 2
    #: One that was put aside, for the second time.
    AGAIN = 3


class Bundle(data.StructLayout):
    """Neighbours of the ``index``-th node of a search: those ``vertices`` whose bit in the ``mask`` is set.

    ``context``: number of the search in its engine. ``last``: nothing follows of this part of a row. ``remote``: those
    that are of another chiplet.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "context": config.context_bits,
                "work": Work,
                "last": 1,
                "index": config.list_bits,
                "mask": config.lanes,
                "remote": config.lanes,
                "vertices": data.ArrayLayout(config.node_bits, config.lanes),
            }
        )


class Counts(data.StructLayout):
    """Events of a cycle: edges ``read``, searches that ``began``, ``gave_up`` or ``retreated``."""

    def __init__(self, most_read: int, searches: int) -> None:
        events = dict.fromkeys(("began", "gave_up", "retreated"), range(searches + 1))
        super().__init__({"read": range(most_read + 1), **events})


class AccessSignature(wiring.Signature):
    """Ports of an engine to the graph.

    Members
    -------
    request, answer
        Request of each lane to the state store, and its answer in the next cycle. A request may be withdrawn.
    owner
        The search that all lanes claim for.
    line_request, line
        Addresses of lines, and the lines in the same order.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "request": Out(stream.Signature(Request(config))).array(config.lanes),
                "owner": Out(Owner(config)),
                "answer": In(Answer(config)).array(config.lanes),
                "line_request": Out(stream.Signature(config.line_bits)),
                "line": In(stream.Signature(Line(config), always_ready=True)),
            }
        )


class SearchSignature(wiring.Signature):
    """Ports of a search to the rest of the locator, seen from the search.

    Members
    -------
    task
        Work, taken when the search is idle; ``ready`` depends on registers.
    conflict, decided
        The search has met another one; pulse: the conflict is decided, with the result in ``claim``.
    status, claim
        State of the search for the resolver; the resolver's decision.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "task": In(stream.Signature(Task(config))),
                "conflict": Out(stream.Signature(Conflict(config))),
                "decided": In(1),
                "status": Out(Status(config)),
                "claim": In(Claim()),
            }
        )


class Descriptor(data.StructLayout):
    """A complete record in a half of the record buffer.

    ``context``, ``half``: its search and half. ``nodes``, ``hubs``: their numbers. ``round``: as in the record.
    ``head``: the diagonal is set. ``blank``: no other bit is. ``hub_edges``: as in the record.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "context": config.context_bits,
                "half": 1,
                "nodes": config.list_bits + 1,
                "hubs": config.hub_bits + 1,
                "round": config.round_bits,
                "head": 1,
                "blank": 1,
                "hub_edges": 1,
            }
        )


#: A beat of the record stream; ``last``: of its record.
RecordBeat = data.StructLayout({"data": 64, "last": 1})
