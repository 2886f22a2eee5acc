"""Hub unit: combines every hub once, hands its row to all who need it, and adds up its partial sums (I8, I9)."""

from typing import Any

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2, exact_log2

from golden.contracts import PARTIAL_BITS, VALUE_BITS, VID_BITS
from hw.community.bypass import Bypass, share
from hw.community.feeder import features_of
from hw.community.formats import CommunityConfig, HubConfig
from hw.community.hub_finisher import HubFinisher
from hw.pe.pe import PE
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["HubUnit"]

#: Requests that have a slot and wait for the row.
_SERVED = 64
#: Width of a layer's number: so many layers, less one, pass between two clearings of the slots.
_EPOCH_BITS = 4


class HubUnit(wiring.Component):
    """Hubs get slots in the order in which they are first asked for, and are combined in that order too.

    So a slot's row is there as soon as more rows have been combined than its number says.

    Parameters
    ----------
    config : CommunityConfig
    clients
        PEs, at least 1.
    nodes
        Vertices of the graph at most, a power of two.
    hubs
        Hubs at most, a power of two.
    units
        Hub units, a power of two: this one has the VIDs with its own low bits.
    ways
        See `hw.community.hub_finisher.HubFinisher`.

    Attributes
    ----------
    settings, combination : In
        As for `hw.community.pe.CommunityPE`.
    weight_write, bias_write : streams, always ready
    start : In(1)
        Forget all hubs. Slots carry the number of their layer, so this takes as many cycles as there are vertices only
        when the numbers begin again, as they do after reset.
    vertices : stream of unsigned(32), combining : In(1)
        As for `hw.community.pe.CommunityPE`: the multipliers of a hub unit do their share.
    finish : In(1)
        All partial sums have come: finish the hubs.
    first_partial : In(32)
        VID of the first partial sum's low halves, behind those of all vertices; of each two from there on, the second
        are high halves.
    busy : Out(1)
        Clearing, combining, adding or finishing.
    i : streams of ``config.request``
        Hubs of which the row is wanted.
    rows : streams of ``config.hub_row``, always ready
        The rows, in the order of each client's requests; clients ask only for what they have room for.
    partials : streams of ``config.partial``
    node_request : stream of ``config.request``
    features : stream of `features_of`
        For the hubs that are combined.
    o : stream of ``config.result``
        Result rows of hubs.
    index_error : stream of unsigned(17), always ready
    overflow : stream of unsigned(32), always ready
        A hub for which there is no slot; it gets the last slot, and results are wrong.
    """

    def __init__(
        self, config: CommunityConfig, clients: int, nodes: int, hubs: int, units: int = 1, ways: int = 4
    ) -> None:
        self.config, self.clients, self.ways = config, clients, ways
        self.nodes, self._shift = max(2, nodes // units), exact_log2(units)
        self.hubs = HubConfig.of(config, hubs)
        pe = config.pe
        super().__init__(
            {
                "settings": In(config.settings),
                "combination": In(pe.settings),
                "weight_write": In(stream.Signature(pe.weight_write, always_ready=True)),
                "bias_write": In(stream.Signature(pe.bias_write, always_ready=True)),
                "start": In(1),
                "vertices": In(stream.Signature(VID_BITS)),
                "combining": In(1),
                "finish": In(1),
                "first_partial": In(32),
                "busy": Out(1),
                "i": In(stream.Signature(config.request)).array(clients),
                "rows": Out(stream.Signature(config.hub_row, always_ready=True)).array(clients),
                "partials": In(stream.Signature(config.partial)).array(clients),
                "node_request": Out(stream.Signature(config.request)),
                "features": In(stream.Signature(features_of(config))),
                "o": Out(stream.Signature(config.result)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
                "overflow": Out(stream.Signature(32, always_ready=True)),
            }
        )

    def _merged(self, m: Module, name: str, ports: list[Any], shape: Any) -> tuple[Any, Any, Any]:
        """Return stream, payload and source of several streams in turn."""
        if self.clients == 1:
            m.submodules[name] = one = Slice(shape)
            connect(m, flipped(ports[0]), one.i)
            return one.o, one.o.payload, 0
        m.submodules[name] = many = Arbiter(shape, self.clients)
        for n, port in enumerate(ports):
            connect(m, flipped(port), many.i[n])
        return many.o, many.o.payload.payload, many.o.payload.source

    def elaborate(self, platform: object) -> Module:
        """Slots by VID; rows and sums by slot."""
        m = Module()
        config, hubs = self.config, self.hubs
        m.submodules.pe = pe = PE(config.pe)
        m.submodules.finisher = finisher = HubFinisher(hubs, self.ways)
        slot_bits = hubs.row_bits
        m.d.comb += [
            pe.settings.eq(self.combination),
            finisher.settings.eq(self.settings),
        ]
        connect(m, flipped(self.weight_write), pe.weight_write)
        connect(m, flipped(self.bias_write), finisher.bias_write)
        connect(m, pe.index_error, flipped(self.index_error))
        m.submodules.bypass = bypass = Bypass(config)
        connect(m, flipped(self.vertices), bypass.i)
        share(m, self.combining, self.o, finisher.o, bypass.o)

        # Slots: a number for every VID that has been asked for.
        entry = data.StructLayout({"epoch": _EPOCH_BITS, "slot": slot_bits})
        m.submodules.slots = slots = memory.Memory(shape=entry, depth=self.nodes, init=[])
        slot_write = slots.write_port()
        slot_read, partial_slot = (slots.read_port(transparent_for=(slot_write,)) for _ in range(2))
        clearing, to_clear = Signal(init=1), Signal(range(self.nodes))
        epoch = Signal(_EPOCH_BITS, init=1)  # 0: of no layer
        with m.If(clearing):
            m.d.comb += [slot_write.en.eq(1), slot_write.addr.eq(to_clear)]
            m.d.sync += [to_clear.eq(to_clear + 1), clearing.eq(to_clear != self.nodes - 1)]

        # Requests: read the slot, then use it or take a new one.
        asks, asked, asker = self._merged(m, "requests", list(self.i), config.request)
        place = data.StructLayout({"slot": slot_bits, "client": range(max(2, self.clients))})
        m.submodules.served = served = Queue(place, _SERVED)
        m.submodules.wanted = wanted = Queue(config.request, 4)
        share(m, self.combining, self.node_request, wanted.o, bypass.request)
        looks, vid, client = Signal(), Signal(32), Signal(range(max(2, self.clients)))
        count = Signal(slot_bits + 1)
        full = count[-1]
        known = slot_read.data.epoch == epoch
        last_slot = (1 << slot_bits) - 1
        slot = Mux(known, slot_read.data.slot, Mux(full, last_slot, count[:slot_bits]))
        new = looks & ~known & ~full
        settles = looks & served.i.ready & (wanted.i.ready | known | full)
        m.d.comb += [
            asks.ready.eq((~looks | settles) & ~clearing),
            slot_read.en.eq(asks.ready),
            slot_read.addr.eq(asked.vid >> self._shift),
            served.i.valid.eq(looks & (wanted.i.ready | known | full)),
            served.i.payload.slot.eq(slot),
            served.i.payload.client.eq(client),
            wanted.i.valid.eq(new & served.i.ready),
            wanted.i.payload.vid.eq(vid),
            finisher.vertex.valid.eq(new & settles),
            finisher.vertex.payload.vid.eq(vid),
            finisher.vertex.payload.place.eq(count),
            self.overflow.valid.eq(settles & ~known & full),
            self.overflow.payload.eq(vid),
        ]
        with m.If(asks.ready):
            m.d.sync += [looks.eq(asks.valid), vid.eq(asked.vid), client.eq(asker)]
        with m.If(new & settles):
            m.d.comb += [
                slot_write.en.eq(1),
                slot_write.addr.eq(vid >> self._shift),
                slot_write.data.epoch.eq(epoch),
                slot_write.data.slot.eq(count),
            ]
            m.d.sync += count.eq(count + 1)

        # Features to the PE; s_dst is kept for the end.
        fed = Signal(slot_bits)
        feature = self.features.payload
        m.d.comb += [
            pe.i.payload.eq(feature.beat),
            pe.i.valid.eq(self.features.valid),
            self.features.ready.eq(pe.i.ready),
            finisher.scale.valid.eq(self.features.valid & feature.beat.first & ~self.combining),
            finisher.scale.payload.place.eq(fed),
            finisher.scale.payload.scale.eq(feature.destination),
        ]
        with m.If(pe.i.valid & pe.i.ready & feature.beat.last & ~self.combining):
            m.d.sync += fed.eq(fed + 1)

        # Combined rows: beats for the PEs, chunks for the end, sums from zero.
        beats = max(2, 1 << ceil_log2(config.pe.max_beats))
        beat_bits = exact_log2(beats)
        m.submodules.kept = kept = memory.Memory(shape=config.hub_row["data"].shape, depth=hubs.width * beats, init=[])
        kept_write, kept_read = kept.write_port(), kept.read_port()
        sum_chunk = data.ArrayLayout(signed(PARTIAL_BITS), config.lanes)
        m.submodules.sums = sums = memory.Memory(shape=sum_chunk, depth=hubs.width * config.chunks, init=[])
        sum_write = sums.write_port()
        sum_read = sums.read_port(transparent_for=(sum_write,))
        done = Signal(slot_bits + 1)
        parts = config.pe.parts
        part, chunk, beat = Signal(range(max(2, parts))), Signal(range(config.chunks)), Signal(beat_bits)
        adds = Signal()
        row_end = chunk == self.settings.last_chunk
        beat_end = (part == parts - 1) | row_end
        stores = pe.o.valid & ~adds & ~self.combining
        row_data = data.ArrayLayout(data.ArrayLayout(signed(VALUE_BITS), config.lanes), parts)
        row_parts = Signal(row_data)
        m.d.comb += [
            row_parts.eq(pe.o.payload.data),
            pe.o.ready.eq(Mux(self.combining, bypass.rows.ready, stores & beat_end)),
            bypass.rows.payload.eq(pe.o.payload),
            bypass.rows.valid.eq(pe.o.valid & self.combining),
            finisher.own.valid.eq(stores),
            finisher.own.payload.place.eq(Cat(chunk, done[:slot_bits])),
            finisher.own.payload.data.eq(Array(row_parts[n].as_value() for n in range(parts))[part]),
            kept_write.en.eq(stores & beat_end),
            kept_write.addr.eq(Cat(beat, done[:slot_bits])),
            kept_write.data.eq(pe.o.payload.data),
        ]
        with m.If(stores):
            m.d.sync += [part.eq(Mux(beat_end, 0, part + 1)), chunk.eq(Mux(row_end, 0, chunk + 1))]
            with m.If(beat_end):
                m.d.sync += beat.eq(Mux(row_end, 0, beat + 1))
            with m.If(row_end):
                m.d.sync += done.eq(done + 1)

        # Rows to those who asked, once they are combined.
        serves, serving, to = Signal(), Signal(), Signal(range(max(2, self.clients)))
        out_beat, last_out = Signal(beat_bits), Signal()
        last_beat = (self.settings.f_out - 1) >> exact_log2(config.pe.elements)
        ends = out_beat == last_beat
        m.d.comb += [
            serves.eq(served.o.valid & (served.o.payload.slot < done)),
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
                high_write.data.eq((vid >= self.first_partial) & (vid[0] ^ self.first_partial[0])),
                high_read.en.eq(1),
                high_read.addr.eq(served.o.payload.slot),
            ]
            m.d.comb += [port.payload.high.eq(high_read.data) for port in self.rows]
        m.d.sync += [serving.eq(serves), to.eq(served.o.payload.client), last_out.eq(ends)]
        with m.If(serves):
            m.d.sync += out_beat.eq(Mux(ends, 0, out_beat + 1))
        for n, port in enumerate(self.rows):
            m.d.comb += [
                port.valid.eq(serving & (to == n)),
                port.payload.data.eq(kept_read.data),
                port.payload.last.eq(last_out),
            ]

        # Partial sums: their slot, then the sum there, then the new sum.
        part_stream, partial, _ = self._merged(m, "partial_sums", list(self.partials), config.partial)
        first, second = (Signal(config.partial, name=name) for name in ("first_partial", "second_partial"))
        first_valid, second_place = Signal(), Signal(range(hubs.width * config.chunks))
        finishing = Signal()
        m.d.comb += [
            part_stream.ready.eq(1),
            partial_slot.en.eq(1),
            partial_slot.addr.eq(partial.vid >> self._shift),
            sum_read.en.eq(1),
            sum_read.addr.eq(Mux(finishing, finisher.sums.address, Cat(first.chunk, partial_slot.data.slot))),
            finisher.sums.data.eq(sum_read.data),
            sum_write.en.eq(adds | stores),
            sum_write.addr.eq(Mux(adds, second_place, Cat(chunk, done[:slot_bits]))),
        ]
        m.d.sync += [
            first.eq(partial),
            first_valid.eq(part_stream.valid),
            second.eq(first),
            adds.eq(first_valid),
            second_place.eq(Cat(first.chunk, partial_slot.data.slot)),
        ]
        for lane in range(config.lanes):
            m.d.comb += sum_write.data[lane].eq(Mux(adds, sum_read.data[lane] + second.data[lane], 0))

        # The end: all hubs as one record.
        m.d.comb += [
            finisher.i.valid.eq(finishing & (count != 0)),
            finisher.i.payload.eq(count),
        ]
        with m.If(self.finish):
            m.d.sync += finishing.eq(1)
        with m.If(finishing & (finisher.i.ready | (count == 0))):
            m.d.sync += [finishing.eq(0), count.eq(0), done.eq(0), fed.eq(0)]
        with m.If(self.start):
            m.d.sync += epoch.eq(epoch + 1)
            with m.If(epoch.all()):
                m.d.sync += [epoch.eq(1), clearing.eq(1)]
        m.d.comb += self.busy.eq(
            clearing | finishing | finisher.busy | bypass.busy | first_valid | adds | part_stream.valid | looks
            | served.o.valid | serving | (done != count)
        )  # fmt: skip
        m.d.sync += [
            Cover(looks & ~known & ~settles, "a new hub waits"),
            Cover(self.start & epoch.all(), "numbers of layers begin again"),
            Cover(pe.o.valid & adds, "a combined row waits for a sum"),
            Cover(served.o.valid & ~serves, "a row is not combined yet"),
        ]
        return m
