"""Vertex dispatcher: hands out all vertices to combine, for PEs and for other units (COMBINE, I6, I8)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import VID_BITS
from hw.community.formats import CommunityConfig
from hw.stream.arbiter import Arbiter, merge
from hw.stream.slice import Slice

__all__ = ["VertexDispatcher"]


class VertexDispatcher(wiring.Component):
    """Hands out a vertex a cycle: separate ones first, since records of all PEs wait for hubs; PEs have their turns.

    Parameters
    ----------
    config : CommunityConfig
    pes
        PEs, at least 1.
    units
        Hub units, at least 1.
    nodes
        Most vertices of a range.
    number, clusters
        Of the dispatchers that share a range, which one this is, and how many there are, a power of two: it hands out
        every `clusters`-th vertex.

    Attributes
    ----------
    start : In(1)
        Start of a new range.
    first : In(32)
    vertices : In(range(nodes + 1))
        The range, constant from then on.
    go : In(1)
        Enables the issue of the range.
    wanted : streams of unsigned(``config.vid_bits``)
        Hubs to combine, from each unit.
    requests : streams of ``config.request``
        Vertices of records, from each PE.
    o : stream of ``config.wish``
        Vertices to combine; ``apart``: hubs and those of the range.
    returned : In(1)
        Pulse: a row of a separate vertex has left the combiners.
    ended : Out(1)
        The whole range has been issued.
    busy : Out(1)
        Separate vertices are in progress.

    Raises
    ------
    ValueError
        If `number` is out of its range, or `clusters` is no power of two.
    """

    def __init__(
        self, config: CommunityConfig, pes: int, units: int, nodes: int = 4096, number: int = 0, clusters: int = 1
    ) -> None:
        if clusters < 1 or clusters & (clusters - 1):
            raise ValueError(f"clusters must be a power of two, not {clusters!r}")
        if not 0 <= number < clusters:
            raise ValueError(f"number must be in 0..{clusters - 1}, not {number!r}")
        self.config, self.pes, self.units, self.nodes = config, pes, units, nodes
        self.number, self.clusters = number, clusters
        super().__init__(
            {
                "start": In(1),
                "first": In(32),
                "vertices": In(range(self.nodes + 1)),
                "go": In(1),
                "wanted": In(stream.Signature(config.vid_bits)).array(units),
                "requests": In(stream.Signature(config.request)).array(pes),
                "o": Out(stream.Signature(config.wish)),
                "returned": In(1),
                "ended": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Merge hubs with the range, and requests of PEs with each other; the former come first."""
        m = Module()
        number, left = Signal(VID_BITS), Signal(range(self.nodes + 1))
        m.submodules.offers = offers = Arbiter(VID_BITS, self.units + 1)
        for wanted, offer in zip(self.wanted, offers.i, strict=False):
            m.d.comb += [
                offer.valid.eq(wanted.valid),
                offer.payload.eq(wanted.payload),
                wanted.ready.eq(offer.ready),
            ]
        range_: Any = offers.i[self.units]
        m.d.comb += [
            range_.valid.eq((left != 0) & self.go),
            range_.payload.eq(number),
            self.ended.eq((left == 0) & ~self.start),
        ]
        others = self.clusters - 1 - self.number
        with m.If(self.start):
            m.d.sync += [
                number.eq(self.first + self.number),
                left.eq((self.vertices + others) >> exact_log2(self.clusters)),
            ]
        with m.Elif(range_.valid & range_.ready):
            m.d.sync += [number.eq(number + self.clusters), left.eq(left - 1)]

        ports = [flipped(port) for port in self.requests]
        records, request, pe = merge(m, "records", ports, self.config.request)
        # A vertex that is offered stays.
        m.submodules.chosen = chosen = Slice(self.config.wish)
        connect(m, chosen.o, flipped(self.o))
        apart = offers.o.valid
        m.d.comb += [
            chosen.i.valid.eq(apart | records.valid),
            chosen.i.payload.vid.eq(Mux(apart, offers.o.payload.payload, request.vid)),
            chosen.i.payload.slot.eq(request.slot),
            chosen.i.payload.alone.eq(request.alone),
            chosen.i.payload.pe.eq(pe),
            chosen.i.payload.apart.eq(apart),
            offers.o.ready.eq(chosen.i.ready),
            records.ready.eq(chosen.i.ready & ~apart),
        ]
        # On a ring all hubs may wait for rows of others.
        under_way = Signal(range(2 * self.nodes))
        m.d.sync += under_way.eq(under_way + (apart & chosen.i.ready) - self.returned)
        m.d.comb += self.busy.eq(apart | Cat(wanted.valid for wanted in self.wanted).any() | (under_way != 0))
        m.d.sync += Cover(apart & records.valid & chosen.i.ready, "a vertex apart overtakes")
        return m
