"""Feature reader: every client's rows, in order and whole; who overtakes, who is slow, who is hungry; exact cycles."""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import cocotb
import pytest

from contracts import Error
from hw.community.factories import feature_reader
from hw.community.feature_reader import FeatureReader, FeatureSettings
from hw.community.node_table import Lookup
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec
from sim.harness.expected import expect_cycles
from tb.graph.responder import Responder
from tb.harness.marks import full

_NUMBERS = 1 << 32
#: Words of the longest row.
MOST = 1 << 16
#: Words of a granule, with which rows begin that the table has places of.
GRANULE = 8
#: Vertices that are asked for before the first of them counts.
UNCOUNTED = 3
#: Vertices of one beat that a client is asked for and does not take, for its records and apart.
QUOTA = (26, 10)
#: Beats that it has room for.
ROOM = (32, 16)
#: Fewer beats than these, for its records, make a client hungry.
FEW = 8
#: What kinds of rows are called.
RECORDS, APART = 0, 1

Rows = list[list[dict[str, Any]]]


class Clients:
    """Table, memory and clients around the reader, and what every client must still get."""

    def __init__(self, bench: Bench, design: FeatureReader) -> None:
        self.bench, self.dut, self.rng, self.config = bench, bench.dut, bench.random, design.config
        self.clients, self.address_width = design.clients, design.address_width
        self.beat_words = self.config.data_width // 32
        self.memory = Responder(bench, "request", "beat", 4 * self.beat_words)
        # A prime number of beats, so that every bit of an address counts.
        self.memory.repeat = self.rng.randbytes(4 * self.beat_words * 1021)
        self.settings: dict[str, int] = {}
        self.table: dict[int, dict[str, Any]] = {}
        self.wrong: list[int] = []
        self.told: list[int] = []
        bench.take("error", self._tell)
        self.forget()
        for n in range(self.clients):
            bench.take(f"o__{n}", partial(self._take, n))
        cocotb.start_soon(self._look_up())

    def forget(self) -> None:
        """Nothing has been asked for."""
        self.memory.forget()
        self.rows: list[tuple[deque[Any], deque[Any]]] = [(deque(), deque()) for _ in range(self.clients)]
        self.begun: Rows = [[] for _ in range(self.clients)]
        self.order: list[list[int]] = [[] for _ in range(self.clients)]
        self.taken = [0] * self.clients
        self.wrong.clear()
        self.told.clear()

    def configure(self, **settings: int) -> None:
        """Change where features are; a new table comes with it."""
        names = ("features", "sparse", "words", "stride", "most", "first", "combined", "placed", "rooted")
        # Own rows of layers that have none mean nothing.
        other = {name: self.rng.getrandbits(self.address_width - 2) for name in ("own", "first_own", "vertices")}
        self.settings = dict.fromkeys(names, 0) | other | settings
        self.dut.settings.value = codec(FeatureSettings(self.address_width)).pack(self.settings)
        self.table.clear()

    def anywhere(self, kind: str, words: int, most: int = 20) -> None:
        """Lay rows of a `kind` somewhere, dense ones of so many `words`."""
        self.configure(
            features=self.rng.randrange(1 << self.address_width - 2),
            first=self.rng.randrange(_NUMBERS),
            stride=self.rng.randrange(1 << 17),
            words=words,
            most=most,
            sparse=kind == "sparse",
            combined=kind in ("combined", "rooted") or (kind == "placed" and self.rng.getrandbits(1)),
            placed=kind == "placed" or (kind == "rooted" and self.rng.getrandbits(1)),
            rooted=kind == "rooted",
            first_own=self.rng.randrange(_NUMBERS),
            vertices=self.rng.choice((0, self.rng.randrange(_NUMBERS), _NUMBERS - 1)),
        )

    def entry(self, number: int) -> dict[str, Any]:
        """Return what the table says of an entry; its offset is that of a row of any length if nobody has laid one."""
        return self.table.setdefault(number % _NUMBERS, self._random_entry())

    def _random_entry(self) -> dict[str, Any]:
        rng = self.rng
        scales = {
            name: {"mantissa": rng.getrandbits(16), "exponent": rng.getrandbits(5)}
            for name in ("source", "destination")
        }
        return {"offset": rng.randrange(_NUMBERS), **scales}

    def lay(self, vid: int, words: int, start: int | None = None) -> None:
        """Give a vertex a sparse row of so many words."""
        own = (vid - self.settings["first"]) % _NUMBERS
        first = self.entry(own)
        if start is not None:
            first["offset"] = start
        self.entry(own + 1)["offset"] = (first["offset"] + words) % _NUMBERS

    def vertices(self, count: int) -> list[int]:
        """Return vertices; sparse rows of most of them are right, some empty, some next to each other."""
        vids: list[int] = []
        for _ in range(count):
            vid = (vids[-1] + 1) % _NUMBERS if vids and self.rng.random() < 0.3 else self.rng.randrange(_NUMBERS)
            most = self.settings["most"]
            if self.rng.random() < 0.95:
                self.lay(vid, self.rng.choice((0, 1, most, self.rng.randrange(most + 1))))
            vids.append(vid)
        return vids

    def rows_of(self, vid: int, apart: int) -> Rows:
        """Return the rows of a vertex: its own one first, if it has one."""
        settings = self.settings
        has_own = settings["rooted"] and (vid - settings["first"]) % _NUMBERS < settings["vertices"]
        return [*([self.row(vid, apart, root=1)] if has_own else []), self.row(vid, apart)]

    def row(self, vid: int, apart: int, root: int = 0) -> list[dict[str, Any]]:
        """Return the beats of a vertex's row; remember whether it has a wrong one."""
        settings = self.settings
        own = vid - settings["first"]
        entry, following = self.entry(own), self.entry(own + 1)
        if root:
            at = settings["own"] + (own + settings["first_own"]) % _NUMBERS * settings["stride"] - settings["features"]
            words = settings["words"]
        elif settings["sparse"]:
            at, words = entry["offset"], following["offset"] - entry["offset"]
            if not 0 <= words <= settings["most"]:
                self.wrong.append(vid)
                words = 0
        else:
            at = (vid if settings["combined"] else own % _NUMBERS) * settings["stride"]
            at = entry["offset"] * GRANULE if settings["placed"] else at
            words = settings["words"]
        at = (at + settings["features"]) % (1 << self.address_width - 2)
        tag = {"beat": 0, "vid": vid, "apart": apart, "root": root, "scale": entry["destination"]}
        same = {
            "scalar": 1,
            "high": 0,
            "address": codec(self.config.tag).pack(tag),
            "scale": {"mantissa": 1 << 15, "exponent": 0} if settings["combined"] else entry["source"],
        }
        size = self.beat_words
        beats = []
        for beat in range(at // size, -(-(at + words) // size) if words else at // size + 1):
            inside = [at <= beat * size + n < at + words for n in range(size)]
            value = {
                "data": self.memory.beat(beat) if words else 0,
                "mask": sum(3 << 2 * n for n in range(size) if inside[n]),
                **same,
            }
            beats.append(value)
        port = self.bench.codecs["o__0"]
        ends = ({"first": int(n == 0), "last": int(n == len(beats) - 1)} for n in range(len(beats)))
        return [port.unpack(port.pack({**beat, **end})) for beat, end in zip(beats, ends, strict=True)]

    def ask(self, client: int, vids: Sequence[int], kind: int = RECORDS) -> None:
        """Have a client ask for the rows of these vertices."""
        for vid in vids:
            self.rows[client][kind].extend(self.rows_of(vid, kind))
        self.request(client, vids, kind)

    def request(self, client: int, vids: Sequence[int], kind: int = RECORDS) -> None:
        """Have a client ask for vertices whose rows nobody will see."""
        if kind == APART:
            self.bench.drive(f"apart__{client}", vids)
        else:
            requests = [{"vid": vid, "slot": self.rng.randrange(self.config.slots)} for vid in vids]
            self.bench.drive(f"i__{client}", requests)

    def not_asked(self, client: int, kind: int = RECORDS) -> int:
        """Return how many vertices of a client have not been taken."""
        return self.bench.drivers[f"{'apart' if kind else 'i'}__{client}"].busy_words

    def pace(self, client: int, stall: float) -> None:
        """Set how often a client takes nothing."""
        self.bench.pace(stall={f"o__{client}": stall})

    def hungry(self) -> list[int]:
        """Return who says that little is on its way."""
        return [int(getattr(self.dut, f"hungry__{n}").value) for n in range(self.clients)]

    def finished(self, client: int) -> bool:
        """Return whether a client has all its rows."""
        return not (any(self.rows[client]) or self.begun[client])

    async def reset(self) -> None:
        """Reset in the middle of all."""
        self.memory.forget()
        await self.bench.reset()
        self.forget()

    async def finish(self, *clients: int, timeout: int = 20_000) -> int:
        """Wait until these clients, or all, have all their rows; return the cycles. Then nothing is under way."""
        began = self.bench.cycle
        await self.bench.until(lambda: all(map(self.finished, clients or range(self.clients))), timeout)
        cycles = self.bench.cycle - began
        await self.bench.cycles(8)
        if not clients:
            assert sorted(self.told) == sorted(self.wrong)
            assert self.hungry() == [1] * self.clients
        return cycles

    def _take(self, client: int, word: dict[str, Any]) -> None:
        if word["first"]:
            assert not self.begun[client], f"client {client}: a row begins within another"
            tag = codec(self.config.tag).unpack(word["address"])
            self.begun[client] = self.rows[client][tag["apart"]].popleft()
            self.order[client].append(tag["vid"])
        wanted = self.begun[client].pop(0)
        assert word == wanted, f"client {client} got {word}, expected {wanted}"
        self.taken[client] += 1

    def _tell(self, report: dict[str, int]) -> None:
        assert report["code"] == Error.OFFSET_ORDER
        self.told.append(report["info"])

    async def _look_up(self) -> None:
        """Say in the next cycle what is known of a vertex."""
        known = codec(Lookup)
        while True:
            await self.bench.edge
            self.dut.found.value = known.pack(self.entry(int(self.dut.vertex.value)))


async def begin(dut: Any, **pace: Any) -> Clients:
    design = feature_reader(**parameters())
    clients = Clients(await start(dut, design, **pace), design)
    clients.configure()
    await clients.bench.cycles(1)
    return clients


@cocotb.test()
@cocotb.parametrize(kind=["sparse", "dense", "combined", "placed", "rooted"], idle=[0.0, 0.5], stall=[0.0, 0.5])
async def every_client_gets_its_rows(dut: Any, kind: str, idle: float, stall: float) -> None:
    """Rows of records and apart, wherever they lie, from a memory that is near or far and fails at times."""
    clients = await begin(dut, idle=idle, stall=stall)
    for words in (1, 3, 0, clients.rng.randrange(40)):
        clients.anywhere(kind, words)
        clients.memory.latency = clients.rng.choice((0, 5, 60))
        clients.memory.failing = {clients.rng.getrandbits(20) for _ in range(5)}
        for n in range(clients.clients):
            for want in (RECORDS, APART):
                clients.ask(n, clients.vertices(clients.rng.choice((0, 5, 25))), want)
        await clients.finish()


@cocotb.test()
async def rows_of_every_length_from_every_word(dut: Any) -> None:
    clients = await begin(dut)
    most = 3 * clients.beat_words
    clients.configure(sparse=1, most=most, first=1000, features=99)
    vids = iter(range(1000, _NUMBERS, 2))
    for first in range(clients.beat_words):
        asked = []
        for words in range(most + 1):
            vid = next(vids)
            clients.lay(vid, words, 500 + first)
            asked.append(vid)
        clients.ask(0, asked)
        await clients.finish()
        assert not clients.wrong


@cocotb.test()
async def offsets_out_of_order_are_told_and_rows_empty(dut: Any) -> None:
    clients = await begin(dut)
    for most in (5, 0, MOST - 1, MOST):
        clients.configure(sparse=1, most=most, first=_NUMBERS - 7)
        vids = iter(range(0, 1000, 2))
        lengths = [most + 1, -1, 1 - (1 << 31), (1 << 31) - 1, 1 << 17, -(1 << 17), *(1 << n for n in range(17, 32))]
        for length in lengths:
            vid = next(vids)
            clients.lay(vid, length, 0 if length > 0 else (1 << 31) + 5)
            clients.ask(0, [vid], clients.rng.getrandbits(1))
        # And those that are right.
        short = min(most, 9)
        vid = next(vids)
        clients.lay(vid, short, _NUMBERS - 1 - short)
        clients.ask(0, [vid])
        assert len(clients.wrong) == len(lengths)
        await clients.finish()
        clients.forget()


@cocotb.test()
@cocotb.parametrize(latency=[0, 40], placed=[0, 1])
async def a_vertex_takes_two_cycles(dut: Any, latency: int, placed: int) -> None:
    """Whether the table says where its row is or not."""
    clients = await begin(dut)
    clients.memory.latency = latency
    name = f"community.feature_reader.{clients.clients}.{clients.config.data_width}.{latency}"
    size = clients.beat_words
    for beats in (1, 2, 5):
        clients.configure(words=1 if beats == 1 else beats * size, stride=8 * size, placed=placed, combined=placed)
        if placed:
            # Backwards, so that nothing else leads to them.
            clients.table = {n: {**clients.entry(n), "offset": size * (100 - n)} for n in range(100)}
        for several in (range(1), range(clients.clients)):
            for n in several:
                clients.ask(n, list(range(100)))
            cycles = await clients.finish()
            expect_cycles(f"{name}.{beats}.{len(several)}", cycles)


@cocotb.test()
async def vertices_apart_overtake(dut: Any) -> None:
    """Those that are asked for later come before all rows of records but the one that has begun."""
    clients = await begin(dut)
    size = clients.beat_words
    for words, records in ((1, 20), (2 * size, 10), (5 * size, 4)):
        clients.configure(words=words, stride=5 * size)
        clients.pace(0, 1.0)
        clients.ask(0, list(range(records)))
        await clients.bench.cycles(100)
        clients.ask(0, [1000, 1001], APART)
        await clients.bench.cycles(100)
        clients.order[0].clear()
        clients.pace(0, 0.0)
        await clients.finish()
        assert clients.order[0] == [0, 1000, 1001, *range(1, records)]
        # A row apart stays whole, too.
        clients.order[0].clear()
        clients.pace(0, 1.0)
        clients.ask(0, [7, 8], APART)
        await clients.bench.cycles(100)
        clients.ask(0, [1])
        await clients.bench.cycles(100)
        clients.pace(0, 0.0)
        await clients.finish()
        assert clients.order[0] == [7, 8, 1]


@cocotb.test()
async def who_takes_nothing_is_asked_for_no_more(dut: Any) -> None:
    """For each kind a client gets a quota of its own, and others all they want, in the same cycles."""
    clients = await begin(dut)
    clients.configure(words=1, stride=1)
    for n in range(clients.clients):
        for kind in (RECORDS, APART):
            clients.pace(n, 1.0)
            clients.ask(n, list(range(50)), kind)
            await clients.bench.cycles(200)
            assert 50 - clients.not_asked(n, kind) == QUOTA[kind]
            other = clients.vertices(QUOTA[1 - kind])
            clients.ask(n, other, 1 - kind)
            await clients.bench.cycles(200)
            assert not clients.not_asked(n, 1 - kind)
            for m in range(clients.clients):
                if m != n:
                    clients.ask(m, list(range(30)))
                    expect_cycles(f"community.feature_reader.{clients.clients}.beside", await clients.finish(m))
            clients.pace(n, 0.0)
            await clients.finish()


@cocotb.test()
async def rows_of_three_beats_hold_up_nobody(dut: Any) -> None:
    """All that is asked for has room in front of its client, also if it is least favourable."""
    clients = await begin(dut)
    last = clients.clients - 1
    for kind in (RECORDS, APART):
        for beats, ones in ((2, 0), (3, 0), (3, QUOTA[kind] - UNCOUNTED)):
            clients.configure(sparse=1, most=3 * clients.beat_words)
            for n in range(100):
                clients.lay(2 * n, (1 if n < ones else beats) * clients.beat_words, 4 * n * clients.beat_words)
            clients.memory.asked.clear()
            clients.pace(0, 1.0)
            clients.ask(0, list(range(0, 100, 2)), kind)
            await clients.bench.cycles(300)
            # As many as reach the limit, and those that come before the last of them counts.
            limit = QUOTA[kind] - (UNCOUNTED - 1)
            wanted = ones + beats * (-(-(limit - ones) // beats) + UNCOUNTED - 1)
            assert len(clients.memory.asked) == wanted <= ROOM[kind]
            clients.ask(0, [4], 1 - kind)
            if last:
                clients.ask(last, list(range(0, 120, 2)))
                await clients.finish(last)
            clients.pace(0, 0.0)
            await clients.finish()


@cocotb.test()
async def a_row_longer_than_its_room_holds_up_others(dut: Any) -> None:
    """Until it is taken; a row that just fits does not."""
    clients = await begin(dut)
    last = clients.clients - 1
    for kind in (RECORDS, APART):
        for beats in (ROOM[kind], ROOM[kind] + 1):
            words = beats * clients.beat_words
            clients.configure(words=words, stride=words)
            clients.pace(0, 1.0)
            clients.ask(0, [1], kind)
            await clients.bench.cycles(150)
            if last:
                clients.taken[last] = 0
                clients.ask(last, [1])
                await clients.bench.cycles(300)
                assert clients.taken[last] == (beats if beats == ROOM[kind] else 0)
            clients.pace(0, 0.0)
            await clients.finish()


@cocotb.test()
async def hungry_is_who_has_little_on_its_way(dut: Any) -> None:
    clients = await begin(dut)
    clients.configure(words=1, stride=1)
    for n in range(clients.clients):
        clients.pace(n, 1.0)
        clients.ask(n, [1, 2, 3, 4], APART)
        for count in range(FEW + 3):
            await clients.bench.cycles(20)
            assert clients.hungry() == [int(m != n or count < FEW) for m in range(clients.clients)]
            clients.ask(n, [count])
        clients.pace(n, 0.0)
        await clients.finish()
    # What has been asked for counts before it comes; an empty row is a beat, too.
    clients.configure(sparse=1, most=1000)
    clients.memory.held = True
    clients.lay(10, 7 * clients.beat_words, 0)
    clients.lay(20, 0)
    clients.ask(0, [10])
    await clients.bench.cycles(20)
    assert clients.hungry()[0]
    clients.ask(0, [20])
    await clients.bench.cycles(20)
    assert not clients.hungry()[0]
    clients.memory.release()
    await clients.finish()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    clients = await begin(dut, stall=0.7)
    for cycles in (10, 40, 77, 150):
        clients.anywhere("sparse", 0)
        clients.memory.latency = 7
        for n in range(clients.clients):
            clients.ask(n, clients.vertices(30))
            clients.ask(n, clients.vertices(10), APART)
        await clients.bench.cycles(cycles)
        await clients.reset()
        for n in range(clients.clients):
            clients.ask(n, clients.vertices(30))
            clients.ask(n, clients.vertices(10), APART)
        await clients.finish()


@cocotb.test()
async def beats_are_counted_to_the_last_bit(dut: Any) -> None:
    """Whoever has asked for a long row gets no more than those that come before it is counted."""
    clients = await begin(dut)
    clients.configure(sparse=1, most=MOST)
    clients.lay(20, 1, 5)
    for n in range(clients.clients):
        clients.pace(n, 1.0)
        for kind in (RECORDS, APART):
            for bit in range(5, (MOST // clients.beat_words).bit_length()):
                clients.lay(0, clients.beat_words << bit, 0)
                clients.request(n, [0, *[20] * 9], kind)
                await clients.bench.cycles(40)
                assert clients.not_asked(n, kind) == 10 - UNCOUNTED
                assert clients.hungry()[n] == kind
                await clients.reset()


@cocotb.test()
async def the_longest_rows_come_to_their_end(dut: Any) -> None:
    """After them as many vertices are asked for as before; three of the longest at once are counted, too."""
    clients = await begin(dut)
    narrow = clients.beat_words == 2
    for n in range(clients.clients):
        for kind in (RECORDS, APART):
            clients.configure(sparse=1, most=MOST)
            first = (n, kind) == (0, RECORDS)
            clients.lay(8, MOST - 1 if narrow and first else 345 * clients.beat_words, 6)
            clients.lay(20, 1, 5)
            clients.ask(n, [8], kind)
            await clients.finish(timeout=MOST)
            clients.pace(n, 1.0)
            clients.ask(n, [20] * 50, kind)
            await clients.bench.cycles(200)
            assert 50 - clients.not_asked(n, kind) == QUOTA[kind]
            clients.pace(n, 0.0)
            await clients.finish()
    # A dense row has half a word for a feature.
    words = (MOST >> 1) - 1 if narrow else 999
    clients.configure(words=words, stride=words)
    clients.ask(0, [1])
    await clients.finish(timeout=MOST)
    clients.configure(sparse=1, most=MOST)
    for n in range(UNCOUNTED):
        clients.lay(2 * n, MOST, n << 16 | n & 1)
    clients.lay(20, 1, 5)
    clients.pace(0, 1.0)
    few = QUOTA[RECORDS] - UNCOUNTED
    for long in range(1, UNCOUNTED + 1):
        clients.request(0, [*[20] * few, *range(0, 2 * long, 2), *[20] * 50])
        await clients.bench.cycles(200)
        assert not clients.hungry()[0]
        assert clients.not_asked(0) == 50 + long - UNCOUNTED
        await clients.reset()


@cocotb.test()
async def no_more_are_under_way_than_can_be_remembered(dut: Any) -> None:
    """Let the memory answer nothing for a long time."""
    clients = await begin(dut)
    for words in (1, 0):
        clients.configure(words=words, stride=1)
        clients.memory.held = True
        for n in range(clients.clients):
            for kind in (RECORDS, APART):
                clients.ask(n, list(range(50)), kind)
        await clients.bench.cycles(500)
        if words:
            asked = sum(50 - clients.not_asked(n, kind) for n in range(clients.clients) for kind in (RECORDS, APART))
            expect_cycles(f"community.feature_reader.{clients.clients}.under_way", asked)
        clients.memory.release()
        await clients.finish()


SIZES = [(1, 256, 128), (2, 64, 16), pytest.param(3, 128, 64, marks=full)]


@pytest.mark.parametrize(("clients", "data_width", "depth"), SIZES)
def test_feature_reader(clients: int, data_width: int, depth: int) -> None:
    sizes = {"clients": clients, "data_width": data_width, "lanes": 4, "depth": depth}
    simulate(feature_reader(**sizes), __name__, parameters=sizes, name=f"feature_reader_{clients}")


def test_clients_are_checked() -> None:
    with pytest.raises(ValueError, match="clients must be at least 1, not 0"):
        feature_reader(0)
