"""Summer: forms shared sums and adds vectors to the rows of a record (I6, I7)."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import CommunityConfig
from hw.community.halves import port_signature
from hw.stream.queue import Queue

__all__ = ["Summer"]


class Summer(wiring.Component):
    """L elements a cycle: one adder serves rows and shared sums alike.

    A step reads its operands in one cycle and writes its result in the next; reads see what is written meanwhile, so a
    step may use the result of the one before.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    record : stream of ``config.record``
        Records whose vectors are there.
    i : stream of ``config.step``
        Their steps.
    vectors
        Combined rows by column and chunk; two reads.
    sums
        Where the sums of rows go, by row and chunk; one read.
    sums_freed : In(1)
        The sums of a record are not needed any more.
    o : stream of ``config.record``
        Records whose sums are there.
    freed : Out(1)
        The vectors of a record are not needed any more.
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
                "vectors": Out(port_signature(config.chunk, config.columns * config.chunks, 2)),
                "sums": Out(port_signature(config.chunk, config.width * config.chunks, 1)),
                "sums_freed": In(1),
                "o": Out(stream.Signature(config.record)),
                "freed": Out(1),
                "worked": Out(1),
                "gross": Out(1),
                "formed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Two stages: read, add and write."""
        m = Module()
        config = self.config
        # There are only as many records as halves of sums, so the queue always has room.
        m.submodules.done = done = Queue(config.record, 2)
        wiring.connect(m, done.o, wiring.flipped(self.o))

        record, busy, free = Signal(config.record), Signal(), Signal(2, init=2)
        touched = Signal(config.width)
        takes, leaves = Signal(), Signal()
        m.d.comb += [
            self.record.ready.eq(~busy & (free != 0)),
            takes.eq(self.record.valid & self.record.ready),
            done.i.payload.eq(record),
            done.i.valid.eq(leaves),
            self.freed.eq(leaves),
        ]
        m.d.sync += free.eq(free - takes + self.sums_freed)
        with m.If(takes):
            m.d.sync += [record.eq(self.record.payload), busy.eq(1), touched.eq(0)]

        step, chunk = self.i.payload, Signal(range(config.chunks))
        last_chunk = chunk == self.settings.last_chunk
        runs = busy & self.i.valid & step.active
        adding, form, negative, fresh = Signal(), Signal(), Signal(), Signal()
        place, row_place = Signal(range(config.columns * config.chunks)), Signal(range(config.width * config.chunks))
        m.d.comb += [
            self.i.ready.eq(busy & (last_chunk | ~step.active)),
            # The last result is written before the record leaves.
            leaves.eq(busy & self.i.valid & step.last & ~step.active),
            self.vectors.active.eq(busy),
            self.vectors.half.eq(record.slot[0]),
            self.vectors.address[0].eq(Cat(chunk, step.right)),
            self.vectors.address[1].eq(Cat(chunk, step.left)),
            self.sums.active.eq(busy),
            self.sums.half.eq(record.slot[0]),
            self.sums.address[0].eq(Cat(chunk, step.row)),
            self.worked.eq(runs),
            self.gross.eq(runs & last_chunk & ~step.form),
            self.formed.eq(runs & last_chunk & step.form),
        ]
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
            place.eq(Cat(chunk, step.index)),
            row_place.eq(Cat(chunk, step.row)),
        ]

        m.d.comb += [
            self.vectors.write.eq(adding & form),
            self.vectors.write_address.eq(place),
            self.sums.write.eq(adding & ~form),
            self.sums.write_address.eq(row_place),
        ]
        for lane in range(config.lanes):
            kept = Mux(form, self.vectors.data[1][lane], Mux(fresh, 0, self.sums.data[0][lane]))
            vector = self.vectors.data[0][lane]
            # Subtraction as addition of the complement, one carry chain for both.
            total = kept + (vector ^ negative.replicate(config.sum_bits)).as_signed() + negative
            m.d.comb += [self.vectors.write_data[lane].eq(total), self.sums.write_data[lane].eq(total)]
        m.d.sync += [
            Cover(self.record.valid & ~busy & (free == 0), "sums wait to be finished"),
            Cover(adding & form & runs & (place == Cat(chunk, step.right)), "a sum is used right after it was formed"),
            Cover(adding & ~form & runs & ~step.form & (row_place == Cat(chunk, step.row)), "a row twice in a row"),
        ]
        return m
