"""Task router: tasks stay whole and in order, a busy taker holds nobody up, turns, exact cycles, reset in a task."""

from functools import partial
from typing import Any

import cocotb
import pytest

from hw.pe.formats import PEConfig
from hw.pe.router import TaskRouter
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from tb.pe.formal_router import PROOFS

#: What is routed only passes, so the narrowest beats do.
CONFIG = PEConfig(lanes=1, data_width=64, address_width=20, weight_rows=2, max_out=1)


def router(takers: int) -> TaskRouter:
    return TaskRouter(CONFIG, takers)


def beats(bench: Bench, length: int) -> list[dict[str, int]]:
    """Return a task of `length` beats with random contents."""
    width = CONFIG.task_beat["data"].shape.size
    return [
        {
            "data": bench.random.getrandbits(width),
            "mask": bench.random.getrandbits(4),
            "scalar": bench.random.getrandbits(16),
            "high": bench.random.getrandbits(1),
            "first": int(n == 0),
            "last": int(n == length - 1),
            "address": bench.random.getrandbits(CONFIG.beat_address_width),
            "scale": bench.random.getrandbits(32),
        }
        for n in range(length)
    ]


class Takers:
    """What each taker got, as packed beats, and in which cycle."""

    def __init__(self, bench: Bench, takers: int) -> None:
        self.bench = bench
        self.got: list[list[int]] = [[] for _ in range(takers)]
        self.order: list[int] = []
        self.packed = bench.codecs["i"].pack
        for n in range(takers):
            bench.take(f"o__{n}", partial(self._note, n))

    def _note(self, taker: int, beat: Any) -> None:
        self.got[taker].append(self.packed(beat))
        self.order.append(taker)

    async def route(self, tasks: list[list[dict[str, int]]]) -> int:
        """Send `tasks`; return the cycle in which the last beat was taken, counted from now."""
        began, before = self.bench.cycle, len(self.order)
        self.bench.drive("i", [beat for task in tasks for beat in task])
        count = sum(map(len, tasks))
        await self.bench.until(lambda: len(self.order) - before == count, 4000)
        cycle = self.bench.cycle - began
        await self.bench.cycles(4)
        assert len(self.order) - before == count
        return cycle

    def check(self, tasks: list[list[dict[str, int]]]) -> None:
        """Demand that every taker's beats are whole tasks in the order in which they were sent, each once."""
        left = [[self.packed(beat) for beat in task] for task in tasks]
        for got in self.got:
            at = 0
            for task in list(left):
                if got[at : at + len(task)] == task:
                    left.remove(task)
                    at += len(task)
            assert at == len(got)
        assert not left


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.3, 0.8])
async def tasks_stay_whole_and_in_order(dut: Any, idle: float, stall: float) -> None:
    count = parameters()["takers"]
    bench = await start(dut, router(count), idle=idle, stall=stall)
    takers = Takers(bench, count)
    tasks = [beats(bench, bench.random.choice((1, 1, 2, 3, 7))) for _ in range(60)]
    await takers.route(tasks)
    takers.check(tasks)


@cocotb.test()
async def ready_takers_take_turns_at_a_beat_a_cycle(dut: Any) -> None:
    count = parameters()["takers"]
    bench = await start(dut, router(count))
    takers = Takers(bench, count)
    tasks = [beats(bench, 1 + n % 3) for n in range(5 * count)]
    # Slice: a beat is offered one cycle after it was taken, so it leaves two after it was driven.
    assert await takers.route(tasks) == sum(map(len, tasks)) + 1
    # After reset, taker 0 counts as the last one served.
    assert takers.order == [(n + 1) % count for n, task in enumerate(tasks) for _ in task]


@cocotb.test()
async def a_busy_taker_holds_nobody_up(dut: Any) -> None:
    """Each taker in turn stops; the others share all tasks in turns without a gap."""
    count = parameters()["takers"]
    bench = await start(dut, router(count))
    takers = Takers(bench, count)
    last = 0
    for busy in range(count):
        bench.pace(stall={f"o__{n}": float(n == busy) for n in range(count)})
        await bench.cycles(2)
        tasks = [beats(bench, bench.random.randrange(1, 4)) for _ in range(12)]
        before = len(takers.order)
        assert await takers.route(tasks) == sum(map(len, tasks)) + 1
        wanted = []
        for task in tasks:
            last = next(n for n in ((last + d) % count for d in range(1, count + 1)) if n != busy)
            wanted += [last] * len(task)
        assert takers.order[before:] == wanted


@cocotb.test()
async def a_task_waits_for_its_taker_even_if_others_are_ready(dut: Any) -> None:
    count = parameters()["takers"]
    bench = await start(dut, router(count))
    takers = Takers(bench, count)
    task = beats(bench, 6)
    bench.drive("i", task[:3])
    await bench.until(lambda: len(takers.order) == 3)
    owner = takers.order[0]
    bench.pace(stall={f"o__{owner}": 1.0})
    await bench.cycles(2)
    bench.drive("i", task[3:])
    await bench.cycles(20)
    assert takers.order == [owner] * 3
    bench.pace(stall=0.0)
    await bench.until(lambda: len(takers.order) == 6)
    assert takers.order == [owner] * 6


@cocotb.test()
async def with_no_taker_ready_the_first_to_become_ready_gets_the_task(dut: Any) -> None:
    count = parameters()["takers"]
    bench = await start(dut, router(count))
    takers = Takers(bench, count)
    for chosen in [*range(count), *reversed(range(count))]:
        bench.pace(stall=1.0)
        await bench.cycles(2)
        before = len(takers.order)
        bench.drive("i", beats(bench, 2))
        await bench.cycles(6)
        assert len(takers.order) == before
        bench.pace(stall={f"o__{chosen}": 0.0})
        await bench.cycles(6)
        assert takers.order[before:] == [chosen] * 2


@cocotb.test()
async def reset_inside_a_task_begins_with_a_new_one(dut: Any) -> None:
    count = parameters()["takers"]
    bench = await start(dut, router(count), stall=0.5)
    for _ in range(6):
        Takers(bench, count)
        bench.drive("i", beats(bench, 30))
        await bench.cycles(bench.random.randrange(3, 20))
        await bench.reset()
        takers = Takers(bench, count)
        bench.pace(stall=0.0)
        tasks = [beats(bench, 2) for _ in range(count + 1)]
        assert await takers.route(tasks) == 2 * len(tasks) + 1
        assert takers.order == [(n + 1) % count for n in range(count + 1) for _ in range(2)]
        bench.pace(stall=0.5)


def test_router() -> None:
    simulate(router(3), __name__, parameters={"takers": 3})


def test_router_refuses_no_taker() -> None:
    with pytest.raises(ValueError, match="takers must be at least 1, not 0"):
        TaskRouter(CONFIG, 0)


def test_router_proofs() -> None:
    prove_all("router", PROOFS)
