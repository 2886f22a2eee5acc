"""Feature reader and combined reader as they stand together in the engine, for their bench."""

from typing import Any

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from hw.community.combined_reader import CombinedReader
from hw.community.factories import feature_reader

__all__ = ["FeatureSide"]


class FeatureSide(wiring.Component):
    """The ports of both; `combined` are rows, from a memory port of their own.

    Parameters
    ----------
    combiners, address_width, depth, parameters
        As for `hw.community.factories.feature_reader`.
    """

    def __init__(self, combiners: int, address_width: int = 32, depth: int = 128, **parameters: Any) -> None:
        self.features = reader = feature_reader(combiners, address_width, depth, **parameters)
        self.config, self.combiners, self.address_width, self.depth = reader.config, combiners, address_width, depth
        self.rows = rows = CombinedReader(reader.config, address_width, depth)
        members = dict(reader.signature.members)
        more = rows.signature.members
        super().__init__({**members, "combined": more["o"], "rows_request": more["request"], "rows_beat": more["beat"]})

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect them."""
        m = Module()
        m.submodules.features, m.submodules.rows = features, rows = self.features, self.rows
        connect(m, features.combined, rows.i)
        m.d.comb += rows.go.eq(self.go)
        for name, member in features.signature.members.items():
            if name == "combined":
                continue
            for outer, inner in zip(_each(getattr(self, name)), _each(getattr(features, name)), strict=True):
                if member.is_signature:
                    connect(m, flipped(outer), inner)
                elif member.flow == wiring.Out:
                    m.d.comb += outer.eq(inner)
                else:
                    m.d.comb += inner.eq(outer)
        for outer, inner in ((self.combined, rows.o), (self.rows_request, rows.request), (self.rows_beat, rows.beat)):
            connect(m, flipped(outer), inner)
        return m


def _each(port: Any) -> list[Any]:
    """Return the elements of a port that may be an array."""
    return list(port) if isinstance(port, list | tuple) else [port]
