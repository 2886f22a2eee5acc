"""Row sender: rows of nodes and hubs, of every length, in order, whole, in exact cycles; slots freed as they leave."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import cocotb
import pytest

from hw.community.formats import CommunityConfig
from hw.community.row_sender import RowSender
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from tb.community.beside import Beside, settings_of
from tb.harness.marks import full

SIZES: tuple[dict[str, Any], ...] = (
    {"lanes": 4, "width": 8, "columns": 16, "max_out": 6, "weight_rows": 16, "data_width": 64},
    {"lanes": 8, "width": 32, "columns": 64, "max_out": 35, "weight_rows": 64, "shares": True},
)
_VIDS = 1 << 32
MORE: tuple[dict[str, Any], ...] = (
    {**SIZES[0], "partials": True},
    {**SIZES[1], "lanes": 2, "data_width": 128},
)


def sender(**sizes: Any) -> Beside:
    """Return a row sender beside the memory of sums."""
    return Beside(RowSender(CommunityConfig(**sizes)), "sums")


class Rows:
    """A bench around a row sender: fills places with rows and knows what must become of them.

    Parameters
    ----------
    bench
        Its streams.
    config
        Sizes.
    missing
        Probability of a cycle in which the next row has not come.
    """

    def __init__(self, bench: Bench, config: CommunityConfig, missing: float = 0.0) -> None:
        self.bench, self.config = bench, config
        self.base = bench.random.randrange(config.slots)
        self.chunks, self.every = 0, False
        #: Words that every row to come leads to, none if nobody wants it, and rows of every record.
        self.words: list[int] = []
        self.records: list[int] = []
        self.freed = self.came = 0
        #: Rows whose sum is that of another one.
        self.to_forward = self.forwarded = 0
        self.missing = missing
        bench.dut.there.value = 1
        self.watcher = cocotb.start_soon(self._watch())

    async def set(self, chunks: int, *, every: bool = False) -> None:
        """Have rows of so many chunks; `every` one is wanted, or some are."""
        self.chunks, self.every = chunks, every
        self.bench.dut.settings.value = settings_of(self.config, self.bench.random, last_chunk=chunks - 1)
        await self.bench.drain(quiet=0)

    async def send(self, nodes: int, hubs: int, *, single: bool | None = None) -> None:
        """Put the rows of a record in their places, then hand the record over; expect what leaves.

        It is of one node, or of a hub, whose other hubs all have the sum of the last one: `single`, or now and then.
        """
        bench, config, rng = self.bench, self.config, self.bench.random
        lanes, low = config.lanes, -(1 << config.sum_bits - 1)
        if single is None:
            single = nodes < 2 and rng.random() < 0.5
        later = rng.getrandbits(1)
        words = [
            [[rng.choice((low, ~low, rng.randrange(low, -low))) for _ in range(lanes)] for _ in range(self.chunks)]
            for _ in range(nodes + hubs)
        ]
        forwarded: list[list[dict[str, Any]]] = [[] for _ in range(self.chunks)]
        first_forwarded = None
        for row in range(nodes + hubs):
            place = (self.base + row) % config.slots
            vid, summed = rng.randrange(_VIDS), self.every or rng.random() < 0.6
            kept = self.every or not config.shares or rng.random() < 0.7
            wanted = summed and (kept or row >= nodes)
            # Of a record of one node they are known.
            vectors = rng.randrange(config.width)
            bench.drive("vectors", [{"slot": place, "vectors": vectors}])
            if single:
                vectors = 1 if row else nodes + hubs - later
            scale = {name: rng.getrandbits(bits) for name, bits in (("mantissa", 16), ("exponent", 5))}
            bench.drive("vertex", [{"vid": vid, "slot": place, "summed": int(summed)}])
            if config.shares:
                bench.drive("kept", [{"slot": place, "kept": int(kept)}])
            if row < nodes:
                bench.drive("scale", [{"slot": place, "scale": {**scale, "reserved": rng.getrandbits(11)}}])
            for chunk in range(self.chunks):
                sums = words[-1 if single and row else row][chunk]
                own = [rng.choice((-(1 << 15), (1 << 15) - 1, rng.randrange(1 << 15))) for _ in range(lanes)]
                head = {"vid": vid, "chunk": chunk, "last": int(chunk == self.chunks - 1)}
                at = place * config.chunks + chunk
                bench.drive("fill", [{"address": at, "data": words[row][chunk]}])
                if row < nodes:
                    bench.drive("own", [{"slot": at, "data": own}])
                if wanted and row < nodes:
                    bench.expect("finish", [{**head, **scale, "sums": sums, "own": own}])
                elif wanted:
                    # If no node is joined to the hub, what memory has is not looked at.
                    empty = {"empty": int(not kept)} if config.shares else {}
                    word = {**head, "data": sums, "vectors": vectors, **empty}
                    if single and row:
                        forwarded[chunk].append(word)
                    else:
                        bench.expect("partial", [word])
            forwards = single and row > 0
            if forwards and wanted and first_forwarded is None:
                first_forwarded = len(self.words)
            self.words.append((1 if forwards else self.chunks) * wanted)
            self.to_forward += single and row > 0 and wanted
        for chunks in forwarded:
            bench.expect("partial", chunks)
        if first_forwarded is not None:
            # Chunks of all rows come before the last one of the first.
            self.words[first_forwarded] += sum(map(len, forwarded[:-1]))
        sources = ("vertex", "vectors", "scale", "own", "fill", *(("kept",) if config.shares else ()))
        await bench.until(lambda: not any(bench.drivers[name].busy_words for name in sources))
        sizes = {"rows": nodes + hubs, "nodes": nodes, "single": int(single), "later": later}
        bench.drive("i", [{"base": self.base, **sizes}])
        self.records.append(nodes + hubs)
        self.base = (self.base + nodes + hubs) % config.slots

    async def _watch(self) -> None:
        """Every row is freed once, the last one of a record retires it, and it is busy while words are to come."""
        dut, in_record, freed, passed = self.bench.dut, 0, 0, 0
        before = sum(self.bench.received(name) for name in ("finish", "partial"))
        while True:
            await self.bench.cycles(1)
            # A row is passed once, when it may be, and freed behind that.
            assert not int(dut.passes.value) or int(dut.there.value)
            assert self.freed + int(dut.freed.value) <= passed
            passed += int(dut.passes.value)
            self.forwarded += int(dut.forwarded.value)
            if self.missing:
                dut.there.value = int(self.bench.random.random() >= self.missing)
            if int(dut.freed.value):
                self.freed += 1
                in_record += 1
                ends = in_record == self.records[0]
                assert int(dut.retired.value) == ends, f"row {in_record} of {self.records[0]}"
                if ends:
                    self.records.pop(0)
                    in_record = 0
            else:
                assert not int(dut.retired.value)
            # A row is freed with its last word, not before and not later.
            came = sum(self.bench.received(name) for name in ("finish", "partial")) - before
            last_words = list(accumulate(self.words))
            # Those without words are freed some time before the next word comes.
            assert freed <= bisect_right(last_words, came)
            assert not came or bisect_left(last_words, came) < self.freed or came not in last_words
            freed = self.freed
            if self.records and not self.bench.drivers["i"].busy_words:
                assert int(dut.busy.value), "not busy with words to come"

    async def done(self) -> int:
        """Wait until all is finished; return the cycle of the last word."""
        cycle = await self.bench.drain(50_000)
        assert not int(self.bench.dut.busy.value)
        assert self.freed == len(self.words)
        assert self.forwarded == self.to_forward
        assert not self.records
        return cycle

    async def forget(self) -> "Rows":
        """Reset in the middle; return a bench that begins again."""
        self.watcher.cancel()
        await self.bench.reset()
        return Rows(self.bench, self.config, self.missing)


async def begin(dut: Any, missing: float = 0.0, **pace: Any) -> Rows:
    dut.there.value = 0
    bench = await start(dut, sender(**parameters()), **pace)
    return Rows(bench, CommunityConfig(**parameters()), missing)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9], missing=[0.0, 0.7])
async def rows_leave_whole(dut: Any, idle: float, stall: float, missing: float) -> None:
    """Send records of any size, places filled for one while the one before leaves; rows may be missing for a while."""
    rows = await begin(dut, missing, idle=idle, stall=stall)
    rng, config = rows.bench.random, rows.config
    for chunks in range(1, config.chunks + 1):
        await rows.set(chunks)
        room = config.slots
        while room:
            size = min(room, rng.choice((1, 2, rng.randint(1, config.width // 2), config.width)))
            nodes = rng.choice((0, size, rng.randint(0, size)))
            await rows.send(nodes, size - nodes)
            room -= size
        await rows.done()


@cocotb.test()
async def a_chunk_leaves_every_cycle(dut: Any) -> None:
    """So does the first one of the next row, and of the next record."""
    rows = await begin(dut)
    config = rows.config
    for chunks in (1, config.chunks):
        await rows.set(chunks, every=True)
        for nodes, hubs in ((1, 0), (0, 1), (config.width, 0), (0, config.width), (3, 4), (1, 2)):
            await rows.send(nodes, hubs)
            began = rows.bench.cycle
            assert await rows.done() - began == (nodes + hubs) * chunks + 1, f"{nodes} nodes, {hubs} hubs"


@cocotb.test()
async def nothing_is_freed_before_it_is_taken(dut: Any) -> None:
    """Refused for long, a row stays in its slot, whichever way it goes."""
    rows = await begin(dut)
    config = rows.config
    for way, nodes in (("finish", config.width), ("partial", 0)):
        await rows.set(config.chunks, every=True)
        before = rows.freed
        rows.bench.pace(stall={way: 1.0})
        await rows.send(nodes, config.width - nodes)
        await rows.bench.cycles(50)
        assert rows.freed == before
        assert int(dut.busy.value)
        rows.bench.pace(stall={way: 0.0})
        await rows.done()


async def let_come(rows: Rows, nodes: int, *, single: bool, words: Callable[[int], int]) -> None:
    """Send a record whose rows come one after the other, some time apart; so many `words` leave after each number."""
    bench, config = rows.bench, rows.config
    await rows.set(config.chunks, every=True)
    bench.dut.there.value = 0
    before = bench.received("finish") + bench.received("partial")
    await rows.send(nodes, config.width - nodes, single=single)
    for row in range(config.width):
        await bench.cycles(3 * config.chunks)
        assert bench.received("finish") + bench.received("partial") - before == words(row)
        assert int(bench.dut.busy.value)
        bench.dut.there.value = 1
        await bench.cycles(words(row + 1) - words(row))
        bench.dut.there.value = 0
    await bench.cycles(config.chunks * config.width + 2)
    assert bench.received("finish") + bench.received("partial") - before == config.chunks * config.width
    await rows.done()


@cocotb.test()
async def a_row_that_has_not_come_is_waited_for(dut: Any) -> None:
    """Nothing leaves, also of rows whose sums are complete; every other row leaves when it has come."""
    rows = await begin(dut)
    for nodes in (rows.config.width, 0, rows.config.width // 2):
        await let_come(rows, nodes, single=False, words=lambda count: count * rows.config.chunks)


@cocotb.test()
async def a_forwarded_row_is_waited_for_with_its_first_chunk(dut: Any) -> None:
    """Once the last one has come, the other chunks of all leave."""
    rows = await begin(dut)
    for nodes in (0, 1):
        await let_come(rows, nodes, single=True, words=lambda count: rows.config.chunks + count - 1 if count else 0)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    rows = await begin(dut, 0.3, stall=0.3)
    rng, config = rows.bench.random, rows.config
    for _ in range(12):
        await rows.set(rng.randint(1, config.chunks))
        for _ in range(2):
            nodes = rng.randint(0, config.width)
            await rows.send(nodes, config.width - nodes)
        await rows.bench.cycles(rng.randrange(60))
        rows = await rows.forget()
        await rows.set(rng.randint(1, config.chunks))
        # Nodes or hubs first.
        await rows.send(rng.choice((0, config.width // 2)), config.width // 2)
        await rows.done()


@pytest.mark.parametrize("sizes", [*SIZES, *(pytest.param(one, marks=full) for one in MORE)], ids=str)
def test_row_sender(sizes: dict[str, Any]) -> None:
    simulate(sender(**sizes), __name__, parameters=sizes)
