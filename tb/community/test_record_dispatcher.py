"""Record dispatcher: whole records, each once, shared by work, issued again; one and several streams."""

from collections import Counter
from functools import partial
from itertools import chain, product
from typing import Any

import cocotb
import pytest
from cocotb.handle import Immediate

from contracts import RECORD_HEADER
from contracts.communities import ARRIVALS, PIECE_BITS, UNORDERED
from golden.locator.allocator import Allocator
from hw.community.record_dispatcher import RecordDispatcher
from hw.community.smoother import LOAD_BITS
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles

Words = list[dict[str, int]]
#: The end of a stream.
END = {"data": RECORD_HEADER.pack({"end": 1}), "last": 1}
#: Words in a PE's queue above which it gets no more, and of the pipeline in front of it.
AHEAD, UNDER_WAY = 16, 8
#: Largest load.
_MOST = (1 << LOAD_BITS) - 1


class Records:
    """Makes records of all kinds that fit."""

    def __init__(self, bench: Bench, model: RecordDispatcher) -> None:
        self.random, self.sizes = bench.random, model.sizes

    def make(self, nodes: int | None = None, hubs: int | None = None, **fields: int) -> Words:
        """Return a record of so many nodes and hubs; with random ones, most have one node and few hubs."""
        rng, width = self.random, self.sizes.width
        if nodes is None:
            nodes = rng.choice((1, 1, 1, 2, 3, rng.randrange(1, width + 1)))
        if hubs is None:
            hubs = rng.choice((0, rng.randrange(min(8, width - nodes + 1)), rng.randrange(width - nodes + 1)))
        given = {
            "part": rng.choice((0, 0, 1 << rng.randrange(8))),
            "last_part": rng.getrandbits(1),
            "hub_edges": rng.getrandbits(1),
            "round": rng.getrandbits(16),
        } | fields
        beats = [RECORD_HEADER.pack({"nodes": nodes, "hubs": hubs, **given})]
        for count in (nodes, hubs):
            vids = [rng.getrandbits(self.sizes.vid_bits) for _ in range(count)]
            pairs = [(*vids[n : n + 2], 0)[:2] for n in range(0, count, 2)]
            beats += [first | second << 32 for first, second in pairs]
        columns = nodes + hubs
        for _ in range(nodes):
            # The only node is linked with all hubs, and in its first part with itself.
            row = rng.getrandbits(columns) if nodes > 1 else (1 << columns) - 1 - (given["part"] != 0)
            beats += [row >> at & ((1 << 64) - 1) for at in range(0, columns, 64)]
        return [{"data": beat, "last": int(n == len(beats) - 1)} for n, beat in enumerate(beats)]


def issued(words: Words) -> tuple[int, ...]:
    """Return the beats of a record as a PE gets them."""
    head, *others = (word["data"] for word in words)
    fields = RECORD_HEADER.unpack(head)
    return (RECORD_HEADER.pack(fields | {"round": 0, "part": int(fields["part"] != 0)}), *others)


def work_of(head: int) -> int:
    """Return the work of a record: a row of a node counts twice as much as a hub."""
    fields = RECORD_HEADER.unpack(head)
    return 2 * fields["nodes"] + fields["hubs"]


class PEs:
    """What every PE has been given."""

    def __init__(self, bench: Bench, model: RecordDispatcher) -> None:
        self.bench, self.pes = bench, model.pes
        self.given: list[Words] = [[] for _ in range(model.pes)]
        #: How often a record went to another PE than the one in turn.
        self.smoothed = 0
        #: Records that were split.
        self.shared = 0
        cocotb.start_soon(self._watch())
        for n in range(model.pes):
            bench.take(f"o__{n}", partial(self._take, n))

    def _take(self, pe: int, word: dict[str, int]) -> None:
        self.given[pe].append(word)

    async def _watch(self) -> None:
        while True:
            await self.bench.cycles(1)
            self.smoothed += int(self.bench.dut.smoothed.value)
            self.shared += int(hasattr(self.bench.dut, "shared") and self.bench.dut.shared.value)

    async def get(self, beats: int) -> None:
        """Wait until so many beats have been given out."""
        await self.bench.until(lambda: sum(map(len, self.given)) >= beats, 40_000)

    def forget(self) -> None:
        """Begin to collect anew."""
        self.given, self.shared = [[] for _ in range(self.pes)], 0

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

    async def replay(self, sent: list[Words]) -> None:
        """Have all records issued again, in the same order to every PE."""
        self.forget()
        await self.bench.pulse(self.bench.dut.replay, then=1)
        assert not int(self.bench.dut.ended.value)
        await finished(self.bench, self, sum(map(len, sent)))
        assert Counter(map(issued, sent)) == Counter(chain(*self.all_records()))


async def begin(dut: Any, **pace: Any) -> tuple[Bench, RecordDispatcher, PEs, Records]:
    sizes: dict[str, Any] = {"pes": 3, "depth": 256, "streams": 2, "width": 128, "vid_bits": 9} | parameters()
    model = RecordDispatcher(**sizes)
    # A clock that begins high would be an edge before the inputs have their values.
    dut.clk.value = Immediate(0)
    dut.start.value = dut.replay.value = dut.holds.value = dut.behind.value = dut.turn.value = 0
    bench = await start(dut, model, **pace)
    # All VIDs are located.
    dut.first.value, dut.vertices.value = 0, 1 << sizes["vid_bits"]
    dut.hops.value = 3
    if model.partials:
        dut.arrival.value, dut.come.value = UNORDERED, 0
    if model.shares:
        # No record is extreme.
        dut.split.value = _MOST // 2
    return bench, model, PEs(bench, model), Records(bench, model)


async def finished(bench: Bench, pes: PEs, beats: int) -> None:
    """Wait until so many beats have been given out and the dispatcher says that this is the end."""
    await pes.get(beats)
    for _ in range(10):
        await bench.cycles(1)
        if int(bench.dut.ended.value):
            return
    raise AssertionError("all is given out, but it has not ended")


async def stored(bench: Bench) -> None:
    """Wait until all records that were sent are stored."""
    for _ in range(20_000):
        await bench.cycles(1)
        if int(bench.dut.there.value):
            return
    raise AssertionError("records are not stored")


async def ended(bench: Bench) -> None:
    """Wait until all records are issued, however many beats they have."""
    for _ in range(100_000):
        await bench.cycles(1)
        if int(bench.dut.ended.value):
            # The last word may be under way to the PE.
            await bench.drain()
            return
    raise AssertionError("records are not issued")


async def through(bench: Bench, model: RecordDispatcher, pes: PEs, sent: list[Words]) -> None:
    """Let records through, a part on each stream."""
    for n in range(model.streams):
        bench.drive(f"i__{n}", [*chain(*sent[n :: model.streams]), END])
    await finished(bench, pes, sum(map(len, sent)))


def few(records: Records, model: RecordDispatcher) -> list[Words]:
    """Return records that are stored all together."""
    sent: list[Words] = []
    room = model.depth
    while True:
        words = records.make()
        # At most two words a beat.
        room -= 2 * len(words)
        if room < 0:
            return sent or [records.make(1, 0)]
        sent.append(words)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.3], stall=[0.0, 0.5])
async def every_record_comes_whole_and_once(dut: Any, idle: float, stall: float) -> None:
    bench, model, pes, records = await begin(dut, idle=idle, stall=stall)
    for round_ in range(3):
        await bench.pulse(dut.start, then=1)
        assert not int(dut.ended.value)
        sent = [records.make() for _ in range(20 * (round_ + 1))]
        await through(bench, model, pes, sent)
        found = pes.all_records()
        assert Counter(map(issued, sent)) == Counter(chain(*found))
        # What comes on a stream for one PE stays in order; of equal records it is not known which is which.
        times = Counter(map(issued, sent))
        for n in range(model.streams):
            lane = [beats for one in sent[n :: model.streams] if times[beats := issued(one)] == 1]
            for given in found:
                own = [one for one in lane if one in given]
                assert [one for one in given if one in own] == own
        pes.forget()


@cocotb.test()
async def every_size_comes_back(dut: Any) -> None:
    """One node with any number of hubs, and any number of nodes, to each PE in turn."""
    bench, model, pes, records = await begin(dut, stall=0.1)
    width, each = model.sizes.width, range(model.pes)
    dut.hops.value = 0
    await bench.pulse(dut.start, then=1)
    sent = [records.make(1, hubs, part=part) for hubs in range(min(width, 72)) for part in (0, 3) for _ in each]
    sent += [records.make(1 + (1 << bit), 0) for bit in range((width - 1).bit_length()) for _ in each]
    sent += [records.make(nodes, bench.random.randrange(width + 1 - nodes)) for nodes in range(2, width + 1, 5)]
    await through(bench, model, pes, sent)
    assert Counter(map(issued, sent)) == Counter(chain(*pes.all_records()))


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def records_are_issued_again(dut: Any, stall: float) -> None:
    bench, model, pes, records = await begin(dut, stall=stall)
    for _ in range(3):
        await bench.pulse(dut.start, then=1)
        pes.forget()
        sent = few(records, model)
        await through(bench, model, pes, sent)
        for _ in range(2):
            assert int(dut.whole.value)
            await pes.replay(sent)


def named(words: Words) -> set[int]:
    """Return the VIDs of a record's nodes and hubs."""
    fields = RECORD_HEADER.unpack(words[0]["data"])
    found, at = set(), 1
    for count in (fields["nodes"], fields["hubs"]):
        beats = [word["data"] for word in words[at : at + -(-count // 2)]]
        found |= set([vid for beat in beats for vid in (beat & 0xFFFFFFFF, beat >> 32)][:count])
        at += len(beats)
    return found


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def records_that_name_others_wait(dut: Any, stall: float) -> None:
    """For all others, in a layer and its replay, with the own VIDs somewhere; the exchange may end before or after."""
    bench, model, pes, records = await begin(dut, stall=stall)
    vids = 1 << model.sizes.vid_bits
    for first, count in (
        (0, vids // 2),
        (vids // 3, vids // 2),
        (7, vids - 7),
        (17 * vids // 32, vids // 4 + 2),
        (0, 0),
    ):
        dut.first.value, dut.vertices.value = first, count
        dut.holds.value = int(model.partials)
        await bench.pulse(dut.start, then=1)
        sent = few(records, model)
        own = [words for words in sent if named(words) <= set(range(first, first + count))]
        for again in (False, True):
            pes.forget()
            dut.holds.value = int(model.partials)
            await bench.cycles(2)
            if again:
                await bench.pulse(dut.replay, then=1)
            else:
                for n in range(model.streams):
                    bench.drive(f"i__{n}", chain(*sent[n :: model.streams]))
                await pes.get(sum(map(len, own)))
                if model.partials and len(own) < len(sent):
                    # More may come.
                    await bench.cycles(100)
                    assert Counter(map(issued, own)) == Counter(chain(*pes.all_records()))
                    assert not int(dut.ended.value)
                for n in range(model.streams):
                    bench.drive(f"i__{n}", [END])
            dut.holds.value = int(model.partials and bench.random.random() < 0.5)
            await finished(bench, pes, sum(map(len, sent)))
            assert Counter(map(issued, sent)) == Counter(chain(*pes.all_records()))
            if int(dut.holds.value):
                mine = set(map(issued, own))
                for got in pes.all_records():
                    late = [record not in mine for record in got]
                    assert late == sorted(late)


@cocotb.test()
@cocotb.parametrize(arrival=[0, 2, 4])
async def records_follow_their_rows(dut: Any, arrival: int) -> None:
    """Issue a record when all rows of the last group that it names have come; the own VIDs are the first ones."""
    bench, model, pes, records = await begin(dut)
    if not model.partials:
        return
    vids = 1 << model.sizes.vid_bits
    dut.first.value = 0
    dut.arrival.value, dut.holds.value = arrival, 1
    for own in (vids // 2, vids - 8, 1):
        dut.vertices.value, dut.come.value = own, 0
        pes.forget()
        await bench.pulse(dut.start, then=1)
        sent = few(records, model)
        for n in range(model.streams):
            bench.drive(f"i__{n}", chain(*sent[n :: model.streams]))
        groups = [max(0, min(ARRIVALS, 1 + ((max(named(words)) - own) >> arrival))) for words in sent]
        for come in (0, 1, 2, ARRIVALS // 2, ARRIVALS):
            dut.come.value = come << arrival
            there = [words for words, group in zip(sent, groups, strict=True) if group <= come]
            await pes.get(sum(map(len, there)))
            await bench.cycles(200)
            assert Counter(map(issued, there)) == Counter(chain(*pes.all_records()))
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        await finished(bench, pes, sum(map(len, sent)))


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def records_behind_wait_for_their_turn(dut: Any, stall: float) -> None:
    """Several sets, each sent while those before it are held up or issued; more than fits waits outside."""
    bench, model, pes, records = await begin(dut, stall=1.0)
    dut.holds.value = int(model.partials)
    sets = [few(records, model) for _ in range(3)]
    sets += [[records.make(1, 1) for _ in range(2 * model.depth)], few(records, model)]

    def send(number: int) -> None:
        for n in range(model.streams):
            bench.drive(f"i__{n}", [*chain(*sets[number][n :: model.streams]), END])

    await bench.pulse(dut.start, then=1)
    send(0)
    for number, sent in enumerate(sets):
        pes.forget()
        if number == 3:
            # They do not fit behind each other.
            bench.pace(stall=stall)
            dut.holds.value = 0
        await stored(bench)
        if number + 1 < len(sets):
            dut.behind.value = 1
            await bench.pulse(dut.start, then=1)
            dut.behind.value = 0
            send(number + 1)
        await bench.cycles(bench.random.choice((0, 40, 1000)))
        bench.pace(stall=stall)
        dut.holds.value = 0
        await finished(bench, pes, sum(map(len, sent)))
        for _ in range(60):
            await bench.cycles(1)
            assert int(dut.ended.value)
        assert Counter(map(issued, sent)) == Counter(chain(*pes.all_records()))
        assert int(dut.whole.value) == 0
        if number + 1 < len(sets):
            await bench.pulse(dut.turn)
    await bench.pulse(dut.start, then=1)
    pes.forget()
    sent = few(records, model)
    await through(bench, model, pes, sent)
    assert int(dut.whole.value)
    await pes.replay(sent)


@cocotb.test()
async def more_than_fits_is_not_whole(dut: Any) -> None:
    bench, model, pes, records = await begin(dut)
    for words in (model.depth, model.depth + 1, 3 * model.depth):
        await bench.pulse(dut.start, then=1)
        pes.forget()
        # Without hubs a record of one node is one word.
        sent = [records.make(1, 0) for _ in range(words)]
        await through(bench, model, pes, sent)
        assert int(dut.whole.value) == (words <= model.depth)
        if int(dut.whole.value):
            await pes.replay(sent)


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 2, 3])
async def who_gets_what_is_what_the_allocator_says(dut: Any, hops: int) -> None:
    """Also in a second layer, and in the layers of a second graph."""
    bench, model, pes, records = await begin(dut)
    golden = Allocator(model.pes, hops, 1 << 31, 1 << 15)
    dut.hops.value = hops

    def check(sent: list[Words]) -> None:
        wanted: list[list[tuple[int, ...]]] = [[] for _ in range(model.pes)]
        for words in sent:
            golden.add(0, work_of(words[0]["data"]), 1)
            wanted[golden.allocation.assignments[-1].pe].append(issued(words))
        assert pes.all_records() == wanted
        assert pes.smoothed == golden.allocation.smoothed

    for graph in range(2):
        await bench.pulse(dut.start, then=1)
        pes.forget()
        sent = few(records, model)
        bench.drive(f"i__{graph % model.streams}", chain(*sent))
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        await finished(bench, pes, sum(map(len, sent)))
        check(sent)
        assert int(dut.whole.value)
        await pes.replay(sent)
        check(sent)


def shares_of(words: Words, size: int) -> list[tuple[int, ...]]:
    """Return the beats of all shares of a record, in pieces of `size` rows."""
    head, *others = issued(words)
    fields = RECORD_HEADER.unpack(head)
    pieces = range(-(-fields["nodes"] // size))
    return [(RECORD_HEADER.pack(fields | {"shared": 1, "piece": piece}), *others) for piece in pieces]


@cocotb.test()
@cocotb.parametrize(hops=[0, 3], stall=[0.0, 0.5])
async def extreme_records_are_shared(dut: Any, hops: int, stall: float) -> None:
    """Every record comes whole, or each of its shares does, in a layer and its replays.

    Without smoothing it is known which, and where; with it that depends on who has room.
    """
    bench, model, pes, records = await begin(dut, stall=stall)
    if not model.shares:
        return
    width = model.sizes.width
    size = width >> PIECE_BITS
    dut.hops.value = hops
    for split in (1, width // 4, width, 2 * width - 1, _MOST // 2):
        dut.split.value = split
        await bench.reset()
        await bench.pulse(dut.start, then=1)
        golden = Allocator(model.pes, hops, split, size, _MOST)
        sent = few(records, model)
        # In one order.
        bench.drive("i__0", chain(*sent))
        for n in range(model.streams):
            bench.drive(f"i__{n}", [END])
        for again in (False, True, True):
            pes.forget()
            if again:
                assert int(dut.whole.value)
                await bench.pulse(dut.replay, then=1)
            await ended(bench)
            found = pes.all_records()
            left, shared = Counter(chain(*found)), 0
            for words in sent:
                whole = [issued(words)]
                expected = whole if left[whole[0]] else shares_of(words, size)
                shared += expected is not whole
                left.subtract(expected)
            assert not any(left.values())
            assert pes.shared == shared
            if not hops:
                assert found == wanted_of(golden, sent, size)


def wanted_of(golden: Allocator, sent: list[Words], size: int) -> list[list[tuple[int, ...]]]:
    """Return what every PE gets if the allocator decides about all records."""
    wanted: list[list[tuple[int, ...]]] = [[] for _ in range(golden.pes)]
    for words in sent:
        fields, begins = RECORD_HEADER.unpack(words[0]["data"]), len(golden.allocation.assignments)
        golden.add(0, fields["nodes"], 2, fields["hubs"])
        given = golden.allocation.assignments[begins:]
        shares = shares_of(words, size) if len(given) > 1 else [issued(words)]
        for one, share in zip(given, shares, strict=True):
            wanted[one.pe].append(share)
    return wanted


@cocotb.test()
async def a_pe_with_enough_to_do_gets_no_more(dut: Any) -> None:
    """Let one take nothing: the others get what comes until that one has enough; nothing is lost."""
    bench, model, pes, records = await begin(dut)
    for stuck in range(model.pes):
        await bench.pulse(dut.start, then=1)
        pes.forget()
        bench.pace(stall={f"o__{n}": float(n == stuck) for n in range(model.pes)})
        sent = [records.make(1, bench.random.randrange(3)) for _ in range(60 * model.pes)]
        for n in range(model.streams):
            bench.drive(f"i__{n}", [*chain(*sent[n :: model.streams]), END])
        await bench.cycles(2000)
        assert not pes.given[stuck]
        missing = Counter(map(issued, sent)) - Counter(chain(*pes.all_records()))
        assert not int(dut.ended.value)
        assert 0 < missing.total() <= AHEAD + UNDER_WAY or model.pes == 1
        bench.pace(stall=0.0)
        await finished(bench, pes, sum(map(len, sent)))
        assert Counter(map(issued, sent)) == Counter(chain(*pes.all_records()))


@cocotb.test()
async def a_full_store_holds_the_streams_up(dut: Any) -> None:
    """Let no PE take anything while there is more than fits; nothing is lost."""
    bench, model, pes, records = await begin(dut)
    await bench.pulse(dut.start, then=1)
    bench.pace(stall=1.0)
    sent = [records.make(1, bench.random.randrange(9)) for _ in range(2 * model.depth + 4 * AHEAD * model.pes)]
    for n in range(model.streams):
        bench.drive(f"i__{n}", [*chain(*sent[n :: model.streams]), END])
    await bench.cycles(8 * len(sent))
    assert all(bench.drivers[f"i__{n}"].busy_words for n in range(model.streams))
    assert not any(pes.given)
    bench.pace(stall=0.8)
    await finished(bench, pes, sum(map(len, sent)))
    assert Counter(map(issued, sent)) == Counter(chain(*pes.all_records()))


@cocotb.test()
async def the_end_waits_for_every_pe(dut: Any) -> None:
    """Also for the last record of a PE, of which no word is stored any more."""
    bench, model, pes, records = await begin(dut)
    for last, each in product(range(model.pes), (4, 1)):
        await bench.pulse(dut.start, then=1)
        bench.pace(stall=1.0)
        sent = [records.make(1, 1) for _ in range(each * model.pes)]
        for n in range(model.streams):
            bench.drive(f"i__{n}", [*chain(*sent[n :: model.streams]), END])
        await bench.cycles(100)
        bench.pace(stall={f"o__{n}": 0.0 for n in range(model.pes) if n != last})
        for _ in range(200):
            assert not int(dut.ended.value)
            await bench.cycles(1)
        assert not pes.given[last]
        assert all(pes.given[n] for n in range(model.pes) if n != last)
        bench.pace(stall=0.0)
        await finished(bench, pes, sum(map(len, sent)))
        assert int(dut.whole.value)
        pes.forget()


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing(dut: Any) -> None:
    bench, model, pes, records = await begin(dut, stall=0.3)
    for cycles in (9, 17, 28, 40, 61, 90, 150, 210, 333):
        await bench.pulse(dut.start, then=1)
        for number in range(20):
            bench.drive(f"i__{number % model.streams}", records.make())
        await bench.cycles(cycles)
        await bench.reset()
        pes.forget()
        assert int(dut.whole.value)
        assert not int(dut.ended.value)
        sent = few(records, model)
        await through(bench, model, pes, sent)
        assert Counter(map(issued, sent)) == Counter(chain(*pes.all_records()))
        await pes.replay(sent)
        pes.forget()


@cocotb.test()
@cocotb.parametrize(most=[1, 24])
async def a_stream_takes_its_cycles(dut: Any, most: int) -> None:
    """Issue records of few and of many nodes: how long it takes, and how much every PE gets."""
    bench, model, pes, records = await begin(dut)
    bench.random.seed(most)
    await bench.pulse(dut.start, then=1)
    began, name = bench.cycle, f"community.record_dispatcher.{model.pes}.{model.streams}.{most}"
    sent = [records.make(bench.random.randrange(1, most + 1), bench.random.randrange(9)) for _ in range(60)]
    await through(bench, model, pes, sent)
    expect_cycles(name, bench.cycle - began)
    for pe in range(model.pes):
        expect_cycles(f"{name}.work.{pe}", sum(work_of(one[0]) for one in pes.records(pe)))


@pytest.mark.parametrize(
    ("pes", "streams", "width", "more"),
    [
        (1, 1, 64, {}),
        (3, 1, 64, {"partials": True, "shares": True}),
        (4, 3, 128, {"partials": True, "shares": True}),
    ],
)
def test_record_dispatcher(pes: int, streams: int, width: int, more: dict[str, bool]) -> None:
    # A record of 128 nodes does not fit into the store.
    sizes: dict[str, Any] = {"pes": pes, "depth": 256, "streams": streams, "width": width, "vid_bits": 9, **more}
    simulate(RecordDispatcher(**sizes), __name__, parameters=sizes)


@pytest.mark.parametrize("pes", [0, 65])
def test_sizes_are_checked(pes: int) -> None:
    with pytest.raises(ValueError, match=r"pes must be in 1\.\.64"):
        RecordDispatcher(pes)
