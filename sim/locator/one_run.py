"""One run of the locator without checks; its outputs are written to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cocotb

from sim.harness import parameters
from sim.harness.bench import start
from sim.harness.codec import Codec
from sim.locator.locator_design import LocatorDesign
from sim.models.memory import Memory

#: Cycles after which a run counts as endless.
_LIMIT = 20_000_000


@cocotb.test()
async def one_run(dut: Any) -> None:
    """Load the image, run the command of the parameters, write completion, counters and beats."""
    given = parameters()
    directory = Path(given["directory"])
    component = LocatorDesign(**given["config"])
    memory = Memory(dut, component.config.data_width // 8, directory)
    memory.latency(given["latency"])
    memory.seed(cocotb.RANDOM_SEED)
    memory.stall(given["stall"])
    bench = await start(dut, component)
    dut.active.value = given["active"]
    await memory.load((directory / "graph.bin").read_bytes())
    streams: list[list[int]] = [[] for _ in range(component.config.outputs)]
    completions: list[dict[str, int]] = []
    for n, beats in enumerate(streams):

        def keep(beat: Any, beats: list[int] = beats) -> None:
            beats.append(beat["data"])

        bench.take(f"records__{n}", keep)
    bench.take("completion", completions.append)
    # The records contain them as well.
    bench.take("hubs", lambda _: None)
    bench.drive("command", [given["command"]])
    await bench.until(lambda: bool(completions), _LIMIT)
    counters = Codec(component.counters.shape()).unpack(int(dut.counters.value))
    result = {
        "completion": completions[0],
        "counters": {**counters, "total_cycles": bench.cycle, "read_bytes": memory.counters()["bytes_read"]},
        "streams": streams,
    }
    (directory / "result.json").write_text(json.dumps(result))
