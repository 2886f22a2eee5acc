"""Placements and damaged images for benches of the ring."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from contracts import COMMANDS, HEADER, LINE_BYTES, Opcode, RegionKind
from golden.graph import Graph
from golden.image import Image
from golden.ring.placement import Placement

__all__ = ["commanded", "commands", "highest", "patched", "uneven"]


def uneven(graph: Graph, chiplets: int, seed: int, hubs: Sequence[int] = ()) -> Placement:
    """Random boundaries, some chiplets owning nothing."""
    bounds = np.sort(np.random.default_rng(seed).integers(0, graph.nodes + 1, chiplets - 1))
    return Placement.at([0, *bounds.tolist(), graph.nodes], hubs)


def highest(graph: Graph, count: int) -> list[int]:
    """VIDs of the vertices with most neighbours."""
    return sorted(np.argsort(-graph.degrees, kind="stable")[:count].tolist())


def patched(image: Image, kind: RegionKind, word: int, value: int) -> Image:
    """Image with another 32-bit word in a region; the checksum is right."""
    data = bytearray(image.data)
    struct.pack_into("<I", data, image.region(kind).address + 4 * word, value)
    return _checked(image, data)


def commands(image: Image) -> list[tuple[int, str]]:
    """Layer and name of every command of an image."""
    found = []
    for number in range(image.header["commands"]):
        at = (image.header["command_list"] + number) * LINE_BYTES
        head = COMMANDS[Opcode.NOP].from_bytes(image.data[at : at + LINE_BYTES])
        found.append((head["layer"], Opcode(head["opcode"]).name.lower()))
    return found


def commanded(image: Image, opcode: Opcode, /, **fields: int) -> Image:
    """Image whose first command `opcode` has other fields; the checksum is right."""
    data = bytearray(image.data)
    for number in range(image.header["commands"]):
        at = (image.header["command_list"] + number) * LINE_BYTES
        command = COMMANDS[opcode].from_bytes(bytes(data[at : at + LINE_BYTES]))
        if command["opcode"] == opcode:
            data[at : at + LINE_BYTES] = COMMANDS[opcode].to_bytes({**command, **fields})
            return _checked(image, data)
    raise ValueError(f"opcode: {opcode.name} is not in the command list")


def _checked(image: Image, data: bytearray) -> Image:
    header = dict(image.header)
    header["checksum"] = zlib.crc32(data[LINE_BYTES:])
    data[:LINE_BYTES] = HEADER.to_bytes(header)
    return Image(bytes(data), header, image.regions)
