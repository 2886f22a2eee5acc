"""Feature reader: every vertex's rows once, whole, for a combiner with room; the least loaded one; exact cycles."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import cocotb
import pytest
from amaranth.hdl import Shape

from contracts import Error
from hw.community.feature_reader import FeatureSettings
from hw.community.node_table import Lookup
from hw.community.row_progress import CombinerRow
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec
from sim.harness.expected import expect_cycles
from tb.community.feature_side import FeatureSide
from tb.graph.responder import Responder

_NUMBERS = 1 << 32
#: Words of the longest row.
MOST = 1 << 16
#: Words of a granule, with which rows begin that the table has places of.
GRANULE = 8
#: Beats that are asked for at once, of a row that has more.
PIECE = 4

Rows = list[list[dict[str, Any]]]


class Combiners:
    """Table, memory and combiners around the reader, and the rows that must still come."""

    def __init__(self, bench: Bench, design: FeatureSide) -> None:
        self.bench, self.dut, self.rng, self.config = bench, bench.dut, bench.random, design.config
        self.combiners, self.address_width, self.depth = design.combiners, design.address_width, design.depth
        self.beat_words = self.config.data_width // 32
        # Asked of the configuration once: it makes them anew each time.
        self.tags, self.row_beats = codec(self.config.tag), codec(self.config.pe.row_beat)
        self.task_beats = codec(self.config.pe.task_beat)
        self.rows_given = codec(CombinerRow(self.combiners))
        self.room = self.config.queue
        self.memory = Responder(bench, "request", "beat", 4 * self.beat_words)
        # A prime number of beats, so that every bit of an address counts.
        self.memory.repeat = self.rng.randbytes(4 * self.beat_words * 1021)
        # Combined rows are read past the features.
        self.passing = Responder(bench, "rows_request", "rows_beat", 4 * self.beat_words)
        self.passing.repeat = self.memory.repeat
        self.settings: dict[str, int] = {}
        self.table: dict[int, dict[str, Any]] = {}
        self.wrong: list[int] = []
        self.told: list[int] = []
        bench.take("error", self._tell)
        #: How often a combiner takes no beat.
        self.stall = [0.0] * self.combiners
        self.forget()
        bench.take("o", self._take)
        bench.take("combined", self._pass)
        cocotb.start_soon(self._look_up())
        cocotb.start_soon(self._combine())

    def forget(self) -> None:
        """Nothing has been asked for."""
        self.memory.forget()
        self.passing.forget()
        #: Vertices that have not begun, each with its rows, in order.
        self.rows: deque[Rows] = deque()
        #: Of each combiner, and of what passes by: the rows of the vertex that it gets, beats in its queue, all it got.
        self.begun: list[Rows] = [[] for _ in range(self.combiners + 1)]
        self.level = [0] * self.combiners
        self.got: list[list[int]] = [[] for _ in range(self.combiners + 1)]
        #: What each combiner was said to be given.
        self.given: list[list[int]] = [[] for _ in range(self.combiners)]
        self.wrong.clear()
        self.told.clear()

    def configure(self, **settings: int) -> None:
        """Change where features are; a new table comes with it."""
        names = (
            "features",
            "sparse",
            "words",
            "stride",
            "most",
            "first",
            "combined",
            "placed",
            "shifted",
            "rooted",
            "in_turn",
            "own_more",
            "row_more",
        )
        # Of layers without combined rows these mean nothing.
        unused = ("rows", "row_words", "row_stride", "first_own", "vertices", "ahead")
        shapes = FeatureSettings(self.address_width).members
        other = {name: self.rng.getrandbits(Shape.cast(shapes[name]).width) for name in unused}
        self.settings = dict.fromkeys(names, 0) | other | settings
        self.dut.settings.value = codec(FeatureSettings(self.address_width)).pack(self.settings)
        self.table.clear()

    def anywhere(self, kind: str, words: int, most: int = 20) -> None:
        """Lay rows of a `kind` somewhere, dense ones of so many `words`; some are combined in a "mixed" one."""
        rng, mixed, made = self.rng, kind.startswith("mixed"), kind.startswith("made")
        vertices = rng.choice((0, rng.randrange(_NUMBERS), _NUMBERS - 1))
        placed = kind == "placed" or (kind in ("rooted", "mixed", "mixed sparse") and rng.getrandbits(1))
        self.configure(
            features=rng.randrange(1 << self.address_width - 2),
            first=rng.randrange(_NUMBERS),
            stride=rng.randrange(1 << 17),
            words=rng.randrange(40) if mixed else words,
            most=most,
            sparse=kind in ("sparse", "mixed sparse", "made sparse"),
            combined=kind in ("combined", "placed", "rooted") or mixed,
            rows=rng.randrange(1 << self.address_width - 2),
            row_words=min(words, (self.config.row_beats - 1) * self.beat_words),
            row_stride=rng.randrange(1 << 17),
            placed=placed,
            shifted=placed and mixed,
            rooted=kind == "rooted" or made,
            own_more=rng.randrange(8) * made,
            row_more=rng.randrange(32) * made,
            first_own=rng.randrange(_NUMBERS),
            vertices=vertices,
            ahead=rng.choice((0, rng.randrange(vertices + 1))) if mixed else vertices,
        )

    def entry(self, number: int) -> dict[str, Any]:
        """Return what the table says of an entry; its offset is that of a row of any length if nobody has laid one."""
        return self.table.setdefault(number % _NUMBERS, self._random_entry())

    def _random_entry(self) -> dict[str, Any]:
        rng, most = self.rng, 31 - self.settings["own_more"]
        scales = {
            name: {"mantissa": rng.getrandbits(16), "exponent": rng.randrange(most + 1)}
            for name in ("source", "destination")
        }
        return {"offset": rng.randrange(_NUMBERS), **scales}

    def lay(self, vid: int, words: int, start: int | None = None) -> None:
        """Give a vertex a sparse row of so many words."""
        own = (vid - self.settings["first"]) % _NUMBERS
        first = self.entry(own)
        if start is not None:
            first["offset"] = start
        self.entry(own + 1)["offset"] = (first["offset"] + words) % _NUMBERS

    def vertices(self, count: int) -> list[int]:
        """Return vertices; sparse rows of most of them are right, some empty, some next to each other."""
        vids: list[int] = []
        for _ in range(count):
            vid = (vids[-1] + 1) % _NUMBERS if vids and self.rng.random() < 0.3 else self._any_vertex()
            most = self.settings["most"]
            if self.rng.random() < 0.95:
                self.lay(vid, self.rng.choice((0, 1, most, self.rng.randrange(most + 1))))
            vids.append(vid)
        return vids

    def _any_vertex(self) -> int:
        """Return a vertex, near a limit at times."""
        settings, rng = self.settings, self.rng
        near = settings["first"] + rng.choice((0, settings["ahead"], settings["vertices"])) + rng.randrange(-2, 2)
        return near % _NUMBERS if rng.random() < 0.4 else rng.randrange(_NUMBERS)

    def rows_of(self, wish: dict[str, int]) -> Rows:
        """Return the rows of a vertex: its own one first, if it has one."""
        settings = self.settings
        has_own = settings["rooted"] and (wish["vid"] - settings["first"]) % _NUMBERS < settings["vertices"]
        return [*([self.row(wish, root=1)] if has_own else []), self.row(wish)]

    def row(self, wish: dict[str, int], root: int = 0) -> list[dict[str, Any]]:
        """Return the beats of a vertex's row; remember whether it has a wrong one."""
        settings, vid = self.settings, wish["vid"]
        own = (vid - settings["first"]) % _NUMBERS
        summed = own < settings["vertices"]
        combined = settings["combined"] and not (settings["ahead"] <= own < settings["vertices"])
        entry = self.entry(own + (settings["shifted"] and not summed))
        base, words = settings["features"], settings["words"]
        if combined:
            base, words = settings["rows"], settings["row_words"]
        if root and combined:
            base = settings["features"]
            at = (own + settings["first_own"]) % _NUMBERS * settings["row_stride"]
        elif combined:
            at = entry["offset"] * GRANULE if settings["placed"] else vid * settings["row_stride"]
        elif settings["sparse"]:
            at, words = entry["offset"], self.entry(own + 1)["offset"] - entry["offset"]
            if not 0 <= words <= settings["most"]:
                self.wrong.append(vid)
                words = 0
        else:
            at = own * settings["stride"]
        at = (at + base) % (1 << self.address_width - 2)
        source = entry["source"]
        if settings["rooted"] and not combined:
            # Both rows are made of the same features; the table has the factor of the own one.
            source = {"mantissa": 1 << 15, "exponent": settings["row_more"]}
            if root:
                more = entry["source"]["exponent"] + settings["own_more"]
                source = {"mantissa": entry["source"]["mantissa"], "exponent": more}
        tag = {"beat": 0, **wish, "root": root, "scale": entry["destination"]}
        size = self.beat_words
        beats = []
        for number, beat in enumerate(range(at // size, -(-(at + words) // size) if words else at // size + 1)):
            inside = [at <= beat * size + n < at + words for n in range(size)]
            value = {
                "data": self.memory.beat(beat) if words else 0,
                "mask": sum(3 << 2 * n for n in range(size) if inside[n]),
                "address": self.tags.pack(tag | {"beat": number * combined}),
                "scale": source,
                "combined": combined,
            }
            beats.append(value)
        ends = ({"first": int(n == 0), "last": int(n == len(beats) - 1)} for n in range(len(beats)))
        return [beat | end for beat, end in zip(beats, ends, strict=True)]

    def ask(self, vids: Sequence[int]) -> None:
        """Ask for the rows of these vertices."""
        wishes = [self.wish(vid) for vid in vids]
        self.rows.extend(self.rows_of(wish) for wish in wishes)
        self.bench.drive("i", wishes)

    def wish(self, vid: int) -> dict[str, int]:
        """Return a wish for a vertex, for anybody."""
        codec_ = self.bench.codecs["i"]
        return {**codec_.unpack(self.rng.getrandbits(codec_.width)), "vid": vid}

    def not_asked(self) -> int:
        """Return how many vertices have not been taken."""
        return self.bench.drivers["i"].busy_words

    def finished(self) -> bool:
        """Return whether all rows have come."""
        return not (self.rows or any(self.begun))

    async def reset(self) -> None:
        """Reset in the middle of all."""
        self.memory.forget()
        self.passing.forget()
        stall, self.stall = self.stall, [1.0] * self.combiners
        await self.bench.reset()
        self.stall = stall
        self.forget()

    async def finish(self, timeout: int = 20_000) -> int:
        """Wait until all rows have come; return the cycles. Then nothing is under way."""
        began = self.bench.cycle
        await self.bench.until(self.finished, timeout)
        cycles = self.bench.cycle - began
        while any(self.level):
            await self.bench.cycles(1)
        await self.bench.cycles(8)
        assert sorted(self.told) == sorted(self.wrong)
        assert self.given == self.got[: self.combiners]
        return cycles

    def _take(self, fed: dict[str, Any]) -> None:
        combiner, word = fed["combiner"], fed["beat"]
        wanted = self._next(combiner, word)
        assert not wanted.pop("combined"), "a combined row needs no combiner"
        wanted = self.task_beats.unpack(self.task_beats.pack(wanted))
        if not wanted["first"]:
            # The tag and the factor come with the first beat.
            word, wanted = ({**given, "address": 0, "scale": 0} for given in (word, wanted))
        if not wanted["mask"]:
            # An empty row has no data.
            word, wanted = ({**given, "data": []} for given in (word, wanted))
        assert word == wanted, f"combiner {combiner} got {word}, expected {wanted}"
        self.level[combiner] += 1
        assert self.level[combiner] <= self.room, f"combiner {combiner} has no room"

    def _pass(self, word: dict[str, Any]) -> None:
        wanted = self._next(self.combiners, word)
        assert wanted["combined"], "features are to be combined"
        port = self.row_beats
        last, data, address = wanted["last"], wanted["data"] * bool(wanted["mask"]), wanted["address"]
        wanted = port.unpack(port.pack({"address": address, "data": data, "last": last}))
        if not data:
            word, wanted = ({**given, "data": []} for given in (word, wanted))
        assert word == wanted, f"passed {word}, expected {wanted}, tag {self.tags.unpack(wanted['address'])}"

    def _next(self, to: int, word: dict[str, Any]) -> dict[str, Any]:
        """Return the beat that must come to `to`."""
        begun = self.begun[to]
        if not begun:
            assert word.get("first", 1)
            # Vertices of a combiner begin in the order in which they are asked for, and so do those that pass by.
            passes = to == self.combiners
            place = next(n for n, rows in enumerate(self.rows) if bool(rows[-1][0]["combined"]) == passes)
            begun.extend(self.rows[place])
            del self.rows[place]
            vid = self.tags.unpack(word["address"])["vid"]
            # A combiner gets each row of its own.
            self.got[to].extend([vid] if passes else [vid] * len(begun))
        wanted = begun[0].pop(0)
        if not begun[0]:
            begun.pop(0)
        return wanted

    def _tell(self, report: dict[str, int]) -> None:
        assert report["code"] == Error.OFFSET_ORDER
        self.told.append(report["info"])

    async def _combine(self) -> None:
        """Take beats out of the combiners' queues."""
        while True:
            await self.bench.edge
            given = self.rows_given.unpack(int(self.dut.given.value))
            if given["valid"]:
                self.given[given["combiner"]].append(given["vid"])
            for n, stall in enumerate(self.stall):
                takes = self.level[n] > 0 and self.rng.random() >= stall
                self.level[n] -= takes
                getattr(self.dut, f"taken__{n}").value = int(takes)

    async def _look_up(self) -> None:
        """Say in the next cycle what is known of a vertex."""
        known = codec(Lookup)
        while True:
            await self.bench.edge
            self.dut.found.value = known.pack(self.entry(int(self.dut.vertex.value)))


async def begin(dut: Any, **pace: Any) -> Combiners:
    design = FeatureSide(**parameters())
    dut.go.value = 1
    for n in range(design.combiners):
        getattr(dut, f"taken__{n}").value = 0
    combiners = Combiners(await start(dut, design, **pace), design)
    combiners.configure()
    await combiners.bench.cycles(1)
    return combiners


@cocotb.test()
@cocotb.parametrize(
    kind=["sparse", "dense", "combined", "placed", "rooted", "made", "made sparse", "mixed", "mixed sparse"],
    idle=[0.0, 0.5],
    stall=[0.0, 0.8],
)
async def every_vertex_gets_its_rows(dut: Any, kind: str, idle: float, stall: float) -> None:
    """Wherever they lie, from a memory that is near or far and fails at times, whether combiners are fast or slow."""
    combiners = await begin(dut, idle=idle)
    rng = combiners.rng
    for words in (1, 3, 0, rng.randrange(40), rng.randrange(40, 400)):
        combiners.anywhere(kind, words)
        combiners.memory.latency, combiners.passing.latency = (rng.choice((0, 5, 60)) for _ in range(2))
        combiners.memory.failing = combiners.passing.failing = {rng.getrandbits(20) for _ in range(5)}
        combiners.stall = [stall * rng.random() for _ in combiners.stall]
        combiners.ask(combiners.vertices(40 if words < 40 else 8))
        await combiners.finish()


@cocotb.test()
async def rows_of_every_length_from_every_word(dut: Any) -> None:
    combiners = await begin(dut)
    most = (2 * PIECE + 1) * combiners.beat_words
    combiners.configure(sparse=1, most=most, first=1000, features=99)
    vids = iter(range(1000, _NUMBERS, 2))
    for first in range(combiners.beat_words):
        asked = []
        for words in range(most + 1):
            vid = next(vids)
            combiners.lay(vid, words, 500 + first)
            asked.append(vid)
        combiners.ask(asked)
        await combiners.finish()
        assert not combiners.wrong


@cocotb.test()
async def offsets_out_of_order_are_told_and_rows_empty(dut: Any) -> None:
    combiners = await begin(dut)
    for most in (5, 0, MOST - 1, MOST):
        combiners.configure(sparse=1, most=most, first=_NUMBERS - 7)
        vids = iter(range(0, 1000, 2))
        lengths = [most + 1, -1, 1 - (1 << 31), (1 << 31) - 1, 1 << 17, -(1 << 17), *(1 << n for n in range(17, 32))]
        for length in lengths:
            vid = next(vids)
            combiners.lay(vid, length, 0 if length > 0 else (1 << 31) + 5)
            combiners.ask([vid])
        # And those that are right.
        short = min(most, 9)
        vid = next(vids)
        combiners.lay(vid, short, _NUMBERS - 1 - short)
        combiners.ask([vid])
        assert len(combiners.wrong) == len(lengths)
        await combiners.finish()
        combiners.forget()


@cocotb.test()
@cocotb.parametrize(latency=[0, 40], kind=["dense", "placed", "sparse", "made", "made sparse"])
async def vertices_take_their_cycles(dut: Any, latency: int, kind: str) -> None:
    """One if its row is dense, whether the table says where it is or not; two if it is sparse; or one for each beat.

    Twice as many if its own row is made of the same features.
    """
    combiners = await begin(dut)
    combiners.memory.latency = combiners.passing.latency = latency
    name = f"community.feature_reader.{combiners.combiners}.{combiners.config.data_width}.{latency}.{kind}"
    name = name.replace(" ", "_")
    size = combiners.beat_words
    for beats in (1, 2, 9) if kind != "placed" else (1, 2):
        words = 1 if beats == 1 else beats * size
        placed, stride, made = int(kind == "placed"), 16 * size, int(kind.startswith("made"))
        combiners.configure(
            words=words, most=words, stride=stride, sparse=int(kind.endswith("sparse")), rooted=made,
            placed=placed, combined=placed, row_words=words, vertices=200 * made, rows=0, row_stride=stride,
        )  # fmt: skip
        # Backwards, so that nothing else leads to them.
        for n in range(100):
            if kind == "placed":
                combiners.entry(n)["offset"] = 2 * size * (100 - n)
            if kind.endswith("sparse"):
                combiners.lay(2 * n, words, 16 * size * (100 - n))
        combiners.ask(range(0, 200, 2) if kind.endswith("sparse") else range(100))
        expect_cycles(f"{name}.{beats}", await combiners.finish())


@cocotb.test()
async def the_least_loaded_combiner_gets_the_next_row(dut: Any) -> None:
    """Those that take nothing get what they have room for, the others all the rest, in turn if they are as fast."""
    combiners = await begin(dut)
    combiners.configure(words=1, stride=1)
    for slow in range(combiners.combiners):
        combiners.stall = [1.0 if n == slow else 0.5 for n in range(combiners.combiners)]
        combiners.ask(combiners.vertices(200))
        if combiners.combiners > 1:
            await combiners.bench.until(lambda: len(combiners.rows) < 5)
            shares = [len(got) for got in combiners.got[: combiners.combiners]]
            assert shares[slow] <= combiners.room
            rest = [share for n, share in enumerate(shares) if n != slow]
            assert min(rest) > (200 - combiners.room) / len(rest) * 0.8
        combiners.stall = [0.0] * combiners.combiners
        await combiners.finish()
        for rows in (*combiners.got, *combiners.given):
            rows.clear()


@cocotb.test()
async def a_combiner_gets_no_more_than_it_has_room_for(dut: Any) -> None:
    """Long rows and short ones; a long row's pieces are asked for as soon as there is room for them."""
    combiners = await begin(dut)
    size = combiners.beat_words
    for beats in (1, 2, 3, PIECE, PIECE + 1, 40):
        combiners.configure(words=beats * size, stride=beats * size)
        combiners.stall = [1.0] * combiners.combiners
        combiners.memory.asked.clear()
        combiners.ask(range(100))
        await combiners.bench.cycles(300)
        # A piece is asked for only if the largest one has room.
        most = sum(combiners.level)
        assert most == len(combiners.memory.asked)
        assert all(combiners.room - PIECE < level <= combiners.room for level in combiners.level)
        combiners.stall = [0.0] * combiners.combiners
        await combiners.finish()


@cocotb.test()
async def long_rows_hold_up_nobody(dut: Any) -> None:
    """While one combiner takes nothing of a long row, the others get theirs."""
    combiners = await begin(dut)
    size = combiners.beat_words
    combiners.configure(sparse=1, most=MOST)
    combiners.lay(0, 300 * size, 0)
    for n in range(1, 60):
        combiners.lay(2 * n, 3 * size, 7 * n)
    for slow in range(combiners.combiners):
        combiners.ask([0])
        await combiners.bench.until(lambda: not combiners.rows)
        (slow,) = (n for n in range(combiners.combiners) if combiners.begun[n])
        combiners.stall[slow] = 1.0
        combiners.ask(range(2, 120, 2))
        if combiners.combiners > 1:
            await combiners.bench.until(lambda: not combiners.rows)
            assert combiners.begun[slow]
        combiners.stall = [0.0] * combiners.combiners
        await combiners.finish()


@cocotb.test()
async def rows_in_turn_are_asked_for_one_after_another(dut: Any) -> None:
    """Of the memory's beats each is asked for once, from the first to the last."""
    combiners = await begin(dut)
    size = combiners.beat_words
    for beats in (1, PIECE, PIECE + 3, 3 * PIECE):
        combiners.configure(words=beats * size, stride=beats * size, in_turn=1)
        combiners.stall = [0.5 * combiners.rng.random() for _ in combiners.stall]
        combiners.memory.asked.clear()
        combiners.ask(range(30))
        await combiners.finish()
        assert combiners.memory.asked == list(range(30 * beats))


@cocotb.test()
async def the_longest_rows_come_to_their_end(dut: Any) -> None:
    combiners = await begin(dut)
    combiners.configure(sparse=1, most=MOST)
    combiners.lay(8, MOST, 6)
    combiners.lay(20, MOST - 1, 9)
    combiners.lay(30, 1, 5)
    combiners.ask([8, 30, 20, *[30] * 50])
    await combiners.finish(timeout=2 * MOST)
    combiners.configure(words=MOST, stride=MOST)
    combiners.ask([1, 2])
    await combiners.finish(timeout=2 * MOST)


@cocotb.test()
async def features_wait_until_they_may_go(dut: Any) -> None:
    """They are asked for meanwhile."""
    combiners = await begin(dut)
    combiners.configure(words=1, stride=1)
    dut.go.value = 0
    combiners.ask(range(20))
    await combiners.bench.cycles(200)
    room = combiners.combiners * (combiners.room - PIECE + 1)
    assert len(combiners.memory.asked) == min(20, room, combiners.depth)
    assert not any(map(len, combiners.got))
    dut.go.value = 1
    await combiners.finish()


@cocotb.test()
async def no_more_are_under_way_than_can_be_remembered(dut: Any) -> None:
    """Let the memory answer nothing for a long time."""
    combiners = await begin(dut)
    for words in (1, 0):
        combiners.configure(words=words, stride=1)
        combiners.memory.held = True
        combiners.ask(list(range(200)))
        await combiners.bench.cycles(500)
        if words:
            expect_cycles(f"community.feature_reader.{combiners.combiners}.under_way", 200 - combiners.not_asked())
        combiners.memory.release()
        await combiners.finish()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    combiners = await begin(dut)
    combiners.stall = [0.7] * combiners.combiners
    for cycles in (10, 40, 77, 150):
        for kind in ("sparse", "rooted", "made sparse", "mixed sparse"):
            combiners.anywhere(kind, 90, most=90)
            combiners.memory.latency = combiners.passing.latency = 7
            combiners.ask(combiners.vertices(40))
            await combiners.bench.cycles(cycles)
            await combiners.reset()
            combiners.ask(combiners.vertices(40))
            await combiners.finish()


SIZES = [(1, 256, 128), (2, 64, 16), (5, 128, 64)]


@pytest.mark.parametrize(("combiners", "data_width", "depth"), SIZES)
def test_feature_reader(combiners: int, data_width: int, depth: int) -> None:
    sizes = {"combiners": combiners, "data_width": data_width, "lanes": 4, "depth": depth}
    simulate(FeatureSide(**sizes), __name__, parameters=sizes, name=f"feature_reader_{combiners}")


def test_combiners_are_checked() -> None:
    with pytest.raises(ValueError, match="combiners must be at least 1, not 0"):
        FeatureSide(0)
