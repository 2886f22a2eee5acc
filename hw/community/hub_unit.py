"""Hub unit: has each hub combined once, sends its row to all requesters, and adds its partial sums (I8, I9)."""

from amaranth.hdl import Array, Assert, Cat, Cover, Module, Mux, ResetInserter, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2, exact_log2

from hw.block_memory import NO_BYPASS, RegisteredRead, registered_read
from hw.community.formats import CommunityConfig, HubConfig
from hw.community.hub_sums import HubSums
from hw.graph.formats import is_high_half
from hw.stream.arbiter import merge
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["HubUnit", "clearing_cycles", "hub_degree"]

#: Requests that have a slot and wait for the row.
_SERVED = 256
#: Width of a layer's number; slots are cleared when it wraps.
_EPOCH_BITS = 4
#: Most banks of the slots, which are cleared side by side, and fewest entries of one: a block RAM has as many.
_BANKS, _BANK_ENTRIES = 8, 1024


def hub_degree(config: CommunityConfig, nodes: int) -> data.StructLayout:
    """Layout of a hub's degree among at most `nodes` vertices; ``odd``: of which of two locations."""
    return data.StructLayout({"vid": config.vid_bits, "degree": ceil_log2(nodes), "odd": 1})


def _entries(nodes: int, units: int) -> int:
    return max(2, nodes // units)


def _banks(entries: int, hubs: int) -> int:
    """Return the number of banks of the slots; with fewer, clearing them would take longer than clearing rows."""
    return min(_BANKS, max(1, entries // max(hubs, _BANK_ENTRIES)))


def clearing_cycles(nodes: int, hubs: int, units: int) -> int:
    """Return the cycles in which a hub unit clears its tables after a reset, and when layers' numbers wrap.

    Parameters
    ----------
    nodes, hubs, units
        Most vertices and units of the chiplet, and most hubs of a unit.
    """
    entries = _entries(nodes, units)
    return max(entries // _banks(entries, hubs), hubs)


class HubUnit(wiring.Component):
    """Allocates slots to hubs in the order of their first requests; combiners combine them, in any order.

    Each requester of a row returns one partial sum, with the number of vectors in it. A hub is complete when these are
    as many as it has neighbours and itself, and is sent then, while others are still asked for. Requests whose rows are
    not there yet circulate.

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
        No more requests follow.
    drained : In(1)
        Behind `close`: no partial sum is on its way. Hubs that miss some, of records that were refused, leave as they
        are.
    odd : In(1)
        Which of two locations the records are of; constant while there are hubs.
    degree : stream of `hub_degree`, always ready
        Degrees of hubs, each before the request with ``head``. Those of the next location may come meanwhile.
    first, vertices : In
        Vertices that are summed. A hub that is none of them, as of a halo, has a row, but is not sent.
    first_partial : In(32)
        VID of the first partial sum's low half, behind all vertices; from there on low and high halves alternate.
    asking : Out(1)
        Requests or prefetches are still to be looked up.
    busy : Out(1)
        Clearing, waiting for combined rows, adding or sending.
    i : stream of ``config.hub_request``
        Requests for rows of hubs; ``apart`` means nothing.
    row : stream of ``config.hub_row``
        Rows, each whole, in any order.
    ahead : stream of unsigned(``config.vid_bits``)
        Prefetched hubs: their rows are combined and kept.
    partial : stream of ``config.partial``
        Partial sums, chunk by chunk; those of a hub without a slot are dropped.
    wanted : stream of unsigned(``config.vid_bits``)
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
        self.nodes, self.shift = _entries(nodes, units), exact_log2(units)
        self.hubs = HubConfig.of(config, hubs)
        self._degree = hub_degree(config, nodes)
        # Vectors of its neighbours, and its own.
        self._owed_bits = self._degree["degree"].shape + 1
        # Parts of its state that its methods share.
        self._epoch = Signal(_EPOCH_BITS, init=1)  # 0: no layer
        self._bank_bits = exact_log2(_banks(self.nodes, hubs))
        #: Cycles in which all slots are cleared.
        self.clears = clearing_cycles(nodes, hubs, units)
        self._clearing, self._to_clear = Signal(init=1), Signal(range(self.clears))
        self._sums = HubSums(self.hubs, self._owed_bits, config.sum_bits)
        entry = data.StructLayout({"epoch": _EPOCH_BITS, "slot": self.hubs.row_bits})
        # By the low bits of their places; a memory each, so that one is read while another is written.
        self._slots = [
            Memory(shape=entry, depth=self.nodes >> self._bank_bits, init=[], attrs=dict(NO_BYPASS))
            for _ in range(1 << self._bank_bits)
        ]
        self._degrees = Memory(shape=self._degree["degree"].shape, depth=2 * self.nodes, init=[], attrs=dict(NO_BYPASS))
        self._owed = Memory(shape=self._owed_bits, depth=self.hubs.width, init=[], attrs=dict(NO_BYPASS))
        self._there = Memory(shape=_EPOCH_BITS, depth=self.hubs.width, init=[], attrs=dict(NO_BYPASS))
        self._beat_bits = ceil_log2(config.pe.max_beats)
        shape = config.hub_row.members["data"]
        self._kept = Memory(shape=shape, depth=self.hubs.width << self._beat_bits, init=[], attrs=dict(NO_BYPASS))
        if config.partials:
            self._highs = Memory(shape=unsigned(1), depth=self.hubs.width, init=[], attrs=dict(NO_BYPASS))
        # A request whose row is looked for, and those behind it.
        wait = data.StructLayout(
            {"hub": self.hubs.row_bits, **{n: config.wish.members[n] for n in ("pe", "slot", "alone")}}
        )
        self._waiting, self._taken = Queue(wait, _SERVED), Signal(wait, reset_less=True)
        #: A hub gets a slot, and its sum is wanted.
        self._new, self._summed = Signal(), Signal()
        self._puts, self._circulates = Signal(), Signal()
        self._looking, self._serving, self._adding = Signal(), Signal(), Signal()
        self._newest = Signal(self.hubs.row_bits)
        super().__init__(
            {
                "settings": In(config.settings),
                "start": In(1),
                "close": In(1),
                "drained": In(1),
                "odd": In(1),
                "degree": In(stream.Signature(self._degree, always_ready=True)),
                "first": In(config.vid_bits),
                "vertices": In(config.vid_bits + 1),
                "first_partial": In(32),
                "asking": Out(1),
                "busy": Out(1),
                "i": In(stream.Signature(config.hub_request)),
                "row": Out(stream.Signature(config.hub_row)),
                "ahead": In(stream.Signature(config.vid_bits)),
                "partial": In(stream.Signature(config.partial)),
                "wanted": Out(stream.Signature(config.vid_bits)),
                "combined": In(stream.Signature(config.pe.row_beat)),
                "finish": Out(stream.Signature(config.finish_chunk)),
                "overflow": Out(stream.Signature(32, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Map VIDs to slots; keep rows and sums by slot."""
        m = Module()
        m.submodules.there, m.submodules.kept = self._there, self._kept
        m.submodules.degrees, m.submodules.owed = self._degrees, self._owed
        for n, bank in enumerate(self._slots):
            m.submodules[f"slots_{n}"] = bank
        m.submodules.sums = self._sums
        m.submodules.waiting = self._waiting
        m.d.comb += self._sums.settings.eq(self.settings)
        connect(m, self._sums.finish, flipped(self.finish))
        self._look_up(m)
        self._keep_rows(m)
        self._serve_rows(m)
        self._add(m)
        self._send_sums(m)
        with m.If(self._clearing):
            m.d.sync += [self._to_clear.eq(self._to_clear + 1), self._clearing.eq(self._to_clear != self.clears - 1)]
        with m.If(self.start):
            m.d.sync += self._epoch.eq(self._epoch + 1)
            with m.If(self._epoch.all()):
                m.d.sync += [self._epoch.eq(1), self._clearing.eq(1)]
        m.d.sync += Cover(self.start & self._epoch.all(), "numbers of layers begin again")
        return m

    def _slot_read(self, m: Module, name: str) -> RegisteredRead:
        """Return a read port of all slots: that of every bank, of which the one with the place is chosen behind it."""
        banks = [registered_read(m, words, f"{name}_{n}") for n, words in enumerate(self._slots)]
        if len(banks) == 1:
            return banks[0]
        entry = Signal.like(banks[0].data, name=name)
        place, bank = Signal(range(self.nodes), name=f"{name}_place"), Signal(self._bank_bits, name=f"{name}_bank")
        enable = Signal(init=1, name=f"{name}_enable")
        for read in banks:
            m.d.comb += [read.addr.eq(place >> self._bank_bits), read.en.eq(enable)]
        with m.If(enable):
            m.d.sync += bank.eq(place[: self._bank_bits])
        m.d.comb += entry.eq(Array(read.data.as_value() for read in banks)[bank])
        return RegisteredRead(addr=place, en=enable, data=entry)

    def _look_up(self, m: Module) -> None:
        """Give each requested hub a slot; prefetches are requests of nobody."""
        config, hubs, waiting, taken = self.config, self.hubs, self._waiting, self._taken
        wished = [stream.Signature(config.hub_request).create(path=(name,)) for name in ("asked", "ahead")]
        for wish, source, nobody in zip(wished, (self.i, self.ahead), (0, 1), strict=True):
            m.d.comb += [
                wish.payload.eq(source.payload),
                wish.payload.apart.eq(nobody),
                wish.valid.eq(source.valid),
                source.ready.eq(wish.ready),
            ]
        asks, asked, _ = merge(m, "requests", wished, config.hub_request)
        m.submodules.wants = wanted = Slice(config.vid_bits)
        connect(m, wanted.o, flipped(self.wanted))
        read = self._slot_read(m, "asked_slot")

        looks, wish, again = Signal(), Signal(config.hub_request, reset_less=True), Signal()
        count, nobody, newest = Signal(hubs.row_bits + 1), wish.apart, Signal(hubs.row_bits)
        full, known, room, settles = (Signal(name=name) for name in ("full", "known", "room", "settles"))
        new, slot, owner = self._new, Signal(hubs.row_bits), wish.vid >> self.shift
        placed = Signal.like(taken, name="placed", reset_less=True)
        last_slot = (1 << hubs.row_bits) - 1
        m.d.comb += [
            full.eq(count[-1]),
            # The slot of the request before it is written while that of this one is read.
            known.eq(again | (read.data.epoch == self._epoch)),
            slot.eq(Mux(again, newest, Mux(known, read.data.slot, Mux(full, last_slot, count)))),
            # Whether it is known is read late: one that is waits for room that only a new one needs.
            settles.eq(looks & (room | nobody) & wanted.i.ready),
            new.eq(settles & ~known & ~full),
            self._summed.eq((wish.vid - self.first)[: config.vid_bits + 1] < self.vertices),
            asks.ready.eq((~looks | settles) & ~self._clearing),
            read.en.eq(asks.ready),
            read.addr.eq(asked.vid >> self.shift),
            waiting.i.valid.eq(self._puts | self._circulates),
            waiting.i.payload.eq(Mux(self._puts, placed, taken)),
            wanted.i.valid.eq(new),
            wanted.i.payload.eq(wish.vid),
            self._newest.eq(slot),
            self._sums.vertex.valid.eq(new),
            self._sums.vertex.payload.vid.eq(wish.vid),
            self._sums.vertex.payload.slot.eq(slot),
            self.overflow.valid.eq(settles & ~known & full),
            self.overflow.payload.eq(wish.vid),
        ]
        for n, bank in enumerate(self._slots):
            write = bank.write_port()
            m.d.comb += [
                write.en.eq((new & (owner[: self._bank_bits] == n)) | self._clearing),
                write.addr.eq(Mux(self._clearing, self._to_clear, owner >> self._bank_bits)),
                write.data.epoch.eq(Mux(self._clearing, 0, self._epoch)),
                write.data.slot.eq(slot),
            ]
        # Requests that are looked at again always find a place.
        m.d.sync += [
            room.eq(waiting.level < _SERVED - 5),
            self._puts.eq(settles & ~nobody),
            placed.eq(Cat(slot, wish.pe, wish.slot, wish.alone)),
        ]
        with m.If(asks.ready):
            m.d.sync += [
                looks.eq(asks.valid),
                wish.eq(asked),
                again.eq(new & (owner == asked.vid >> self.shift)),
                newest.eq(slot),
            ]
        m.d.sync += count.eq(Mux(self.start, 0, count + new))
        m.d.comb += [
            self.asking.eq(self.i.valid | self.ahead.valid | asks.valid | looks),
            self._looking.eq(asks.valid | looks),
        ]
        m.d.sync += [
            Assert(~waiting.i.valid | waiting.i.ready, "a request has a place"),
            Cover(looks & ~known & ~settles, "a new hub waits"),
            Cover(again & looks, "a hub is asked for again at once"),
        ]
        if config.partials:
            high_write, high = self._highs.write_port(), is_high_half(wish.vid, self.first_partial)
            m.d.comb += [high_write.en.eq(new), high_write.addr.eq(slot), high_write.data.eq(high)]

        told, degree = self._degrees.write_port(), registered_read(m, self._degrees, "degree")
        owed = self._owed.write_port()
        m.d.comb += [
            told.en.eq(self.degree.valid),
            told.addr.eq(self._degree_place(self.degree.payload.vid, self.degree.payload.odd)),
            told.data.eq(self.degree.payload.degree),
            degree.en.eq(asks.ready),
            degree.addr.eq(self._degree_place(asked.vid, self.odd)),
            owed.en.eq(new | (settles & wish.head & (known | ~full))),
            owed.addr.eq(slot),
            # No sum has so many before.
            owed.data.eq(Mux(wish.head, degree.data + 1, (1 << self._owed_bits) - 1)),
        ]

    def _degree_place(self, vid: Value, odd: Value) -> Value:
        """Return where a hub's degree is kept."""
        return Cat((vid >> self.shift)[: exact_log2(self.nodes)], odd)

    def _keep_rows(self, m: Module) -> None:
        """Keep combined rows: whole beats for the PEs, and chunks for the end; sums begin at 0 meanwhile."""
        config, sums = self.config, self._sums
        kept_write, there_write = self._kept.write_port(), self._there.write_port()
        read = self._slot_read(m, "combined_slot")
        parts, slot = config.parts, read.data.slot
        # Beats of several rows may alternate, so only the chunks within a beat are counted.
        part, chunk = Signal(range(max(2, parts))), Signal(range(config.chunks))
        # A beat whose slot has been read.
        held, beat = Signal(), Signal(config.pe.row_beat, reset_less=True)
        tag, stores = config.tag_of(beat), Signal()
        row_end = chunk == self.settings.last_chunk
        beat_end = (part == parts - 1) | row_end
        row_parts = Signal(data.ArrayLayout(config.vector, parts))
        m.d.comb += [
            stores.eq(held & (tag.root | sums.clear.ready)),
            self.combined.ready.eq(~held | (stores & beat_end)),
            read.en.eq(self.combined.ready),
            read.addr.eq(config.tag_of(self.combined.payload).vid >> self.shift),
            row_parts.eq(beat.data),
            chunk.eq((tag.beat << exact_log2(parts)) | part),
            # An own row is kept for the end alone.
            sums.clear.valid.eq(held & ~tag.root),
            sums.clear.payload.eq(Cat(chunk, slot)),
            sums.scale.valid.eq(stores),
            sums.scale.payload.slot.eq(slot),
            sums.scale.payload.scale.eq(tag.scale),
            sums.own.valid.eq(stores & (tag.root | ~self.settings.rooted)),
            sums.own.payload.slot.eq(Cat(chunk, slot)),
            sums.own.payload.data.eq(Array(row_parts[n].as_value() for n in range(parts))[part]),
            kept_write.en.eq(stores & ~tag.root & beat_end),
            kept_write.addr.eq(Cat(tag.beat[: self._beat_bits], slot)),
            kept_write.data.eq(beat.data),
            there_write.en.eq((stores & ~tag.root & row_end) | self._clearing),
            there_write.addr.eq(Mux(self._clearing, self._to_clear, slot)),
            there_write.data.eq(Mux(self._clearing, 0, self._epoch)),
        ]
        with m.If(self.combined.ready):
            m.d.sync += [held.eq(self.combined.valid), beat.eq(self.combined.payload)]
        with m.If(stores):
            m.d.sync += part.eq(Mux(beat_end, 0, part + 1))

    def _serve_rows(self, m: Module) -> None:
        """Send the row of a request if it is there, beat by beat; otherwise look at the request again later.

        A row is there a cycle after it was written, so no beat is read while it is written. Whether it is there is
        judged behind a register of the block RAM, a cycle after it was read.
        """
        waiting, taken, row = self._waiting, self._taken, self.row.payload
        there, kept = registered_read(m, self._there, "row_there"), registered_read(m, self._kept, "kept_row")
        looks, looked, is_there, moves, sends = (
            Signal(name=name) for name in ("looks", "looked", "is_there", "moves", "sends")
        )
        next_, epoch = Signal.like(taken, name="next"), Signal.like(there.data, name="row_epoch", reset_less=True)
        out_beat = Signal(max(1, self._beat_bits))
        ends = out_beat == (self.settings.f_out - 1) >> exact_log2(self.config.pe.elements)
        # Who takes rows decides late, and far away, whether the next request is looked at.
        m.submodules.found = found = Slice(taken.shape())
        served = found.o.payload
        m.d.comb += [
            is_there.eq(epoch == self._epoch),
            sends.eq(~self.row.valid | self.row.ready),
            found.i.valid.eq(looked & is_there),
            found.i.payload.eq(taken),
            found.o.ready.eq(sends & ends),
            self._circulates.eq(looked & ~is_there),
            moves.eq(~looked | (is_there & found.i.ready) | (self._circulates & ~self._puts)),
            waiting.o.ready.eq(moves),
            there.addr.eq(waiting.o.payload.hub),
            there.en.eq(moves),
            kept.addr.eq(Cat(out_beat[: self._beat_bits], served.hub)),
            kept.en.eq(sends),
            row.data.eq(kept.data),
            self._serving.eq(self._puts | (waiting.level != 0) | looks | looked | found.o.valid | self.row.valid),
        ]
        with m.If(moves):
            m.d.sync += [
                looks.eq(waiting.o.valid),
                next_.eq(waiting.o.payload),
                looked.eq(looks),
                taken.eq(next_),
                epoch.eq(there.data),
            ]
        with m.If(sends):
            m.d.sync += [
                self.row.valid.eq(found.o.valid),
                row.pe.eq(served.pe),
                row.slot.eq(served.slot),
                row.alone.eq(served.alone),
                row.last.eq(ends),
            ]
            with m.If(found.o.valid):
                m.d.sync += out_beat.eq(Mux(ends, 0, out_beat + 1))
        if self.config.partials:
            m.submodules.highs, high = self._highs, registered_read(m, self._highs, "row_high")
            m.d.comb += [high.addr.eq(served.hub), high.en.eq(sends), row.high.eq(high.data)]
        m.d.sync += [
            Cover(self._circulates & ~self._puts, "a row is not combined yet"),
            Cover(self.row.valid & ~self.row.ready, "a row waits for its PE"),
        ]

    def _add(self, m: Module) -> None:
        """Find the slots of partial sums: read in a cycle, judged behind a register of the block RAM in the next."""
        read, add = self._slot_read(m, "partial_slot"), self._sums.add
        taken, partial = (Signal(self.config.partial, name=name, reset_less=True) for name in ("came", "partial"))
        entry, comes, held, known = Signal.like(read.data, name="entry", reset_less=True), Signal(), Signal(), Signal()
        m.d.comb += [
            known.eq(entry.epoch == self._epoch),
            self.partial.ready.eq(~held | ~known | add.ready),
            read.en.eq(self.partial.ready),
            read.addr.eq(self.partial.payload.vid >> self.shift),
            add.valid.eq(held & known),
            add.payload.place.eq(Cat(partial.chunk, entry.slot)),
            add.payload.data.eq(partial.data),
            add.payload.last.eq(partial.last),
            add.payload.vectors.eq(partial.vectors),
            self._adding.eq(comes | held | self._sums.busy),
        ]
        with m.If(self.partial.ready):
            m.d.sync += [
                comes.eq(self.partial.valid),
                taken.eq(self.partial.payload),
                held.eq(comes),
                partial.eq(taken),
                entry.eq(read.data),
            ]
            if self.config.shares:
                # The registers' reset: a gate for each bit where the sum is read would take 500 LUTs in every PE.
                with m.If(taken.empty):
                    m.d.sync += partial.data.as_value().eq(0)

    def _send_sums(self, m: Module) -> None:
        """Look at all summed hubs in turn: complete ones leave, the others circulate until they are complete.

        Additions of the layer before are forgotten when the hub's row comes. What is known of a hub is read, kept in
        registers and judged a cycle later: a hub that is completed meanwhile is found at its next turn.
        """
        sums, new, newest = self._sums, Signal(), Signal(self.hubs.row_bits, reset_less=True)
        # A cycle later than its slot is found.
        m.d.sync += [new.eq(self._new & self._summed), newest.eq(self._newest)]
        m.submodules.unfinished = unfinished = ResetInserter(self.start)(Queue(self.hubs.row_bits, self.hubs.width))
        there, needed = registered_read(m, self._there, "sum_there"), registered_read(m, self._owed, "needed")
        closed, gives_up = Signal(), Signal()
        reads, read = Signal(), Signal(self.hubs.row_bits)
        judges, judged = Signal(), Signal(self.hubs.row_bits)
        owed, added = Signal(self._owed_bits, reset_less=True), Signal(self._owed_bits, reset_less=True)
        epoch = Signal(_EPOCH_BITS, reset_less=True)
        complete, moves, at = Signal(), Signal(), Signal(self.hubs.row_bits)
        m.d.comb += [
            complete.eq(((owed == added) | gives_up) & (epoch == self._epoch)),
            moves.eq(~judges | Mux(complete, sums.send.ready, ~new)),
            sums.send.valid.eq(judges & complete),
            sums.send.payload.eq(judged),
            unfinished.i.valid.eq(new | (judges & ~complete)),
            unfinished.i.payload.eq(Mux(new, newest, judged)),
            unfinished.o.ready.eq(moves),
            at.eq(Mux(moves, unfinished.o.payload, read)),
            needed.addr.eq(at),
            sums.added.address.eq(at),
            there.addr.eq(at),
            self.busy.eq(self._clearing | closed | self._looking | self._serving | self._adding),
        ]
        with m.If(moves):
            m.d.sync += [
                reads.eq(unfinished.o.valid),
                read.eq(unfinished.o.payload),
                judges.eq(reads),
                judged.eq(read),
                owed.eq(needed.data),
                added.eq(sums.added.data),
                epoch.eq(there.data),
            ]
        with m.If(closed & self.drained & ~self._adding):
            m.d.sync += gives_up.eq(1)
        with m.If(self.start):
            m.d.sync += [signal.eq(0) for signal in (closed, gives_up, reads, judges)]
        with m.Elif(self.close):
            m.d.sync += closed.eq(1)
        with m.Elif((unfinished.level == 0) & ~(reads | judges)):
            m.d.sync += closed.eq(0)
