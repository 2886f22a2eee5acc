"""Filler: writes the combined rows of nodes and hubs into the slots of their records (I6)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import write_signature

__all__ = ["Filler", "kept_scale", "own_chunk"]


def own_chunk(config: CommunityConfig) -> data.StructLayout:
    """Layout of a chunk of a node's own row, which is weighed separately, and its address."""
    return data.StructLayout({"slot": range(config.slots * config.chunks), "data": config.vector})


def kept_scale(config: CommunityConfig) -> data.StructLayout:
    """Layout of a node's s_dst and its slot."""
    return data.StructLayout({"slot": range(config.slots), "scale": config.scale})


class Filler(wiring.Component):
    """Writes a chunk a cycle, in any order of rows, and reports each vector that is complete.

    All rows bring their slots with them.

    In a rooted layer each node has two rows: its own one, which is only weighed, and behind it the combined one, which
    is only a vector. The vector of a record with one row, which has no neighbours, is 0 then.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``.
    rows : stream of ``config.pe.row_beat``
        Combined and own rows of nodes, with their tags.
    hub_rows : stream of ``config.hub_row``
        Combined rows of hubs. A beat may follow the last chunk of the one before at once.
    vectors
        Write port of the vectors, by slot and chunk.
    own : stream of `own_chunk`, always ready
    scale : stream of `kept_scale`, always ready
    came : stream of a slot
        Its vector is complete, and so is its node's own row: the last chunk is written in this cycle. While it is not
        ``ready``, no rows are taken.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "rows": In(stream.Signature(config.pe.row_beat)),
                "hub_rows": In(stream.Signature(config.hub_row)),
                "vectors": Out(write_signature(config.kept_vector, config.slots * config.chunks)),
                "own": Out(stream.Signature(own_chunk(config), always_ready=True)),
                "scale": Out(stream.Signature(kept_scale(config), always_ready=True)),
                "came": Out(stream.Signature(range(config.slots))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Hold a beat of a node and one of a hub, and write the node's, or else the hub's, chunk by chunk."""
        m = Module()
        config, parts = self.config, self.config.parts
        part_bits = exact_log2(parts)
        node, held = Signal(config.pe.row_beat, reset_less=True), Signal()
        hub, hub_held = Signal(config.hub_row, reset_less=True), Signal()
        tag = config.tag_of(node)
        takes = Signal()
        # Nodes have priority: their rows wait on the way that those of all PEs use.
        part, hub_chunk = Signal(range(max(2, parts))), Signal(range(config.chunks))
        hub_part = Signal.like(part)
        chunk, slot, alone, root = (
            Signal(range(config.chunks)), Signal(range(config.slots)), Signal(), Signal()
        )  # fmt: skip
        row_end, node_end, hub_end = Signal(), Signal(), Signal()
        m.d.comb += [
            takes.eq(~held & hub_held),
            chunk.eq(Mux(held, (tag.beat << part_bits) | part, hub_chunk)),
            slot.eq(Mux(held, tag.slot, hub.slot)),
            alone.eq(Mux(held, tag.alone, hub.alone)),
            root.eq(held & tag.root),
            row_end.eq(chunk == self.settings.last_chunk),
            node_end.eq(held & ((part == parts - 1) | row_end)),
            hub_end.eq((hub_part == parts - 1) | row_end),
            self.rows.ready.eq((~held | node_end) & self.came.ready),
            self.hub_rows.ready.eq((~hub_held | (takes & hub_end)) & self.came.ready),
        ]
        with m.If(held):
            m.d.sync += part.eq(Mux(node_end, 0, part + 1))
        with m.If(takes):
            m.d.sync += [hub_part.eq(Mux(hub_end, 0, hub_part + 1)), hub_chunk.eq(Mux(row_end, 0, hub_chunk + 1))]
        with m.If(self.rows.ready):
            m.d.sync += [node.eq(self.rows.payload), held.eq(self.rows.valid)]
        with m.If(self.hub_rows.ready):
            m.d.sync += [hub.eq(self.hub_rows.payload), hub_held.eq(self.hub_rows.valid)]
        elements = [Signal(data.ArrayLayout(config.vector, parts), name=f"{name}_elements") for name in ("node", "hub")]
        chosen = [
            Array(of[n].as_value() for n in range(parts))[at] for of, at in zip(elements, (part, hub_part), strict=True)
        ]
        m.d.comb += [
            elements[0].eq(node.data.as_value()),
            elements[1].eq(hub.data.as_value()),
            self.vectors.enable.eq((held | takes) & ~root),
            self.vectors.address.eq(Cat(chunk, slot)),
            self.vectors.data.data.eq(Mux(self.settings.rooted & alone, 0, Mux(held, chosen[0], chosen[1]))),
            self.own.valid.eq(held & (tag.root | ~self.settings.rooted)),
            self.own.payload.slot.eq(Cat(chunk, slot)),
            self.own.payload.data.eq(chosen[0]),
            self.scale.valid.eq(held),
            self.scale.payload.slot.eq(slot),
            self.scale.payload.scale.eq(tag.scale),
        ]
        if config.partials:
            m.d.comb += self.vectors.data.high.eq(hub.high & ~held)
        m.d.comb += [self.came.valid.eq(self.vectors.enable & row_end), self.came.payload.eq(slot)]
        m.d.sync += Cover(held & hub_held, "a hub's row waits for a node's")
        return m
