"""Command processor, cores and DMA: one and two cores do the same, barriers hold, errors end their own command only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pytest

from golden.attributes.batch import BatchImage, batch_results, dense
from golden.attributes.sampler import Plan
from golden.contracts import BATCH, COMMANDS, LINE_BYTES, Error, Model, Opcode
from golden.model.network import Problem
from golden.model.scale import scales_of
from hw.attributes.accelerator import CORE_MODULE, AttributeAccelerator
from hw.attributes.core import CoreConfig
from hw.attributes.formats import AttributeConfig
from tb.chiplet.problems import random_graph, random_problem
from tb.dnp.array import module_source
from tb.harness import BuildOptions, parameters
from tb.harness.bench import Bench, start
from tb.models.memory import Memory
from tb.models.simulate import simulate_with_memory
from tb.models.wrap import MemoryModel

CORE = CoreConfig(
    AttributeConfig(
        slots=12, ways=4, row_beats=8, data_width=64, id_bits=8, tag_bits=10, outstanding=4, depth=16, address_width=20
    ),
    5,
    40,
)
PLAN = Plan((4, 3), 2, seed=21)
SIZE = 5
#: Bytes of the memory, all that can be addressed.
MEMORY = 1 << 20


def problem() -> Problem:
    graph = random_graph(8, 70, 300, features=20, density=1)
    return random_problem(graph, Model.SAGE, [4, 3], seed=1)


def layer_of(number: int) -> int:
    """Layer that the command of a batch names, to see it come back."""
    return (41 * number + 86) & 0xFF


class Host:
    """The driver: one memory, several batches side by side in it, each with its own arrays."""

    def __init__(self, bench: Bench, memory: Memory, cores: int) -> None:
        self.bench, self.memory, self.cores = bench, memory, cores
        self.problem = problem()
        self.image = BatchImage(self.problem, PLAN, SIZE)
        #: Arrays of every batch behind the image: roots, tree, rows.
        self.lines = self.image.lines
        at = self.image.at
        self.tree_lines, self.row_lines = 1 + 4 * at.span, at.rows.bytes // LINE_BYTES + 1
        self.step = 1 + self.tree_lines + self.row_lines
        self.done: list[dict[str, int]] = []
        bench.take("completion", self.done.append)
        # Where the image is, and what addresses in commands count from: they wrap as sums do.
        self.shift = bench.random.randrange((MEMORY >> 1) // LINE_BYTES)
        self.base = bench.random.randrange(MEMORY // LINE_BYTES)
        bench.dut.base.value = self.base

    async def load(self, batches: list[np.ndarray]) -> None:
        """Write image and roots."""
        data = bytearray(MEMORY)
        start = self.shift * LINE_BYTES
        data[start : start + len(self.image.data)] = self.image.data
        for number, roots in enumerate(batches):
            at = start + (self.lines + number * self.step) * LINE_BYTES
            data[at : at + 4 * roots.size] = roots.astype("<u4").tobytes()
        assert (self.lines + len(batches) * self.step) * LINE_BYTES <= MEMORY >> 1
        await self.memory.load(bytes(data))

    def line(self, line: int) -> int:
        """Return what a command says for a line of the image; bits above the address are any."""
        lines = MEMORY // LINE_BYTES
        return (line + self.shift - self.base) % lines + lines * self.bench.random.randrange((1 << 32) // lines)

    async def dump(self, line: int, count: int) -> bytes:
        """Read so many bytes from a line of the image on."""
        return await self.memory.dump((line + self.shift) * LINE_BYTES, count)

    def fail(self, region: Any, count: int, writes: bool = False) -> None:
        """Let accesses of so many bytes from a byte of the image on fail."""
        start = self.shift * LINE_BYTES + region
        (self.memory.write_errors if writes else self.memory.read_errors)(range(start, start + count))

    def sample(self, number: int, roots: np.ndarray, **changes: int) -> dict[str, int]:
        """Fields of a SAMPLE command of batch `number`."""
        at, graph = self.image.at, self.problem.graph
        first = self.lines + number * self.step
        return {
            "opcode": Opcode.SAMPLE, "tag": number, "layer": layer_of(number), "vertices": graph.nodes,
            "offsets": self.line(at.offsets.line), "edges": self.line(at.edges.line),
            "edge_count": graph.edge_count, "tiles": 1, "slotted": number & 1,
            "hops": len(PLAN.fan_out), "span": at.span, "roots": self.line(first), "root_count": int(roots.size),
            "negatives": PLAN.negatives, "fan_out": sum(f << 8 * n for n, f in enumerate(PLAN.fan_out)),
            "seed": PLAN.seed, "batch": number, "attributes": self.line(at.attributes.line),
            "row_bytes": self.image.row_bytes,
            "tree": self.line(first + 1), "rows": self.line(first + 1 + self.tree_lines), **changes,
        }  # fmt: skip

    def send(self, *commands: dict[str, int]) -> None:
        """Queue commands."""
        self.bench.drive("command", [COMMANDS[Opcode(c["opcode"])].pack(c) for c in commands])

    async def finish(self, count: int, limit: int = 400_000) -> list[dict[str, int]]:
        """Wait for `count` completions."""
        await self.bench.until(lambda: len(self.done) >= count, limit)
        await self.bench.cycles(8)
        assert len(self.done) == count
        return self.done

    async def check(self, number: int, roots: np.ndarray) -> None:
        """Compare everything a SAMPLE command has written with the golden model."""
        first = self.lines + number * self.step
        span = self.image.at.span
        batch, _ = batch_results(self.problem, roots, PLAN, number)
        said = BATCH.from_bytes(await self.dump(first + 1, LINE_BYTES))
        count = batch.nodes.size
        assert said["positions"] == said["requests"] == count
        assert [said[f"hop{n}"] for n in range(3)] == list(batch.hops)
        assert said["negatives"] == batch.negatives
        assert count == said["in_place"] + said["cached"] + said["moved"] + said["missed"]
        inner = sum(batch.hops[:-1])
        factors = scales_of(1 / (batch.children[:inner] + 1.0))
        packed = factors.mantissa.astype(np.int64) | factors.exponent.astype(np.int64) << 16
        arrays = (batch.offsets[: inner + 1], batch.edges, packed, batch.nodes)
        for name, array, want in zip(("offsets", "edges", "scales", "nodes"), range(4), arrays, strict=True):
            got = np.frombuffer(await self.dump(first + 2 + array * span, 4 * want.size), "<u4")
            assert np.array_equal(got, want), name
        rows = await self.dump(first + 1 + self.tree_lines, count * self.image.row_bytes)
        features = dense(self.problem)
        got = np.frombuffer(rows, "<i2").reshape(count, -1)[:, : features.shape[1]]
        assert np.array_equal(got, features[batch.nodes])


def batches(count: int, seed: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 70, 1 + int(rng.integers(SIZE))) for _ in range(count)]


async def begin(dut: Any) -> Host:
    cores = parameters()["cores"]
    bench = await start(dut, AttributeAccelerator(CORE, cores))
    return Host(bench, Memory(dut, 8, Path(parameters()["directory"])), cores)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def batches_are_those_of_the_golden_model(dut: Any, stall: float) -> None:
    host = await begin(dut)
    host.memory.stall(stall)
    host.memory.latency(20)
    host.bench.pace(stall=stall)
    mine = batches(6)
    await host.load(mine)
    host.send(*(host.sample(n, roots, flush=int(n < host.cores)) for n, roots in enumerate(mine)))
    done = await host.finish(len(mine))
    assert sorted(one["tag"] for one in done) == list(range(len(mine)))
    assert not any(one["error"] or one["info"] for one in done)
    assert all(one["layer"] == layer_of(one["tag"]) for one in done)
    for number, roots in enumerate(mine):
        await host.check(number, roots)


@cocotb.test()
async def a_barrier_waits_for_all_before_and_holds_all_behind(dut: Any) -> None:
    host = await begin(dut)
    mine = batches(4)
    await host.load(mine)
    samples = [host.sample(n, roots) for n, roots in enumerate(mine)]
    barrier = {"opcode": Opcode.BARRIER, "tag": 77, "layer": 5}
    busy = host.bench.dut.busy
    assert int(busy.value) == 0
    host.send(samples[0], samples[1], barrier, samples[2], samples[3], barrier)
    await host.bench.cycles(50)
    assert int(busy.value) == (1 << min(2, host.cores)) - 1
    done = await host.finish(6)
    assert int(busy.value) == 0
    tags = [one["tag"] for one in done]
    assert set(tags[:2]) == {0, 1}
    assert tags[2] == tags[5] == 77
    assert done[2]["layer"] == 5


@cocotb.test()
async def copies_move_lines(dut: Any) -> None:
    host = await begin(dut)
    await host.load([])
    rng = host.bench.random
    for lines in (1, 0, 37):
        source, target = 3, host.lines + 5
        before = await host.dump(target, (lines + 1) * LINE_BYTES)
        host.done.clear()
        where = {"source": host.line(source), "target": host.line(target)}
        host.send({"opcode": Opcode.COPY, **where, "lines": lines, "tag": lines})
        assert (await host.finish(1))[0] == {"error": 0, "layer": 0, "tag": lines, "info": 0}
        after = await host.dump(target, (lines + 1) * LINE_BYTES)
        assert after[: lines * LINE_BYTES] == host.image.data[source * LINE_BYTES : (source + lines) * LINE_BYTES]
        assert after[lines * LINE_BYTES :] == before[lines * LINE_BYTES :]
        await host.bench.cycles(rng.randrange(5))


@cocotb.test()
async def bad_operands_are_refused_and_the_next_command_works(dut: Any) -> None:
    host = await begin(dut)
    mine = batches(1)
    await host.load(mine)
    good = host.sample(0, mine[0], root_count=4)
    fan = CORE.most + 1
    cases: list[tuple[dict[str, int], Error, int]] = [
        ({"fan_out": 4}, Error.FAN_OUT, 0),
        ({"fan_out": fan | 3 << 8}, Error.FAN_OUT, fan),
        ({"fan_out": 4 | 255 << 8}, Error.FAN_OUT, 255),
        ({"negatives": fan}, Error.FAN_OUT, fan),
        ({"row_bytes": 0}, Error.BAD_OPERAND, 0),
        ({"row_bytes": 96}, Error.BAD_OPERAND, 96),
        ({"row_bytes": 36}, Error.BAD_OPERAND, 36),
        ({"vertices": 257}, Error.BAD_OPERAND, 257),
        ({"first_vertex": 1}, Error.BAD_OPERAND, 1),
        ({"tiles": 0}, Error.BAD_OPERAND, 0),
        ({"hops": 5}, Error.BAD_OPERAND, 5),
        ({"span": 1}, Error.BAD_OPERAND, 4 + 16 + 48 + 8),
        ({"root_count": 9}, Error.BAD_OPERAND, 9 + 36),
        ({"opcode": Opcode.COMBINE}, Error.BAD_OPCODE, Opcode.COMBINE),
        ({"opcode": 0xFF}, Error.BAD_OPCODE, 0xFF),
    ]
    # Every bit that may not be set is seen, and said.
    wrong_bits = {
        "vertices": range(9, 32), "first_vertex": range(32), "row_bytes": [*range(5), *range(7, 32)],
        "negatives": range(3, 16),
    }  # fmt: skip
    for field, bits in wrong_bits.items():
        code = Error.FAN_OUT if field == "negatives" else Error.BAD_OPERAND
        cases += [({field: value}, code, value) for bit in bits for value in [1 << bit | good.get(field, 0)]]
    for changes, error, info in cases:
        host.done.clear()
        fields = {**good, **changes}
        fields["tag"] = host.bench.random.randrange(1 << 16)
        word = COMMANDS[Opcode.SAMPLE].pack(fields)
        host.bench.drive("command", [word])
        said = (await host.finish(1))[0]
        assert (said["error"], said["info"]) == (error, info), changes
        assert said["tag"] == fields["tag"]
    host.done.clear()
    host.send({**good, "root_count": int(mine[0].size)}, {"opcode": Opcode.NOP, "tag": 1, "layer": 0x5A})
    assert not any(one["error"] or one["info"] for one in await host.finish(2))
    await host.check(0, mine[0])


@cocotb.test()
async def errors_of_data_and_memory_end_one_command_only(dut: Any) -> None:
    host = await begin(dut)
    mine = batches(3)
    await host.load(mine)
    at = host.image.at
    row = host.image.row_bytes
    samples = [host.sample(n, roots) for n, roots in enumerate(mine)]

    async def code(command: dict[str, int]) -> int:
        host.done.clear()
        host.send(command)
        return (await host.finish(1))[0]["error"]

    def told(address: int, size: int) -> bool:
        """Whether the line that was told lies in so many bytes from a byte of the image on."""
        first = host.shift + address // LINE_BYTES
        return first <= host.done[0]["info"] <= first + (address % LINE_BYTES + size - 1) // LINE_BYTES

    # Every core fails, then works.
    for _ in range(host.cores):
        for region, size in ((at.attributes, 70 * row), (at.edges, at.edges.bytes), (at.offsets, at.offsets.bytes)):
            host.fail(region.address, size)
            assert await code(samples[0]) == Error.MEMORY_READ
            assert told(region.address, size)
        host.memory.read_errors(None)
        first = (host.lines + 1) * LINE_BYTES
        host.fail(first, 64, writes=True)
        assert await code(samples[0]) == Error.MEMORY_WRITE
        assert told(first, 64)
        host.memory.write_errors(None)
        assert await code({**samples[0], "vertices": 20}) == Error.VID_RANGE
        assert 20 <= host.done[0]["info"] < 70
        assert await code({**samples[0], "edge_count": 7}) == Error.EDGE_RANGE
        assert host.problem.graph.offsets[host.done[0]["info"] + 1] > 7
        assert await code({**samples[0], "flush": 1}) == Error.NONE
        await host.check(0, mine[0])
    host.done.clear()
    host.fail(at.attributes.address, 20 * row)
    host.send(*samples)
    await host.finish(3)
    host.memory.read_errors(None)
    host.done.clear()
    host.send(*samples, *samples)
    assert not any(one["error"] for one in await host.finish(6))
    for number, roots in enumerate(mine):
        await host.check(number, roots)


@cocotb.test()
async def a_reset_in_the_middle_changes_nothing_later(dut: Any) -> None:
    host = await begin(dut)
    mine = batches(2)
    await host.load(mine)
    for cut in (40, 150, 600):
        host.send(*(host.sample(n, roots) for n, roots in enumerate(mine)))
        await host.bench.cycles(cut)
        await host.bench.reset()
        host.done.clear()
        host.send(*(host.sample(n, roots) for n, roots in enumerate(mine)))
        assert not any(one["error"] for one in await host.finish(2))
        for number, roots in enumerate(mine):
            await host.check(number, roots)


def launch(component: AttributeAccelerator, given: dict[str, Any], directory: Path) -> None:
    """Run the bench on an accelerator; cores that are left out of it are compiled apart, once."""
    name = f"attribute_accelerator_{given['cores']}"
    parts: dict[str, Any] = {}
    if component.once:
        # Seen from outside, every output of a core depends on every input, so what connects them looks like loops.
        control = directory / "loops.vlt"
        control.write_text(f'`verilator_config\nlint_off -rule UNOPTFLAT -file "*/{name}.v"\n')
        parts["sources"] = [module_source(component.core(), CORE_MODULE), control]
        parts["options"] = BuildOptions(blocks=(CORE_MODULE,))
    simulate_with_memory(
        component,
        __name__,
        directory,
        name=name,
        memories={"m_axi": MemoryModel(depth=MEMORY // 8)},
        parameters=given,
        **parts,
    )


@pytest.mark.skipif(not os.environ.get("ATOLL_FULL"), reason="runs with ATOLL_FULL=1")
def test_one_core(tmp_path: Path) -> None:
    launch(AttributeAccelerator(CORE, 1), {"cores": 1}, tmp_path)


def test_two_cores(tmp_path: Path) -> None:
    launch(AttributeAccelerator(CORE, 2, once=True), {"cores": 2}, tmp_path)
