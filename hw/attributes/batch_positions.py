"""Batch positions: numbers the samples of a batch and makes of each the words of its graph (A1, A4)."""

from typing import Any

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.sampling import HOPS_MAX, NEGATIVE_HOP
from contracts.scale import scales_of
from hw.attributes.formats import AttributeCoreConfig
from hw.attributes.sampling_formats import PositionNode, Sample
from hw.attributes.target_address import Placed

__all__ = ["ARRAYS", "BatchPositions"]

#: Arrays of a batch, in the order in which they follow its header.
ARRAYS = ("offsets", "edges", "scales", "nodes")
#: Kinds of positions that are counted apart: every hop, and negatives.
KINDS = HOPS_MAX + 2


class BatchPositions(wiring.Component):
    """Each sample that is not empty is a position; its VID goes out as a request for its attribute.

    A sample is taken when all five receivers are ready: each output is valid only while the others are ready, and a
    receiver's ``ready`` must not depend on its ``valid``.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    start : In(1)
        Count from 0; the first word of the offsets, 0, goes out in this cycle, in which `offsets` must be ready.
    i : stream of `Sample`
    o : stream of `Placed`
        Every position, with the next slot in turn.
    offsets : stream of unsigned(32)
        Number of edges up to the end of each position that has been expanded.
    edges : stream of unsigned(32)
        Position of every sample of a hop.
    scales : stream of unsigned(32)
        Factor of the mean over each expanded position and its samples: mantissa and exponent of 1/(samples + 1).
    nodes : stream of `PositionNode`
        Every position.
    positions : Out
        Number of positions so far.
    kinds : array of Out
        Of these, positions of every hop, then negatives.
    """

    def __init__(self, config: AttributeCoreConfig) -> None:
        self.config = config
        attribute = config.attribute
        # There are at most as many positions as tags, and each expanded one has at most `most` samples.
        counted = range((1 << attribute.tag_bits) + 1)
        self._sampled = range(min(1 << attribute.tag_bits, config.frontier * config.most) + 1)
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(Sample)),
                "o": Out(stream.Signature(Placed(attribute))),
                **{name: Out(stream.Signature(32)) for name in ARRAYS if name != "nodes"},
                "nodes": Out(stream.Signature(PositionNode)),
                "positions": Out(counted),
                "kinds": Out(counted).array(KINDS),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Join the receivers, then count positions, edges and samples of the expanded position."""
        m = Module()
        config, attribute = self.config, self.config.attribute
        sample = self.i.payload
        passes, real, child, parent_ends = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.o.ready & Cat(getattr(self, name).ready for name in ARRAYS).all()),
            passes.eq(self.i.valid & self.i.ready),
            real.eq(~sample.empty),
            child.eq((sample.hop != 0) & (sample.hop != NEGATIVE_HOP)),
            parent_ends.eq(passes & child & sample.last),
        ]

        position = Signal(range((1 << attribute.tag_bits) + 1), reset_less=True)
        edges = Signal(self._sampled, reset_less=True)
        children = Signal(range(config.most + 1), reset_less=True)
        slot = Signal(range(attribute.slots), reset_less=True)
        m.d.comb += [
            self.o.valid.eq(passes & real),
            self.o.payload.id.eq(sample.node),
            self.o.payload.tag.eq(position),
            self.o.payload.slot.eq(slot),
            self.offsets.valid.eq(self.start | parent_ends),
            self.offsets.payload.eq(Mux(self.start, 0, edges + real)),
            self.edges.valid.eq(passes & child & real),
            self.edges.payload.eq(position[: (config.frontier * (1 + config.most)).bit_length()]),
            self.scales.valid.eq(parent_ends),
            self.scales.payload.eq(self._scale(m, children + real)),
            self.nodes.valid.eq(passes & real),
            self.nodes.payload.node.eq(sample.node),
            self.nodes.payload.edge.eq(sample.edge),
            self.nodes.payload.sampled.eq(child),
            self.positions.eq(position),
        ]
        counts = Array(
            Signal(len(position) if n in (0, KINDS - 1) else self._sampled, name=f"count_{n}", reset_less=True)
            for n in range(KINDS)
        )
        m.d.comb += [out.eq(count) for out, count in zip(self.kinds, counts, strict=True)]
        with m.If(passes):
            m.d.sync += children.eq(Mux(sample.last, 0, children + 1))
        with m.If(passes & real):
            m.d.sync += [
                position.eq(position + 1),
                edges.eq(edges + child),
                slot.eq(Mux(slot == attribute.slots - 1, 0, slot + 1)),
            ]
            kind = Mux(sample.hop == NEGATIVE_HOP, KINDS - 1, sample.hop)
            m.d.sync += counts[kind].eq(counts[kind] + 1)
        with m.If(self.start):
            m.d.sync += [signal.eq(0) for signal in (position, edges, children, slot, *counts)]
        return m

    def _scale(self, m: Module, children: Any) -> Any:
        """Mantissa and exponent of 1/(children + 1), from a table."""
        scales = scales_of([1 / (count + 1) for count in range(self.config.most + 1)])
        table = Array(
            int(mantissa) | int(exponent) << 16
            for mantissa, exponent in zip(scales.mantissa, scales.exponent, strict=True)
        )
        scale = Signal(unsigned(32), name="scale")
        m.d.comb += scale.eq(table[children])
        return scale
