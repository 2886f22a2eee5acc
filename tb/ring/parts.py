"""Design under test: the blocks that decide what travels, side by side in one simulator."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ring.filter_array import FilterArray
from hw.ring.filter_generator import FilterGenerator
from hw.ring.formats import RingConfig
from hw.ring.needed_list import NeededList
from hw.ring.remote_array import RemoteArray
from hw.ring.ring_unit import RingUnit

__all__ = ["BITMAP", "CHIPLETS", "ENTRIES", "RingParts", "ring_unit"]

CHIPLETS = 4
#: Entries of a filter window.
ENTRIES = 3
#: Vertices of the needed list's window: the smallest, so that small graphs take several.
BITMAP = 64


def _parts() -> dict[str, Any]:
    return {
        "remote": RemoteArray(),
        "needed": NeededList(32, CHIPLETS, BITMAP),
        "filter": FilterArray(32, CHIPLETS, ENTRIES),
        "generator": FilterGenerator(groups=4, pes=2, sources=3),
    }


class RingParts(wiring.Component):
    """Remote array, needed list, filter array and filter generator; ports are called ``remote_i`` and so on."""

    def __init__(self) -> None:
        members = {}
        for prefix, part in _parts().items():
            for name, member in part.signature.members.items():
                members[f"{prefix}_{name}"] = member
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        """Pass every port through."""
        m = Module()
        for prefix, part in _parts().items():
            m.submodules[prefix] = part
            for name, member in part.signature.members.items():
                outer, inner = getattr(self, f"{prefix}_{name}"), getattr(part, name)
                if member.is_signature:
                    wiring.connect(m, wiring.flipped(outer), inner)
                else:
                    m.d.comb += inner.eq(outer) if member.flow == wiring.In else outer.eq(inner)
        return m


def ring_unit(max_out: int, data_width: int) -> RingUnit:
    """Ring unit of a chiplet with rows of up to `max_out` features behind a port of `data_width` bits."""
    return RingUnit(RingConfig(max_out=max_out), data_width=data_width)
