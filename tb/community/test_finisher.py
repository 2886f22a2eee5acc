"""Finisher: results and partial sums of rows of every length, extremes, order, room for what waits, exact cycles."""

from collections import Counter
from typing import Any

import cocotb
import numpy as np
import pytest

from golden.model.rounding import requantise
from hw.community.finisher import Finisher
from hw.community.formats import CommunityConfig
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from tb.community.beside import Beside, settings_of
from tb.harness.marks import full

SIZES: tuple[dict[str, Any], ...] = (
    {"lanes": 4, "width": 8, "columns": 16, "max_out": 6, "weight_rows": 16, "data_width": 64, "ways": 4},
    {"lanes": 8, "width": 32, "columns": 64, "max_out": 35, "weight_rows": 64, "ways": 2},
)
MORE: tuple[dict[str, Any], ...] = (
    {**SIZES[0], "partials": True, "ways": 1},
    {**SIZES[1], "lanes": 2, "data_width": 128},
)
#: From the cycle in which a group of elements, or a chunk of a hub, is read to that in which its beat, or it, can be
#: taken.
LATENCY, HUB_LATENCY = 12, 2
#: Beats, or chunks, that wait to be taken.
WAITING = 16


def finisher(**sizes: Any) -> Beside:
    """Return a finisher beside the memory of sums."""
    return Beside(Finisher(CommunityConfig(**sizes)), "sums")


def weight_of(own: int, power: int) -> int:
    """Return the weight of a row, of 17 bits."""
    return ((own << power) + (1 << 16)) % (1 << 17) - (1 << 16)


class Rows:
    """A bench around a finisher: fills places with rows and knows what must become of them.

    Parameters
    ----------
    bench
        Its streams.
    config
        Sizes.
    """

    def __init__(self, bench: Bench, config: CommunityConfig) -> None:
        self.bench, self.config = bench, config
        self.base = bench.random.randrange(config.slots)
        self.settings: dict[str, int] = {}
        #: Words that every row to come leads to, and rows of every record.
        self.words: list[int] = []
        self.records: list[int] = []
        self.freed = self.came = 0
        self.watcher = cocotb.start_soon(self._watch())

    async def set(self, f_out: int, **settings: int) -> None:
        """Write random biases and settings, but for those given."""
        bench, config = self.bench, self.config
        rng = bench.random
        self.biases = [rng.getrandbits(32) - (1 << 31) >> rng.choice((0, rng.randrange(32))) for _ in range(f_out)]
        bench.drive("bias_write", [{"address": n, "data": bias} for n, bias in enumerate(self.biases)])
        own = rng.choice((0, rng.randrange(-600, 600), rng.randrange(-(1 << 16), 1 << 16)))
        self.magnitude = rng.randint(1, config.sum_bits)
        wide = rng.getrandbits(1)
        low = max(0, self.magnitude + 8 * wide - 6)
        self.settings = {
            "relu": rng.getrandbits(1),
            "bias": rng.getrandbits(1),
            "wide": wide,
            "own": own,
            "rooted": rng.getrandbits(1),
            "f_out": f_out,
            "last_chunk": -(-f_out // config.lanes) - 1,
            "shift": rng.choice((rng.randrange(low, low + 24), rng.getrandbits(6))),
            **settings,
        }
        bench.dut.settings.value = settings_of(config, rng, **self.settings)
        await bench.drain(quiet=0)

    async def send(self, nodes: int, hubs: int) -> None:
        """Put the rows of a record in their places, then hand the record over; expect its results."""
        bench, config, rng = self.bench, self.config, self.bench.random
        f_out, chunks, lanes = self.settings["f_out"], self.settings["last_chunk"] + 1, config.lanes
        elements, low = config.pe.elements, -(1 << self.magnitude - 1)
        for row in range(nodes + hubs):
            place, vid = (self.base + row) % config.slots, rng.getrandbits(32)
            sums = [
                rng.choice((low, ~low, rng.randrange(low, -low), rng.randrange(low, -low)))
                for _ in range(chunks * lanes)
            ]
            bench.drive("vertex", [{"vid": vid, "slot": place}])
            for chunk in range(chunks):
                part, at = sums[chunk * lanes : (chunk + 1) * lanes], place * config.chunks + chunk
                bench.drive("fill", [{"address": at, "data": part}])
                if row >= nodes:
                    last = int(chunk == chunks - 1)
                    bench.expect("partial", [{"vid": vid, "chunk": chunk, "data": part, "last": last}])
            if row < nodes:
                results = self._result(place, sums)
                beats = [results[at : at + elements] for at in range(0, f_out, elements)]
                for number, beat in enumerate(beats):
                    data = beat + [0] * (elements - len(beat))
                    last = int(number == len(beats) - 1)
                    bench.expect("o", [{"vid": vid, "beat": number, "data": data, "last": last}])
                self.words.append(len(beats))
            else:
                self.words.append(chunks)
        sources = ("vertex", "scale", "own", "fill")
        await bench.until(lambda: not any(bench.drivers[name].busy_words for name in sources))
        bench.drive("i", [{"base": self.base, "rows": nodes + hubs, "nodes": nodes, "single": rng.getrandbits(1)}])
        self.records.append(nodes + hubs)
        self.base = (self.base + nodes + hubs) % config.slots

    def _result(self, place: int, sums: list[int]) -> list[int]:
        """Give a node's row and scale to the finisher; return its results."""
        bench, config, rng, settings = self.bench, self.config, self.bench.random, self.settings
        mantissa, exponent = rng.randrange(1 << 15, 1 << 16), rng.choice((0, rng.randrange(4), rng.getrandbits(5)))
        scale = {"mantissa": mantissa, "exponent": exponent, "reserved": rng.getrandbits(11)}
        bench.drive("scale", [{"slot": place, "scale": scale}])
        row = [rng.choice((-(1 << 15), (1 << 15) - 1, rng.randrange(-(1 << 15), 1 << 15))) for _ in sums]
        for at in range(0, len(row), config.lanes):
            where = place * config.chunks + at // config.lanes
            bench.drive("own", [{"slot": where, "data": row[at : at + config.lanes]}])
        f_out = settings["f_out"]
        weighed = np.array(sums[:f_out], np.int64) * (256 if settings["wide"] else 1)
        power = exponent % 16 if settings["rooted"] else 0
        weighed += np.array(row[:f_out], np.int64) * weight_of(settings["own"], power)
        biases = self.biases if settings["bias"] else [0] * f_out
        results = requantise(weighed, mantissa, exponent, settings["shift"], np.array(biases, np.int64))
        return [max(0, int(value)) if settings["relu"] else int(value) for value in results]

    async def _watch(self) -> None:
        """Every row is freed once, the last one of a record retires it, and it is busy while words are to come."""
        dut, in_record = self.bench.dut, 0
        before = Counter({name: self.bench.received(name) for name in ("o", "partial")})
        while True:
            await self.bench.cycles(1)
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
            came = sum(self.bench.received(name) - before[name] for name in before)
            if sum(self.words[: self.freed]) > came:
                assert int(dut.busy.value), "not busy with words to come"

    async def done(self) -> int:
        """Wait until all is finished; return the cycle of the last word."""
        cycle = await self.bench.drain(50_000)
        assert not int(self.bench.dut.busy.value)
        assert self.freed == len(self.words)
        assert not self.records
        return cycle

    async def forget(self) -> "Rows":
        """Reset in the middle; return a bench that begins again."""
        self.watcher.cancel()
        await self.bench.reset()
        return Rows(self.bench, self.config)


async def begin(dut: Any, **pace: Any) -> Rows:
    bench = await start(dut, finisher(**parameters()), **pace)
    return Rows(bench, CommunityConfig(**parameters()))


def lengths(config: CommunityConfig) -> list[int]:
    """Return numbers of output features: around those of lanes and of a beat, the smallest and the largest."""
    around = (config.lanes, config.pe.elements)
    return sorted({1, 2, config.max_out, *(n + d for n in around for d in (-1, 0, 1) if n + d <= config.max_out)})


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def rows_are_finished(dut: Any, idle: float, stall: float) -> None:
    """Finish records of any size, places filled for one while the one before is finished."""
    rows = await begin(dut, idle=idle, stall=stall)
    rng, config = rows.bench.random, rows.config
    for f_out in lengths(config):
        await rows.set(f_out)
        room = config.slots
        while room:
            size = min(room, rng.choice((1, 2, rng.randint(1, config.width // 2), config.width)))
            nodes = rng.choice((0, size, rng.randint(0, size)))
            await rows.send(nodes, size - nodes)
            room -= size
        await rows.done()


@cocotb.test()
@cocotb.parametrize(wide=[0, 1], own=[0, -(1 << 16), (1 << 16) - 1])
async def extremes_are_exact(dut: Any, wide: int, own: int) -> None:
    """Finish sums as large as they can be, whatever the node itself counts, with and without biases and ReLU."""
    rows = await begin(dut)
    for case in range(4):
        for shift in (0, 16 + 8 * wide, rows.config.sum_bits + 8 * wide, 63):
            await rows.set(rows.config.max_out, wide=wide, own=own, shift=shift, relu=case & 1, bias=case >> 1)
            rows.magnitude = rows.config.sum_bits
            await rows.send(3, 1)
            await rows.done()


@cocotb.test()
async def a_group_or_a_chunk_passes_every_cycle(dut: Any) -> None:
    """So does the next row, and the next record; hubs do not wait for the nodes before them."""
    rows = await begin(dut)
    config = rows.config
    for f_out in lengths(config):
        for nodes, hubs in ((1, 0), (0, 1), (config.width, 0), (0, config.width), (3, 4), (1, 2)):
            await rows.set(f_out)
            chunks, groups = rows.settings["last_chunk"] + 1, -(-f_out // config.ways)
            read = nodes * groups + hubs * chunks
            await rows.send(nodes, hubs)
            began = rows.bench.cycle
            last = max(nodes and nodes * groups + LATENCY, hubs and read + HUB_LATENCY)
            assert await rows.done() - began == last, f"{nodes} nodes, {hubs} hubs of {f_out}"


@cocotb.test()
async def no_more_is_read_than_can_wait(dut: Any) -> None:
    """Refused for long, results and partial sums fill their queues to the end; what is behind them waits."""
    rows = await begin(dut)
    config = rows.config
    for f_out in (1, config.max_out):
        for nodes in (config.width, 0):
            await rows.set(f_out)
            before, known = rows.freed, len(rows.words)
            rows.bench.pace(stall=1.0)
            for _ in range(2):
                await rows.send(nodes, config.width - nodes)
            await rows.bench.cycles(2 * WAITING * config.max_out)
            assert rows.freed - before == min(2 * config.width, WAITING // rows.words[known])
            rows.bench.pace(stall=0.0)
            await rows.done()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    rows = await begin(dut, stall=0.3)
    rng, config = rows.bench.random, rows.config
    for _ in range(12):
        await rows.set(rng.choice(lengths(config)))
        for _ in range(2):
            nodes = rng.randint(0, config.width)
            await rows.send(nodes, config.width - nodes)
        await rows.bench.cycles(rng.randrange(60))
        rows = await rows.forget()
        await rows.set(rng.choice(lengths(config)))
        # Nodes or hubs first.
        await rows.send(rng.choice((0, config.width // 2)), config.width // 2)
        await rows.done()


@pytest.mark.parametrize("sizes", [*SIZES, *(pytest.param(one, marks=full) for one in MORE)], ids=str)
def test_finisher(sizes: dict[str, Any]) -> None:
    simulate(finisher(**sizes), __name__, parameters=sizes)
