"""Locator with rows of one word: 32 nodes and 32 hubs, and a search that has as many of both, or more, of them."""

from pathlib import Path
from typing import Any

import cocotb

from golden.datasets import load
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from sim.harness import BuildOptions
from sim.harness.modules import module_sources
from sim.locator.locator_design import LocatorDesign, engine_blocks
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.locator.graphs import GRAPHS, full_record, many_hubs, tangled
from tb.locator.locator_driver import HALVING, SIZE, SLOW, begin

CONFIG: dict[str, Any] = {
    "engines": 2, "searches": 2, "lanes": 2, "nodes": 256, "edges": 2048, "banks": 4, "tasks": 4,
    "tag_bits": 6, "c_max": 32, "hubs": 32, "data_width": 128,
}  # fmt: skip
LIMITS = Limits(32, 32, 64, line_words=4)


@cocotb.test()
@cocotb.parametrize(schedule=[HALVING, SLOW])
async def narrow_records_part_every_graph(dut: Any, schedule: Schedule) -> None:
    machine = await begin(dut)
    for name in GRAPHS:
        await machine.parted(load(name), schedule, LIMITS)
    for seed in range(3):
        await machine.parted(tangled(200, 2.4, seed), Schedule(7, False, 1), LIMITS)


@cocotb.test()
async def narrow_records_use_all_the_room_there_is(dut: Any) -> None:
    """As many nodes and hubs as fit; with more of either the search is given up."""
    machine = await begin(dut)
    schedule = Schedule(8, False, 8)
    for nodes, hubs, whole in ((32, 32, True), (32, 31, True), (31, 32, True), (33, 32, False), (32, 33, False)):
        records = await machine.parted(full_record(nodes, hubs), schedule, LIMITS)
        sizes = [(record.nodes.size, record.hubs.size) for record in records if not record.hub_edges]
        assert ((nodes, hubs) in sizes) == whole
    await machine.parted(many_hubs(14), Schedule(7, False, 7), LIMITS)


def test_narrow_records(tmp_path: Path) -> None:
    component = LocatorDesign(**CONFIG)
    simulate_with_memory(
        component,
        __name__,
        tmp_path,
        name="locator_design_narrow",
        memories={"m_axi": MemoryModel(depth=SIZE * 8 // component.config.data_width)},
        parameters={"config": CONFIG},
        sources=module_sources(component, "locator_design_narrow"),
        options=BuildOptions(blocks=engine_blocks(component)),
    )
