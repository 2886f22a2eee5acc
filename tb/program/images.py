"""What holds for every image, whatever made it."""

from itertools import pairwise

from contracts import COMMANDS, LINE_BYTES, REGION, Opcode, RegionKind
from golden.image_format import Image

__all__ = ["KINDS", "check_image"]

#: Kinds of regions that an operand may refer to.
KINDS: dict[str, set[RegionKind]] = {
    "weights": {RegionKind.WEIGHTS},
    "biases": {RegionKind.BIASES},
    "offsets": {RegionKind.OFFSETS, RegionKind.SHARED_OFFSETS, RegionKind.TILES},
    "edges": {RegionKind.EDGES, RegionKind.SHARED_EDGES, RegionKind.TILES},
    "features": {
        RegionKind.FEATURES,
        RegionKind.FEATURES_SPARSE,
        RegionKind.HIDDEN,
        RegionKind.DIGITS,
        RegionKind.OWN,
    },
    "feature_offsets": {RegionKind.FEATURE_OFFSETS, RegionKind.TILES},
    "scales": {RegionKind.SCALE_SOURCE, RegionKind.SCALE_DESTINATION, RegionKind.SCALE_OWN},
    "scales_source": {RegionKind.SCALE_SOURCE, RegionKind.SCALE_OWN},
    "scales_destination": {RegionKind.SCALE_DESTINATION, RegionKind.SCALE_SOURCE, RegionKind.TILES},
    "combined": {RegionKind.COMBINED, RegionKind.OWN, RegionKind.DIGITS},
    "own": {RegionKind.OWN},
    "results": {RegionKind.HIDDEN, RegionKind.RESULTS},
    "rows": {RegionKind.HIDDEN, RegionKind.RESULTS, RegionKind.COMBINED},
    "program": {RegionKind.PROGRAM},
    "out_tiles": {RegionKind.OUT_TILES},
    "boundaries": {RegionKind.BOUNDARIES},
    "others": {RegionKind.OTHERS},
    "needed": {RegionKind.NEEDED},
    "hub_homes": {RegionKind.HUB_HOMES},
}
#: Operands that no block reads.
RESERVED = {Opcode.LOCATE: "records"}


def check_image(image: Image) -> None:
    """Header, table, list and regions lie apart, and the bytes hold the commands that were emitted."""
    header = image.header
    read = Image.from_bytes(image.data)
    assert read.regions == image.regions
    table = -(-len(image.regions) * REGION.bytes // LINE_BYTES)
    spans = [(0, 1), (header["region_table"], table), (header["command_list"], header["commands"])]
    spans += sorted((region.line, region.lines) for region in image.regions)
    assert all(first + lines <= after for (first, lines), (after, _) in pairwise(spans)), spans
    assert spans[-1][0] + spans[-1][1] <= header["lines"] == len(image.data) // LINE_BYTES
    assert len(image.commands) == header["commands"]
    for number, command in enumerate(image.commands):
        at = (header["command_list"] + number) * LINE_BYTES
        layout = COMMANDS[command.opcode]
        found = layout.from_bytes(image.data[at : at + LINE_BYTES])
        assert found["tag"] == number
        assert found == {name: command.values().get(name, 0) for name in found}
        for name, (region, line) in command.references.items():
            assert region in image.regions
            assert 0 <= line < region.lines
            assert found[name] == region.line + line
        lines = {field.name for field in layout.fields if field.line and found[field.name]}
        assert lines == set(command.references)
        if command.opcode in RESERVED:
            assert found[RESERVED[command.opcode]] == 0
