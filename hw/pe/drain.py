"""Drain: reads finished sums, requantises them and packs them into beats of a result row."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Cover, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import ACCUMULATOR_BITS, DIGIT_BITS, SCALE, VALUE_BITS
from contracts.weights import GRANULE
from hw.block_memory import NO_BYPASS, registered_read
from hw.contracts import struct
from hw.pe.chain import Chain
from hw.pe.formats import PEConfig, pairs
from hw.pe.lanes import read_access
from hw.pe.requantiser import Requantiser
from hw.reset import partly_reset
from hw.stream.queue import Queue

__all__ = ["Drain"]

#: Result beats that wait to be written, behind the one that is packed: a few registers if a beat takes `_LONG` cycles,
#: which is about as long as one is under way, else a distributed RAM.
_FEW, _MANY, _LONG = 2, 16, 8
#: Cycles from a sum's place in its bank to the requantiser: choice of the lane, sum of the halves.
_CHOICE = 2
#: Cycles from the release of a bank of single chunks until a task that waited for it writes it: free, element, weights,
#: operands, product, shift.
_AHEAD = 6


class Drain(wiring.Component):
    """Reads and requantises a group of elements a cycle, in the order of the tasks; or one digit of them.

    Digits take the same way: as values to be multiplied by 1, which rounding leaves as they are.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while tasks are under way.
    bias_write : stream of ``config.bias_write``, always ready
        Only if it aggregates.
    task : stream of ``config.task``, always ready
        A task has had its last operation; at most ``config.banks`` are under way, of single chunks one more.
    done : In(1)
        The sums of the oldest unfinished task are complete.
    read_bank, read_chunk, moves, read_data
        Access to the sums, see `hw.pe.lanes.LaneArray`.
    released : Out(1)
        High for one cycle when the sums of a task have been read, or will have been before others are there.
    o : stream of ``config.row_beat``
    complete, there, waits, finishes, first_free, bank, element, digit, last_element
        Number of tasks whose sums are complete; whether those of one can be read, and of single chunks those of another
        one wait; the last group of one is read; the group with which a bank of single chunks is released; bank, first
        element of the group, and digit read next; the last element of a row. Internal, named for proofs.
    credits, tags, packed, queue
        Free places for beats; descriptions of the groups under way, the oldest last; whether a beat is packed and
        waits for its place in the queue; the queue. Internal.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        self.complete = Signal(range(config.banks + 1))
        self.there, self.waits, self.finishes = Signal(), Signal(), Signal()
        self.first_free = Signal(range(max(2, config.elements // config.ways)))
        self.bank = Signal(range(config.banks))
        self.element = Signal(range(config.max_out + config.ways))
        self.last_element = Signal(range(max(2, config.max_out)), reset_less=True)
        self.digit = Signal(range(len(DIGIT_BITS)))
        long = config.elements // config.ways >= _LONG
        self.queue = Chain(config.row_beat, _FEW) if long else Queue(config.row_beat, _MANY)
        self.packed = Signal()
        self.credits = Signal(range(self.queue.depth + 2), init=self.queue.depth + 1)
        tag = data.StructLayout(
            {
                "valid": 1,
                "group": range(max(2, config.elements // config.ways)),
                "beat_end": 1,
                "row_end": 1,
                "address": config.beat_address_width,
            }
        )
        self._requantisers = [Requantiser(bias=config.aggregates) for _ in range(config.ways)]
        stages = _CHOICE + self._requantisers[0].latency
        self.tags = [partly_reset(tag, "valid", name=f"tag_{stage}") for stage in range(stages)]
        biases = {"bias_write": In(stream.Signature(config.bias_write, always_ready=True))} if config.aggregates else {}
        super().__init__(
            {
                "settings": In(config.settings),
                **biases,
                "task": In(stream.Signature(config.task, always_ready=True)),
                "done": In(1),
                **{name: member.flip() for name, member in read_access(config).items()},
                "read_data": In(data.ArrayLayout(signed(ACCUMULATOR_BITS), config.lanes)),
                "released": Out(1),
                "o": Out(stream.Signature(config.row_beat)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the tasks' descriptions, then read elements, requantise them, pack the results."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.queue = self.queue
        connect(m, self.queue.o, flipped(self.o))
        task = self._task(m)
        reads = self._read(m, task)
        operands = self._biases(m) if config.aggregates else [{}] * config.ways
        scale_1, scale = (Signal(struct(SCALE), name=f"scale_{n}", reset_less=True) for n in range(_CHOICE))
        m.d.sync += [scale_1.eq(task.scale), scale.eq(scale_1)]
        with m.If(settings.digits):
            m.d.sync += [scale.mantissa.eq(1), scale.exponent.eq(0)]
        # Constant while tasks are under way.
        shift = Signal.like(settings.shift, reset_less=True)
        m.d.sync += shift.eq(Mux(settings.digits, 0, settings.shift))
        results = []
        for way, (valid, value) in enumerate(zip(reads, self._values(m), strict=True)):
            m.submodules[f"requantiser_{way}"] = requantiser = self._requantisers[way]
            results.append(requantiser.o.payload)
            m.d.comb += [
                requantiser.i.valid.eq(valid),
                requantiser.i.payload.value.eq(value),
                requantiser.i.payload.scale.eq(scale),
                requantiser.i.payload.shift.eq(shift),
                *(requantiser.i.payload[name].eq(operand) for name, operand in operands[way].items()),
            ]
        self._pack(m, results)
        return m

    def _task(self, m: Module) -> data.View:
        """Keep the tasks' descriptions in a row of registers; return the oldest one.

        Each only loads the one in front of it, which costs no logic; a task's last operation is in the lanes for longer
        than its description takes to the end of the row. A bank of single chunks may be taken while it is still read.
        """
        count = self.config.banks + self.config.single
        valid = Signal(count)
        words = [Signal(self.config.task, reset_less=True, name=f"task_{n}") for n in range(count)]
        fronts = zip([self.task.payload, *words], [self.task.valid, *valid], strict=True)
        for n, (word, (front, comes)) in enumerate(zip(words, fronts, strict=False)):
            with m.If(self.finishes | ~valid[n:].all()):
                m.d.sync += [word.eq(front), valid[n].eq(comes)]
        return words[-1]

    def _read(self, m: Module, task: data.View) -> list[Value]:
        """Step through the oldest complete task; return which elements of a group come to the requantisers."""
        config, element, bank, complete, credits = self.config, self.element, self.bank, self.complete, self.credits
        digits, way_bits = self.settings.digits, exact_log2(config.ways)
        group = (element >> way_bits)[: exact_log2(config.elements // config.ways)]
        beat_start, beat_end = group == 0, group == config.elements // config.ways - 1
        row_end, final = Signal(), Signal()
        # Number of the beat in the row, or in the rows of digits, which begin at granules.
        beat = Signal(range(len(DIGIT_BITS) * config.max_beats))
        in_granule = GRANULE // config.elements - 1
        read, last_row = Signal(), Signal()
        last = self.settings.f_out - 1
        # Constant while tasks are under way.
        m.d.sync += self.last_element.eq(last)
        m.d.comb += [
            # A beat begins only if there is a free place for it.
            read.eq(self.there & (~beat_start | (credits != 0))),
            row_end.eq((element >> way_bits) == (self.last_element >> way_bits)),
            last_row.eq(~digits | (self.digit == len(DIGIT_BITS) - 1)),
            final.eq(row_end & last_row),
            self.finishes.eq(read & final),
        ]
        if config.single:
            # A row is a beat, which is read without a pause.
            last_group = self.last_element >> way_bits
            m.d.comb += [
                complete.eq(self.there + self.waits),
                self.moves.eq(self.waits & (~self.there | self.finishes)),
                self.released.eq(read & last_row & (group == self.first_free)),
            ]
            m.d.sync += [
                self.waits.eq(self.done | (self.waits & ~self.moves)),
                self.there.eq(self.moves | (self.there & ~self.finishes)),
                self.first_free.eq(Mux(last_group > _AHEAD, last_group - _AHEAD, 0)),
            ]
        else:
            m.d.comb += [
                self.there.eq(complete != 0),
                self.released.eq(self.finishes),
                self.read_bank.eq(bank),
                self.read_chunk.eq(element >> exact_log2(config.lanes)),
            ]
            m.d.sync += [
                complete.eq(complete + self.done - self.finishes),
                bank.eq(bank + self.finishes),
            ]
        m.d.sync += credits.eq(credits - (read & beat_start) + (self.o.valid & self.o.ready))
        with m.If(read):
            m.d.sync += [element.eq(element + config.ways), beat.eq(beat + beat_end)]
            with m.If(row_end):
                m.d.sync += [element.eq(0), beat.eq((beat | in_granule) + 1), self.digit.eq(self.digit + 1)]
            with m.If(final):
                m.d.sync += [beat.eq(0), self.digit.eq(0)]
        # The description of a group, which travels beside it.
        tag = self.tags[0]
        m.d.sync += [
            tag.valid.eq(read),
            tag.group.eq(group),
            tag.beat_end.eq(beat_end | row_end),
            tag.row_end.eq(final),
            tag.address.eq(Cat((task.address + beat)[: config.counted_bits], task.address[config.counted_bits :])),
            *(after.eq(before) for before, after in pairwise(self.tags)),
            Cover(self.there & beat_start & (credits == 0), "no room for another beat"),
            Cover(complete == config.banks, "every bank waits to be read"),
            Cover(self.done & self.finishes, "one task completes as another leaves"),
        ]
        # The last group of a row may have elements behind the row's end, whose results are 0.
        valid = [read] + [read & (~row_end | (self.last_element[:way_bits] >= way)) for way in range(1, config.ways)]
        chosen = [Signal(_CHOICE, name=f"chosen_{way}") for way in range(config.ways)]
        m.d.sync += [bits.eq(Cat(one, bits[:-1])) for one, bits in zip(valid, chosen, strict=True)]
        return [bits[-1] for bits in chosen]

    def _values(self, m: Module) -> list[Value]:
        """Choose the sums of a group, add those of both halves if lanes worked in pairs, choose a digit of them."""
        config, way_bits = self.config, exact_log2(self.config.ways)
        paired = Signal()
        m.d.sync += paired.eq(pairs(self.settings, config))
        place = (self.element >> way_bits)[: exact_log2(config.half // config.ways)]
        upper = self.element[exact_log2(config.half)] if config.lanes > 1 else 0
        digit = Signal.like(self.digit, reset_less=True)
        digit_1 = Signal.like(self.digit, reset_less=True)
        m.d.sync += [digit_1.eq(self.digit), digit.eq(digit_1)]
        values: list[Value] = []
        for way in range(config.ways):
            halves = []
            for half in range(min(2, config.lanes)):
                lanes = range(half * config.half + way, (half + 1) * config.half, config.ways)
                sum_ = Signal(signed(ACCUMULATOR_BITS), name=f"half_{half}_{way}", reset_less=True)
                halves.append(sum_)
                m.d.sync += sum_.eq(Array(self.read_data[lane] for lane in lanes)[place])
                with m.If(~paired & (upper != half)):
                    m.d.sync += sum_.eq(0)
            sum_ = Signal(signed(ACCUMULATOR_BITS), name=f"sum_{way}", reset_less=True)
            m.d.sync += sum_.eq(sum(halves))
            value = Signal(signed(ACCUMULATOR_BITS), name=f"value_{way}")
            m.d.comb += value.eq(sum_)
            start = 0
            for number, bits in enumerate(DIGIT_BITS):
                with m.If(self.settings.digits & (digit == number)):
                    taken = sum_[start : start + bits]
                    m.d.comb += value.eq(taken.as_signed() if number == len(DIGIT_BITS) - 1 else taken)
                start += bits
            values.append(value)
        return values

    def _biases(self, m: Module) -> list[dict[str, Value]]:
        """Keep the biases; return those of a group `_CHOICE` cycles after it is read, or 0, and the activation."""
        config, way_bits = self.config, exact_log2(self.config.ways)
        # Written between layers only, hence no bypass.
        m.submodules.biases = biases = Memory(
            shape=data.ArrayLayout(signed(32), config.ways),
            depth=max(2, -(-config.max_out // config.ways)),
            init=[],
            attrs=dict(NO_BYPASS),
        )
        write, read = biases.write_port(granularity=1), registered_read(m, biases, "bias")
        place = self.bias_write.payload.address
        bias = Signal(biases.shape, reset_less=True)
        m.d.comb += [
            write.en.eq(self.bias_write.valid << place[:way_bits]),
            write.addr.eq(place >> way_bits),
            *(word.eq(self.bias_write.payload.data) for word in write.data),
            read.addr.eq(self.element >> way_bits),
        ]
        m.d.sync += bias.eq(read.data)
        with m.If(~self.settings.bias | self.settings.digits):
            m.d.sync += bias.eq(0)
        # Constant while tasks are under way.
        relu = Signal(reset_less=True)
        m.d.sync += relu.eq(self.settings.relu & ~self.settings.digits)
        return [{"bias": bias[way], "relu": relu} for way in range(config.ways)]

    def _pack(self, m: Module, results: list[Value]) -> None:
        """Collect results in a beat, whose other elements are 0."""
        config, tag, beats = self.config, self.tags[-1], self.queue.i
        words = [Signal(signed(VALUE_BITS), name=f"element_{n}", reset_less=True) for n in range(config.elements)]
        end, address = Signal(reset_less=True), Signal(config.beat_address_width, reset_less=True)
        with m.If(beats.ready):
            m.d.sync += self.packed.eq(0)
        with m.If(tag.valid):
            m.d.sync += [end.eq(tag.row_end), address.eq(tag.address), self.packed.eq(tag.beat_end)]
            for n, word in enumerate(words):
                group, way = divmod(n, config.ways)
                if group:
                    with m.If(tag.group == 0):
                        m.d.sync += word.eq(0)
                with m.If(tag.group == group):
                    m.d.sync += word.eq(results[way])
        m.d.comb += [
            beats.valid.eq(self.packed),
            beats.payload.address.eq(address),
            beats.payload.last.eq(end),
            *(beats.payload.data[n].eq(word) for n, word in enumerate(words)),
        ]
        m.d.sync += Cover(beats.valid & ~end, "a row of several beats")
