"""Drain: reads finished sums, requantises them and packs them into beats of a result row."""

from itertools import pairwise

from amaranth.hdl import Array, Cover, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import ACCUMULATOR_BITS, DIGIT_BITS, VALUE_BITS
from contracts.weights import GRANULE
from hw.block_memory import NO_BYPASS
from hw.pe.formats import PEConfig
from hw.pe.requantiser import Requantiser
from hw.reset import partly_reset
from hw.stream.queue import Queue

__all__ = ["Drain"]

#: Result beats that wait to be written: the depth of a distributed RAM.
_BEATS = 16


class Drain(wiring.Component):
    """Reads and requantises one element a cycle, in the order of the tasks; or reads a digit of a chunk a cycle.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while tasks are under way.
    bias_write : stream of ``config.bias_write``, always ready
    task : stream of ``config.task``, always ready
        A task has had its last operation; at most ``config.banks`` are under way.
    done : In(1)
        The sums of the oldest unfinished task are complete.
    read_bank, read_chunk, read_data
        Access to the sums, see `hw.pe.lanes.LaneArray`.
    released : Out(1)
        High for one cycle when the sums of a task have been read.
    o : stream of ``config.row_beat``
    complete, bank, element, digit
        Number of tasks whose sums are complete; bank, element and digit read next. Internal, named for proofs.
    credits, tags, queue
        Free places of the queue of beats; descriptions beside the requantiser, the oldest last; the queue. Internal.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        self.complete = Signal(range(config.banks + 1))
        self.bank = Signal(range(config.banks))
        self.element = Signal(range(config.max_out + 1))
        self.digit = Signal(range(len(DIGIT_BITS)))
        self.credits = Signal(range(_BEATS + 1), init=_BEATS)
        tag = data.StructLayout(
            {
                "valid": 1,
                "position": range(config.elements),
                "beat_end": 1,
                "row_end": 1,
                "address": config.beat_address_width,
            }
        )
        self.tags = [partly_reset(tag, "valid", name=f"tag_{stage}") for stage in range(Requantiser.LATENCY)]
        self.queue = Queue(config.row_beat, _BEATS)
        super().__init__(
            {
                "settings": In(config.settings),
                "bias_write": In(stream.Signature(config.bias_write, always_ready=True)),
                "task": In(stream.Signature(config.task, always_ready=True)),
                "done": In(1),
                "read_bank": Out(range(config.banks)),
                "read_chunk": Out(range(config.max_chunks)),
                "read_data": In(data.ArrayLayout(signed(ACCUMULATOR_BITS), config.lanes)),
                "released": Out(1),
                "o": Out(stream.Signature(config.row_beat)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect biases and task descriptions, then read elements, requantise them, pack the results."""
        m = Module()
        config = self.config
        m.submodules.requantiser = requantiser = Requantiser()
        m.submodules.queue = queue = self.queue
        # Written between layers only, hence no bypass.
        m.submodules.biases = biases = Memory(
            shape=signed(32), depth=max(2, config.max_out), init=[], attrs=dict(NO_BYPASS)
        )
        bias_write = biases.write_port()
        bias_read = biases.read_port(domain="comb")
        connect(m, queue.o, flipped(self.o))
        # Tasks use the banks in turn, so the bank's number is also the place of the task's description.
        m.submodules.tasks = tasks = Memory(shape=config.task, depth=config.banks, init=[])
        task_write = tasks.write_port()
        task_read = tasks.read_port(domain="comb")
        next_bank = Signal(range(config.banks))
        m.d.comb += [
            bias_write.en.eq(self.bias_write.valid),
            bias_write.addr.eq(self.bias_write.payload.address),
            bias_write.data.eq(self.bias_write.payload.data),
            task_write.en.eq(self.task.valid),
            task_write.addr.eq(next_bank),
            task_write.data.eq(self.task.payload),
        ]
        m.d.sync += next_bank.eq(next_bank + self.task.valid)

        # Digits of a chunk, which need no arithmetic, at their places in a beat; 0 everywhere else.
        digits = Signal(data.ArrayLayout(VALUE_BITS, config.elements), reset_less=True)
        found = [self._digit(m, sum_, lane) for lane, sum_ in enumerate(self.read_data)]
        m.d.sync += digits.eq(0)
        for part in range(config.parts):
            position = part * config.lanes
            with m.If(self.settings.digits & (self.element[: exact_log2(config.elements)] == position)):
                m.d.sync += [digits[position + lane].eq(digit) for lane, digit in enumerate(found)]
        read = self._read(m, task_read.data)
        sums = Array(self.read_data[lane] for lane in range(config.lanes))
        m.d.comb += [
            bias_read.addr.eq(self.element),
            task_read.addr.eq(self.bank),
            requantiser.i.valid.eq(read),
            requantiser.i.payload.value.eq(sums[self.element[: exact_log2(config.lanes)]]),
            requantiser.i.payload.bias.eq(Mux(self.settings.bias, bias_read.data, 0)),
            requantiser.i.payload.scale.eq(task_read.data.scale),
            requantiser.i.payload.shift.eq(self.settings.shift),
            requantiser.i.payload.relu.eq(self.settings.relu),
        ]
        self._pack(m, requantiser.o.payload, digits)
        return m

    def _digit(self, m: Module, sum_: Value, lane: int) -> Signal:
        """Return the digit in turn of a sum."""
        digit, start = Signal(VALUE_BITS, name=f"digit_{lane}"), 0
        with m.Switch(self.digit):
            for number, bits in enumerate(DIGIT_BITS):
                with m.Case(number) if number < len(DIGIT_BITS) - 1 else m.Default():
                    m.d.comb += digit.eq(sum_[start : start + bits])
                start += bits
        return digit

    def _read(self, m: Module, task: data.View) -> Signal:
        """Step through the elements of the oldest complete task; return whether one is read."""
        config, element, bank, complete, credits = self.config, self.element, self.bank, self.complete, self.credits
        digits = self.settings.digits
        # Of digits a chunk is read, instead of an element.
        position, chunk, step = element[: exact_log2(config.elements)], element >> exact_log2(config.lanes), Signal(5)
        beat_start, beat_end = position == 0, position == config.elements - step
        row_end, final = Signal(), Signal()
        # Number of the beat in the row, or in the rows of digits, which begin at granules.
        beat = Signal(range(len(DIGIT_BITS) * config.max_beats))
        in_granule = GRANULE // config.elements - 1
        read = Signal()
        m.d.comb += [
            # A beat begins only if the queue has a free place for it.
            read.eq((complete != 0) & (~beat_start | (credits != 0))),
            step.eq(Mux(digits, config.lanes, 1)),
            row_end.eq(Mux(digits, chunk == self.settings.last_chunk, element == self.settings.f_out - 1)),
            final.eq(row_end & (~digits | (self.digit == len(DIGIT_BITS) - 1))),
            self.released.eq(read & final),
            self.read_bank.eq(bank),
            self.read_chunk.eq(chunk),
        ]
        m.d.sync += [
            complete.eq(complete + self.done - self.released),
            credits.eq(credits - (read & beat_start) + (self.o.valid & self.o.ready)),
        ]
        with m.If(read):
            m.d.sync += [element.eq(element + step), beat.eq(beat + beat_end)]
            with m.If(row_end):
                m.d.sync += [element.eq(0), beat.eq((beat | in_granule) + 1), self.digit.eq(self.digit + 1)]
            with m.If(final):
                m.d.sync += [beat.eq(0), self.digit.eq(0), bank.eq(bank + 1)]
        # The description of a result, which travels beside it through the requantiser, or beside digits past it.
        tag = Signal.like(self.tags[0])
        m.d.comb += [
            tag.valid.eq(read),
            tag.position.eq(position),
            tag.beat_end.eq(beat_end | row_end),
            tag.row_end.eq(final),
            tag.address.eq(task.address + beat),
        ]
        m.d.sync += [self.tags[0].eq(tag), self.tags[0].valid.eq(read & ~digits)]
        m.d.sync += [after.eq(before) for before, after in pairwise(self.tags)]
        with m.If(digits):
            m.d.sync += self.tags[-1].eq(tag)
        m.d.sync += [
            Cover((complete != 0) & beat_start & (credits == 0), "no room for another beat"),
            Cover(complete == config.banks, "every bank waits to be read"),
            Cover(self.done & self.released, "one task completes as another leaves"),
        ]
        return read

    def _pack(self, m: Module, result: Value, digits: data.View) -> None:
        """Collect results, or chunks of digits, into beats."""
        tag, beats = self.tags[-1], self.queue.i
        packed = Signal(data.ArrayLayout(signed(VALUE_BITS), self.config.elements))
        filled = Signal.like(packed)
        for n in range(self.config.elements):
            chosen = ~self.settings.digits & (tag.position == n)
            m.d.comb += filled[n].eq(packed[n] | digits[n] | Mux(chosen, result, 0))
        with m.If(tag.valid):
            m.d.sync += packed.eq(filled)
            with m.If(tag.beat_end):
                m.d.sync += packed.eq(0)
        m.d.comb += [
            beats.valid.eq(tag.valid & tag.beat_end),
            beats.payload.address.eq(tag.address),
            beats.payload.data.eq(filled),
            beats.payload.last.eq(tag.row_end),
        ]
        m.d.sync += Cover(beats.valid & ~tag.row_end, "a row of several beats")
