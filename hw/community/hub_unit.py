"""Hub unit: has each hub combined once, sends its row to all requesters, and adds its partial sums (I8, I9)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, ResetInserter, Signal, signed, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2, exact_log2

from contracts import PARTIAL_BITS, VALUE_BITS, VID_BITS
from hw.community.formats import RECORDS, CommunityConfig, HubConfig
from hw.community.row_sender import RowSender
from hw.graph.formats import is_high_half
from hw.stream.arbiter import merge
from hw.stream.queue import Queue

__all__ = ["HubUnit"]

#: Depth of the queue of requests that have a slot and wait for the row.
_SERVED = 256
#: Width of a layer's number; slots are cleared when it wraps.
_EPOCH_BITS = 4


class HubUnit(wiring.Component):
    """Allocates slots to hubs in the order of their first requests; PEs combine them, in any order.

    Each requester of a row returns one partial sum. After the last request, a hub is complete when its partial sums
    match its requests, independently of other hubs.

    Parameters
    ----------
    config : CommunityConfig
    clients
        PEs, at least 1.
    nodes
        Most vertices of the graph, a power of two.
    hubs
        Most hubs, a power of two.
    units
        Hub units, a power of two; the low VID bits select the unit of a hub.

    Attributes
    ----------
    settings : In
        As for `hw.community.pe.CommunityPE`.
    start : In(1)
        Invalidate all hubs. Slots carry the number of their layer, so clearing takes a cycle for each vertex only when
        the number wraps, as it does after reset.
    close : In(1)
        No more requests follow: finish each hub after its last partial sum.
    first_partial : In(32)
        VID of the first partial sum's low half, behind all vertices; from there on low and high halves alternate.
    asking : Out(1)
        Requests or prefetches are still to be looked up.
    busy : Out(1)
        Clearing, waiting for combined rows, adding or finishing.
    i : streams of ``config.request``
        Requests for rows of hubs.
    rows : streams of ``config.hub_row``, always ready
        Rows, in the order of each client's requests; clients request only rows that they have room for.
    ahead : stream of unsigned(32)
        Prefetched hubs: their rows are combined and kept.
    partials : streams of ``config.partial``
        Partial sums, chunk by chunk; those of a hub without a slot are dropped.
    wanted : stream of unsigned(32)
        Hubs to combine, each once.
    combined : stream of ``config.pe.row_beat``
        Their rows, with their tags; in a rooted layer a hub's own row, if it has one, before its combined row.
    finish : stream of ``config.finish_chunk``
        Hubs whose sums are complete, row after row.
    overflow : stream of unsigned(32), always ready
        A hub that found all slots taken; it shares the last slot, and results are wrong.
    """

    def __init__(self, config: CommunityConfig, clients: int, nodes: int, hubs: int, units: int = 1) -> None:
        self.config, self.clients = config, clients
        self.nodes, self.shift = max(2, nodes // units), exact_log2(units)
        self.hubs = HubConfig.of(config, hubs)
        # Outstanding for a hub: a row for every record in progress, and partial sums that wait.
        self._owed_bits = ceil_log2(2 * clients * RECORDS)
        super().__init__(
            {
                "settings": In(config.settings),
                "start": In(1),
                "close": In(1),
                "first_partial": In(32),
                "asking": Out(1),
                "busy": Out(1),
                "i": In(stream.Signature(config.request)).array(clients),
                "rows": Out(stream.Signature(config.hub_row, always_ready=True)).array(clients),
                "ahead": In(stream.Signature(VID_BITS)),
                "partials": In(stream.Signature(config.partial)).array(clients),
                "wanted": Out(stream.Signature(VID_BITS)),
                "combined": In(stream.Signature(config.pe.row_beat)),
                "finish": Out(stream.Signature(config.finish_chunk)),
                "overflow": Out(stream.Signature(32, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Map VIDs to slots; keep rows and sums by slot."""
        m = Module()
        config, hubs = self.config, self.hubs
        m.submodules.sender = sender = RowSender(hubs)
        slot_bits = hubs.row_bits
        m.d.comb += [
            sender.settings.eq(self.settings),
            sender.i.payload.rows.eq(1),
            sender.i.payload.nodes.eq(1),
        ]
        connect(m, sender.finish, flipped(self.finish))

        # Slots: a number for each requested VID.
        entry = data.StructLayout({"epoch": _EPOCH_BITS, "slot": slot_bits})
        m.submodules.slots = slots = memory.Memory(shape=entry, depth=self.nodes, init=[])
        slot_write = slots.write_port()
        slot_read, partial_slot, row_slot = (slots.read_port(transparent_for=(slot_write,)) for _ in range(3))
        # The layer of the row in each slot.
        m.submodules.there = there = memory.Memory(shape=_EPOCH_BITS, depth=hubs.width, init=[])
        there_write = there.write_port()
        there_read, there_check = there.read_port(), there.read_port()
        last_clear = max(self.nodes, hubs.width) - 1
        clearing, to_clear = Signal(init=1), Signal(range(last_clear + 1))
        epoch = Signal(_EPOCH_BITS, init=1)  # 0: no layer
        with m.If(clearing):
            m.d.comb += [
                slot_write.en.eq(1),
                slot_write.addr.eq(to_clear),
                there_write.en.eq(1),
                there_write.addr.eq(to_clear),
            ]
            m.d.sync += [to_clear.eq(Mux(to_clear == last_clear, 0, to_clear + 1)), clearing.eq(to_clear != last_clear)]

        # Requests: read the slot, then use it or allocate a new one.
        # Prefetches have lowest priority and no requester.
        ahead = stream.Signature(config.request).create(path=("ahead_request",))
        m.d.comb += [
            ahead.payload.vid.eq(self.ahead.payload),
            ahead.valid.eq(self.ahead.valid),
            self.ahead.ready.eq(ahead.ready),
        ]
        asks, asked, asker = merge(m, "requests", [*(flipped(port) for port in self.i), ahead], config.request)
        served_layout = data.StructLayout({"slot": slot_bits, "client": range(max(2, self.clients))})
        m.submodules.served = served = Queue(served_layout, _SERVED)
        m.submodules.wants = wanted = Queue(VID_BITS, 4)
        connect(m, wanted.o, flipped(self.wanted))
        looks, vid, client = Signal(), Signal(32), Signal(range(self.clients + 1))
        nobody = client == self.clients
        count = Signal(slot_bits + 1)
        full, known, room, new, settles = (Signal(name=name) for name in ("full", "known", "room", "new", "settles"))
        last_slot = (1 << slot_bits) - 1
        m.d.comb += [
            full.eq(count[-1]),
            known.eq(slot_read.data.epoch == epoch),
            room.eq(served.i.ready | nobody),
            new.eq(looks & ~known & ~full),
            settles.eq(looks & room & (wanted.i.ready | known | full)),
        ]
        slot = Mux(known, slot_read.data.slot, Mux(full, last_slot, count[:slot_bits]))
        m.d.comb += [
            asks.ready.eq((~looks | settles) & ~clearing),
            slot_read.en.eq(asks.ready),
            slot_read.addr.eq(asked.vid >> self.shift),
            served.i.valid.eq(looks & ~nobody & (wanted.i.ready | known | full)),
            served.i.payload.slot.eq(slot),
            served.i.payload.client.eq(client),
            wanted.i.valid.eq(new & room),
            wanted.i.payload.eq(vid),
            sender.vertex.valid.eq(new & settles),
            sender.vertex.payload.vid.eq(vid),
            sender.vertex.payload.slot.eq(count),
            self.overflow.valid.eq(settles & ~known & full),
            self.overflow.payload.eq(vid),
        ]
        with m.If(asks.ready):
            m.d.sync += [looks.eq(asks.valid), vid.eq(asked.vid), client.eq(asker)]
        with m.If(new & settles):
            m.d.comb += [
                slot_write.en.eq(1),
                slot_write.addr.eq(vid >> self.shift),
                slot_write.data.epoch.eq(epoch),
                slot_write.data.slot.eq(count),
            ]
            m.d.sync += count.eq(count + 1)

        # Number of requests of each slot's row.
        m.submodules.rows_asked = rows_asked = memory.Memory(shape=self._owed_bits, depth=hubs.width, init=[])
        asked_write = rows_asked.write_port()
        asked_read, asked_check = (rows_asked.read_port(transparent_for=(asked_write,)) for _ in range(2))
        fresh, more, asked_slot = Signal(), Signal(), Signal(slot_bits)
        m.d.comb += [
            asked_read.en.eq(1),
            asked_read.addr.eq(slot),
            asked_write.en.eq(fresh | more),
            asked_write.addr.eq(asked_slot),
            asked_write.data.eq(Mux(fresh, 0, asked_read.data) + more),
        ]
        m.d.sync += [
            fresh.eq(new & settles),
            more.eq(settles & ~nobody & (known | ~full)),
            asked_slot.eq(slot),
        ]

        # Combined rows: beats for the PEs, chunks for the end; sums start at zero.
        beats = max(2, 1 << ceil_log2(config.pe.max_beats))
        beat_bits = exact_log2(beats)
        m.submodules.kept = kept = memory.Memory(shape=config.hub_row["data"].shape, depth=hubs.width * beats, init=[])
        kept_write, kept_read = kept.write_port(), kept.read_port()
        sum_chunk = data.ArrayLayout(signed(PARTIAL_BITS), config.lanes)
        m.submodules.sums = sums = memory.Memory(shape=sum_chunk, depth=hubs.width * config.chunks, init=[])
        sum_write = sums.write_port()
        sum_read, sum_out = sums.read_port(transparent_for=(sum_write,)), sums.read_port()
        parts = config.parts
        # Beats of several rows may alternate, so only the chunks within a beat are counted.
        part, chunk = Signal(range(max(2, parts))), Signal(range(config.chunks))
        adds = Signal()
        row_end = chunk == self.settings.last_chunk
        beat_end = (part == parts - 1) | row_end
        # A beat whose slot has been read.
        held, row_beat = Signal(), Signal(config.pe.row_beat)
        tag = config.tag_of(row_beat)
        stores, beat_slot = held & ~adds, row_slot.data.slot
        # An own row is kept for the end alone.
        keeps = stores & ~tag.root
        comes = config.tag_of(self.combined.payload)
        row_data = data.ArrayLayout(data.ArrayLayout(signed(VALUE_BITS), config.lanes), parts)
        row_parts = Signal(row_data)
        m.d.comb += [
            self.combined.ready.eq(~held | (stores & beat_end)),
            row_slot.en.eq(self.combined.ready),
            row_slot.addr.eq(comes.vid >> self.shift),
            row_parts.eq(row_beat.data),
            chunk.eq((tag.beat << exact_log2(parts)) | part),
            sender.scale.valid.eq(stores),
            sender.scale.payload.slot.eq(beat_slot),
            sender.scale.payload.scale.eq(tag.scale),
            sender.own.valid.eq(stores & (tag.root | ~self.settings.rooted)),
            sender.own.payload.slot.eq(Cat(chunk, beat_slot)),
            sender.own.payload.data.eq(Array(row_parts[n].as_value() for n in range(parts))[part]),
            kept_write.en.eq(keeps & beat_end),
            kept_write.addr.eq(Cat(tag.beat[:beat_bits], beat_slot)),
            kept_write.data.eq(row_beat.data),
        ]
        with m.If(self.combined.ready):
            m.d.sync += [held.eq(self.combined.valid), row_beat.eq(self.combined.payload)]
        with m.If(stores):
            m.d.sync += part.eq(Mux(beat_end, 0, part + 1))
            with m.If(row_end & ~tag.root):
                m.d.comb += [there_write.en.eq(1), there_write.addr.eq(beat_slot), there_write.data.eq(epoch)]

        # Rows to their requesters, once they are combined.
        serves, serving, to = Signal(), Signal(), Signal(range(max(2, self.clients)))
        looked = Signal()  # the slot's presence was read in the previous cycle
        out_beat, last_out = Signal(beat_bits), Signal()
        last_beat = (self.settings.f_out - 1) >> exact_log2(config.pe.elements)
        ends = out_beat == last_beat
        m.d.comb += [
            there_read.en.eq(1),
            there_read.addr.eq(served.o.payload.slot),
            serves.eq(looked & (there_read.data == epoch)),
            served.o.ready.eq(serves & ends),
            kept_read.en.eq(1),
            kept_read.addr.eq(Cat(out_beat, served.o.payload.slot)),
        ]
        if config.partials:
            m.submodules.highs = highs = memory.Memory(shape=unsigned(1), depth=hubs.width, init=[])
            high_write, high_read = highs.write_port(), highs.read_port()
            m.d.comb += [
                high_write.en.eq(new & settles),
                high_write.addr.eq(count),
                high_write.data.eq(is_high_half(vid, self.first_partial)),
                high_read.en.eq(1),
                high_read.addr.eq(served.o.payload.slot),
            ]
            m.d.comb += [port.payload.high.eq(high_read.data) for port in self.rows]
        m.d.sync += looked.eq(served.o.valid & ~served.o.ready)
        m.d.sync += [serving.eq(serves), to.eq(served.o.payload.client), last_out.eq(ends)]
        with m.If(serves):
            m.d.sync += out_beat.eq(Mux(ends, 0, out_beat + 1))
        for n, port in enumerate(self.rows):
            m.d.comb += [
                port.valid.eq(serving & (to == n)),
                port.payload.data.eq(kept_read.data),
                port.payload.last.eq(last_out),
            ]

        # Partial sums: read the slot, then its sum, then write the new sum.
        part_stream, partial, _ = merge(m, "partial_sums", [flipped(port) for port in self.partials], config.partial)
        first, second = (Signal(config.partial, name=name) for name in ("first_partial", "second_partial"))
        first_valid, second_address = Signal(), Signal(range(hubs.width * config.chunks))
        second_slot = second_address >> exact_log2(config.chunks)
        # Number of partial sums added to each slot.
        m.submodules.sums_added = sums_added = memory.Memory(shape=self._owed_bits, depth=hubs.width, init=[])
        added_write = sums_added.write_port()
        added_read, added_check = (sums_added.read_port(transparent_for=(added_write,)) for _ in range(2))
        m.d.comb += [
            part_stream.ready.eq(1),
            partial_slot.en.eq(1),
            partial_slot.addr.eq(partial.vid >> self.shift),
            sum_read.en.eq(1),
            sum_read.addr.eq(Cat(first.chunk, partial_slot.data.slot)),
            sum_out.en.eq(1),
            sum_out.addr.eq(sender.sums.address),
            sender.sums.data.eq(sum_out.data),
            sum_write.en.eq(adds | keeps),
            sum_write.addr.eq(Mux(adds, second_address, Cat(chunk, beat_slot))),
            added_read.en.eq(1),
            added_read.addr.eq(partial_slot.data.slot),
            added_write.en.eq((adds & second.last) | keeps),
            added_write.addr.eq(Mux(adds, second_slot, beat_slot)),
            added_write.data.eq(Mux(adds, added_read.data + 1, 0)),
        ]
        m.d.sync += [
            first.eq(partial),
            first_valid.eq(part_stream.valid),
            second.eq(first),
            adds.eq(first_valid & (partial_slot.data.epoch == epoch)),
            second_address.eq(Cat(first.chunk, partial_slot.data.slot)),
        ]
        for lane in range(config.lanes):
            m.d.comb += sum_write.data[lane].eq(Mux(adds, sum_read.data[lane] + second.data[lane], 0))

        # The end: complete hubs leave, the others circulate until they are complete. A prefetched hub may have no
        # request, and its row may still be outstanding.
        m.submodules.unfinished = unfinished = ResetInserter(self.start)(Queue(slot_bits, hubs.width))
        finishing, checks, checked = Signal(), Signal(), Signal(slot_bits)
        complete, moves = Signal(), Signal()
        m.d.comb += [
            complete.eq((asked_check.data == added_check.data) & (there_check.data == epoch)),
            moves.eq(~checks | ~complete | sender.i.ready),
            sender.i.valid.eq(checks & complete),
            sender.i.payload.base.eq(checked),
            unfinished.i.valid.eq((new & settles) | (checks & ~complete)),
            unfinished.i.payload.eq(Mux(finishing, checked, count)),
            unfinished.o.ready.eq(finishing & moves),
        ]
        for port in (asked_check, added_check, there_check):
            m.d.comb += [port.en.eq(moves), port.addr.eq(unfinished.o.payload)]
        with m.If(moves):
            m.d.sync += [checks.eq(finishing & unfinished.o.valid), checked.eq(unfinished.o.payload)]
        with m.If(self.close):
            m.d.sync += finishing.eq(1)
        with m.Elif(finishing & (unfinished.level == 0) & ~checks):
            m.d.sync += finishing.eq(0)
        with m.If(self.start):
            m.d.sync += [epoch.eq(epoch + 1), count.eq(0)]
            with m.If(epoch.all()):
                m.d.sync += [epoch.eq(1), clearing.eq(1)]
        m.d.comb += [
            self.asking.eq(Cat(port.valid for port in (*self.i, self.ahead)).any() | asks.valid | looks),
            self.busy.eq(
                clearing | finishing | sender.busy | part_stream.valid | first_valid | adds | asks.valid | looks
                | (served.level != 0) | serving
            ),
        ]  # fmt: skip
        m.d.sync += [
            Cover(looks & ~known & ~settles, "a new hub waits"),
            Cover(self.start & epoch.all(), "numbers of layers begin again"),
            Cover(held & adds, "a combined row waits for a sum"),
            Cover(served.o.valid & ~serves, "a row is not combined yet"),
        ]
        return m
