"""Beat store: keeps the features that wait for several combiners in one block memory (I6)."""

from amaranth.hdl import Assert, Cat, Cover, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.bits import choose
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.formats import CommunityConfig
from hw.lowest import next_one

__all__ = ["BeatStore"]


class BeatStore(wiring.Component):
    """A queue for each combiner; one word is written and one is read in a cycle, for those that have room in turn.

    A combiner takes several cycles for a beat, so one memory serves all, and each has only a few registers of its own.

    Parameters
    ----------
    config : CommunityConfig
    combiners
        Number of combiners, at least 1.

    Attributes
    ----------
    i : stream of ``config.fed_beat``, always ready
        Beats; of each combiner at most ``config.queue`` that it has not taken.
    o : streams of ``config.pe.task_beat``, always ready
        The beats of each combiner, of which at most ``config.pe.queue`` are not taken.
    taken : In(1) for every combiner
        Pulse: it has begun a beat.
    """

    def __init__(self, config: CommunityConfig, combiners: int) -> None:
        if combiners < 1:
            raise ValueError(f"combiners must be at least 1, not {combiners!r}")
        self.config, self.combiners = config, combiners
        super().__init__(
            {
                "i": In(stream.Signature(config.fed_beat(combiners), always_ready=True)),
                "o": Out(stream.Signature(config.pe.task_beat, always_ready=True)).array(combiners),
                "taken": In(1).array(combiners),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Write behind the youngest beat of a combiner, read the oldest one of another."""
        m = Module()
        config, count = self.config, self.combiners
        place_bits, bits = ceil_log2(config.queue), max(1, ceil_log2(count))
        m.submodules.beats = beats = Memory(
            shape=config.pe.task_beat, depth=1 << bits + place_bits, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = beats.write_port(), registered_read(m, beats)
        # Places of the oldest beat and behind the youngest one; room in the combiner's own registers.
        firsts, ends = ([Signal(place_bits + 1, name=f"{name}_{n}") for n in range(count)] for name in ("first", "end"))
        rooms = [Signal(range(config.pe.queue + 1), name=f"room_{n}", init=config.pe.queue) for n in range(count)]
        wants, chosen, last = Signal(1 << bits), Signal(bits), Signal(bits)
        to: Value = self.i.payload.combiner
        m.d.comb += [
            wants.eq(Cat((first != end) & (room != 0) for first, end, room in zip(firsts, ends, rooms, strict=True))),
            chosen.eq(next_one(wants, last)),
            write.en.eq(self.i.valid),
            write.addr.eq(Cat(choose(ends, to)[:place_bits], to)),
            write.data.eq(self.i.payload.beat),
            read.addr.eq(Cat(choose(firsts, chosen)[:place_bits], chosen)),
        ]
        with m.If(wants.any()):
            m.d.sync += last.eq(chosen)
        for n, (first, end, room) in enumerate(zip(firsts, ends, rooms, strict=True)):
            reads, writes = Signal(name=f"reads_{n}"), Signal(name=f"writes_{n}")
            m.d.comb += [
                reads.eq(wants[n] & (chosen == n)),
                writes.eq(self.i.valid & (to == n)),
                self.o[n].payload.eq(read.data),
            ]
            m.d.sync += [
                first.eq(first + reads),
                end.eq(end + writes),
                room.eq(room - reads + self.taken[n]),
                self.o[n].valid.eq(reads),
                Assert(~writes | ((end - first)[: place_bits + 1] != 1 << place_bits), "a beat has room"),
                Cover(reads & (room == 1), "the last register of a combiner is filled"),
            ]
        return m
