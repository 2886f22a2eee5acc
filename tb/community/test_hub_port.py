"""Hub port: rows in the order in which the PE asked, from units that are never held up; never more than it has room."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import cocotb
import pytest

from hw.community import factories
from hw.community.hub_port import HubPort
from hw.stream.queue import Queue
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from tb.harness.marks import full

#: As in a chiplet, but for shorter beats; as little as there can be; one unit.
DEFAULT: dict[str, Any] = {"units": 4, "rows": 32, "lanes": 4, "max_out": 21, "data_width": 64, "partials": True}
NARROW: dict[str, Any] = {"units": 2, "rows": 2, "lanes": 1, "max_out": 1, "data_width": 64}
ALONE: dict[str, Any] = {"units": 1, "rows": 5, "lanes": 4, "max_out": 4, "data_width": 128}


class Around:
    """A PE and the hub units: who has been asked for what, and what the PE must get.

    Parameters
    ----------
    bench, design
        The port.
    late
        Cycles at most between two rows of all units; 0: every row comes as it is asked for.
    """

    def __init__(self, bench: Bench, design: HubPort, late: int = 0) -> None:
        self.bench, self.design, self.late = bench, design, late
        #: By unit: requests that have not come, and rows that have not been sent.
        self.expected: list[deque[dict[str, int]]] = [deque() for _ in range(design.units)]
        self.rows: list[deque[list[dict[str, Any]]]] = [deque() for _ in range(design.units)]
        #: By unit, in its order: rows that it will be asked for.
        self.coming: list[deque[list[dict[str, Any]]]] = [deque() for _ in range(design.units)]
        self.words: deque[dict[str, Any]] = deque()
        self.asked = self.taken = 0
        self.holds = False
        for n in range(design.units):
            bench.take(f"requests__{n}", partial(self._request, n))
        bench.take("o", self._take)
        cocotb.start_soon(self._send())

    def row(self, beats: int | None = None) -> list[dict[str, Any]]:
        """Return a row of random beats."""
        rng, config = self.bench.random, self.design.config
        count = beats or rng.randint(1, config.pe.max_beats)
        high = {"high": rng.getrandbits(1)} if config.partials else {}
        return [
            {
                "data": [rng.randrange(-(1 << 15), 1 << 15) for _ in range(config.pe.elements)],
                "last": int(n == count - 1),
                **high,
            }
            for n in range(count)
        ]

    def ask(self, units: list[int], beats: int | None = None) -> None:
        """Have the PE ask for a row of each of these units."""
        rng = self.bench.random
        for unit in units:
            request = {
                "vid": rng.getrandbits(32) // self.design.units * self.design.units + unit,
                "slot": rng.randrange(self.design.config.slots),
            }
            row = self.row(beats)
            self.expected[unit].append(request)
            self.coming[unit].append(row)
            self.words += row
            self.bench.drive("i", [request])

    def _request(self, unit: int, request: dict[str, int]) -> None:
        assert request == self.expected[unit].popleft(), f"unit {unit} was asked for another row"
        self.asked += 1
        assert self.owed <= self.design.room
        row = self.coming[unit].popleft()
        if self.late:
            self.rows[unit].append(row)
        else:
            self.bench.drive(f"rows__{unit}", row)

    @property
    def owed(self) -> int:
        """Rows that have been asked for and not taken."""
        return self.asked - self.taken

    async def _send(self) -> None:
        """Send rows from any unit that has some to send."""
        rng = self.bench.random
        while self.late:
            await self.bench.cycles(rng.randint(1, self.late))
            able = [n for n in range(self.design.units) if self.rows[n]]
            if able and not self.holds:
                unit = rng.choice(able)
                self.bench.drive(f"rows__{unit}", self.rows[unit].popleft())

    def _take(self, word: dict[str, Any]) -> None:
        assert word == self.words.popleft(), "the PE got another beat"
        self.taken += word["last"]

    def done(self) -> bool:
        """Whether the PE has all."""
        return not self.words

    def forget(self) -> None:
        """Begin again."""
        for queues in (self.expected, self.rows, self.coming):
            for queue in queues:
                queue.clear()
        self.words.clear()
        self.asked = self.taken = 0


async def begin(dut: Any, *, late: int = 0, **pace: Any) -> tuple[Bench, HubPort, Around]:
    design = factories.hub_port(**parameters())
    bench = await start(dut, design, **pace)
    around = Around(bench, design, late)
    await bench.cycles(2)
    return bench, design, around


def latency(design: HubPort) -> int:
    """Return the cycles from a beat of a unit to the PE: those of a queue of as many rows as there is room for."""
    return Queue(1, design.room * design.config.pe.max_beats).latency


def sums(bench: Bench, design: HubPort, count: int) -> None:
    """Have the PE send partial sums to all units in turn; each gets its own, in order."""
    rng, config = bench.random, design.config
    for _ in range(count):
        unit = rng.randrange(design.units)
        word = {
            "vid": rng.getrandbits(32) // design.units * design.units + unit,
            "chunk": rng.randrange(config.chunks),
            "data": [rng.randrange(-(1 << 31), 1 << 31) for _ in range(config.lanes)],
            "last": rng.getrandbits(1),
        }
        bench.drive("partial", [word])
        bench.expect(f"partials__{unit}", [word])


@cocotb.test()
@cocotb.parametrize(late=[0, 1, 12], idle=[0.0, 0.5], stall=[0.0, 0.6])
async def rows_come_in_the_order_of_requests(dut: Any, late: int, idle: float, stall: float) -> None:
    """From units that answer at any time; partial sums pass meanwhile, to who they are for."""
    bench, design, around = await begin(dut, late=late, idle=idle, stall=stall)
    rng = bench.random
    for _ in range(3):
        around.ask([rng.randrange(design.units) for _ in range(100)])
        around.ask([n for n in range(design.units) for _ in range(20)])
        sums(bench, design, 150)
        await bench.until(around.done, 40_000)
        await bench.drain()
    assert around.taken == around.asked == 300 + 60 * design.units


@cocotb.test()
async def no_more_rows_than_there_is_room_for(dut: Any) -> None:
    """Let the longest rows of one unit, and of all, wait for the PE; every row taken lets one more request pass."""
    bench, design, around = await begin(dut)
    longest = design.config.pe.max_beats
    for units in ([0] * design.room, [n % design.units for n in range(design.room)]):
        bench.pace(stall={"o": 1.0})
        await bench.cycles(1)
        around.ask(units, longest)
        around.ask(units[:3])
        await bench.cycles(longest * (design.room + 8))
        assert around.owed == design.room
        # Units have sent all, and nobody held them up.
        assert not any(bench.drivers[f"rows__{n}"].busy_words for n in range(design.units))
        # Partial sums do not wait for rows.
        sums(bench, design, 20)
        await bench.cycles(25)
        assert not bench.drivers["partial"].busy_words
        bench.pace(stall={"o": 0.0})
        await bench.until(around.done)
        await bench.drain()
        assert around.owed == 0


@cocotb.test()
async def requests_and_rows_pass_in_every_cycle(dut: Any) -> None:
    bench, design, around = await begin(dut, late=1)
    around.holds = True
    units = [bench.random.randrange(design.units) for _ in range(design.room)]
    began = bench.cycle
    around.ask(units, 1)
    await bench.until(lambda: around.asked == design.room)
    assert bench.cycle - began == design.room
    # The last of them first: the first row is the last to come.
    for unit in reversed(range(design.units)):
        while around.rows[unit] and unit != units[0]:
            bench.drive(f"rows__{unit}", around.rows[unit].popleft())
    await bench.cycles(design.room + 5)
    assert around.taken == 0
    began = bench.cycle
    while around.rows[units[0]]:
        bench.drive(f"rows__{units[0]}", around.rows[units[0]].popleft())
    await bench.until(around.done)
    assert bench.cycle - began == design.room + latency(design)


@cocotb.test()
async def a_request_waits_for_its_unit_alone(dut: Any) -> None:
    """One that is not taken holds up those behind it; partial sums of other units the same."""
    bench, design, around = await begin(dut)
    last = design.units - 1
    bench.pace(stall={f"requests__{last}": 1.0, f"partials__{last}": 1.0})
    await bench.cycles(1)
    around.ask([0, last], 1)
    sums(bench, design, 40)
    await bench.cycles(60)
    assert around.asked == (0 if last == 0 else 1)
    assert bench.expected[f"partials__{last}"]
    assert bench.drivers["partial"].busy_words
    bench.pace(stall={f"partials__{last}": 0.0})
    await bench.cycles(45)
    assert not bench.drivers["partial"].busy_words
    assert around.asked == (0 if last == 0 else 1)
    bench.pace(stall={f"requests__{last}": 0.0})
    await bench.until(around.done)
    await bench.drain()


@cocotb.test()
async def a_reset_forgets_what_is_owed(dut: Any) -> None:
    bench, design, around = await begin(dut, late=3, idle=0.2, stall=0.4)
    rng = bench.random
    for _ in range(12):
        around.ask([rng.randrange(design.units) for _ in range(2 * design.room)])
        await bench.cycles(rng.randrange(1, 120))
        around.forget()
        await bench.reset()
        await bench.cycles(5)
        around.ask([rng.randrange(design.units) for _ in range(2 * design.room)])
        await bench.until(around.done)
        await bench.drain()
        assert around.owed == 0


@pytest.mark.parametrize(
    "sizes", [DEFAULT, NARROW, pytest.param(ALONE, marks=full)], ids=["four units", "narrow", "one unit"]
)
def test_hub_port(sizes: dict[str, Any]) -> None:
    simulate(factories.hub_port(**sizes), __name__, parameters=sizes, name=f"hub_port_{sizes['units']}")
