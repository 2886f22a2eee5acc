"""Record dispatcher: whole records, each once, shared out by work, given out again; one and several streams."""

from collections import Counter, deque
from functools import partial
from itertools import chain
from typing import Any

import cocotb
import pytest

from contracts import RECORD_HEADER
from golden.locator.allocator import Allocator
from hw.community.record_dispatcher import RecordDispatcher
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles

Words = list[dict[str, int]]
#: The end of a stream, and what stands for a record of which only the header matters here.
END = {"data": RECORD_HEADER.pack({"end": 1}), "last": 1}


#: Work of a PE from which it is given no more.
AHEAD = 512


def record(bench: Bench, beats: int | None = None, most: int = 20, part: int | None = None) -> Words:
    """Return a header that says how much work there is, of `most` nodes at most, and random beats."""
    rng = bench.random
    hub = rng.random() < 0.4
    nodes = 1 if hub else min(most, rng.choice((1, 1, 2, 5, max(20, most))))
    # Later parts of a community, or of a hub's edges, do not count as another one.
    later = rng.choice((0, 0, 1 << rng.randrange(8))) if part is None else part
    fields = {"nodes": nodes, "hubs": rng.randrange(9), "hub_edges": int(hub), "last_part": 1, "part": later}
    return with_header(bench, beats or 2 + nodes, fields)


def with_header(bench: Bench, beats: int, fields: dict[str, int]) -> Words:
    """Return a record of so many beats, random behind its header."""
    data = [RECORD_HEADER.pack(fields), *(bench.random.getrandbits(64) for _ in range(beats - 1))]
    return [{"data": beat, "last": int(n == beats - 1)} for n, beat in enumerate(data)]


def record_of(bench: Bench, work: int, beats: int = 3) -> Words:
    """Return a record of exactly so much work: a hub's edges, or where they do, nodes and hubs."""
    nodes = bench.random.choice((0, work // 9, bench.random.randrange(work // 9 + 1)))
    if not nodes:
        nodes = bench.random.randrange(work + 1)
        return with_header(bench, beats, {"nodes": nodes, "hubs": work - nodes, "hub_edges": 1})
    return with_header(bench, beats, {"nodes": nodes, "hubs": work - 9 * nodes})


def work_of(header: int) -> int:
    """Return the work of a record: a row each for nodes and hubs, and nodes are combined."""
    h = RECORD_HEADER.unpack(header)
    return h["nodes"] + h["hubs"] + (0 if h["hub_edges"] else 8 * h["nodes"])


class PEs:
    """What every PE has been given; it retires records some time after they end, unless it is told not to."""

    def __init__(self, bench: Bench, model: RecordDispatcher) -> None:
        self.bench, self.pes = bench, model.pes
        self.given: list[Words] = [[] for _ in range(model.pes)]
        self.owed = [0] * model.pes
        #: Retire at random; or what it is told to, a record a cycle.
        self.retires, self.told = True, [0] * model.pes
        #: PEs that retire nothing by themselves.
        self.lazy: set[int] = set()
        #: How often a record went to another PE than the one in turn, or than the one that had it before.
        self.smoothed = 0
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
                told = self.told[n] > 0
                done = owed > 0 and (told or (self.retires and n not in self.lazy and self.bench.random.random() < 0.2))
                getattr(self.bench.dut, f"retired__{n}").value = int(done)
                self.owed[n] -= done
                self.told[n] -= done and told
            await self.bench.cycles(1)
            self.smoothed += int(self.bench.dut.smoothed.value)

    async def get(self, beats: int) -> None:
        """Wait until so many beats have been given out."""
        await self.bench.until(lambda: sum(map(len, self.given)) >= beats, 20_000)

    async def retire(self) -> None:
        """Wait until all that has been given out is done."""
        while any(self.owed):
            await self.bench.cycles(1)
        # One a cycle is taken off the loads.
        await self.bench.cycles(100)

    def forget(self) -> None:
        """Begin to collect anew."""
        self.given = [[] for _ in range(self.pes)]

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

    def all_records(self) -> list[list[tuple[int, ...]]]:
        """Return the records of every PE."""
        return [self.records(pe) for pe in range(self.pes)]

    async def given_again(self, own: list[list[tuple[int, ...]]]) -> int:
        """Let PEs' own records be given out again: each comes once, to its PE or one before; return how many so."""
        smoothed = self.smoothed
        self.forget()
        await self.bench.pulse(self.bench.dut.replay, then=1)
        assert not int(self.bench.dut.ended.value)
        await finished(self.bench, self, sum(map(len, chain(*own))))
        await self.bench.cycles(1)
        found = self.all_records()
        assert Counter(chain(*found)) == Counter(chain(*own))
        reach, shared = min(3, self.pes - 1), 0
        for pe, records in enumerate(found):
            sources = [[one for one in own[(pe + step) % self.pes] if one in records] for step in range(reach + 1)]
            assert sum(map(len, sources)) == len(records)
            # What a PE has of another comes in order, and behind what it has of its own.
            for source in sources:
                assert [one for one in records if one in source] == source
            assert records[: len(sources[0])] == sources[0]
            shared += len(records) - len(sources[0])
        assert self.smoothed == smoothed + shared
        return shared

    def works(self, pe: int) -> list[int]:
        """Return the work of every record of a PE."""
        return [work_of(one[0]) for one in self.records(pe)]


class Shares:
    """Says who gets a record, by the golden allocator: right while nothing retires before it is given out."""

    def __init__(self, bench: Bench, pes: PEs) -> None:
        self.bench, self.pes = bench, pes
        self.golden = Allocator(pes.pes, 3, 1 << 31, (1 << 16) - 1)
        self.wanted: list[list[tuple[int, ...]]] = [[] for _ in range(pes.pes)]
        self.works: list[deque[int]] = [deque() for _ in range(pes.pes)]
        pes.retires = False

    @property
    def loads(self) -> list[int]:
        """Work of the PEs."""
        return self.golden.allocation.loads

    @property
    def beats(self) -> int:
        """How many beats there are to be given out."""
        return sum(len(one) for records in self.wanted for one in records)

    def send(self, words: Words, lane: int = 0) -> int:
        """Let a record come on a stream; who will get it."""
        self.bench.drive(f"i__{lane}", words)
        return self.decide(words)

    def decide(self, words: Words) -> int:
        """Say who gets a record that is decided now."""
        work = work_of(words[0]["data"])
        self.golden.add(0, work, 1)
        pe = self.golden.allocation.assignments[-1].pe
        self.works[pe].append(work)
        self.wanted[pe].append(tuple(word["data"] for word in words))
        return pe

    async def given(self) -> None:
        """Wait until all is given out, and to whom it should be."""
        await self.bench.until(lambda: sum(map(len, self.pes.given)) >= self.beats, 20_000)
        # Until loads have changed and the allocator waits again.
        await self.bench.cycles(12)
        self.check()

    def check(self) -> None:
        """Everything that is wanted has come where it should, and nothing else."""
        assert self.pes.all_records() == self.wanted
        assert self.pes.smoothed == self.golden.allocation.smoothed

    async def retire(self, counts: list[int]) -> None:
        """Let PEs do their oldest records, all at once, and wait until that is known."""
        for pe, count in enumerate(counts):
            self.pes.told[pe] += count
            for _ in range(count):
                self.golden.retire(pe, self.works[pe].popleft())
        while any(self.pes.told):
            await self.bench.cycles(1)
        await self.bench.cycles(12 + sum(counts))

    async def retire_all(self) -> None:
        """Let PEs do all of their records."""
        await self.retire([len(works) for works in self.works])
        assert not any(self.loads)

    def forget(self) -> None:
        """Begin to collect anew."""
        self.pes.forget()
        self.wanted = [[] for _ in self.wanted]


async def begin(dut: Any, **pace: Any) -> tuple[Bench, RecordDispatcher, PEs]:
    model = RecordDispatcher(**parameters())
    bench = await start(dut, model, **pace)
    dut.start.value = dut.replay.value = 0
    dut.hops.value = 3
    return bench, model, PEs(bench, model)


async def finished(bench: Bench, pes: PEs, beats: int) -> None:
    """Wait until so many beats have been given out and the dispatcher says that this is the end."""
    await pes.get(beats)
    for _ in range(10):
        await bench.cycles(1)
        if int(bench.dut.ended.value):
            return
    raise AssertionError("all is given out, but it has not ended")


async def stream_of(
    bench: Bench, model: RecordDispatcher, pes: PEs, count: int, beats: int | None = None, most: int = 20
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
        found = pes.all_records()
        assert Counter(sent) == Counter(chain(*found))
        headers = [RECORD_HEADER.unpack(one[0]) for one in sent]
        first = Counter(header["hub_edges"] for header in headers if not header["part"])
        assert (int(dut.hubs.value), int(dut.communities.value)) == (first[1], first[0])
        # What comes on a stream for one PE stays in order.
        for records in found:
            for n in range(model.streams):
                own = [one for one in sent[n :: model.streams] if one in records]
                assert [one for one in records if one in own] == own
        await pes.retire()
        pes.forget()


@cocotb.test()
async def records_are_given_out_again(dut: Any) -> None:
    """Twice; then all PEs but one are slow and do nothing, and that one takes over some of theirs."""
    bench, model, pes = await begin(dut, stall=0.2)
    for count in (1, 8, 12 * model.pes):
        await bench.pulse(dut.start, then=1)
        await stream_of(bench, model, pes, count, beats=3)
        await pes.retire()
        own = pes.all_records()
        for _ in range(2):
            assert int(dut.whole.value)
            await pes.given_again(own)
            await pes.retire()
        pes.forget()
    for quick in range(model.pes):
        pes.forget()
        await bench.pulse(dut.start, then=1)
        await stream_of(bench, model, pes, 12 * model.pes, beats=3)
        await pes.retire()
        pes.lazy = {n for n in range(model.pes) if n != quick}
        bench.pace(stall={f"o__{n}": 0.7 * (n != quick) for n in range(model.pes)})
        shared = await pes.given_again(pes.all_records())
        assert shared >= (model.pes > 1)
        pes.lazy = set()
        bench.pace(stall=0.2)
        await pes.retire()


@cocotb.test()
async def more_than_fits_is_not_whole(dut: Any) -> None:
    bench, model, pes = await begin(dut)
    await bench.pulse(dut.start, then=1)
    await stream_of(bench, model, pes, 5 * model.pes, beats=model.depth // 4)
    assert not int(dut.whole.value)


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 2, 3])
async def who_gets_what_is_what_the_allocator_says(dut: Any, hops: int) -> None:
    """Batches of any work while nothing retires, on a stream each; then some retire; the next layer counts nothing."""
    bench, model, pes = await begin(dut)
    shares = Shares(bench, pes)
    dut.hops.value = shares.golden.hops = hops
    for _ in range(2):
        await bench.pulse(dut.start, then=1)
        shares.forget()
        for batch in range(5):
            for _ in range(12):
                # All of them have to fit, to be given out again.
                if min(shares.loads) >= AHEAD - 1 or max(map(len, shares.wanted)) == model.depth // 3:
                    break
                # Not more than one with as much as there can be, since all get as much in time.
                most = bench.random.choice((8, 100, 300, 40_000 if max(shares.loads) < 20_000 else 2))
                shares.send(record_of(bench, bench.random.randrange(1, most)), batch % model.streams)
            await shares.given()
            await shares.retire([bench.random.randrange(len(works) + 1) for works in shares.works])
        await shares.retire_all()
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        await finished(bench, pes, shares.beats)
        assert int(dut.whole.value)
        shares.check()
        shared = await pes.given_again(shares.wanted)
        pes.smoothed -= shared
        pes.retires = True
        await pes.retire()
        pes.retires = False


@cocotb.test()
async def a_pe_with_enough_to_do_gets_no_more(dut: Any) -> None:
    """Not before one has less; and no more wait to be decided than can."""
    bench, model, pes = await begin(dut)
    if model.pes == 1:
        return
    await bench.pulse(dut.start, then=1)
    shares = Shares(bench, pes)
    for work in (AHEAD - 1, 1):
        for _ in range(model.pes):
            shares.send(record_of(bench, work))
            await shares.given()
    assert shares.loads == [AHEAD] * model.pes
    for pe in range(model.pes):
        words = record_of(bench, AHEAD - 1)
        bench.drive("i__0", words)
        await bench.cycles(60)
        shares.check()
        await shares.retire([int(n == pe) for n in range(model.pes)])
        assert shares.decide(words) == pe
        await shares.given()
    for n in range(model.streams):
        bench.drive(f"i__{n}", [word for _ in range(12) for word in record_of(bench, 5)])
    await bench.cycles(100)
    left = [bench.drivers[f"i__{n}"].busy_words for n in range(model.streams)]
    assert sum(left) == 3 * (12 * model.streams - 4 * model.streams - 2 * (model.streams > 1))
    shares.check()
    pes.retires = True
    await bench.until(lambda: sum(map(len, pes.given)) == shares.beats + 36 * model.streams)


@cocotb.test()
async def every_bit_of_a_load_counts(dut: Any) -> None:
    """One PE has a power of two to do, as large as it can be, and the others have just enough."""
    bench, model, pes = await begin(dut)
    if model.pes == 1:
        return
    await bench.pulse(dut.start, then=1)
    shares = Shares(bench, pes)
    # Each gets what comes when it is its turn.
    dut.hops.value = shares.golden.hops = 0
    most = (1 << 16) - 1
    for bit in range(AHEAD.bit_length() - 1, (model.depth // 3 * most).bit_length()):
        pe = bench.random.randrange(model.pes)
        shares.forget()
        pes.forget()
        left = 1 << bit
        while min(shares.loads) < AHEAD:
            if shares.golden.turn == pe:
                work = min(left, most)
                left -= work
            else:
                work = 1 if left else AHEAD
            shares.send(record_of(bench, work))
        assert shares.loads[pe] == 1 << bit
        await shares.given()
        words = record_of(bench, 7)
        bench.drive("i__0", words)
        await bench.cycles(40)
        shares.check()
        await shares.retire([len(works) if n != pe else 0 for n, works in enumerate(shares.works)])
        shares.decide(words)
        await shares.given()
        await shares.retire_all()


@cocotb.test()
async def a_pe_owes_no_more_records_than_can_be_counted(dut: Any) -> None:
    """Let the next one wait for the PE that it was given to, even if another one has room."""
    bench, model, pes = await begin(dut)
    if model.pes == 1:
        return
    await bench.pulse(dut.start, then=1)
    shares = Shares(bench, pes)
    most = model.depth // 3 + 1
    for _ in range(most * model.pes):
        shares.send(record_of(bench, 3))
    await shares.given()
    assert {len(works) for works in shares.works} == {most}
    before = [list(records) for records in shares.wanted]
    chosen = shares.send(record_of(bench, 3))
    await bench.cycles(60)
    other = (chosen + 1) % model.pes
    await shares.retire([int(n == other) for n in range(model.pes)])
    assert pes.all_records() == before
    await shares.retire([int(n == chosen) for n in range(model.pes)])
    await shares.given()
    # All at once: a PE's are counted while those of the others are taken off; with as many waiting, longer and shorter.
    await shares.retire_all()
    for longer in (most, most - 1):
        for _ in range(most * model.pes):
            shares.send(record_of(bench, 3))
        await shares.given()
        await shares.retire([longer if n == 0 else most // 2 + 1 for n in range(model.pes)])
        for _ in range(2 * model.pes):
            shares.send(record_of(bench, 100))
        await shares.given()
        await shares.retire_all()


@cocotb.test()
async def the_end_waits_for_every_pe(dut: Any) -> None:
    bench, model, pes = await begin(dut)
    for last in range(model.pes):
        await bench.pulse(dut.start, then=1)
        bench.pace(stall=1.0)
        for number in range(4 * model.pes):
            bench.drive(f"i__{number % model.streams}", record_of(bench, 10))
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        await bench.cycles(100)
        bench.pace(stall={f"o__{n}": 0.0 for n in range(model.pes) if n != last})
        for _ in range(100):
            assert not int(dut.ended.value)
            await bench.cycles(1)
        assert not pes.given[last]
        assert all(pes.given[n] for n in range(model.pes) if n != last)
        bench.pace(stall=0.0)
        await finished(bench, pes, 12 * model.pes)
        assert int(dut.whole.value)
        await pes.retire()
        pes.forget()


@cocotb.test()
async def a_full_pe_holds_up_its_stream(dut: Any) -> None:
    """Whichever of both it is; what has begun comes to its end, and nothing is lost."""
    bench, model, pes = await begin(dut)
    for lane in range(model.streams):
        for pe in range(model.pes):
            await bench.pulse(dut.start, then=1)
            bench.pace(stall={f"o__{n}": float(n == pe) for n in range(model.pes)})
            # So that all get as much, also that one.
            pes.retires = False
            sent = [record_of(bench, 10, model.depth // 4 + 2) for _ in range(5 * model.pes)]
            for words in sent:
                bench.drive(f"i__{lane}", words)
            for n in range(model.streams):
                bench.drive(f"i__{n}", [END])
            await bench.cycles(30 * model.depth)
            assert not pes.given[pe]
            assert not int(dut.ended.value)
            bench.pace(stall=0.0)
            pes.retires = True
            await finished(bench, pes, sum(map(len, sent)))
            assert Counter(chain(*pes.all_records())) == Counter(
                tuple(word["data"] for word in words) for words in sent
            )
            await pes.retire()
            pes.forget()


@cocotb.test()
async def records_lost_to_one_pe_are_told(dut: Any) -> None:
    """Give a single PE more than fits."""
    bench, model, pes = await begin(dut)
    shares = Shares(bench, pes)
    for pe in range(model.pes):
        await bench.pulse(dut.start, then=1)
        shares.forget()
        # All but one get as much as keeps them busy; that one gets all that is long.
        while not all(shares.works):
            home = shares.golden.turn
            shares.send(record_of(bench, 1 if home == pe else AHEAD - 2))
        await shares.given()
        assert int(dut.whole.value)
        for _ in range(5):
            assert shares.send(record_of(bench, 1, model.depth // 4)) == pe
        await shares.given()
        assert not int(dut.whole.value)
        await shares.retire_all()
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        await finished(bench, pes, shares.beats)


@cocotb.test()
async def all_are_counted(dut: Any) -> None:
    """Hundreds of communities and of hubs; what has been counted stays."""
    bench, model, pes = await begin(dut)
    for hub in (0, 1):
        await bench.pulse(dut.start, then=1)
        for count in range(0, 301, 25):
            for number in range(25 if count else 0):
                words = with_header(bench, 3, {"nodes": 1, "hub_edges": hub, "part": 0})
                bench.drive(f"i__{number % model.streams}", words)
            await pes.get(3 * count)
            for _ in range(3):
                assert (int(dut.communities.value), int(dut.hubs.value)) == (count * (1 - hub), count * hub)
                await bench.cycles(1)
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        await finished(bench, pes, 900)
        assert (int(dut.communities.value), int(dut.hubs.value)) == (300 * (1 - hub), 300 * hub)
        await pes.retire()
        pes.forget()


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing(dut: Any) -> None:
    bench, model, pes = await begin(dut, stall=0.3)
    for cycles in (9, 40, 150):
        await bench.pulse(dut.start, then=1)
        for number in range(20):
            bench.drive(f"i__{number % model.streams}", record_of(bench, 40))
        await bench.cycles(cycles)
        # What is said to be done in the cycle after the reset would count.
        pes.retires = False
        await bench.reset()
        pes.owed = [0] * model.pes
        pes.forget()
        assert (int(dut.communities.value), int(dut.hubs.value)) == (0, 0)
        assert int(dut.whole.value)
        assert not int(dut.ended.value)
        shares = Shares(bench, pes)
        pes.smoothed = 0
        for n in range(8):
            shares.send(record_of(bench, 50), n % model.streams)
            await shares.given()
        await shares.retire_all()
        pes.forget()
        pes.retires = True


@cocotb.test()
@cocotb.parametrize(most=[20, 7000])
async def a_stream_takes_its_cycles(dut: Any, most: int) -> None:
    """Give out records of little and much work: how long it takes, and what every PE gets."""
    bench, model, pes = await begin(dut)
    bench.random.seed(most)
    await bench.pulse(dut.start, then=1)
    began, name = bench.cycle, f"community.record_dispatcher.{model.pes}.{model.streams}.{most}"
    await stream_of(bench, model, pes, 60, beats=3, most=most)
    expect_cycles(name, bench.cycle - began)
    for pe in range(model.pes):
        expect_cycles(f"{name}.work.{pe}", sum(pes.works(pe)))


@pytest.mark.parametrize(("pes", "streams"), [(1, 1), (3, 1), (4, 3)])
def test_record_dispatcher(pes: int, streams: int) -> None:
    sizes = {"pes": pes, "depth": 64, "streams": streams}
    simulate(RecordDispatcher(**sizes), __name__, parameters=sizes)


@pytest.mark.parametrize("pes", [0, 65])
def test_sizes_are_checked(pes: int) -> None:
    with pytest.raises(ValueError, match=r"pes must be in 1\.\.64"):
        RecordDispatcher(pes)
