"""Filler: writes the combined rows of nodes and hubs into the slots of their records (I6)."""

from typing import Any

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import write_signature
from hw.stream.queue import Queue

__all__ = ["Filler", "kept_scale", "own_chunk"]


def own_chunk(config: CommunityConfig) -> data.StructLayout:
    """Layout of a chunk of a node's own row, which is weighed separately, and its address."""
    return data.StructLayout({"slot": range(config.slots * config.chunks), "data": config.vector})


def kept_scale(config: CommunityConfig) -> data.StructLayout:
    """Layout of a node's s_dst and its slot."""
    return data.StructLayout({"slot": range(config.slots), "scale": config.scale})


class Filler(wiring.Component):
    """Writes a chunk a cycle, in any order of rows, and tells when all vectors of the oldest record are there.

    All rows bring their slots with them. A bit for each slot says
    that its vector is there; it changes its meaning from each use of the slot to the next one, so nobody clears it.
    After a reset all bits are cleared, and nothing is taken meanwhile.

    In a rooted layer each node has two rows: its own one, which is only weighed, and behind it the combined one, which
    is only a vector. The vector of a record with one row, which has no neighbours, is 0 then.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``.
    begun : stream of ``config.record``, always ready
        Records, when they begin; at most `RECORDS`.
    rows : stream of ``config.pe.row_beat``
        Combined and own rows of nodes, with their tags.
    hub_rows : stream of ``config.hub_row``
        Combined rows of hubs. A beat may follow the last chunk of the one before at once.
    vectors
        Write port of the vectors, by slot and chunk.
    own : stream of `own_chunk`, always ready
    scale : stream of `kept_scale`, always ready
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
                "vectors": Out(write_signature(config.kept_vector, config.slots * config.chunks)),
                "own": Out(stream.Signature(own_chunk(config), always_ready=True)),
                "scale": Out(stream.Signature(kept_scale(config), always_ready=True)),
                "o": Out(stream.Signature(config.record)),
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
        cleared, takes = Signal(), Signal()
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
            self.rows.ready.eq((~held | node_end) & cleared),
            self.hub_rows.ready.eq((~hub_held | (takes & hub_end)) & cleared),
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
        self._follow(m, slot, self.vectors.enable & row_end, cleared)
        m.d.sync += [
            Cover(held & hub_held, "a hub's row waits for a node's"),
        ]
        return m

    def _follow(self, m: Module, slot: Any, written: Any, cleared: Signal) -> None:
        """Note that the vector of a slot is there; go through the slots of the oldest record until all are."""
        config = self.config
        m.submodules.records = records = Queue(config.record, RECORDS)
        m.submodules.there = there = memory.Memory(shape=1, depth=config.slots, init=[])
        write, read = there.write_port(), there.read_port(domain="comb")
        # The slot in turn; the value of its bit, and of those behind it, that says "there". Rows are less than a round
        # of all slots apart, so those before it have begun the next round.
        turn, round_ = Signal(range(config.slots)), Signal(init=1)
        passed = Signal(range(config.width + 1))
        passes = Signal()
        m.d.comb += [
            records.i.valid.eq(self.begun.valid),
            records.i.payload.eq(self.begun.payload),
            write.en.eq(written | ~cleared),
            write.addr.eq(Mux(cleared, slot, turn)),
            write.data.eq(cleared & (round_ ^ (slot < turn))),
            read.addr.eq(turn),
            self.o.payload.eq(records.o.payload),
            self.o.valid.eq(records.o.valid & (passed == records.o.payload.rows)),
            records.o.ready.eq(self.o.ready & (passed == records.o.payload.rows)),
            passes.eq(cleared & records.o.valid & (passed != records.o.payload.rows) & (read.data == round_)),
        ]
        with m.If(passes | ~cleared):
            m.d.sync += turn.eq(turn + 1)
            with m.If(turn == config.slots - 1):
                m.d.sync += [round_.eq(~round_ | ~cleared), cleared.eq(1)]
        with m.If(passes):
            m.d.sync += passed.eq(passed + 1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += passed.eq(0)
        m.d.sync += [
            Cover(self.o.valid & ~self.o.ready, "a record waits for the adders"),
            Cover(written & (slot < turn), "a row of the next round"),
            Cover(written & (slot != turn), "a row comes before an older one"),
        ]
