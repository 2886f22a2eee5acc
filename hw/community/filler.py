"""Filler: puts the combined rows of nodes and hubs where the summer finds them (I6)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import VALUE_BITS
from hw.community.formats import SLOTS, CommunityConfig
from hw.community.halves import port_signature
from hw.stream.queue import Queue

__all__ = ["Filler", "own_chunk"]


def own_chunk(config: CommunityConfig) -> data.StructLayout:
    """Layout of a chunk of a node's own combined row, which GIN weighs apart, and where it is kept."""
    return data.StructLayout(
        {
            "place": range(config.slots * config.width * config.chunks),
            "data": data.ArrayLayout(signed(16), config.lanes),
        }
    )


class Filler(wiring.Component):
    """Writes a chunk a cycle; nodes and hubs come independently, each in the order of columns.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``.
    begun : stream of ``config.record``, always ready
        Records, when they begin; at most as many as slots.
    rows : stream of ``config.pe.row_beat``
        Combined rows of nodes; addresses do not matter.
    hub_rows : stream of ``config.hub_row``
    vectors
        Where they go, by column and chunk.
    own : stream of `own_chunk`, always ready
    o : stream of ``config.record``
        Records whose vectors are complete.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "begun": In(stream.Signature(config.record, always_ready=True)),
                "rows": In(stream.Signature(config.pe.row_beat)),
                "hub_rows": In(stream.Signature(config.hub_row)),
                "vectors": Out(port_signature(config.chunk, config.columns * config.chunks, 0)),
                "own": Out(stream.Signature(own_chunk(config), always_ready=True)),
                "o": Out(stream.Signature(config.record)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Take chunk after chunk of the beat chosen."""
        m = Module()
        config = self.config
        m.submodules.queue = queue = Queue(config.record, SLOTS)
        m.d.comb += [queue.i.valid.eq(self.begun.valid), queue.i.payload.eq(self.begun.payload)]
        record = queue.o.payload

        # Columns done and chunks of the next one, for nodes and for hubs; a chunk of the beat.
        number = config.row_bits + 1
        columns = [Signal(number, name=f"{name}_column") for name in ("node", "hub")]
        chunks = [Signal(range(config.chunks), name=f"{name}_chunk") for name in ("node", "hub")]
        parts = config.pe.parts
        part = Signal(range(max(2, parts)))
        hub_column = record.nodes + columns[1]
        nodes_left, hubs_left = columns[0] != record.nodes, hub_column != record.rows
        # A beat once begun is gone through.
        hub, held = Signal(), Signal()
        which = Signal()
        m.d.comb += which.eq(Mux(part != 0, held, ~(self.rows.valid & nodes_left)))
        m.d.sync += held.eq(which)
        m.d.comb += hub.eq(which)
        valid = queue.o.valid & Mux(hub, self.hub_rows.valid & hubs_left, self.rows.valid & nodes_left)
        column = Mux(hub, hub_column, columns[0])
        chunk = Mux(hub, chunks[1], chunks[0])
        row_end = chunk == self.settings.last_chunk
        beat_end = (part == parts - 1) | row_end
        beat = Mux(hub, self.hub_rows.payload.data.as_value(), self.rows.payload.data.as_value())
        elements = data.ArrayLayout(data.ArrayLayout(signed(VALUE_BITS), config.lanes), parts)
        chosen = Signal(data.ArrayLayout(signed(VALUE_BITS), config.lanes))
        held_beat = Signal(elements)
        m.d.comb += [held_beat.eq(beat), chosen.eq(Array(held_beat[n].as_value() for n in range(parts))[part])]

        m.d.comb += [
            self.vectors.active.eq(queue.o.valid),
            self.vectors.half.eq(record.slot[0]),
            self.vectors.write.eq(valid),
            self.vectors.write_address.eq(Cat(chunk, column[: config.row_bits])),
            self.rows.ready.eq(valid & ~hub & beat_end),
            self.hub_rows.ready.eq(valid & hub & beat_end),
            self.own.valid.eq(valid & ~hub),
            self.own.payload.place.eq(Cat(chunk, column[: config.row_bits], record.slot)),
            self.own.payload.data.eq(chosen),
            *(self.vectors.write_data[lane].eq(chosen[lane]) for lane in range(config.lanes)),
            self.o.payload.eq(record),
            self.o.valid.eq(queue.o.valid & ~nodes_left & ~hubs_left),
            queue.o.ready.eq(self.o.valid & self.o.ready),
        ]
        with m.If(valid):
            m.d.sync += part.eq(Mux(beat_end, 0, part + 1))
            for n, here in enumerate((~hub, hub)):
                with m.If(here):
                    m.d.sync += chunks[n].eq(Mux(row_end, 0, chunks[n] + 1))
                    with m.If(row_end):
                        m.d.sync += columns[n].eq(columns[n] + 1)
        with m.If(queue.o.ready):
            m.d.sync += [column.eq(0) for column in columns]
        m.d.sync += Cover(valid & hub & nodes_left, "a hub's row before the last node's")
        return m
