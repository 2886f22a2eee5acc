"""Codes with names: opcodes, errors, kinds of regions and packets."""

from enum import IntEnum

__all__ = [
    "Activation",
    "ArrayError",
    "Combination",
    "Error",
    "Flow",
    "Matching",
    "Model",
    "Opcode",
    "PacketKind",
    "Policy",
    "RegionKind",
    "Split",
    "Targets",
    "Token",
]


class _Documented(IntEnum):
    """An integer with a sentence of documentation."""

    doc: str

    def __new__(cls, value: int, doc: str = "") -> "_Documented":
        member = int.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member


class Model(_Documented):
    """Graph neural networks an image can hold."""

    GCN = 0, "s = (d+1)^-1/2 at the source and at the destination"
    SAGE = 1, "mean over the vertex and its neighbours: 1 at the source, 1/(d+1) at the destination"
    GIN = 2, "sum of the neighbours and (1+eps) times the vertex"


class Activation(_Documented):
    """What happens to a result after the second rounding point."""

    NONE = 0, "results as they are"
    RELU = 1, "negative results become 0"
    DNP = 2, "no bias, Q3.12 results; the neural chip adds the bias and looks up its table"


class Combination(_Documented):
    """Work of a COMBINE: a layer with more features than rows of weights is combined in blocks of features."""

    WHOLE = 0, "features times weights, times s_src, first rounding point"
    DIGITS = 1, "features times weights, not rounded: each sum as three digits of 14, 14 and 16 bits, a row each"
    SUM = 2, "features are rows of digits, which are added up; then times s_src, first rounding point"


class Opcode(_Documented):
    """Commands of a chiplet, executed in the order of the list."""

    NOP = 0, "completes at once"
    LOAD_WEIGHTS = 1, "weights and biases of a layer into the PEs"
    COMBINE = 2, "features times weights, times s_src, first rounding point, one row a vertex"
    AGGREGATE = 3, "sum of combined rows over the neighbourhood, times s_dst, plus bias, second rounding point"
    LOCATE = 4, "find the communities of the chiplet's vertices and emit their records"
    PROCESS = 5, "combine and aggregate community records as they are found"
    SCATTER = 6, "send the features that other chiplets need round the ring; all but the last part is answered at once"
    REDUCE = 7, "send partial sums home round the ring"
    BARRIER = 8, "wait until every chiplet of the ring has come here"
    SAMPLE = 9, "sample neighbourhoods of roots and fetch their attributes"
    COPY = 10, "move bytes inside the memory"
    NEURAL = 11, "run a program of the neural chip over rows"
    LIST = 12, "begin to list the VIDs of other chiplets whose rows are needed; answered at once, SCATTER waits for it"
    FETCH = 13, "fetch attributes of a batch that was sampled; answered at once if they go to the PEs"
    SHARE = 14, "wait for all chiplets of the ring, then take part in a graph that is divided among their memories"


class Error(_Documented):
    """Why a command or an image was not carried out; sticky until the next start."""

    NONE = 0, "no error"
    MEMORY_READ = 1, "the memory answered a read with SLVERR or DECERR; info: line address, modulo 2^32"
    MEMORY_WRITE = 2, "the memory answered a write with SLVERR or DECERR; info: line address, modulo 2^32"
    BAD_MAGIC = 3, "the image does not begin with the magic number; info: what it begins with"
    BAD_VERSION = 4, "the image is of another version; info: its version"
    BAD_OPCODE = 5, "the opcode is unknown or not in this configuration; info: the opcode"
    BAD_OPERAND = 6, "an operand exceeds what this configuration holds; info: the operand's value"
    VID_RANGE = 7, "a source VID lies outside the graph; info: the VID"
    OFFSET_ORDER = 8, "an offset is smaller than the one before it; info: the row"
    EDGE_RANGE = 9, "an edge range ends past the edges array, or the last one before its end; info: the row"
    INDEX_RANGE = 10, "a sparse feature's index is not below the number of features; info: the index"
    BAD_PACKET = 11, "a packet's header contradicts itself or its length; info: the VID"
    ROUNDS = 13, "the watchdog of the locator ran out of rounds; info: vertices still pending"
    FAN_OUT = 14, "a fan-out is 0 or exceeds the slots of the attribute buffer; info: the fan-out"
    NEURAL = 15, "a neural processor stopped before its results; info: its number in bits 7..0, its code in bits 15..8"
    PEER = 16, "another chiplet of the ring stopped; info: its position in bits 7..0, its error in bits 15..8"
    MISSING = 17, "an owner has sent all it had, but a row waited for did not come; info: the VID"
    LINK = 18, "a neighbour on the ring was reset while this chiplet was at work; info: its position"
    TILE_RANGE = 19, "a vertex has out-edges into a tile of no chiplet; info: the row"


class ArrayError(_Documented):
    """What an array of neural processors refused; all else goes on. The first since the last clear is kept."""

    NONE = 0, "no error"
    KIND = 1, "a beat of unknown kind; info: the beat"
    PORT = 2, "a word for an edge port that does not exist or is joined to another; info: the beat"
    OPERATION = 3, "a frame that is none of WRITE, READ and NOP, reads from all, or writes the status; info: its header"
    TARGET = 4, "a frame for a chip or processor that does not exist; info: its header"
    RANGE = 5, "a frame beyond the end of a memory; info: address in bits 15..0, words in bits 31..16"
    ONLINE = 6, "a frame for a memory during a run; info: its header"
    TRUNCATED = 7, "a packet ended within a frame; info: words missing, or 0 if its count is missing too"
    ACCESS = 8, "an access that the registers answered with SLVERR; info: its byte address"


class RegionKind(_Documented):
    """What a region of an image holds."""

    BOUNDARIES = 0, "u32 x (chiplets + 1): first VID of every chiplet, then the number of vertices"
    OFFSETS = 1, "u32 x (vertices * tiles + 1): tiled offsets of the in-edges (R9); a locator takes one tile"
    EDGES = 2, "u32 x edges: source VIDs, ascending in each row"
    OUT_TILES = 3, "u32 x vertices: bit t: chiplet t, another one, gathers out-edges of the vertex"
    OUT_EDGES = 4, "u32 x edges: destination VIDs, ascending in each row; absent if symmetric"
    DEGREES = 5, "u32 x vertices: distinct neighbours without the vertex itself, over all chiplets"
    SCALE_SOURCE = 6, "Scale x vertices: s_src"
    SCALE_DESTINATION = 7, "Scale x vertices: s_dst"
    FEATURES = 8, "i16 rows x vertices: dense input features"
    FEATURE_OFFSETS = 9, "u32 x (vertices + 1): first entry of every vertex in FEATURES_SPARSE"
    FEATURES_SPARSE = (
        10,
        "SparseEntry x entries: non-zero input features, indices ascending in each row; entries of zeros may end it",
    )
    WEIGHTS = 11, "i16 rows x f_in: weights of a layer"
    BIASES = 12, "i32 x f_out: biases of a layer, at the scale of sum * s_dst"
    HUBS = 13, "u32 x hubs: VIDs of the host's hub table, ascending"
    HUB_HOMES = 14, "u32 x hubs: home chiplet (bits 7..0) and the chiplet its partial sum starts at (bits 15..8)"
    COMMANDS = 15, "Command x commands"
    COMBINED = 16, "i16 rows x vertices: working space for the combined features of a layer"
    HIDDEN = 17, "i16 rows x vertices: results of a layer that is not the last"
    RESULTS = 18, "i16 rows x vertices: results of the last layer"
    RECORDS = 19, "u64 x beats: community records"
    ROOTS = 20, "u32 x roots: VIDs of a mini-batch"
    PROGRAM = 21, "u32 x words: frames for the neural chip's G-bus, two of its words in each, lower half first"
    NEEDED = (
        22,
        "u32 x 4 x (vertices / 128, rounded up): working space for a bit a VID: its row has to come round the ring",
    )
    SHARED_OFFSETS = 23, "u32 x (hubs + 1): offsets of the edges into hubs that this chiplet executes for their homes"
    SHARED_EDGES = 24, "u32 x edges: source VIDs of those edges, ascending in each row, all of this chiplet"
    TILES = (
        25,
        "of every tile, each from a line on: u32 x (located + 1) offsets and u32 x edges with positions as sources, "
        "Scale x vertices s_dst, and for each distance of combined rows u32 x positions places",
    )
    DIGITS = 26, "i16 rows x vertices: working space for the digits of a layer that is combined in blocks of features"
    OWN = 27, "i16 rows x vertices: working space for the own rows of a rooted layer"
    SCALE_OWN = 28, "Scale x vertices: factors of own rows"
    SHARES = (
        29,
        "u32 x (3 * chiplets + 1): of a divided graph, the first line of each chiplet's offsets, then edges, then "
        "attributes, and the number of lines",
    )
    REPLICAS = (
        30,
        "u32 x cells: IDs of other chiplets' vertices, each with the lowest bits of its cell, in an empty cell with "
        "others; then i16 rows x cells: their attributes",
    )
    OTHERS = 31, "u32 x rows: VIDs of other chiplets among the sources, each once, those of a beat in different banks"


class PacketKind(_Documented):
    """What a ring packet carries (R3, R11, R19)."""

    FEATURE = 0, "a vertex's combined feature, i16 elements, from its owner to all that need it"
    PARTIAL = 1, "a partial sum of a vertex, i32 elements, on its way home"
    CONTROL = 2, "a token"
    LINES = 3, "beats of a divided graph: a request to the chiplet that has them, or its reply"


class Token(_Documented):
    """What a control packet says."""

    DRAINED = 0, "its sender has sent all the rows it had to send in this pass"
    ARRIVED = 1, "its sender has come to a barrier"
    ERROR = 2, "its sender has stopped with an error"


class Matching(_Documented):
    """Order in which a chiplet takes the rows that an owner sends it round a ring (R7)."""

    UNORDERED = 0, "as they come"
    IN_ORDER = 1, "ascending; one that comes before its turn waits"


class Split(_Documented):
    """Chiplet of a ring that adds up an edge between vertices of two chiplets (R8)."""

    DESTINATION = 0, "the owner of its destination, to which the row of the source travels; of hubs as their table says"
    SOURCE = 1, "the owner of its source, from which a partial sum travels"


class Policy(_Documented):
    """Which entry leaves the attribute cache when another comes in and all ways are taken (A8)."""

    DEGREE = 0, "the node of the smallest degree"
    LRU = 1, "the one whose last request is the longest ago, counting those while it was in the buffer"
    LFU = 2, "the one with the fewest requests since it was fetched"
    MRU = 3, "the one whose last request is the most recent"
    FIFO = 4, "the one that came into the cache first"
    LIFO = 5, "the one that came into the cache last"
    SIEVE = (
        6,
        "the next one, in the order in which they came into the cache, that has not been requested again since it was "
        "fetched or passed over; then the search goes on behind it, and round",
    )


class Targets(_Documented):
    """How requests for attributes get their slots of the buffer (A4)."""

    HASH = 0, "by a hash of the ID"
    POSITION = 1, "by the position in the batch"
    AHEAD = 2, "by a plan: a row keeps its slot until its last request, and that of the row that is wanted last goes"


class Flow(_Documented):
    """What a request for an attribute met (A7)."""

    IN_PLACE = 0, "the attribute is at its target address"
    CACHED = 1, "hit in the cache: swapped with the entry at the target address (A7a)"
    MOVED = 2, "hit in the buffer at another address: the two entries change places (A7b)"
    MISSED = 3, "fetched; the entry at the target address moves to the cache (A7c)"
    REFUSED = 4, "the ID is outside the graph; nothing changes"
