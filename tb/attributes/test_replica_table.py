"""Replica table: every ID is told its row, or its copy if its cell has it, one a cycle."""

from dataclasses import replace
from typing import Any

import cocotb
import pytest
from amaranth.utils import exact_log2

from contracts import Policy
from hw.attributes.core import AttributeCore
from hw.attributes.formats import AttributeConfig, AttributeCoreConfig
from hw.attributes.replica_table import ReplicaTable
from hw.memory.formats import CLIENTS_MAX
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

ID_BITS = 9


def replica_table(cells: int) -> ReplicaTable:
    return ReplicaTable(AttributeConfig(id_bits=ID_BITS, replicas=cells))


class World:
    """A table that is filled and asked, and what it must say."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.cells = bench, parameters()["cells"]
        self.table = [0] * self.cells
        self.use(0)

    def use(self, use: int) -> None:
        """Say whether there are copies."""
        self.used = use
        self.bench.dut.use.value = use

    async def fill(self) -> None:
        """Write all cells, in any order, each fourth one with an ID that belongs elsewhere."""
        random, order = self.bench.random, list(range(self.cells))
        random.shuffle(order)
        for number, cell in enumerate(order):
            ending = cell if number % 4 else cell ^ 1 << random.randrange(exact_log2(self.cells))
            self.table[cell] = identity = random.randrange((1 << ID_BITS) // self.cells) * self.cells + ending
            self.bench.drive("replica", [{"cell": cell, "id": identity}])
        await self.bench.drain()

    def ask(self, count: int) -> None:
        """Ask for IDs that have copies, that differ from such in one bit, and any."""
        random = self.bench.random
        for _ in range(count):
            there = random.choice(self.table)
            near = there ^ 1 << random.randrange(ID_BITS)
            identity = random.choice((there, near, random.getrandbits(ID_BITS)))
            cell = identity % self.cells
            copied = int(self.used and self.table[cell] == identity)
            self.bench.drive("i", [identity])
            self.bench.expect("o", [{"row": cell if copied else identity, "copied": copied}])


async def begin(dut: Any, **pace: Any) -> World:
    return World(await start(dut, replica_table(**parameters()), **pace))


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def an_id_has_a_copy_if_its_cell_says_so(dut: Any, idle: float, stall: float) -> None:
    world = await begin(dut, idle=idle, stall=stall)
    for turn in range(12):
        if turn % 3 == 0:
            await world.fill()
        world.use(int(turn % 4 != 3))
        world.ask(200)
        took = await world.bench.until(lambda: not world.bench.expected["o"])
        assert idle or stall or took <= 204


@cocotb.test()
async def a_reset_leaves_no_id_under_way(dut: Any) -> None:
    world = await begin(dut)
    await world.fill()
    world.use(1)
    for cut in range(1, 6):
        world.bench.pace(stall=1)
        world.ask(10)
        await world.bench.cycles(cut)
        await world.bench.reset()
        world.bench.pace()
        world.ask(20)
        await world.bench.drain()


@pytest.mark.parametrize("cells", [16, 128])
def test_replica_table(cells: int) -> None:
    simulate(replica_table(cells), __name__, parameters={"cells": cells})


def test_there_are_no_more_cells_than_ids_and_tags() -> None:
    for id_bits, tag_bits in ((8, 20), (20, 8)):
        with pytest.raises(ValueError, match="replicas must be at most 256, the IDs and tags that there are, not 512"):
            AttributeConfig(id_bits=id_bits, tag_bits=tag_bits, replicas=512)
    assert AttributeConfig(id_bits=8, tag_bits=8, replicas=256).replicas == 256


def test_the_memory_port_has_so_many_clients() -> None:
    attribute = AttributeConfig(policy=Policy.DEGREE, replicas=16)
    with pytest.raises(ValueError, match="replicas must be 0 with policy degree and more than 2 processors, not 16"):
        AttributeCoreConfig(attribute, processors=4)
    # Others have a client for each at the border of a machine.
    for config in (
        AttributeCoreConfig(attribute, processors=2),
        AttributeCoreConfig(replace(attribute, policy=Policy.LFU), processors=4),
    ):
        assert AttributeCore(config).clients <= CLIENTS_MAX
