"""Sizes of a locator."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2, exact_log2

from contracts import LINE_BYTES
from contracts.communities import ROUNDS_MAX, TOP_DEGREE
from contracts.parameters import Parameters, size

__all__ = ["ROW_WORD", "LocatorConfig"]

_WORD_BITS = 32
#: Bits of a word of the bitmap, half a beat of a record.
ROW_WORD = 32
#: Cycles that the resolver takes for a conflict.
CONFLICT_CYCLES = 4
#: Fewest cycles between the starts of two searches of a worker.
_SEARCH_CYCLES = 8
#: Lines that a search prefetches.
LINES = 4
#: Most bundles of neighbours in flight when a search ends; see `hw.locator.state_lookup`.
BUNDLES = 7
#: Entries of the column table for each vertex that it may hold.
_SPARSE = 2


@dataclass(frozen=True)
class LocatorConfig(Parameters):
    """Parameters of the locator; all widths follow from them.

    Attributes
    ----------
    engines
        Search engines; each has one port to the node state and one to the adjacency.
    searches
        Searches that take turns at an engine's ports: while one waits for an answer, another proceeds.
    lanes
        Neighbours that an engine examines in a cycle, at most the edges of a line.
    nodes
        Most vertices, at least two a bank.
    window
        Vertices whose state is on the chip, a power of two below `nodes` in whole pages; the state of others is in
        external memory and is exchanged with theirs. 0: all.
    page
        Vertices exchanged at a time, a power of two from `banks`, of at least a line.
    edges
        Most directed edges on the chip, at least two lines.
    c_max
        Largest community a search can hold, in nodes.
    hubs
        Most hubs of a community.
    banks
        Banks of the node state, each of which serves one request a cycle; enough for `engines` × `lanes`.
    load_words
        Rows that are loaded in a cycle, at most the words of a beat and one a bank.
    external
        The adjacency stays in external memory and is read on demand; `edges` are then as many as can be addressed.
    apart
        Edges have a read client of their own, and come beside the offsets.
    tasks
        Tasks that can wait for an engine.
    outputs
        Record streams, at most one an engine; engine *n* emits on stream *n* modulo `outputs`.
    tag_bits
        Width of a record's number in an engine's tables, which are cleared when it wraps.
    address_width
        Bits of a byte address at the memory port.
    data_width
        Bits of a beat of the memory port, which is a line of the adjacency.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    engines: int = size(8, 1, 64)
    searches: int = size(2, 1, 8)
    lanes: int = size(2, 1, lambda locator: min(8, locator.line_words), power=True)
    nodes: int = size(4096, lambda locator: 2 * locator.banks, power=True)
    window: int = 0
    page: int = 256
    edges: int = size(16384, 16, power=True)
    c_max: int = size(64, ROW_WORD, 4096, step=ROW_WORD)
    hubs: int = size(64, ROW_WORD, 4096, step=ROW_WORD)
    banks: int = size(16, 2, power=True)
    load_words: int = size(2, 1, lambda locator: min(locator.line_words, locator.banks), power=True)
    tasks: int = size(16, 1)
    outputs: int = size(1, 1, lambda locator: locator.engines)
    tag_bits: int = size(12, 3, 16)
    address_width: int = size(32, 13, 64)
    data_width: int = size(256, values=(64, 128, 256))
    external: bool = False
    apart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.paged:
            self._check_pages()
        if (1 << self.tag_bits) < 2 * self.tags_ahead:
            raise ValueError(f"tag_bits must leave room for {self.tags_ahead} records, not {self.tag_bits!r}")

    def _check_pages(self) -> None:
        least_page = max(self.banks, 8 * LINE_BYTES // self.slot_bits)
        for name, least, most in (("page", least_page, self.nodes // 4), ("window", 2 * self.page, self.nodes // 2)):
            value = getattr(self, name)
            if not least <= value <= most or value & (value - 1):
                raise ValueError(f"{name} must be a power of two in {least}..{most}, not {value!r}")
        if self.slot_bits > self.data_width:
            raise ValueError(
                f"data_width must be at least the {self.slot_bits} bits of a state, not {self.data_width!r}"
            )
        if self.slots > self.banks:
            raise ValueError(f"banks must be at least {self.slots}, the states of a beat, not {self.banks!r}")

    @property
    def paged(self) -> bool:
        """Whether pages of states are swapped with the external memory."""
        return self.window != 0

    @property
    def page_rows(self) -> int:
        """Vertices of a bank in a page."""
        return self.page // self.banks

    @property
    def frames(self) -> int:
        """Pages on the chip."""
        return self.window // self.page

    @property
    def slot_bits(self) -> int:
        """Bits of a vertex's state and row in the external memory: a power of two."""
        return 1 << ceil_log2(2 + self.value_bits + self.edge_bits + self.node_bits + self.place_bits)

    @property
    def slots(self) -> int:
        """States of a beat."""
        return self.data_width // self.slot_bits

    @property
    def page_bits(self) -> int:
        """Width of a page's number."""
        return exact_log2(self.nodes // self.page) if self.paged else 0

    @property
    def page_beats(self) -> int:
        """Beats of a page in the external memory."""
        return self.page // self.slots

    @property
    def node_bits(self) -> int:
        """Width of a vertex and of a degree."""
        return exact_log2(self.nodes)

    @property
    def edge_bits(self) -> int:
        """Width of an edge's address."""
        return exact_log2(self.edges)

    @property
    def bank_bits(self) -> int:
        """Low bits of a vertex that choose its bank."""
        return exact_log2(self.banks)

    @property
    def rows(self) -> int:
        """Vertices of a bank, on the chip or not."""
        return self.nodes // self.banks

    @property
    def place_bits(self) -> int:
        """High bits of a vertex: its place in its bank, on the chip or not."""
        return exact_log2(self.rows)

    @property
    def top_level(self) -> int:
        """Last list of vertices by degree, of those with this degree and more."""
        return min(TOP_DEGREE, self.nodes - 1)

    @property
    def settling(self) -> int:
        """Cycles after a reset in which column tables and lists are cleared."""
        return max(self.searches << self.table_bits, self.top_level + 1)

    @property
    def depth(self) -> int:
        """Vertices of a bank that are on the chip."""
        return (self.window or self.nodes) // self.banks

    @property
    def line_words(self) -> int:
        """Edges of a line."""
        return self.data_width // _WORD_BITS

    @property
    def line_bits(self) -> int:
        """Width of a line's address."""
        return self.edge_bits - exact_log2(self.line_words)

    @property
    def lines_asked(self) -> int:
        """Most outstanding line requests."""
        return self.workers * LINES

    @property
    def clients(self) -> int:
        """Clients of the read arbiter: offsets and edges, lines read on demand, and pages."""
        return self.loaders + self.external + self.paged

    @property
    def loaders(self) -> int:
        """Clients of the read arbiter that load the graph."""
        return 1 + self.apart

    @property
    def workers(self) -> int:
        """Searches of all engines."""
        return self.engines * self.searches

    @property
    def worker_bits(self) -> int:
        """Width of a search's number."""
        return max(1, ceil_log2(self.workers))

    @property
    def context_bits(self) -> int:
        """Width of the number of a search in its engine."""
        return max(1, ceil_log2(self.searches))

    @property
    def tags_ahead(self) -> int:
        """Tags that an engine needs for the tasks that it has taken: one for each vertex to search from."""
        return self.searches * self.line_words + 2

    @property
    def aside_bits(self) -> int:
        """Width of an index into a search's list of neighbours put aside; see `hw.locator.searcher`."""
        return exact_log2(2 * LINES * self.line_words)

    @property
    def epoch_bits(self) -> int:
        """Width of the epoch that distinguishes a worker's searches; see `hw.locator.resolver`."""
        return ceil_log2(max(64, 2 * CONFLICT_CYCLES * (self.workers + 1) // _SEARCH_CYCLES))

    @property
    def round_bits(self) -> int:
        """Width of a round's number."""
        return ROUNDS_MAX.bit_length()

    @property
    def value_bits(self) -> int:
        """Width of a state's value: an owner or a round."""
        return max(self.round_bits, self.worker_bits + self.epoch_bits)

    @property
    def list_bits(self) -> int:
        """Width of an index into an engine's list of nodes, which also holds late claims."""
        return ceil_log2(self.c_max + BUNDLES * self.lanes)

    @property
    def hub_bits(self) -> int:
        """Width of an index into an engine's list of hubs."""
        return ceil_log2(self.hubs)

    @property
    def columns(self) -> int:
        """Bits of a bitmap row in an engine: hub columns behind the columns of all possible nodes."""
        return self.c_max + self.hubs

    @property
    def table_bits(self) -> int:
        """Address width of the column table: sparse, or with a cell for every vertex."""
        return min(ceil_log2(_SPARSE * (self.c_max + self.hubs)), self.node_bits)
