"""Filler: writes the combined rows of nodes and hubs into the slots of their records (I6)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import write_signature
from hw.stream.queue import Queue

__all__ = ["Filler", "own_chunk"]


def own_chunk(config: CommunityConfig) -> data.StructLayout:
    """Layout of a chunk of a node's own row, which is weighed separately, and its address."""
    return data.StructLayout({"slot": range(config.slots * config.chunks), "data": config.vector})


class Filler(wiring.Component):
    """Writes a chunk a cycle; nodes and hubs come independently, each in the order of records and columns.

    So nodes of later records are combined and stored while hubs of an earlier one are outstanding.

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
    vectors
        Write port of the vectors, by slot and chunk.
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
                "vectors": Out(write_signature(config.kept_vector, config.slots * config.chunks)),
                "own": Out(stream.Signature(own_chunk(config), always_ready=True)),
                "o": Out(stream.Signature(config.record)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through records on two sides; a record is complete when both sides have finished it."""
        m = Module()
        config = self.config
        m.submodules.records = records = Queue(config.record, RECORDS)
        m.d.comb += [records.i.valid.eq(self.begun.valid), records.i.payload.eq(self.begun.payload)]
        parts = config.pe.parts
        leaves = Signal()
        offers, slots, chunks, chosen, filled, alone = [], [], [], [], [], []
        takes = Signal(2)
        rooted, root = self.settings.rooted, config.tag_of(self.rows.payload).root
        for n, (name, rows) in enumerate((("nodes", self.rows), ("hubs", self.hub_rows))):
            m.submodules[name] = queue = Queue(config.record, RECORDS)
            m.d.comb += [queue.i.valid.eq(self.begun.valid), queue.i.payload.eq(self.begun.payload)]
            record = queue.o.payload
            done = Signal(config.row_bits + 1, name=f"{name}_done")
            chunk, part = Signal(range(config.chunks), name=f"{name}_chunk"), Signal(range(max(2, parts)))
            column = done if name == "nodes" else record.nodes + done
            ends, row_end, beat_end = (Signal(name=f"{name}_{what}") for what in ("ends", "row_end", "beat_end"))
            elements = Signal(data.ArrayLayout(config.vector, parts), name=f"{name}_elements")
            slot = Signal(range(config.slots), name=f"{name}_slot")
            m.d.comb += [
                ends.eq(column == (record.nodes if name == "nodes" else record.rows)),
                row_end.eq(chunk == self.settings.last_chunk),
                beat_end.eq((part == parts - 1) | row_end),
                elements.eq(rows.payload.data.as_value()),
                slot.eq(record.base + column),
                rows.ready.eq(takes[n] & beat_end),
                queue.o.ready.eq(ends),
            ]
            with m.If(takes[n]):
                m.d.sync += [part.eq(Mux(beat_end, 0, part + 1)), chunk.eq(Mux(row_end, 0, chunk + 1))]
                with m.If(row_end):
                    m.d.sync += done.eq(done + (~root if name == "nodes" else 1))
            through = queue.o.valid & ends
            with m.If(through):
                m.d.sync += done.eq(0)
            # Records that this side has finished and that have not left.
            ahead = Signal(range(RECORDS + 1), name=f"{name}_ahead")
            m.d.sync += ahead.eq(ahead + through - leaves)
            offers.append(queue.o.valid & ~ends & rows.valid)
            slots.append(slot)
            chunks.append(chunk)
            chosen.append(Array(elements[k].as_value() for k in range(parts))[part])
            filled.append(ahead != 0)
            alone.append(record.rows == 1)
        m.d.comb += [
            # Nodes have priority: they stall the multipliers.
            takes.eq(Cat(offers[0], offers[1] & ~offers[0])),
            self.vectors.enable.eq(Mux(takes[0], ~root, takes[1])),
            self.vectors.address.eq(Mux(takes[0], Cat(chunks[0], slots[0]), Cat(chunks[1], slots[1]))),
            self.vectors.data.data.eq(
                Mux(rooted & Mux(takes[0], alone[0], alone[1]), 0, Mux(takes[0], chosen[0], chosen[1]))
            ),
            self.own.valid.eq(takes[0] & (root | ~rooted)),
            self.own.payload.slot.eq(Cat(chunks[0], slots[0])),
            self.own.payload.data.eq(chosen[0]),
            self.o.payload.eq(records.o.payload),
            self.o.valid.eq(filled[0] & filled[1]),
            leaves.eq(self.o.valid & self.o.ready),
            records.o.ready.eq(leaves),
        ]
        if config.partials:
            m.d.comb += self.vectors.data.high.eq(self.hub_rows.payload.high & ~takes[0])
        m.d.sync += [
            Cover(offers[0] & offers[1], "a hub's row waits for a node's"),
            Cover(filled[1] & ~filled[0], "hubs before nodes"),
            Cover(filled[0] & ~filled[1], "nodes before hubs"),
        ]
        return m
