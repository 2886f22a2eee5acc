"""The object a cocotb test holds: clock, reset, all streams of the design, expectations and waiting."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import Event, First, RisingEdge, Timer
from cocotb.utils import get_sim_time

from sim.harness.codec import Codec
from sim.harness.ports import stream_shapes
from sim.harness.run import CLOCK_NS, ports
from sim.harness.stream import Scoreboard, StreamDriver, StreamMonitor

#: Cycles reset is held.
RESET_CYCLES = 2
#: Cycles after the last expected word in which a surplus word is still noticed.
QUIET_CYCLES = 8


class Bench:
    """A design under test with a driver on every input stream and a monitor on every output stream.

    Made by :func:`start`. Words are whatever :class:`~sim.harness.codec.Codec` packs: integers, dictionaries, lists.

    Attributes
    ----------
    dut
        cocotb's handle of the top module, for ports that are no streams.
    random
        Generator of this test's random choices, seeded by cocotb's seed.
    drivers, monitors
        By name of the port.
    """

    def __init__(self, dut: Any, shapes: Mapping[str, Any], manual: Iterable[str] = ()) -> None:
        self.dut = dut
        self._rst = getattr(dut, "rst", None)
        self.edge = RisingEdge(dut.clk)
        self.random = random.Random(random.getrandbits(64))  # cocotb seeds it for each test
        self.scoreboard = Scoreboard(dut)
        self.scoreboard.on_word = self._settled
        self.drivers: dict[str, StreamDriver] = {}
        self.monitors: dict[str, StreamMonitor] = {}
        self.codecs: dict[str, Codec] = {}
        self.expected: dict[str, deque[int]] = {}
        self._done = Event()
        self._condition: Callable[[], bool] | None = None
        self._zero = 0.0
        for port in ports():
            if port.name in manual:
                continue
            self.codecs[port.name] = codec = Codec(shapes.get(port.name, port.width))
            source = random.Random(self.random.getrandbits(32))
            if port.inward:
                driver = StreamDriver(dut, port, dut.clk, source)
                driver.on_empty = self._settled
                self.drivers[port.name] = driver
            else:
                monitor = StreamMonitor(dut, port, dut.clk, source)
                self.expected[port.name] = deque()
                self.scoreboard.watch(monitor, self.expected[port.name], codec)
                self.monitors[port.name] = monitor

    @property
    def cycle(self) -> int:
        """Cycles since the end of the last reset."""
        return round((get_sim_time("ns") - self._zero) / CLOCK_NS)

    async def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Hold reset; forget everything queued and expected. Ends with the design free to run in cycle 0."""
        self._reset(1)
        for driver in self.drivers.values():
            driver.stop()
        for expected in self.expected.values():
            expected.clear()
        for monitor in self.monitors.values():
            monitor.restart()
        for _ in range(cycles):
            await self.edge
        self._reset(0)
        for monitor in self.monitors.values():
            monitor.restart()
        self._zero = get_sim_time("ns")

    def _reset(self, level: int) -> None:
        if self._rst is not None:
            self._rst.value = level

    def pace(self, *, idle: float | Mapping[str, float] = 0.0, stall: float | Mapping[str, float] = 0.0) -> None:
        """Set the probabilities of idle input cycles and of stalled output cycles, for all ports or by name."""
        for name, driver in self.drivers.items():
            driver.idle = idle.get(name, driver.idle) if isinstance(idle, Mapping) else idle
        for name, monitor in self.monitors.items():
            monitor.stall = stall.get(name, monitor.stall) if isinstance(stall, Mapping) else stall

    def drive(self, port: str, words: Iterable[Any]) -> None:
        """Queue `words` for input stream `port`."""
        codec = self.codecs[port]
        self.drivers[port].extend(map(codec.pack, words))

    def expect(self, port: str, words: Iterable[Any]) -> None:
        """Add `words` to what output stream `port` must bring, in this order."""
        codec = self.codecs[port]
        self.expected[port].extend(map(codec.pack, words))

    async def pulse(self, handle: Any, then: int = 0) -> None:
        """Raise an input of one bit for a cycle, and wait for so many more."""
        handle.value = 1
        await self.cycles(1)
        handle.value = 0
        await self.cycles(then)

    def take(self, port: str, callback: Callable[[Any], None]) -> None:
        """Hand every unpacked word of output stream `port` to `callback` instead of comparing it."""
        monitor = self.monitors[port]
        codec = self.codecs[port]
        monitor._callbacks.clear()
        self.expected[port].clear()

        def unpacked(word: int) -> None:
            callback(codec.unpack(word))
            self._settled()

        monitor.add_callback(unpacked)

    def received(self, port: str) -> int:
        """Return how many words output stream `port` has brought since the test began."""
        return self.monitors[port].stats.received_transactions

    async def drain(self, timeout: int = 10_000, *, quiet: int = QUIET_CYCLES) -> int:
        """Wait until every queued word is taken and every expected word has come, and no more comes.

        Parameters
        ----------
        timeout
            Cycles after which the test fails.
        quiet
            Cycles to watch for surplus words afterwards; not counted in the result.

        Returns
        -------
        int
            Cycle (see :attr:`cycle`) of the edge at which the last word passed.
        """
        await self.until(self._finished, timeout)
        cycle = self.cycle
        if quiet:
            await self.cycles(quiet)
        return cycle

    async def until(self, condition: Callable[[], bool], timeout: int = 10_000) -> int:
        """Wait for a `condition` that can only change when a word passes; return the cycles waited.

        Raises
        ------
        AssertionError
            After `timeout` cycles, naming what is missing.
        """
        began = self.cycle
        if not condition():
            limit = Timer(timeout * CLOCK_NS, unit="ns")
            self._done.clear()
            self._condition = condition
            first = await First(self._done.wait(), limit)
            self._condition = None
            if first is limit:
                raise AssertionError(f"not done after {timeout} cycles; {self._missing()}")
        return self.cycle - began

    async def cycles(self, count: int) -> None:
        """Wait `count` clock cycles and return right after an edge."""
        if count > 1:
            # A single sleep costs no Python per cycle; it ends between two edges.
            await Timer(((count - 1) * CLOCK_NS * 2 + CLOCK_NS) // 2, unit="ns")
        if count > 0:
            await self.edge

    def _settled(self) -> None:
        # Waking the test for every word would cost more than the word.
        if self._condition is not None and self._condition():
            self._done.set()

    def _finished(self) -> bool:
        return not any(self.expected.values()) and not any(driver.busy_words for driver in self.drivers.values())

    def _missing(self) -> str:
        parts = [f"{name}: {len(words)} words expected" for name, words in self.expected.items() if words]
        parts += [
            f"{name}: {driver.busy_words} words not taken" for name, driver in self.drivers.items() if driver.busy_words
        ]
        return "; ".join(parts) or "no word is missing, but the condition does not hold"


async def start(
    dut: Any,
    component: Any = None,
    *,
    shapes: Mapping[str, Any] | None = None,
    manual: Iterable[str] = (),
    idle: float = 0.0,
    stall: float = 0.0,
) -> Bench:
    """Start the clock, reset the design and return its :class:`Bench`.

    Parameters
    ----------
    dut
        cocotb's handle of the top module.
    component
        An Amaranth component like the one under test, from which payload shapes are taken.
    shapes
        Payload shapes by port name; needed only without `component`.
    manual
        Streams that the test drives by itself.
    idle, stall
        As for :meth:`Bench.pace`.

    Returns
    -------
    Bench
        In cycle 0 after reset.
    """
    found = {**(stream_shapes(component) if component is not None else {}), **(shapes or {})}
    bench = Bench(dut, found, manual)
    bench.pace(idle=idle, stall=stall)
    bench._reset(1)
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    await bench.reset()
    return bench
