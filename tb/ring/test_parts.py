"""Filter array, filter generator, remote array and needed list, by the specification's examples and at random."""

import random
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import cocotb
import numpy as np
from amaranth.hdl import Const
from cocotb.triggers import RisingEdge

from contracts import Error
from golden.ring.matching import FilterWindow, bound_of, departures, filter_requests, needed_list
from hw.ring.formats import LinkState
from sim.harness import simulate
from sim.harness.bench import Bench
from sim.ring.parts import BITMAP, CHIPLETS, DATA, ENTRIES, RingParts
from tb.ring.control_tests import *  # noqa: F403  # cocotb looks for tests in this module
from tb.ring.memory_tests import *  # noqa: F403
from tb.ring.packet_tests import *  # noqa: F403
from tb.ring.part_bench import begin, pack, pulse, rises
from tb.ring.share_tests import *  # noqa: F403
from tb.ring.sum_tests import *  # noqa: F403
from tb.ring.unit_tests import *  # noqa: F403

LIST_ADDRESS = 0x1000


def as_words(values: list[int]) -> list[dict[str, int]]:
    """Words of a range as a range reader brings them."""
    if not values:
        return [{"data": 0, "last": 1, "error": 0, "empty": 1}]
    return [
        {"data": value, "last": int(n == len(values) - 1), "error": 0, "empty": 0} for n, value in enumerate(values)
    ]


def as_beats(source: random.Random, values: Sequence[int]) -> list[dict[str, int]]:
    """Beats of a range as a range reader brings them, from any word on."""
    if not values:
        return [{"data": source.getrandbits(DATA), "mask": 0, "last": 1, "error": 0}]
    width = DATA // 32
    start = source.randrange(width)
    words: list[int | None] = [None] * start + list(values)
    words += [None] * (-len(words) % width)
    return [
        {
            "data": pack([source.getrandbits(32) if word is None else word for word in words[at : at + width]]),
            "mask": sum(1 << n for n, word in enumerate(words[at : at + width]) if word is not None),
            "last": int(at + width == len(words)),
            "error": 0,
        }
        for at in range(0, len(words), width)
    ]


# Remote array ---------------------------------------------------------------------------------------------------------


async def sends(
    bench: Bench, dut: Any, out_tiles: list[int], chiplets: int, position: int, first: int
) -> list[tuple[int, int]]:
    """Feed tiles; return departures."""
    got: list[tuple[int, int]] = []
    bench.take("remote_o", lambda word: got.append((word["vid"], word["destination"])))
    dut.remote_position.value = position
    dut.remote_chiplets.value = chiplets
    dut.remote_first_vertex.value = first
    await pulse(dut, "remote_start")
    bench.drive("remote_i", as_beats(bench.random, out_tiles))
    await rises(dut, "remote_done")
    return got


@cocotb.test()
async def r11_worked_example_of_the_remote_array(dut: Any) -> None:
    """Chip 0 has 1-0, 4-0, 7-0, chip 1 has 1-6, 2-6, 3-6: 4 and 7 leave chip 0, 1, 2 and 3 leave chip 1."""
    bench = await begin(dut)
    # Results of chip 0 are 0, 1, 4 and 7, of chip 1 they are 6, 1, 2 and 3; those of the other chip have one
    # entry in its tile. Rows are VIDs 0..7.
    for chip, results in enumerate(([0, 1, 4, 7], [6, 1, 2, 3])):
        out_tiles = [(vid in results) << vid // 4 for vid in range(8)]
        got = await sends(bench, dut, out_tiles, 2, chip, 0)
        assert [vid for vid, _ in got] == ([4, 7], [1, 2, 3])[chip]
        assert {destination for _, destination in got} == {1 - chip}


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def a_vertex_travels_to_its_farthest_consumer(dut: Any, idle: float, stall: float) -> None:
    bench = await begin(dut, idle=idle, stall=stall)
    errors: list[dict[str, int]] = []
    bench.take("remote_error", errors.append)
    for _ in range(12):
        chiplets = bench.random.randrange(2, 17)
        position = bench.random.randrange(chiplets)
        rows = bench.random.randrange(20)
        # None, one, any and all.
        out_tiles = [
            bench.random.choice((0, 1 << bench.random.randrange(chiplets), bench.random.getrandbits(chiplets), -1))
            & ((1 << chiplets) - 1)
            for _ in range(rows)
        ]
        first = bench.random.randrange((1 << 32) - 20)
        got = await sends(bench, dut, out_tiles, chiplets, position, first)
        assert got == departures(np.array(out_tiles, dtype=np.int64), chiplets, position, first)
        assert not errors


@cocotb.test()
@cocotb.parametrize(chiplets=[2, 7, 16])
async def a_vertex_a_cycle(dut: Any, chiplets: int) -> None:
    """Whether it travels or not."""
    bench = await begin(dut)
    out_tiles = [bench.random.getrandbits(chiplets) * (n % 5 != 0) for n in range(500)]
    before = bench.cycle
    errors: list[dict[str, int]] = []
    bench.take("remote_error", errors.append)
    got = await sends(bench, dut, out_tiles, chiplets, 1, 1000)
    assert bench.cycle - before <= len(out_tiles) + 12
    assert not errors
    assert got == departures(np.array(out_tiles), chiplets, 1, 1000)


@cocotb.test()
async def a_tile_of_no_chiplet_is_reported_with_its_row(dut: Any) -> None:
    """Any bit beyond the ring; nothing travels from there on, until the next start."""
    bench = await begin(dut)
    errors: list[dict[str, int]] = []
    bench.take("remote_error", errors.append)
    for chiplets in (2, 5, 16):
        for bit in range(chiplets, 32):
            row = bench.random.randrange(1, 40)
            out_tiles = [2] * row + [1 << bit | 2] + [2] * 3
            errors.clear()
            got = await sends(bench, dut, out_tiles, chiplets, 0, 10)
            assert errors == [{"code": Error.TILE_RANGE, "info": row}]
            assert got == [(10 + n, 1) for n in range(row)]


# Needed list ----------------------------------------------------------------------------------------------------------


def as_marks(vids: list[int], first: int, words: int) -> list[int]:
    """Return words of a list, from the one at `first` on."""
    marked = [0] * words
    for vid in vids:
        if first <= vid // 32 < first + words:
            marked[vid // 32 - first] |= 1 << vid % 32
    return marked


def marked_by(words: list[int]) -> list[int]:
    """Return the VIDs of a list's words."""
    return [32 * n + bit for n, word in enumerate(words) for bit in range(32) if word >> bit & 1]


def taken(sources: Iterable[int], boundaries: Sequence[int], position: int) -> list[int]:
    """Return the VIDs whose rows a chiplet needs."""
    vids = np.fromiter(sources, dtype=np.int64)
    return needed_list(vids, boundaries[position], boundaries[position + 1], boundaries[-1]).tolist()


async def kept(bench: Bench, dut: Any, vertices: int) -> list[int]:
    """Ask for the words of a list that is kept, a few at a time; return them."""
    got: list[int] = []
    ends, count = [0], -(-vertices // 32)
    while ends[-1] < count:
        ends.append(min(count, ends[-1] + bench.random.choice((1, 2, 4, 7))))

    def took(word: dict[str, int]) -> None:
        got.append(word["data"])
        assert (word["last"], word["error"], word["empty"]) == (int(len(got) in ends), 0, 0)

    bench.take("needed_words", took)
    bench.drive("needed_asks", [{"address": first, "words": end - first} for first, end in pairwise(ends)])
    await bench.until(lambda: len(got) == count)
    return got


async def lists(bench: Bench, dut: Any, sources: list[int], boundaries: list[int], position: int) -> list[int]:
    """Feed sources as often as they are asked for; return the VIDs of the list, kept or not."""
    got: list[int] = []
    bench.take("needed_o", got.append)
    asked: list[dict[str, int]] = []

    def answer(request: dict[str, int]) -> None:
        asked.append(request)
        bench.drive("needed_i", as_beats(bench.random, sources))

    bench.take("needed_request", answer)
    dut.needed_position.value = position
    dut.needed_boundaries.value = pack(boundaries)
    others = {"address": bench.random.getrandbits(30), "words": bench.random.getrandbits(32)}
    dut.needed_others.value = others["address"] | others["words"] << 30
    await pulse(dut, "needed_start")
    await rises(dut, "needed_done")
    vertices = boundaries[-1]
    assert asked == [others] * max(1, -(-vertices // BITMAP))
    assert int(dut.needed_kept.value) == (vertices <= BITMAP)
    if vertices <= BITMAP:
        assert not got
        for _ in range(2):
            # It stays for the next pass.
            got = await kept(bench, dut, vertices)
    else:
        assert len(got) == 4 * -(-vertices // 128)
    return marked_by(got)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def sources_elsewhere_come_sorted_and_once(dut: Any, idle: float, stall: float) -> None:
    bench = await begin(dut, idle=idle, stall=stall)
    for vertices in (1, 40, 64, 65, 200, BITMAP, BITMAP + 1, 3 * BITMAP):
        inner = sorted(bench.random.randrange(vertices + 1) for _ in range(CHIPLETS - 1))
        boundaries = [0, *inner, vertices]
        position = bench.random.randrange(CHIPLETS)
        count = bench.random.choice((0, 5, 150))
        sources = [bench.random.randrange(vertices) for _ in range(count)]
        got = await lists(bench, dut, sources, boundaries, position)
        assert got == taken(sources, boundaries, position)


@cocotb.test()
async def each_vertex_of_others_is_marked(dut: Any) -> None:
    """All vertices of small graphs, so that those at every boundary are among them."""
    bench = await begin(dut)
    for turn in range(16):
        # The last vertex of a window for any owner.
        size = (12, BITMAP, 100, BITMAP)[turn // 4]
        inner = (bench.random.choice((0, bench.random.randrange(size), size)) for _ in range(CHIPLETS - 1))
        boundaries = sorted([0, *inner, size])
        position = turn % CHIPLETS
        got = await lists(bench, dut, list(range(size)), boundaries, position)
        assert got == taken(range(size), boundaries, position)


@cocotb.test()
async def windows_are_counted(dut: Any) -> None:
    """In a graph of 200 windows with a source in few of them."""
    bench = await begin(dut)
    vertices = 200 * BITMAP
    sources = [0, 127 * BITMAP + 5, 128 * BITMAP + 40, vertices - 1]
    assert await lists(bench, dut, sources, [0, 0, 0, 0, vertices], 0) == sources


@cocotb.test()
async def every_mark_of_every_window_is_written(dut: Any) -> None:
    """Each source is given only for its window, so that this ends soon."""
    bench = await begin(dut)
    windows = 66
    vertices = windows * BITMAP
    got: list[int] = []
    bench.take("needed_o", got.append)
    first = iter(range(0, vertices, BITMAP))

    def answer(_: dict[str, int]) -> None:
        start = next(first)
        bench.drive("needed_i", as_beats(bench.random, [vid for vid in range(start, start + BITMAP) if vid]))

    bench.take("needed_request", answer)
    dut.needed_boundaries.value = pack([0, 1, 5, 5, vertices])
    await pulse(dut, "needed_start")
    await rises(dut, "needed_done", 40 * vertices)
    assert marked_by(got) == list(range(1, vertices))


@cocotb.test()
async def a_source_outside_the_graph_is_reported_once(dut: Any) -> None:
    bench = await begin(dut)
    errors: list[dict[str, int]] = []
    bench.take("needed_error", errors.append)
    got = await lists(bench, dut, [3, 300, 150], [0, 50, 100, 150, 200], 0)
    assert got == [150]
    assert errors == [{"code": Error.VID_RANGE, "info": 300}]


def ignored(word: Any) -> None:
    """Take a word and do nothing with it."""


def reported(infos: list[int], report: dict[str, int]) -> None:
    """Note a report's info."""
    infos.append(report["info"])


@cocotb.test()
async def what_sources_are_compared_with_has_32_bits(dut: Any) -> None:
    """In graphs of any size; of the many windows only the first is looked at, before a reset."""
    bench = await begin(dut)
    for turn in range(62):
        bit, position = turn // 2, 1 + turn % 2
        errors: list[int] = []
        vertices = (1 << bit) + BITMAP
        got: list[int] = []
        bench.take("needed_o", got.append)
        bench.take("needed_error", partial(reported, errors))
        bench.take("needed_request", ignored)
        own = bench.random.randrange(40)
        boundaries = [0, own, vertices - 3, vertices - 2, vertices]
        dut.needed_position.value = position
        dut.needed_boundaries.value = pack(boundaries)
        dut.needed_others.value = LIST_ADDRESS | 9 << 30
        above = [vertices + (1 << bench.random.randrange(31)) for _ in range(4)]
        below = [bench.random.randrange(vertices) for _ in range(4)]
        sources = [*above, *below, vertices - 1, vertices, own, own + 1, *([own - 1] if own else []), 61, 62, 63]
        await pulse(dut, "needed_start")
        bench.drive("needed_i", as_beats(bench.random, sources))
        await bench.until(lambda: bench.drivers["needed_i"].busy_words == 0)
        await bench.cycles(60)
        assert errors == [*above, vertices], bit
        first = [vid for vid in taken(sources, boundaries, position) if vid < BITMAP]
        assert marked_by(got[: BITMAP // 32]) == first, bit
        await bench.reset()


# Filter array ---------------------------------------------------------------------------------------------------------


#: First VID of the first owner, each of which has 200, so that comparisons need all bits.
BASES = (0, 0x5A5A_5A00, 0xA5A5_A500)


class Filter:
    """The filter array with its list answered from Python; VIDs count from a base."""

    def __init__(self, bench: Bench, dut: Any, parts: list[list[int]], base: int = 0) -> None:
        self.bench, self.dut, self.base = bench, dut, base
        marked = [base + vid for part in parts for vid in part]
        dut.filter_address.value = LIST_ADDRESS
        dut.filter_boundaries.value = pack([base + 200 * n for n in range(CHIPLETS + 1)])

        def answer(request: dict[str, int]) -> None:
            first = request["address"] - LIST_ADDRESS
            bench.drive("filter_i", as_words(as_marks(marked, first, request["words"])))

        bench.take("filter_request", answer)

    async def start(self, in_order: bool) -> None:
        """Begin with the list's first entries."""
        self.dut.filter_in_order.value = int(in_order)
        await pulse(self.dut, "filter_start")

    async def look(self, owner: int, vid: int) -> tuple[bool, bool]:
        """Look a VID up, take it if it is wanted; return whether it was, and whether it came too early or late."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        # It comes to the head behind another one, or was there before.
        behind = self.bench.random.random() < 0.5
        vid += self.base
        dut.filter_advances.value = int(behind)
        dut.filter_owner.value, dut.filter_next_owner.value = (0, owner) if behind else (owner, 0)
        dut.filter_vid.value, dut.filter_next_vid.value = (0, vid) if behind else (vid, 0)
        await edge
        dut.filter_advances.value = 0
        dut.filter_owner.value, dut.filter_vid.value = owner, vid
        # Three other owners' first refills may come before.
        for _ in range(600):
            await edge
            if int(dut.filter_decided.value):
                break
        else:
            raise AssertionError(f"VID {vid} of owner {owner} was never decided")
        assert int(dut.filter_outside.value) == (not 200 * owner <= vid - self.base < 200 * owner + 200)
        hit, late = bool(int(dut.filter_hit.value)), bool(int(dut.filter_late.value))
        dut.filter_take.value = 1
        await edge
        dut.filter_take.value = 0
        await edge
        return hit, late


@cocotb.test()
async def r7_worked_example_of_both_modes(dut: Any) -> None:
    """Chip B wants 2, 5, 8 and 8 comes after 2: unordered takes it, in order it waits for 5."""
    bench = await begin(dut)
    filter_ = Filter(bench, dut, [[2, 5, 8], [], [], []])
    for in_order in (False, True):
        model = FilterWindow(in_order)
        model.entries = [2, 5, 8]
        await filter_.start(in_order)
        await bench.cycles(60)
        for vid, taken in ((2, [2]), (8, [] if in_order else [8]), (5, [5, 8] if in_order else [5])):
            assert int(dut.filter_waiting.value) == 1
            assert await filter_.look(0, vid) == (True, False)
            assert model.arrives(vid) == taken
            # It came once.
            assert await filter_.look(0, vid) == (False, False)
        assert int(dut.filter_waiting.value) == 0


@cocotb.test()
@cocotb.parametrize(in_order=[False, True], base=BASES)
async def what_waits_for_its_turn_keeps_its_entry(dut: Any, in_order: bool, base: int) -> None:
    """In order a window is filled again when its lowest entry leaves, unordered when any does."""
    bench = await begin(dut)
    vids = list(range(3, 3 + 5 * 3 * ENTRIES, 5))
    filter_ = Filter(bench, dut, [vids, [], [], []], base)
    await filter_.start(in_order)
    for turn in range(0, 2 * ENTRIES, ENTRIES):
        lowest, *above = vids[turn : turn + ENTRIES]
        while above:
            assert await filter_.look(0, above.pop()) == (True, False)
            # What has come is not missing.
            assert int(dut.filter_lowest.value) - base in [lowest, *above, *vids[turn + ENTRIES :]]
        await bench.cycles(60)
        # Its entry is there, or not.
        dut.filter_owner.value, dut.filter_vid.value = 0, base + vids[turn + ENTRIES]
        await bench.cycles(3)
        assert (int(dut.filter_hit.value), int(dut.filter_late.value)) == (not in_order, in_order)
        assert await filter_.look(0, lowest) == (True, False)
        await bench.cycles(60)
        assert int(dut.filter_lowest.value) - base in vids[turn + ENTRIES : turn + 2 * ENTRIES]


@cocotb.test()
@cocotb.parametrize(in_order=[False, True], idle=[0.0, 0.7], base=BASES)
async def every_owner_has_a_window_over_a_longer_list(dut: Any, in_order: bool, idle: float, base: int) -> None:
    """Owners' packets interleave; what is not on the list is not taken, whatever it is."""
    bench = await begin(dut, idle=idle)
    source: random.Random = bench.random
    owned = [sorted(source.sample(range(200 * n, 200 * n + 200), 90)) for n in range(CHIPLETS)]
    parts = [[vid for vid in vids if source.random() < 0.6] for vids in owned]
    filter_ = Filter(bench, dut, parts, base)
    await filter_.start(in_order)
    left = [list(vids) for vids in owned]
    # A VID that differs from a needed one in a single bit is another one.
    for bit in range(31):
        if not in_order:
            vid = (base + parts[0][0]) ^ 1 << bit
            dut.filter_advances.value = 0
            dut.filter_owner.value, dut.filter_vid.value = 0, vid
            await bench.cycles(60 if not bit else 2)
            assert int(dut.filter_hit.value) == (vid - base in parts[0][:ENTRIES])
            assert int(dut.filter_late.value) == (vid > base + parts[0][ENTRIES - 1])
            assert int(dut.filter_outside.value) == (not 0 <= vid - base < 200)
    while any(left):
        owner = source.choice([n for n in range(CHIPLETS) if left[n]])
        vid = left[owner].pop(0)
        assert await filter_.look(owner, vid) == (vid in parts[owner], False), (owner, vid)
        parts[owner] = [other for other in parts[owner] if other != vid]
        if int(dut.filter_waiting.value):
            lowest = next(n for n in range(CHIPLETS) if int(dut.filter_waiting.value) >> n & 1)
            assert int(dut.filter_lowest.value) - base in parts[lowest][:ENTRIES]
    assert int(dut.filter_waiting.value) == 0
    assert int(dut.filter_exhausted.value) == (1 << CHIPLETS) - 1


@cocotb.test()
async def entries_in_any_order_match_as_the_model_says(dut: Any) -> None:
    """Each place of the window, anywhere in the graph; what has come is not needed again."""
    bench = await begin(dut)
    source: random.Random = bench.random
    for turn in range(36):
        owner, in_order = source.randrange(CHIPLETS), bool(turn % 3)
        parts: list[list[int]] = [[] for _ in range(CHIPLETS)]
        parts[owner] = sorted(source.sample(range(200 * owner, 200 * owner + 200), ENTRIES))
        filter_ = Filter(bench, dut, parts, source.randrange(1, (1 << 32) - 1000))
        await filter_.start(in_order)
        model = FilterWindow(in_order)
        model.entries = list(parts[owner])
        # Beside them their neighbours, and those at both ends of the owner's range.
        others = [vid ^ 1 for vid in parts[owner]]
        others += [200 * owner - 1, 200 * owner, 200 * owner + 199, 200 * owner + 200]
        while model.entries:
            vid = source.choice(parts[owner] + others)
            hit, _ = await filter_.look(owner, vid)
            assert hit == model.wants(vid), (turn, vid, model.entries)
            model.arrives(vid)
        assert int(dut.filter_waiting.value) == 0


@cocotb.test()
async def words_of_a_part_are_asked_for_ahead(dut: Any) -> None:
    """Wherever the list is, and however long the parts are: four refills of each, whose windows stay full."""
    bench = await begin(dut)
    chunk, refills = 4, 4
    for turn in range(38):
        # A single high bit, so that each counts; at the end short parts.
        counts = [(1 << (turn + 9 * n) % 32 if turn < 32 else 0) | bench.random.getrandbits(4) for n in range(CHIPLETS)]
        bounds = [sum(counts[:n]) for n in range(CHIPLETS + 1)]
        address = bench.random.getrandbits(30)
        asked: list[tuple[int, int]] = []

        def answer(request: dict[str, int], asked: list[tuple[int, int]] = asked) -> None:
            asked.append((request["address"], request["words"]))
            bench.drive("filter_i", as_words([(1 << 32) - 1] * request["words"]))

        bench.take("filter_request", answer)
        dut.filter_boundaries.value, dut.filter_address.value = pack(bounds), address
        await pulse(dut, "filter_start")
        await bench.cycles(240)
        expected = []
        for first, end in pairwise(bounds):
            words = range(first // 32, -(-end // 32) if end > first else first // 32)
            for at in words[: refills * chunk : chunk]:
                expected.append(((address + at) % (1 << 30), min(chunk, words.stop - at)))
        assert sorted(asked) == sorted(expected), turn
        exhausted = sum(1 << n for n, count in enumerate(counts) if count <= ENTRIES)
        assert int(dut.filter_exhausted.value) == exhausted
        assert int(dut.filter_waiting.value) == sum(1 << n for n, count in enumerate(counts) if count)


@cocotb.test()
async def an_owner_that_skips_a_whole_window_is_noticed(dut: Any) -> None:
    bench = await begin(dut)
    filter_ = Filter(bench, dut, [list(range(20)), [], [], []])
    await filter_.start(False)
    await bench.cycles(80)
    assert await filter_.look(0, ENTRIES + 4) == (False, True)
    assert await filter_.look(0, 0) == (True, False)
    assert int(dut.filter_lowest.value) == 1


@cocotb.test()
async def a_header_a_cycle(dut: Any) -> None:
    """With the windows filled, each cycle decides and takes one."""
    bench = await begin(dut)
    filter_ = Filter(bench, dut, [[10], [210], [410], [610]])
    await filter_.start(True)
    await bench.cycles(100)
    edge = RisingEdge(dut.clk)
    hits = 0
    dut.filter_advances.value = 1
    for owner in range(CHIPLETS + 1):
        # At the head is the one before, whose VID was looked up while it was the next.
        if owner:
            dut.filter_take.value = 1
            dut.filter_owner.value, dut.filter_vid.value = owner - 1, 10 + 200 * (owner - 1)
        dut.filter_next_owner.value, dut.filter_next_vid.value = owner % CHIPLETS, 10 + 200 * owner
        await edge
        hits += owner > 0 and int(dut.filter_hit.value)
    dut.filter_take.value = dut.filter_advances.value = 0
    await edge
    await edge
    assert (hits, int(dut.filter_waiting.value)) == (CHIPLETS, 0)


# Filter generator -----------------------------------------------------------------------------------------------------


async def generates(bench: Bench, dut: Any, wants: dict[int, list[int]], tile: tuple[int, int]) -> list[int]:
    """Give PEs sources, search a tile; return the entries."""
    got: list[dict[str, int]] = []
    bench.take("generator_o", got.append)
    regs = {pe: [bench.random.getrandbits(32) for _ in range(3)] for pe in wants}
    for pe, (destination, first, end) in regs.items():
        reg = {"destination": destination, "first_edge": first, "end_edge": end}
        bench.drive("generator_assign", [{"pe": pe, "reg": reg}])
    await bench.until(lambda: bench.drivers["generator_assign"].busy_words == 0)
    await bench.cycles(2)
    for pe, values in regs.items():
        assert int(dut.generator_regs.value) >> 96 * pe & (1 << 96) - 1 == pack(values)
    for pe, vids in wants.items():
        bench.drive("generator_want", [{"pe": pe, "vid": vid} for vid in vids])
    await bench.until(lambda: bench.drivers["generator_want"].busy_words == 0)
    bench.drive("generator_tile", [{"first": tile[0], "end": tile[1]}])
    await bench.until(lambda: bool(got) and bool(got[-1]["last"]))
    return [word["vid"] for word in got[:-1]]


@cocotb.test()
async def r13_worked_example_of_the_bound(dut: Any) -> None:
    """Tile 0: group 1 wants 0, 1 and 2, group 3 wants 1; the maxima are 2 and 1, the bound is 1."""
    bench = await begin(dut)
    wants = {2: [0, 1], 3: [2], 6: [1], 0: [9], 4: [12]}
    assert await generates(bench, dut, wants, (0, 4)) == [0, 1]
    assert int(dut.generator_served.value) == 1


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def entries_are_bounded_sorted_and_distinct(dut: Any, idle: float, stall: float) -> None:
    bench = await begin(dut, idle=idle, stall=stall)
    for turn in range(16):
        # Now and then VIDs that differ in single high bits.
        vids = [bench.random.getrandbits(32) & ~0xFF | bench.random.getrandbits(2) for _ in range(6)]
        vids += [vid ^ 1 << bench.random.randrange(32) for vid in vids]
        near = range(40)
        pool = near if turn % 2 else vids
        wants = {pe: [bench.random.choice(pool) for _ in range(bench.random.randrange(4))] for pe in range(8)}
        first = bench.random.randrange(30) if turn % 2 else bench.random.choice(vids)
        end = first + bench.random.randrange(1, 30) if turn % 2 else max(first + 1, bench.random.choice(vids))
        if turn % 8 == 0:
            first, end = 0, (1 << 32) - 1
        groups = [wants[2 * g] + wants[2 * g + 1] for g in range(4)]
        got = await generates(bench, dut, wants, (first, end))
        assert got == filter_requests(groups, range(first, end))
        assert int(dut.generator_served.value) == (bound_of(groups, range(first, end)) or 0)
        assert int(dut.generator_finished.value) == 0
        bench.drive("generator_finish", range(8))
        await bench.until(lambda: bench.drivers["generator_finish"].busy_words == 0)
        await bench.cycles(2)
        assert int(dut.generator_finished.value) == 0xFF


@cocotb.test()
async def tiles_and_sources_are_compared_in_all_bits(dut: Any) -> None:
    """VIDs that differ in one bit: one of them is outside the tile, above the bound, or the larger of a group."""
    bench = await begin(dut)
    for bit in range(32):
        low = bench.random.getrandbits(32) & ~(1 << bit)
        high = low | 1 << bit
        for wants, tile in (
            ({0: [low, high]}, (high, (1 << 32) - 1)),  # only one of them is not below the tile
            ({7: [high, low]}, (0, high)),  # nor behind it
            ({1: [low], 4: [high, low]}, (0, (1 << 32) - 1)),  # above the bound
            ({2: [low, high, low], 3: [high], 5: [high]}, (low, (1 << 32) - 1)),  # the larger of a group, each once
        ):
            groups = [wants.get(2 * n, []) + wants.get(2 * n + 1, []) for n in range(4)]
            got = await generates(bench, dut, wants, tile)
            assert got == filter_requests(groups, range(*tile)), (bit, wants, tile)
            assert int(dut.generator_served.value) == (bound_of(groups, range(*tile)) or 0)
            bench.drive("generator_finish", wants)
            await bench.until(lambda: bench.drivers["generator_finish"].busy_words == 0)


@cocotb.test()
async def a_source_waits_for_room_and_for_the_search(dut: Any) -> None:
    """Each PE has three places, and what comes while a tile is searched is there for the next tile only."""
    bench = await begin(dut)
    got: list[dict[str, int]] = []
    for pe in range(8):
        assert await generates(bench, dut, {pe: [7, 5, 6]}, (0, 100)) == [5, 6, 7]
        bench.drive("generator_want", [{"pe": pe, "vid": 8}])
        await bench.cycles(20)
        assert bench.drivers["generator_want"].busy_words == 1
        # Others have room, but the stream has one head; an end makes room.
        bench.drive("generator_finish", [pe])
        await bench.until(lambda: bench.drivers["generator_want"].busy_words == 0)
        assert await generates(bench, dut, {}, (0, 100)) == [8]
        got.clear()
        bench.take("generator_o", got.append)
        bench.drive("generator_tile", [{"first": 0, "end": 100}])
        await bench.cycles(6)
        reg = {"destination": 1, "first_edge": 2, "end_edge": 3}
        bench.drive("generator_want", [{"pe": pe, "vid": 9}])
        bench.drive("generator_assign", [{"pe": pe ^ 1, "reg": reg}])
        await bench.until(lambda: bool(got) and bool(got[-1]["last"]))
        assert [word["vid"] for word in got[:-1]] == [8]
        assert await generates(bench, dut, {}, (0, 100)) == [8, 9]
        bench.drive("generator_finish", [pe, pe ^ 1])
        await bench.until(lambda: bench.drivers["generator_finish"].busy_words == 0)


@cocotb.test()
@cocotb.parametrize(seed=[1, 2, 3])
async def r14_no_group_sees_a_newer_version_than_another(dut: Any, seed: int) -> None:
    """Serve groups pass by pass; an owner changes a source each time it has sent it."""
    bench = await begin(dut)
    source = random.Random(seed)
    left = [sorted(source.sample(range(20), source.randrange(4, 12))) for _ in range(4)]
    versions: dict[int, int] = dict.fromkeys(range(20), 0)
    seen: dict[int, set[int]] = {vid: set() for vid in range(20)}
    for _ in range(60):
        requests = [group[:3] for group in left]
        sent = await generates(bench, dut, {2 * group: vids for group, vids in enumerate(requests)}, (0, 20))
        assert sent == filter_requests(requests, range(20))
        for group, vids in enumerate(requests):
            for vid in set(vids) & set(sent):
                seen[vid].add(versions[vid])
                left[group].remove(vid)
        for vid in sent:
            versions[vid] += 1
        if not any(left):
            break
    assert not any(left)
    assert all(len(found) <= 1 for found in seen.values())


# Link watch -----------------------------------------------------------------------------------------------------------


@cocotb.test()
@cocotb.parametrize(seed=[1, 2, 3])
async def a_neighbour_that_was_reset_or_had_stopped_is_noticed(dut: Any, seed: int) -> None:
    """Random lives of both neighbours, beside a model that remembers what was seen; many of them."""
    bench = await begin(dut)
    source = random.Random(seed)
    edge = RisingEdge(dut.clk)
    fresh, at_work, stopped, in_reset = (
        Const.cast(s).value for s in (LinkState.FRESH, LinkState.AT_WORK, LinkState.STOPPED, LinkState.IN_RESET)
    )
    for _ in range(60):
        dut.watch_works.value = dut.watch_stop.value = dut.watch_sends.value = 0
        dut.watch_before.value = dut.watch_after.value = fresh
        await bench.reset()
        neighbours = [fresh, fresh]
        state, seen, lost, sent, wasted = in_reset, [False, False], [False, False], False, False
        for _ in range(25):
            works, stops, sends = (int(source.random() < share) for share in (0.2, 0.03, 0.1))
            for n in range(2):
                if source.random() < 0.2:
                    neighbours[n] = source.choice((fresh, at_work, at_work, stopped, in_reset))
            dut.watch_works.value, dut.watch_stop.value, dut.watch_sends.value = works, stops, sends
            dut.watch_before.value, dut.watch_after.value = neighbours
            await edge
            assert int(dut.watch_state.value) == state
            assert int(dut.watch_lost.value) == lost[0] | lost[1] << 1
            was, gone = state, any(lost)
            for n in range(2):
                if was == at_work:
                    lost[n] |= neighbours[n] in ((fresh, in_reset) if seen[n] else (stopped,)) or (n == 1 and wasted)
                    seen[n] |= neighbours[n] == at_work
            wasted |= sent and neighbours[1] == in_reset
            sent |= bool(sends)
            if was in (fresh, in_reset):
                state = at_work if works else fresh
            if stops or gone:
                state = stopped


def test_parts() -> None:
    simulate(RingParts(), __name__, name="ring_parts")
