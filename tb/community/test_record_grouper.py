"""Records of one row are joined where they share columns, as the golden model says, and nothing is lost."""

import random
from collections import Counter
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts import RECORD_HEADER
from contracts.communities import ROUNDS_MAX
from golden.community.group import grouped
from golden.locator.record import Record, beats_of, records_of
from hw.community.record_grouper import RecordGrouper
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles

#: Width and bits of VIDs: the narrowest, one of which not all windows have a place, and the machine's.
SIZES = ((4, 3), (16, 7), (64, 12), (130, 13))
END = {"data": RECORD_HEADER.pack({"end": 1}), "last": 1}


class Stream:
    """The stream of records, and what has come out of it."""

    def __init__(self, bench: Bench, design: RecordGrouper) -> None:
        self.bench, self.design = bench, design
        self.out: list[dict[str, int]] = []
        self.found: Counter[str] = Counter()
        bench.take("o", self.out.append)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await self.bench.cycles(1)
            self.found["communities"] += int(self.bench.dut.communities.value)
            self.found["hubs"] += int(self.bench.dut.hubs.value)

    async def send(self, records: list[Record]) -> None:
        """Send records and the end; what comes out are the golden model's beats, every record marked at its end."""
        self.out.clear()
        self.found.clear()
        self.bench.drive("i", [word for record in records for word in words_of(record)] + [END])
        await self.bench.until(lambda: bool(self.out) and self.out[-1] == END, 200_000)
        expected = list(grouped(records, self.design.width))
        assert self.out[:-1] == [word for record in expected for word in words_of(record)]
        await self.bench.cycles(2)
        begun = Counter("hubs" if record.hub_edges else "communities" for record in records if not record.part)
        assert self.found == begun


def words_of(record: Record) -> list[dict[str, int]]:
    """Return the words of a record."""
    beats = beats_of(record)
    return [{"data": beat, "last": int(n == len(beats) - 1)} for n, beat in enumerate(beats)]


def entries(records: list[Record]) -> Counter[tuple[int, int, bool]]:
    """Count the entries of all bitmaps, by VIDs."""
    found: Counter[tuple[int, int, bool]] = Counter()
    for record in records:
        vids = np.concatenate([record.nodes, record.hubs])
        for row, column in np.argwhere(record.bitmap):
            found[int(record.nodes[row]), int(vids[column]), record.hub_edges] += 1
    return found


def one_row(vid: int, hubs: list[int], *, hub_edges: bool = False, part: int = 0, rounds: int = 0) -> Record:
    """Return a record of one row, without its diagonal in parts after the first."""
    bitmap = np.ones((1, 1 + len(hubs)), np.bool_)
    bitmap[0, 0] = part == 0
    return Record(np.array([vid]), np.array(hubs, np.int64), bitmap, rounds, part, hub_edges=hub_edges)


def some_records(rng: random.Random, design: RecordGrouper, count: int) -> list[Record]:
    """Return records of all kinds: dense and sparse ones of one row, far and near, and whole communities."""
    vids, window = 1 << design.vid_bits, design.window
    most = min(design.width - 1, vids)
    spot, kind = rng.randrange(vids), rng.choice(("dense", "star", "mixed", "sparse"))
    records = []
    for _ in range(count):
        if rng.random() < 0.01:
            spot, kind = rng.randrange(vids), rng.choice(("dense", "star", "mixed", "sparse"))
        near = [vid for vid in range(spot, spot + window) if vid < vids]
        hub_edges = rng.random() < 0.3
        part = rng.choice((0, 0, 1, 255)) if hub_edges else 0
        chosen = {
            "dense": near[: rng.randint(1, len(near))],
            "star": [spot],
            "mixed": rng.sample(near, rng.randint(1, len(near))),
            "sparse": rng.sample(range(vids), rng.randint(0, min(most, 5))),
        }[kind if rng.random() < 0.9 else rng.choice(("dense", "sparse", "mixed"))]
        hubs = sorted(chosen) if rng.random() < 0.9 else chosen
        if rng.random() < 0.2:
            nodes = rng.randint(2, design.width)
            others = [*hubs, *(rng.randrange(vids) for _ in range(rng.randint(0, 3)))][: design.width - nodes]
            bitmap = np.array([[rng.random() < 0.5] * (nodes + len(others)) for _ in range(nodes)], np.bool_)
            numbers = np.array([*(rng.randrange(vids) for _ in range(nodes)), *others], np.int64)
            last = rng.random() < 0.5
            records.append(
                Record(numbers[:nodes], numbers[nodes:], bitmap, rng.randrange(ROUNDS_MAX + 1), 0, last, hub_edges)
            )
        else:
            records.append(
                one_row(
                    rng.randrange(vids),
                    hubs[:most],
                    hub_edges=hub_edges,
                    part=part,
                    rounds=rng.randrange(ROUNDS_MAX + 1),
                )
            )
    return records


async def begin(dut: Any, **pace: Any) -> tuple[Bench, RecordGrouper, Stream]:
    design = RecordGrouper(**parameters())
    bench = await start(dut, design, **pace)
    return bench, design, Stream(bench, design)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def any_stream_is_as_the_golden_model_says(dut: Any, idle: float, stall: float) -> None:
    """Stream after stream, of which each ends with open groups or none."""
    bench, design, stream = await begin(dut, idle=idle, stall=stall)
    for count in (0, 1, 3, 60, 400):
        await stream.send(some_records(bench.random, design, count))


@cocotb.test()
async def everything_comes_out_once(dut: Any) -> None:
    """Join records: what comes out has the entries of what came, in fewer records."""
    bench, design, stream = await begin(dut)
    vids, window = 1 << design.vid_bits, design.window
    first = bench.random.randrange(vids - window + 1) // (window // 2) * (window // 2)
    near = list(range(first, first + window))
    dense = [one_row(vid % vids, near) for vid in range(3 * design.rows)]
    await stream.send(dense)
    out = list(records_of([word["data"] for word in stream.out]))
    assert entries(out) == entries(dense)
    # Hubs of the narrowest window have too few rows.
    assert [record.nodes.size for record in out] == ([design.rows] * 3 if design.rows > 2 else [1] * 6)


@cocotb.test()
async def groups_leave_every_place(dut: Any) -> None:
    """Fill groups in all places at the same time; then some rows there make room for others, also while one is full."""
    _, design, stream = await begin(dut, stall=0.3)
    places = 1 << design.place_bits
    firsts = range(0, 1 << design.vid_bits, design.window // 2)
    before, after = firsts[:places], firsts[places : 2 * places]
    full = list(before) * design.rows
    waiting = [first for first in [*before, *after] for _ in range(design.rows - 1)]
    pairs = [vid for pair in zip(after[::2], before[1::2], strict=False) for vid in pair]
    await stream.send([one_row(vid, [vid]) for vid in full + waiting + pairs])


@cocotb.test()
async def a_community_in_parts_passes(dut: Any) -> None:
    """Pass communities of one node whose hubs come in parts."""
    _, design, stream = await begin(dut)
    parts = []
    for vid in range(6):
        record = one_row(vid % (1 << design.vid_bits), [1])
        parts.append(Record(record.nodes, record.hubs, record.bitmap, 2, vid % 2, bool(vid % 3), hub_edges=False))
    await stream.send(parts)


@cocotb.test()
async def beats_pass_in_turn(dut: Any) -> None:
    """Take a beat in every cycle, of records that pass and of those that are collected."""
    bench, design, stream = await begin(dut)
    wide = Record(np.array([1, 2]), np.array([], np.int64), np.ones((2, 2), np.bool_), 0)
    begun = bench.cycle
    await stream.send([wide] * 50)
    expect_cycles(f"community.record_grouper.{design.width}.passing", bench.cycle - begun)
    begun = bench.cycle
    await stream.send([one_row(vid % (1 << design.vid_bits), [1]) for vid in range(64)])
    expect_cycles(f"community.record_grouper.{design.width}.around_a_hub", bench.cycle - begun)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    """Open groups, and one that is emitted, are gone."""
    bench, design, stream = await begin(dut, stall=0.5)
    for cycles in (1, 7, 40, 150, 333):
        records = some_records(bench.random, design, 60)
        bench.drive("i", [word for record in records for word in words_of(record)])
        await bench.cycles(cycles)
        await bench.reset()
        await stream.send(some_records(bench.random, design, 20))


@pytest.mark.parametrize(("width", "vid_bits"), SIZES)
def test_record_grouper(width: int, vid_bits: int) -> None:
    sizes = {"width": width, "vid_bits": vid_bits}
    simulate(RecordGrouper(**sizes), __name__, parameters=sizes, name=f"record_grouper_{width}")


def test_a_record_has_room_for_two_rows_and_two_hubs() -> None:
    with pytest.raises(ValueError, match="width must be at least 4, not 3"):
        RecordGrouper(3, 4)
