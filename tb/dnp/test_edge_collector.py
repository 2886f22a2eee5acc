"""Edge collector: words of each source stay in order and say where they are from; packets end where they should."""

from typing import Any

import cocotb

from contracts.dnp.board import BEAT, BeatKind
from hw.dnp.edge_collector import EdgeCollector
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

EDGES = 3


#: Bits of the number of results in a packet.
WIDEST = 16


def bits() -> int:
    """Return the width of that number: all of it, or few bits, so that it can be counted through."""
    return int(parameters().get("bits", WIDEST))


class Collector:
    """The block between all sources and a stream."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut, self.edges = bench, bench.dut, parameters()["edges"]
        self.dut.packet.value = 0
        self.came: list[tuple[dict[str, int], int]] = []
        self.given = self.read = 0
        bench.take("o", lambda word: self.came.append((BEAT.unpack(pack(word["beat"])), word["last"])))
        cocotb.start_soon(self._watch())

    @classmethod
    async def make(cls, dut: Any) -> "Collector":
        """Start the clock and reset."""
        return cls(await start(dut, EdgeCollector(parameters()["edges"], bits())))

    async def all_come(self, count: int) -> None:
        """Wait for so many beats."""
        await self.bench.until(lambda: len(self.came) == count, 3000)

    async def _watch(self) -> None:
        while True:
            await self.bench.edge
            self.given += int(self.dut.given.value)
            self.read += int(self.dut.read.value)

    def of(self, kind: BeatKind, port: int = 0) -> list[int]:
        """Return the words that came from a source."""
        return [beat["word"] for beat, _ in self.came if (beat["kind"], beat["port"]) == (kind, port)]


def pack(beat: Any) -> int:
    """Return a beat as a number."""
    return beat if isinstance(beat, int) else BEAT.pack(beat)


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def words_of_all_sources_are_merged(dut: Any, pace: float) -> None:
    """With packets of any number of results; answers and ends have packets of their own."""
    collector = await Collector.make(dut)
    bench, random = collector.bench, collector.bench.random
    for packet in (0, 1, 2, 5, 7):
        dut.packet.value = packet
        bench.pace(idle=pace, stall=pace)
        await bench.cycles(2)
        results = {n: [random.randrange(-32768, 32768) for _ in range(random.randrange(20, 50))]
                   for n in range(collector.edges)}  # fmt: skip
        answers = [{"word": random.getrandbits(16), "last": int(random.random() < 0.3)} for _ in range(30)]
        for n, words in results.items():
            bench.drive(f"i__{n}", words)
        bench.drive("answer", answers)
        total = sum(map(len, results.values()))
        await collector.all_come(total + len(answers))
        for end in (0, 1):
            bench.drive("end", [end])
            await collector.all_come(total + len(answers) + 1 + end)
        await bench.cycles(20)
        assert len(collector.came) == total + len(answers) + 2
        for n, words in results.items():
            assert collector.of(BeatKind.EDGE, n) == [word & 0xFFFF for word in words]
        assert collector.of(BeatKind.G_BUS) == [answer["word"] for answer in answers]
        assert collector.of(BeatKind.END) == [0, 1]
        lasts = {kind: [last for beat, last in collector.came if beat["kind"] == kind] for kind in BeatKind}
        assert lasts[BeatKind.G_BUS] == [answer["last"] for answer in answers]
        assert lasts[BeatKind.END] == [1, 1]
        assert lasts[BeatKind.EDGE] == [int(bool(packet) and (n + 1) % packet == 0) for n in range(total)]
        assert (collector.given, collector.read) == (total, len(answers))
        collector.given = collector.read = 0
        collector.came.clear()


@cocotb.test()
async def an_end_begins_the_count_of_results_anew(dut: Any) -> None:
    collector = await Collector.make(dut)
    bench = collector.bench
    dut.packet.value = 3
    for count in range(1, 8):
        bench.drive("i__1", range(count))
        await bench.drain(quiet=8)
        bench.drive("end", [0])
        await bench.drain(quiet=8)
        assert [last for _, last in collector.came] == [*(int(n % 3 == 2) for n in range(count)), 1]
        collector.came.clear()


@cocotb.test()
async def every_bit_of_the_count_counts(dut: Any) -> None:
    """Set it two short of each power of two where it is too wide to be counted through."""
    collector = await Collector.make(dut)
    bench = collector.bench
    for bit in range(1, bits() + 1):
        dut.packet.value = packet = (1 << bit) - (bit == bits())
        before = packet - 2
        if bits() == WIDEST:
            dut.count.value = before
            await bench.edge
        else:
            bench.drive("i__1", range(before))
            await bench.drain(quiet=8)
            assert not any(last for _, last in collector.came)
            collector.came.clear()
        bench.drive("i__0", [1, 2, 3])
        await bench.drain(quiet=8)
        assert [last for _, last in collector.came] == [0, 1, int(packet == 1)]
        bench.drive("end", [0])
        await bench.drain(quiet=8)
        collector.came.clear()


@cocotb.test()
async def a_word_passes_in_every_clock_and_a_source_alone_too(dut: Any) -> None:
    collector = await Collector.make(dut)
    bench = collector.bench
    for sources in ([0], [0, 1, 2], [2]):
        began = bench.cycle
        for n in sources:
            bench.drive(f"i__{n}", range(60))
        await collector.all_come(60 * len(sources))
        assert bench.cycle - began <= 60 * len(sources) + 8
        collector.came.clear()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    collector = await Collector.make(dut)
    bench = collector.bench
    dut.packet.value = 4
    for clocks in range(1, 14):
        bench.drive("i__0", range(20))
        bench.drive("answer", [{"word": 3, "last": 0}] * 5)
        await bench.cycles(clocks)
        await bench.reset()
        await bench.cycles(3)
        collector.came.clear()
        bench.drive("i__1", range(9))
        await bench.drain(quiet=8)
        assert [last for _, last in collector.came] == [int(n % 4 == 3) for n in range(9)]
        bench.drive("end", [0])
        await bench.drain(quiet=8)


def test_edge_collector() -> None:
    simulate(EdgeCollector(EDGES), __name__, parameters={"edges": EDGES})
