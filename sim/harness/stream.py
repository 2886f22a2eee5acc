"""Driving, taking and judging streams inside the simulator.

Timing: everything happens right after a rising edge. What is read there is what the design saw at the edge;
what is written there the design sees at the next one. So a word driven after edge *n* can be taken at edge
*n* + 1, and a bench that only calls :class:`Bench` methods stays aligned to edges by itself.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge
from cocotb_bus.drivers import BusDriver
from cocotb_bus.monitors import BusMonitor
from cocotb_bus.scoreboard import Scoreboard as BusScoreboard

from sim.harness.codec import Codec
from sim.harness.ports import StreamPort

#: How cocotb-bus finds Amaranth's port names.
NAMING = {"bus_separator": "__", "case_insensitive": False}


def _signals(port: StreamPort) -> list[str]:
    names = [] if port.always_valid else ["valid"]
    names += [] if port.always_ready else ["ready"]
    return names + (["payload"] if port.width else [])


class StreamDriver(BusDriver):
    """Sends queued words into an input stream, with idle cycles before some of them.

    Parameters
    ----------
    entity, clock
        Design under test and its clock.
    port
        The stream.
    random_
        Source of random choices.
    """

    _thread: Any

    def __init__(self, entity: Any, port: StreamPort, clock: Any, random_: random.Random) -> None:
        self.port = port
        self.random = random_
        #: Probability of an idle cycle before a word.
        self.idle = 0.0
        #: Called when the last queued word was taken.
        self.on_empty: Callable[[], None] = lambda: None
        self._signals = _signals(port)
        super().__init__(entity, port.name, clock, **NAMING)
        self._present(None)

    @property
    def busy_words(self) -> int:
        """Words not yet taken by the design."""
        return len(self._sendQ)

    def extend(self, words: Iterable[int]) -> None:
        """Queue `words`, each the payload's bits."""
        self._sendQ.extend(words)
        if self._sendQ:
            self._pending.set()

    def stop(self) -> None:
        """Forget all queued words and lower ``valid``; only correct together with a reset."""
        self._thread.cancel()
        self._sendQ.clear()
        self._present(None)
        self._thread = cocotb.start_soon(self._send_thread())

    def _present(self, word: int | None) -> None:
        if not self.port.always_valid:
            self.bus.valid.value = 0 if word is None else 1
        if self.port.width:
            # What stands there while valid is low must not matter.
            self.bus.payload.value = self.random.getrandbits(self.port.width) if word is None else word

    async def _send_thread(self) -> None:
        edge = RisingEdge(self.clock)
        ready = None if self.port.always_ready else self.bus.ready
        queue = self._sendQ
        while True:
            while not queue:
                self._pending.clear()
                await self._pending.wait()
            while queue:
                if self.idle:
                    while self.random.random() < self.idle:
                        self._present(None)
                        await edge
                self._present(queue[0])
                await edge
                if ready is not None:
                    while not ready.value:
                        await edge
                queue.popleft()
            self._present(None)
            self.on_empty()


class StreamMonitor(BusMonitor):
    """Takes words from an output stream, refusing some cycles, and reports each to its callbacks.

    Parameters
    ----------
    entity, clock
        Design under test and its clock.
    port
        The stream.
    random_
        Source of random choices.
    """

    _thread: Any

    def __init__(self, entity: Any, port: StreamPort, clock: Any, random_: random.Random) -> None:
        self.port = port
        self.random = random_
        #: Probability that ``ready`` is low in a cycle.
        self.stall = 0.0
        self._signals = _signals(port)
        super().__init__(entity, port.name, clock, **NAMING)
        if not port.always_ready:
            self.bus.ready.value = 0

    def restart(self) -> None:
        """Begin again with ``ready`` low; used while reset is held."""
        self._thread.cancel()
        if not self.port.always_ready:
            self.bus.ready.value = 0
        self._thread = cocotb.start_soon(self._monitor_recv())

    async def _monitor_recv(self) -> None:
        edge = RisingEdge(self.clock)
        await edge
        valid = None if self.port.always_valid else self.bus.valid
        payload = self.bus.payload if self.port.width else None
        ready = None if self.port.always_ready else self.bus.ready
        rises = None if valid is None else RisingEdge(valid)
        willing = ready is None
        while True:
            if ready is not None:
                wish = not self.stall or self.random.random() >= self.stall
                if wish != willing:
                    ready.value = willing = wish
            await edge
            if valid is not None and not valid.value:
                if rises is not None and willing and not self.stall:
                    await rises  # no Python while nothing comes
                continue
            if willing:
                self._recv(0 if payload is None else int(payload.value))


class Scoreboard(BusScoreboard):
    """cocotb-bus's scoreboard over unpacked payloads; a difference fails the test at once."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, fail_immediately=True)
        self.codecs: dict[StreamMonitor, Codec] = {}
        self.received: dict[StreamMonitor, int] = {}
        #: Called after each compared word.
        self.on_word: Callable[[], None] = lambda: None

    def watch(self, monitor: StreamMonitor, expected: deque[int], codec: Codec) -> None:
        """Compare every word of `monitor` with the front of `expected`."""
        self.expected[monitor] = expected
        self.codecs[monitor] = codec
        self.received[monitor] = 0

        def check(word: int) -> None:
            number = self.received[monitor]
            self.received[monitor] = number + 1
            if not expected:
                raise AssertionError(f"{monitor.name}: word {number} was not expected: {codec.unpack(word)}")
            wanted = expected.popleft()
            if word != wanted:
                raise AssertionError(
                    f"{monitor.name}: word {number} is {codec.unpack(word)}, expected {codec.unpack(wanted)}"
                )
            self.on_word()

        monitor.add_callback(check)
