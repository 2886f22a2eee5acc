"""Row sender: hands sums of nodes on to the row finishers, and those of hubs to the hub units (I8)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.block_memory import IN_BLOCK_RAM, NO_BYPASS, registered_read
from hw.community.filler import kept_scale, own_chunk
from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import read_signature

__all__ = ["RowSender", "keep_ends"]


class RowSender(wiring.Component):
    """Sends a chunk a cycle, straight from the memories, beside what it has kept of the row.

    The hubs of a record of one node have one sum, which is that node's vector: it is kept in the last row's place, and
    forwarded as each one's. A chunk of it is forwarded to all of them before the next one, so that words that follow
    each other go to different hub units.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    vertex : stream of ``config.vertex``, always ready
        Rows of vertices that are not summed, as of a halo, leave no word.
    kept : stream of ``config.kept``, always ready
        With ``config.shares``: rows that a share of a record has. Others leave no word if they are nodes', and empty
        ones if they are hubs', for which every request is answered.
    scale : stream of `kept_scale`, always ready
    own : stream of `own_chunk`, always ready
        Data of each row for its end; ``vertex`` arrives before its record, the others before ``there``.
    vectors : stream of ``config.vectors``, always ready
        Of hubs in records of several nodes; of those of a slot the last one before its record counts.
    i : stream of ``config.record``
        Records whose sums are complete.
    there : In(1)
        The vector and the own row of the next row have come. It is waited for even if no sum reads that vector, as of a
        vertex without wanted neighbours, since the slot is used again.
    passes : Out(1)
        Pulse: the next row has been read.
    sums
        The sums, by slot and chunk.
    freed, retired : Out(1)
        A row, and the last row of a record, has been taken: its slot is free.
    forwarded : Out(1)
        Pulse: a wanted row to which the last row's sum was forwarded has been taken.
    finish : stream of ``config.node_chunk``
        Rows of nodes.
    partial : stream of ``config.partial``
        Rows of hubs; each in order, but other rows may come between its chunks.
    busy : Out(1)
        Rows are in progress.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "vertex": In(stream.Signature(config.vertex, always_ready=True)),
                **({"kept": In(stream.Signature(config.kept, always_ready=True))} if config.shares else {}),
                "scale": In(stream.Signature(kept_scale(config), always_ready=True)),
                "own": In(stream.Signature(own_chunk(config), always_ready=True)),
                "vectors": In(stream.Signature(config.vectors, always_ready=True)),
                "i": In(stream.Signature(config.record)),
                "there": In(1),
                "passes": Out(1),
                "sums": Out(read_signature(config.chunk, config.slots * config.chunks)),
                "freed": Out(1),
                "retired": Out(1),
                "forwarded": Out(1),
                "finish": Out(stream.Signature(config.node_chunk)),
                "partial": Out(stream.Signature(config.partial)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through rows and chunks; what the memories return is offered until it is taken."""
        m = Module()
        config = self.config
        # The chunk to read, and the one that is offered.
        record, row, slot = self.i.payload, Signal(config.row_bits), Signal(range(config.slots))
        chunk = Signal(range(config.chunks))
        address, last, last_row, record_end = Signal.like(self.sums.address), Signal(), Signal(), Signal()
        # The last row's sum leaves for this one.
        forwards, forwarded = Signal(), Signal()
        # It is known when the first row has been read, and before that not needed.
        last_slot = Signal.like(slot)
        m.d.sync += last_slot.eq(record.base + record.rows - 1)
        moves, reads = Signal(), Signal()
        # The row has come; it has been waited for with its first chunk.
        there, again = Signal(), Signal()
        offered, is_node, ends, retires = Signal(), Signal(), Signal(), Signal()
        offered_chunk, offered_address = Signal.like(chunk), Signal.like(address)
        wanted = self._keep(m, "wanted", self.vertex, self.vertex.payload.summed, moves, slot)
        vectors = self._keep(m, "vectors", self.vectors, self.vectors.payload.vectors, moves, slot)
        # Of the only node of a record that of all others and, in the first part, its own; of its hubs that node's.
        alone, single = Signal.like(self.partial.payload.vectors), Signal()
        if config.shares:
            kept = self._keep(m, "kept", self.kept, self.kept.payload.kept, moves, slot)
            wanted &= kept | ~is_node
            # No row was added to it, so memory has a sum of some record before.
            m.d.comb += self.partial.payload.empty.eq(~kept)
            m.d.sync += Cover(self.partial.valid & ~kept, "a hub that is joined to no node of the share")
        taken = Mux(is_node, self.finish.ready, self.partial.ready) | ~wanted
        m.d.comb += [
            slot.eq(record.base + row),
            address.eq(Cat(chunk, slot)),
            forwards.eq(record.single & row.any()),
            last.eq(chunk == self.settings.last_chunk),
            last_row.eq(row + 1 == record.rows),
            record_end.eq(last & last_row),
            moves.eq(~offered | taken),
            again.eq(forwards & (chunk != 0)),
            there.eq(self.there | again),
            reads.eq(moves & self.i.valid & there),
            self.passes.eq(reads & Mux(forwards, ~again, last)),
            # A word that is offered stays where it is read from.
            self.sums.address.eq(Mux(moves, Cat(chunk, Mux(forwards, last_slot, slot)), offered_address)),
            self.i.ready.eq(moves & there & record_end),
            self.freed.eq(offered & taken & ends),
            self.retired.eq(self.freed & retires),
            self.forwarded.eq(self.freed & forwarded & wanted),
            self.busy.eq(self.i.valid | offered),
        ]
        with m.If(moves):
            m.d.sync += [
                offered.eq(reads),
                is_node.eq(row < record.nodes),
                forwarded.eq(forwards),
                single.eq(record.single),
                alone.eq(Mux(row.any(), 1, record.rows - record.later)),
                ends.eq(last),
                retires.eq(record_end),
                offered_chunk.eq(chunk),
                offered_address.eq(self.sums.address),
            ]
        with m.If(reads):
            with m.If(~forwards | last_row):
                m.d.sync += chunk.eq(Mux(last, 0, chunk + 1))
            with m.If(forwards | last):
                m.d.sync += row.eq(Mux(record_end, 0, Mux(last_row, 1, row + 1)))

        vid, scale, own = keep_ends(m, self, moves, slot, address)
        finish, partial = self.finish.payload, self.partial.payload
        m.d.comb += [
            self.finish.valid.eq(offered & is_node & wanted),
            finish.vid.eq(vid),
            finish.chunk.eq(offered_chunk),
            *(to.eq(sum_) for to, sum_ in zip(finish.sums, self.sums.data, strict=True)),
            finish.own.eq(own),
            finish.mantissa.eq(scale.mantissa),
            finish.exponent.eq(scale.exponent),
            finish.last.eq(ends),
            self.partial.valid.eq(offered & ~is_node & wanted),
            partial.vid.eq(vid),
            partial.chunk.eq(offered_chunk),
            *(to.eq(sum_) for to, sum_ in zip(partial.data, self.sums.data, strict=True)),
            partial.last.eq(ends),
            partial.vectors.eq(Mux(single, alone, vectors)),
        ]
        m.d.sync += [
            Cover(self.finish.valid & ~self.finish.ready, "a node's row waits"),
            Cover(self.partial.valid & ~self.partial.ready, "a partial sum waits"),
            Cover(offered & ~wanted, "a row that nobody wants"),
            Cover(self.i.valid & moves & ~there, "a row that no sum needed has not come"),
        ]
        return m

    def _keep(self, m: Module, name: str, source: Any, value: Value, enable: Value, slot: Value) -> Value:
        """Keep a value for each slot that `source` names, and read it like the rest of the slot's data."""
        shape, style = unsigned(len(value)), dict(IN_BLOCK_RAM if len(value) > 1 else NO_BYPASS)
        m.submodules[name] = kept = Memory(shape=shape, depth=self.config.slots, init=[], attrs=style)
        write, read = kept.write_port(), registered_read(m, kept, f"{name}_row")
        m.d.comb += [
            write.en.eq(source.valid),
            write.addr.eq(source.payload.slot),
            write.data.eq(value),
            read.addr.eq(slot),
            read.en.eq(enable),
        ]
        return read.data


def keep_ends(m: Module, block: Any, enable: Value, slot: Value, place: Value) -> tuple[Signal, Signal, Signal]:
    """Keep VID, s_dst and own row of each slot, which `block` gets; return those that are read.

    A slot is written before its row is complete, and again when it has been freed, so nobody uses a word that is read
    while it is written.

    Parameters
    ----------
    m
        Gets the memories.
    block
        Has the streams ``vertex``, ``scale`` and ``own``.
    enable, slot, place
        Whether to read; what, by slot, and by slot and chunk.
    """
    reads = []
    for name, source, value, at in (
        ("vids", block.vertex, block.vertex.payload.vid, slot),
        ("scales", block.scale, block.scale.payload.scale, slot),
        ("owns", block.own, block.own.payload.data, place),
    ):
        shape, address = value.shape(), source.payload.slot
        m.submodules[name] = words = Memory(shape=shape, depth=1 << len(address), init=[], attrs=dict(NO_BYPASS))
        port, read = words.write_port(), registered_read(m, words, name)
        m.d.comb += [
            port.en.eq(source.valid),
            port.addr.eq(address),
            port.data.eq(value),
            read.addr.eq(at),
            read.en.eq(enable),
        ]
        reads.append(read.data)
    vid, scale, own = reads
    return vid, scale, own
