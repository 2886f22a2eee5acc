"""Structure processor and negative sampler at one memory port."""

from typing import Any

from amaranth import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VID_BITS
from hw.attributes.negative_sampler import NegativeSampler
from hw.attributes.sampling_formats import Sample, SampleSettings
from hw.attributes.structure_processor import StructureProcessor
from hw.graph.csr_reader import ErrorReport
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.read_arbiter import ReadArbiter

__all__ = ["SamplerBench"]

#: Both samplers: ports ``positive_…`` and ``negative_…``.
SAMPLERS = ("positive", "negative")


class SamplerBench(wiring.Component):
    """Both samplers, each with its own streams.

    Parameters
    ----------
    address_width, data_width, most, frontier
        As for `StructureProcessor`.
    """

    def __init__(self, address_width: int = 20, data_width: int = 64, most: int = 6, frontier: int = 64) -> None:
        self._port = (address_width, data_width)
        self._parts: tuple[Any, ...] = (
            StructureProcessor(*self._port, most, frontier, 16, VID_BITS),
            NegativeSampler(*self._port, most, 16, VID_BITS),
        )
        members: dict[str, wiring.Member] = {"settings": In(SampleSettings(address_width, VID_BITS))}
        for name in SAMPLERS:
            members[f"{name}_start"] = In(1)
            members[f"{name}_busy"] = Out(1)
            members[f"{name}_o"] = Out(stream.Signature(Sample))
            members[f"{name}_error"] = Out(stream.Signature(ErrorReport, always_ready=True))
        super().__init__({**members, **flat_members("m_axi", Out(AXI4Signature(*self._port, 3)))})

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect both to a read arbiter."""
        m = Module()
        clients = sum(part.CLIENTS for part in self._parts)
        m.submodules.arbiter = arbiter = ReadArbiter(*self._port, clients, 32)
        connect_flat(m, self, "m_axi", arbiter.m_axi)
        client = 0
        for name, part in zip(SAMPLERS, self._parts, strict=True):
            m.submodules[name] = part
            m.d.comb += [
                part.settings.eq(self.settings),
                part.start.eq(getattr(self, f"{name}_start")),
                getattr(self, f"{name}_busy").eq(part.busy),
            ]
            connect(m, part.o, flipped(getattr(self, f"{name}_o")))
            connect(m, part.error, flipped(getattr(self, f"{name}_error")))
            for n in range(part.CLIENTS):
                connect(m, part.requests[n], arbiter.requests[client])
                connect(m, arbiter.beats[client], part.beats[n])
                client += 1
        return m
