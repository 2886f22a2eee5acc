"""Which modules of a design are a block's own, and which are parts that other benches measure."""

import re
from collections.abc import Collection

__all__ = ["own_modules"]


def own_modules(model: str, top: str, elsewhere: Collection[str], only: str = "") -> set[str]:
    """Return the modules that count for a block.

    Parameters
    ----------
    model
        The design as RTLIL with sources; a module's name begins with its parent's and a dot.
    top
        Name of the block's module, which counts unless it is a bench's around the block.
    elsewhere
        Files, from the project's root, whose modules count elsewhere, with all that is in them.
    only
        The one file whose modules count, wherever they are; empty: all do.
    """
    found = re.findall(r'^attribute \\src "([^"]*)"\n(?:attribute .*\n)*module \\?(\S+)$', model, re.M)
    files = {name: re.sub(r"^.*/(hw/\S+?):\d+.*$", r"\1", source) for source, name in found}
    if only:
        return {name for name, file in files.items() if file == only}
    others = [name for name, file in files.items() if name != top and file in elsewhere]
    inside = tuple(f"{name}." for name in others)
    benches = {name for name, file in files.items() if re.search(r"/(?:sim|tb)/\S+?:\d+", file)}
    return {name for name in files if name not in {*others, *benches} and not name.startswith(inside)}
