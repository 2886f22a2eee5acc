"""Several attribute processors, judged inside the simulator: what `atoll cover` and `atoll mutate` run."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from golden.attributes.cache import AttributeRam
from hw.attributes.formats import AttributeConfig
from sim.attributes.trace_bench import Phase, Player, image_of, narrow, read, settings_of, write
from sim.attributes.trace_design import TraceDesign
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from tb.attributes import processor_bench
from tb.attributes.test_attribute_processor import NODES, ram_of, random_requests
from tb.attributes.test_attribute_processors import compare, in_turn, phases

#: Beats of a row, and cycles that no phase takes; a design with a fault may hang.
BEATS, LIMIT = 12, 60_000
#: Byte address of the attributes of the last phases.
FURTHER = 0x98A8


def config_of() -> AttributeConfig:
    """Return the sizes of each processor."""
    return narrow(address_width=processor_bench.ADDRESS_BITS, row_beats=BEATS)


def machine(count: int) -> TraceDesign:
    """Return the bench's design."""
    return TraceDesign(config_of(), count=count)


@cocotb.test()
async def every_phase_agrees_with_a_golden_model_for_each_processor(dut: Any) -> None:
    """Play and compare phase by phase; the first one takes exactly so many cycles."""
    given = parameters()
    directory, count, config = Path(given["directory"]), given["count"], config_of()
    player = Player(dut, config, directory)
    await player.reset()
    rams = [ram_of(config) for _ in range(count)]
    rng, settings = np.random.default_rng(9), settings_of(config, NODES, BEATS)
    await player.load(image_of(config, NODES, BEATS), **settings)
    first = [in_turn(300), *phases(config, count, 500)]
    # All IDs that there are; each number of nodes allows them.
    further = [Phase(random_requests(rng, 60, config.slots, 256), forget="reset") for _ in range(config.id_bits, 32)]
    for number, phase in enumerate([*first, *further]):
        bit = number - len(first) + config.id_bits
        if phase is further[0]:
            settings = settings_of(config, 256, BEATS, at=FURTHER)
            await player.load(image_of(config, 256, BEATS, at=FURTHER), **settings)
            rams = [AttributeRam(config.slots, config.ways, config.policy, 256) for _ in range(count)]
        if number >= len(first):
            player.place(**{**settings, "nodes": 1 << bit})
        if phase.forget:
            for ram in rams:
                ram.clear()
        write(phase, directory / f"requests{number}")
        figures = await player.play(number, asdict(phase), LIMIT)
        if not phase.cut_off:
            compare(config, rams, phase, read(config, directory / f"results{number}", figures), BEATS)
        if number == 0:
            # Misses of different processors overlap.
            expect_cycles(f"attributes.attribute_processors.{count}.misses", figures["cycles"])


def launch(component: TraceDesign, given: dict[str, Any]) -> None:
    """Run the bench."""
    processor_bench.launch(component, given, __name__, "processors_bench")
