"""Hub unit: every hub combined once, its row to all who ask, its sum taken through the second rounding point."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

import cocotb
import numpy as np
import pytest

from golden.model.layer import GIN_FRACTION
from golden.model.rounding import requantise
from hw.community.formats import RECORDS
from hw.community.hub_unit import HubUnit
from hw.pe.requantiser import Requantiser
from tb.community import factories
from tb.harness import parameters, simulate
from tb.harness.bench import Bench, start
from tb.harness.codec import Codec
from tb.harness.expected import expect_cycles
from tb.harness.marks import full

#: Two chunks in a beat, up to three beats in a row, halves of sums; one of two units.
DEFAULT: dict[str, Any] = {
    "clients": 3, "nodes": 128, "hubs": 32, "units": 2, "ways": 2,
    "lanes": 4, "width": 8, "columns": 16, "max_out": 21, "weight_rows": 16, "data_width": 128, "partials": True,
}  # fmt: skip
#: An element a cycle, and as many beats as a row can have.
NARROW: dict[str, Any] = {
    "clients": 2, "nodes": 32, "hubs": 8, "units": 1, "ways": 1,
    "lanes": 2, "width": 8, "columns": 16, "max_out": 13, "weight_rows": 16, "data_width": 64, "partials": True,
}  # fmt: skip
#: A beat a cycle, one client, more hubs than a unit has vertices, no halves.
WHOLE: dict[str, Any] = {
    "clients": 1, "nodes": 32, "hubs": 16, "units": 4, "ways": 4,
    "lanes": 4, "width": 8, "columns": 16, "max_out": 10, "weight_rows": 16, "data_width": 64,
}  # fmt: skip
#: Layers until their numbers begin again.
_EPOCHS = 15


def wrapped(value: int) -> int:
    """Return a sum of 32 bits."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


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
    """

    settings: dict[str, int]
    biases: list[int]
    first_partial: int
    rows: dict[int, list[list[int]]]
    scales: dict[int, dict[str, int]]
    sums: dict[int, list[int]]

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
            "own": rng.choice((0, rng.randrange(-(1 << 16), 1 << 16), -(1 << 16), (1 << 16) - 1)),
            "last_chunk": -(-f_out // config.lanes) - 1, "f_out": f_out,
        }  # fmt: skip
        return cls(
            random_settings | settings,
            [rng.randrange(-(1 << 31), 1 << 31) >> rng.randrange(32) for _ in range(f_out)],
            rng.choice(((rng.choice([*vids, 0]) + rng.randrange(-1, 2)) % (1 << 32), rng.getrandbits(32))),
            {vid: [[value() for _ in range(elements)] for _ in range(-(-f_out // elements))] for vid in vids},
            {
                vid: {
                    "mantissa": rng.getrandbits(16),
                    "exponent": rng.choice((0, 0, rng.getrandbits(5))),
                    "reserved": rng.getrandbits(11),
                }
                for vid in vids
            },
            {vid: [0] * f_out for vid in vids},
        )

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
        own = np.array([[value for beat in self.rows[vid] for value in beat][: self.f_out] for vid in vids])
        weight = 1 << GIN_FRACTION if settings["wide"] else 1
        mantissa, exponent = (
            np.array([self.scales[vid][name] for vid in vids])[:, None] for name in ("mantissa", "exponent")
        )
        found = requantise(
            weight * np.array([self.sums[vid] for vid in vids]) + settings["own"] * own,
            mantissa,
            exponent,
            settings["shift"],
            np.array(self.biases) * settings["bias"],
        )
        rows = np.maximum(found, 0) if settings["relu"] else found
        return {vid: list(map(int, row)) for vid, row in zip(vids, rows, strict=True)}


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
        clients = design.clients
        #: Rows that each client waits for; the beats of the first one that have come.
        self.asked: list[list[int]] = [[] for _ in range(clients)]
        self.beats: list[list[list[int]]] = [[] for _ in range(clients)]
        #: Bits that elements of partial sums have less than 32, at least.
        self.less = 0
        #: Partial sums that are still to be sent, by whom and of which hub.
        self.owed: list[tuple[int, int]] = []
        #: Hubs that were wanted, in order; those which nobody has begun to combine.
        self.wanted: list[int] = []
        self.waiting: list[int] = []
        self.combined = 0
        #: Nobody combines anything for now; only if rows are late.
        self.holds = False
        self.results: dict[int, list[int]] = defaultdict(list)
        self.ended = 0
        self.overflows: list[int] = []
        #: Whose row an overflowing hub gets.
        self.stands_in: dict[int, int] = {}
        for n in range(clients):
            bench.take(f"rows__{n}", partial(self._row, n))
        bench.take("wanted", self._want)
        bench.take("o", self._result)
        bench.take("overflow", self.overflows.append)
        if late:
            cocotb.start_soon(self._combine())

    def forget(self) -> None:
        """Begin again."""
        for lists in (self.asked, self.beats):
            for each in lists:
                each.clear()
        for numbers in (self.wanted, self.waiting, self.overflows):
            numbers.clear()
        self.owed.clear()
        self.results.clear()
        self.stands_in.clear()
        self.combined = self.ended = 0

    async def begin(self, layer: Layer) -> None:
        """Start a layer and write what it needs."""
        self.forget()
        self.layer, bench, dut = layer, self.bench, self.bench.dut
        dut.settings.value = Codec(self.design.config.settings).pack(layer.settings)
        dut.first_partial.value = layer.first_partial
        await bench.pulse(dut.start, then=1)
        writes = [{"address": n, "data": bias} for n, bias in enumerate(layer.biases)]
        bench.drive("bias_write", bench.random.sample(writes, len(writes)))

    def ask(self, client: int, vids: list[int]) -> None:
        """Have a client ask for rows."""
        self.asked[client] += vids
        place = self.design.config.places
        words = [{"vid": vid, "place": self.bench.random.randrange(place)} for vid in vids]
        self.bench.drive(f"i__{client}", words)

    def _want(self, vid: int) -> None:
        assert vid in self.layer.rows, f"{vid} is no hub"
        assert vid not in self.wanted, f"{vid} is wanted twice"
        self.wanted.append(vid)
        if self.late:
            self.waiting.append(vid)
        else:
            for n in range(len(self.layer.rows[vid])):
                self._beat(vid, n)

    def _beat(self, vid: int, number: int) -> None:
        """Send a beat of a combined row."""
        beats = self.layer.rows[vid]
        tag = {"beat": number, "vid": vid, "apart": 1, "scale": self.layer.scales[vid]}
        address = Codec(self.design.config.tag).pack(tag)
        last = number == len(beats) - 1
        self.bench.drive("combined", [{"address": address, "data": beats[number], "last": int(last)}])
        self.combined += last

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
                if active[vid] == len(self.layer.rows[vid]):
                    del active[vid]

    def _row(self, client: int, word: dict[str, Any]) -> None:
        beats = self.beats[client]
        beats.append(word["data"])
        asked = self.asked[client][0]
        vid = self.stands_in.get(asked, asked)
        if self.design.config.partials:
            assert word["high"] == self.layer.high(vid)
        assert word["last"] == (len(beats) == len(self.layer.rows[vid]))
        if word["last"]:
            assert beats == self.layer.rows[vid], f"client {client} got another row than that of {asked}"
            self.asked[client].pop(0)
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

    def add(self, client: int, vid: int) -> None:
        """Have a client send a partial sum."""
        rng, layer, lanes = self.bench.random, self.layer, self.design.config.lanes
        chunks = layer.settings["last_chunk"] + 1
        values = [rng.randrange(-(1 << 31), 1 << 31) >> rng.randrange(self.less, 32) for _ in range(chunks * lanes)]
        layer.sums[vid] = [wrapped(a + b) for a, b in zip(layer.sums[vid], values, strict=False)]
        words = [
            {"vid": vid, "chunk": n, "data": values[n * lanes : (n + 1) * lanes], "last": int(n == chunks - 1)}
            for n in range(chunks)
        ]
        self.bench.drive(f"partials__{client}", words)

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
        complete = self.idle() and not self.owed
        await bench.pulse(bench.dut.finish, then=1)
        waited = 0
        while self.owed or not self.idle() or self.ended != len(self.wanted):
            if self.owed and rng.getrandbits(1):
                self.add(*self.owed.pop(rng.randrange(len(self.owed))))
            await bench.cycles(1)
            waited += 1
            assert waited < 20_000, f"{self.ended} hubs of {len(self.wanted)} have ended"
        await rest(bench)
        assert self.results == self.expected()
        # Those that are complete leave in the order in which they got their slots.
        assert not complete or list(self.results) == self.wanted

    def expected(self) -> dict[int, list[int]]:
        """Return the results of all hubs that were wanted, whole beats, with zeros behind their end."""
        elements = self.design.config.pe.elements
        padding = [0] * (-self.layer.f_out % elements)
        return {vid: row + padding for vid, row in self.layer.results(self.wanted).items()}


async def rest(bench: Bench) -> None:
    """Wait until the unit is not busy; what passed at the last edge shows a cycle later."""
    await bench.cycles(1)
    waited = 0
    while int(bench.dut.busy.value):
        await bench.cycles(1)
        waited += 1
        assert waited < 5_000, "it stays busy"


def clearing(design: HubUnit) -> int:
    """Return the cycles in which all slots are cleared."""
    return max(design.nodes, design.hubs.width)


async def begin(dut: Any, *, late: int = 0, owing: float = 0.0, **pace: Any) -> tuple[Bench, HubUnit, Around]:
    design = factories.hub_unit(**parameters())
    dut.start.value = dut.finish.value = dut.first_partial.value = dut.settings.value = 0
    bench = await start(dut, design, **pace)
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
    if not settle:
        await bench.cycles(2)
        ports = ("ahead", *(f"i__{client}" for client in range(design.clients)))
        await bench.until(lambda: not any(bench.drivers[port].busy_words for port in ports), 20_000)
        while int(bench.dut.asking.value):
            await bench.cycles(1)
        return
    await around.settle()
    asked = {vid for vid in around.wanted if vid not in ahead}
    assert asked <= set(vids)
    assert set(ahead) <= set(around.wanted)


async def some_layer(around: Around) -> None:
    """Do a layer of random hubs, all asked for, from its beginning to its end."""
    layer = random_layer(around.bench, around.design)
    await around.begin(layer)
    await ask_all(around, layer, settle=bool(around.bench.random.getrandbits(1)))
    await around.finish()


@cocotb.test()
@cocotb.parametrize(late=[0, 12], idle=[0.0, 0.5], stall=[0.0, 0.6])
async def layers_are_exact(dut: Any, late: int, idle: float, stall: float) -> None:
    """Layer after layer: every row to who asked, every hub combined and finished once, bit for bit."""
    bench, _, around = await begin(dut, late=late, owing=0.3, idle=idle, stall=stall)
    await rest(bench)
    for _ in range(6):
        await some_layer(around)


@cocotb.test()
async def all_settings_are_exact(dut: Any) -> None:
    """Every combination of activation, bias and weights, rows of every length; more layers than there are numbers."""
    bench, design, around = await begin(dut, late=2)
    await rest(bench)
    vids = min(design.nodes, 6)
    for n in range(max(2 * _EPOCHS + 1, design.config.max_out)):
        relu, bias, wide = (n >> bit & 1 for bit in range(3))
        layer = Layer.of(
            design, bench.random, vids, n % design.config.max_out + 1, relu=relu, bias=bias, wide=wide,
            shift=bench.random.randrange(4, 24),
        )  # fmt: skip
        await around.begin(layer)
        # The numbers of the layers begin again: the slots are cleared.
        began = bench.cycle
        await rest(bench)
        assert bench.cycle - began == (clearing(design) if (n + 2) % _EPOCHS == 1 else 1)
        await ask_all(around, layer)
        await around.finish()


@cocotb.test()
async def every_bit_of_a_sum_counts(dut: Any) -> None:
    """Results are 16 bits of the sums themselves, which stay while nothing comes."""
    bench, design, around = await begin(dut)
    await rest(bench)
    hubs = min(design.nodes, design.hubs.width, 8)
    as_it_is = {"relu": 0, "bias": 0, "wide": 0, "own": 0}
    for shift in (0, 0, 0, 0, 8, 16):
        layer = Layer.of(design, bench.random, hubs, design.config.max_out, shift=shift, **as_it_is)
        for scale in layer.scales.values():
            scale |= {"mantissa": 1, "exponent": 0}
        await around.begin(layer)
        # Two of them have 15 bits and a sign behind the shift.
        around.less = 17 - shift
        for _ in range(2):
            around.ask(design.clients - 1, list(layer.rows))
            await around.settle()
            await bench.cycles(bench.random.randrange(20))
        # None is beyond what a result can be.
        assert all(-(1 << 15) <= value >> shift < 1 << 15 for row in layer.sums.values() for value in row)
        await around.finish()


@cocotb.test()
async def a_layer_that_is_not_finished_is_forgotten(dut: Any) -> None:
    """Without a finish too, a start forgets all hubs; and without hubs a finish ends at once."""
    bench, design, around = await begin(dut)
    await rest(bench)
    for f_out in (1, design.config.max_out):
        layer = Layer.of(design, bench.random, 5, f_out)
        await around.begin(layer)
        await ask_all(around, layer)
        await around.begin(Layer.of(design, bench.random, 0, f_out))
        await around.finish()
        layer = Layer.of(design, bench.random, min(design.nodes, design.hubs.width), f_out)
        await around.begin(layer)
        await ask_all(around, layer)
        await around.finish()


@cocotb.test()
async def hubs_beyond_the_slots_are_told(dut: Any) -> None:
    """They get the last slot's row, what is sent for them goes nowhere, and the others are exact."""
    bench, design, around = await begin(dut, late=3, owing=0.5)
    await rest(bench)
    slots = design.hubs.width
    for _ in range(8 if design.nodes > slots else 0):
        layer = Layer.of(design, bench.random, min(design.nodes, slots + 5), design.config.max_out)
        await around.begin(layer)
        vids = list(layer.rows)
        around.ask(0, vids[:slots])
        await around.settle()
        assert around.wanted == vids[:slots]
        assert around.overflows == []
        around.stands_in.update(dict.fromkeys(vids[slots:], vids[slots - 1]))
        beyond = [bench.random.choice(vids[slots:]) for _ in range(9)]
        around.ask(design.clients - 1, [*beyond, vids[0]])
        bench.drive("ahead", beyond[:4])
        await around.settle()
        assert Counter(around.overflows) == Counter(beyond) + Counter(beyond[:4])
        await around.finish()
        await some_layer(around)


@cocotb.test()
async def a_reset_in_the_middle_forgets_all(dut: Any) -> None:
    """Wherever it comes, the same work afterwards gives the same results."""
    bench, design, around = await begin(dut, late=3, owing=0.3, idle=0.2, stall=0.3)
    for n in range(10):
        layer = random_layer(bench, design)
        for cut_off in (True, False):
            await rest(bench)
            layer.sums = {vid: [0] * layer.f_out for vid in layer.sums}
            await around.begin(layer)
            if cut_off and n % 2:
                bench.drive("ahead", layer.rows)
                for client in range(design.clients):
                    around.ask(client, list(layer.rows))
                await bench.cycles(bench.random.randrange(1, 200))
            else:
                await ask_all(around, layer)
            if cut_off:
                if not n % 2:
                    await bench.pulse(dut.finish, then=1)
                    await bench.cycles(bench.random.randrange(50))
                around.forget()
                await bench.reset()
            else:
                await around.finish()


@cocotb.test()
async def clearing_takes_its_cycles(dut: Any) -> None:
    """After a reset: as many as there are vertices, or slots; requests wait meanwhile."""
    bench, design, around = await begin(dut)
    layer = Layer.of(design, bench.random, 1, 1)
    around.layer = layer
    dut.settings.value = Codec(design.config.settings).pack(layer.settings)
    dut.first_partial.value = layer.first_partial
    bench.drive("bias_write", [{"address": 0, "data": layer.biases[0]}])
    around.ask(0, list(layer.rows))
    await bench.cycles(clearing(design) - bench.cycle)
    assert int(dut.busy.value)
    assert not around.wanted
    await bench.cycles(4)
    assert around.wanted
    await around.settle()
    await around.finish()
    await bench.reset()
    await rest(bench)
    assert bench.cycle == clearing(design) + 1


@cocotb.test()
async def rows_come_in_their_cycles(dut: Any) -> None:
    """Of hubs that are there: the first beat in five cycles and one, and a cycle between two rows."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    for beats in {1, -(-design.config.max_out // design.config.pe.elements)}:
        f_out = min(design.config.max_out, beats * design.config.pe.elements)
        layer = Layer.of(design, bench.random, 3, f_out)
        await around.begin(layer)
        vids = list(layer.rows)
        around.ask(0, vids)
        await around.settle()
        for count in (1, 2, 20):
            began = bench.cycle
            around.ask(0, bench.random.choices(vids, k=count))
            await bench.until(around.idle)
            assert bench.cycle - began == 5 + count * (beats + 1)
        await around.finish()


def name_of(design: HubUnit) -> str:
    """Return what cycles of this configuration are called."""
    return f"community.hub_unit.{design.clients}.{design.hubs.ways}"


@cocotb.test()
async def a_layer_takes_its_cycles(dut: Any) -> None:
    """Without stalls: combined rows a chunk a cycle, partial sums a chunk a cycle, the end a group a cycle."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    bench.random.seed(1)
    hubs = min(design.nodes, design.hubs.width)
    for f_out in (1, design.config.lanes, design.config.max_out):
        layer = Layer.of(design, bench.random, hubs, f_out)
        await around.begin(layer)
        vids, chunks = list(layer.rows), layer.settings["last_chunk"] + 1
        began = bench.cycle
        bench.drive("ahead", vids)
        await bench.until(lambda: around.combined == hubs and around.idle())
        # A hub a cycle at first; then its chunks hold up the beats of the next ones.
        expect_cycles(f"{name_of(design)}.combined.{f_out}", bench.cycle - began)
        await rest(bench)
        for client in {0, design.clients - 1}:
            for _ in range(5):
                around.ask(client, bench.random.choices(vids[:2], k=8))
                await around.settle()
            began = bench.cycle
            around.pay()
            await bench.until(around.idle)
            assert bench.cycle - began - 40 * chunks in (0, 1)
            await rest(bench)
        began = bench.cycle
        await bench.pulse(dut.finish, then=1)
        await bench.until(lambda: around.ended == hubs)
        groups = -(-f_out // design.hubs.ways)
        # The pulse, the state, the look at what is owed, the finisher's way, and the queue.
        assert bench.cycle - began == hubs * groups + Requantiser.LATENCY + 7
        assert around.results == around.expected()


@cocotb.test()
async def a_hub_leaves_when_its_sums_are_there(dut: Any) -> None:
    """And holds up no other; the unit is busy until the last has left."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    for f_out in (1, design.config.max_out):
        layer = Layer.of(design, bench.random, min(6, design.nodes), f_out)
        await around.begin(layer)
        first, second, *others = layer.rows
        for client in range(design.clients):
            around.ask(client, [first, second, first, others[0], second])
        bench.drive("ahead", others)
        await around.settle()
        # Of the first two a sum is missing.
        owed = [(0, first), (design.clients - 1, second)]
        for sent in owed:
            around.owed.remove(sent)
        around.pay()
        await around.settle()
        await bench.pulse(dut.finish, then=1)
        await bench.cycles(200)
        assert list(around.results) == [vid for vid in around.wanted if vid in others]
        for client, vid in reversed(owed):
            assert vid not in around.results
            around.add(client, vid)
            await bench.cycles(100)
            assert int(dut.busy.value) == (vid == second)
        assert around.results == around.expected()


@cocotb.test()
async def every_sum_that_is_owed_is_waited_for(dut: Any) -> None:
    """However many there are of a hub, up to a power of two, as many, and one more: it leaves behind the last one."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    most = design.clients * RECORDS
    for beside in (-1, 0, 1):
        layer = Layer.of(design, bench.random, min(design.nodes, design.hubs.width, 9), design.config.lanes)
        await around.begin(layer)
        left = {vid: max(1, (1 << bit) + beside) for bit, vid in enumerate(layer.rows)}
        while any(left.values()):
            # What has been asked for before is paid first, so that no more is owed at the same time than can be.
            around.pay()
            for vid, count in left.items():
                around.ask(bench.random.randrange(design.clients), [vid] * min(count, most))
                left[vid] -= min(count, most)
            await around.settle()
        lasts = {vid: (client, vid) for client, vid in around.owed}
        for last in lasts.values():
            around.owed.remove(last)
        around.pay()
        await around.settle()
        await bench.pulse(dut.finish, then=1)
        await bench.cycles(60)
        ended = {vid for vid in layer.rows if vid not in lasts}
        for vid, last in lasts.items():
            assert set(around.results) == ended
            around.add(*last)
            await bench.cycles(60)
            ended.add(vid)
        assert around.results == around.expected()


@cocotb.test()
async def results_wait(dut: Any) -> None:
    """While none is taken there is room for 16 beats; then they leave in every cycle, and none is lost."""
    bench, design, around = await begin(dut)
    await rest(bench)
    hubs = min(design.nodes, design.hubs.width)
    layer = Layer.of(design, bench.random, hubs, design.config.max_out)
    for waits in (1.0, 0.9):
        await around.begin(layer)
        bench.drive("ahead", layer.rows)
        await ask_all(around, layer)
        bench.pace(stall={"o": waits})
        await bench.pulse(dut.finish, then=1)
        await bench.cycles(600)
        seen = sum(map(len, around.results.values()))
        bench.pace(stall={"o": 0.0})
        await bench.cycles(17)
        if waits == 1.0:
            assert int(dut.busy.value)
            assert seen == 0
            assert sum(map(len, around.results.values())) == 16 * design.config.pe.elements
        await bench.until(lambda: around.ended == len(around.wanted))
        await rest(bench)
        assert around.results == around.expected()
        layer.sums = {vid: [0] * layer.f_out for vid in layer.sums}


@cocotb.test()
async def new_hubs_wait_for_each_other(dut: Any) -> None:
    """Of hubs that nobody takes four wait, then all requests do; nothing is lost."""
    bench, design, around = await begin(dut)
    await rest(bench)
    bench.pace(stall={"wanted": 1.0})
    layer = Layer.of(design, bench.random, min(design.nodes, design.hubs.width), design.config.lanes)
    await around.begin(layer)
    vids = list(layer.rows)
    around.ask(0, [vid for vid in vids for _ in range(2)])
    bench.drive("ahead", vids[::-1])
    await bench.cycles(60)
    assert int(dut.busy.value)
    bench.pace(stall={"wanted": 0.0})
    await bench.cycles(6)
    # One that is known passes; the fifth new one waits.
    assert len(around.wanted) >= 4
    await around.settle()
    await around.finish()


@cocotb.test()
async def requests_wait_for_a_row(dut: Any) -> None:
    """As many as have a place; hubs asked for ahead still pass, until one that has none stands before them."""
    bench, design, around = await begin(dut, late=1)
    await rest(bench)
    layer = Layer.of(design, bench.random, 4, design.config.lanes)
    await around.begin(layer)
    first, *others, last = layer.rows
    around.holds = True
    around.ask(0, [first] * 256)
    await bench.cycles(300)
    bench.drive("ahead", others)
    await bench.cycles(20)
    assert around.wanted == [first, *others]
    around.ask(0, [last] + [first] * 7)
    await bench.cycles(20)
    bench.drive("ahead", [last])
    await bench.cycles(20)
    # One that has no place, though it is new, and those that wait behind it.
    assert bench.drivers["i__0"].busy_words == 8 - 3
    assert last not in around.wanted
    assert len(around.asked[0]) == 256 + 8
    around.holds = False
    await around.settle()
    assert around.wanted[-1] == last
    await around.finish()


async def busy_cycles(bench: Bench, most: int = 40) -> int:
    """Return for how many cycles the unit is busy, without a break, within so many."""
    seen = []
    for _ in range(most):
        await bench.cycles(1)
        seen.append(int(bench.dut.busy.value))
    assert not seen[0]
    assert not seen[-1]
    began = seen.index(1)
    assert all(seen[began : began + sum(seen)])
    return sum(seen)


@cocotb.test()
async def busy_as_long_as_anything_is_owed(dut: Any) -> None:
    """Each kind of work alone: from the cycle after it is taken to the cycle in which it ends."""
    bench, design, around = await begin(dut, late=1, owing=1.0)
    await rest(bench)
    layer = Layer.of(design, bench.random, 2, design.config.lanes)
    await around.begin(layer)
    known, held = layer.rows
    bench.drive("ahead", [known])
    await around.settle()
    for client in range(design.clients):
        # Taken, looked at, written, read, looked up, sent.
        around.ask(client, [known])
        assert await busy_cycles(bench) == 6
        around.pay()
        assert await busy_cycles(bench) == 3
    bench.drive("ahead", [known])
    assert await busy_cycles(bench) == 2
    around.holds, around.owing = True, 0.0
    # A row that nobody has asked for yet owes nothing.
    bench.drive("ahead", [held])
    assert await busy_cycles(bench) == 2
    around.ask(0, [held] * 200)
    await bench.cycles(4)
    for _ in range(250):
        assert int(dut.busy.value)
        await bench.cycles(1)
    # From one row to the next, too, however many still wait.
    around.holds = False
    busy = True
    while around.asked[0]:
        assert busy
        await bench.cycles(1)
        busy = bool(dut.busy.value)
    await around.settle()
    await around.finish()


@pytest.mark.parametrize(
    "sizes", [DEFAULT, NARROW, pytest.param(WHOLE, marks=full)], ids=["three clients", "narrow", "one client"]
)
def test_hub_unit(sizes: dict[str, Any]) -> None:
    simulate(factories.hub_unit(**sizes), __name__, parameters=sizes, name=f"hub_unit_{sizes['clients']}")


@pytest.mark.parametrize("ways", [0, 3, 8])
def test_sizes_are_checked(ways: int) -> None:
    with pytest.raises(ValueError, match=r"ways must be a power of two in 1\.\.4"):
        factories.hub_unit(**{**DEFAULT, "ways": ways})
