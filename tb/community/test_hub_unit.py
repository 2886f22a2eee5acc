"""Hub unit: every hub combined once, its row to all who ask, its sum taken through the second rounding point."""

from __future__ import annotations

from collections import Counter
from typing import Any

import cocotb
import pytest

from hw.community.hub_unit import HubUnit
from hw.pe.requantiser import Requantiser
from sim.harness import simulate
from sim.harness.bench import Bench
from sim.harness.codec import Codec
from sim.harness.expected import expect_cycles
from tb.community.hubs import EPOCHS, Layer, ask_all, begin, hub_unit, random_layer, rest, some_layer
from tb.harness.marks import full

#: Requests that can wait for rows.
PLACES = 252
#: Two chunks in a beat, up to three beats in a row, halves of sums; one of two units.
DEFAULT: dict[str, Any] = {
    "clients": 3, "nodes": 128, "hubs": 32, "units": 2, "ways": 2,
    "lanes": 4, "width": 8, "columns": 16, "max_out": 21, "weight_rows": 16, "data_width": 128, "partials": True,
}  # fmt: skip
#: An element a cycle, as many beats as a row can have, and empty partial sums; slots in four banks.
NARROW: dict[str, Any] = {
    "clients": 2, "nodes": 4096, "hubs": 8, "units": 1, "ways": 1,
    "lanes": 2, "width": 8, "columns": 16, "max_out": 13, "weight_rows": 16, "data_width": 64, "partials": True,
    "shares": True,
}  # fmt: skip
#: A beat a cycle, one client, more hubs than a unit has vertices, no halves.
WHOLE: dict[str, Any] = {
    "clients": 1, "nodes": 32, "hubs": 16, "units": 4, "ways": 4,
    "lanes": 4, "width": 8, "columns": 16, "max_out": 10, "weight_rows": 16, "data_width": 64,
}  # fmt: skip
#: A beat holds a row.
SHORT = {**DEFAULT, "clients": 4, "max_out": 7}


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
    for n in range(max(2 * EPOCHS + 1, design.config.max_out)):
        relu, bias, wide = (n >> bit & 1 for bit in range(3))
        layer = Layer.of(
            design, bench.random, vids, n % design.config.max_out + 1, relu=relu, bias=bias, wide=wide,
            shift=bench.random.randrange(4, 24),
        )  # fmt: skip
        await around.begin(layer)
        # The numbers of the layers begin again: the slots are cleared.
        began = bench.cycle
        await rest(bench)
        assert bench.cycle - began == (design.clears if (n + 2) % EPOCHS == 1 else 1)
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
        layer.degrees = dict.fromkeys(layer.rows, 1)
        for scale in layer.scales.values():
            scale |= {"mantissa": 1, "exponent": 0}
        await around.begin(layer)
        # Two of them have 15 bits and a sign behind the shift.
        around.less = 17 - shift
        around.ask(design.clients - 1, list(layer.rows))
        await around.settle()
        await bench.cycles(bench.random.randrange(20))
        await around.finish()
        # None is beyond what a result can be.
        assert all(-(1 << 15) <= value >> shift < 1 << 15 for row in layer.sums.values() for value in row)


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
                    await bench.pulse(dut.close, then=1)
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
    around.layer, around.missing = layer, dict.fromkeys(layer.rows, 1)
    await around.tell(dict.fromkeys(layer.rows, 0), 0)
    dut.settings.value = Codec(design.config.settings).pack(layer.settings)
    dut.first_partial.value = layer.first_partial
    bench.drive("bias_write", [{"address": 0, "data": layer.biases[0]}])
    around.ask(0, list(layer.rows))
    await bench.cycles(design.clears - bench.cycle)
    assert int(dut.busy.value)
    assert not around.wanted
    await bench.cycles(4)
    assert around.wanted
    await around.settle()
    await around.finish()
    await bench.reset()
    await rest(bench)
    assert bench.cycle == design.clears + 1


@cocotb.test()
async def rows_come_in_their_cycles(dut: Any) -> None:
    """Of hubs that are there: the first beat in nine cycles and one, then a beat in every cycle."""
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
            assert bench.cycle - began == 9 + count * beats
        await around.finish()


def name_of(design: HubUnit) -> str:
    """Return what cycles of this configuration are called."""
    return f"community.hub_unit.{design.clients}.{design.config.ways}"


@cocotb.test()
async def a_layer_takes_its_cycles(dut: Any) -> None:
    """Without stalls: combined rows a chunk a cycle, partial sums a chunk a cycle, the end a group a cycle."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    bench.random.seed(1)
    hubs = min(design.nodes, design.hubs.width)
    for f_out in (1, design.config.lanes, design.config.max_out):
        layer = Layer.of(design, bench.random, hubs, f_out, rooted=0)
        await around.begin(layer)
        vids, chunks = list(layer.rows), layer.settings["last_chunk"] + 1
        began = bench.cycle
        bench.drive("ahead", vids)
        await bench.until(lambda: around.combined == hubs and around.idle())
        # A hub a cycle at first; then its chunks hold up the beats of the next ones.
        expect_cycles(f"{name_of(design)}.combined.{f_out}", bench.cycle - began)
        await rest(bench)
        for client in {0, design.clients - 1}:
            for hub in range(5):
                around.ask(client, [vids[(8 * hub + n) % hubs] for n in range(8)])
                await around.settle()
            began = bench.cycle
            around.pay()
            await bench.until(around.idle)
            assert bench.cycle - began == 40 * chunks
            # An addition to the same place follows at once, but not behind one to another place.
            await rest(bench)
            around.ask(client, vids[:1] * 8)
            await around.settle()
            began = bench.cycle
            around.pay()
            await bench.until(around.idle)
            # From the second row on, the first chunk waits a cycle for that of the row before, the last one inside.
            waits = 6 * (chunks == 2)
            assert bench.cycle - began == 8 * chunks + waits
            await rest(bench)
        assert not around.results
        began = bench.cycle
        dut.drained.value = 1
        await bench.pulse(dut.close, then=1)
        await bench.until(lambda: around.ended == hubs)
        dut.drained.value = 0
        groups = -(-f_out // design.config.ways)
        # The pulse, the state, the verdict, its way, the sums, the finisher's way.
        assert bench.cycle - began == hubs * groups + Requantiser.LATENCY + 11
        assert around.results == around.expected()


@cocotb.test()
async def a_hub_leaves_when_its_sums_are_there(dut: Any) -> None:
    """Before the end, and holds up no other; behind the end the unit is busy until the last has left."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    for f_out in (1, design.config.max_out):
        layer = Layer.of(design, bench.random, min(6, design.nodes), f_out)
        layer.degrees = dict.fromkeys(layer.rows, 3)
        await around.begin(layer)
        first, second, *others = layer.rows
        bench.drive("ahead", others)
        for client in range(design.clients):
            around.ask(client, [first, second, first, second, *others], heads=1.0)
        await around.settle()
        around.pay()
        # Of the first two a vector is missing at least.
        await around.settle()
        around.complete(others)
        await bench.cycles(200)
        assert set(around.results) == set(others)
        assert not int(dut.busy.value)
        await bench.pulse(dut.close, then=1)
        for vid in (second, first):
            assert vid not in around.results
            assert int(dut.busy.value)
            around.complete([vid])
            await around.bench.cycles(100 + 2 * around.bench.drivers["partial"].busy_words)
            assert int(dut.busy.value) == (vid == second)
        assert around.results == around.expected()


@cocotb.test()
async def what_is_missing_of_refused_records_is_not_waited_for(dut: Any) -> None:
    """Once nothing is on its way any more, all leave as they are; not before the last sum that has come is added."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    for f_out in (1, design.config.max_out):
        layer = Layer.of(design, bench.random, min(6, design.nodes), f_out)
        await around.begin(layer)
        around.ask(0, list(layer.rows) * 3)
        await around.settle()
        dut.drained.value = 1
        await bench.cycles(50)
        assert not around.results
        dut.drained.value = 0
        around.pay()
        await bench.pulse(dut.close)
        await bench.until(lambda: not bench.drivers["partial"].busy_words)
        dut.drained.value = 1
        await rest(bench)
        dut.drained.value = 0
        assert around.results == around.expected()


@cocotb.test()
async def every_vector_is_waited_for(dut: Any) -> None:
    """However many there are of a hub, up to a power of two, as many, and one more: it leaves behind the last one."""
    bench, design, around = await begin(dut)
    await rest(bench)
    bits = len(design.degree.payload.degree)
    for beside in (-1, 0, 1):
        layer = Layer.of(design, bench.random, min(design.nodes, design.hubs.width, bits), design.config.lanes)
        most = (1 << bits) - 1
        layer.degrees = {vid: min(most, max(0, (1 << n) + beside)) for n, vid in enumerate(layer.rows)}
        await around.begin(layer)
        vids = list(layer.rows)
        around.ask(0, vids, heads=1.0)
        await around.settle()
        for vid in vids:
            while around.missing[vid] > 1:
                around.add(bench.random.randrange(design.clients), vid)
        await bench.until(around.idle, 100_000)
        await bench.cycles(100)
        assert not around.results
        for n, vid in enumerate(vids):
            around.complete([vid])
            await bench.cycles(60 + 4 * around.ended)
            assert set(around.results) == set(vids[: n + 1])
        await around.finish()


@cocotb.test()
@cocotb.parametrize(late=[0, 12], owing=[0.0, 0.4], pace=[0.0, 0.5])
async def layers_of_a_location_have_its_degrees(dut: Any, late: int, owing: float, pace: float) -> None:
    """One after another, while those of the next location come."""
    bench, design, around = await begin(dut, late=late, owing=owing, idle=pace, stall=pace)
    await rest(bench)
    for _ in range(4):
        layer = random_layer(bench, design)
        for same in (False, True, True):
            layer.sums = {vid: [0] * layer.f_out for vid in layer.rows}
            await around.begin(layer, same=same)
            await ask_all(around, layer, settle=bool(bench.random.getrandbits(1)))
            await around.finish()


@cocotb.test()
async def results_wait(dut: Any) -> None:
    """While none is taken nothing moves and nothing is lost."""
    bench, design, around = await begin(dut)
    await rest(bench)
    hubs = min(design.nodes, design.hubs.width)
    layer = Layer.of(design, bench.random, hubs, design.config.max_out)
    for waits in (1.0, 0.9):
        await around.begin(layer)
        bench.drive("ahead", layer.rows)
        around.ask(0, list(layer.rows), heads=1.0)
        await ask_all(around, layer)
        bench.pace(stall={"o": waits})
        around.complete(around.wanted)
        await bench.pulse(dut.close, then=1)
        await bench.cycles(600)
        if waits == 1.0:
            assert int(dut.busy.value)
            assert not around.results
        bench.pace(stall={"o": 0.0})
        await bench.until(lambda: around.ended == len(around.wanted))
        await rest(bench)
        assert around.results == around.expected()
        layer.sums = {vid: [0] * layer.f_out for vid in layer.sums}


@cocotb.test()
async def new_hubs_wait_for_each_other(dut: Any) -> None:
    """Of hubs that nobody takes two wait, then all requests do; nothing is lost."""
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
    assert len(around.wanted) >= 2
    await around.settle()
    await around.finish()


@cocotb.test()
async def requests_wait_for_a_row(dut: Any) -> None:
    """They circulate, as many as have a place; those of other hubs pass, until one that has none stands before them."""
    bench, design, around = await begin(dut, late=1)
    await rest(bench)
    layer = Layer.of(design, bench.random, 4, design.config.lanes)
    await around.begin(layer)
    first, *others, last = layer.rows
    around.holds = True
    around.ask(0, [first] * 240)
    await bench.cycles(300)
    bench.drive("ahead", others)
    await bench.cycles(20)
    assert around.wanted == [first, *others]
    around.ask(0, [first] * 40)
    await bench.cycles(60)
    around.ask(0, [last])
    bench.drive("ahead", [last])
    await bench.cycles(20)
    # Those that have no place, and one that stands behind them, though it is new.
    assert 280 - PLACES - 8 <= bench.drivers["i"].busy_words <= 280 - PLACES
    assert last not in around.wanted
    assert len(around.asked[0]) == 281
    around.holds = False
    await around.settle()
    assert around.wanted[-1] == last
    await around.finish()


@cocotb.test()
async def rows_that_are_there_overtake(dut: Any) -> None:
    """Serve a request whose row is there while others wait for theirs."""
    bench, design, around = await begin(dut, late=1)
    await rest(bench)
    layer = Layer.of(design, bench.random, 2, design.config.lanes)
    await around.begin(layer)
    there, waited = layer.rows
    around.ask(0, [there])
    await around.settle()
    around.holds = True
    around.ask(0, [waited] * 5)
    around.ask(design.clients - 1, [there] * 3)
    await bench.cycles(40)
    assert [vid for rows in around.asked for vid in rows] == [waited] * 5
    around.holds = False
    await around.settle()
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
async def asks_until_a_request_is_looked_up(dut: Any) -> None:
    """Once no more hubs are asked for, each has its slot."""
    bench, design, around = await begin(dut, owing=1.0)
    await rest(bench)
    layer = Layer.of(design, bench.random, 1, design.config.lanes)
    await around.begin(layer)
    around.ask(0, list(layer.rows))
    seen = []
    for _ in range(20):
        await bench.cycles(1)
        seen.append(int(dut.asking.value))
    # Offered, merged, looked at.
    assert seen == [1] * 3 + [0] * 17, seen


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
        # Taken, looked at, placed, written, read, looked up, judged, sent.
        around.ask(client, [known])
        assert await busy_cycles(bench) == 9
        # Its slot is read, then judged; the sum is read, then written.
        around.pay()
        assert await busy_cycles(bench) == 4
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
    "sizes",
    [DEFAULT, NARROW, SHORT, pytest.param(WHOLE, marks=full)],
    ids=["three clients", "narrow", "one beat a row", "one client"],
)
def test_hub_unit(sizes: dict[str, Any]) -> None:
    simulate(hub_unit(**sizes), __name__, parameters=sizes, name=f"hub_unit_{sizes['clients']}")


@pytest.mark.parametrize("ways", [0, 3, 8])
def test_sizes_are_checked(ways: int) -> None:
    with pytest.raises(ValueError, match=r"ways must be a power of two in 1\.\.4"):
        hub_unit(**{**DEFAULT, "ways": ways})
