# mypy: disable-error-code="attr-defined,index"
"""Bench behind the benchmarks: a mapped network in RTL, forward or learning, compared with the model bit by bit."""

import json
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import Space
from contracts.dnp.topology import Grid, Topology
from golden.dnp.digits import digits, initial_network, order_of_epoch, targets
from golden.dnp.mapper import Mapping, map_network
from golden.dnp.network import Learning, Network, NetworkModel
from hw.dnp.core import Status
from sim.dnp.array import ArrayDriver
from sim.harness import parameters

LIMIT = 100_000_000


def _signed(words: list[int]) -> list[int]:
    return [word - 0x10000 if word > 0x7FFF else word for word in words]


async def _counters(driver: ArrayDriver, processors: int) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {"clocks": [], "instructions": [], "blocked": []}
    for processor in range(processors):
        head = await driver.read(processor, Space.STATUS, 0, Status.BLOCKED.value + 2)
        for name, at in (("clocks", 4), ("instructions", 6), ("blocked", 8)):
            counts[name].append(head[at] + (head[at + 1] << 16))
    return counts


async def _weights(driver: ArrayDriver, mapping: Mapping) -> list[list[int]]:
    used = max(layout.wm_used for layout in mapping.layouts)
    return [_signed(await driver.read(p, Space.WM, 0, used)) for p in range(mapping.grid.processors)]


async def _outputs(driver: ArrayDriver, mapping: Mapping) -> list[int]:
    """Read the finished values of the last layer, and nothing else."""
    last, words = mapping.placement.layers[-1], []
    for processor, layout in enumerate(mapping.layouts):
        begin, own = layout.values[last], len(mapping.placement.owned(last, *mapping.coordinates(processor)))
        found = _signed(await driver.read(processor, Space.XM, begin, own)) if own else []
        words.append([0] * begin + found)
    return mapping.outputs(words)


@cocotb.test()
async def forward_pass(dut: Any) -> None:
    """One pass of a random network; inputs and outputs in XM."""
    given = parameters()
    side, sizes = given["side"], tuple(given["sizes"])
    config = ProcessorConfig(*given["config"])
    network = Network.random(sizes, seed=given["seed"])
    mapping = map_network(network, Grid(side, side, Topology[given["topology"]]), config, stream=False)
    inputs = np.random.default_rng(given["seed"]).integers(0, 32768, sizes[0])
    driver = ArrayDriver(dut, side, side, config)
    await driver.reset()
    await driver.configure(mapping.grid)
    await driver.load(mapping.machine(inputs))
    clocks = await driver.run_streams({}, LIMIT)
    await driver.stop()
    found = await _outputs(driver, mapping)
    model = NetworkModel(network, mapping.placement, config.table_bits)
    assert found == model.forward(inputs)[-1].tolist(), "outputs differ from the model"
    counts = await _counters(driver, mapping.grid.processors)
    Path(given["result"]).write_text(json.dumps({"total": clocks, **counts}))


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
    await driver.reset()
    await driver.configure(mapping.grid)
    await driver.load(mapping.machine())
    clocks = await driver.run_streams(mapping.feeds(samples), LIMIT)
    await driver.stop()
    learned = mapping.read(await _weights(driver, mapping))
    network = initial_network(given["hidden"])
    model = NetworkModel(network, mapping.placement, config.table_bits)
    for image, target in samples:
        model.learn(image, target, learning)
    for found, wanted in zip(learned.weights + learned.biases, network.weights + network.biases, strict=True):
        assert np.array_equal(found, wanted), "weights differ from the model"
    counts = await _counters(driver, mapping.grid.processors)
    Path(given["result"]).write_text(json.dumps({"total": clocks, **counts}))
