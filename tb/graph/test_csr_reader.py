"""Tiled-CSR reader: rows and tiles, uniform and empty rows, wrong offsets, exact cycles (R9, R10)."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import cocotb
import pytest
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Error
from hw.graph.csr_reader import CsrReader
from hw.memory.formats import WORD_BYTES
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from tb.graph.reference import Request, pieces, segments
from tb.graph.responder import Responder

#: Narrow and shallow, and the machine's.
CONFIGURATIONS = {
    "narrow": {"address_width": 20, "data_width": 64, "depth": 16, "offsets_depth": 16},
    "wide": {"address_width": 32, "data_width": 256, "depth": 128, "offsets_depth": 32},
}
_WORDS_OF_LINE = LINE_BYTES // WORD_BYTES


class Reader:
    """Puts arrays into memory, asks for their rows and compares what comes."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.random = bench, bench.random
        self.beat_bytes = parameters()["data_width"] // 8
        self.words = self.beat_bytes // WORD_BYTES
        self.image = b""
        self.gaps = True  # between arrays; their places decide how bursts are cut
        self.ports = [Responder(bench, f"requests__{n}", f"beats__{n}", self.beat_bytes) for n in range(2)]
        self.got: list[dict[str, int]] = []
        self.wanted: list[dict[str, int]] = []
        bench.take("o", self.got.append)

    def _place(self, words: Sequence[int]) -> int:
        """Put words into memory, at a line; return their word address."""
        line = len(self.image) // LINE_BYTES + (self.random.randrange(2) if self.gaps else 0)
        self.image += self.random.randbytes(line * LINE_BYTES - len(self.image))
        data = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
        self.image += data + self.random.randbytes(-len(data) % LINE_BYTES)
        for port in self.ports:
            port.image = self.image
        return line * _WORDS_OF_LINE

    def ask(self, request: Request) -> int:
        """Ask for rows; return the number of beats that must come."""
        junk = self.random.getrandbits(8)
        at = self._place(request.array)
        self.bench.drive(
            "i",
            [
                {
                    "offsets": self._place(request.offsets) if request.offsets is not None else junk,
                    "array": at,
                    "words": len(request.array),
                    "rows": request.rows,
                    "tiles": request.tiles,
                    "paired": int(request.paired),
                    "uniform": int(request.offsets is None),
                    "stride": request.stride if request.offsets is None else junk,
                }
            ],
        )
        found, reports = segments(request)
        self.bench.expect("error", [{"code": code, "info": row} for code, row in reports])
        count = len(self.wanted)
        for segment in found:
            parts = pieces(segment, self.words)
            for number, (beat, mask) in enumerate(parts):
                ends = number == len(parts) - 1
                piece = {
                    "mask": mask,
                    "tile": segment.tile,
                    "first": int(segment.tile == 0 and number == 0),
                    "last": int(segment.tile == request.tiles - 1 and ends),
                    "tile_last": int(ends),
                }
                if mask:
                    piece["data"] = self.ports[1].beat(at // self.words + beat)
                self.wanted.append(piece)
        return len(self.wanted) - count

    async def idle(self) -> None:
        """Wait until the request has ended."""
        for _ in range(400):
            await self.bench.edge
            if not self.bench.dut.busy.value:
                break
        assert not self.bench.dut.busy.value, "the request does not end"

    async def finish(self, timeout: int = 20_000) -> int:
        """Wait until all has come and the reader is idle, compare, and return the cycle of the last beat."""
        bench = self.bench
        await bench.until(
            lambda: (
                len(self.got) >= len(self.wanted)
                and not any(bench.expected.values())
                and not bench.drivers["i"].busy_words
            ),
            timeout,
        )
        cycle = bench.cycle
        await self.idle()
        await bench.cycles(6)
        assert len(self.got) == len(self.wanted)
        for number, (got, wanted) in enumerate(zip(self.got, self.wanted, strict=True)):
            assert {key: got[key] for key in wanted} == wanted, f"beat {number}"
        assert not any(driver.busy_words for driver in bench.drivers.values())
        self.got.clear()
        self.wanted.clear()
        self.image = b""
        return cycle


async def make(dut: Any, idle: float = 0.0, stall: float = 0.0) -> Reader:
    return Reader(await start(dut, CsrReader(**parameters()), idle=idle, stall=stall))


def random_rows(random: Random, rows: int, tiles: int, longest: int) -> Request:
    """Rows of tiles of words, many of them empty."""
    lengths = (0, 0, 1, 1, 2, random.randrange(longest + 1))
    return Request.of_rows(
        [[[random.getrandbits(32) for _ in range(random.choice(lengths))] for _ in range(tiles)] for _ in range(rows)]
    )


@cocotb.test()
async def r10_destination_3_finds_source_4(dut: Any) -> None:
    """Look up the tiled offsets of destination 3, read its range of edges, find source 4."""
    reader = await make(dut)
    # Sources 0 to 3 are tile 0, sources 4 to 7 are tile 1.
    rows = [[[1, 2], [5]], [[0], []], [[0], [6, 7]], [[], [4]], [[], [3]]]
    reader.ask(Request.of_rows(rows[:4]))
    await reader.bench.until(lambda: len(reader.got) == len(reader.wanted))
    last = reader.got[-1]
    chosen = [last["data"] >> 32 * word & 0xFFFFFFFF for word in range(reader.words) if last["mask"] >> word & 1]
    assert (last["tile"], last["last"], chosen) == (1, 1, [4])
    await reader.finish()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def rows_of_one_to_sixteen_tiles(dut: Any, idle: float, stall: float) -> None:
    reader = await make(dut, idle, stall)
    for tiles in (*range(1, 6), 16):
        reader.ask(random_rows(reader.random, reader.random.randrange(1, 10), tiles, 2 * reader.words + 3))
        await reader.finish()


@cocotb.test()
async def as_many_tiles_as_can_be_counted(dut: Any) -> None:
    reader = await make(dut)
    reader.ask(random_rows(reader.random, 2, 255, 1))
    await reader.finish()


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def uniform_rows(dut: Any, pace: float) -> None:
    reader = await make(dut, pace, pace)
    for stride in (1, 2, reader.words - 1, reader.words, reader.words + 1, 3 * reader.words, 5 * reader.words + 1):
        for rows in (1, 2, 7):
            array = [reader.random.getrandbits(32) for _ in range(rows * stride)]
            reader.ask(Request(rows, 1, array, None, stride))
        await reader.finish()


@cocotb.test()
async def empty_rows_tiles_and_arrays(dut: Any) -> None:
    reader = await make(dut)
    shapes: list[list[list[list[int]]]] = [
        [[[]]],
        [[[], []]] * 3,
        [[[]]] * 20,
        [[[]], [[7]], [[]]],
        [[[], [1]], [[], []]],
        [[[1] * 20], [[]]],
    ]
    for rows in shapes:
        reader.ask(Request.of_rows(rows))
        await reader.finish()
    reader.ask(Request(3, 1, [], None, 0))
    await reader.finish()


@cocotb.test()
async def a_request_without_rows_reads_nothing(dut: Any) -> None:
    reader = await make(dut)
    reader.ask(Request(0, 1, [1, 2, 3], [0]))
    reader.ask(Request(0, 1, [1, 2, 3], None, 1))
    reader.ask(Request.of_rows([[[5]]]))
    await reader.finish()
    # Both of its readers asked for one burst, for the one row.
    assert all(len(port.asked) <= 1 + LINE_BYTES // reader.beat_bytes for port in reader.ports)


#: Offsets for four words in rows of two tiles, and what is wrong with them.
WRONG = {
    "out of order": ([0, 2, 1, 3, 4], [(Error.OFFSET_ORDER, 0)]),
    "out of order twice": ([0, 3, 2, 1, 4], [(Error.OFFSET_ORDER, 0), (Error.OFFSET_ORDER, 1)]),
    "last out of order": ([0, 1, 2, 4, 3], [(Error.OFFSET_ORDER, 1)]),
    "past the end": ([0, 1, 9, 4, 4], [(Error.EDGE_RANGE, 0)]),
    "far past the end": ([0, 1, 2, 0xFFFFFFFF, 4], [(Error.EDGE_RANGE, 1)]),
    "last past the end": ([0, 1, 2, 3, 5], [(Error.EDGE_RANGE, 1)]),
    "ending early": ([0, 1, 2, 3, 3], [(Error.EDGE_RANGE, 1)]),
    "ending at once": ([0, 0, 0, 0, 0], [(Error.EDGE_RANGE, 1)]),
    "first not 0": ([1, 1, 2, 3, 4], [(Error.OFFSET_ORDER, 0)]),
    "first past the end": ([0x80000000, 1, 2, 3, 4], [(Error.OFFSET_ORDER, 0)]),
}


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def wrong_offsets_are_reported_with_their_row(dut: Any, stall: float) -> None:
    reader = await make(dut, stall=stall)
    for name, (offsets, reports) in WRONG.items():
        request = Request(2, 2, [10, 11, 12, 13], offsets)
        assert segments(request)[1] == reports, name
        reader.ask(request)
        # What follows is read as if nothing had been wrong.
        reader.ask(random_rows(reader.random, 3, 2, 5))
        await reader.finish()


@cocotb.test()
async def wrong_offsets_of_long_arrays(dut: Any) -> None:
    reader = await make(dut, stall=0.2)
    for _ in range(25):
        request = random_rows(reader.random, reader.random.randrange(1, 8), reader.random.randrange(1, 4), 30)
        assert request.offsets is not None
        offsets = list(request.offsets)
        for _ in range(reader.random.randrange(1, 4)):
            at = reader.random.randrange(len(offsets))
            offsets[at] = reader.random.choice((0, 1, len(request.array), len(request.array) + 1, 40, 0x80000000))
        reader.ask(Request(request.rows, request.tiles, request.array, offsets))
        await reader.finish()


@cocotb.test()
async def uniform_rows_that_do_not_fit_the_array(dut: Any) -> None:
    reader = await make(dut)
    for words, stride in ((10, 3), (13, 3), (0, 5), (100, 1)):
        array = [reader.random.getrandbits(32) for _ in range(words)]
        reader.ask(Request(4, 1, array, None, stride))
        await reader.finish()


def pairs_of(request: Request) -> Request:
    """Return a request for as many pairs as there were words."""
    return replace(request, array=[half for word in request.array for half in (word, ~word & 0xFFFFFFFF)], paired=True)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def offsets_may_count_pairs(dut: Any, stall: float) -> None:
    reader = await make(dut, stall=stall)
    for tiles in (1, 2, 5):
        for _ in range(4):
            request = random_rows(reader.random, reader.random.randrange(1, 10), tiles, 2 * reader.words + 3)
            reader.ask(pairs_of(request))
            # A request of words behind one of pairs, and the other way round.
            reader.ask(random_rows(reader.random, 3, 2, 5))
        await reader.finish()


@cocotb.test()
async def wrong_offsets_of_pairs_are_reported(dut: Any) -> None:
    """Those among them that would be right if their highest bit were lost."""
    reader = await make(dut)
    high = 1 << 31
    beyond = ([0, 1, high | 2, 3, 4], [0, 1, 2, 3, high | 4], [0, 1, 0xC0000002, 4, 4], [0, 1, 0xFFFFFFFF, 4, 4])
    for offsets in (*(offsets for offsets, _ in WRONG.values()), *beyond, [high, 1, 2, 3, 4]):
        reader.ask(pairs_of(Request(2, 2, [10, 11, 12, 13], offsets)))
        reader.ask(pairs_of(random_rows(reader.random, 3, 2, 5)))
        await reader.finish()


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def requests_follow_each_other(dut: Any, stall: float) -> None:
    reader = await make(dut, stall=stall)
    for _ in range(12):
        reader.ask(random_rows(reader.random, reader.random.randrange(1, 5), reader.random.randrange(1, 4), 12))
        array = [reader.random.getrandbits(32) for _ in range(12)]
        reader.ask(Request(4, 1, array, None, 3))
    await reader.finish()


@cocotb.test()
async def it_is_busy_until_the_last_row_has_left(dut: Any) -> None:
    reader = await make(dut)
    assert not dut.busy.value
    reader.bench.pace(stall={"o": 1.0})
    reader.ask(random_rows(reader.random, 8, 2, 5))
    reader.ask(random_rows(reader.random, 8, 2, 5))
    await reader.bench.cycles(4)
    for _ in range(60):
        await reader.bench.edge
        assert dut.busy.value
        assert not dut.i__ready.value
    reader.bench.pace(stall={"o": 0.0})
    await reader.finish()


@cocotb.test()
@cocotb.parametrize(shape=["long", "short", "tiles", "empty", "uniform"])
async def a_beat_or_a_row_a_cycle(dut: Any, shape: str) -> None:
    """Long rows cost as many cycles as they have beats, short ones one each."""
    reader = await make(dut)
    reader.gaps = False
    random, words = reader.random, reader.words
    if shape == "uniform":
        request = Request(40, 1, [random.getrandbits(32) for _ in range(40 * 2 * words)], None, 2 * words)
    else:
        lengths = {"long": [[10 * words]] * 8, "short": [[1]] * 120, "tiles": [[1, 0, 1]] * 40, "empty": [[0]] * 100}
        request = Request.of_rows([[[7] * count for count in row] for row in lengths[shape]])
    began = reader.bench.cycle
    beats = reader.ask(request)
    cycles = await reader.finish() - began
    assert beats < cycles < beats + 20
    expect_cycles(f"graph.csr_reader.{shape}.{parameters()['data_width']}", cycles)


@cocotb.test()
async def the_gap_between_requests(dut: Any) -> None:
    reader = await make(dut)
    reader.gaps = False
    began = reader.bench.cycle
    for _ in range(6):
        reader.ask(Request(1, 1, [5], None, 1))
    cycles = await reader.finish() - began
    expect_cycles(f"graph.csr_reader.gap.{parameters()['data_width']}", cycles)


@cocotb.test()
async def no_more_is_asked_for_than_there_is_room_for(dut: Any) -> None:
    reader = await make(dut)
    reader.bench.pace(stall={"o": 1.0})
    reader.ask(random_rows(reader.random, 60, 1, 80 * reader.words))
    await reader.bench.cycles(500)
    assert len(reader.ports[0].asked) <= parameters()["offsets_depth"] + 16
    assert len(reader.ports[1].asked) <= parameters()["depth"] + 16
    reader.bench.pace(stall={"o": 0.0})
    await reader.finish()


@cocotb.test()
async def the_array_waits_for_its_offsets(dut: Any) -> None:
    """As much of the array is read as there is room for, and two beats in a slice, before the first row is known."""
    reader = await make(dut)
    reader.gaps = False
    reader.ports[0].held = True
    depth = parameters()["depth"]
    reader.ask(Request.of_rows([[[7] * (depth * reader.words)], [[1, 2, 3]]]))
    await reader.bench.cycles(depth + 60)
    assert not reader.got
    assert depth <= len(reader.ports[1].asked) <= depth + 2
    reader.ports[0].release()
    await reader.finish()


@cocotb.test()
async def empty_rows_do_not_wait_for_the_array(dut: Any) -> None:
    reader = await make(dut)
    reader.ports[1].held = True
    reader.ask(Request.of_rows([[[]]] * 5 + [[[7]]]))
    await reader.bench.cycles(60)
    assert len(reader.got) == 5
    reader.ports[1].release()
    await reader.finish()


@cocotb.test()
async def it_waits_for_what_no_row_wants(dut: Any) -> None:
    """Read an array of which the rows take nothing to its end before the next request."""
    reader = await make(dut)
    reader.ask(Request.of_rows([[[7, 8]]]))
    await reader.finish()
    for words in (1, 3 * reader.words):
        reader.ports[1].held = True
        reader.ask(Request(1, 1, [7] * words, None, 0))
        await reader.bench.cycles(80)
        assert len(reader.got) == 1
        assert dut.busy.value
        reader.ports[1].release()
        await reader.finish()


@cocotb.test()
async def rows_of_thousands_of_beats(dut: Any) -> None:
    reader = await make(dut)
    for beats in (4095, 1, 1 / reader.words):
        reader.ask(Request.of_rows([[[7] * int(beats * reader.words)], [[]], [[1, 2, 3]]]))
    reader.ask(Request.of_rows([[[7] * (4095 * reader.words)], [[8] * reader.words], [[9]]]))
    # Where beats are numbered by many bits, short rows see each of the low ones.
    for long in (1024, 2048):
        rows = [[[n] * reader.random.randrange(3 * reader.words)] for n in range(32)]
        reader.ask(Request.of_rows([[[7] * (long * reader.words)], *rows]))
    await reader.finish()


@cocotb.test()
async def every_bit_of_a_count_matters(dut: Any) -> None:
    """Begin requests far too long to be read to their end: a row of 2^n words, 2^n rows, 2^n words for no row."""
    reader = await make(dut)
    address = 3 * _WORDS_OF_LINE
    sizes = [1 << bit for bit in range(10, 32)] + [reader.random.getrandbits(32) | 1 << 10 for _ in range(40)]
    errors: list[Any] = []
    reader.bench.take("error", errors.append)
    for size in sizes:
        row = {"words": size, "rows": 1, "tiles": 1}
        rows = {"words": 0, "rows": size, "tiles": 1}
        none = {"words": size, "rows": 1, "tiles": 1, "uniform": 1}
        for shape, offsets in ((row, [0, size]), (rows, [0]), (none, [0])):
            reader.ports[0].repeat = b"".join(word.to_bytes(WORD_BYTES, "little") for word in offsets)
            reader.ports[1].repeat = bytes(64)
            reader.bench.drive("i", [{"offsets": address, "array": address, **shape}])
            await reader.bench.cycles(64)
            assert dut.busy.value
            if shape is row:
                assert len(reader.got) > 20
                assert not any(beat["last"] for beat in reader.got)
            if shape is rows:
                assert len(reader.ports[0].asked) >= 16
            if shape is none:
                assert len(reader.ports[1].asked) >= 16
            assert [error["code"] for error in errors] == [Error.EDGE_RANGE] * (shape is none)
            await reader.bench.reset()
            for port in reader.ports:
                port.asked.clear()
            reader.got.clear()
            errors.clear()


@cocotb.test()
async def every_bit_of_an_address_matters(dut: Any) -> None:
    reader = await make(dut)
    lines = [1 << bit for bit in range(parameters()["address_width"] - 2 - exact_log2(_WORDS_OF_LINE))]
    for offsets, array in zip(lines, reversed(lines), strict=True):
        reader.ports[0].repeat = bytes(64)
        fields = {
            "offsets": offsets * _WORDS_OF_LINE,
            "array": array * _WORDS_OF_LINE,
            "words": 3,
            "rows": 2,
            "tiles": 1,
        }
        reader.bench.expect("error", [{"code": Error.EDGE_RANGE, "info": 1}])
        reader.bench.drive("i", [fields])
        await reader.bench.until(lambda: len(reader.got) == 2)
        asked = [port.asked[0] * reader.words for port in reader.ports]
        assert asked == [fields["offsets"], fields["array"]]
        await reader.idle()
        for port in reader.ports:
            port.asked.clear()
        reader.got.clear()


@cocotb.test()
async def the_last_of_many_rows_is_reported(dut: Any) -> None:
    reader = await make(dut)
    for rows in (5000, 20_000):
        reader.ask(Request(rows, 1, [1], None, 0))
    await reader.finish(60_000)


@cocotb.test()
async def the_highest_addresses_are_reached(dut: Any) -> None:
    reader = await make(dut)
    top = 1 << (parameters()["address_width"] - 2)
    reader.ports[0].repeat = bytes(64)
    taken = reader.got
    fields = {"offsets": top - _WORDS_OF_LINE, "array": top - _WORDS_OF_LINE, "words": 0, "rows": 3, "tiles": 1}
    reader.bench.drive("i", [fields, {**fields, "words": 3, "uniform": 1, "stride": 1}])
    await reader.bench.until(lambda: len(taken) == 6)
    assert {port.asked[0] for port in reader.ports} == {(top - _WORDS_OF_LINE) // reader.words}


@cocotb.test()
async def reset_in_the_middle_is_followed_by_right_rows(dut: Any) -> None:
    reader = await make(dut, idle=0.2, stall=0.3)
    for _ in range(8):
        reader.ask(random_rows(reader.random, 12, 2, 20))
        await reader.bench.cycles(reader.random.randrange(3, 120))
        await reader.bench.reset()
        reader.got.clear()
        reader.wanted.clear()
        reader.image = b""
        reader.ask(random_rows(reader.random, 4, 2, 6))
        await reader.finish()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_csr_reader(configuration: str) -> None:
    sizes = CONFIGURATIONS[configuration]
    simulate(CsrReader(**sizes), __name__, name=f"csr_reader_{configuration}", parameters=sizes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 8}, r"depth must be in 16\.\.4096, not 8"),
        ({"offsets_depth": 5000}, r"depth must be in 16\.\.4096, not 5000"),
        ({"data_width": 32}, "data_width must be 64, 128 or 256, not 32"),
    ],
)
def test_csr_reader_refuses(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CsrReader(**arguments)
