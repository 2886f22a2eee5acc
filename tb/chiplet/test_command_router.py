"""Command router and the chiplet around it: each command reaches its target, and its answer comes back."""

from typing import Any

import cocotb
import pytest

from contracts import COMMAND_BYTES, COMMANDS, Opcode
from hw.attributes.core import AttributeCore
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.command_router import CommandRouter
from hw.chiplet.config import GatherChipletConfig
from hw.chiplet.gather_engine import GatherEngine
from hw.pe.formats import PEConfig
from sim.harness import simulate
from sim.harness.bench import Bench, start

#: Commands of targets 1 and 2.
OPCODES = ((Opcode.NEURAL,), (Opcode.SAMPLE, Opcode.COPY))
LAYER = COMMANDS[Opcode.NOP].offsets["layer"]


def router() -> CommandRouter:
    return CommandRouter(OPCODES)


async def carry_out(bench: Bench, dut: Any, opcode: int) -> None:
    """Send a command, take it at its target, answer it, and check what the router reports meanwhile."""
    target = next((n for n, opcodes in enumerate(OPCODES, start=1) if opcode in opcodes), 0)
    layer = bench.random.getrandbits(8)
    rest = bench.random.getrandbits(8 * COMMAND_BYTES) & ~(0xFF | 0xFF << LAYER)
    command = opcode | layer << LAYER | rest
    bench.drive("i", [command])
    bench.expect(f"o__{target}", [command])
    await bench.drain()
    await bench.cycles(1 + bench.random.randrange(4))
    shown = (opcode, layer) if target else (Opcode.NOP, 0)
    assert (int(dut.opcode.value), int(dut.layer.value)) == shown
    answer = {"code": bench.random.getrandbits(8), "info": bench.random.getrandbits(32)}
    bench.drive(f"answers__{target}", [answer])
    bench.expect("executed", [answer])
    await bench.drain()
    await bench.cycles(1)
    assert (int(dut.opcode.value), int(dut.layer.value)) == (Opcode.NOP, 0)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def each_command_reaches_its_target_alone(dut: Any, idle: float, stall: float) -> None:
    bench = await start(dut, router(), idle=idle, stall=stall)
    # Codes that no target has belong to target 0.
    for opcode in [*Opcode, 0x80, 0xFF]:
        await carry_out(bench, dut, opcode)


@cocotb.test()
async def a_command_waits_for_its_target(dut: Any) -> None:
    bench = await start(dut, router(), stall=1.0)
    bench.drive("i", [int(Opcode.COPY)])
    bench.expect("o__2", [int(Opcode.COPY)])
    await bench.cycles(5)
    assert [int(dut.o__0__valid.value), int(dut.o__1__valid.value), int(dut.o__2__valid.value)] == [0, 0, 1]
    assert int(dut.i__ready.value) == 0
    assert int(dut.opcode.value) == Opcode.NOP
    bench.pace(stall=0.0)
    await bench.drain()


def test_command_router() -> None:
    simulate(router(), __name__)


@pytest.mark.parametrize("opcodes", [((),), ((Opcode.COPY,), (Opcode.SAMPLE, Opcode.COPY))])
def test_every_opcode_has_one_target(opcodes: tuple[tuple[Opcode, ...], ...]) -> None:
    with pytest.raises(ValueError, match="opcodes must be at least one for each target, each for one target, not"):
        CommandRouter(opcodes)


def test_units_share_the_memory_port_of_the_engine() -> None:
    engine = GatherEngine(GatherChipletConfig(pe=PEConfig(lanes=2, data_width=64)))
    with pytest.raises(ValueError, match=r"core must have a memory port of \(32, 64\) bits, the engine's, not"):
        Chiplet(engine, {"core": AttributeCore()})
