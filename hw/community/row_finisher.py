"""Row finisher: requantises sums of nodes and hubs at the second rounding point, several elements a cycle (I8)."""

import itertools

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import PARTIAL_BITS, VALUE_BITS
from contracts.scale import GIN_FRACTION
from hw.block_memory import few_words
from hw.community.formats import CommunityConfig
from hw.pe.formats import POWER_BITS
from hw.pe.requantiser import Requantiser
from hw.stream.hold import hold
from hw.stream.queue import Queue

__all__ = ["RowFinisher"]

#: Groups, and rows, that may be on the way: as many as there are stages, so a group can pass in every cycle.
_WAITING = 16
#: Bits of a weighed sum: one more than those of the neighbours' sum, the larger operand.
_VALUE_BITS = PARTIAL_BITS + GIN_FRACTION + 1
#: Cycles from a group to the requantisers: the elements, the products, the sums.
_BEFORE = 3


class RowFinisher(wiring.Component):
    """Weighs a row's own elements, adds the sums, requantises and packs: a group of ``config.ways`` elements a cycle.

    It is shared by all that sum rows up, and keeps nothing of a row but its VID.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are rows.
    bias_write : stream of ``config.pe.bias_write``, always ready
        Written before the first row of a layer.
    i : stream of ``config.finish_chunk``
        Chunks in their order, row after row.
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
                "i": In(stream.Signature(config.finish_chunk)),
                "o": Out(stream.Signature(config.result)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Take groups while there is room for their results; requantise; pack groups into beats."""
        m = Module()
        config, ways = self.config, self.config.ways
        last_group = Signal(range(max(2, -(-config.max_out // ways))))
        m.d.sync += last_group.eq((self.settings.f_out - 1) >> exact_log2(ways))

        # Groups of a row, in turn.
        # All PEs and hub units wait for `ready`, so it comes from registers: room is negative if there is none, and
        # whether a group is the last of its chunk is known before.
        group, room = Signal.like(last_group), Signal(range(-1, _WAITING), init=_WAITING - 1)
        row_end, chunk_end, takes = Signal(), Signal(), Signal()
        following, chunk_groups = Signal.like(last_group), exact_log2(config.lanes // ways)
        m.submodules.vids = vids = Queue(config.vid_bits, _WAITING)
        m.submodules.results = results = Queue(data.ArrayLayout(signed(VALUE_BITS), ways), _WAITING)
        m.d.comb += [
            row_end.eq(group == last_group),
            takes.eq(self.i.valid & (room >= 0)),
            following.eq(Mux(takes, Mux(row_end, 0, group + 1), group)),
            self.i.ready.eq((room >= 0) & chunk_end),
            vids.i.valid.eq(takes & (group == 0)),
            vids.i.payload.eq(self.i.payload.vid),
        ]
        leaves = results.o.valid & results.o.ready
        m.d.sync += [
            room.eq(room - takes + leaves),
            group.eq(following),
            chunk_end.eq((following == last_group) | following[:chunk_groups].all()),
        ]

        requantisers = [Requantiser(_VALUE_BITS) for _ in range(ways)]
        for n, requantiser in enumerate(requantisers):
            m.submodules[f"requantiser_{n}"] = requantiser
            m.d.comb += results.i.payload[n].eq(requantiser.o.payload)
        m.d.comb += results.i.valid.eq(requantisers[0].o.valid)
        self._weigh(m, takes, group, row_end, requantisers)
        waits = self._pack(m, results.o, vids.o, last_group)
        m.d.comb += self.busy.eq(self.i.valid | (room != _WAITING - 1) | waits)
        m.d.sync += Cover(self.i.valid & (room < 0), "no room for another group")
        return m

    def _weigh(self, m: Module, takes: Signal, group: Signal, row_end: Signal, requantisers: list[Requantiser]) -> None:
        """Add the product of the own elements with the node's weight; read the biases of the group meanwhile."""
        config, settings, ways = self.config, self.settings, self.config.ways
        depth = max(2, -(-config.max_out // ways))
        m.submodules.biases = biases = memory.Memory(
            shape=data.ArrayLayout(signed(32), ways), depth=depth, init=[], attrs=few_words(depth)
        )
        write, read = biases.write_port(granularity=1), biases.read_port()
        bias, way_bits = self.bias_write.payload, exact_log2(ways)
        groups = [Signal.like(group, name=f"group_{n}") for n in range(_BEFORE - 1)]
        # The results of a row's last group behind the end of the row are 0, since they are never valid.
        valid, ends, ending = Signal(_BEFORE), Signal(_BEFORE), Signal(ways)
        m.d.sync += [
            valid.eq(Cat(takes, valid[:-1])),
            ends.eq(Cat(row_end, ends[:-1])),
            ending.eq(Cat((settings.f_out - 1)[:way_bits] >= n for n in range(ways))),
            groups[0].eq(group),
            *(after.eq(before) for before, after in itertools.pairwise(groups)),
        ]
        m.d.comb += [
            write.en.eq(self.bias_write.valid << bias.address[:way_bits]),
            write.addr.eq(bias.address[way_bits:]),
            *(write.data[n].eq(bias.data) for n in range(ways)),
            read.en.eq(1),
            read.addr.eq(groups[-1]),
        ]
        chunk = self.i.payload
        power = Mux(settings.rooted, chunk.exponent[:POWER_BITS], 0)
        part, parts = group[: exact_log2(config.lanes // ways)], range(config.lanes // ways)
        weight = Signal.like(settings.own)
        scales = [Signal(config.scale, name=f"scale_{n}", reset_less=True) for n in range(_BEFORE)]
        m.d.sync += [
            weight.eq(settings.own << power),
            scales[0].mantissa.eq(chunk.mantissa),
            scales[0].exponent.eq(chunk.exponent),
            *(after.eq(before) for before, after in itertools.pairwise(scales)),
        ]
        for n, requantiser in enumerate(requantisers):

            def signal(name: str, bits: int, number: int = n) -> Signal:
                return Signal(signed(bits), name=f"{name}_{number}", reset_less=True)

            summed, own = signal("sum", PARTIAL_BITS), signal("own", VALUE_BITS)
            product, weighed = signal("product", 2 * VALUE_BITS + 1), signal("weighed", PARTIAL_BITS + GIN_FRACTION)
            value = signal("value", _VALUE_BITS)
            m.d.sync += [
                summed.eq(Array(chunk.sums[p * ways + n] for p in parts)[part]),
                own.eq(Array(chunk.own[p * ways + n] for p in parts)[part]),
                product.eq(own * weight),
                weighed.eq(Mux(settings.wide, summed << GIN_FRACTION, summed)),
                value.eq(weighed + product),
            ]
            m.d.comb += [
                requantiser.i.valid.eq(valid[-1] & (~ends[-1] | ending[n])),
                requantiser.i.payload.value.eq(value),
                requantiser.i.payload.scale.eq(scales[-1]),
                requantiser.i.payload.bias.eq(Mux(settings.bias, read.data[n], 0)),
                requantiser.i.payload.shift.eq(settings.shift),
                requantiser.i.payload.relu.eq(settings.relu),
            ]

    def _pack(self, m: Module, groups: stream.Interface, vids: stream.Interface, last_group: Signal) -> Value:
        """Put groups side by side until the beat is full or the row ends, padded with 0; return whether one waits."""
        config, ways = self.config, self.config.ways
        in_beat = config.pe.elements // ways
        # The writer takes a row of another finisher meanwhile: 300 cycles of Cora.
        beats = stream.Signature(config.result).create(path=("beats",))
        out = hold(m, "out", beats, config.result)
        wiring.connect(m, out, wiring.flipped(self.o))
        group, beat, full = Signal.like(last_group), Signal(config.result), Signal()
        place = group[: exact_log2(in_beat)]
        row_end, beat_end = Signal(), Signal()
        m.d.comb += [
            row_end.eq(group == last_group),
            beat_end.eq(row_end | place.all()),
            groups.ready.eq(~full | beats.ready),
            beats.valid.eq(full),
            beats.payload.eq(beat),
            vids.ready.eq(groups.valid & groups.ready & row_end),
        ]
        with m.If(groups.ready):
            m.d.sync += full.eq(groups.valid & beat_end)
        with m.If(groups.valid & groups.ready):
            m.d.sync += [
                group.eq(Mux(row_end, 0, group + 1)),
                beat.vid.eq(vids.payload),
                beat.beat.eq(group >> exact_log2(in_beat)),
                beat.last.eq(row_end),
            ]
            with m.If(place == 0):
                m.d.sync += beat.data.as_value().eq(0)
            for n in range(config.pe.elements):
                with m.If(place == n // ways):
                    m.d.sync += beat.data[n].eq(groups.payload[n % ways])
        m.d.sync += [
            Cover(full & ~beats.ready, "a beat waits"),
            Cover(groups.valid & groups.ready & beat_end & ~row_end, "a row of several beats"),
        ]
        return full | out.valid
