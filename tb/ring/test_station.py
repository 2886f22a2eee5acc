"""Station: packets reach all that take them, once, in order of their source; latency, throughput, no deadlock."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from contracts import PACKET_HEADER
from hw.ring.station import PATIENCE
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from sim.harness.formal import prove_all
from sim.ring.stations import RingOfStations
from sim.ring.traffic import Packet, Traffic
from tb.ring.formal_filter import PROOFS as FILTER
from tb.ring.formal_passes import PROOFS as PASSES
from tb.ring.formal_station import PROOFS


def resets(dut: Any, stations: int, victim: int | None = None) -> None:
    """Reset one station, or none any more."""
    for n in range(stations):
        getattr(dut, f"reset__{n}").value = int(n == victim)


async def begin(dut: Any, rests: int = 0, delay: int = 0, **pace: Any) -> tuple[Bench, Traffic]:
    component = RingOfStations(**parameters())
    dut.rests.value, dut.delay.value, dut.stop.value = rests, delay, 0
    resets(dut, component.stations)
    bench = await start(dut, component, **pace)
    return bench, Traffic(bench, component.stations)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def every_taker_gets_every_packet_once(dut: Any, idle: float, stall: float) -> None:
    bench, traffic = await begin(dut, idle=0.0, stall=stall)
    bench.pace(idle=idle, stall=stall)
    traffic.random(300, parameters()["max_flits"])
    await traffic.finish()


@cocotb.test()
async def a_ring_that_all_want_to_fill_goes_on(dut: Any) -> None:
    """Nothing is taken until every buffer is as full as it can get, all the way round."""
    bench, traffic = await begin(dut, stall=1.0)
    traffic.random(200, parameters()["max_flits"], longest=True)
    await bench.cycles(600)
    assert not any(traffic.received.values())
    bench.pace(stall=0.0)
    await traffic.finish()


@cocotb.test()
async def a_stalled_chiplet_slows_the_ring_and_loses_nothing(dut: Any) -> None:
    bench, traffic = await begin(dut)
    traffic.random(200, parameters()["max_flits"])
    for _ in range(5):
        bench.pace(stall={"o__1": 1.0})
        await bench.cycles(300)
        bench.pace(stall={"o__1": 0.0})
        await bench.cycles(20)
    await traffic.finish()


@cocotb.test()
async def a_hop_takes_two_cycles(dut: Any) -> None:
    bench, traffic = await begin(dut)
    stations = parameters()["stations"]
    times: dict[int, int] = {}
    edge = RisingEdge(dut.clk)
    traffic.send(0, stations - 1, 0, 2)
    for _ in range(40):
        await edge
        for n in range(stations):
            if int(dut.links.value) >> n & 1:
                times.setdefault(n, bench.cycle)
    await traffic.finish()
    assert [times[n] - times[0] for n in range(stations - 1)] == [2 * n for n in range(stations - 1)]
    assert stations - 1 not in times


async def busy_cycles(dut: Any, stations: int, cycles: int) -> list[int]:
    """Return the cycles in which there is a flit on each link."""
    busy, edge = [0] * stations, RisingEdge(dut.clk)
    for _ in range(cycles):
        await edge
        links = int(dut.links.value)
        for n in range(stations):
            busy[n] += links >> n & 1
    return busy


@cocotb.test()
async def links_stay_busy_under_saturating_traffic(dut: Any) -> None:
    """At least 0.95 flits a cycle on every link while all chiplets send all the time."""
    bench, traffic = await begin(dut)
    stations, flits = parameters()["stations"], parameters()["max_flits"]
    for _ in range(300):
        for n in range(stations):
            traffic.send(n, (n + stations - 1) % stations, 0, flits)
    await bench.cycles(200)
    busy = await busy_cycles(dut, stations, cycles := 1000)
    dut._log.info("flits per cycle and link: %s", [count / cycles for count in busy])
    assert min(busy) >= 0.95 * cycles
    await traffic.finish()
    # Who waits where it need not loses a cycle now and then.
    expect_cycles("ring.station.saturated", bench.cycle)


@cocotb.test()
@cocotb.parametrize(delay=[0, 3])
async def a_header_waits_for_its_verdict_and_counts_once(dut: Any, delay: int) -> None:
    """Exact to the cycle; every packet is said to enter, to begin to move and to pass once at each station."""
    _, traffic = await begin(dut, delay=delay)
    source, stations = random.Random(1), traffic.stations
    for _ in range(120):
        at, hops = source.randrange(stations), source.randrange(1, stations)
        traffic.send(at, (at + hops) % stations, source.getrandbits(stations), source.randrange(1, 5))
    counts: dict[str, list[int]] = {name: [0] * stations for name in ("sent", "begins", "passed")}
    judged: set[int] = set()
    edge = RisingEdge(dut.clk)

    async def counted() -> None:
        while True:
            await edge
            for name, count in counts.items():
                value = int(getattr(dut, name).value)
                for n in range(stations):
                    count[n] += value >> n & 1
                    if name == "begins" and value >> n & 1:
                        headers = [int(getattr(dut, f"{port}__{n}").value) for port in ("header", "noted")]
                        assert headers[0] == headers[1]
                        judged.add(headers[0])

    task = cocotb.start_soon(counted())
    cycles = await traffic.finish()
    task.cancel()
    assert judged == {packet[0] for packets in traffic.expected.values() for packet in packets}
    assert counts == {"sent": traffic.enter, "begins": traffic.judged, "passed": traffic.pass_}
    expect_cycles(f"ring.station.delay_{delay}", cycles)


@cocotb.test()
@cocotb.parametrize(at=[0, 1, 2, 3])
async def one_enters_after_others_have_passed(dut: Any, at: int) -> None:
    """Count turns while the chiplet before sends without end, from the first packet on; the next one takes all."""
    bench, traffic = await begin(dut)
    before, after = (at - 1) % 4, (at + 1) % 4
    for _ in range(4 * (PATIENCE + 2)):
        traffic.send(before, after, 0, 2)
    await bench.cycles(5)
    for _ in range(4):
        traffic.send(at, after, 0, 2)
    sources: list[int] = []

    def noted(word: dict[str, int]) -> None:
        if after not in traffic.arriving:
            sources.append(PACKET_HEADER.unpack(word["data"])["source"])
        traffic._arrives(after, word)

    bench.take(f"o__{after}", noted)
    await traffic.finish()
    entered = [n for n, source in enumerate(sources) if source == at]
    assert entered == [PATIENCE + (PATIENCE + 1) * n for n in range(4)]


@cocotb.test()
async def one_that_comes_late_enters_at_once(dut: Any) -> None:
    """However many have passed while nobody waited; exact to the cycle."""
    cycles = 0
    for at in range(4):
        for late in range(6):
            bench, traffic = await begin(dut)
            before, after = (at - 1) % 4, (at + 1) % 4
            for _ in range(30):
                traffic.send(before, after, 0, 2)
            await bench.cycles(36 + late)
            traffic.send(at, after, 0, 2)
            await bench.until(lambda t=traffic, k=(at, after): bool(t.received[k]), 100)  # type: ignore[misc]
            cycles += bench.cycle
            await traffic.finish()
    expect_cycles("ring.station.late", cycles)


# Chiplets that are reset or stop --------------------------------------------------------------------------------------


def lost(dut: Any, stations: int) -> list[int]:
    """Which neighbours every station has lost."""
    return [int(dut.lost.value) >> 2 * n & 3 for n in range(stations)]


def come_but_for_one(got: list[Packet], want: list[Packet]) -> bool:
    """Whether packets of `got` are those of `want`, in order and without their end, but that one may be cut."""
    odd = [packet for packet in got if packet not in want]
    left = iter(want)
    return all(packet in left for packet in got if packet in want) and all(
        len(odd) == 1 and packet[0] in [other[0] for other in want] for packet in odd
    )


@cocotb.test()
async def a_reset_of_one_chiplet_at_work_holds_nobody_up(dut: Any) -> None:
    """Neighbours notice; what would go there is dropped, what has begun to pass ends, all others have all they had."""
    for turn in range(24):
        bench, traffic = await begin(dut)
        stations, victim = traffic.stations, turn % 4
        before, after, across = (victim - 1) % 4, (victim + 1) % 4, (victim + 2) % 4
        others = [before, after, across]
        for _ in range(60):
            at = bench.random.choice(others)
            to = bench.random.choice([n for n in range(stations) if n != at])
            traffic.send(at, to, bench.random.getrandbits(stations), bench.random.randrange(1, 5))
        await bench.cycles(bench.random.randrange(30, 110))
        assert lost(dut, stations) == [0] * stations
        dut.rests.value = 1 << victim
        resets(dut, stations, victim)
        await bench.cycles(1)
        resets(dut, stations)
        edge = RisingEdge(dut.clk)
        for _ in range(12):
            await edge
            # What has come of a packet goes on to its end, so only headers are judged there.
            header = int(getattr(dut, f"header__{after}").value)
            assert not (int(dut.begins.value) >> after & 1 and header & 2)
        want = {victim: 0, before: 2, after: 1, across: 0}
        assert lost(dut, stations) == [want[n] for n in range(stations)]
        await bench.until(lambda b=bench: not any(d.busy_words for d in b.drivers.values()), 3000)  # type: ignore[misc]
        await bench.cycles(150)
        for _ in range(4):
            assert int(dut.links.value) == 0
            await bench.cycles(1)
        # Its neighbours have stopped before it comes back to work.
        dut.rests.value = 0
        await bench.cycles(6)
        assert lost(dut, stations)[victim] == 3
        for (source, at), packets in traffic.received.items():
            # The reset cuts what the victim was taking.
            want_here = traffic.expected[source, at]
            assert at == victim or come_but_for_one(packets, want_here), (turn, source, at)
            # What the chiplet behind the victim takes itself is no longer passed on.
            if parameters().get("fills") and at not in (victim, after):
                assert all(len(cut) == parameters()["max_flits"] for cut in packets if cut not in want_here)
        assert traffic.received[after, across] == traffic.expected[after, across]
        assert not traffic.arriving.keys() & {across}


@cocotb.test()
async def a_chiplet_that_has_not_come_to_work_may_be_reset(dut: Any) -> None:
    """Packets pass through it all the same."""
    for victim in range(4):
        bench, traffic = await begin(dut, rests=1 << victim)
        await bench.cycles(10)
        resets(dut, 4, victim)
        await bench.cycles(2)
        resets(dut, 4)
        traffic.random(40, parameters()["max_flits"])
        await bench.cycles(50)
        dut.rests.value = 0
        await traffic.finish()
        assert lost(dut, 4) == [0] * 4


@cocotb.test()
async def who_stops_passes_packets_and_is_noticed_by_who_comes_later(dut: Any) -> None:
    for victim in range(4):
        late = (victim + 1 + victim % 2 * 2) % 4
        bench, traffic = await begin(dut, rests=1 << late)
        await bench.cycles(5)
        dut.stop.value = 1 << victim
        for n in range(20):
            at = n % 4
            for to in range(4):
                if victim not in (at, to) and to != at:
                    traffic.send(at, to, 0, 1 + n % 4)
        await traffic.finish()
        assert lost(dut, 4) == [0] * 4
        dut.rests.value = 0
        await bench.cycles(6)
        side = 1 if (victim + 1) % 4 == late else 2
        assert lost(dut, 4) == [side * (n == late) for n in range(4)]


@cocotb.test()
async def a_reset_empties_the_ring(dut: Any) -> None:
    """Reset it in the middle of packets, several times; each time the first packets come as they should."""
    bench, traffic = await begin(dut, stall=0.4)
    for _ in range(12):
        traffic.random(60, parameters()["max_flits"])
        await bench.cycles(bench.random.randrange(30, 80))
        await bench.reset()
        await bench.cycles(20)
        traffic = Traffic(bench, parameters()["stations"])
        for n in range(4):
            traffic.send(n, (n + 1) % 4, 0, 2)
        await traffic.finish(400)
    bench.pace(idle=0.1, stall=0.3)
    traffic.random(100, parameters()["max_flits"])
    await traffic.finish()


def test_station() -> None:
    sizes = {"stations": 4, "slots": 4, "max_flits": 4}
    simulate(RingOfStations(**sizes), __name__, name="ring_of_stations", parameters=sizes)


def test_what_is_cut_off_is_as_long_as_no_packet_is() -> None:
    """Each station fills a packet whose rest is lost; the others have at most a flit less than there is room for."""
    sizes = {"stations": 4, "slots": 4, "max_flits": 5, "fills": 1}
    tests = ("a_reset_of_one_chiplet_at_work_holds_nobody_up",)
    simulate(RingOfStations(**sizes), __name__, name="ring_of_stations", parameters=sizes, testcase=tests)


def test_station_proofs() -> None:
    prove_all("station", PROOFS)


def test_proofs_that_passes_do_not_mix() -> None:
    prove_all("passes", PASSES)


def test_proofs_that_entries_leave_in_order() -> None:
    prove_all("ring.filter_window", FILTER)
