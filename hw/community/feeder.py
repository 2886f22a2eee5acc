"""Feeder: hands features to the PE that combines and keeps each node's s_dst for the end of its row (I6)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import RECORDS, CommunityConfig
from hw.stream.queue import Queue

__all__ = ["Feeder", "kept_scale"]


def kept_scale(config: CommunityConfig) -> data.StructLayout:
    """Layout of a node's s_dst and where it is kept."""
    return data.StructLayout({"slot": range(config.slots), "scale": config.scale})


class Feeder(wiring.Component):
    """Nodes come in the order in which they were asked for, so counting them says which column one is.

    Vertices apart belong to no record and pass.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    begun : stream of ``config.record``, always ready
        Records, when they begin, before features of their nodes; at most `RECORDS`.
    i : stream of ``config.pe.task_beat``
        Features, their address being a ``config.tag``.
    o : stream of ``config.pe.task_beat``
        The same beats.
    scale : stream of `kept_scale`, always ready
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "begun": In(stream.Signature(config.record, always_ready=True)),
                "i": In(stream.Signature(config.pe.task_beat)),
                "o": Out(stream.Signature(config.pe.task_beat)),
                "scale": Out(stream.Signature(kept_scale(config), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Count first beats."""
        m = Module()
        config = self.config
        m.submodules.queue = queue = Queue(config.record, RECORDS)
        record, column = queue.o.payload, Signal(config.row_bits)
        # Records of hubs alone have no nodes.
        m.d.comb += [queue.i.valid.eq(self.begun.valid & (self.begun.payload.nodes != 0))]
        m.d.comb += queue.i.payload.eq(self.begun.payload)
        beat, tag = self.i.payload, data.View(config.tag, self.i.payload.address)
        own = ~tag.apart
        # A record is known a cycle before the first of its nodes is asked for.
        m.d.comb += [
            self.o.payload.eq(beat),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            self.scale.valid.eq(self.o.valid & beat.first & own),
            self.scale.payload.slot.eq(record.base + column),
            self.scale.payload.scale.eq(tag.scale),
        ]
        with m.If(self.o.valid & self.o.ready & beat.last & own):
            m.d.sync += column.eq(column + 1)
            with m.If(column + 1 == record.nodes):
                m.d.sync += column.eq(0)
                m.d.comb += queue.o.ready.eq(1)
        return m
