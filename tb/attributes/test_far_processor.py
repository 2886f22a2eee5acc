"""Attribute processors on IDs near 2^32, whose rows and offsets lie far apart in 40 bits of addresses."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np

from contracts import VID_BITS, Policy
from golden.attributes.cache import AttributeRam
from hw.attributes.formats import AttributeConfig
from sim.attributes.trace_bench import PLAYER, Phase, Player, check, files, narrow, read, row_of, write
from sim.attributes.trace_design import TraceDesign
from sim.harness import parameters
from sim.harness.run import default_seed, passing, run
from sim.models.simulate import build_with_memory
from sim.models.sparse import SparseMemory
from tb.attributes.far_memory import ADDRESS_BITS, NODES, FarPages, ids_apart, memory_model

#: One processor reads rows alone, the other one degrees, too.
POLICIES = (Policy.LRU, Policy.DEGREE)
WIDTH = 64
#: Cycles that no phase takes.
LIMIT = 200_000


def config_of(policy: Policy) -> AttributeConfig:
    """Return sizes with one bucket for several IDs, so that some are not listed."""
    return narrow(policy=policy, id_bits=VID_BITS, address_width=ADDRESS_BITS, data_width=WIDTH, bucket_bits=1)


class Rows:
    """Attributes and degrees of a few nodes, somewhere in memory.

    Attributes
    ----------
    settings
        Fields of `AttributeSettings`.
    degrees
        By node.
    """

    def __init__(self, random: Random, ids: list[int], config: AttributeConfig) -> None:
        self.pages, beats = FarPages(random), config.row_beats
        row_words = beats * WIDTH // 32
        # A phase with errors names addresses without wrapping.
        attributes = random.randrange((1 << ADDRESS_BITS - 2) - (row_words << VID_BITS)) // 2 * 2
        offsets = random.randrange(1 << ADDRESS_BITS - 2)
        self.settings = {
            "nodes": NODES, "attributes": attributes, "row_words": row_words, "beats": beats, "offsets": offsets,
            "edges": 0, "edge_count": NODES, "tiles": 1,
        }  # fmt: skip
        self.degrees: dict[int, int] = {}
        for node in ids:
            self.pages.put(attributes + node * row_words, np.frombuffer(row_of(config, beats, node), "<u4"))
            degree = random.choice((0, random.randrange(100), random.getrandbits(32)))
            start = random.randrange(NODES + 1 - degree)
            self.pages.put(offsets + node, [start, start + degree])
            self.degrees[node] = degree


def phases(random: Random, ids: list[int], slots: int) -> list[Phase]:
    """Return requests of uneven popularity, some of them of the ID that is one too large."""

    def requests(count: int) -> tuple[tuple[int, int, int], ...]:
        nodes = random.choices([*ids, NODES], weights=[1 / (2 + n) for n in range(len(ids))] + [0.05], k=count)
        return tuple(
            (node, random.choice((node % slots, random.randrange(slots))), random.randrange(2)) for node in nodes
        )

    return [
        Phase(requests(1500), latency=9),
        Phase(requests(800), stall=0.3, hold=0.3, idle=0.2, out_of_order=True),
        Phase(requests(600), failing=(ids[1], ids[1]), latency=40),
        Phase(requests(600), failing=(ids[4], ids[4]), forget="flush", stall=0.2),
        Phase(requests(300), cut_off=700),
        Phase(requests(600), forget="reset", hold=0.7),
    ]


@cocotb.test()
async def every_request_agrees_with_the_golden_model(dut: Any) -> None:
    directory = Path(parameters()["directory"])
    random = Random(cocotb.RANDOM_SEED)
    configs = [config_of(policy) for policy in POLICIES]
    memory = SparseMemory(dut, WIDTH // 8, directory)
    player, number = Player(dut, configs[0], directory, memory), 0
    await player.reset()
    for chosen, config in enumerate(configs):
        ids = ids_apart(random, 40, NODES)
        rows = Rows(random, ids, config)
        await rows.pages.load(memory)
        player.place(**rows.settings)
        player.choose(chosen)
        await player.reset()
        ram = AttributeRam(config.slots, config.ways, config.policy, NODES, rows.degrees.__getitem__)
        for phase in phases(random, ids, config.slots):
            if phase.forget:
                ram.clear()
            write(phase, directory / f"requests{number}")
            figures = await player.play(number, {**asdict(phase), "processor": chosen}, LIMIT)
            if not phase.cut_off:
                check(config, ram, phase, read(config, directory / f"results{number}", figures))
            number += 1


def test_processors_far_apart(tmp_path: Path) -> None:
    design = TraceDesign(*(config_of(policy) for policy in POLICIES))
    made = build_with_memory(design, "far_processor", memories=memory_model(WIDTH), sources=[PLAYER])
    # The directory is another one every time; it must not decide.
    seed = default_seed(made.toplevel, __name__, "", "")
    passing(run(made, __name__, parameters={"directory": str(tmp_path)}, seed=seed, plusargs=files(tmp_path)))
