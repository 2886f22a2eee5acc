"""Row finisher: requantises sums of nodes and hubs at the second rounding point, several elements a cycle (I8)."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import ACCUMULATOR_BITS, VALUE_BITS
from contracts.scale import GIN_FRACTION
from hw.community.filler import kept_scale, own_chunk
from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import read_signature
from hw.pe.formats import POWER_BITS
from hw.pe.requantiser import Requantiser
from hw.stream.queue import Queue

__all__ = ["RowFinisher"]

#: Depth of the queue of results, in beats.
_WAITING = 16
#: Cycles from a read to the requantisers: the memories, the elements, the products, the sums.
_BEFORE = 4


class RowFinisher(wiring.Component):
    """Finishes a group of ``config.ways`` elements a cycle.

    Its time is not hidden for hubs, which are finished at the end of a layer, nor for a large record, whose rows are
    finished when all of its sums are complete and keep their slots until then.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are hubs.
    bias_write : stream of ``config.pe.bias_write``, always ready
    vertex : stream of ``config.request``, always ready
    scale : stream of `kept_scale`, always ready
    own : stream of `own_chunk`, always ready
        Data of each row for its end, by slot.
    i : stream of range(slots)
        Slots of rows whose sums are complete; taken with the last group of a row.
    vid : Out(32)
        VID of the row at `i` in the previous cycle, valid or not.
    sums
        Read port of the sums, by slot and chunk.
    sums_free : In(1)
        The sums may be read in this cycle.
    o : stream of ``config.result``
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
                "i": In(stream.Signature(range(config.slots))),
                "vid": Out(32),
                "sums": Out(read_signature(config.chunk, config.slots * config.chunks)),
                "sums_free": In(1),
                "o": Out(stream.Signature(config.result)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through rows and groups; weigh, requantise and pack."""
        m = Module()
        config, settings, ways = self.config, self.settings, self.config.ways
        way_bits = exact_log2(ways)
        memories = {}
        for name, shape, depth, granularity in (
            ("vids", 32, config.slots, None),
            ("scales", config.scale, config.slots, None),
            ("owns", config.vector, config.slots * config.chunks, None),
            ("biases", data.ArrayLayout(signed(32), ways), max(2, -(-config.max_out // ways)), 1),
        ):
            m.submodules[name] = words = memory.Memory(shape=shape, depth=depth, init=[])
            memories[name] = (words.write_port(granularity=granularity), words.read_port())
        vid_write, vid_read = memories["vids"]
        scale_write, scale_read = memories["scales"]
        own_write, own_read = memories["owns"]
        bias_write, bias_read = memories["biases"]
        m.submodules.results = results = Queue(config.result, _WAITING)
        requantisers = [Requantiser() for _ in range(ways)]
        for n, requantiser in enumerate(requantisers):
            m.submodules[f"requantiser_{n}"] = requantiser
        wiring.connect(m, results.o, wiring.flipped(self.o))
        bias = self.bias_write.payload
        m.d.comb += [
            vid_write.en.eq(self.vertex.valid),
            vid_write.addr.eq(self.vertex.payload.slot),
            vid_write.data.eq(self.vertex.payload.vid),
            scale_write.en.eq(self.scale.valid),
            scale_write.addr.eq(self.scale.payload.slot),
            scale_write.data.eq(self.scale.payload.scale),
            own_write.en.eq(self.own.valid),
            own_write.addr.eq(self.own.payload.slot),
            own_write.data.eq(self.own.payload.data),
            bias_write.en.eq(self.bias_write.valid << bias.address[:way_bits]),
            bias_write.addr.eq(bias.address[way_bits:]),
            *(bias_write.data[n].eq(bias.data) for n in range(ways)),
            *(port.en.eq(1) for _, port in memories.values()),
        ]

        # Groups of a row; valid elements of a group.
        lane_bits, beat_bits = exact_log2(config.lanes), exact_log2(config.pe.elements)
        row, group = self.i.payload, Signal(range(-(-config.max_out // ways) + 1))
        element = Signal(range(config.max_out + ways))
        at_chunk = (element >> lane_bits)[: exact_log2(config.chunks)]
        beat_start = element[:beat_bits] == 0
        row_end = element + ways >= settings.f_out
        room = Signal(range(_WAITING + 1), init=_WAITING)
        reads = Signal()
        m.d.comb += [
            element.eq(group << way_bits),
            reads.eq(self.i.valid & self.sums_free & (~beat_start | (room != 0))),
            self.i.ready.eq(reads & row_end),
            self.sums.address.eq(Cat(at_chunk, row)),
            vid_read.addr.eq(row),
            self.vid.eq(vid_read.data),
            scale_read.addr.eq(row),
            own_read.addr.eq(Cat(at_chunk, row)),
            bias_read.addr.eq(group),
        ]
        m.d.sync += room.eq(room - (reads & beat_start) + (self.o.valid & self.o.ready))
        with m.If(reads):
            m.d.sync += group.eq(Mux(row_end, 0, group + 1))

        tag = data.StructLayout(
            {"valid": 1, "element": element.shape(), "there": ways, "beat_end": 1, "row_end": 1, "vid": 32}
        )
        tags = [Signal(tag, name=f"tag_{n}") for n in range(_BEFORE + Requantiser.LATENCY)]
        m.d.sync += [
            tags[0].valid.eq(reads),
            tags[0].element.eq(element),
            tags[0].there.eq(Cat(element + n < settings.f_out for n in range(ways))),
            tags[0].beat_end.eq(row_end | element[way_bits:beat_bits].all()),
            tags[0].row_end.eq(row_end),
            *(after.eq(before) for before, after in pairwise(tags)),
            tags[1].vid.eq(vid_read.data),
        ]

        # The elements, then the products with the node's weight, then their sum.
        part = tags[0].element[way_bits:lane_bits]
        parts = range(config.lanes // ways)
        weight = Signal.like(settings.own)
        power = Mux(settings.rooted, scale_read.data.exponent[:POWER_BITS], 0)
        m.d.sync += weight.eq(settings.own << power)
        scales = [Signal(config.scale, name=f"scale_{n}") for n in range(_BEFORE - 1)]
        m.d.sync += [scales[0].eq(scale_read.data), *(after.eq(before) for before, after in pairwise(scales))]
        for n, requantiser in enumerate(requantisers):
            summed, own = Signal(signed(config.sum_bits), name=f"sum_{n}"), Signal(signed(VALUE_BITS), name=f"own_{n}")
            product = Signal(signed(2 * VALUE_BITS + 1), name=f"product_{n}")
            weighed = Signal(signed(config.sum_bits + GIN_FRACTION), name=f"weighed_{n}")
            value = Signal(signed(ACCUMULATOR_BITS), name=f"value_{n}")
            biases = [Signal(signed(32), name=f"bias_{n}_{stage}") for stage in range(_BEFORE - 1)]
            m.d.sync += [
                summed.eq(Array(self.sums.data[p * ways + n] for p in parts)[part]),
                own.eq(Array(own_read.data[p * ways + n] for p in parts)[part]),
                product.eq(own * weight),
                weighed.eq(Mux(settings.wide, summed << GIN_FRACTION, summed)),
                value.eq(weighed + product),
                biases[0].eq(bias_read.data[n]),
                *(after.eq(before) for before, after in pairwise(biases)),
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
        # The last group of a beat completes it.
        packed = [Signal(signed(VALUE_BITS), name=f"packed_{n}") for n in range(config.pe.elements - ways)]
        for n in range(config.pe.elements):
            way = n % ways
            here = (done.element[way_bits:beat_bits] == n // ways) & done.there[way]
            before = packed[n] if n < len(packed) else 0
            m.d.comb += filled[n].eq(before | Mux(here, requantisers[way].o.payload, 0))
        with m.If(done.valid):
            for before, value in zip(packed, filled, strict=False):
                m.d.sync += before.eq(Mux(done.beat_end, 0, value))
        m.d.comb += [
            results.i.valid.eq(done.valid & done.beat_end),
            results.i.payload.vid.eq(done.vid),
            results.i.payload.beat.eq(done.element >> beat_bits),
            results.i.payload.data.eq(filled),
            results.i.payload.last.eq(done.row_end),
            self.busy.eq(self.i.valid | Cat(entry.valid for entry in tags).any() | self.o.valid),
        ]
        m.d.sync += [
            Cover(self.i.valid & beat_start & (room == 0), "no room for another beat"),
            Cover(done.valid & done.beat_end & ~done.row_end, "a row of several beats"),
            Cover(done.valid & ~done.there.all(), "a group that is not full"),
        ]
        return m
