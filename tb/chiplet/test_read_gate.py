"""Read gate: what passes while open, nothing while closed, and the count of what has no answer."""

from typing import Any

import cocotb
import pytest

from hw.chiplet.factories import GATE_CLIENTS, GATE_MOST
from hw.chiplet.read_gate import ReadGate
from tb.chiplet.parts import CONFIGURATIONS, Part, begin, config, simulate_parts


class Gate:
    """Requests at every input, the count they must lead to, and answers."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.count = 0
        cocotb.start_soon(self._watch())

    def send(self, client: int, count: int = 1) -> None:
        """Queue requests of one client and expect them unchanged."""
        address = config().beat_address_width
        requests = [
            {"address": self.part.random.getrandbits(address), "length": self.part.random.getrandbits(4)}
            for _ in range(count)
        ]
        self.part.drive(f"i__{client}", requests)
        self.part.expect(f"o__{client}", requests)

    async def answer(self, count: int) -> None:
        """Answer as many requests."""
        for _ in range(count):
            await self.part.pulse("answered")

    async def _watch(self) -> None:
        part = self.part
        while True:
            await part.bench.edge
            assert part.get("unanswered") == int(self.count > 0)
            passed = sum(
                int(part.handle(f"o__{client}__valid").value) & int(part.handle(f"o__{client}__ready").value)
                for client in range(GATE_CLIENTS)
            )
            self.count += passed - int(part.handle("answered").value)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def requests_pass_unchanged_and_are_counted(dut: Any, idle: float, stall: float) -> None:
    gate = Gate(await begin(dut, "gate", idle=idle, stall=stall))
    for _ in range(6):
        for client in range(GATE_CLIENTS):
            gate.send(client, gate.part.random.randrange(GATE_MOST + 1))
        await gate.part.bench.drain()
        await gate.answer(gate.count)
        await gate.part.bench.cycles(2)
        assert gate.count == 0


@cocotb.test()
async def the_most_requests_of_all_clients_are_counted(dut: Any) -> None:
    gate = Gate(await begin(dut, "gate"))
    for client in range(GATE_CLIENTS):
        gate.send(client, GATE_MOST)
    await gate.part.bench.drain()
    assert gate.count == GATE_CLIENTS * GATE_MOST
    await gate.answer(gate.count)
    await gate.part.bench.cycles(3)
    assert gate.count == 0


@cocotb.test()
async def a_closed_gate_lets_nothing_pass(dut: Any) -> None:
    gate = Gate(await begin(dut, "gate"))
    part = gate.part
    part.set("closed", 1)
    await part.bench.edge
    for client in range(GATE_CLIENTS):
        gate.send(client)
    for _ in range(10):
        await part.bench.edge
        assert not any(int(part.handle(f"o__{client}__valid").value) for client in range(GATE_CLIENTS))
        assert not any(int(part.handle(f"i__{client}__ready").value) for client in range(GATE_CLIENTS))
    assert gate.count == 0
    part.set("closed", 0)
    await part.bench.drain()
    assert gate.count == GATE_CLIENTS


@cocotb.test()
async def reset_forgets_what_was_asked(dut: Any) -> None:
    gate = Gate(await begin(dut, "gate"))
    gate.send(0, 2)
    await gate.part.bench.drain()
    gate.part.bench.dut.rst.value = 1
    await gate.part.bench.edge
    gate.part.bench.dut.rst.value = 0
    gate.count = 0
    await gate.part.bench.cycles(3)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_read_gate(configuration: str) -> None:
    simulate_parts(configuration, __name__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "clients must be at least 1, not 0"),
        ({"most": 0}, "most must be at least 1, not 0"),
        ({"data_width": 32}, "data_width must be 64, 128 or 256, not 32"),
    ],
)
def test_read_gate_refuses(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadGate(**arguments)
