"""Load sequencer: weights, then biases, until all is written; the first error; in exact cycles."""

from collections.abc import Sequence
from typing import Any

import cocotb

from hw.community.load_sequencer import LoadSequencer
from hw.graph.formats import ErrorReport
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec

#: Most rows of weights, and most biases.
ROWS, BIASES = 1 << 16, (1 << 16) - 1
NOTHING = {"code": 0, "info": 0}


class Load:
    """Everything around the sequencer, and what it must say."""

    def __init__(self, bench: Bench, width: int) -> None:
        self.bench, self.dut, self.rng, self.width = bench, bench.dut, bench.random, width
        #: Requests, and the cycles in which they were taken.
        self.asked: list[tuple[int, dict[str, int]]] = []
        bench.take("load", lambda request: self.asked.append((bench.cycle, request)))
        for port in ("start", "loaded", "error__valid", "resident", "follows"):
            getattr(bench.dut, port).value = 0
        self.report = NOTHING
        self.reports = codec(ErrorReport)
        self._faults = 0.0
        self._watching: Any = None

    def go_wrong(self, faults: float) -> None:
        """From now on errors are told, with this probability in a cycle."""
        self._faults = faults
        if self._watching is None:
            self._watching = cocotb.start_soon(self._watch())

    async def reset(self) -> None:
        """Reset in the middle of all; no error is told until there shall be more."""
        if self._watching is not None:
            self._watching.cancel()
        self._watching, self.report = None, NOTHING
        self.dut.error__valid.value = 0
        await self.bench.reset()

    async def _watch(self) -> None:
        """Raise errors at random; the first one while it is busy is reported, from the next cycle on.

        Until the next start, if that does not follow a load whose errors are not told yet.
        """
        dut, bench = self.dut, self.bench
        while True:
            await bench.edge
            assert self.reports.unpack(int(dut.report.value)) == self.report
            if int(dut.start.value):
                self.report = self.report if int(dut.follows.value) else NOTHING
            elif int(dut.busy.value) and int(dut.error__valid.value) and not self.report["code"]:
                self.report = self.reports.unpack(int(dut.error__payload.value))
            dut.error__valid.value = int(self.rng.random() < self._faults)
            code = self.rng.choice((self.rng.randrange(1, 256), 1 << self.rng.randrange(8)))
            dut.error__payload.value = self.reports.pack({"code": code, "info": self.rng.getrandbits(32)})

    async def pulse(self, port: Any) -> None:
        """Raise a port for a cycle; the sequencer is busy in it."""
        port.value = 1
        await self.bench.cycles(1)
        assert int(self.dut.busy.value)
        port.value = 0

    def set_up(self, rows: int, biases: int, row_words: int | None = None) -> list[dict[str, int]]:
        """Say what to load; return the requests that must come."""
        dut = self.dut
        addresses = [self.rng.getrandbits(self.width - 2) for _ in range(2)]
        words = self.rng.randrange(1, 1 << 16) if row_words is None else row_words
        dut.addresses.value = addresses[0] | addresses[1] << self.width - 2
        dut.rows.value, dut.row_words.value, dut.biases_wanted.value = rows, words, biases
        return [{"address": addresses[0], "words": rows * words}, {"address": addresses[1], "words": biases}]

    async def load(self, rows: int, biases: int, gap: float = 0.0, row_words: int | None = None) -> None:
        """Load once; between what is written cycles may pass. All happens in the cycle in which it must.

        Now and then the weights are there.
        """
        bench, dut = self.bench, self.dut
        wanted = self.set_up(rows, biases, row_words)
        dut.resident.value = resident = int(self.rng.random() < 0.3)
        dut.follows.value = int(self.rng.random() < 0.3)
        counts = [rows, biases][resident:]
        wanted = wanted[resident:]
        self.asked.clear()
        calm = not bench.monitors["load"].stall
        began = bench.cycle
        await self.pulse(dut.start)
        writing = cocotb.start_soon(self._write(counts, gap))
        while len(self.asked) < len(wanted):
            await bench.cycles(1)
            assert int(dut.busy.value)
            assert bench.cycle - began < 300
        assert [request for _, request in self.asked] == wanted
        assert not calm or [cycle - began for cycle, _ in self.asked] == [2, 3][: len(wanted)]
        await writing
        await bench.cycles(1)
        assert int(dut.busy.value)
        await bench.cycles(1)
        assert not int(dut.busy.value)
        await bench.cycles(self.rng.randrange(4))
        assert len(self.asked) == len(wanted)

    async def _write(self, counts: Sequence[int], gap: float) -> None:
        """Say that what has been asked for has been written, one a cycle unless there are gaps."""
        for number, count in enumerate(counts, 1):
            left = count
            while left:
                if len(self.asked) < number or self.rng.random() < gap:
                    await self.bench.cycles(1)
                    assert int(self.dut.busy.value)
                    continue
                together = 1 if gap else left
                self.dut.loaded.value = 1
                await self.bench.cycles(together)
                self.dut.loaded.value = 0
                left -= together
                assert int(self.dut.busy.value)


async def begin(dut: Any, **pace: Any) -> Load:
    width = parameters()["address_width"]
    return Load(await start(dut, LoadSequencer(width), manual=["error"], **pace), width)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5], gap=[0.0, 0.6])
async def biases_are_asked_for_behind_the_weights(dut: Any, stall: float, gap: float) -> None:
    """Load again and again, at once or some time later, with errors at any time."""
    load = await begin(dut, stall=stall)
    for _ in range(30):
        load.go_wrong(load.rng.choice((0.0, 0.01, 0.3)))
        await load.load(load.rng.randrange(1, 20), load.rng.randrange(1, 8), gap)
        await load.bench.cycles(load.rng.choice((0, 0, 1, 10)))


@cocotb.test()
async def every_bit_of_a_count_counts(dut: Any) -> None:
    load = await begin(dut)
    bits = range(16)
    for count in (*(1 << bit for bit in bits), *((1 << bit) - 1 for bit in bits if bit), BIASES):
        await load.load(count, load.rng.randrange(1, 9))
        await load.load(load.rng.randrange(1, 9), count)
    for _ in range(5):
        await load.load(load.rng.randrange(1, ROWS), load.rng.randrange(1, BIASES))
    await load.load(ROWS, 1, row_words=(1 << 16) - 1)
    await load.load(1, 1, row_words=1)


@cocotb.test()
async def the_first_error_stays(dut: Any) -> None:
    """Whatever bit its code has."""
    load = await begin(dut)
    load.go_wrong(0.4)
    for _ in range(80):
        await load.load(2, 2)


@cocotb.test()
async def nothing_begins_by_itself(dut: Any) -> None:
    """Before a start and after the end nothing is asked for, whatever is written or goes wrong."""
    load = await begin(dut)
    for _ in range(3):
        load.asked.clear()
        load.set_up(0, 0)
        load.go_wrong(0.5)
        dut.loaded.value = 1
        for _ in range(20):
            await load.bench.cycles(1)
            assert not int(dut.busy.value)
        dut.loaded.value = 0
        assert not load.asked
        await load.load(3, 2)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    load = await begin(dut)
    for written in (0, 1, 4, 5, 7):
        load.go_wrong(0.3)
        load.set_up(5, 3)
        load.dut.resident.value = 0
        await load.pulse(dut.start)
        await load.bench.cycles(3)
        for _ in range(written):
            await load.pulse(dut.loaded)
        await load.reset()
        load.go_wrong(0.1)
        await load.bench.cycles(2)
        assert not int(dut.busy.value)
        await load.load(4, 4)


def test_load_sequencer() -> None:
    sizes = {"address_width": 32}
    simulate(LoadSequencer(**sizes), __name__, parameters=sizes)
