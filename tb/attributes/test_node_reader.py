"""Node reader: lists of VIDs become requests, numbered from 0, with slots in turn."""

from typing import Any

import cocotb
import pytest

from hw.attributes.formats import AttributeConfig
from hw.attributes.node_reader import NodeReader
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

ADDRESS_WIDTH, TAG_BITS, SLOTS = 16, 7, 12
#: Words that can be addressed, and most of a list.
WORDS, MOST = (1 << ADDRESS_WIDTH) // 4, 1 << TAG_BITS
UNREAD = (1 << 32) - 1


def node_reader(width: int) -> NodeReader:
    return NodeReader(
        AttributeConfig(
            slots=SLOTS, ways=2, id_bits=8, tag_bits=TAG_BITS, address_width=ADDRESS_WIDTH, data_width=width
        )
    )


class World:
    """A node reader in front of random words, some beats of which cannot be read."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.width = bench, parameters()["width"]
        random = bench.random
        self.words = [random.getrandbits(32) for _ in range(WORDS)]
        self.unread = {random.randrange(WORDS * 32 // self.width) for _ in range(WORDS // 40)}
        bench.take("request", self.answer)

    def answer(self, request: dict[str, int]) -> None:
        """Send the beats of a burst."""
        each = self.width // 32
        for n in range(request["length"] + 1):
            beat = request["address"] + n
            words = self.words[beat * each : (beat + 1) * each]
            data = sum(word << 32 * place for place, word in enumerate(words))
            last = int(n == request["length"])
            self.bench.drive("beat", [{"data": data, "error": int(beat in self.unread), "last": last}])

    def ask(self, address: int, count: int) -> None:
        """Have a list read."""
        each = self.width // 32
        self.bench.drive("i", [{"address": address, "count": count}])
        ids = [UNREAD if at // each in self.unread else self.words[at] for at in range(address, address + count)]
        self.bench.expect("o", ({"id": each, "tag": n % MOST, "slot": n % SLOTS} for n, each in enumerate(ids)))


async def begin(dut: Any, **pace: Any) -> World:
    return World(await start(dut, node_reader(**parameters()), **pace))


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def lists_are_numbered_from_0(dut: Any, idle: float, stall: float) -> None:
    """One list does not begin before the last one's positions have left, so each has its own numbers."""
    world = await begin(dut, idle={"beat": idle}, stall=stall)
    random = world.bench.random
    for count in (1, 0, 0, 2, SLOTS, SLOTS + 1, MOST, 3, 0, MOST - 1, *(random.randrange(40) for _ in range(20))):
        world.ask(random.randrange(WORDS - count + 1), count)
    await world.bench.drain(40_000)


@cocotb.test()
async def a_list_is_taken_when_the_last_one_has_left(dut: Any) -> None:
    world = await begin(dut, stall={"o": 1.0})
    world.ask(100, 5)
    world.ask(300, 5)
    await world.bench.cycles(60)
    assert world.bench.drivers["i"].busy_words == 1
    assert (int(dut.i__ready.value), int(dut.o__valid.value)) == (0, 1)
    world.bench.pace(stall={"o": 0.0})
    await world.bench.drain()
    assert int(dut.i__ready.value) == 1


@cocotb.test()
async def a_position_leaves_in_every_cycle(dut: Any) -> None:
    world = await begin(dut)
    took = []
    for count in (16, 96):
        began = world.bench.cycle
        world.ask(256, count)
        took.append(await world.bench.drain() - began)
    assert took[1] - took[0] == 80, took


@cocotb.test()
async def a_reset_in_the_middle_forgets_the_list(dut: Any) -> None:
    world = await begin(dut)
    for cut in range(1, 40, 3):
        world.ask(world.bench.random.randrange(WORDS - 60), 60)
        await world.bench.cycles(cut)
        await world.bench.reset()
        world.ask(world.bench.random.randrange(WORDS - 20), 20)
        await world.bench.drain()


@pytest.mark.parametrize("width", [64, 256])
def test_node_reader(width: int) -> None:
    simulate(node_reader(width), __name__, parameters={"width": width})
