"""Queue port: commands in, completions out, what is refused, counters, the interrupt, a reset."""

import re
from typing import Any

import cocotb
import pytest
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from contracts import COMPLETION
from contracts.registers import COMMAND_WORDS, QUEUE_MAGIC, QUEUE_REGISTERS, Access, queue_register
from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.factories import CORE
from hw.host.queue_port import QueuePort
from hw.host.queued import Queued
from sim.harness import simulate
from sim.harness.bench import Bench, start
from sim.harness.build import to_rtlil

ADDRESS_BITS, CORES = 20, 3
LINES = 1 << ADDRESS_BITS - 6


class Host:
    """Reads and writes registers, and says how each was answered."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut = bench, bench.dut
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(self.dut, "s_axil"), self.dut.clk, self.dut.rst)
        self.dut.busy.value = 0
        self.commands: list[int] = []
        bench.take("command", self.commands.append)

    async def put(self, name: str, refused: bool = False, **fields: int) -> None:
        """Write a register."""
        entry = queue_register(name)
        answer = await self.host.write(entry.address, entry.layout.pack(fields).to_bytes(4, "little"))
        assert answer.resp == (AxiResp.SLVERR if refused else AxiResp.OKAY), name

    async def get(self, name: str) -> dict[str, int]:
        """Read a register."""
        entry = queue_register(name)
        got = await self.host.read(entry.address, 4)
        assert got.resp == AxiResp.OKAY, name
        return entry.layout.unpack(int.from_bytes(got.data, "little"))

    async def queue(self, words: list[int]) -> None:
        """Write a command."""
        for number, word in enumerate(words):
            await self.put(f"COMMAND_{number}", word=word)

    async def end(self, completions: list[dict[str, int]]) -> None:
        """Let commands be completed."""
        self.bench.drive("completion", completions)
        while self.bench.drivers["completion"].busy_words:
            await self.bench.edge
        await self.bench.cycles(2)


async def begin(dut: Any, stall: float = 0.0) -> Host:
    bench = await start(dut, QueuePort(ADDRESS_BITS, CORES), stall=stall)
    return Host(bench)


def completions(bench: Bench, count: int) -> list[dict[str, int]]:
    return [{field.name: bench.random.getrandbits(field.bits) for field in COMPLETION.fields} for _ in range(count)]


@cocotb.test()
async def registers_have_their_values_after_reset(dut: Any) -> None:
    host = await begin(dut)
    for entry in QUEUE_REGISTERS:
        got = await host.host.read(entry.address, 4)
        assert got.resp == AxiResp.OKAY
        assert int.from_bytes(got.data, "little") == entry.reset, entry.name
    assert (await host.get("ID"))["magic"] == QUEUE_MAGIC


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.6])
async def commands_leave_word_for_word_and_in_order(dut: Any, stall: float) -> None:
    host = await begin(dut, stall)
    sent = [[host.bench.random.getrandbits(32) for _ in range(COMMAND_WORDS)] for _ in range(6)]
    for words in sent:
        while not (await host.get("STATUS"))["room"]:
            pass
        await host.queue(words)
    await host.bench.until(lambda: len(host.commands) == len(sent), 1000)
    assert host.commands == [sum(word << 32 * n for n, word in enumerate(words)) for words in sent]


@cocotb.test()
async def a_command_that_waits_does_not_change(dut: Any) -> None:
    host = await begin(dut, 0.0)
    host.bench.pace(stall=1.0)
    words = [host.bench.random.getrandbits(32) for _ in range(COMMAND_WORDS)]
    await host.bench.cycles(4)
    await host.queue(words)
    assert not (await host.get("STATUS"))["room"]
    for number in range(COMMAND_WORDS):
        await host.put(f"COMMAND_{number}", refused=True, word=words[number] ^ 5)
    host.bench.pace(stall=0.0)
    await host.bench.until(lambda: bool(host.commands), 1000)
    assert host.commands == [sum(word << 32 * n for n, word in enumerate(words))]
    assert (await host.get("STATUS"))["room"]


@cocotb.test()
async def completions_wait_until_they_are_taken(dut: Any) -> None:
    host = await begin(dut)
    await host.put("CONTROL", refused=True, take=1)
    sent = completions(host.bench, 16)  # as many as it holds
    await host.end(sent)
    assert not int(dut.irq.value)
    await host.put("INTERRUPT", completion=1)
    more = completions(host.bench, 2)
    host.bench.drive("completion", more)  # these stall until there is room
    for left, wanted in zip(range(18, 0, -1), [*sent, *more], strict=True):
        status = await host.get("STATUS")
        assert (status["completions"], status["interrupt"], int(dut.irq.value)) == (min(left, 16), 1, 1)
        got = await host.get("COMPLETION")
        assert {name: got[name] for name in ("error", "layer", "tag")} == {
            name: wanted[name] for name in ("error", "layer", "tag")
        }
        assert (await host.get("INFO"))["info"] == wanted["info"]
        await host.put("CONTROL", take=1)
        await host.bench.cycles(3)
    assert not (await host.get("STATUS"))["completions"]
    assert not int(dut.irq.value)
    assert (await host.get("COMPLETION"))["tag"] == (await host.get("INFO"))["info"] == 0


@cocotb.test()
async def counters_count_cores_at_work(dut: Any) -> None:
    host = await begin(dut)
    await host.put("CONTROL", clear=1)
    for busy, cycles in ((0b001, 7), (0b110, 5), (0b111, 4), (0, 9)):
        dut.busy.value = busy
        await host.bench.cycles(cycles)
    assert (await host.get("WORKING"))["cycles"] == 7 + 5 + 4
    assert (await host.get("CORE_CYCLES"))["cycles"] == 7 + 2 * 5 + 3 * 4
    dut.busy.value = 0b101
    assert (await host.get("STATUS"))["busy"] == 0b101
    dut.busy.value = 0
    await host.put("CONTROL", clear=1)
    assert (await host.get("WORKING"))["cycles"] == (await host.get("CORE_CYCLES"))["cycles"] == 0


@cocotb.test()
async def what_is_refused_changes_nothing(dut: Any) -> None:
    host = await begin(dut)
    await host.put("BASE", line=LINES - 1)
    await host.put("BASE", refused=True, line=LINES)
    assert int(dut.base.value) == LINES - 1
    assert (await host.get("BASE"))["line"] == LINES - 1
    for entry in QUEUE_REGISTERS:
        if entry.access == Access.READ:
            await host.put(entry.name, refused=True)
    for address in (0x28, 0x3C):
        assert (await host.host.read(address, 4)).resp == AxiResp.SLVERR
        assert (await host.host.write(address, bytes(4))).resp == AxiResp.SLVERR
    # Bytes without a strobe count as 0.
    await host.put("INTERRUPT", completion=1)
    await host.host.write(queue_register("INTERRUPT").address + 1, b"\x01")
    assert not (await host.get("INTERRUPT"))["completion"]


@cocotb.test()
async def a_reset_forgets_everything(dut: Any) -> None:
    host = await begin(dut)
    await host.put("BASE", line=5)
    await host.put("INTERRUPT", completion=1)
    await host.end(completions(host.bench, 3))
    assert int(dut.irq.value)
    await host.bench.reset()
    assert not int(dut.irq.value)
    assert (await host.get("STATUS")) == queue_register("STATUS").layout.unpack(queue_register("STATUS").reset)
    assert (await host.get("BASE"))["line"] == (await host.get("INTERRUPT"))["completion"] == 0


def test_queue_port() -> None:
    simulate(QueuePort(ADDRESS_BITS, CORES), __name__, parameters={"cores": CORES})


@pytest.mark.parametrize("cores", [0, 17])
def test_cores_out_of_range(cores: int) -> None:
    with pytest.raises(ValueError, match=re.escape(f"cores must be in 1..16, not {cores}")):
        QueuePort(cores=cores)


def test_the_accelerator_has_the_ports_of_a_machine() -> None:
    text = to_rtlil(Queued(AttributeAccelerator(CORE, 2)), "queued")
    for port in ("s_axil_awaddr", "irq", "busy", "m_axi_araddr", "m_axi_arcache", "m_axi_awqos"):
        assert re.search(rf"^  wire .*(input|output) \d+ +\\{port}$", text, re.M), port
