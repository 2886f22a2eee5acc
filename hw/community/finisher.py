"""Finisher: takes sums of nodes through the second rounding point, and hands on those of hubs (I8)."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from golden.contracts import VALUE_BITS
from golden.model.layer import GIN_FRACTION
from hw.community.feeder import kept_scale
from hw.community.filler import own_chunk
from hw.community.formats import CommunityConfig
from hw.community.places import read_signature
from hw.pe.requantiser import Requantiser
from hw.stream.queue import Queue

__all__ = ["Finisher"]

#: Beats of results, and chunks of partial sums, that wait to be taken.
_WAITING = 16
#: Cycles from a read to the requantiser: the memories, the element, the product, the sum.
_BEFORE = 4


class Finisher(wiring.Component):
    """An element of a node, or a chunk of a hub, a cycle.

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
        What is needed of every vertex at the end; it comes before its record.
    i : stream of ``config.record``
        Records whose sums are there.
    sums
        The sums, by place and chunk.
    freed, retired : Out(1)
        A row, and the last one of a record, is done: what was kept of it is not needed any more.
    o : stream of ``config.result``
    partial : stream of ``config.partial``
    busy : Out(1)
        Rows are on their way.
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
                "sums": Out(read_signature(config.chunk, config.places * config.chunks)),
                "freed": Out(1),
                "retired": Out(1),
                "o": Out(stream.Signature(config.result)),
                "partial": Out(stream.Signature(config.partial)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk through rows; weigh, requantise and pack those of nodes."""
        m = Module()
        config, settings = self.config, self.settings
        places = config.places
        own_shape = own_chunk(config)["data"].shape
        memories = {}
        for name, shape, depth in (
            ("vids", 32, places),
            ("scales", config.scale, places),
            ("owns", own_shape, places * config.chunks),
            ("biases", signed(32), max(2, config.max_out)),
        ):
            m.submodules[name] = words = memory.Memory(shape=shape, depth=depth, init=[])
            memories[name] = (words.write_port(), words.read_port())
        vid_write, vid_read = memories["vids"]
        scale_write, scale_read = memories["scales"]
        own_write, own_read = memories["owns"]
        bias_write, bias_read = memories["biases"]
        vertex = self.vertex.payload
        m.d.comb += [
            vid_write.en.eq(self.vertex.valid),
            vid_write.addr.eq(vertex.place),
            vid_write.data.eq(vertex.vid),
            scale_write.en.eq(self.scale.valid),
            scale_write.addr.eq(self.scale.payload.place),
            scale_write.data.eq(self.scale.payload.scale),
            own_write.en.eq(self.own.valid),
            own_write.addr.eq(self.own.payload.place),
            own_write.data.eq(self.own.payload.data),
            bias_write.en.eq(self.bias_write.valid),
            bias_write.addr.eq(self.bias_write.payload.address),
            bias_write.data.eq(self.bias_write.payload.data),
            *(port.en.eq(1) for _, port in memories.values()),
        ]
        m.submodules.results = results = Queue(config.result, _WAITING)
        m.submodules.partials = partials = Queue(config.partial, _WAITING)
        m.submodules.requantiser = requantiser = Requantiser()
        wiring.connect(m, results.o, wiring.flipped(self.o))
        wiring.connect(m, partials.o, wiring.flipped(self.partial))

        # Elements of a node's row, or chunks of a hub's.
        record, row, place = self.i.payload, Signal(config.row_bits), Signal(range(config.places))
        element, chunk = Signal(range(config.max_out + 1)), Signal(range(config.chunks))
        lane_bits, beat_bits = exact_log2(config.lanes), exact_log2(config.pe.elements)
        node, beat_start, row_end, last_row = Signal(), Signal(), Signal(), Signal()
        at_chunk = Signal(range(config.chunks))
        room, partial_room = (
            Signal(range(_WAITING + 1), init=_WAITING, name=name) for name in ("room", "partial_room")
        )
        reads = Signal()
        m.d.comb += [
            node.eq(row < record.nodes),
            at_chunk.eq(Mux(node, element >> lane_bits, chunk)),
            beat_start.eq(element[:beat_bits] == 0),
            row_end.eq(Mux(node, element == settings.f_out - 1, chunk == settings.last_chunk)),
            last_row.eq(row + 1 == record.rows),
            reads.eq(self.i.valid & Mux(node, ~beat_start | (room != 0), partial_room != 0)),
            self.i.ready.eq(reads & row_end & last_row),
            self.freed.eq(reads & row_end),
            self.retired.eq(self.i.ready),
            place.eq(record.base + row),
            self.sums.address.eq(Cat(at_chunk, place)),
            vid_read.addr.eq(place),
            scale_read.addr.eq(place),
            own_read.addr.eq(Cat(at_chunk, place)),
            bias_read.addr.eq(element),
        ]
        m.d.sync += [
            room.eq(room - (reads & node & beat_start) + (self.o.valid & self.o.ready)),
            partial_room.eq(partial_room - (reads & ~node) + (self.partial.valid & self.partial.ready)),
        ]
        with m.If(reads):
            with m.If(node):
                m.d.sync += element.eq(element + 1)
            with m.Else():
                m.d.sync += chunk.eq(chunk + 1)
            with m.If(row_end):
                m.d.sync += [element.eq(0), chunk.eq(0), row.eq(Mux(last_row, 0, row + 1))]

        tag = data.StructLayout(
            {"valid": 1, "element": range(config.max_out + 1), "beat_end": 1, "row_end": 1, "vid": 32}
        )
        tags = [Signal(tag, name=f"tag_{n}") for n in range(_BEFORE + Requantiser.LATENCY)]
        hub_read, hub_chunk = Signal(), Signal(range(config.chunks))
        m.d.sync += [
            tags[0].valid.eq(reads & node),
            tags[0].element.eq(element),
            tags[0].beat_end.eq(row_end | element[:beat_bits].all()),
            tags[0].row_end.eq(row_end),
            hub_read.eq(reads & ~node),
            hub_chunk.eq(chunk),
            *(after.eq(before) for before, after in pairwise(tags)),
            tags[1].vid.eq(vid_read.data),
        ]
        m.d.comb += [
            partials.i.valid.eq(hub_read),
            partials.i.payload.vid.eq(vid_read.data),
            partials.i.payload.chunk.eq(hub_chunk),
            partials.i.payload.last.eq(tags[0].row_end),
        ]
        for lane in range(config.lanes):
            m.d.comb += partials.i.payload.data[lane].eq(self.sums.data[lane])

        # The element, then the product with what the node counts more than a neighbour, then both together.
        lane = tags[0].element[:lane_bits]
        summed, own = Signal(signed(config.sum_bits)), Signal(signed(VALUE_BITS))
        scales = [Signal(config.scale, name=f"scale_{n}") for n in range(_BEFORE - 1)]
        biases = [Signal(signed(32), name=f"bias_{n}") for n in range(_BEFORE - 1)]
        product = Signal(signed(2 * VALUE_BITS + 1))
        weighed = Signal(signed(config.sum_bits + GIN_FRACTION))
        value = Signal(signed(max(len(weighed), len(product)) + 1))
        m.d.sync += [
            summed.eq(Array(self.sums.data[n] for n in range(config.lanes))[lane]),
            own.eq(Array(own_read.data[n] for n in range(config.lanes))[lane]),
            product.eq(own * settings.own),
            weighed.eq(Mux(settings.wide, summed << GIN_FRACTION, summed)),
            value.eq(weighed + product),
            scales[0].eq(scale_read.data),
            biases[0].eq(bias_read.data),
            *(after.eq(before) for line in (scales, biases) for before, after in pairwise(line)),
        ]
        m.d.comb += [
            requantiser.i.valid.eq(tags[_BEFORE - 1].valid),
            requantiser.i.payload.value.eq(value),
            requantiser.i.payload.scale.eq(scales[-1]),
            requantiser.i.payload.bias.eq(Mux(settings.bias, biases[-1], 0)),
            requantiser.i.payload.shift.eq(settings.shift),
            requantiser.i.payload.relu.eq(settings.relu),
        ]

        done = tags[-1]
        filled = Signal(data.ArrayLayout(signed(VALUE_BITS), config.pe.elements))
        # The last element of a beat leaves with it.
        packed = Signal(data.ArrayLayout(signed(VALUE_BITS), config.pe.elements - 1))
        for n in range(config.pe.elements):
            before = packed[n] if n < config.pe.elements - 1 else 0
            m.d.comb += filled[n].eq(before | Mux(done.element[:beat_bits] == n, requantiser.o.payload, 0))
        with m.If(done.valid):
            m.d.sync += packed.eq(Mux(done.beat_end, 0, filled.as_value()))
        on_the_way = Cat(entry.valid for entry in tags).any() | hub_read
        m.d.comb += [
            results.i.valid.eq(done.valid & done.beat_end),
            results.i.payload.vid.eq(done.vid),
            results.i.payload.beat.eq(done.element >> beat_bits),
            results.i.payload.data.eq(filled),
            results.i.payload.last.eq(done.row_end),
            self.busy.eq(self.i.valid | on_the_way | self.o.valid | self.partial.valid),
        ]
        m.d.sync += [
            Cover(self.i.valid & node & beat_start & (room == 0), "no room for another beat"),
            Cover(self.i.valid & ~node & (partial_room == 0), "no room for another partial sum"),
            Cover(done.valid & done.beat_end & ~done.row_end, "a row of several beats"),
        ]
        return m
