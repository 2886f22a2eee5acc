"""AXI4 signatures and their flat form at a top level."""

from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.memory.axi import (
    AXI4ReadSignature,
    AXI4Signature,
    AXI4WriteSignature,
    beat_size,
    connect_flat,
    flat_members,
)
from sim.harness.build import to_rtlil


class Bridge(wiring.Component):
    """Passes an AXI4 port on, through an inner interface."""

    def __init__(self) -> None:
        signature = AXI4Signature(32, 64, 3)
        super().__init__({**flat_members("s_axi", In(signature)), **flat_members("m_axi", Out(signature))})
        self.inner = signature.create()

    def elaborate(self, platform: object) -> Module:
        """Connect both flat ports to the inner interface."""
        m = Module()
        connect_flat(m, self, "s_axi", wiring.flipped(self.inner))
        connect_flat(m, self, "m_axi", self.inner)
        return m


def test_flat_members_carry_amba_names_and_directions() -> None:
    members: Any = Bridge().signature.members
    for name, flow in (("araddr", Out), ("rdata", In), ("awvalid", Out), ("wready", In), ("bready", Out)):
        assert members[f"m_axi_{name}"].flow == flow
        assert members[f"s_axi_{name}"].flow != flow
    assert members["m_axi_arid"].shape == 3


def test_an_inner_interface_drives_every_output() -> None:
    text = to_rtlil(Bridge(), "bridge")
    for name, member in AXI4Signature(32, 64, 3).members.items():
        source, target = ("s_axi", "m_axi") if member.flow == Out else ("m_axi", "s_axi")
        assert f"connect \\{target}_{name} \\{source}_{name}" in text


def test_the_whole_is_the_sum_of_reads_and_writes() -> None:
    read, write = AXI4ReadSignature(40, 128, 2), AXI4WriteSignature(40, 128, 2)
    assert dict(AXI4Signature(40, 128, 2).members) == {**dict(read.members), **dict(write.members)}


@pytest.mark.parametrize(("width", "size"), [(64, 3), (128, 4), (256, 5)])
def test_beat_size(width: int, size: int) -> None:
    assert beat_size(width) == size
