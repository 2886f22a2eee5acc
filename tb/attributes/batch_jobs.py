"""Mini-batches on a simulated batch machine: the driver's part inside the simulator, and the call from outside."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock

from golden.attributes.batch import BatchImage
from golden.contracts import BATCH, LINE_BYTES, Error
from golden.graph import IntArray
from golden.model.layer import Int16Array
from hw.attributes.batch_machine import batch_machine
from hw.attributes.core import CoreConfig
from hw.chiplet.config import ChipletConfig
from tb.chiplet.host import Host
from tb.harness import CLOCK_NS, Result, parameters
from tb.harness.build import remembered
from tb.harness.run import completed, default_seed, run
from tb.models.memory import plusargs
from tb.models.simulate import build_with_memory
from tb.models.wrap import MemoryModel

__all__ = ["Ran", "run_batches"]

_MEMORY_BYTES = 1 << 22
#: Cycles after which a run that does not complete is an error.
_LIMIT = 20_000_000


@dataclass(frozen=True, eq=False)
class Ran:
    """What a batch left.

    Attributes
    ----------
    batch
        Fields of its `Batch`.
    nodes
        int64 [positions], VIDs that were sampled.
    results
        int16 [roots, f_out].
    cycles
        Of sampling, and of the layers.
    phases
        (layer, opcode, cycles) of every command.
    counters
        Bytes and beats of both runs.
    completions
        Of both runs; one if the first failed.
    """

    batch: dict[str, int]
    nodes: IntArray
    results: Int16Array
    cycles: tuple[int, ...]
    phases: list[tuple[int, str, int]]
    counters: dict[str, int]
    completions: list[dict[str, int]]


def run_batches(
    config: ChipletConfig,
    core: CoreConfig | None,
    image: BatchImage,
    batches: Sequence[IntArray],
    directory: Path,
    *,
    name: str = "batch_machine",
    latency: int = 100,
    stall: float = 0.0,
    first: int = 0,
) -> tuple[list[Ran], Result]:
    """Sample and compute every batch, one after another; attributes stay in the RAM from one to the next.

    Parameters
    ----------
    config, core
        Sizes of the machine.
    image
        Memory.
    batches
        Roots of each; they are numbered from `first`.
    directory
        For files; it must exist.
    name
        Of the design.
    latency, stall
        Of the memory.
    first
        Number of the first batch.
    """
    directory = directory.resolve()
    beat_bytes = config.pe.data_width // 8
    (directory / "memory.image").write_bytes(image.data)
    for number, roots in enumerate(batches):
        (directory / f"sample{number}").write_bytes(image.sample_front(roots, first + number, flush=number == 0))
        (directory / f"roots{number}.npy").write_bytes(roots.astype("<i8").tobytes())
    size = max(_MEMORY_BYTES, len(image.data))
    # The driver inside makes the commands of the layers from what has been sampled.
    (directory / "image.pickle").write_bytes(pickle.dumps(image))
    depth = 1 << (size // beat_bytes - 1).bit_length()
    made = remembered(
        (config, core, name, depth),
        lambda: build_with_memory(batch_machine(config, core), name, memories={"m_axi": MemoryModel(depth=depth)}),
    )
    given = {"beat_bytes": beat_bytes, "batches": len(batches), "latency": latency, "stall": stall}
    result = run(
        made,
        __name__,
        parameters={**given, "directory": str(directory)},
        seed=default_seed(made.toplevel, __name__, json.dumps(given, sort_keys=True)),
        plusargs=plusargs(directory),
    )
    completed.append(result)
    if result.message:
        raise AssertionError(result.message)
    ran = []
    for number, roots in enumerate(batches):
        said = json.loads((directory / f"batch{number}.json").read_text())
        data = (directory / f"results{number}").read_bytes()
        rows = np.frombuffer(data, "<i2").reshape(-1, image.results.row_bytes // 2)
        ran.append(
            Ran(
                said["batch"],
                np.frombuffer((directory / f"nodes{number}").read_bytes(), "<u4").astype(np.int64),
                rows[: roots.size, : image.results.row_elements].astype(np.int16),
                tuple(said["cycles"]),
                [tuple(phase) for phase in said["phases"]],
                said["counters"],
                said["completions"],
            )
        )
    return ran, result


@cocotb.test()
async def runs_every_batch(dut: Any) -> None:
    """Sample, read what was sampled, compute, dump; the outcome is judged outside."""
    given = parameters()
    directory = Path(given["directory"])
    image: BatchImage = pickle.loads((directory / "image.pickle").read_bytes())
    at = image.at
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    host = Host(dut, given["beat_bytes"], directory)
    memory = host.memory
    memory.latency(given["latency"])
    memory.stall(given["stall"])
    await host.reset()
    await memory.load(image.data)
    for number in range(given["batches"]):
        roots = np.frombuffer((directory / f"roots{number}.npy").read_bytes(), "<i8")
        await memory.load((directory / f"sample{number}").read_bytes())
        runs = [await host.run(limit=_LIMIT)]
        batch = BATCH.from_bytes(await memory.dump(at.tree.address, LINE_BYTES))
        nodes = await memory.dump(at.tree.address + (1 + 3 * at.span) * LINE_BYTES, 4 * max(1, batch["positions"]))
        if runs[0] is not None and runs[0].completion["error"] == Error.NONE:
            await memory.load(image.infer_front(roots, batch))
            runs.append(await host.run(limit=_LIMIT))
        results = await memory.dump(image.results.address, roots.size * image.results.row_bytes)
        (directory / f"nodes{number}").write_bytes(nodes)
        (directory / f"results{number}").write_bytes(results)
        done = [run for run in runs if run is not None]
        (directory / f"batch{number}.json").write_text(
            json.dumps(
                {
                    "batch": batch,
                    "cycles": [run.cycles for run in done],
                    "phases": [phase for run in done for phase in run.phases],
                    "counters": {name: sum(run.counters[name] for run in done) for name in done[0].counters},
                    "completions": [run.completion for run in done],
                }
            )
        )
