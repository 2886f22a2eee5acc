"""Row window: rows that come in any order are read in order, each beat once; what cannot be had ends in errors."""

from typing import Any

import cocotb
import pytest

from contracts import Error
from hw.attributes.formats import AttributeConfig, AttributeCoreConfig
from hw.attributes.row_window import ROWS, RowWindow, WindowSettings
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec

WIDTH = 64
CONFIG = AttributeConfig(slots=8, ways=2, row_beats=12, id_bits=8, tag_bits=8, address_width=20, data_width=WIDTH)
#: Beats of a line, and lines that can be addressed.
LINE = 512 // WIDTH
LINES = 1 << 14


def row_window(depth: int) -> RowWindow:
    return RowWindow(CONFIG, depth)


class World:
    """A window, the attribute RAM in front of it, and who reads.

    Attributes
    ----------
    patience
        Probability that a row that was asked for does not come in a cycle.
    beats, failures, taken
        What the window has said, and rows that it has taken.
    closed
        Beats that had come when it was not open any more.
    """

    def __init__(self, dut: Any, bench: Bench) -> None:
        self.dut, self.bench, self.patience = dut, bench, 0.5
        self.beats, self.failures = list[dict[str, int]](), list[dict[str, int]]()
        bench.take("failure", self.failures.append)
        bench.take("beats", self.beats.append)
        self.taken, self.closed = 0, 0
        cocotb.start_soon(self.watch())

    async def watch(self) -> None:
        """Count rows whose last beat has been taken, and see when the window closes."""
        was_open = 0
        while True:
            await self.bench.edge
            self.taken += int(self.dut.taken.value)
            is_open = int(self.dut.open.value)
            if was_open and not is_open:
                self.closed = len(self.beats)
            was_open = is_open

    async def open(self, count: int, length: int) -> None:
        """Open the window for so many rows of so many beats."""
        random = self.bench.random
        self.count, self.length, self.first = count, length, random.randrange(LINES - 512)
        self.rows = [[random.getrandbits(WIDTH) for _ in range(length)] for _ in range(count)]
        settings = {"rows": self.first, "count": count, "beats": length}
        self.dut.settings.value = Codec(WindowSettings(CONFIG)).pack(settings)
        self.beats.clear()
        self.failures.clear()
        self.taken = 0
        await self.bench.pulse(self.dut.start, 2)

    def ask(self, first: int, sizes: list[int]) -> None:
        """Read bursts from a beat on."""
        for size in sizes:
            burst = {"address": self.first * LINE + first, "length": size - 1, "client": size % 16}
            self.bench.drive("reads", [burst])
            first += size

    def bursts(self) -> list[int]:
        """Cut all beats into bursts."""
        left, sizes = self.count * self.length, []
        while left:
            sizes.append(min(left, self.bench.random.randint(1, 16)))
            left -= sizes[-1]
        return sizes

    async def fetch(self, fails: int | None = None, report: dict[str, int] | None = None) -> None:
        """Ask for rows as there is room, and let them come in any order; the row `fails` does not, for that reason."""
        asked, due, random = 0, list[int](), self.bench.random
        while asked < self.count or due:
            # What is seen of `room` is a cycle old, so there is a request in every second cycle.
            asks = not int(self.dut.asks.value) and int(self.dut.room.value) and asked < self.count
            self.dut.asks.value = int(asks)
            if asks:
                due.append(asked)
                asked += 1
            assert len(due) <= ROWS
            if due and random.random() >= self.patience:
                # Rows in front of one that does not come are there before.
                number = due.pop(random.randrange(len(due)) if fails is None else 0)
                if number == fails:
                    await self.bench.cycles(40)
                    self.bench.drive("failed", [report])
                else:
                    words = [{"data": word, "tag": number, "last": 0} for word in self.rows[number]]
                    words[-1]["last"] = 1
                    self.bench.drive("i", words)
            await self.bench.cycles(1)
        self.dut.asks.value = 0

    async def whole(self, count: int, length: int) -> None:
        """Fetch and read rows that nothing is wrong with."""
        await self.open(count, length)
        lines = -(-count * length // LINE)
        assert int(self.dut.end.value) - int(self.dut.first.value) == (lines if count else 0)
        sizes = self.bursts()
        self.ask(0, sizes)
        await self.fetch()
        await self.bench.until(lambda: len(self.beats) == count * length)
        await self.bench.cycles(2)
        good = [beat for row in self.rows for beat in row]
        lasts = [int(n == size - 1) for size in sizes for n in range(size)]
        clients = [size % 16 for size in sizes for _ in range(size)]
        wanted = [
            {"data": data, "error": 0, "last": last, "client": client}
            for data, last, client in zip(good, lasts, clients, strict=True)
        ]
        wrong = [n for n, (beat, want) in enumerate(zip(self.beats, wanted, strict=False)) if beat != want]
        assert not wrong, (wrong[0], self.beats[wrong[0]], wanted[wrong[0]])
        assert not self.failures
        assert self.taken == count
        # The last beat is on its way when it closes.
        assert self.closed >= count * length - 1
        # All has been read: the window is closed.
        assert (int(self.dut.open.value), int(self.dut.end.value)) == (0, int(self.dut.first.value))

    async def broken(self, failures: list[dict[str, int]], good: int, more: int, missing: int = 0) -> None:
        """Read `more` beats: after `good` ones all are errors, the first of which is told, until nobody reads.

        So many rows are `missing`.
        """
        await self.bench.until(lambda: len(self.beats) == good + more)
        flat = [beat for row in self.rows for beat in row]
        assert [beat["data"] for beat in self.beats[:good]] == flat[:good]
        assert [beat["error"] for beat in self.beats] == [0] * good + [1] * more
        assert self.failures == failures
        assert int(self.dut.open.value) == 0 < int(self.dut.end.value) - int(self.dut.first.value)
        await self.bench.pulse(self.dut.abandon, 2)
        assert int(self.dut.end.value) == int(self.dut.first.value)
        await self.bench.drain()
        # Rows that are dropped are taken too.
        assert self.taken == self.count - missing
        await self.whole(25, 5)


async def begin(dut: Any, **pace: Any) -> World:
    for name in ("start", "asks", "abandon"):
        getattr(dut, name).value = 0
    return World(dut, await start(dut, row_window(**parameters()), **pace))


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], patience=[0.0, 0.6, 0.95])
async def rows_are_read_in_order(dut: Any, idle: float, patience: float) -> None:
    world = await begin(dut, idle=idle)
    world.patience = patience
    for count, length in ((200, 1), (40, 4), (30, 12), (1, 12), (64, 7), (0, 3), (256, 2), (33, 3)):
        await world.whole(count, length)


@cocotb.test()
async def nothing_is_let_through_without_a_place(dut: Any) -> None:
    world = await begin(dut)
    for length in (1, 4, 12):
        await world.open(255, length)
        places = min(ROWS, parameters()["depth"] // length)
        dut.asks.value = 1
        await world.bench.cycles(places)
        assert int(dut.room.value) == 1  # before the last one
        dut.asks.value = 0
        await world.bench.cycles(2)
        assert int(dut.room.value) == 0
        await world.bench.reset()


@cocotb.test()
@cocotb.parametrize(early=[False, True])
async def a_row_that_does_not_come_is_told_once(dut: Any, early: bool) -> None:
    """Whether somebody waits for it or not; rows behind it are dropped, and each bit of the report passes."""
    world = await begin(dut)
    random = world.bench.random
    for _ in range(4):
        world.patience = 0.0
        report = {"code": random.randrange(1, 256), "info": random.getrandbits(32)}
        for said in (report, {name: (1 << bits) - 1 - report[name] for name, bits in (("code", 8), ("info", 32))}):
            await world.open(20, 3)
            if early:
                world.ask(0, [6] * 10)
                await world.fetch(2, said)
                await world.broken([said], 6, 54, 1)
            else:
                await world.fetch(2, said)
                await world.bench.drain()
                world.ask(0, [6] * 10)
                await world.broken([said], 0, 60, 1)


@cocotb.test()
@cocotb.parametrize(address=[1, -3, 64])
async def a_burst_out_of_turn_is_an_error(dut: Any, address: int) -> None:
    world = await begin(dut)
    for _ in range(6):
        world.patience = 0.0
        await world.open(8, 3)
        await world.fetch()
        world.ask(0, [5])
        await world.bench.drain()
        world.ask(5 + address, [2, 2])
        line = (world.first * LINE + 5 + address) // LINE
        await world.broken([{"code": Error.BAD_OPERAND, "info": line}], 5, 4)


@cocotb.test()
async def rows_that_nobody_reads_are_dropped(dut: Any) -> None:
    """Who still waits for some is answered, and nothing is told."""
    world = await begin(dut)
    world.patience = 1.0
    await world.open(30, 4)
    world.ask(0, [8, 8])
    await world.bench.cycles(20)
    assert not world.beats
    await world.bench.pulse(dut.abandon)
    await world.bench.until(lambda: len(world.beats) == 16)
    assert [beat["error"] for beat in world.beats] == [1] * 16
    assert not world.failures
    world.patience = 0.3
    await world.fetch()
    await world.bench.drain()
    await world.whole(30, 4)


@pytest.mark.parametrize("depth", [32, 256])
def test_row_window(depth: int) -> None:
    simulate(row_window(depth), __name__, parameters={"depth": depth})


def test_the_longest_row_has_room() -> None:
    with pytest.raises(ValueError, match="window must be at least row_beats, 96, not 64"):
        AttributeCoreConfig(AttributeConfig(row_beats=96), window=64)


@pytest.mark.parametrize("depth", [16, 48])
def test_depths_are_checked(depth: int) -> None:
    with pytest.raises(ValueError, match=r"depth must be a power of two from 32"):
        row_window(depth)
