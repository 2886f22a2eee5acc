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

from golden.attributes.cache import AttributeRam, Step, replay
from golden.contracts import Error, Flow, Policy
from hw.attributes.formats import AttributeConfig, AttributeSettings
from tb.attributes.trace_machine import TraceMachine
from tb.harness import CLOCK_NS, Result, parameters
from tb.harness.build import Build
from tb.harness.codec import Codec
from tb.harness.override import NONE, active
from tb.harness.run import completed as completed_runs
from tb.harness.run import default_seed, run
from tb.models.memory import Memory, plusargs
from tb.models.simulate import build_with_memory
from tb.models.wrap import MemoryModel

__all__ = ["Phase", "Played", "check", "narrow", "play"]

PLAYER = Path(__file__).parent / "trace_player.sv"
#: Cycles after which a phase is given up.
_LIMIT = 5_000_000
#: Byte address of the attributes in the bench's memory; the offsets lie at 0.
ATTRIBUTES = 1 << 14


@dataclass(frozen=True)
class Phase:
    """Requests played one after another, and how the memory behaves.

    Attributes
    ----------
    requests
        (ID, slot, read) of each; the tag is its number.
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


@dataclass(frozen=True)
class Played:
    """What came out in a phase.

    Attributes
    ----------
    events
        In order.
    responses
        By tag: flow and error.
    rows
        By tag: the data, as bytes.
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
        "tag_bits": 17,
        "outstanding": 4,
        "depth": 16,
        "address_width": 24,
        "data_width": 64,
        "bucket_bits": 2,
        "policy": Policy.LRU,
    }
    return AttributeConfig(**{**sizes, **changes})


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
        What else stands in the design, `config` among them; default: `config` alone.
    seed
        Of stalls; default: from the name.

    Returns
    -------
    tuple
        What came out of every phase (nothing of one that is cut off), and the simulation's figures.
    """
    directory = directory.resolve()
    beats = beats or config.row_beats
    offsets = np.concatenate([[0], np.cumsum(degrees if degrees is not None else [0] * nodes)]).astype("<u4").tobytes()
    assert len(offsets) <= ATTRIBUTES
    image = offsets + bytes(ATTRIBUTES - len(offsets)) + b"".join(row_of(config, beats, n) for n in range(nodes))
    (directory / "memory.image").write_bytes(image)
    described = []
    for number, phase in enumerate(phases):
        lines = (f"{node:x} {slot:x} {read} {tag:x}\n" for tag, (node, slot, read) in enumerate(phase.requests))
        (directory / f"requests{number}").write_text("".join(lines))
        described.append(asdict(replace(phase, requests=())))
    (directory / "phases.json").write_text(json.dumps(described))
    beat_bytes = config.data_width // 8
    depth = 1 << (max(len(image), 1 << 16) // beat_bytes - 1).bit_length()
    configs = tuple(beside) or (config,)
    made = _built(configs, name, depth) if active() == NONE else _build(configs, name, depth)
    if seed is None:
        seed = default_seed(made.toplevel, __name__, json.dumps(described), "plays")
    result = run(
        made,
        __name__,
        parameters={
            "directory": str(directory),
            "nodes": nodes,
            "beats": beats,
            "beat_bytes": beat_bytes,
            "edge_count": int(sum(degrees)) if degrees is not None else 0,
            "config": {field: getattr(config, field) for field in config.__dataclass_fields__},
            "chosen": configs.index(config) if beside else None,
        },
        seed=seed,
        plusargs=[
            *plusargs(directory),
            f"+trace_requests={directory}/requests",
            f"+trace_results={directory}/results",
        ],
    )
    completed_runs.append(result)
    if result.message:
        raise AssertionError(result.message)
    figures = json.loads((directory / "figures.json").read_text())
    return [_read(config, directory / f"results{n}", figures[n]) for n in range(len(phases))], result


def _build(configs: tuple[AttributeConfig, ...], name: str, depth: int) -> Build:
    model = MemoryModel(depth=depth)
    return build_with_memory(TraceMachine(*configs), name, memories={"m_axi": model}, sources=[PLAYER])


#: Most tests play on the same design; to find that its build is there takes longer than to play.
_built = cache(_build)


def _read(config: AttributeConfig, path: Path, figures: dict[str, int]) -> Played:
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
            responses.setdefault(said["tag"], []).append((said["flow"], said["error"]))
        else:
            said = row.unpack(int(bits, 16))
            partial += said["data"].to_bytes(config.data_width // 8, "little")
            if said["last"]:
                rows.setdefault(said["tag"], []).append(partial)
                partial = b""
    assert not partial, "the last row has no end"
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
    for tag, ((node, _, wants), step) in enumerate(zip(phase.requests, steps, strict=True)):
        failed = step.flow == Flow.MISSED and node in failing
        error = Error.VID_RANGE if step.flow == Flow.REFUSED else Error.MEMORY_READ if failed else Error.NONE
        assert played.responses.get(tag) == [(step.flow, error)], f"request {tag}: {played.responses.get(tag)}, {step}"
        rows = [row_of(config, beats, node)] if wants and error == Error.NONE else []
        assert played.rows.get(tag, []) == rows, f"request {tag} of ID {node}: wrong row; {step}"
        read += step.flow == Flow.MISSED
    if config.policy != Policy.DEGREE:
        assert played.beats == read * beats, f"{played.beats} beats read for {read} misses"


@cocotb.test()
async def plays(dut: Any) -> None:
    """Play the requests of every phase; the outcome is judged outside."""
    given = parameters()
    directory = Path(given["directory"])
    config = AttributeConfig(**given["config"])
    settings = Codec(AttributeSettings(config)).pack(
        {
            "nodes": given["nodes"],
            "attributes": ATTRIBUTES // 4,
            "row_words": given["beats"] * given["beat_bytes"] // 4,
            "beats": given["beats"],
            "offsets": 0,
            "edges": 0,
            "edge_count": given["edge_count"],
            "tiles": 1,
        }
    )
    dut.rst.value = 1
    for control in ("play", "open", "flush", "idle_chance", "stall_chance"):
        getattr(dut, control).value = 0
    dut.settings.value = settings
    if given["chosen"] is not None:
        dut.chosen.value = given["chosen"]
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    edge = RisingEdge(dut.clk)
    memory = Memory(dut, given["beat_bytes"], directory)

    async def reset() -> None:
        dut.rst.value = 1
        for _ in range(3):
            await edge
        dut.rst.value = 0
        await edge

    await reset()
    await memory.load((directory / "memory.image").read_bytes())
    figures = []
    for number, phase in enumerate(json.loads((directory / "phases.json").read_text())):
        for kind in ("requests", "results"):
            link = directory / kind
            link.unlink(missing_ok=True)
            (directory / f"{kind}{number}").touch()
            link.symlink_to(f"{kind}{number}")
        memory.latency(phase["latency"])
        memory.stall(phase["stall"])
        memory.out_of_order(phase["out_of_order"])
        row = given["beats"] * given["beat_bytes"]
        if phase["failing"]:
            first, last = phase["failing"]
            memory.read_errors(range(ATTRIBUTES + first * row, ATTRIBUTES + (last + 1) * row))
        else:
            memory.read_errors(None)
        dut.idle_chance.value = round(phase["idle"] * 256)
        dut.stall_chance.value = round(phase["hold"] * 256)
        if phase["forget"] == "reset":
            await reset()
        elif phase["forget"] == "flush":
            dut.flush.value = 1
            await edge
            dut.flush.value = 0
        dut.open.value = 1
        await edge
        dut.open.value = 0
        dut.play.value = 1
        before = memory.counters()["beats_read"]
        limit = Timer((phase["cut_off"] or _LIMIT) * CLOCK_NS, "ns")
        await edge
        if not int(dut.done.value) and await First(RisingEdge(dut.done), limit) is limit:
            assert phase["cut_off"], f"phase {number} does not end"
            dut.play.value = 0
            await reset()
        await edge
        dut.play.value = 0
        figures.append({"cycles": int(dut.played_cycles.value), "beats": memory.counters()["beats_read"] - before})
        await edge
    (directory / "figures.json").write_text(json.dumps(figures))
