"""Row memory: what was written is read, in exact cycles; what is meant for the memory outside; the end of the lines."""

from typing import Any

import cocotb
import pytest

from hw.community.row_memory import RowMemory
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

#: From the cycle in which a request is taken to that of its first beat.
LATENCY = 3


def design() -> RowMemory:
    return RowMemory(**parameters())


async def begin(dut: Any, *, inside: bool = True, **pace: Any) -> tuple[Bench, RowMemory]:
    block = design()
    bench = await start(dut, block, **pace)
    dut.read_inside.value = dut.write_inside.value = int(inside)
    await bench.cycles(1)
    return bench, block


def beats_of(block: RowMemory) -> int:
    return block.lines * 512 // block.data_width


def random_writes(bench: Bench, block: RowMemory, addresses: range) -> list[dict[str, int]]:
    """Return one write for each address, in any order; half of them strobed whole."""
    strobes, source = block.data_width // 8, bench.random
    whole = (1 << strobes) - 1
    order = source.sample(addresses, len(addresses))
    return [
        {
            "address": address,
            "data": source.getrandbits(block.data_width),
            "strobe": source.choice((whole, source.getrandbits(strobes))),
        }
        for address in order
    ]


def ask(bench: Bench, client: int, bursts: list[tuple[int, int]], held: dict[int, int]) -> None:
    """Have a client read bursts of so many beats, which are those of the model."""
    bench.drive(f"requests__{client}", [{"address": first, "length": count - 1} for first, count in bursts])
    bench.expect(
        f"beats__{client}",
        [
            {"data": held[first + n], "error": 0, "last": int(n == count - 1)}
            for first, count in bursts
            for n in range(count)
        ],
    )


async def fill(bench: Bench, block: RowMemory) -> dict[int, int]:
    """Write every beat; return what they hold."""
    writes = random_writes(bench, block, range(beats_of(block)))
    bench.drive("write", writes)
    await bench.drain()
    return {write["address"]: write["data"] for write in writes}


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6])
async def what_was_written_is_read(dut: Any, idle: float) -> None:
    bench, block = await begin(dut, idle=idle)
    beats = beats_of(block)
    for _ in range(3):
        held = await fill(bench, block)
        for client in range(block.clients):
            bursts = []
            for _ in range(40):
                count = bench.random.choice((1, 2, bench.random.randint(1, min(16, beats))))
                bursts.append((bench.random.randrange(beats - count + 1), count))
            ask(bench, client, bursts, held)
        await bench.drain()


@cocotb.test()
async def rows_pass_while_others_are_written(dut: Any) -> None:
    """Read the lower half and write the upper one, as a layer between two others does."""
    bench, block = await begin(dut)
    half = beats_of(block) // 2
    first, second = (random_writes(bench, block, addresses) for addresses in (range(half), range(half, 2 * half)))
    bench.drive("write", first)
    await bench.drain()
    bench.drive("write", second)
    ask(bench, 0, [(n, 1) for n in range(half)], {write["address"]: write["data"] for write in first})
    await bench.drain()
    ask(bench, 1, [(n, 1) for n in range(half, 2 * half)], {write["address"]: write["data"] for write in second})
    await bench.drain()


@cocotb.test()
async def a_beat_passes_in_every_cycle(dut: Any) -> None:
    bench, block = await begin(dut)
    beats = beats_of(block)
    writes = random_writes(bench, block, range(beats))
    began = bench.cycle
    bench.drive("write", writes)
    held = {write["address"]: write["data"] for write in writes}
    assert await bench.drain() - began == beats
    for bursts in ([(n, 1) for n in range(beats)], [(n, 4) for n in range(0, beats, 4)]):
        began = bench.cycle
        ask(bench, 0, bursts, held)
        # The arbiter may stand on another client.
        assert await bench.drain() - began - beats in (LATENCY, LATENCY + 1)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def what_is_meant_for_outside_goes_there(dut: Any, idle: float, stall: float) -> None:
    bench, block = await begin(dut, inside=False, idle=idle, stall=stall)
    source, width = bench.random, len(block.write.payload.address)
    for client in range(block.clients):
        requests = [{"address": source.getrandbits(width), "length": source.getrandbits(4)} for _ in range(20)]
        bench.drive(f"requests__{client}", requests)
        bench.expect(f"outside_requests__{client}", requests)
        beats = [
            {
                "data": source.getrandbits(block.data_width),
                "error": source.getrandbits(1),
                "last": source.getrandbits(1),
            }
            for _ in range(20)
        ]
        bench.drive(f"outside_beats__{client}", beats)
        bench.expect(f"beats__{client}", beats)
    writes = random_writes(bench, block, range(4 * beats_of(block)))
    bench.drive("write", writes)
    bench.expect("outside_write", writes)
    await bench.drain()


@cocotb.test()
async def each_side_is_chosen_apart(dut: Any) -> None:
    bench, block = await begin(dut)
    held = await fill(bench, block)
    dut.write_inside.value = 0
    others = random_writes(bench, block, range(beats_of(block)))
    bench.drive("write", others)
    bench.expect("outside_write", others)
    ask(bench, 1, [(0, 2), (1, 1)], held)
    await bench.drain()
    dut.write_inside.value, dut.read_inside.value = 1, 0
    bench.drive("write", others[:1])
    bench.drive("requests__0", [{"address": 1, "length": 0}])
    bench.expect("outside_requests__0", [{"address": 1, "length": 0}])
    await bench.drain()
    dut.read_inside.value = 1
    ask(bench, 0, [(others[0]["address"], 1)], {others[0]["address"]: others[0]["data"]})
    await bench.drain()


@cocotb.test()
async def lines_behind_the_last_are_told(dut: Any) -> None:
    bench, block = await begin(dut)
    beats, width = beats_of(block), len(block.write.payload.address)
    in_line = beats // block.lines
    held = await fill(bench, block)
    for address in (beats, beats + 5 * in_line, *(1 << n for n in range(beats.bit_length(), width)), (1 << width) - 1):
        bench.drive("write", [{"address": address, "data": 0, "strobe": 0}])
        bench.expect("beyond", [address // in_line])
        await bench.drain()
        bench.drive("requests__1", [{"address": address, "length": 0}])
        bench.expect("beyond", [address // in_line])
        bench.take("beats__1", lambda _: None)
        await bench.drain()
    # Nothing of it was written.
    ask(bench, 0, [(n, 1) for n in range(beats)], held)
    await bench.drain()


@cocotb.test()
async def a_reset_ends_a_burst(dut: Any) -> None:
    bench, block = await begin(dut)
    held = await fill(bench, block)
    bench.take("beats__0", lambda _: None)
    for cycles in range(1, 7):
        bench.drive("requests__0", [{"address": 0, "length": 3}] * 2)
        await bench.cycles(cycles)
        await bench.reset()
        ask(bench, 1, [(2, 3), (0, 1)], held)
        await bench.drain()


@pytest.mark.parametrize(
    ("data_width", "lines", "clients"), [(64, 4, 2), (256, 8, 3), (128, 2, 5)], ids=["64 bits", "256 bits", "five"]
)
def test_row_memory(data_width: int, lines: int, clients: int) -> None:
    given = {"address_width": 20, "data_width": data_width, "lines": lines, "clients": clients}
    simulate(RowMemory(**given), __name__, parameters=given)


@pytest.mark.parametrize("wrong", [{"lines": 1}, {"lines": 48}, {"clients": 1}])
def test_sizes_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        RowMemory(**wrong)
