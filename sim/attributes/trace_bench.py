"""Traces of requests through the attribute processor, in bulk: a hardware model plays a file and writes another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer

from contracts import Error, Flow, Policy
from golden.attributes.cache import AttributeRam, Step, replay
from hw.attributes.formats import AttributeConfig, AttributeSettings
from sim.attributes.trace_design import TraceDesign
from sim.harness import CLOCK_NS, Result, parameters
from sim.harness.build import Build
from sim.harness.codec import Codec
from sim.harness.override import NONE, active
from sim.harness.run import completed as completed_runs
from sim.harness.run import default_seed, run
from sim.models.memory import Memory, plusargs
from sim.models.simulate import build_with_memory
from sim.models.wrap import MemoryModel

__all__ = [
    "ATTRIBUTES",
    "PLAYER",
    "Phase",
    "Played",
    "Player",
    "check",
    "files",
    "image_of",
    "narrow",
    "play",
    "read",
    "settings_of",
    "write",
]

PLAYER = Path(__file__).parent / "trace_player.sv"
#: Cycles after which a phase is given up.
_LIMIT = 5_000_000
#: Byte address of the attributes in the bench's memory; the offsets lie at 0.
ATTRIBUTES = 1 << 14


#: Width of a tag: as many requests as a phase may have.
TAG_BITS = 17
_TAG_FACTOR = 0x1A2B5


@dataclass(frozen=True)
class Phase:
    """Requests played one after another, and how the memory behaves.

    Attributes
    ----------
    requests
        (ID, slot, read) of each.
    failing
        First and last ID whose rows cannot be read, or None.
    latency, stall, out_of_order
        Of the memory.
    idle, hold
        Chance of an idle cycle before a request, and of a stall of an output.
    forget
        ``""``: the attributes stay; ``"flush"``; ``"reset"``.
    cut_off
        Cycles after which the phase ends in a reset, or 0.
    processor
        Which one plays, of several; another one than before only after a reset.
    """

    requests: tuple[tuple[int, int, int], ...]
    failing: tuple[int, int] | None = None
    latency: int = 20
    stall: float = 0.0
    out_of_order: bool = False
    idle: float = 0.0
    hold: float = 0.0
    forget: str = ""
    cut_off: int = 0
    processor: int = 0


@dataclass(frozen=True)
class Played:
    """What came out in a phase.

    Attributes
    ----------
    events
        In order.
    responses
        By number of the request: flow and error.
    rows
        By number of the request: the data, as bytes.
    cycles
        From the first request to the last output.
    beats
        Beats read from memory.
    """

    events: list[Step]
    responses: dict[int, list[tuple[int, int]]]
    rows: dict[int, list[bytes]]
    cycles: int
    beats: int


def row_of(config: AttributeConfig, beats: int, node: int, seed: int = 1) -> bytes:
    """Attributes of a node in the bench's memory."""
    return np.random.default_rng([seed, node]).bytes(beats * config.data_width // 8)


def narrow(**changes: Any) -> AttributeConfig:
    """Return a small configuration in which every limit is met."""
    sizes: dict[str, Any] = {
        "slots": 12,
        "ways": 5,
        "row_beats": 3,
        "id_bits": 8,
        "tag_bits": TAG_BITS,
        "outstanding": 4,
        "depth": 16,
        "address_width": 24,
        "data_width": 64,
        "bucket_bits": 2,
        "policy": Policy.LRU,
    }
    return AttributeConfig(**{**sizes, **changes})


def image_of(
    config: AttributeConfig, nodes: int, beats: int, degrees: Sequence[int] | None = None, at: int = ATTRIBUTES
) -> bytes:
    """Contents of the memory: offsets from 0 on, attributes from byte `at` on."""
    offsets = np.concatenate([[0], np.cumsum(degrees if degrees is not None else [0] * nodes)]).astype("<u4").tobytes()
    assert len(offsets) <= at
    return offsets + bytes(at - len(offsets)) + b"".join(row_of(config, beats, n) for n in range(nodes))


def settings_of(
    config: AttributeConfig, nodes: int, beats: int, degrees: Sequence[int] | None = None, at: int = ATTRIBUTES
) -> dict[str, int]:
    """Fields of `AttributeSettings` for that memory."""
    return {
        "nodes": nodes,
        "attributes": at // 4,
        "row_words": beats * config.data_width // 32,
        "beats": beats,
        "offsets": 0,
        "edges": 0,
        "edge_count": int(sum(degrees)) if degrees is not None else 0,
        "tiles": 1,
    }


def tag_of(number: int) -> int:
    """Return the tag of a request: a number of its own in which all bits are used, however few requests there are."""
    return number * _TAG_FACTOR % (1 << TAG_BITS)


def number_of(tag: int, bits: int) -> int:
    """Return the number of the request with a tag of so many bits."""
    return tag * pow(_TAG_FACTOR, -1, 1 << bits) % (1 << bits)


def write(phase: Phase, path: Path) -> None:
    """Write the requests of a phase, to be played."""
    lines = (f"{node:x} {slot:x} {read} {tag_of(n):x}\n" for n, (node, slot, read) in enumerate(phase.requests))
    path.write_text("".join(lines))


def files(directory: Path) -> list[str]:
    """Plusargs for memory and player."""
    return [*plusargs(directory), f"+trace_requests={directory}/requests", f"+trace_results={directory}/results"]


def play(
    config: AttributeConfig,
    phases: Sequence[Phase],
    directory: Path,
    *,
    nodes: int,
    beats: int | None = None,
    degrees: Sequence[int] | None = None,
    name: str = "attribute_processor",
    beside: Sequence[AttributeConfig] = (),
    count: int = 1,
    seed: int | None = None,
) -> tuple[list[Played], Result]:
    """Play all phases in one simulation.

    Parameters
    ----------
    config
        Sizes.
    phases
        In order; the attributes stay from one to the next unless they say otherwise.
    directory
        For files.
    nodes, beats
        IDs with attributes, and beats of a row.
    degrees
        Of the nodes, for `Policy.DEGREE`.
    name
        Of the design, for the summary.
    beside
        Processors in the design, numbered as in `Phase.processor`; default: that with `config` alone.
    count
        Attribute processors in the place of each.
    seed
        Of stalls; default: from the name.

    Returns
    -------
    tuple
        What came out of every phase (nothing of one that is cut off), and the simulation's figures.
    """
    directory = directory.resolve()
    beats = beats or config.row_beats
    image = image_of(config, nodes, beats, degrees)
    (directory / "memory.image").write_bytes(image)
    described = []
    for number, phase in enumerate(phases):
        write(phase, directory / f"requests{number}")
        described.append(asdict(replace(phase, requests=())))
    (directory / "phases.json").write_text(json.dumps(described))
    beat_bytes = config.data_width // 8
    depth = 1 << (max(len(image), 1 << 16) // beat_bytes - 1).bit_length()
    configs = tuple(beside) or (config,)
    made = (_built if active() == NONE else _build)(configs, name, depth, count)
    if seed is None:
        seed = default_seed(made.toplevel, __name__, json.dumps(described), "plays")
    result = run(
        made,
        __name__,
        parameters={
            "directory": str(directory),
            "settings": settings_of(config, nodes, beats, degrees),
            "config": {field: getattr(config, field) for field in config.__dataclass_fields__},
        },
        seed=seed,
        plusargs=files(directory),
    )
    completed_runs.append(result)
    if result.message:
        raise AssertionError(result.message)
    figures = json.loads((directory / "figures.json").read_text())
    return [
        read(config, directory / f"results{n}", figures[n], cut=phase.cut_off > 0) for n, phase in enumerate(phases)
    ], result


def _build(configs: tuple[AttributeConfig, ...], name: str, depth: int, count: int) -> Build:
    model = MemoryModel(depth=depth)
    return build_with_memory(TraceDesign(*configs, count=count), name, memories={"m_axi": model}, sources=[PLAYER])


#: Most tests play on the same design; to find that its build is there takes longer than to play.
_built = cache(_build)


def read(config: AttributeConfig, path: Path, figures: dict[str, int], *, cut: bool = False) -> Played:
    """Read what came out in a phase; if this was `cut` off, its last row may have no end."""
    event, response, row = Codec(config.event), Codec(config.response), Codec(config.row)
    events: list[Step] = []
    responses: dict[int, list[tuple[int, int]]] = {}
    rows: dict[int, list[bytes]] = {}
    partial = b""
    for line in path.read_text().splitlines():
        kind, bits = line.split()
        if kind == "e":
            said = event.unpack(int(bits, 16))
            events.append(
                Step(
                    said["id"],
                    said["slot"],
                    Flow(said["flow"]),
                    said["displaced"] if said["displaced_valid"] else None,
                    said["evicted"] if said["evicted_valid"] else None,
                )
            )
        elif kind == "r":
            said = response.unpack(int(bits, 16))
            responses.setdefault(number_of(said["tag"], config.tag_bits), []).append((said["flow"], said["error"]))
        else:
            said = row.unpack(int(bits, 16))
            partial += said["data"].to_bytes(config.data_width // 8, "little")
            if said["last"]:
                rows.setdefault(number_of(said["tag"], config.tag_bits), []).append(partial)
                partial = b""
    assert cut or not partial, "the last row has no end"
    return Played(events, responses, rows, figures["cycles"], figures["beats"])


def check(config: AttributeConfig, ram: AttributeRam, phase: Phase, played: Played, beats: int | None = None) -> None:
    """Compare a phase with the golden model `ram`, which goes on from where it stands.

    Raises
    ------
    AssertionError
        At the first request that differs.
    """
    beats = beats or config.row_beats
    failing = range(phase.failing[0], phase.failing[1] + 1) if phase.failing else range(0)
    steps = replay(ram, ((node, slot) for node, slot, _ in phase.requests), failing)
    for number, (got, want) in enumerate(zip(played.events, steps, strict=False)):
        assert got == want, f"request {number}: {got}, expected {want}"
    assert len(played.events) == len(steps), f"{len(played.events)} events of {len(steps)} requests"
    read = 0
    for number, ((node, _, wants), step) in enumerate(zip(phase.requests, steps, strict=True)):
        failed = step.flow == Flow.MISSED and node in failing
        error = Error.VID_RANGE if step.flow == Flow.REFUSED else Error.MEMORY_READ if failed else Error.NONE
        assert played.responses.get(number) == [(step.flow, error)], (
            f"request {number}: {played.responses.get(number)}, {step}"
        )
        rows = [row_of(config, beats, node)] if wants and error == Error.NONE else []
        assert played.rows.get(number, []) == rows, f"request {number} of ID {node}: wrong row; {step}"
        read += step.flow == Flow.MISSED
    if config.policy != Policy.DEGREE:
        assert played.beats == read * beats, f"{played.beats} beats read for {read} misses"


class Player:
    """Inside the simulator: the design, its memory, and the files that are played.

    Parameters
    ----------
    dut
        cocotb's handle of the top.
    config
        Of the processor that plays.
    directory
        Where the files are.
    memory
        Handle of its memory; default: a dense one.
    """

    def __init__(self, dut: Any, config: AttributeConfig, directory: Path, memory: Memory | None = None) -> None:
        self.dut, self.config, self.directory = dut, config, directory
        for control in ("play", "open", "flush", "idle_chance", "stall_chance", "settings"):
            getattr(dut, control).value = 0
        self.choose(0)
        dut.rst.value = 1
        Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
        self.edge = RisingEdge(dut.clk)
        self.memory = memory or Memory(dut, config.data_width // 8, directory)

    def choose(self, processor: int) -> None:
        """Let one of several processors play from the next reset on."""
        if hasattr(self.dut, "chosen"):
            self.dut.chosen.value = processor

    async def reset(self) -> None:
        """Forget everything."""
        self.dut.rst.value = 1
        for _ in range(3):
            await self.edge
        self.dut.rst.value = 0
        await self.edge

    async def load(self, image: bytes, **settings: int) -> None:
        """Write the memory, and say where what lies; only while nothing is under way."""
        self.place(**settings)
        await self.memory.load(image)

    def place(self, **settings: int) -> None:
        """Say where what lies in memory."""
        self.settings = settings
        self.dut.settings.value = Codec(AttributeSettings(self.config)).pack(settings)

    async def play(self, number: int, phase: dict[str, Any], limit: int = _LIMIT) -> dict[str, int]:
        """Play the file of phase `number`; return its cycles, and beats read."""
        dut, memory = self.dut, self.memory
        for kind in ("requests", "results"):
            link = self.directory / kind
            link.unlink(missing_ok=True)
            (self.directory / f"{kind}{number}").touch()
            link.symlink_to(f"{kind}{number}")
        memory.latency(phase["latency"])
        memory.stall(phase["stall"])
        memory.out_of_order(phase["out_of_order"])
        memory.read_errors(None)
        if phase["failing"]:
            base, row = 4 * self.settings["attributes"], 4 * self.settings["row_words"]
            first, last = phase["failing"]
            memory.read_errors(range(base + first * row, base + (last + 1) * row))
        dut.idle_chance.value = round(phase["idle"] * 256)
        dut.stall_chance.value = round(phase["hold"] * 256)
        if phase["forget"] == "reset":
            self.choose(phase["processor"])
            await self.reset()
        elif phase["forget"] == "flush":
            dut.flush.value = 1
            await self.edge
            dut.flush.value = 0
        dut.open.value = 1
        await self.edge
        dut.open.value = 0
        dut.play.value = 1
        before = memory.counters()["beats_read"]
        stop = Timer((phase["cut_off"] or limit) * CLOCK_NS, "ns")
        await self.edge
        if not int(dut.done.value) and await First(RisingEdge(dut.done), stop) is stop:
            assert phase["cut_off"], f"phase {number} does not end"
            dut.play.value = 0
            await self.reset()
        await self.edge
        dut.play.value = 0
        figures = {"cycles": int(dut.played_cycles.value), "beats": memory.counters()["beats_read"] - before}
        await self.edge
        return figures


@cocotb.test()
async def plays(dut: Any) -> None:
    """Play the requests of every phase; the outcome is judged outside."""
    given = parameters()
    directory = Path(given["directory"])
    player = Player(dut, AttributeConfig(**given["config"]), directory)
    await player.reset()
    await player.load((directory / "memory.image").read_bytes(), **given["settings"])
    phases = json.loads((directory / "phases.json").read_text())
    figures = [await player.play(number, phase) for number, phase in enumerate(phases)]
    (directory / "figures.json").write_text(json.dumps(figures))
