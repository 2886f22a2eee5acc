"""Attribute processor by itself, judged inside the simulator: what `atoll cover` and `atoll mutate` run."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cocotb
import numpy as np

from contracts import Policy
from golden.attributes.cache import AttributeRam
from hw.attributes.formats import AttributeConfig
from sim.attributes.trace_bench import PLAYER, Phase, Player, check, files, image_of, narrow, read, settings_of, write
from sim.attributes.trace_design import TraceDesign
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from sim.harness.run import completed, run
from sim.models.simulate import build_with_memory
from sim.models.wrap import MemoryModel

#: Bits of byte addresses: all memory that can be addressed is there.
ADDRESS_BITS = 16
NODES = 250
#: No phase takes as long, in cycles; a design with a fault may hang.
LIMIT = 60_000


def config_of(given: dict[str, Any]) -> AttributeConfig:
    """Return the sizes that `given` changes; an ID has as few cells as can be, so that many find none."""
    changes = {**given, "policy": Policy[given["policy"]]}
    return narrow(**{"address_width": ADDRESS_BITS, "bucket_bits": 1, "row_beats": 7, **changes})


def machine(**given: Any) -> TraceDesign:
    """Return the bench's design."""
    return TraceDesign(config_of(given))


@dataclass(frozen=True)
class Memory:
    """Where attributes lie in a phase and those after it: IDs with attributes, beats of a row, byte address."""

    nodes: int
    beats: int
    at: int


def graded(rng: np.random.Generator, slots: int, ways: int) -> tuple[tuple[int, int, int], ...]:
    """Return requests by which keys become of any size; they move, go to the cache and grow there, and rows leave."""
    nodes = rng.permutation(NODES)[: 2 * slots + ways].tolist()
    requests = [(nodes[slot], slot) for slot in range(slots) for _ in range(rng.integers(1, 200))]
    for _ in range(2):
        order = rng.permutation(slots).tolist()
        requests += [(nodes[a], b) for a, b in pairwise(order)]
    # Some leave their slots and come back from the cache, again and again.
    others = rng.integers(0, slots, 40).tolist()
    requests += [(nodes[slots + n % ways], slot) for n, slot in enumerate(others)]
    requests += [(nodes[n], slot) for n, slot in enumerate(rng.permutation(slots).tolist())]
    requests += [(nodes[slots + ways + n], n) for n in range(slots)]
    return tuple((node, slot, 0) for node, slot in requests)


def pairs(slots: int) -> tuple[tuple[int, int, int], ...]:
    """Return requests in which a row is on its way to any slot while what is in any other one is wanted."""
    held, fresh = list(range(slots)), cycle(range(slots, NODES))
    requests = [(node, slot, 0) for slot, node in enumerate(held)]
    for missing, wanted in product(range(slots), repeat=2):
        held[missing] = next(fresh)
        requests += [(held[missing], missing, 0), (held[wanted], wanted, (missing + wanted) % 2)]
    return tuple(requests)


def phases(config: AttributeConfig) -> Iterator[tuple[str, Memory | None, Phase]]:
    """Yield a name for exact cycles, what is new in memory, and a phase."""
    rng = np.random.default_rng(8)
    slots, beats = config.slots, config.row_beats

    def random(count: int, reads: float = 0.5, popular: float = 0.06, nodes: int = NODES) -> Any:
        ids = np.minimum(rng.geometric(popular, count) * 37 % nodes, nodes - 1)
        ids = np.where(rng.random(count) < 0.02, ids + (1 << rng.integers(config.id_bits, 32, count)), ids)
        spots = np.where(rng.random(count) < 0.5, ids % slots, rng.integers(0, slots, count))
        return tuple(zip(ids.tolist(), spots.tolist(), (rng.random(count) < reads).astype(int).tolist(), strict=True))

    first = Memory(NODES, beats, 0x44E8)
    yield "fill", first, Phase(tuple((7 * n, n, 0) for n in range(slots)))
    yield "hits", None, Phase(tuple((7 * (n % slots), n % slots, 0) for n in range(300)))
    yield "reads", None, Phase(tuple((7 * (n % slots), n % slots, 1) for n in range(40)))
    yield "moved", None, Phase(tuple((7 * (n % 2), 0, int(n % 5 == 0)) for n in range(1, 60)))
    yield "cached", None, Phase(tuple((200 + n % 2, 3, int(n % 3 == 0)) for n in range(60)))
    yield "misses", None, Phase(tuple((n % NODES, n % slots, n % 2) for n in range(100)), latency=60)
    # Keys that use all their bits, and more requests of an ID than its key can count; then all meet in the cache.
    counted = [(131, 0), (135, 1), (128, 2), (300, 3), (255, 4), (130, 5), (192, 6)]
    counts = [(30 + slot, slot, 0) for count, slot in counted for _ in range(count)]
    yield "counted", None, Phase(tuple(counts + [(100 + n, n % 7, 0) for n in range(20)]), forget="flush")
    for round_ in range(4):
        yield f"graded {round_}", None, Phase(graded(rng, slots, config.ways), forget="flush")
    yield "pairs", None, Phase(pairs(slots), latency=30)
    yield "random", None, Phase(random(500), latency=9)
    # Answers wait while rows do not.
    yield "", None, Phase(tuple((n % slots, n % slots, 0) for n in range(300)), hold=0.85)
    yield "", None, Phase(random(600), failing=(20, 90), stall=0.3, hold=0.3, idle=0.3, latency=40)
    yield "", None, Phase(random(600, 1.0), stall=0.5, hold=0.6, latency=3, out_of_order=True)
    yield "", None, Phase(random(400, 0.2, 0.01), failing=(0, NODES), latency=5)
    yield "flushed", None, Phase(random(200, 0.3), forget="flush", latency=1)
    yield "", None, Phase(random(200), cut_off=333)
    # Every ID fits: only those with more bits than there are inside are refused.
    yield "short", Memory(1 << 32, 1, 0xF0A8), Phase(random(500, 1.0, 0.02, 256), forget="reset", latency=30)
    yield "", None, Phase(random(400, 0.7, 0.02, 256), hold=0.8, stall=0.2)
    yield "even", Memory(200, 4, 0x8858), Phase(random(300, 0.5, nodes=200), forget="reset", latency=30)
    yield "", None, Phase(random(400, 0.5, 0.03), failing=(3, 40), idle=0.6, out_of_order=True)
    yield "", None, Phase(random(100), idle=0.2)
    yield "", None, Phase(random(20))


@cocotb.test()
async def every_phase_agrees_with_the_golden_model(dut: Any) -> None:
    """Play and compare phase by phase; those with a name and nothing random take exactly so many cycles."""
    given = dict(parameters())
    directory, prefix = (
        Path(given.pop("directory")),
        "attributes.attribute_processor." + ".".join(str(value) for value in given.values()).lower(),
    )
    config = config_of(given)
    player = Player(dut, config, directory)
    await player.reset()
    degrees = np.random.default_rng(5).permutation(256).tolist()
    ram, memory = AttributeRam(1, 1), Memory(0, 0, 0)
    for number, (name, new, phase) in enumerate(phases(config)):
        if new is not None:
            memory = new
            known = min(memory.nodes, 256)
            await player.load(
                image_of(config, known, memory.beats, degrees[:known], memory.at),
                **{**settings_of(config, known, memory.beats, degrees, memory.at), "nodes": min(new.nodes, 0xFFFFFFFF)},
            )
        if new is not None or phase.forget:
            ram = AttributeRam(config.slots, config.ways, config.policy, known, lambda node: degrees[node])
        write(phase, directory / f"requests{number}")
        figures = await player.play(number, asdict(phase), LIMIT)
        if phase.cut_off:
            continue
        check(config, ram, phase, read(config, directory / f"results{number}", figures), memory.beats)
        if name:
            expect_cycles(f"{prefix}.{name}", figures["cycles"])


def launch(
    component: TraceDesign, given: dict[str, Any], bench: str = __name__, name: str = "attribute_processor_bench"
) -> None:
    """Run the bench, or another one of such a design."""
    config = component.configs[0]
    depth = (1 << ADDRESS_BITS) // (config.data_width // 8)
    made = build_with_memory(component, name, memories={"m_axi": MemoryModel(depth=depth)}, sources=[PLAYER])
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        result = run(made, bench, parameters={**given, "directory": folder}, seed=1, plusargs=files(directory))
    completed.append(result)
    if result.message:
        raise AssertionError(result.message)
