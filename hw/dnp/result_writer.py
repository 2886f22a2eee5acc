"""Result writer: the words that leave all processors, collected into rows in memory."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from contracts.dnp.config import WORD
from contracts.dnp.topology import CHIP
from hw.dnp.port import WORD_STREAM
from hw.dnp.row_collector import CollectedBeat, RowCollector
from hw.memory.formats import WriteRequest, beat_address_width
from hw.stream.arbiter import Arbiter

__all__ = ["ResultWriter"]


class ResultWriter(wiring.Component):
    """A row collector for each processor; row r comes from processor r mod 4.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    idle : In(1)
        Load `place`, the beat address of row 0.
    place : In
    row_beats : In
        From one row to the next, in beats.
    vertices, elements : In
        Rows of all processors, and words of a row.
    start : In(4)
        The collector of this processor starts: one a cycle, in order, while `running` is 0.
    running : In(1)
        Words are taken.
    i : streams of signed(16)
        From the processors.
    o : stream of `WriteRequest`
    row_ends : Out(1)
        The last beat of a row is handed on.
    moving, waiting : Out(1)
        Beats are on their way to `o`; a word of a row that is wanted waits.
    some : Out(4)
        Which processors owe a row.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        self.port = (address_width, data_width)
        beat, count = beat_address_width(address_width, data_width), CHIP.processors
        super().__init__(
            {
                "idle": In(1),
                "place": In(beat),
                "row_beats": In(beat),
                "vertices": In(32),
                "elements": In(WORD),
                "start": In(count),
                "running": In(1),
                "i": In(WORD_STREAM).array(count),
                "o": Out(stream.Signature(WriteRequest(address_width, data_width))),
                "row_ends": Out(1),
                "moving": Out(1),
                "waiting": Out(1),
                "some": Out(count),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect collectors and arbiter; step from the place of one processor's first row to the next."""
        m = Module()
        count = CHIP.processors
        collectors = [RowCollector(*self.port) for _ in range(count)]
        m.submodules.arbiter = arbiter = Arbiter(CollectedBeat(*self.port), count)
        place = Signal.like(self.place)
        for n, collector in enumerate(collectors):
            m.submodules[f"collector_{n}"] = collector
            m.d.comb += [
                collector.start.eq(self.start[n]),
                collector.place.eq(place),
                collector.rows.eq((self.vertices + (count - 1 - n)) >> exact_log2(count)),
                collector.stride.eq(self.row_beats << exact_log2(count)),
                collector.elements.eq(self.elements),
                collector.i.valid.eq(self.i[n].valid & self.running),
                collector.i.payload.eq(self.i[n].payload),
                self.i[n].ready.eq(collector.i.ready & self.running),
                self.some[n].eq(collector.some),
            ]
            connect(m, collector.o, arbiter.i[n])
        # A collector starts a cycle after its turn, and so the place of the next one follows.
        with m.If(self.start.any()):
            m.d.sync += place.eq(place + self.row_beats)
        with m.If(self.idle):
            m.d.sync += place.eq(self.place)
        beat = arbiter.o.payload.payload
        m.d.comb += [
            self.o.valid.eq(arbiter.o.valid),
            self.o.payload.eq(beat.write),
            arbiter.o.ready.eq(self.o.ready),
            self.row_ends.eq(self.o.valid & self.o.ready & beat.last),
            self.moving.eq(arbiter.o.valid | Cat(collector.o.valid for collector in collectors).any()),
            self.waiting.eq(Cat(collector.i.valid & collector.some for collector in collectors).any()),
        ]
        return m
