"""Record reader: vertices, columns and sizes of records of every shape, places in a ring, what is refused, cycles."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts import RECORD_HEADER
from golden.community.plan import columns_of
from golden.graph import BoolArray, IntArray
from golden.locator.record import Record
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.record_reader import RecordReader
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from tb.community.beside import Beside, settings_of
from tb.community.work import pieces_of, record_words

#: The narrowest, the narrowest with room for as many records as may be, and one whose rows take two beats; two of them
#: take shares.
SIZES: tuple[dict[str, Any], ...] = (
    {"width": 8, "columns": 16, "shares": True},
    {"width": 32, "columns": 64},
    {"width": 128, "columns": 256, "shares": True},
)
END = {"data": RECORD_HEADER.pack({"end": 1}), "last": 1}


def reader(**sizes: Any) -> Beside:
    """Return a record reader beside the memory of columns."""
    return Beside(RecordReader(CommunityConfig(**sizes)), "column", "columns")


def record_of(rng: random.Random, nodes: int, hubs: int, *, hub_edges: bool = False) -> Record:
    """Return a record of these sizes, in which every hub has an edge at least; a hub may come in any part."""
    vids = np.array([rng.getrandbits(32) for _ in range(nodes + hubs)], np.int64)
    density = rng.choice((0.1, 0.5, 0.9, 1.0))
    bitmap = np.array([[rng.random() < density for _ in vids] for _ in range(nodes)], np.bool_)
    for hub in range(nodes, nodes + hubs):
        bitmap[rng.randrange(nodes), hub] = True
    part = rng.randrange(3) if hub_edges else 0
    return Record(
        vids[:nodes], vids[nodes:], bitmap, rng.randrange(100), part, not hub_edges or rng.random() < 0.5, hub_edges
    )


def any_record(rng: random.Random, width: int) -> Record:
    """Return a record that fits: a community or a hub, small ones most often."""
    rows = rng.choice((1, 2, 3, rng.randint(1, width), width))
    if rng.random() < 0.3:
        return record_of(rng, 1, rows - 1, hub_edges=True)
    nodes = rng.randint(1, rows)
    return record_of(rng, nodes, rows - nodes)


class Reader:
    """A bench around a record reader: knows where every record goes, and takes back its places when it likes.

    Parameters
    ----------
    bench
        Its streams.
    config
        Sizes.
    pace
        Probability of a cycle in which no row is given back.
    """

    def __init__(self, bench: Bench, config: CommunityConfig, pace: float = 0.0) -> None:
        self.bench, self.config, self.pace = bench, config, pace
        self.base = 0
        self.rooted = False
        self.gives_back = True
        # All VIDs but one, which no record has as a rule, are summed until a test says otherwise.
        self.sums(0, 0xFFFFFFFF)
        self.sent: deque[tuple[Record, int, range]] = deque()
        self.sizes: deque[dict[str, int]] = deque()
        self.whole: deque[tuple[Record, int, range]] = deque()
        #: What was said last of every slot.
        self.kept: dict[int, int] = {}
        self.vectors: dict[int, int] = {}
        bench.take("vectors", self._count)
        if config.shares:
            bench.take("kept", self._keep)
        self.under_way = 0
        #: Records that have begun: a vertex has come; their hubs that were not requested; vertices of those that came.
        self.begun = self.hubs = self.vertices_left = 0
        self.begins: deque[Record] = deque()
        bench.monitors["vertex"].add_callback(lambda _: self._begin())
        bench.monitors["hub_request"].add_callback(lambda _: self._request())
        bench.take("o", self._take)
        self.worker = cocotb.start_soon(self._give_back())

    def sums(self, first: int, vertices: int) -> None:
        """Set the VIDs that are summed; while there are no records."""
        self.first, self.vertices = first, vertices
        self.bench.dut.first.value, self.bench.dut.vertices.value = first, vertices

    def is_summed(self, vids: IntArray) -> BoolArray:
        """Return which of some VIDs are summed."""
        return (self.first <= vids) & (vids < self.first + self.vertices)

    def set(self, *, rooted: bool = False) -> None:
        """Write settings while nothing is under way."""
        self.rooted, self.windows = rooted, bool(self.bench.random.getrandbits(1))
        chosen = {"rooted": int(rooted), "windows": int(self.windows)}
        self.bench.dut.settings.value = settings_of(self.config, self.bench.random, **chosen)

    def send(self, *records: Record, shared: bool = False) -> None:
        """Have records read, or some share of each if there are any, and expect all that comes of them."""
        shared = shared and self.config.shares
        for record in records:
            pieces = pieces_of(record, self.config.width)
            piece = self.bench.random.choice(list(pieces)) if shared and record.nodes.size > 1 else None
            share = range(record.nodes.size) if piece is None else pieces[piece]
            rows, vids = record.bitmap.shape[1], [int(vid) for vid in (*record.nodes, *record.hubs)]
            nodes = 0 if record.hub_edges else record.nodes.size
            kind = {"single": int(record.nodes.size == 1), "later": int(record.part != 0)}
            sizes = {"base": self.base, "rows": rows, "nodes": nodes, **kind}
            alone = int(rows == 1)
            asked = [
                {"vid": vid, "slot": (self.base + n) % self.config.slots, "alone": alone} for n, vid in enumerate(vids)
            ]
            self.bench.drive("i", record_words(record, piece))
            summed = self.is_summed(np.array(vids))
            known = [{**request, "summed": int(of)} for request, of in zip(asked, summed, strict=True)]
            self.bench.expect("vertex", known)
            self.bench.expect("node_request", asked[:nodes])
            head = {"head": 1 - kind["later"]}
            hubs = [{**request, **(head if n < record.nodes.size else {"head": 0})} for n, request in enumerate(asked)]
            self.bench.expect("hub_request", hubs[nodes:])
            self.sent.append((record, self.base, share))
            self.sizes.append(sizes)
            self.begins.append(record)
            self.base = (self.base + rows) % self.config.slots
            self.under_way += 1

    def _count(self, word: dict[str, int]) -> None:
        self.vectors[word["slot"]] = word["vectors"]

    def _begin(self) -> None:
        """Count the vertices of each record."""
        if not self.vertices_left:
            record = self.begins.popleft()
            self.vertices_left = record.bitmap.shape[1]
            self.hubs += record.bitmap.shape[1] if record.hub_edges else record.hubs.size
            self.begun += 1
        self.vertices_left -= 1

    def _request(self) -> None:
        self.hubs -= 1

    def _take(self, word: dict[str, int]) -> None:
        """Compare the sizes of a record, and what is said of a node whose columns are not kept."""
        sizes, (record, _, share) = self.sizes.popleft(), self.sent[0]
        planned = self.windows or record.nodes.size > 1
        assert {name: word[name] for name in sizes} == sizes
        assert word["planned"] == planned
        if not planned:
            columns = self._columns(record, share)
            assert word["own"] == columns[0] & 1
            assert all(column == word["wanted"] for column in columns[1:])
            assert word["wanted"] >= word["own"]
        self.whole.append(self.sent.popleft())

    def _columns(self, record: Record, share: range) -> list[int]:
        """Return the golden columns."""
        vids = np.concatenate([record.nodes, record.hubs])
        places = np.arange(vids.size)
        numbered = replace(record, nodes=places[: record.nodes.size], hubs=places[record.nodes.size :])
        return columns_of(numbered, self.is_summed(vids), rooted=self.rooted, share=share)

    def _keep(self, word: dict[str, int]) -> None:
        self.kept[word["slot"]] = word["kept"]

    async def give_back(self, rows: int, *, last: bool) -> None:
        """Give back rows of the oldest record, a cycle each; the `last` of them ends it."""
        for row in range(rows):
            while self.bench.random.random() < self.pace:
                await self.bench.cycles(1)
            ends = last and row == rows - 1
            self.bench.dut.retired.value = int(ends)
            await self.bench.pulse(self.bench.dut.freed)
            self.bench.dut.retired.value = 0
            self.under_way -= ends

    async def _give_back(self) -> None:
        """Look at the columns of every record that is whole, then give its rows back."""
        while True:
            while not (self.whole and self.gives_back):
                await self.bench.cycles(1)
            record, base, share = self.whole.popleft()
            await self.compare(record, base, share)
            await self.give_back(record.bitmap.shape[1], last=True)

    async def compare(self, record: Record, base: int, share: range) -> None:
        """Compare the columns in their places with those of the golden record, and which rows are kept."""
        if self.config.shares:
            joined = record.bitmap[share.start : share.stop, record.nodes.size :].any(axis=0) | (record.nodes.size == 1)
            wanted_rows = np.concatenate([np.isin(np.arange(record.nodes.size), share), joined]).tolist()
            found_rows = [self.kept[(base + row) % self.config.slots] for row in range(len(wanted_rows))]
            assert found_rows == wanted_rows, f"rows of {share} of {record}"
        if record.nodes.size > 1:
            counts = record.bitmap[share.start : share.stop, record.nodes.size :].sum(axis=0).tolist()
            hubs = range(record.nodes.size, record.bitmap.shape[1])
            counted = [self.vectors[(base + row) % self.config.slots] for row in hubs]
            assert counted == counts, f"vectors of hubs of {share} of {record}"
        elif not self.windows:
            return
        look, columns = [self.bench.dut.look__address, self.bench.dut.look__data], self._columns(record, share)
        if record.nodes.size == 1 < len(columns):
            # The last row has the sum of all hubs.
            columns[0] = columns[0] & 1 | 1 << len(columns) - 1
        for column, wanted in enumerate(columns):
            look[0].value = (base + column) % self.config.slots
            await self.bench.cycles(2)
            found = int(look[1].value)
            assert found == wanted, f"column {column} of {record} is {found:b}, not {wanted:b}"

    async def done(self) -> None:
        """Wait until all is read, compared and given back, and nothing is under way."""
        await self.bench.drain(100_000, quiet=0)
        while self.under_way:
            await self.bench.cycles(1)
            assert int(self.bench.dut.busy.value) or not self.under_way
        await self.bench.cycles(2)
        assert not int(self.bench.dut.busy.value)


async def begin(dut: Any, *, back: float = 0.0, **pace: Any) -> Reader:
    dut.freed.value = dut.retired.value = 0
    bench = await start(dut, reader(**parameters()), **pace)
    # Who takes words in the cycle in which they come has to be there before the first one.
    await bench.cycles(2)
    around = Reader(bench, CommunityConfig(**parameters()), back)
    around.set()
    return around


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.6], back=[0.0, 0.8])
async def records_are_read(dut: Any, idle: float, stall: float, back: float) -> None:
    """Of any shape, one behind another, the end of a stream now and then; with and without the diagonal."""
    around = await begin(dut, idle=idle, stall=stall, back=back)
    rng = around.bench.random
    for rooted in (False, True, False, True):
        around.set(rooted=rooted)
        for _ in range(10):
            around.send(any_record(rng, around.config.width), shared=rng.random() < 0.5)
            if rng.random() < 0.2:
                around.bench.drive("i", [END])
        await around.done()


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def corner_records_are_read(dut: Any, stall: float) -> None:
    """Read the smallest and the widest, of nodes only, with one node, odd and even numbers of each, of a hub."""
    around = await begin(dut, stall=stall)
    rng, width = around.bench.random, around.config.width
    some = min(width, 66)
    around.set(rooted=stall > 0)
    for nodes, hubs in ((1, 0), (1, 1), (2, 0), (1, 2), (2, 1), (3, 2), (some, 0), (1, some - 1), (some - 1, 1)):
        around.send(record_of(rng, nodes, hubs))
        around.send(record_of(rng, 1, hubs, hub_edges=True))
    around.send(record_of(rng, width, 0), record_of(rng, 1, width - 1), record_of(rng, 1, width - 1, hub_edges=True))
    await around.done()


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def shares_are_read(dut: Any, stall: float) -> None:
    """Any piece of communities, and of several hubs, with and without the diagonal, all or some rows summed."""
    around = await begin(dut, stall=stall)
    rng, width = around.bench.random, around.config.width
    for rooted, first, vertices in ((False, 0, 0xFFFFFFFF), (True, 0, 0xFFFFFFFF), (False, 1 << 31, 1 << 31)):
        around.set(rooted=rooted)
        around.sums(first, vertices)
        for _ in range(8):
            nodes = rng.randint(2, width)
            hubs = rng.randint(0, width - nodes)
            around.send(record_of(rng, nodes, hubs, hub_edges=rng.random() < 0.3), shared=True)
        around.send(record_of(rng, width, 0), record_of(rng, 2, width - 2), shared=True)
        await around.done()


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def rows_that_nobody_wants_are_left_out(dut: Any, stall: float) -> None:
    """Of VIDs before and behind a range, which may go past the largest VID, be empty, or be one VID of a record."""
    around = await begin(dut, stall=stall)
    rng, width = around.bench.random, around.config.width
    ranges = [(rng.getrandbits(32), rng.getrandbits(32)) for _ in range(6)]
    ranges += [(rng.getrandbits(32), 0), (0xFFFFFFFF, 2), (1 << 31, 1 << 31), (0, 1 << 31)]
    for first, vertices in ranges:
        around.sums(first, vertices)
        around.send(*(any_record(rng, width) for _ in range(4)), record_of(rng, width // 2, width // 2))
        await around.done()
    for _ in range(6):
        record = record_of(rng, width // 2, width // 2)
        chosen = int(rng.choice((*record.nodes.tolist(), *record.hubs.tolist())))
        around.sums(chosen - rng.randrange(2) & 0xFFFFFFFF, 1)
        around.send(record)
        await around.done()


@cocotb.test()
async def it_asks_until_the_last_hub_is_requested(dut: Any) -> None:
    """However long requests for nodes in front of it wait: hubs end when nobody asks for them any more."""
    around = await begin(dut, idle=0.2, back=0.3)
    bench, rng = around.bench, around.bench.random
    bench.pace(stall={"node_request": 0.97})
    for _ in range(30):
        around.send(record_of(rng, rng.choice((1, 1, 2, 3)), rng.choice((0, 1, 1, 2))))
    while around.sent or around.hubs:
        before = around.hubs
        await bench.cycles(1)
        assert int(dut.asking.value) or not (before and around.hubs)
    await around.done()


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def what_does_not_fit_is_refused(dut: Any, pace: float) -> None:
    """Tell it, pass it over to its end, give it no place."""
    around = await begin(dut, idle=pace, stall=pace)
    bench, rng, width = around.bench, around.bench.random, around.config.width
    whole = {"nodes": 1, "hubs": 1, "last_part": 1}
    wrong = [
        ({**whole, "hubs": width}, width + 1),
        ({**whole, "hubs": width, "hub_edges": 1}, width + 1),
        ({**whole, "nodes": width + 1, "hubs": 0}, width + 1),
        ({**whole, "nodes": 0xFFFF, "hubs": 0xFFFF, "part": 3}, 2 * 0xFFFF),
        *(({**whole, "hubs": 1 << n}, 1 + (1 << n)) for n in range(width.bit_length(), 16)),
        ({**whole, "last_part": 0}, 0),
        *(({**whole, "part": 1 << n}, 0) for n in range(3)),
    ]
    for header, told in wrong * 2:
        beats = [RECORD_HEADER.pack(header), *(rng.getrandbits(64) for _ in range(rng.randrange(1, 6)))]
        bench.drive("i", [{"data": beat, "last": int(n == len(beats) - 1)} for n, beat in enumerate(beats)])
        bench.expect("refused", [told])
        if rng.random() < 0.5:
            around.send(any_record(rng, width))
    await around.done()


@cocotb.test()
async def a_record_begins_when_there_is_room(dut: Any) -> None:
    """Not a row too early, and in the very cycle after the last row that it waits for."""
    around = await begin(dut)
    bench, width = around.bench, around.config.width
    for rows in (1, width // 2, width):
        around.gives_back = False
        room = around.config.slots
        for held in (width, width):
            around.send(record_of(bench.random, 1, held - 1))
            room -= held
        await bench.drain(5_000)
        before = around.begun
        around.send(record_of(bench.random, 1, rows - 1))
        await around.compare(*around.whole.popleft())
        for freed in range(width):
            assert around.begun == before + (freed >= rows), f"with {freed} rows free one of {rows}"
            await around.give_back(1, last=freed == width - 1)
            await bench.cycles(3)
        around.gives_back = True
        await around.done()


@cocotb.test()
async def so_many_records_are_under_way(dut: Any) -> None:
    """Thirty-two at most, however small; the next one begins in the cycle after one is retired."""
    around = await begin(dut)
    bench = around.bench
    count = min(RECORDS, around.config.slots)
    around.gives_back = False
    around.send(*(record_of(bench.random, 1, 0) for _ in range(count + 3)))
    await bench.cycles(12 * count)
    for more in range(3):
        assert around.begun == count + more
        await around.compare(*around.whole.popleft())
        await around.give_back(1, last=True)
        await bench.cycles(3)
    around.gives_back = True
    await around.done()


@cocotb.test()
async def records_take_their_cycles(dut: Any) -> None:
    """Every cycle from the first beat to the last column: of small records, a wide one, full and sparse bitmaps."""
    around = await begin(dut)
    rng, width = random.Random(around.config.width), around.config.width
    cases: dict[str, Sequence[Record]] = {
        "single": [record_of(rng, 1, n % 4) for n in range(6)],
        "hubs": [record_of(rng, 1, width - 2, hub_edges=True)] * 2,
        "nodes": [record_of(rng, width, 0)] * 2,
        "mixed": [record_of(rng, width // 2, width // 2)] * 2,
        "any": [any_record(rng, width // 2) for _ in range(4)],
    }
    for name, records in cases.items():
        began = around.bench.cycle
        around.send(*records)
        await around.bench.until(lambda: not around.sent, 50_000)
        expect_cycles(f"community.record_reader.{width}.{name}", around.bench.cycle - began)
        await around.done()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    around = await begin(dut, stall=0.3, back=0.5)
    bench, rng, width = around.bench, around.bench.random, around.config.width
    for _ in range(12):
        around.send(*(any_record(rng, width) for _ in range(6)))
        await bench.cycles(rng.randrange(8 * width))
        around.worker.cancel()
        for port in ("vertex", "hub_request"):
            bench.monitors[port]._callbacks.pop()
        dut.freed.value = dut.retired.value = 0
        await bench.reset()
        await bench.cycles(2)
        around = Reader(bench, around.config, 0.5)
        around.set()
        around.send(*(any_record(rng, width) for _ in range(3)))
        await around.done()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_record_reader(sizes: dict[str, int]) -> None:
    simulate(reader(**sizes), __name__, parameters=sizes)
