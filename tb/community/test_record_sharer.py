"""Record sharer: extreme records once for each piece, others once, in order, whole, in exact cycles."""

from typing import Any

import cocotb
import pytest
from amaranth.hdl import Module, Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.communities import PIECE_BITS
from hw.community.record_sharer import RecordSharer
from hw.community.record_words import WordFormat
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec

Pair = dict[str, Any]

SIZES: tuple[dict[str, int], ...] = ({"width": 8, "vid_bits": 3}, {"width": 64, "vid_bits": 9})


class Decided(wiring.Component):
    """A record sharer with what is decided about each record beside its pairs, and the rows beside what it issues.

    Attributes
    ----------
    i : stream of a pair and whether its record is ``extreme``, which counts with a head only
    o : stream of a pair and ``rows``
    shared, idle : Out(1)
        Those of the sharer.
    """

    def __init__(self, width: int, vid_bits: int) -> None:
        self.sizes = sizes = WordFormat(width, vid_bits, shares=True)
        super().__init__(
            {
                "i": In(stream.Signature(data.StructLayout({"pair": sizes.pair, "extreme": 1}))),
                "o": Out(stream.Signature(data.StructLayout({"pair": sizes.pair, "rows": sizes.count_bits}))),
                "shared": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the sharer."""
        m = Module()
        m.submodules.sharer = sharer = RecordSharer(self.sizes)
        m.d.comb += [
            sharer.i.payload.eq(self.i.payload.pair),
            sharer.i.valid.eq(self.i.valid),
            self.i.ready.eq(sharer.i.ready),
            sharer.extreme.eq(self.i.payload.extreme),
            self.o.payload.pair.eq(sharer.o.payload),
            self.o.payload.rows.eq(sharer.rows),
            self.o.valid.eq(sharer.o.valid),
            sharer.o.ready.eq(self.o.ready),
            self.shared.eq(sharer.shared),
            self.idle.eq(sharer.idle),
        ]
        return m


def sharer(**sizes: int) -> Decided:
    """Return a record sharer with what is decided about records beside them."""
    return Decided(**sizes)


class Records:
    """Records for a sharer, and what must become of them."""

    def __init__(self, bench: Bench, sizes: WordFormat) -> None:
        self.bench, self.sizes, self.size = bench, sizes, sizes.width >> PIECE_BITS
        self.head, self.bits = Codec(sizes.head), Shape.cast(sizes.word.members["data"]).width
        #: Records that are split, and pulses that say so.
        self.wanted = self.shared = 0
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await self.bench.cycles(1)
            self.shared += int(self.bench.dut.shared.value)

    def _word(self, *, last: int) -> Pair:
        rng = self.bench.random
        return {"data": rng.getrandbits(self.bits), "end": rng.getrandbits(1), "last": last}

    def send(self, nodes: int, pairs: int, *, extreme: bool) -> int:
        """Send a record of so many nodes and pairs of words, and expect its shares; return their number.

        The words but for the head, and its other fields, are any: a sharer does not look at them.
        """
        rng = self.bench.random
        # The last pair has one word, behind which any bits are, or its second one is the last.
        both = [n < pairs - 1 or rng.random() < 0.5 for n in range(pairs)]
        ends = [rng.getrandbits(1) if not both[n] else int(n == pairs - 1) for n in range(pairs)]
        sent: list[Pair] = [
            {"words": [self._word(last=rng.getrandbits(1)), self._word(last=ends[n])], "both": int(both[n])}
            for n in range(pairs)
        ]
        fields = self.head.unpack(rng.getrandbits(self.head.width)) | {"nodes": nodes}
        word = sent[0]["words"][0]
        above = word["data"] >> self.head.width << self.head.width
        word["data"] = self.head.pack(fields) | above
        said = [int(extreme), *(rng.getrandbits(1) for _ in range(pairs - 1))]
        self.bench.drive("i", [{"pair": pair, "extreme": one} for pair, one in zip(sent, said, strict=True)])
        splits = extreme and nodes > self.size
        self.wanted += splits
        pieces = range(-(-nodes // self.size)) if splits else range(1)
        for piece in pieces:
            rows = nodes
            first = sent[0]
            if splits:
                rows = min(self.size, nodes - piece * self.size)
                # The rest of the word is 0: a head has no more.
                head = {**word, "data": self.head.pack(fields | {"vid": 1 | piece << 1})}
                first = {**first, "words": [head, first["words"][1]]}
            # Rows count with a head only: beside another pair they are its bits.
            others = [{"pair": pair, "rows": self._bits(pair)} for pair in sent[1:]]
            self.bench.expect("o", [{"pair": first, "rows": rows}, *others])
        return len(pieces)

    def _bits(self, pair: Pair) -> int:
        mask = (1 << self.head.width) - 1
        return int(self.head.unpack(pair["words"][0]["data"] & mask)["nodes"])

    def any(self, *, extreme: bool) -> int:
        """Send any record; most are of one node."""
        rng = self.bench.random
        nodes = rng.choice((1, 1, self.size, self.size + 1, rng.randint(1, self.sizes.width)))
        nodes = min(max(nodes, 1), self.sizes.width)
        return self.send(nodes, rng.randint(1 if nodes == 1 else 2, self.sizes.longest), extreme=extreme)


async def begin(dut: Any, **pace: Any) -> tuple[Bench, Records]:
    model = sharer(**(SIZES[0] | parameters()))
    bench = await start(dut, model, **pace)
    return bench, Records(bench, model.sizes)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def every_piece_is_issued_once(dut: Any, idle: float, stall: float) -> None:
    bench, records = await begin(dut, idle=idle, stall=stall)
    for _ in range(20):
        for _ in range(8):
            records.any(extreme=bool(bench.random.getrandbits(1)))
        await bench.drain(50_000)
        await bench.cycles(2)
        assert int(dut.idle.value)
        assert records.shared == records.wanted


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def every_size_is_cut_into_its_pieces(dut: Any, stall: float) -> None:
    bench, records = await begin(dut, stall=stall)
    for nodes in range(1, records.sizes.width + 1):
        records.send(nodes, 2 + nodes % 3, extreme=True)
        records.send(nodes, 2, extreme=False)
    await bench.drain(50_000)
    await bench.cycles(2)
    assert records.shared == records.wanted == records.sizes.width - records.size


@cocotb.test()
async def it_is_not_idle_before_the_last_share_is_out(dut: Any) -> None:
    bench, records = await begin(dut)
    for pairs in (2, 3, records.sizes.longest):
        shares = records.send(records.sizes.width, pairs, extreme=True)
        begun = bench.received("o")
        for _ in range(10_000):
            await bench.cycles(1)
            out = bench.received("o") - begun
            if pairs < out < shares * pairs - 1:
                assert not int(dut.idle.value)
            if out == shares * pairs:
                break
        await bench.cycles(2)
        assert int(dut.idle.value)
        await bench.drain()


@cocotb.test()
async def records_take_a_cycle_for_each_pair(dut: Any) -> None:
    """Pass the first share like a record, and lose one cycle before the others."""
    bench, records = await begin(dut)
    await bench.cycles(1)
    for nodes, pairs, extreme in ((1, 1, False), (1, 1, True), (records.sizes.width, 4, False), (1, 3, True)):
        for _ in range(20):
            records.send(nodes, pairs, extreme=extreme)
        began = bench.cycle
        assert await bench.drain() - began == 20 * pairs
    width = records.sizes.width
    for nodes in (records.size + 1, width // 2, width):
        shares = sum(records.send(nodes, 3, extreme=True) for _ in range(5))
        began = bench.cycle
        assert await bench.drain() - began == 3 * shares + 5


@cocotb.test()
async def a_reset_leaves_no_share(dut: Any) -> None:
    bench, records = await begin(dut, stall=0.3)
    for _ in range(30):
        for _ in range(4):
            records.any(extreme=True)
        await bench.cycles(bench.random.randrange(4 * records.sizes.longest))
        await bench.reset()
        assert int(dut.idle.value)
        for _ in range(3):
            records.any(extreme=bool(bench.random.getrandbits(1)))
        await bench.drain(50_000)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_record_sharer(sizes: dict[str, int]) -> None:
    simulate(sharer(**sizes), __name__, parameters=sizes)
