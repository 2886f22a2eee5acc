# mypy: disable-error-code="attr-defined,index"
"""Bench behind the benchmarks: a mapped network in RTL, forward or learning, compared with the model bit by bit."""

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import cocotb
import numpy as np
from cocotb.utils import get_sim_time

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import Space
from contracts.dnp.topology import Grid, Topology
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.digits import digits, initial_network, order_of_epoch, targets
from golden.dnp.mapper import Mapping, map_network
from golden.dnp.network import Learning, Network, NetworkModel
from hw.dnp.core import Status
from sim.dnp.array import ArrayDriver
from sim.harness import parameters
from sim.harness.run import CLOCK_NS

LIMIT = 100_000_000
T = TypeVar("T")


def _signed(words: list[int]) -> list[int]:
    return [word - 0x10000 if word > 0x7FFF else word for word in words]


async def _gathered(driver: ArrayDriver, processors: int, read: Callable[[int], Awaitable[T]]) -> list[T]:
    """Read something of every processor, boards side by side."""
    found: dict[int, T] = {}

    async def one(processor: int) -> None:
        found[processor] = await read(processor)

    await driver.each(range(processors), one)
    return [found[processor] for processor in range(processors)]


async def _counters(driver: ArrayDriver, processors: int) -> dict[str, list[int]]:
    heads = await _gathered(driver, processors, lambda p: driver.read(p, Space.STATUS, 0, Status.BLOCKED.value + 2))
    places = (("clocks", Status.CLOCKS), ("instructions", Status.INSTRUCTIONS), ("blocked", Status.BLOCKED))
    return {name: [head[at.value] + (head[at.value + 1] << 16) for head in heads] for name, at in places}


async def _weights(driver: ArrayDriver, mapping: Mapping) -> list[list[int]]:
    used = max(layout.wm_used for layout in mapping.layouts)

    async def read(processor: int) -> list[int]:
        return _signed(await driver.read(processor, Space.WM, 0, used))

    return await _gathered(driver, mapping.grid.processors, read)


async def _outputs(driver: ArrayDriver, mapping: Mapping) -> list[int]:
    """Read the finished values of the last layer, and nothing else."""
    last = mapping.placement.layers[-1]

    async def read(processor: int) -> list[int]:
        begin = mapping.layouts[processor].values[last]
        own = len(mapping.placement.owned(last, *mapping.coordinates(processor)))
        return [0] * begin + (_signed(await driver.read(processor, Space.XM, begin, own)) if own else [])

    return mapping.outputs(await _gathered(driver, mapping.grid.processors, read))


@cocotb.test()
async def forward_pass(dut: Any) -> None:
    """One pass of a random network, inputs and outputs in XM; registers and clocks are the golden machine's."""
    given = parameters()
    side, sizes = given["side"], tuple(given["sizes"])
    config = ProcessorConfig(*given["config"])
    network = Network.random(sizes, seed=given["seed"])
    mapping = map_network(network, Grid(side, side, Topology[given["topology"]]), config, stream=False)
    inputs = np.random.default_rng(given["seed"]).integers(0, 32768, sizes[0])
    machine = mapping.machine(inputs)
    driver = ArrayDriver(dut, side, side, config)
    clocks, speed = await _run(driver, mapping, machine, {})
    found = await _outputs(driver, mapping)
    model = NetworkModel(network, mapping.placement, config.table_bits)
    assert found == model.forward(inputs)[-1].tolist(), "outputs differ from the model"
    machine.run(LIMIT)
    machine.step()
    await driver.compare(machine, memories=False)
    counts = await _counters(driver, mapping.grid.processors)
    Path(given["result"]).write_text(json.dumps({"total": clocks, **speed, **counts}))


@cocotb.test()
async def learn_digits(dut: Any) -> None:
    """Learn the first images of an epoch, streamed in; afterwards every weight must be the model's."""
    given = parameters()
    side, images = given["side"], given["images"]
    config = ProcessorConfig(*given["config"])
    data, learning = digits(), Learning(given["rate"])
    chosen = order_of_epoch(len(data.train), 0)[:images]
    samples = list(zip(data.train[chosen], targets(data.train_classes)[chosen], strict=True))
    grid = Grid(side, side, Topology[given["topology"]])
    mapping = map_network(initial_network(given["hidden"]), grid, config, learning=learning, samples=len(samples))
    driver = ArrayDriver(dut, side, side, config)
    clocks, speed = await _run(driver, mapping, mapping.machine(), mapping.feeds(samples))
    learned = mapping.read(await _weights(driver, mapping))
    network = initial_network(given["hidden"])
    model = NetworkModel(network, mapping.placement, config.table_bits)
    for image, target in samples:
        model.learn(image, target, learning)
    for found, wanted in zip(learned.weights + learned.biases, network.weights + network.biases, strict=True):
        assert np.array_equal(found, wanted), "weights differ from the model"
    counts = await _counters(driver, mapping.grid.processors)
    Path(given["result"]).write_text(json.dumps({"total": clocks, **speed, **counts}))


async def _run(
    driver: ArrayDriver, mapping: Mapping, machine: ArrayModel, feeds: dict[tuple[int, int], EdgePort]
) -> tuple[int, dict[str, Any]]:
    """Load, start and stop; return the clocks that the programs took, and how fast those were simulated."""
    await driver.reset()
    await driver.configure(mapping.grid)
    began, at = time.perf_counter(), get_sim_time("ns")
    await driver.load(machine)
    loaded, online = time.perf_counter(), get_sim_time("ns")
    clocks = await driver.run_streams(feeds, LIMIT)
    ended = time.perf_counter()
    await driver.stop()
    return clocks, {
        "loading_clocks": round((online - at) / CLOCK_NS),
        "loading_seconds": loaded - began,
        "running_seconds": ended - loaded,
    }
