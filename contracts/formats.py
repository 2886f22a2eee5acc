"""Layouts of everything that crosses a block's boundary or lies in an image."""

from collections.abc import Iterable

from contracts.codes import Activation, Combination, Error, Model, Opcode, PacketKind, RegionKind, Token
from contracts.communities import BRANCHES, SHARE, TOP_DEGREE, UNORDERED
from contracts.layout import Field, Layout

__all__ = [
    "BATCH",
    "COMMANDS",
    "COMPLETION",
    "EDGE_WEIGHTED",
    "HEADER",
    "MAGIC",
    "PACKET_CONTROL",
    "PACKET_HEADER",
    "PACKET_LINES",
    "RECORD_HEADER",
    "REGION",
    "SCALE",
    "SPARSE_ENTRY",
    "STREAMS",
    "VERSION",
]

#: First word of an image: "ATOL".
MAGIC = int.from_bytes(b"ATOL", "little")
#: Version of all formats together.
VERSION = 1


def _u(name: str, bits: int, doc: str) -> Field:
    return Field(name, bits, doc)


def _line(name: str, doc: str) -> Field:
    return Field(name, 32, f"{doc}; in lines from the start of the image", line=True)


def _padded(name: str, doc: str, bits: int, fields: Iterable[Field]) -> Layout:
    fields = tuple(fields)
    rest = bits - sum(field.bits for field in fields)
    if rest < 0:
        raise ValueError(f"layout {name} exceeds {bits} bits by {-rest}")
    return Layout(name, doc, (*fields, Field("reserved", rest, "written as 0")) if rest else fields)


HEADER = _padded(
    "Header",
    "First 64 bytes of an image. One image holds everything one chiplet needs.",
    512,
    [
        _u("magic", 32, '"ATOL"'),
        _u("version", 16, "version of all formats"),
        Field("model", 8, "graph neural network", enum=Model),
        _u("layers", 8, "number of layers"),
        _u("chiplet", 8, "position of the chiplet on the ring"),
        _u("chiplets", 8, "number of chiplets on the ring"),
        _u("regions", 16, "entries of the region table"),
        _line("region_table", "region table"),
        _line("command_list", "command list"),
        _u("commands", 32, "entries of the command list"),
        _u("vertices", 32, "vertices of the whole graph"),
        _u("first_vertex", 32, "first VID of this chiplet"),
        _u("owned", 32, "vertices of this chiplet"),
        _u("edges", 32, "directed edges stored for this chiplet"),
        _u("lines", 32, "size of the image, in lines"),
        _u("checksum", 32, "CRC-32 of all lines after the header, checked by the host"),
        _line(
            "scratch", "what comes from here on is working space that chiplets keep in their scratchpads; 0: nothing"
        ),
    ],
)

REGION = _padded(
    "Region",
    "Entry of the region table.",
    256,
    [
        Field("kind", 16, "what it holds", enum=RegionKind),
        _u("layer", 16, "layer it belongs to, 0 where that has no meaning"),
        _line("line", "where it starts"),
        _u("bytes", 32, "size without padding to a line, in bytes"),
        _u("rows", 32, "number of rows"),
        _u("row_elements", 32, "elements of a row without padding"),
        _u("row_bytes", 32, "distance of rows, in bytes"),
    ],
)

SCALE = _padded(
    "Scale",
    "A normalisation factor: mantissa * 2^-(15 + exponent). 1.0 is (0x8000, 0).",
    32,
    [_u("mantissa", 16, "unsigned; its top bit is set unless the factor is 0"), _u("exponent", 5, "right shift")],
)

SPARSE_ENTRY = Layout(
    "SparseEntry",
    "A non-zero feature of a vertex.",
    (_u("index", 16, "column"), Field("value", 16, "feature, at the scale of the tensor", signed=True)),
)

EDGE_WEIGHTED = _padded(
    "WeightedEdge",
    "Edge of a graph with a weight per edge (R18): its EDGES region has rows of 8 bytes.",
    64,
    [_u("vid", 32, "vertex at the other end"), Field("weight", 16, "at the fraction of the self weight", signed=True)],
)

_COMMAND_HEAD = (
    Field("opcode", 8, "what to do", enum=Opcode),
    _u("layer", 8, "layer, for counters and messages"),
    _u("tag", 16, "returned with the completion"),
)


def _command(opcode: Opcode, fields: Iterable[Field] = ()) -> Layout:
    name = opcode.name.title().replace("_", "")
    return _padded(name, f"Command {opcode.name}: {opcode.doc}.", 512, [*_COMMAND_HEAD, *fields])


_VERTICES = (_u("first_vertex", 32, "first VID"), _u("vertices", 32, "number of vertices"))
_GRAPH = (
    _line("offsets", "tiled offsets"),
    _line("edges", "source VIDs"),
    _u("edge_count", 32, "length of the edges array, in edges"),
    _u("tiles", 8, "source tiles, at least 1 (R9)"),
)

#: Position of a block of columns in a row of results, in granules of 32 bytes: 16 features.
_COLUMNS = (
    _u("row_granules", 13, "length of a whole row of results, in granules; at least that of f_out and first_granule"),
    _u("first_granule", 12, "where the columns of this command begin in it"),
)

#: Operands of every opcode; all are 64 bytes and begin with opcode, layer and tag.
COMMANDS: dict[Opcode, Layout] = {
    Opcode.NOP: _command(Opcode.NOP),
    Opcode.LOAD_WEIGHTS: _command(
        Opcode.LOAD_WEIGHTS,
        [
            _u("f_in", 32, "rows of the weight matrix"),
            _u("f_out", 16, "columns of the weight matrix"),
            _u("page", 4, "sixteenth of the weight memory, with community PEs, in which the first weight lies"),
            _u("resident", 1, "1: an earlier LOAD_WEIGHTS has put these weights there; biases alone are read"),
            _u(
                "own_page",
                4,
                "page of the weights of own rows, loaded before, for a PROCESS that makes these",
            ),
            _u("own_shift", 6, "first rounding point of those rows"),
            _u("reserved0", 1, "written as 0"),
            _line("weights", "weight rows"),
            _line("biases", "biases"),
        ],
    ),
    Opcode.COMBINE: _command(
        Opcode.COMBINE,
        [
            _u("f_in", 32, "features of a vertex; SUM does not use it"),
            _u("f_out", 16, "combined features of a vertex"),
            _u("shift", 6, "first rounding point: right shift before the exponent of s_src is added"),
            _u("sparse", 1, "1: features are sparse entries, 0: dense rows"),
            Field("kind", 2, "what is combined, and into what", enum=Combination),
            _u("in_turn", 1, "1: dense rows are read one after another, as FETCH streams them"),
            _u("reserved0", 6, "written as 0"),
            _u("vertices", 32, "number of vertices"),
            _u("entries", 32, "length of the sparse features, in entries"),
            _line("features", "dense rows or sparse entries"),
            _line("feature_offsets", "first entry of every vertex, if sparse"),
            _line("scales", "s_src"),
            _line("combined", "row 0 of the combined rows, or of the rows of digits"),
            _u("first_row", 32, "row of the first vertex"),
            _u(
                "row_granules", 13, "with DIGITS, length of a vertex's row of digits of all blocks, in granules; else 0"
            ),
            _u("first_granule", 12, "with DIGITS, where the three rows of this block begin in it; each is padded"),
            _u("distance", 13, "of dense rows of features, in granules; 0: that of f_in, rows follow each other"),
            _u("table", 32, "vertices of whose factors and features community PEs read all for PROCESS; 0: of no more"),
            _line("scales_destination", "s_dst, of `table` vertices"),
        ],
    ),
    Opcode.AGGREGATE: _command(
        Opcode.AGGREGATE,
        [
            *_VERTICES,
            *_GRAPH,
            _u("shift", 6, "second rounding point: right shift before the exponent of s_dst is added"),
            Field("activation", 2, "what happens to a result", enum=Activation),
            _u(
                "attention",
                4,
                "0: none; else rows count by their scores, a vertex's own row 2^-attention times, over their sum",
            ),
            _u("f_out", 16, "features of a row"),
            Field(
                "self_weight",
                16,
                "factor of the vertex's own row: 1, or 256 * (1 + eps) for GIN; with attention of scores from 0 on",
                signed=True,
            ),
            Field(
                "neighbour_weight",
                16,
                "factor of its neighbours' rows: 1, or 256 for GIN; with attention of negative scores",
                signed=True,
            ),
            _line("scales", "s_dst; unused with attention"),
            _line("combined", "combined rows of VIDs first_source and up"),
            _line("results", "where the rows go"),
            _u("first_source", 32, "VID of the first combined row"),
            _u("sources", 32, "number of combined rows: no VID may reach first_source + sources"),
            _u("partials", 32, "the last so many of them are partial sums' halves, low and high in turn"),
            *_COLUMNS,
            _u("rooted", 1, "1: vertices' own rows come from `own`, with self_weight * 2^(exponent of s_dst)"),
            _line("own", "if rooted, own row of the first vertex, at the distance of combined rows"),
            _u("weighted", 1, "1: edges are weighted, and a weight is the factor of its neighbour's row"),
        ],
    ),
    Opcode.LOCATE: _command(
        Opcode.LOCATE,
        [
            *_VERTICES,
            _line("offsets", "offsets, one of each vertex and the number of edges"),
            *_GRAPH[1:3],
            _u("halving", 1, "1: the threshold halves every round, 0: it falls by `step`"),
            _u(
                "by_degrees",
                1,
                f"1: the first threshold follows from the degrees: the least that at most one in {SHARE} vertices "
                f"exceeds, {TOP_DEGREE} at most; or the highest below for which the sum of d(d - 1) over all degrees d "
                f"up to it is at most {BRANCHES}/2 of the edges; at least the least that at most half exceed",
            ),
            _u("joins", 1, "1: another tile of the layer that was located before; counters add up"),
            _u(
                "arrival",
                5,
                "rows of others come in the order of their numbers, 2^arrival of them in a group; "
                f"{UNORDERED}: in another order",
            ),
            _u("reserved0", 24, "written as 0"),
            _u("threshold", 32, "threshold of the first round (I1), unless it follows from the degrees"),
            _u("step", 16, "fall of the threshold a round"),
            _u("rounds", 16, "rounds after which the watchdog stops the search"),
            _u("c_max", 16, "largest community, in vertices"),
            _u("h_max", 16, "largest number of hubs in a record"),
            _u("records", 32, "reserved for keeping records in memory, written as 0: no block reads it"),
            _line("state", "working space for graphs that exceed the state on the chip"),
        ],
    ),
    Opcode.PROCESS: _command(
        Opcode.PROCESS,
        [
            *_VERTICES,
            _u("f_out", 16, "features of a result"),
            Field("self_weight", 16, "factor of the vertex's own row", signed=True),
            Field("neighbour_weight", 16, "factor of its neighbours' rows", signed=True),
            _u(
                "positions",
                24,
                "0, or so many vertices whose combined rows lie at places, in granules from `rows`, not at their VIDs'",
            ),
            _u("ahead", 23, "so many of the vertices were combined before"),
            _u(
                "combined",
                1,
                "1: the first `ahead` vertices and all that are not among the `vertices` have combined rows; if those "
                "are all, more vertices may have been located than are summed",
            ),
            _line(
                "features",
                "dense rows or sparse entries of the vertices that are combined; if rooted and none is, own rows",
            ),
            _line(
                "feature_offsets",
                "first entry of every vertex, if sparse; if there are `positions`, instead the place of each that has "
                "a combined row, those of other vertices one word further on if some vertices are combined",
            ),
            _line("scales_source", "s_src; if rooted, the factors of own rows, and s_src is 1"),
            _line("scales_destination", "s_dst"),
            _line("results", "where the rows go"),
            _line("rows", "combined rows, if there are some, row 0 that of VID 0"),
            _u("first_partial", 32, "VID of the first partial sum's low halves; its high halves have the next VID"),
            _u("first_row", 32, "row of the first vertex's result"),
            _u("f_in", 17, "features of a vertex"),
            _u("shift_source", 6, "first rounding point"),
            _u("shift_destination", 6, "second rounding point"),
            Field("activation", 2, "what happens to a result", enum=Activation),
            _u("sparse", 1, "1: features are sparse entries"),
            _u("pairs", 1, "1: pairs of near columns share sums, 0: windows of columns do, or nothing does (I7)"),
            *_COLUMNS,
            _u(
                "rooted",
                1,
                "1: vertices have own rows, with self_weight * 2^(exponent of s_dst): that of the first is `first_row` "
                "if all rows are combined; if none is, they are made of the same features with the weights of "
                "`own_page`",
            ),
            _u("window", 3, "without `pairs`, columns of a window, less one; 0: nothing is shared"),
        ],
    ),
    Opcode.SCATTER: _command(
        Opcode.SCATTER,
        [
            *_VERTICES,
            _line("out_tiles", "tiles into which each vertex has out-edges"),
            _line("needed", "what LIST has found"),
            _line("combined", "row of VID 0: own rows are sent, rows of others are put at their places"),
            _u("f_out", 16, "features of a row"),
            _u("tiles", 8, "chiplets of the ring"),
            _u("more", 1, "1: more parts of the chiplet's rows follow, of higher VIDs"),
            _u("beside", 1, "1: answered at once; PROCESS waits for hubs of others, COMBINE for the end"),
            _u("follows", 1, "1: the next COMBINE makes the rows; each is sent once it can be read"),
            _u("in_order", 1, "1: in-order matching (R7), in the first SCATTER of a pass"),
            _u("backward", 1, "1: gradients along transposed edges (R16)"),
        ],
    ),
    Opcode.LIST: _command(
        Opcode.LIST,
        [
            _line("boundaries", "boundary table"),
            _line("others", "VIDs of other chiplets among the sources of in-edges"),
            _u("count", 32, "length of that array, in VIDs"),
            _line("needed", "where a bit of each VID goes that is of another chiplet and in that array"),
            _u("tiles", 8, "chiplets of the ring"),
        ],
    ),
    Opcode.REDUCE: _command(
        Opcode.REDUCE,
        [
            _u("hub_count", 32, "entries of the hub table"),
            _line("hub_homes", "home and start of every hub"),
            _line("offsets", "offsets of the shared edges, a row a hub"),
            _line("edges", "source VIDs of the shared edges"),
            _u("edge_count", 32, "length of that array, in edges"),
            _line("combined", "row of VID 0"),
            _u("first_source", 32, "first VID of this chiplet"),
            _u("sources", 32, "vertices of this chiplet"),
            _u("first_partial", 32, "row of hub 0's sum: its low halves, and its high halves in the row after it"),
            _u("f_out", 16, "elements of a partial sum"),
        ],
    ),
    Opcode.BARRIER: _command(Opcode.BARRIER),
    Opcode.SHARE: _command(
        Opcode.SHARE,
        [
            _line("table", "who has which lines"),
            _line("offsets", "lines of the offsets that this chiplet has"),
            _line("edges", "its lines of the edges"),
            _line("attributes", "its lines of the attributes"),
            _line("graph", "line 0 of the divided graph, whose lines have addresses that no memory has"),
            _u("tiles", 8, "chiplets of the ring"),
        ],
    ),
    Opcode.SAMPLE: _command(
        Opcode.SAMPLE,
        [
            *_VERTICES,
            *_GRAPH,
            _u("targets", 2, "one of `Targets`; `AHEAD` is for a FETCH"),
            _u("hops", 3, "hops of positive sampling"),
            _u(
                "flush",
                1,
                "1: forget the attributes of earlier commands before fetching, 0: they are still those of this graph",
            ),
            _u("span", 18, "length of each of the four arrays behind `tree`, in lines"),
            _line("roots", "roots"),
            _u("root_count", 16, "number of roots"),
            _u("negatives", 8, "negative samples a root"),
            _u("fan_out", 32, "fan-out of up to four hops, 8 bits each, first hop lowest"),
            _u("seed", 32, "seed (A2)"),
            _u("batch", 32, "number of the batch"),
            _line("attributes", "dense rows"),
            _u("row_bytes", 32, "distance of rows, in bytes"),
            _line("tree", "a Batch, then offsets, edges, factors (1/(children+1)) and VIDs of the positions"),
            _line("rows", "the positions' attributes, at the same distance"),
            _u("later", 1, "1: the attributes are left to FETCH"),
            _u("background", 1, "with `later`, 1: answered when it is checked, and made beside later commands"),
            _u(
                "paired",
                1,
                "with `later`, 1: behind each VID stands the key of the edge that the position was sampled along: "
                "`vertices` + its number, or `vertices` + `edge_count` for none; that array has 2 * `span` lines",
            ),
        ],
    ),
    Opcode.FETCH: _command(
        Opcode.FETCH,
        [
            *_VERTICES,
            *_GRAPH,
            _u("targets", 2, "one of `Targets`, `AHEAD` if the core can plan"),
            _u("flush", 1, "as for SAMPLE"),
            _line("nodes", "VIDs, as SAMPLE leaves them behind `tree`"),
            _u("count", 32, "how many of them"),
            _line("attributes", "dense rows"),
            _u("row_bytes", 32, "distance of rows, in bytes"),
            _line("report", "a Batch with the number of positions and the counts of requests"),
            _line("rows", "the positions' attributes, at the same distance"),
            _line(
                "replicas",
                "0, or a table with an ID for each cell of the core's table, read if `flush`, and a row for each cell: "
                "the ID's own row, if its lowest bits are the number of the cell",
            ),
            _u("streamed", 1, "1: PEs read each row once and in order, and `rows` are no memory; 0: they are written"),
        ],
    ),
    Opcode.COPY: _command(
        Opcode.COPY, [_line("source", "from"), _line("target", "to"), _u("lines", 32, "length in lines")]
    ),
    Opcode.NEURAL: _command(
        Opcode.NEURAL,
        [
            _line("program", "frames that load the chip"),
            _u("words", 32, "length of the program region, in words"),
            _line("rows", "input rows"),
            _line("results", "output rows"),
            _u("vertices", 32, "number of rows"),
            _u("f_in", 16, "elements of an input row"),
            _u("f_out", 16, "elements of an output row"),
        ],
    ),
}

COMPLETION = Layout(
    "Completion",
    "Says how a run ended: after the last command, or at the first one that failed.",
    (
        Field("error", 8, "0, or why it stopped", enum=Error),
        _u("layer", 8, "layer of the command that failed"),
        _u("tag", 16, "tag of the command that failed, or of the last one"),
        _u("info", 32, "what the error's entry says"),
    ),
)

BATCH = _padded(
    "Batch",
    "What a SAMPLE command leaves in front of its arrays. Positions are counted hop by hop: roots, then the samples of "
    "the first hop in the order of the roots, and so on; the negative samples of all roots come last.",
    512,
    [
        _u("positions", 32, "rows written"),
        *(_u(f"hop{n}", 32, f"of them sampled in hop {n}" + ", counting roots as hop 0" * (n == 0)) for n in range(5)),
        _u("negatives", 32, "of them sampled as not joined to their root"),
        _u("requests", 32, "requests for attributes"),
        _u("in_place", 32, "of them with the flow IN_PLACE"),
        _u("cached", 32, "CACHED"),
        _u("moved", 32, "MOVED"),
        _u("missed", 32, "MISSED: rows read from memory"),
    ],
)

PACKET_HEADER = _padded(
    "PacketHeader",
    "First word of a ring packet (R3). It leaves the ring at `destination`, having passed all that need it.",
    64,
    [
        Field("kind", 2, "what it carries", enum=PacketKind),
        _u("source", 5, "chiplet that sent it"),
        _u("destination", 5, "farthest chiplet that needs it"),
        _u("pass_", 1, "parity of the pass, so that a late packet of the last pass is recognised"),
        _u("backward", 1, "gradient instead of feature (R16)"),
        _u("weighted", 1, "elements carry a trailing edge weight (R18)"),
        _u("elements", 12, "number of elements that follow; 0 for control; for lines a PacketLines"),
        _u(
            "vid",
            32,
            "vertex; for a partial sum its place in the hub table, for control a PacketControl, for lines a beat",
        ),
        _u("high", 3, "for lines, the bits of the beat above `vid`; else 0"),
    ],
)

PACKET_CONTROL = _padded(
    "PacketControl",
    "What a control packet carries in place of the VID.",
    32,
    [
        Field("token", 4, "what it says", enum=Token),
        _u("phase", 1, "parity of the pass, or of the barrier"),
        Field("error", 8, "error of the sender", enum=Error),
    ],
)

PACKET_LINES = _padded(
    "PacketLines",
    "Field `elements` of a packet of beats; `vid` and `high` are the first beat, counted from the start of the divided "
    "graph. A request is a header alone. A reply that is longer or shorter than the request says that the beats could "
    "not be read.",
    12,
    [
        _u("last_beat", 4, "number of beats, less one"),
        _u("tag", 6, "place for the beats at the chiplet that requests them"),
        _u("reply", 1, "1: the beats follow"),
    ],
)

RECORD_HEADER = _padded(
    "RecordHeader",
    "First beat of a community record (I4). Node VIDs follow, two a beat, then hub VIDs from a new beat, then for "
    "every node one bitmap row of ceil((nodes + hubs) / 64) beats: columns nodes then hubs, column 0 lowest, "
    "diagonal set. A record with more than h_max hubs is split by hub columns into parts; only part 0 has the "
    "node columns set.",
    64,
    [
        _u("nodes", 16, "community nodes"),
        _u("hubs", 16, "hubs of this part"),
        _u("round", 16, "round in which it was found"),
        _u("part", 8, "number of the part"),
        _u("last_part", 1, "1: no part follows"),
        _u("hub_edges", 1, "1: `nodes` are hubs too and the bitmap holds hub-hub edges"),
        _u("end", 1, "1: not a record but the end of the stream"),
        _u("shared", 1, "1: a share, in which only the node rows of `piece` are summed; the locator writes 0"),
        _u("piece", 3, "which eighth of the rows that a record may have; 0 without `shared`"),
    ],
)

#: Formats that travel on streams, or lie in images beside the commands, for the documentation.
STREAMS: tuple[Layout, ...] = (
    HEADER,
    REGION,
    SCALE,
    SPARSE_ENTRY,
    EDGE_WEIGHTED,
    COMPLETION,
    BATCH,
    PACKET_HEADER,
    PACKET_CONTROL,
    PACKET_LINES,
    RECORD_HEADER,
)
