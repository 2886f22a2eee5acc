"""Drain: reads finished sums, requantises them and packs them into beats of a result row."""

from itertools import pairwise

from amaranth.hdl import Array, Cover, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import ACCUMULATOR_BITS, DIGIT_BITS, SCALE, VALUE_BITS
from contracts.weights import GRANULE
from hw.block_memory import NO_BYPASS
from hw.contracts import struct
from hw.pe.formats import PEConfig
from hw.pe.requantiser import Requantiser
from hw.reset import partly_reset
from hw.stream.queue import Queue

__all__ = ["Drain"]

#: The factor 1, with which a digit passes the requantiser as it is.
_ONE = struct(SCALE).const({"mantissa": 1 << 15, "exponent": 0})
#: Result beats that wait to be written: the depth of a distributed RAM.
_BEATS = 16


class Drain(wiring.Component):
    """Reads and requantises one element a cycle, in the order of the tasks; or reads a digit of it a cycle.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while tasks are under way.
    bias_write : stream of ``config.bias_write``, always ready
    task : stream of ``config.task``, always ready
        A task begins; at most ``config.banks`` are under way.
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

        read = self._read(m, task_read.data)
        sums = Array(self.read_data[lane] for lane in range(config.lanes))
        m.d.comb += [
            bias_read.addr.eq(self.element),
            task_read.addr.eq(self.bank),
            requantiser.i.valid.eq(read),
            requantiser.i.payload.value.eq(self._value(m, sums[self.element[: exact_log2(config.lanes)]])),
            requantiser.i.payload.bias.eq(Mux(self.settings.bias, bias_read.data, 0)),
            requantiser.i.payload.scale.eq(Mux(self.settings.digits, _ONE, task_read.data.scale)),
            requantiser.i.payload.shift.eq(self.settings.shift),
            requantiser.i.payload.relu.eq(self.settings.relu),
        ]
        self._pack(m, requantiser.o.payload)
        return m

    def _value(self, m: Module, sum_: Value) -> Signal:
        """Return a sum, or the digit in turn of it."""
        value, start = Signal(signed(ACCUMULATOR_BITS)), 0
        m.d.comb += value.eq(sum_)
        with m.If(self.settings.digits), m.Switch(self.digit):
            for digit, bits in enumerate(DIGIT_BITS):
                part = sum_[start : start + bits]
                with m.Case(digit):
                    m.d.comb += value.eq(part.as_signed() if digit == len(DIGIT_BITS) - 1 else part)
                start += bits
        return value

    def _read(self, m: Module, task: data.View) -> Signal:
        """Step through the elements of the oldest complete task; return whether one is read."""
        config, element, bank, complete, credits = self.config, self.element, self.bank, self.complete, self.credits
        position = element[: exact_log2(config.elements)]
        beat_start, beat_end = position == 0, position == config.elements - 1
        row_end, final = element == self.settings.f_out - 1, Signal()
        # Number of the beat in the row, or in the rows of digits, which begin at granules.
        beat = Signal(range(len(DIGIT_BITS) * config.max_beats))
        in_granule = GRANULE // config.elements - 1
        read = Signal()
        m.d.comb += [
            # A beat begins only if the queue has a free place for it.
            read.eq((complete != 0) & (~beat_start | (credits != 0))),
            final.eq(row_end & (~self.settings.digits | (self.digit == len(DIGIT_BITS) - 1))),
            self.released.eq(read & final),
            self.read_bank.eq(bank),
            self.read_chunk.eq(element >> exact_log2(config.lanes)),
        ]
        m.d.sync += [
            complete.eq(complete + self.done - self.released),
            credits.eq(credits - (read & beat_start) + (self.o.valid & self.o.ready)),
        ]
        with m.If(read):
            m.d.sync += [element.eq(element + 1), beat.eq(beat + beat_end)]
            with m.If(row_end):
                m.d.sync += [element.eq(0), beat.eq((beat | in_granule) + 1), self.digit.eq(self.digit + 1)]
            with m.If(final):
                m.d.sync += [beat.eq(0), self.digit.eq(0), bank.eq(bank + 1)]
        # The description of a result, which travels beside it through the requantiser.
        tag = self.tags[0]
        m.d.sync += [
            tag.valid.eq(read),
            tag.position.eq(position),
            tag.beat_end.eq(beat_end | row_end),
            tag.row_end.eq(final),
            tag.address.eq(task.address + beat),
            Cover((complete != 0) & beat_start & (credits == 0), "no room for another beat"),
            Cover(complete == config.banks, "every bank waits to be read"),
            Cover(self.done & self.released, "one task completes as another leaves"),
        ]
        return read

    def _pack(self, m: Module, result: Value) -> None:
        """Collect results into beats."""
        for before, after in pairwise(self.tags):
            m.d.sync += after.eq(before)
        tag, beats = self.tags[-1], self.queue.i
        packed = Signal(data.ArrayLayout(signed(VALUE_BITS), self.config.elements))
        filled = Signal.like(packed)
        for n in range(self.config.elements):
            chosen = tag.position == n
            m.d.comb += filled[n].eq(packed[n] | Mux(chosen, result, 0))
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
