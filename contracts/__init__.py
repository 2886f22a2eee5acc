"""The contracts between blocks, as one table (printed in ``docs/contracts.md``).

Hardware, golden models, the image writer, the driver and the documentation take every format, code
and constant from here. Byte order is little-endian throughout; a *line* is 64 bytes, the alignment of
every region of an image; a *row* of dense features is padded with zeros to a multiple of 32 bytes.
"""

from contracts.codes import (
    Activation,
    ArrayError,
    Combination,
    Error,
    Flow,
    Matching,
    Model,
    Opcode,
    PacketKind,
    Policy,
    RegionKind,
    Split,
    Targets,
    Token,
)
from contracts.formats import (
    BATCH,
    COMMANDS,
    COMPLETION,
    EDGE_WEIGHTED,
    HEADER,
    MAGIC,
    PACKET_CONTROL,
    PACKET_HEADER,
    PACKET_LINES,
    RECORD_HEADER,
    REGION,
    SCALE,
    SPARSE_ENTRY,
    STREAMS,
    VERSION,
)
from contracts.layout import Field, Layout

__all__ = [
    "ACCUMULATOR_BITS",
    "BATCH",
    "COMMANDS",
    "COMMAND_BYTES",
    "COMPLETION",
    "DIGIT_BITS",
    "DIGIT_FEATURES",
    "EDGE_WEIGHTED",
    "HEADER",
    "LINE_BYTES",
    "MAGIC",
    "NEEDED_ROW",
    "PACKET_CONTROL",
    "PACKET_HEADER",
    "PACKET_LINES",
    "PAGE_BYTES",
    "PARTIAL_BITS",
    "RECORD_HEADER",
    "REGION",
    "ROW_BYTES",
    "SCALE",
    "SPARSE_ENTRY",
    "STREAMS",
    "VALUE_BITS",
    "VERSION",
    "VID_BITS",
    "Activation",
    "ArrayError",
    "Combination",
    "Error",
    "Field",
    "Flow",
    "Layout",
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

#: Alignment of regions and unit of every address in a command, in bytes.
LINE_BYTES = 64
#: No burst of a memory port crosses a multiple of this, in bytes.
PAGE_BYTES = 4096
#: Rows of dense features, weights and results are padded to a multiple of this, in bytes.
ROW_BYTES = 32
#: A needed list in memory is padded to a multiple of so many vertices, a bit each.
NEEDED_ROW = 128
#: Size of a command in an image, in bytes.
COMMAND_BYTES = 64
#: Width of a vertex ID (VID).
VID_BITS = 32
#: Width of a feature, weight or result (two's complement).
VALUE_BITS = 16
#: Width of a combination sum.
ACCUMULATOR_BITS = 48
#: Bits of the digits of a combination sum, the lowest first; the last one is signed.
DIGIT_BITS = (14, 14, 16)
#: Most features whose sums have so many bits.
DIGIT_FEATURES = (1 << sum(DIGIT_BITS) - 1 - 2 * (VALUE_BITS - 1)) - 1
#: Width of an aggregation sum and of the elements of a partial-sum packet.
PARTIAL_BITS = 32
