# mypy: disable-error-code="attr-defined,index"
"""Bench behind ``atoll dnp train --rtl`` and ``infer --rtl``: samples through a mapped network, all of it compared."""

from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import Grid, Topology
from golden.dnp.array import EdgePort
from golden.dnp.mapper import map_network
from golden.dnp.network import Learning, Network, NetworkModel
from golden.dnp.passes import check
from sim.dnp.array import ArrayDriver
from sim.harness import parameters

#: Clocks a sample may take.
LIMIT = 1_000_000
#: Processors of an array up to which memories are read back and compared.
COMPARED = 64


@cocotb.test()
async def samples_pass_as_in_the_golden_machine(dut: Any) -> None:
    """Learn samples, or pass them; registers, memories, counters, clocks and words at the edges are the golden ones."""
    given = parameters()
    rows, columns, topology = given["grid"]
    config = ProcessorConfig(*given["config"])
    learning = Learning(*given["learning"]) if given["learning"] else None
    with np.load(given["work"]) as work:
        layers = sum(name.startswith("weights") for name in work.files)
        network = Network([work[f"weights{n}"] for n in range(layers)], [work[f"biases{n}"] for n in range(layers)])
        targets = work["targets"] if learning else [None] * len(work["inputs"])
        samples = list(zip(work["inputs"], targets, strict=True))
    grid = Grid(rows, columns, Topology[topology])
    mapping = map_network(network.copy(), grid, config, learning=learning, samples=len(samples))
    machine = mapping.machine()
    feeds = mapping.feeds(samples)
    # Both use up their words; ports that get none are served all the same, for words that leave there.
    ends = {edge: EdgePort(list(feeds[edge].words) if edge in feeds else []) for edge in machine.edges}
    machine.edges.update(feeds)

    driver = ArrayDriver(dut, rows, columns, config)
    await driver.reset()
    await driver.configure(mapping.grid)
    await driver.load(machine)
    clocks = machine.run(LIMIT * len(samples))
    machine.step()
    assert await driver.run(ends, LIMIT * len(samples)) == clocks
    await driver.stop()
    # Reading the memories of a large array back takes hours on the bench; its outputs and counters are compared.
    await driver.compare(machine, memories=grid.processors <= COMPARED)
    for edge, end in machine.edges.items():
        assert ends[edge].received == end.received, f"edge {edge}"
    # The memories have been compared: what is checked here is the golden machine against the model without clocks.
    model = NetworkModel(network, mapping.placement, config.table_bits)
    received = {edge: end.received for edge, end in ends.items()}
    check(mapping, model, samples, machine.state.wm.tolist(), received)
    Path(given["result"]).write_text(str(clocks))
