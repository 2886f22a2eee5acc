"""What is around a hub unit in its bench: PEs that ask, combine and add, and layers whose results are known."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import cocotb
import numpy as np

from contracts.scale import GIN_FRACTION
from golden.model.rounding import requantise
from hw.community import factories
from hw.community.formats import PES
from hw.community.hub_unit import HubUnit
from sim.harness import parameters
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from tb.community.finished import Finished

#: Layers until their numbers begin again.
EPOCHS = 15


def hub_unit(*, ways: int, **sizes: Any) -> Finished:
    """Return a hub unit with a row finisher of so many `ways`."""
    return Finished(factories.hub_unit(ways=ways, **sizes))


def wrapped(value: int) -> int:
    """Return a sum of 32 bits."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


_VIDS = 1 << 32


@dataclass
class Layer:
    """A layer: its settings and the hubs that it may have, with all that is known of them.

    Attributes
    ----------
    settings
        As the unit gets them.
    biases
        [f_out].
    first_partial
        VID from which on every second one is a high half.
    rows
        Beats of each hub's combined row, by VID; what lies behind its end means nothing.
    scales
        s_dst of each hub.
    sums
        [f_out] of each hub: what has been sent of its partial sums.
    own
        Beats of each hub's own row, which only a rooted layer has.
    degrees
        Neighbours of each hub.
    """

    settings: dict[str, int]
    biases: list[int]
    first_partial: int
    rows: dict[int, list[list[int]]]
    scales: dict[int, dict[str, int]]
    sums: dict[int, list[int]]
    own: dict[int, list[list[int]]]
    first: int
    vertices: int
    degrees: dict[int, int]

    @classmethod
    def of(cls, design: HubUnit, rng: random.Random, hubs: int, f_out: int, **settings: int) -> Layer:
        """Make a layer of random values with `hubs` VIDs of this unit.

        VIDs of a layer lie in as many as there are vertices, from anywhere on.
        """
        config = design.config
        number = rng.randrange(1 << design.shift)
        first = rng.randrange(1 << 32 - design.shift) // design.nodes * design.nodes
        vids = [first + n << design.shift | number for n in rng.sample(range(design.nodes), hubs)]
        elements = config.pe.elements
        extremes = (-(1 << 15), (1 << 15) - 1, 0)

        def value() -> int:
            return rng.choice((rng.choice(extremes), rng.randrange(-(1 << 15), 1 << 15) >> rng.randrange(16)))

        random_settings = {
            "windows": rng.getrandbits(1), "k": rng.getrandbits(3), "limit": rng.randrange(2 * config.columns),
            "shift": rng.choice((rng.randrange(64), rng.randrange(8, 24))),
            "relu": rng.getrandbits(1), "bias": rng.getrandbits(1), "wide": rng.getrandbits(1),
            "rooted": rng.getrandbits(1),
            "own": rng.choice((0, rng.randrange(-(1 << 16), 1 << 16), -(1 << 16), (1 << 16) - 1)),
            "last_chunk": -(-f_out // config.lanes) - 1, "f_out": f_out,
        }  # fmt: skip

        def beats() -> list[list[int]]:
            return [[value() for _ in range(elements)] for _ in range(-(-f_out // elements))]

        return cls(
            random_settings | settings,
            [rng.randrange(-(1 << 31), 1 << 31) >> rng.randrange(32) for _ in range(f_out)],
            rng.choice(((rng.choice([*vids, 0]) + rng.randrange(-1, 2)) % (1 << 32), rng.getrandbits(32))),
            {vid: beats() for vid in vids},
            {
                vid: {
                    "mantissa": rng.getrandbits(16),
                    "exponent": rng.choice((0, 0, rng.getrandbits(5))),
                    "reserved": rng.getrandbits(11),
                }
                for vid in vids
            },
            {vid: [0] * f_out for vid in vids},
            {vid: beats() for vid in vids},
            0,
            _VIDS,
            {vid: rng.randrange(min(rng.choice((2, 20, 100)), 1 << len(design.degree.payload.degree))) for vid in vids},
        )

    def summed(self, vids: list[int]) -> list[int]:
        """Return those of the hubs whose sums are wanted."""
        return [vid for vid in vids if 0 <= vid - self.first < self.vertices]

    @property
    def f_out(self) -> int:
        """Elements of a row."""
        return self.settings["f_out"]

    def high(self, vid: int) -> int:
        """Whether a row is the high half of a partial sum."""
        return int(vid >= self.first_partial and (vid - self.first_partial) % 2 == 1)

    def results(self, vids: list[int]) -> dict[int, list[int]]:
        """Return the result rows of hubs."""
        if not vids:
            return {}
        settings = self.settings
        rows = self.own if settings["rooted"] else self.rows
        own = np.array([[value for beat in rows[vid] for value in beat][: self.f_out] for vid in vids])
        weight = 1 << GIN_FRACTION if settings["wide"] else 1
        mantissa, exponent = (
            np.array([self.scales[vid][name] for vid in vids])[:, None] for name in ("mantissa", "exponent")
        )
        own_weight = settings["own"] << exponent % 16 * settings["rooted"]
        # It has 17 bits.
        own_weight = (own_weight + (1 << 16)) % (1 << 17) - (1 << 16)
        found = requantise(
            weight * np.array([self.sums[vid] for vid in vids]) + own_weight * own,
            mantissa,
            exponent,
            settings["shift"],
            np.array(self.biases) * settings["bias"],
        )
        results = np.maximum(found, 0) if settings["relu"] else found
        return {vid: list(map(int, row)) for vid, row in zip(vids, results, strict=True)}

    def beats(self, vid: int) -> int:
        """Return the beats that come for a hub: of its own row, then of its combined row."""
        return len(self.rows[vid]) * (1 + self.settings["rooted"])


class Around:
    """What surrounds a hub unit: combines hubs, takes rows and sends partial sums for them, takes results.

    Parameters
    ----------
    bench, design
        The unit.
    late
        Cycles that pass at most between two beats of combined rows; 0: rows come at once, each whole.
    owing
        Probability with which a client keeps the partial sum for a row until the hubs are finished, or until it `pay`s.
    """

    def __init__(self, bench: Bench, design: HubUnit, late: int = 0, owing: float = 0.0) -> None:
        self.bench, self.design, self.late, self.owing = bench, design, late, owing
        self.layer: Layer
        #: Vectors that each hub's sum misses; which of two locations the layer is of.
        self.missing: dict[int, int] = {}
        self.odd = 0
        clients = design.clients
        #: Rows that each client waits for, and by where they must go; the beats of a row that have come.
        self.asked: list[list[int]] = [[] for _ in range(clients)]
        self.places: dict[tuple[int, ...], tuple[int, int]] = {}
        self.beats: list[list[int]] = []
        #: Bits that elements of partial sums have less than 32, at least.
        self.less = 0
        #: Partial sums that are still to be sent, by whom and of which hub.
        self.owed: list[tuple[int, int]] = []
        #: Hubs that were wanted, in order; those which nobody has begun to combine.
        self.wanted: list[int] = []
        self.waiting: list[int] = []
        self.combined = 0
        #: Those whose rows have come, or are about to, and those whose rows have been sent to who asked.
        self.there: set[int] = set()
        self.served: set[int] = set()
        #: Those whose own records have asked for them.
        self.headed: set[int] = set()
        #: Nobody combines anything for now; only if rows are late.
        self.holds = False
        self.results: dict[int, list[int]] = defaultdict(list)
        self.ended = 0
        self.overflows: list[int] = []
        #: Whose row an overflowing hub gets.
        self.stands_in: dict[int, int] = {}
        bench.take("row", self._row)
        bench.take("wanted", self._want)
        bench.take("o", self._result)
        bench.take("overflow", self.overflows.append)
        if late:
            cocotb.start_soon(self._combine())

    def forget(self) -> None:
        """Begin again."""
        for rows in self.asked:
            rows.clear()
        self.beats.clear()
        self.places.clear()
        for numbers in (self.wanted, self.waiting, self.overflows):
            numbers.clear()
        self.owed.clear()
        self.results.clear()
        self.stands_in.clear()
        self.there.clear()
        self.served.clear()
        self.headed.clear()
        self.combined = self.ended = 0

    async def begin(self, layer: Layer, *, same: bool = False) -> None:
        """Start a layer and write what it needs; the degrees are those of the `same` location, or of another one.

        Those of the location behind it come meanwhile.
        """
        self.forget()
        self.layer, bench, dut = layer, self.bench, self.bench.dut
        dut.settings.value = Codec(self.design.config.settings).pack(layer.settings)
        dut.first_partial.value = layer.first_partial
        dut.first.value, dut.vertices.value = layer.first, layer.vertices
        self.missing = {vid: degree + 1 for vid, degree in layer.degrees.items()}
        if not same:
            self.odd ^= 1
            await self.tell(layer.degrees, self.odd)
        dut.odd.value = self.odd
        await bench.pulse(dut.start, then=1)
        await self.tell(dict.fromkeys(layer.degrees, bench.random.randrange(4)), self.odd ^ 1, wait=not self.late)
        writes = [{"address": n, "data": bias} for n, bias in enumerate(layer.biases)]
        bench.drive("bias_write", bench.random.sample(writes, len(writes)))

    async def tell(self, degrees: dict[int, int], odd: int, *, wait: bool = True) -> None:
        """Tell the unit degrees, and `wait` until it knows them."""
        bench = self.bench
        bench.drive("degree", [{"vid": vid, "degree": degree, "odd": odd} for vid, degree in degrees.items()])
        if wait:
            await bench.until(lambda: not bench.drivers["degree"].busy_words, 20_000)
            await bench.cycles(1)

    def ask(self, client: int, vids: list[int], *, heads: float = 0.7) -> None:
        """Have a client ask for rows, each for the hub's own record with this probability until that has asked."""
        self.asked[client] += vids
        rng, words = self.bench.random, []
        for vid in vids:
            # Where a row goes means nothing to the unit.
            while (
                place := (rng.randrange(PES), rng.randrange(self.design.config.slots), rng.getrandbits(1))
            ) in self.places:
                pass
            self.places[place] = client, vid
            pe, slot, alone = place
            head = vid not in self.headed and rng.random() < heads
            if head:
                self.headed.add(vid)
            where = {"slot": slot, "alone": alone, "pe": pe, "apart": rng.getrandbits(1)}
            words.append({"vid": vid, "head": int(head), **where})
        self.bench.drive("i", words)

    def is_asked(self, vid: int) -> bool:
        """Whether some client waits for a hub's row."""
        return any(vid in rows for rows in self.asked)

    def _want(self, vid: int) -> None:
        assert vid in self.layer.rows, f"{vid} is no hub"
        assert vid not in self.wanted, f"{vid} is wanted twice"
        self.wanted.append(vid)
        if self.late:
            self.waiting.append(vid)
        else:
            for n in range(self.layer.beats(vid)):
                self._beat(vid, n)

    def _beat(self, vid: int, number: int) -> None:
        """Send a beat of a combined row, or before it of the own row."""
        beats = self.layer.rows[vid]
        root = self.layer.settings["rooted"] and number < len(beats)
        beat, rows = number % len(beats), self.layer.own[vid] if root else beats
        tag = {"beat": beat, "vid": vid, "apart": 1, "root": int(root), "scale": self.layer.scales[vid]}
        address = Codec(self.design.config.tag).pack(tag)
        last = beat == len(beats) - 1
        self.bench.drive("combined", [{"address": address, "data": rows[beat], "last": int(last)}])
        if last and not root:
            self.combined += 1
            self.there.add(vid)

    async def _combine(self) -> None:
        """Combine what is wanted, in any order, up to four rows at the same time."""
        rng, active = self.bench.random, dict[int, int]()
        while True:
            await self.bench.cycles(rng.randint(1, self.late))
            if self.holds:
                continue
            active = {vid: beat for vid, beat in active.items() if vid in self.wanted}
            if self.waiting and len(active) < 4:
                active[self.waiting.pop(rng.randrange(len(self.waiting)))] = 0
            if active:
                vid = rng.choice(list(active))
                self._beat(vid, active[vid])
                active[vid] += 1
                if active[vid] == self.layer.beats(vid):
                    del active[vid]

    def _row(self, word: dict[str, Any]) -> None:
        beats = self.beats
        beats.append(word["data"])
        place = word["pe"], word["slot"], word["alone"]
        client, asked = self.places[place]
        vid = self.stands_in.get(asked, asked)
        if self.design.config.partials:
            assert word["high"] == self.layer.high(vid)
        assert word["last"] == (len(beats) == len(self.layer.rows[vid]))
        if word["last"]:
            assert beats == self.layer.rows[vid], f"client {client} got another row than that of {asked}"
            self.asked[client].remove(asked)
            self.served.add(asked)
            del self.places[place]
            beats.clear()
            if self.bench.random.random() < self.owing:
                self.owed.append((client, asked))
            else:
                self.add(client, asked)

    def pay(self) -> None:
        """Have all clients send what they owe."""
        for client, vid in self.owed:
            self.add(client, vid)
        self.owed.clear()

    def add(self, client: int, vid: int, *, last: bool = False) -> None:
        """Have a client send a partial sum, of some vectors that the hub's sum misses; or the `last`, of all of them.

        A hub that is sent is complete, so that one stays until then.
        """
        rng, layer, lanes = self.bench.random, self.layer, self.design.config.lanes
        chunks = layer.settings["last_chunk"] + 1
        bits = self.design.config.sum_bits
        values = [
            rng.randrange(-(1 << 31), 1 << 31) >> rng.randrange(max(self.less, 32 - bits), 32)
            for _ in range(chunks * lanes)
        ]
        # The data of an empty sum means nothing.
        empty = {"empty": int(rng.random() < 0.3)} if self.design.config.shares else {}
        if not empty.get("empty"):
            layer.sums[vid] = [wrapped(a + b) for a, b in zip(layer.sums[vid], values, strict=False)]
        missing, most = self.missing[vid], self.design.config.width
        vectors = min(missing, most) if last else rng.randrange(min(missing, most))
        self.missing[vid] -= vectors
        head = {"vid": vid, "vectors": vectors, **empty}
        words = [
            {**head, "chunk": n, "data": values[n * lanes : (n + 1) * lanes], "last": int(n == chunks - 1)}
            for n in range(chunks)
        ]
        self.bench.drive("partial", words)
        if last and self.missing[vid]:
            self.add(client, vid, last=True)

    def complete(self, vids: list[int]) -> None:
        """Have the last vectors of hubs sent that are wanted; only once nothing else is owed of them."""
        for vid in vids:
            self.add(self.bench.random.randrange(self.design.clients), vid, last=True)

    def _result(self, word: dict[str, Any]) -> None:
        elements = self.design.config.pe.elements
        row = self.results[word["vid"]]
        assert word["beat"] * elements == len(row), f"beat {word['beat']} of {word['vid']} is out of order"
        row += word["data"]
        assert word["last"] == (len(row) >= self.layer.f_out)
        self.ended += word["last"]

    def idle(self) -> bool:
        """Whether all that has been asked for has come, and all that was sent has been taken."""
        return (
            not any(self.asked)
            and self.combined == len(self.wanted)
            and not any(driver.busy_words for driver in self.bench.drivers.values())
        )

    async def settle(self) -> None:
        """Wait until there is nothing more to do but to finish, and to send what is owed."""
        await self.bench.until(self.idle, 20_000)
        await rest(self.bench)
        assert self.idle()

    async def finish(self) -> None:
        """Finish the hubs, while rows and sums that are owed still come, and compare all rows."""
        bench, rng = self.bench, self.bench.random
        self.ask(rng.randrange(self.design.clients), [vid for vid in self.wanted if vid not in self.headed], heads=1.0)
        await bench.cycles(2)
        await bench.until(lambda: not bench.drivers["i"].busy_words and not int(bench.dut.asking.value), 20_000)
        await bench.pulse(bench.dut.close, then=1)
        waited = 0
        while self.owed or not self.idle() or self.ended != len(self.layer.summed(self.wanted)):
            if self.owed and rng.getrandbits(1):
                self.add(*self.owed.pop(rng.randrange(len(self.owed))))
            # The last vectors of a hub come behind all others.
            quiet = not any(bench.drivers[port].busy_words for port in ("combined", "partial"))
            left = {vid for vid in (self.there if quiet else self.served) if self.missing[vid]}
            done = left.difference(vid for _, vid in self.owed).difference(*self.asked)
            if done and rng.getrandbits(1):
                self.complete([rng.choice(sorted(done))])
            await bench.cycles(1)
            waited += 1
            assert waited < 20_000, f"{self.ended} hubs of {len(self.layer.summed(self.wanted))} have ended"
        await rest(bench)
        assert self.results == self.expected()

    def expected(self) -> dict[int, list[int]]:
        """Return the results of all summed hubs that were wanted, whole beats, with zeros behind their end."""
        elements = self.design.config.pe.elements
        padding = [0] * (-self.layer.f_out % elements)
        return {vid: row + padding for vid, row in self.layer.results(self.layer.summed(self.wanted)).items()}


async def rest(bench: Bench) -> None:
    """Wait until the unit is not busy; what passed at the last edge shows a cycle later."""
    await bench.cycles(1)
    waited = 0
    while int(bench.dut.busy.value):
        await bench.cycles(1)
        waited += 1
        assert waited < 5_000, "it stays busy"


async def begin(dut: Any, *, late: int = 0, owing: float = 0.0, **pace: Any) -> tuple[Bench, HubUnit, Around]:
    """Start the bench; `late` and `owing` are how the PEs in `Around` behave."""
    finished = hub_unit(**parameters())
    design = finished.block
    dut.start.value = dut.close.value = dut.drained.value = dut.odd.value = dut.settings.value = 0
    dut.first_partial.value, dut.first.value, dut.vertices.value = 0, 0, _VIDS
    bench = await start(dut, finished, **pace)
    around = Around(bench, design, late, owing)
    await bench.cycles(2)
    return bench, design, around


def random_layer(bench: Bench, design: HubUnit, **settings: int) -> Layer:
    """Return a layer of up to as many hubs as there are slots, or vertices."""
    most = min(design.nodes, design.hubs.width)
    hubs = bench.random.choice((most, bench.random.randint(0, most), 1))
    f_out = bench.random.choice((design.config.max_out, bench.random.randint(1, design.config.max_out)))
    return Layer.of(design, bench.random, hubs, f_out, **settings)


async def ask_all(around: Around, layer: Layer, *, settle: bool = True) -> None:
    """Ask for the hubs of a layer from all sides, some of them ahead, and wait for all, or until all are looked up."""
    rng, bench, design = around.bench.random, around.bench, around.design
    vids = list(layer.rows)
    ahead = rng.sample(vids, rng.randint(0, len(vids)))
    bench.drive("ahead", ahead)
    if rng.getrandbits(1):
        await bench.cycles(rng.randrange(50))
    for client in range(design.clients):
        # Clients have room for so many rows.
        around.ask(client, rng.choices(vids, k=rng.randint(0, 24)) if vids else [])
    wished = (vid for vid in vids if vid in ahead or around.is_asked(vid))
    around.ask(0, [vid for vid in wished if vid not in around.headed], heads=1.0)
    if not settle:
        await bench.cycles(2)
        await bench.until(lambda: not any(bench.drivers[port].busy_words for port in ("ahead", "i")), 20_000)
        while int(bench.dut.asking.value):
            await bench.cycles(1)
        return
    await around.settle()
    asked = {vid for vid in around.wanted if vid not in ahead}
    assert asked <= set(vids)
    assert set(ahead) <= set(around.wanted)


async def some_layer(around: Around) -> None:
    """Do a layer of random hubs, all asked for, from its beginning to its end."""
    layer, rng = random_layer(around.bench, around.design), around.bench.random
    if rng.getrandbits(1):
        layer = replace(layer, first=rng.choice([*layer.rows, 0]), vertices=rng.randrange(_VIDS))
    await around.begin(layer)
    await ask_all(around, layer, settle=bool(around.bench.random.getrandbits(1)))
    await around.finish()
