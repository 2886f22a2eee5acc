"""Row accumulator: forms shared sums and adds vectors to the rows of a record (I6, I7)."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import VALUE_BITS
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import read_signature, write_signature
from hw.stream.queue import Queue

__all__ = ["RowAccumulator"]


class RowAccumulator(wiring.Component):
    """Adds L elements a cycle; rows and shared sums use the same adders.

    A step reads its operands in one cycle and writes its result in the next; reads see the write of the same cycle, so
    a step may use the previous step's result.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    record : stream of ``config.record``
        Records whose vectors are complete.
    i : stream of ``config.step``
        Their steps.
    vectors
        Two read ports of combined rows, by slot and chunk. Shared sums are stored in the block.
    sums, total
        Write and read port of the sums of rows, by slot and chunk; the read sees a write of the same cycle.
    o : stream of ``config.record``
        Records whose sums are complete.
    worked, gross, formed : Out
        Pulses: an adder cycle; a step to a row; a sum formed.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "record": In(stream.Signature(config.record)),
                "i": In(stream.Signature(config.step)),
                "vectors": Out(read_signature(config.kept_vector, config.slots * config.chunks)).array(2),
                "sums": Out(write_signature(config.chunk, config.slots * config.chunks)),
                "total": Out(read_signature(config.chunk, config.slots * config.chunks)),
                "o": Out(stream.Signature(config.record)),
                "worked": Out(1),
                "gross": Out(1),
                "formed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build two stages: read; add and write."""
        m = Module()
        config = self.config
        # At most `RECORDS` are in progress, so the queue always has room.
        m.submodules.done = done = Queue(config.record, RECORDS)
        wiring.connect(m, done.o, wiring.flipped(self.o))
        m.submodules.shared = shared = memory.Memory(shape=config.chunk, depth=config.columns * config.chunks, init=[])
        shared_write = shared.write_port()
        shared_reads = [shared.read_port(transparent_for=(shared_write,)) for _ in range(2)]

        record, busy = Signal(config.record, reset_less=True), Signal()
        touched = Signal(config.width, reset_less=True)
        takes, leaves = Signal(), Signal()
        m.d.comb += [
            self.record.ready.eq(~busy),
            takes.eq(self.record.valid & self.record.ready),
            done.i.payload.eq(record),
            done.i.valid.eq(leaves),
        ]
        with m.If(takes):
            m.d.sync += [record.eq(self.record.payload), busy.eq(1), touched.eq(0)]

        step, chunk = self.i.payload, Signal(range(config.chunks))
        last_chunk, runs = Signal(), Signal()
        # The step in the second stage, if any.
        adding = Signal()
        form, negative, fresh = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        index = Signal(range(config.columns * config.chunks), reset_less=True)
        row_slot = Signal(range(config.slots * config.chunks), reset_less=True)
        row = Signal(range(config.slots))
        summed = Signal(2, reset_less=True)  # operands that are shared sums
        m.d.comb += [
            last_chunk.eq(chunk == self.settings.last_chunk),
            runs.eq(busy & self.i.valid & step.active),
            self.i.ready.eq(busy & (last_chunk | ~step.active)),
            # The last result is written before the record leaves.
            leaves.eq(busy & self.i.valid & step.last & ~step.active),
            row.eq(record.base + step.row),
            self.total.address.eq(Cat(chunk, row)),
            self.worked.eq(runs),
            self.gross.eq(runs & last_chunk & ~step.form),
            self.formed.eq(runs & last_chunk & step.form),
        ]
        operands = []
        for n, column in enumerate((step.right, step.left)):
            slot = Signal(range(config.slots), name=f"slot_{n}")
            m.d.comb += [
                slot.eq(record.base + column),
                self.vectors[n].address.eq(Cat(chunk, slot)),
                shared_reads[n].addr.eq(Cat(chunk, column)),
                shared_reads[n].en.eq(1),
            ]
            m.d.sync += summed[n].eq(column >= record.rows)
            lanes = range(config.lanes)
            values = list(self.vectors[n].data.data)
            if config.partials:
                values = [Mux(self.vectors[n].data.high, value << VALUE_BITS, value) for value in values]
            operands.append([Mux(summed[n], shared_reads[n].data[k], values[k]) for k in lanes])
        with m.If(leaves):
            m.d.sync += busy.eq(0)
        with m.If(runs):
            m.d.sync += chunk.eq(Mux(last_chunk, 0, chunk + 1))
            with m.If(last_chunk & ~step.form):
                m.d.sync += touched.eq(touched | (1 << step.row))
        m.d.sync += [
            adding.eq(runs),
            form.eq(step.form),
            negative.eq(step.negative),
            fresh.eq(~touched.bit_select(step.row, 1)),
            index.eq(Cat(chunk, step.index)),
            row_slot.eq(self.total.address),
        ]

        m.d.comb += [
            shared_write.en.eq(adding & form),
            shared_write.addr.eq(index),
            self.sums.enable.eq(adding & ~form),
            self.sums.address.eq(row_slot),
        ]
        for lane in range(config.lanes):
            kept = Mux(form, operands[1][lane], Mux(fresh, 0, self.total.data[lane]))
            vector = Signal(signed(config.sum_bits), name=f"vector_{lane}")
            m.d.comb += vector.eq(operands[0][lane])
            # Subtraction as addition of the complement, one carry chain for both.
            total = Signal(config.sum_bits, name=f"total_{lane}")
            m.d.comb += total.eq(kept + (vector ^ negative.replicate(config.sum_bits)).as_signed() + negative)
            m.d.comb += [shared_write.data[lane].eq(total), self.sums.data[lane].eq(total)]
        m.d.sync += [
            Cover(adding & form & runs & (index == Cat(chunk, step.right)), "a sum is used right after it was formed"),
            Cover(adding & ~form & runs & ~step.form & (row_slot == self.total.address), "a row twice in a row"),
        ]
        return m
