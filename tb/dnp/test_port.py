# mypy: disable-error-code="attr-defined"
"""The port: clock by clock against two buffers and two flags (D6); proofs that a link of two is a queue."""

import random
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from hw.dnp.port import Port
from sim.harness import simulate
from sim.harness.formal import prove_all
from sim.harness.run import CLOCK_NS
from tb.dnp.formal_port import PROOFS

CLOCKS = 800
#: Words with runs of equal bits among random ones.
_WORDS = (0, -1, 0x5555, ~0x5555, -32768, 32767)


@dataclass
class _Model:
    """Flags and buffers of a port; ``None`` in a buffer is a flag that is not set."""

    received: int | None = None
    sending: int | None = None

    def clock(self, offered: int | None, taken: bool, put: int | None, accepted: bool, online: bool) -> None:
        """Let one clock pass."""
        if self.received is not None:
            self.received = None if taken else self.received
        elif online and not taken:
            self.received = offered
        if put is not None:
            self.sending = put
        elif accepted:
            self.sending = None


def _word() -> int:
    return random.choice([*_WORDS, *(random.randrange(-32768, 32768) for _ in range(12))])


@cocotb.test()
@cocotb.parametrize(pace=[1.0, 0.7, 0.3])
async def words_pass_in_order_and_wait_in_the_buffers(dut: Any, pace: float) -> None:
    """Any core, any neighbours, on-line and off-line; a reset in the middle empties both buffers."""
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    edge = RisingEdge(dut.clk)
    model, offered, online = _Model(), None, True
    dut.rst.value = 1
    for name in ("i__valid", "i__payload", "o__ready", "online", "take", "put", "put_word"):
        getattr(dut, name).value = 0
    await edge
    for clock in range(CLOCKS):
        dut.rst.value = clock == CLOCKS // 2
        if clock == CLOCKS // 2:
            model, offered = _Model(), None
        if offered is None and random.random() < pace:
            offered = _word()
        if random.random() < 0.05:
            online = not online
        willing = random.random() < pace
        has_word, has_room = model.received is not None or offered is not None, model.sending is None or willing
        # The core works on-line only.
        take = online and has_word and random.random() < pace
        put = _word() if online and has_room and random.random() < pace else None
        resetting = clock == CLOCKS // 2
        dut.i__valid.value = offered is not None
        dut.i__payload.value = _word() if offered is None else offered
        dut.o__ready.value = willing
        dut.online.value = online
        dut.take.value = take
        dut.put.value = put is not None
        dut.put_word.value = _word() if put is None else put
        await edge
        if resetting:
            offered = None
            continue
        accepts = online and model.received is None
        assert bool(dut.i__ready.value) == accepts
        assert bool(dut.has_word.value) == has_word
        if has_word:
            assert dut.word.value.to_signed() == (offered if model.received is None else model.received)
        assert bool(dut.o__valid.value) == (model.sending is not None)
        if model.sending is not None:
            assert dut.o__payload.value.to_signed() == model.sending
        assert bool(dut.has_room.value) == has_room
        model.clock(offered, take, put, willing, online)
        if accepts:
            offered = None


def test_port() -> None:
    simulate(Port(), __name__)


def test_proofs() -> None:
    prove_all("dnp.port", PROOFS)
