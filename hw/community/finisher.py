"""Finisher: requantises the sums of nodes at the second rounding point and forwards those of hubs (I8)."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.community.filler import kept_scale, own_chunk
from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import read_signature
from hw.community.row_finisher import RowFinisher
from hw.stream.queue import Queue

__all__ = ["Finisher"]

#: Depth of the queue of partial sums, in chunks.
_WAITING = 16


class Finisher(wiring.Component):
    """Finishes a group of ``config.ways`` elements of a node, or a chunk of a hub, a cycle.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    bias_write : stream of ``config.pe.bias_write``, always ready
    vertex : stream of ``config.request``, always ready
    scale : stream of `kept_scale`, always ready
    own : stream of `own_chunk`, always ready
        Data of each vertex for its end; they arrive before its record.
    i : stream of ``config.record``
        Records whose sums are complete.
    sums
        The sums, by slot and chunk.
    freed, retired : Out(1)
        A row, and the last row of a record, is done: its slot is free.
    o : stream of ``config.result``
    partial : stream of ``config.partial``
    busy : Out(1)
        Rows are in progress.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "bias_write": In(stream.Signature(config.pe.bias_write, always_ready=True)),
                "vertex": In(stream.Signature(config.request, always_ready=True)),
                "scale": In(stream.Signature(kept_scale(config), always_ready=True)),
                "own": In(stream.Signature(own_chunk(config), always_ready=True)),
                "i": In(stream.Signature(config.record)),
                "sums": Out(read_signature(config.chunk, config.slots * config.chunks)),
                "freed": Out(1),
                "retired": Out(1),
                "o": Out(stream.Signature(config.result)),
                "partial": Out(stream.Signature(config.partial)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through rows; finish those of nodes, read those of hubs."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.finisher = finisher = RowFinisher(config)
        m.submodules.partials = partials = Queue(config.partial, _WAITING)
        for name in ("bias_write", "vertex", "scale", "own"):
            connect(m, flipped(getattr(self, name)), getattr(finisher, name))
        connect(m, finisher.o, flipped(self.o))
        connect(m, partials.o, flipped(self.partial))

        # Groups of a node's row, or chunks of a hub's row.
        record, row, slot = self.i.payload, Signal(config.row_bits), Signal(range(config.slots))
        chunk = Signal(range(config.chunks))
        node, row_end, last_row, hub_reads = Signal(), Signal(), Signal(), Signal()
        room = Signal(range(_WAITING + 1), init=_WAITING)
        m.d.comb += [
            node.eq(row < record.nodes),
            last_row.eq(row + 1 == record.rows),
            slot.eq(record.base + row),
            finisher.settings.eq(settings),
            finisher.i.valid.eq(self.i.valid & node),
            finisher.i.payload.eq(slot),
            finisher.sums_free.eq(node),
            finisher.sums.data.eq(self.sums.data),
            self.sums.address.eq(Mux(node, finisher.sums.address, Cat(chunk, slot))),
            hub_reads.eq(self.i.valid & ~node & (room != 0)),
            row_end.eq(Mux(node, finisher.i.ready, hub_reads & (chunk == settings.last_chunk))),
            self.i.ready.eq(row_end & last_row),
            self.freed.eq(row_end),
            self.retired.eq(self.i.ready),
        ]
        m.d.sync += room.eq(room - hub_reads + (self.partial.valid & self.partial.ready))
        with m.If(hub_reads):
            m.d.sync += chunk.eq(Mux(row_end, 0, chunk + 1))
        with m.If(row_end):
            m.d.sync += row.eq(Mux(last_row, 0, row + 1))

        hub_read, hub_chunk, hub_end = Signal(), Signal(range(config.chunks)), Signal()
        m.d.sync += [hub_read.eq(hub_reads), hub_chunk.eq(chunk), hub_end.eq(row_end)]
        m.d.comb += [
            partials.i.valid.eq(hub_read),
            partials.i.payload.vid.eq(finisher.vid),
            partials.i.payload.chunk.eq(hub_chunk),
            partials.i.payload.last.eq(hub_end),
            *(to.eq(sum_) for to, sum_ in zip(partials.i.payload.data, self.sums.data, strict=True)),
            self.busy.eq(self.i.valid | finisher.busy | hub_read | self.partial.valid),
        ]
        m.d.sync += Cover(self.i.valid & ~node & (room == 0), "no room for another partial sum")
        return m
