"""Images of a session: graph after graph on one chiplet, whose memory keeps what they share.

Header, commands and the regions that differ lie in front; the host writes them for every graph. Regions that all images
share, weights above all, lie behind them and are written once. Working space comes last and is never written by the
host.
"""

import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from contracts import COMMANDS, HEADER, LINE_BYTES, REGION, Opcode, RegionKind
from contracts.errors import InputError
from golden.image_format import Command, Image, Region
from golden.program.program import packed

__all__ = ["Session", "lines_that_change", "resident", "session"]

#: Regions that depend on a graph's edges.
_OF_EDGES = {
    RegionKind.OFFSETS,
    RegionKind.EDGES,
    RegionKind.OUT_TILES,
    RegionKind.OUT_EDGES,
    RegionKind.DEGREES,
    RegionKind.SCALE_SOURCE,
    RegionKind.SCALE_DESTINATION,
    RegionKind.OTHERS,
}

#: What a region is: its kind, its layer, and how many of both come before it.
_Name = tuple[RegionKind, int, int]


@dataclass(frozen=True, eq=False)
class Session:
    """Images of a chiplet for the graphs of a session.

    Attributes
    ----------
    images
        One a graph; what they share lies in the same place.
    fronts
        Bytes from the start of each image that are its own.
    behind
        Bytes behind the longest front that all images share.
    """

    images: Sequence[Image]
    fronts: Sequence[int]
    behind: int

    def writes(self, number: int) -> bytes:
        """Return what the host writes, from the start of the memory on, before it starts the graph of this number."""
        data = self.images[number].data
        return data[: self.fronts[number]] if number else data

    def written(self, number: int) -> int:
        """Return how many bytes the host has to write for a graph: with the first one also what stays."""
        return self.fronts[number] + (0 if number else self.behind)


def session(images: Sequence[Image]) -> Session:
    """Arrange images of one chiplet, at least one, so that what they share stays in memory.

    Parameters
    ----------
    images
        As `golden.program.program.Program.image` makes them, one for each graph.
    """
    named = [_named(image) for image in images]
    own = [{name for name in found if found[name] in image.written} for image, found in zip(images, named, strict=True)]
    shared = [name for name in named[0] if all(name in each for each in own) and _same(name, images, named)]
    fronts = []
    for image, found, written in zip(images, named, own, strict=True):
        lines = sum(image.regions[found[name]].lines for name in written - set(shared))
        fronts.append(_begin(image) + lines)
    room = max(fronts)
    arranged = [
        _arranged(image, found, shared, written, room, behind=number > 0)
        for number, (image, found, written) in enumerate(zip(images, named, own, strict=True))
    ]
    behind = sum(images[0].regions[named[0][name]].lines for name in shared)
    return Session(arranged, [lines * LINE_BYTES for lines in fronts], behind * LINE_BYTES)


def lines_that_change(image: Image) -> int:
    """Return the lines of header, commands and all regions that depend on edges."""
    return _begin(image) + sum(image.regions[n].lines for n in image.written if image.regions[n].kind in _OF_EDGES)


def resident(image: Image, room: int) -> Image:
    """Return an image whose graph may change: whatever its edges, all else lies in the same place.

    Parameters
    ----------
    image
        Of a chiplet, as `golden.program.program.Program.image` makes it.
    room
        Lines for what depends on edges, from the start of the image on.

    Raises
    ------
    InputError
        If that has no room.
    """
    if (lines := lines_that_change(image)) > room:
        raise InputError("graph", f"needs {lines} lines for edges and commands", f"at most {room}")
    named = _named(image)
    written = {name for name in named if named[name] in image.written}
    shared = [name for name in named if name in written and name[0] not in _OF_EDGES]
    return _arranged(image, named, shared, written, room)


def _with_weights_there(commands: Sequence[Command], shared: Collection[Region]) -> list[Command]:
    """Return the commands of an image behind one with the same weights: what has a place of its own is not loaded."""
    loads = [command for command in commands if command.opcode == Opcode.LOAD_WEIGHTS]
    apart = len({command.fields.get("page", 0) for command in loads}) == len(loads)
    if not apart or any(command.references["weights"][0] not in shared for command in loads):
        return list(commands)
    return [
        replace(command, fields={**command.fields, "resident": 1}) if command.opcode == Opcode.LOAD_WEIGHTS else command
        for command in commands
    ]


def _named(image: Image) -> dict[_Name, int]:
    """Return the place of every region in the region table."""
    seen: Counter[tuple[RegionKind, int]] = Counter()
    names: dict[_Name, int] = {}
    for number, region in enumerate(image.regions):
        kind = (region.kind, region.layer)
        names[*kind, seen[kind]] = number
        seen[kind] += 1
    return names


def _contents(image: Image, region: Region) -> bytes:
    return image.data[region.address : region.address + region.lines * LINE_BYTES]


def _same(name: _Name, images: Sequence[Image], named: Sequence[dict[_Name, int]]) -> bool:
    """Return whether a region has the same contents in all images."""
    first = _contents(images[0], images[0].regions[named[0][name]])
    return all(
        _contents(image, image.regions[found[name]]) == first for image, found in zip(images, named, strict=True)
    )


def _begin(image: Image) -> int:
    """Return the line behind the command list."""
    return image.header["command_list"] + image.header["commands"]


def _arranged(
    image: Image,
    named: dict[_Name, int],
    shared: Sequence[_Name],
    written: set[_Name],
    room: int,
    *,
    behind: bool = False,
) -> Image:
    """Return an image with its own regions in the first `room` lines, then the shared ones, then working space.

    `behind`: it is not the first of its session.
    """
    own = [name for name in named if name in written and name not in shared]
    # What a scratchpad keeps comes last.
    scratch = image.scratch
    rest = sorted(
        (name for name in named if name not in written), key=lambda name: image.regions[named[name]] in scratch
    )
    lines, line = dict[int, int](), _begin(image)
    for names, first in ((own, line), (shared, room), (rest, None)):
        line = line if first is None else first
        for name in names:
            lines[named[name]] = line
            line += image.regions[named[name]].lines
    regions = tuple(replace(region, line=lines[number]) for number, region in enumerate(image.regions))
    moved = dict(zip(image.regions, regions, strict=True))
    given: Sequence[Command] = image.commands
    if behind:
        given = _with_weights_there(given, {image.regions[named[name]] for name in shared})
    commands = tuple(_moved(command, moved) for command in given)
    data = bytearray(line * LINE_BYTES)
    for old, new in moved.items():
        data[new.address : new.address + new.lines * LINE_BYTES] = _contents(image, old)
    table = b"".join(packed(REGION, region.values(), f"region {n}") for n, region in enumerate(regions))
    at = image.header["region_table"] * LINE_BYTES
    data[at : at + len(table)] = table
    for number, command in enumerate(commands):
        at = (image.header["command_list"] + number) * LINE_BYTES
        data[at : at + LINE_BYTES] = packed(COMMANDS[command.opcode], command.values(), f"command {number}")
    header = {**image.header, "lines": line, "checksum": zlib.crc32(data[LINE_BYTES:])}
    header["scratch"] = min((moved[region].line for region in scratch), default=0)
    data[:LINE_BYTES] = packed(HEADER, header, "header")
    return replace(image, data=bytes(data), header=header, regions=regions, commands=commands)


def _moved(command: Command, moved: dict[Region, Region]) -> Command:
    """Return a command whose operands refer to regions where they are now."""
    references = {name: (moved[region], line) for name, (region, line) in command.references.items()}
    fields = {name: region.line + line for name, (region, line) in references.items()}
    return Command(command.opcode, {**command.fields, **fields}, references)
