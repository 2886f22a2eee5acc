"""Gather unit: the vertex's own row first, the order of the edges, wrong VIDs, long rows, exact cycles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cocotb
import pytest

from contracts import Error
from hw.chiplet.attention import AttentionUnit
from hw.chiplet.gather import GatherUnit
from hw.pe.formats import Coefficient
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from tb.chiplet.parts import CONFIGURATIONS, Part, begin, config, simulate_parts
from tb.graph.responder import Responder

#: A word that carries no source.
NOTHING = None
Sources = Sequence[int | None]


@dataclass
class Gather:
    """Combined rows in memory and what the unit must make of destinations."""

    part: Part
    memory: Responder
    first_vertex: int = 0
    first_source: int = 0
    sources: int = 32
    partials: int = 0
    combined: int = 3
    stride: int = 1
    beats: int = 1
    self_weight: int = -259
    neighbour_weight: int = 12_345
    weighted: int = 0
    #: Where own rows of their own begin, if there are some.
    own: int | None = None

    @property
    def places(self) -> dict[str, int]:
        """Settings that say where own rows are: among the combined ones, unless there are others."""
        if self.own is not None:
            return {"own": self.own, "first_own": 0}
        return {"own": self.combined, "first_own": self.first_vertex - self.first_source & 0xFFFFFFFF}

    def address(self, index: int, coefficient: Any, beat: int) -> int:
        """Beat address of a row's beat."""
        of_destination = coefficient in (Coefficient.SELF, Coefficient.ZERO)
        base = self.places["own"] if of_destination else self.combined
        return base + index * self.stride + beat

    async def begin(self) -> None:
        """Set the unit up."""
        assert (self.combined + self.sources * self.stride) * self.memory.beat_bytes <= len(self.memory.image)
        settings = {
            **self.places,
            "first_source": self.first_source,
            "sources": self.sources,
            "partials": self.partials,
            "combined": self.combined,
            "stride": self.stride,
            "last_beat": self.beats - 1,
            "self_weight": self.self_weight,
            "neighbour_weight": self.neighbour_weight,
            "weighted": self.weighted,
        }
        self.part.set("settings", settings)
        await self.part.pulse("start")

    def rows(self, vertex: int, words: Sources, weights: Sequence[int]) -> list[tuple[int, Any, int]]:
        """Rows of a destination, what they are to it, and their factors; reports wrong VIDs."""
        own = self.places["first_own"] + vertex
        rows: list[tuple[int, Any, int]] = [(own, Coefficient.SELF, self.self_weight)]
        for number, (vid, weight) in enumerate(zip(words, weights, strict=True)):
            last = number == len(words) - 1
            if vid is NOTHING:
                rows += [(own, Coefficient.ZERO, 0)] * (last and len(words) > 1)
            elif 0 <= vid - self.first_source < self.sources:
                number_of_half = vid - self.first_source - (self.sources - self.partials)
                high = number_of_half >= 0 and number_of_half % 2
                coefficient = Coefficient.NEIGHBOUR_HIGH if high else Coefficient.NEIGHBOUR
                factor = weight if self.weighted else self.neighbour_weight
                rows.append((vid - self.first_source, coefficient, factor))
            else:
                rows.append((own, Coefficient.ZERO, 0))
                self.part.expect("error", [{"code": Error.VID_RANGE, "info": vid}])
        return rows

    def run(self, destinations: Sequence[Sources]) -> int:
        """Feed the sources of vertices and expect their rows; return the number of rows."""
        count = 0
        for vertex, words in enumerate(destinations):
            weights = [self.part.random.choice((0, 32767, -32768, self.part.random.getrandbits(15))) for _ in words]
            rows = self.rows(vertex, words, weights)
            count += len(rows)
            for number, vid in enumerate(words):
                empty = int(vid is NOTHING)
                # What an empty word carries may look like a source.
                random = self.part.random
                source = self.first_source + random.randrange(self.sources)
                junk = random.choice((random.getrandbits(32), source & 0xFFFFFFFF))
                last = int(number == len(words) - 1)
                source = junk if vid is NOTHING else vid
                self.part.drive("i", [{"data": source, "weight": weights[number], "last": last, "empty": empty}])
            for number, (index, coefficient, scalar) in enumerate(rows):
                for beat in range(self.beats):
                    address = self.address(index, coefficient, beat)
                    self.part.expect(
                        "o",
                        [
                            {
                                "data": self.memory.beat(address),
                                "coefficient": coefficient.value,
                                "scalar": scalar,
                                "first": int(number == 0 and beat == 0),
                                "last": int(number == len(rows) - 1 and beat == self.beats - 1),
                            }
                        ],
                    )
        return count


async def make(dut: Any, idle: float = 0.0, stall: float = 0.0, **settings: int) -> Gather:
    part = await begin(dut, "gather", idle=idle, stall=stall)
    beat_bytes = config().data_width // 8
    image = part.random.randbytes(400 * beat_bytes)
    gather = Gather(part, Responder(part.bench, part.port("request"), part.port("beat"), beat_bytes, image), **settings)
    await gather.begin()
    return gather


def random_destinations(gather: Gather, count: int, wrong: float = 0.0) -> list[Sources]:
    random = gather.part.random
    destinations: list[Sources] = []
    for _ in range(count):
        words: list[int | None] = [
            random.choice([gather.first_source - 1 & 0xFFFFFFFF, gather.first_source + gather.sources, 0xFFFFFFFF])
            if random.random() < wrong
            else gather.first_source + random.randrange(gather.sources)
            for _ in range(random.choice((0, 1, 2, 7)))
        ]
        # Words without a source: all of a destination, the end of one, or between its tiles.
        if not words or random.random() < 0.3:
            words.append(NOTHING)
        if random.random() < 0.2:
            words.insert(random.randrange(len(words)), NOTHING)
        destinations.append(words)
    return destinations


@cocotb.test()
async def a_vertex_s_own_row_comes_first_and_edges_keep_their_order(dut: Any) -> None:
    gather = await make(dut)
    gather.run([[4, 1, 4, 0], [NOTHING], [2]])
    await gather.part.bench.drain()
    assert gather.memory.asked == [gather.combined + row for row in (0, 4, 1, 4, 0, 1, 2, 2)]


@cocotb.test()
async def sources_without_a_row_are_reported_and_count_nothing(dut: Any) -> None:
    gather = await make(dut, first_vertex=1_002, first_source=1_000, sources=8)
    gather.run([[999], [1_008], [0xFFFFFFFF, 1_000], [1_007, 0, 1_001], [1_000]])
    await gather.part.bench.drain()


@cocotb.test()
async def the_last_sources_are_halves_of_partial_sums(dut: Any) -> None:
    gather = await make(dut)
    for first_source in (0, 7):
        for sources, partials in ((9, 4), (8, 4), (8, 8), (5, 1)):
            gather.first_source = gather.first_vertex = first_source
            gather.sources, gather.partials = sources, partials
            await gather.begin()
            gather.run([[first_source + source] for source in range(sources)])
            await gather.part.bench.drain()


@cocotb.test()
async def edges_may_have_factors_of_their_own(dut: Any) -> None:
    """Halves of partial sums and sources without a row among them; edges without weights afterwards."""
    gather = await make(dut, weighted=1, sources=10, partials=4)
    for weighted in (1, 0, 1):
        gather.weighted = weighted
        await gather.begin()
        gather.run([[1, 9, 8, 10, 3, 4], [NOTHING], [5], [6, NOTHING], [0xFFFFFFFF], [7, 7]])
        await gather.part.bench.drain()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def random_destinations_under_stalls(dut: Any, idle: float, stall: float) -> None:
    beats = config().max_beats
    strides = sorted({1, beats})
    gather = await make(dut, idle, stall)
    for stride in strides:
        for length in range(1, stride + 1):
            gather.first_source = gather.part.random.choice((0, 70_000, 0xFFFFFF00))
            gather.first_vertex = gather.first_source + gather.part.random.randrange(8)
            gather.stride, gather.beats = stride, length
            gather.weighted = gather.part.random.getrandbits(1)
            gather.self_weight, gather.neighbour_weight = (gather.part.random.randrange(-32768, 32768) for _ in "01")
            gather.partials = gather.part.random.choice((0, 1, 6, 15, gather.sources))
            gather.own = gather.part.random.choice((None, gather.part.random.randrange(200)))
            await gather.begin()
            gather.run(random_destinations(gather, 16, wrong=0.15))
            await gather.part.bench.drain()


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def parts_of_rows_at_any_distance_are_read(dut: Any, stall: float) -> None:
    """As rows of features: longer than a combined row, further from each other than they are long."""
    gather = await make(dut, stall=stall)
    longest = config().max_feature_beats
    for length, stride in ((longest, longest + 3), (3, 40), (1, longest + 5)):
        gather.beats, gather.stride, gather.sources = length, stride, 2
        await gather.begin()
        assert gather.run([[NOTHING], [NOTHING]]) == 2
        await gather.part.bench.drain()


@cocotb.test()
async def the_widest_settings_are_kept(dut: Any) -> None:
    gather = await make(dut)
    top = (1 << config().address_width) // gather.memory.beat_bytes
    base = top - config().max_beats * 4
    gather.part.set(
        "settings",
        {
            "own": base,
            "first_own": 1,
            "first_source": 0xFFFFFFFC,
            "sources": 4,
            "combined": base,
            "stride": config().max_beats,
            "last_beat": config().max_beats - 1,
        },
    )
    await gather.part.pulse("start")
    gather.part.drive("i", [{"data": 0xFFFFFFFF, "last": 1}])
    taken = gather.part.take("o")
    await gather.part.bench.until(lambda: len(taken) == 2 * config().max_beats)
    beats = range(config().max_beats)
    assert gather.memory.asked == [base + row * config().max_beats + beat for row in (1, 3) for beat in beats]


@cocotb.test()
async def every_bit_of_vids_and_addresses_counts(dut: Any) -> None:
    """Take settings from the whole range; addresses wrap at the port's width."""
    gather = await make(dut)
    part, random = gather.part, gather.part.random
    port = 1 << config().beat_address_width
    taken = part.take("o")
    for number in range(92):
        gather.first_source = random.getrandbits(random.randrange(1, 33))
        gather.sources = random.randrange(1, min(1 << random.randrange(1, 33), 0x1_0000_0000 - gather.first_source) + 1)
        gather.sources = min(gather.sources, 0xFFFFFFFF)
        gather.partials = random.randrange(gather.sources + 1)
        if number < 32:
            # Carries over each bit of the comparisons.
            gather.partials = 1 << number
            gather.sources = gather.partials + random.randrange(min(5, 0x1_0000_0000 - gather.partials))
            gather.first_source = random.choice((0, 0x1_0000_0000 - gather.sources))
        gather.first_vertex = gather.first_source + random.randrange(gather.sources)
        gather.stride = gather.beats = random.randrange(1, config().max_beats + 1)
        gather.combined = random.getrandbits(config().beat_address_width)
        gather.own = random.choice((None, random.getrandbits(config().beat_address_width)))
        settings = {name: getattr(gather, name) for name in ("first_source", "sources", "partials")} | gather.places
        settings |= {"combined": gather.combined, "stride": gather.stride, "last_beat": gather.beats - 1}
        part.set("settings", settings)
        await part.pulse("start")
        top = gather.first_source + gather.sources
        near = (
            gather.first_source - 1,
            gather.first_source,
            top - 1,
            top,
            top - gather.partials - 1,
            top - gather.partials,
            random.getrandbits(32),
        )
        words = [random.choice((*near, random.randrange(gather.first_source, top))) & 0xFFFFFFFF for _ in range(8)]
        rows = gather.rows(0, words, [0] * len(words))
        for number, vid in enumerate(words):
            part.drive("i", [{"data": vid, "last": int(number == len(words) - 1)}])
        count = len(rows) * gather.beats
        await part.bench.until(lambda count=count: len(taken) == count)  # type: ignore[misc]
        wanted = [gather.address(*row[:2], beat) % port for row in rows for beat in range(gather.beats)]
        assert gather.memory.asked == wanted
        codes = [coefficient.value for _, coefficient, _ in rows for _ in range(gather.beats)]
        assert [beat["coefficient"] for beat in taken] == codes
        await part.bench.drain()
        taken.clear()
        gather.memory.asked.clear()


@cocotb.test()
@cocotb.parametrize(edges=[True, False])
async def a_row_a_cycle_is_sustained(dut: Any, edges: bool) -> None:
    gather = await make(dut)
    began = gather.part.bench.cycle
    count = gather.run([[1, 2, 3, 4, 5]] * 20 if edges else [[NOTHING]] * 120)
    assert count == 120
    cycles = await gather.part.bench.drain() - began
    assert cycles < count + 16
    expect_cycles(f"chiplet.gather.{'edges' if edges else 'alone'}.{parameters()['configuration']}", cycles)


@cocotb.test()
async def a_beat_a_cycle_is_sustained(dut: Any) -> None:
    beats = config().max_beats
    gather = await make(dut, stride=beats, beats=beats)
    began = gather.part.bench.cycle
    count = gather.run([[1, 2, 3, 4, 5]] * 10)
    cycles = await gather.part.bench.drain() - began
    assert cycles < count * beats + 16
    expect_cycles(f"chiplet.gather.beats.{parameters()['configuration']}", cycles)


@cocotb.test()
async def a_stalled_output_holds_up_no_memory_beat(dut: Any) -> None:
    """No more is asked for than there is room for, whatever waits."""
    gather = await make(dut, stall=0.0)
    gather.part.pace(stall={"o": 1.0})
    gather.run([[1, 2, 3, 4, 5]] * 30)
    await gather.part.bench.cycles(200)
    assert gather.part.component.depth <= len(gather.memory.asked) <= gather.part.component.depth + AttentionUnit.DEPTH
    gather.part.pace(stall={"o": 0.0})
    await gather.part.bench.drain()


@cocotb.test()
async def reset_in_the_middle_is_followed_by_right_rows(dut: Any) -> None:
    gather = await make(dut, stride=config().max_beats, beats=config().max_beats)
    for _ in range(6):
        gather.part.pace(stall={"o": 0.5})
        gather.run(random_destinations(gather, 12))
        await gather.part.bench.cycles(gather.part.random.randrange(5, 60))
        await gather.part.bench.reset()
        gather.part.pace(stall={"o": 0.0})
        await gather.begin()
        gather.run(random_destinations(gather, 4))
        await gather.part.bench.drain()
        await gather.begin()


@cocotb.test()
async def start_begins_with_the_first_vertex_again(dut: Any) -> None:
    gather = await make(dut)
    for _ in range(3):
        gather.run([[3], [NOTHING], [5, 6]])
        await gather.part.bench.drain()
        await gather.begin()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_gather(configuration: str) -> None:
    simulate_parts(configuration, __name__)


def test_gather_refuses() -> None:
    with pytest.raises(ValueError, match=r"depth must be in 16\.\.4096, not 8"):
        GatherUnit(depth=8)
    with pytest.raises(ValueError, match="max_beats must be at least 1, not 0"):
        GatherUnit(max_beats=0)
