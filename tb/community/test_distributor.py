"""Distributor: whole records, each once, shared out by work, given out again; one and several streams."""

from collections import Counter
from functools import partial
from typing import Any

import cocotb
import pytest

from golden.contracts import RECORD_HEADER
from hw.community.distributor import Distributor
from tb.harness import parameters, simulate
from tb.harness.bench import Bench, start
from tb.harness.expected import expect_cycles

Words = list[dict[str, int]]
#: The end of a stream, and what stands for a record of which only the header matters here.
END = {"data": RECORD_HEADER.pack({"end": 1}), "last": 1}


def record(bench: Bench, beats: int | None = None, most: int = 20) -> Words:
    """Return a header that says how much work there is, of `most` nodes at most, and random beats."""
    rng = bench.random
    hub = rng.random() < 0.4
    nodes = 1 if hub else min(most, rng.choice((1, 1, 2, 5, max(20, most))))
    # Later parts of a hub's edges do not count as another hub.
    fields = {"nodes": nodes, "hubs": rng.randrange(9), "hub_edges": int(hub), "last_part": 1}
    header = RECORD_HEADER.pack({**fields, "part": int(hub and rng.random() < 0.3)})
    count = beats or 2 + nodes
    return [
        {"data": header, "last": 0},
        *({"data": rng.getrandbits(64), "last": int(n == count - 2)} for n in range(count - 1)),
    ]


class PEs:
    """What every PE has been given; it retires records some time after they end, unless it is told not to."""

    def __init__(self, bench: Bench, model: Distributor) -> None:
        self.bench, self.pes = bench, model.pes
        self.given: list[Words] = [[] for _ in range(model.pes)]
        self.owed = [0] * model.pes
        self.retires = True
        cocotb.start_soon(self._retire())
        for n in range(model.pes):
            bench.take(f"o__{n}", partial(self._take, n))
            getattr(bench.dut, f"retired__{n}").value = 0

    def _take(self, pe: int, word: dict[str, int]) -> None:
        self.given[pe].append(word)
        self.owed[pe] += word["last"]

    async def _retire(self) -> None:
        """Say of a record given out that it is done, every now and then."""
        while True:
            for n, owed in enumerate(self.owed):
                done = owed > 0 and self.retires and self.bench.random.random() < 0.2
                getattr(self.bench.dut, f"retired__{n}").value = int(done)
                self.owed[n] -= done
            await self.bench.cycles(1)

    async def retire(self) -> None:
        """Wait until all that has been given out is done."""
        while any(self.owed):
            await self.bench.cycles(1)
        # One a cycle is taken off the loads.
        await self.bench.cycles(80)

    def records(self, pe: int) -> list[tuple[int, ...]]:
        """Return the records of a PE as they came, beat after beat."""
        found: list[tuple[int, ...]] = []
        beats: list[int] = []
        for word in self.given[pe]:
            beats.append(word["data"])
            if word["last"]:
                found.append(tuple(beats))
                beats = []
        assert not beats, f"PE {pe} has a piece of a record"
        return found

    def works(self, pe: int) -> list[int]:
        """Return the work of every record of a PE."""
        headers = [RECORD_HEADER.unpack(one[0]) for one in self.records(pe)]
        return [h["nodes"] + h["hubs"] + (0 if h["hub_edges"] else 8 * h["nodes"]) for h in headers]


async def begin(dut: Any, **pace: Any) -> tuple[Bench, Distributor, PEs]:
    model = Distributor(**parameters())
    bench = await start(dut, model, **pace)
    dut.start.value = dut.replay.value = 0
    dut.hops.value = 3
    return bench, model, PEs(bench, model)


async def finished(bench: Bench, pes: PEs, beats: int) -> None:
    """Wait until so many beats have been given out and the distributor says that this is the end."""
    await bench.until(lambda: sum(map(len, pes.given)) >= beats, 20_000)
    for _ in range(10):
        await bench.cycles(1)
        if int(bench.dut.ended.value):
            return
    raise AssertionError("all is given out, but it has not ended")


async def stream_of(
    bench: Bench, model: Distributor, pes: PEs, count: int, beats: int | None = None, most: int = 20
) -> list[tuple[int, ...]]:
    """Let so many records through, a part on each stream; return them."""
    sent: list[Words] = [record(bench, beats, most) for _ in range(count)]
    for n in range(model.streams):
        words = [word for words in sent[n :: model.streams] for word in words]
        bench.drive(f"i__{n}", [*words, END])
    await finished(bench, pes, sum(map(len, sent)))
    return [tuple(word["data"] for word in words) for words in sent]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.3], stall=[0.0, 0.5])
async def every_record_comes_whole_and_once(dut: Any, idle: float, stall: float) -> None:
    bench, model, pes = await begin(dut, idle=idle, stall=stall)
    for round_ in range(3):
        await bench.pulse(dut.start, then=1)
        assert not int(dut.ended.value)
        sent = await stream_of(bench, model, pes, 12 * (round_ + 1))
        found = [pes.records(pe) for pe in range(model.pes)]
        assert Counter(sent) == Counter(one for records in found for one in records)
        headers = [RECORD_HEADER.unpack(one[0]) for one in sent]
        hubs = [header["part"] for header in headers if header["hub_edges"]]
        assert (int(dut.hubs.value), int(dut.communities.value)) == (hubs.count(0), len(sent) - len(hubs))
        # What comes on a stream for one PE stays in order.
        for records in found:
            for n in range(model.streams):
                own = [one for one in sent[n :: model.streams] if one in records]
                assert [one for one in records if one in own] == own
        await pes.retire()
        pes.given = [[] for _ in range(model.pes)]


@cocotb.test()
async def records_are_given_out_again_to_the_same_pes(dut: Any) -> None:
    bench, model, pes = await begin(dut, stall=0.2)
    for count in (1, 8):
        await bench.pulse(dut.start, then=1)
        await stream_of(bench, model, pes, count)
        await pes.retire()
        first, pes.given = pes.given, [[] for _ in range(model.pes)]
        for _ in range(2):
            assert int(dut.whole.value)
            await bench.pulse(dut.replay, then=1)
            assert not int(dut.ended.value)
            await finished(bench, pes, sum(map(len, first)))
            assert pes.given == first
            await pes.retire()
            pes.given = [[] for _ in range(model.pes)]


@cocotb.test()
async def more_than_fits_is_not_whole(dut: Any) -> None:
    bench, model, pes = await begin(dut)
    await bench.pulse(dut.start, then=1)
    await stream_of(bench, model, pes, 5 * model.pes, beats=model.depth // 4)
    assert not int(dut.whole.value)


@cocotb.test()
async def work_is_shared_out(dut: Any) -> None:
    """While nothing retires, no PE has more than another by more than a record's work."""
    bench, model, pes = await begin(dut)
    pes.retires = False
    await bench.pulse(dut.start, then=1)
    await stream_of(bench, model, pes, 30, most=2)
    loads = [pes.works(pe) for pe in range(model.pes)]
    largest = max(work for load in loads for work in load)
    assert max(map(sum, loads)) - min(map(sum, loads)) <= largest


@cocotb.test()
@cocotb.parametrize(most=[20, 7000])
async def a_stream_takes_its_cycles(dut: Any, most: int) -> None:
    """Give out records of little and much work: how long it takes, and what every PE gets."""
    bench, model, pes = await begin(dut)
    bench.random.seed(most)
    await bench.pulse(dut.start, then=1)
    began, name = bench.cycle, f"community.distributor.{model.pes}.{model.streams}.{most}"
    await stream_of(bench, model, pes, 60, beats=3, most=most)
    expect_cycles(name, bench.cycle - began)
    for pe in range(model.pes):
        expect_cycles(f"{name}.work.{pe}", sum(pes.works(pe)))


@pytest.mark.parametrize(("pes", "streams"), [(1, 1), (3, 1), (4, 3)])
def test_distributor(pes: int, streams: int) -> None:
    sizes = {"pes": pes, "depth": 64, "streams": streams}
    simulate(Distributor(**sizes), __name__, parameters=sizes)


@pytest.mark.parametrize("pes", [0, 65])
def test_sizes_are_checked(pes: int) -> None:
    with pytest.raises(ValueError, match=r"pes must be in 1\.\.64"):
        Distributor(pes)
