"""Rows of others wait until they can be read, none for another one; own ones pass them; each passes once."""

from collections import Counter
from typing import Any

import cocotb
import pytest

from hw.community.combined_reader import CombinedRow
from hw.community.factories import halo_gate
from hw.community.halo_gate import HaloGate
from hw.memory.formats import beat_address_width
from hw.ring.formats import OWNERS, HaloRows
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec

#: Beats of a row, and rows of a chiplet at most.
_STRIDE, _ROWS = 3, 12


class Gate:
    """The gate, what it is told of a ring, and what has passed."""

    def __init__(self, bench: Bench, design: HaloGate) -> None:
        self.bench, self.dut, self.rng, self.design = bench, bench.dut, bench.random, design
        self.words = design.config.data_width // 32
        self.passed: list[int] = []
        self.number = 0
        self.codec = Codec(HaloRows(design.address_width, design.config.data_width))
        self.largest = (1 << beat_address_width(design.address_width, design.config.data_width)) - 1
        self.under_way: dict[int, Any] = {}
        bench.take("o", self._pass)
        self.ring(2)

    def _pass(self, row: Any) -> None:
        """Take note of a row, of which nothing has changed."""
        number = row["tag"]["vid"]
        assert row == self.under_way.pop(number)
        self.passed.append(number)

    def ring(self, chiplets: int) -> None:
        """Begin an exchange on a ring of so many chiplets; some may own nothing."""
        sizes = [self.rng.choice((0, 1, _ROWS)) for _ in range(chiplets)]
        base = self.rng.randrange(self.largest - _STRIDE * sum(sizes))
        self.chiplets, self.own = chiplets, self.rng.randrange(chiplets)
        ends = [base + _STRIDE * sum(sizes[:n]) for n in range(chiplets + 1)]
        self.ends, self.limits = ends, [0] * OWNERS
        self.tell(going=1, known=0)

    def tell(self, going: int, known: int) -> None:
        """Tell the gate about the exchange; nothing is right about starts that are not known."""
        starts = self.ends[:-1] + [self.largest] * (OWNERS - self.chiplets)
        if not known:
            starts = [self.rng.randrange(self.largest) for _ in starts]
        fields = {"going": going, "known": known, "own": self.own, "starts": starts, "limits": self.limits}
        self.dut.halo.value = self.codec.pack(fields)

    def rows(self, count: int) -> list[tuple[int, int, bool, int]]:
        """Return rows: number, beat, whether it is marked as own, owner. Own ones are marked, or of another tile."""
        found = []
        for _ in range(count):
            owner = self.rng.choice([n for n in range(self.chiplets) if self.ends[n] < self.ends[n + 1]] or [None])
            if owner is None:
                break
            beat = self.rng.randrange(self.ends[owner], self.ends[owner + 1], _STRIDE)
            mine = owner == self.own and self.rng.random() < 0.7
            found.append((self.number, beat, mine, owner))
            self.number = (self.number + 1) % (1 << self.design.config.vid_bits)
        return found

    def drive(self, rows: list[tuple[int, int, bool, int]]) -> None:
        """Send rows; the tag's VID is a number, and what does not matter to the gate is anything."""
        layout = CombinedRow(self.design.config, self.design.address_width)
        for n, beat, mine, _ in rows:
            row = Codec(layout).unpack(self.rng.getrandbits(layout.size))
            row["range"]["address"], row["tag"]["vid"], row["own"] = beat * self.words, n, int(mine)
            self.under_way[n] = row
            self.bench.drive("i", [row])

    async def count(self, rows: int) -> None:
        """Wait until so many have passed."""
        await self.bench.until(lambda: len(self.passed) == rows)


async def begin(dut: Any, **pace: Any) -> Gate:
    design = halo_gate(**parameters())
    dut.halo.value = 0
    return Gate(await start(dut, design, **pace), design)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def others_wait_and_own_ones_pass(dut: Any, idle: float, stall: float) -> None:
    """Exchange after exchange; limits rise at any pace, and an exchange may end before they have."""
    gate = await begin(dut, idle=idle, stall=stall)
    for chiplets in (2, 3, 5, 16, 4, 2, 9, 16):
        gate.ring(chiplets)
        await gate.bench.cycles(2)
        rows = gate.rows(gate.design.depth - 5)
        gate.passed.clear()
        gate.drive(rows)
        marked = [n for n, _, mine, _ in rows if mine]
        await gate.count(len(marked))
        await gate.bench.cycles(20)
        # Nothing else before it is known whose rows are where.
        assert gate.passed == marked
        others = [row for row in rows if not row[2]]
        for _ in range(gate.rng.choice((0, 3, 40))):
            owner = gate.rng.randrange(chiplets)
            limit = gate.rng.randrange(gate.ends[owner], gate.ends[owner + 1] + 1)
            gate.limits[owner] = max(gate.limits[owner], limit)
            # Own rows go on to come.
            more = [row for row in gate.rows(6) if row[2]]
            marked, rows = marked + [n for n, *_ in more], rows + more
            gate.drive(more)
            gate.tell(going=1, known=1)
            there = [n for n, beat, _, whose in others if whose == gate.own or beat < gate.limits[whose]]
            await gate.count(len(marked) + len(there))
            await gate.bench.cycles(12)
            assert Counter(gate.passed) == Counter(marked + there)
        late = gate.rows(10)
        gate.drive(late)
        gate.tell(going=0, known=0)
        await gate.count(len(rows) + len(late))
        assert Counter(gate.passed) == Counter(n for n, *_ in rows + late)
        await gate.bench.cycles(5)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    gate = await begin(dut)
    rows: list[Any] = []
    while not any(row[3] != gate.own for row in rows):
        gate.ring(4)
        rows = gate.rows(8)
    await gate.bench.cycles(2)
    gate.drive([row for row in rows if row[3] != gate.own])
    await gate.bench.cycles(30)
    assert gate.passed == []
    await gate.bench.reset()
    gate.tell(going=0, known=0)
    await gate.bench.cycles(20)
    assert gate.passed == []
    assert not int(dut.o__valid.value)


@pytest.mark.parametrize(("data_width", "depth"), [(64, 24), (256, 200)])
def test_halo_gate(data_width: int, depth: int) -> None:
    sizes = {"data_width": data_width, "depth": depth, "lanes": 4, "partials": True}
    simulate(halo_gate(**sizes), __name__, parameters=sizes, name=f"halo_gate_{depth}")


def test_a_gate_needs_room() -> None:
    with pytest.raises(ValueError, match="depth must be at least 10, not 9"):
        halo_gate(depth=9)
