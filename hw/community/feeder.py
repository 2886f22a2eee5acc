"""Feeder: passes features to the combining PE and saves each node's s_dst for the end of its row (I6)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import RECORDS, CommunityConfig
from hw.stream.queue import Queue

__all__ = ["Feeder", "kept_scale"]


def kept_scale(config: CommunityConfig) -> data.StructLayout:
    """Layout of a node's s_dst and its slot."""
    return data.StructLayout({"slot": range(config.slots), "scale": config.scale})


class Feeder(wiring.Component):
    """Derives a node's column by counting, since nodes arrive in the order of requests.

    Separate vertices belong to no record and pass, and so do own rows, since each node has a combined row behind it.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    begun : stream of ``config.record``, always ready
        Records, when they begin, before features of their nodes; at most `RECORDS`.
    i : stream of ``config.pe.task_beat``
        Features, with a ``config.tag`` as address.
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
        # Records of hub edges have no nodes.
        m.d.comb += [queue.i.valid.eq(self.begun.valid & (self.begun.payload.nodes != 0))]
        m.d.comb += queue.i.payload.eq(self.begun.payload)
        beat = self.i.payload
        tag = config.tag_of(beat)
        counts = ~tag.apart & ~tag.root
        # A record is announced a cycle before the request of its first node.
        m.d.comb += [
            self.o.payload.eq(beat),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            self.scale.valid.eq(self.o.valid & beat.first & counts),
            self.scale.payload.slot.eq(record.base + column),
            self.scale.payload.scale.eq(tag.scale),
        ]
        with m.If(self.o.valid & self.o.ready & beat.last & counts):
            m.d.sync += column.eq(column + 1)
            with m.If(column + 1 == record.nodes):
                m.d.sync += column.eq(0)
                m.d.comb += queue.o.ready.eq(1)
        return m
