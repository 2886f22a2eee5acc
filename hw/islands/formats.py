"""What the blocks of the island locator say to each other."""

from amaranth.lib import data, enum

from hw.islands.config import EPOCH_BITS, LocatorConfig

__all__ = [
    "Answer",
    "Claim",
    "Descriptor",
    "Kind",
    "Operation",
    "Outcome",
    "Owner",
    "RecordBeat",
    "Request",
    "Row",
    "Settings",
    "Status",
    "Task",
    "Verdict",
]


class Kind(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What a vertex that is no hub is; hubs are known by their degree."""

    #: Pending and in no search.
    FREE = 0
    #: Claimed by the search its value names.
    OWNED = 1
    #: Visited in the round its value names by a search that was given up; in later rounds as `FREE`.
    MARKED = 2
    #: In a community.
    DONE = 3


class Operation(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What is asked of the state of a vertex."""

    #: Only look.
    LOOK = 0
    #: Make it one's own if it is free.
    CLAIM = 1
    #: Write it.
    SET = 2


class Outcome(enum.Enum, shape=3):  # type: ignore[call-arg]
    """What the state of a vertex was."""

    #: Free; with `Operation.CLAIM` now one's own.
    FREE = 0
    #: A hub of an earlier round, or of another chiplet.
    OLD_HUB = 1
    #: A hub of this round.
    NEW_HUB = 2
    #: Already one's own.
    MINE = 3
    #: Another search's.
    OTHER = 4
    #: Given up in this round.
    MARKED = 5
    #: In a community.
    DONE = 6


class Verdict(enum.Enum, shape=2):  # type: ignore[call-arg]
    """What a search that met another does."""

    #: Look again: the other goes away.
    WAIT = 0
    #: Release its vertices.
    RETREAT = 1
    #: Mark its vertices: together they are more than a community.
    MARK = 2


class Settings(data.StructLayout):
    """What stands still during a round.

    ``threshold``, ``previous``: of this round and of the one before. ``round``: its number. ``c_max``, ``h_max``,
    ``hubs``: limits of records. ``first``, ``vertices``: range of the vertices that are searched.
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


class Owner(data.StructLayout):
    """A search: its ``worker``, and the ``epoch``, which changes with every search of the worker."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"worker": config.worker_bits, "epoch": EPOCH_BITS})


class Request(data.StructLayout):
    """Asks for the state of the ``node``-th vertex; ``kind`` and ``value`` are what `Operation.SET` writes."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"node": config.node_bits, "operation": Operation, "kind": Kind, "value": config.value_bits})


class Answer(data.StructLayout):
    """State of a vertex: ``outcome``, its ``row``, and the ``owner`` where there is one."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"outcome": Outcome, "row": Row(config), "owner": Owner(config)})


class Task(data.StructLayout):
    """Part of a hub's row to search from, or an isolated vertex.

    ``vertex``: the hub. ``start``, ``count``: edges, all in one line. ``head``: first part of the row.
    ``isolated``: the vertex has no edges. ``number``: order of tasks in a round.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "vertex": config.node_bits,
                "start": config.edge_bits,
                "count": range(config.line_words + 1),
                "head": 1,
                "isolated": 1,
                "number": config.edge_bits,
            }
        )


class Status(data.StructLayout):
    """A search as others see it: whether there is one, its epoch, how many nodes it has, its task's number."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {"searching": 1, "epoch": EPOCH_BITS, "count": config.list_bits + 1, "number": config.edge_bits}
        )


class Claim(data.StructLayout):
    """Said to a search from outside: it has ``lost`` its vertices, and whether it has to ``mark`` them."""

    def __init__(self) -> None:
        super().__init__({"lost": 1, "mark": 1})


class Descriptor(data.StructLayout):
    """A record that lies complete in a half of the record buffer.

    ``half``, ``tag``: where, and which words of the bitmap are its own. ``nodes``, ``hubs``: how many.
    ``round``: as in the record. ``head``: the diagonal is set. ``hub_edges``: as in the record.
    """

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "half": 1,
                "tag": config.tag_bits,
                "nodes": config.list_bits + 1,
                "hubs": config.hub_bits + 1,
                "round": config.round_bits,
                "head": 1,
                "hub_edges": 1,
            }
        )


#: A beat of the record stream; ``last``: of its record.
RecordBeat = data.StructLayout({"data": 64, "last": 1})
