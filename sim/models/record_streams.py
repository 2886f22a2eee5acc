"""Where a design hands out the records that its locator has made."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Source", "record_source"]

#: Attributes that name the part of a machine that the engine is in; instances in Verilog have the same names.
_AROUND = ("machine", "engine")


class Source(NamedTuple):
    """Where records are handed out in a design.

    Attributes
    ----------
    path
        Of the instance, from the design on.
    streams
        Streams of records that it has.
    """

    path: str
    streams: int

    def signals(self, design: str, name: str) -> str:
        """Return the signal `name` of all streams, that of stream 0 lowest, in a design of this instance name."""
        wires = [f"{design}.{self.path}.records__{n}__{name}" for n in reversed(range(self.streams))]
        return f"{{{', '.join(wires)}}}"


def record_source(component: Any) -> Source | None:
    """Find the locator of a community engine in the chiplet or machine around it.

    Parameters
    ----------
    component
        A machine, or anything else.

    Returns
    -------
    Source or None
        None if there is no such engine.
    """
    path: list[str] = []
    while name := next((name for name in _AROUND if hasattr(component, name)), None):
        component = getattr(component, name)
        path.append(name)
    # An engine is told by its configuration: benches without one import nothing of it.
    locator = getattr(getattr(component, "config", None), "locator", None)
    return Source(".".join([*path, "locator"]), locator.outputs) if locator else None
