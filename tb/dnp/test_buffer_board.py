"""Buffer board: any frames, right and wrong, against what the rules of frames say of them; and its proofs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import cocotb

from contracts import ArrayError
from contracts.dnp import gbus
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import HEADER, Operation, Space
from hw.dnp.buffer_board import BufferBoard
from hw.dnp.factories import buffer_board
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from tb.dnp.formal_buffer_board import PROOFS

CONFIG = ProcessorConfig()
DEPTHS = {Space.PROGRAM: CONFIG.p_depth, Space.WM: CONFIG.wm_depth, Space.XM: CONFIG.xm_depth, Space.STATUS: 64}
CORES = 4
FRAMES = 60


def boards() -> int:
    """Return the number of boards, of two chips each."""
    return int(parameters().get("boards", 2))


def component(boards: int = 2) -> BufferBoard:
    """Make the buffer board as it is tried."""
    return buffer_board(boards, chips=2)


@dataclass
class Expected:
    """What a batch of packets leads to."""

    boards: list[list[int]]
    refusals: list[tuple[int, int]] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)
    aborts: int = 0


class Host:
    """Sends packets and plays the boards."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut, self.random = bench, bench.dut, bench.random
        self.expected = Expected([[] for _ in range(boards())])
        self.found = Expected([[] for _ in range(boards())])
        self.commands: list[list[int]] = [[] for _ in range(boards())]
        #: Words of the frame under way on each board, and those that it owes.
        self._frames: list[list[int]] = [[] for _ in range(boards())]
        self.owed = 0
        self.replies: Iterator[int] = iter([])
        for number in range(boards()):
            bench.take(f"g_o__{number}", partial(self._word, number))
        bench.take("answer", self._answered)
        self.dut.closed.value = self.dut.cut.value = 0
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await self.bench.edge
            refusal = int(self.dut.refusal.value)
            bits = len(self.dut.refusal) - 32
            if code := refusal & ((1 << bits) - 1):
                self.found.refusals.append((code, refusal >> bits))
            if self.dut.restart.value:
                self.found.aborts += 1
                for frame in self._frames:
                    frame.clear()

    def _word(self, number: int, word: int) -> None:
        """Read a board's G-bus: whole frames, commands between them, and nothing while an answer is owed."""
        assert not self.owed, "a word while words are read back"
        frame = self._frames[number]
        operation = HEADER.unpack(word)["operation"]
        if not frame and operation in (Operation.ON, Operation.OFF):
            self.commands[number].append(word)
            return
        frame.append(word)
        self.found.boards[number].append(word)
        reading = HEADER.unpack(frame[0])["operation"] == Operation.READ
        if len(frame) == 3 and reading:
            self.owed = word
            words = [next(self.replies) for _ in range(word)]
            self.bench.drive(f"g_i__{number}", words)
        if len(frame) >= 3 and len(frame) == 3 + (0 if reading else frame[2]):
            frame.clear()

    def _answered(self, word: dict[str, int]) -> None:
        self.owed -= 1
        assert word["last"] == (self.owed == 0)
        self.found.answers.append((word["word"], word["last"]))

    def frame(self, *, closed: bool) -> tuple[list[int], list[int]]:
        """Make a frame, often a wrong one; add what it leads to when it comes whole; return it and its replies."""
        random = self.random
        chips = 2 * boards()
        fields = {
            "operation": random.choice([1, 1, 1, 2, 2, 2, random.randrange(8)]),
            "space": random.randrange(4),
            "all": random.random() < 0.2,
            "chip": random.choice([random.randrange(chips), random.randrange(chips), chips, 1 << random.randrange(8)]),
            "core": random.randrange(4),
        }
        depth = DEPTHS[Space(fields["space"])]
        count = random.choice([0, 1, 2, 3, 5, random.randrange(30)])
        address = random.choice(
            [random.randrange(depth), depth - count, depth - count + 1, 0, 1 << random.randrange(16)]
        )
        if random.random() < 0.1:
            fields["operation"], address, count = 2, 0, depth + 1
        elif random.random() < 0.1:
            fields["operation"], count = 2, 1 << random.randrange(6, 16)
        words = [HEADER.pack(fields), address & 0xFFFF, count]
        if fields["operation"] == Operation.WRITE:
            words += [random.getrandbits(16) for _ in range(count)]
        return (words if fields["operation"] in (1, 2) else words[:1]), self._expect(words, closed=closed)

    def _expect(self, words: list[int], *, closed: bool, cut: int | None = None, elsewhere: bool = False) -> list[int]:
        """Add what a frame leads to; return its replies.

        Of a frame whose packet ends too soon, `cut` words come; its end is seen with the last of them, or with a word
        `elsewhere`, when the frame is under way.
        """
        header, expected = HEADER.unpack(words[0]), self.expected
        operation, space = header["operation"], header["space"]
        writing = operation == Operation.WRITE
        if operation not in (Operation.WRITE, Operation.READ):
            if operation != Operation.NOP:
                expected.refusals.append((ArrayError.OPERATION, words[0]))
            return []
        address, count = words[1:3]
        if cut is not None and cut < 3:
            expected.refusals.append((ArrayError.TRUNCATED, 0))
            return []
        wrong = (
            (not writing and header["all"], ArrayError.OPERATION),
            (writing and space == Space.STATUS, ArrayError.OPERATION),
            (not header["all"] and (header["chip"] >= 2 * boards() or header["core"] >= CORES), ArrayError.TARGET),
            (closed and space != Space.STATUS, ArrayError.ONLINE),
            (address + count > DEPTHS[Space(space)], ArrayError.RANGE),
        )
        for found, code in wrong:
            if found:
                info = address | count << 16 if code == ArrayError.RANGE else words[0]
                expected.refusals.append((code, info))
                return []
        if not count:
            return []
        if cut == 3 and not elsewhere:
            expected.refusals.append((ArrayError.TRUNCATED, count))
            return []
        sent = words if cut is None else words[:cut]
        for number, board in enumerate(expected.boards):
            if header["all"] or header["chip"] // 2 == number:
                board += sent
        if len(sent) < len(words):
            expected.refusals.append((ArrayError.TRUNCATED, len(words) - cut if cut else 0))
            expected.aborts += 1
        if writing:
            return []
        replies = [self.random.getrandbits(16) for _ in range(count)]
        expected.answers += [(word, n == count - 1) for n, word in enumerate(replies)]
        return replies

    async def compare(self) -> None:
        """Wait until all has happened, and a while longer, and compare it."""
        await self.bench.drain(100_000, quiet=60)
        while self.owed:
            await self.bench.cycles(60)
        assert self.found == self.expected
        assert not self.owed


def packet(words: Iterable[int], *, last: bool = True) -> list[dict[str, int]]:
    """Return words of a packet."""
    words = list(words)
    return [{"word": word, "last": int(last and n == len(words) - 1)} for n, word in enumerate(words)]


async def made(dut: Any, stall: float = 0.0) -> Host:
    return Host(await start(dut, component(boards()), idle=stall, stall=stall))


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4], closed=[False, True])
async def frames_pass_whole_or_not_at_all(dut: Any, stall: float, closed: bool) -> None:
    """Several in a packet, and commands at any time between them."""
    host = await made(dut, stall)
    host.dut.closed.value = closed
    given: list[int] = []
    replies: list[int] = []
    for _ in range(5):
        words: list[int] = []
        for _ in range(FRAMES):
            frame, answer = host.frame(closed=closed)
            words += frame
            replies += answer
        host.replies = iter(replies)
        host.bench.drive("i", packet(words))
        while host.bench.drivers["i"].busy_words:
            await host.bench.cycles(host.random.randrange(1, 200))
            if host.random.random() < 0.7:
                given.append(host.random.getrandbits(1))
                host.bench.drive("command", given[-1:])
        await host.compare()
        replies.clear()
    wanted = [(gbus.on() if on else gbus.off())[0] for on in given]
    assert host.commands == [wanted] * boards()


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4])
async def a_packet_that_ends_within_a_frame_leaves_nothing_behind(dut: Any, stall: float) -> None:
    """End it with a word of the frame, or with one that is for another place."""
    host = await made(dut, stall)
    for _ in range(80):
        words, replies = host.frame(closed=False)
        host.replies = iter(replies)
        cut = host.random.randrange(1, 12)
        elsewhere = host.random.random() < 0.5
        if cut < len(words):
            # What was expected of the whole frame is taken back.
            host.expected = Expected(
                [list(board) for board in host.found.boards], list(host.found.refusals), list(host.found.answers),
                host.found.aborts,
            )  # fmt: skip
            host._expect(words, closed=False, cut=cut, elsewhere=elsewhere)
            words = words[:cut]
        host.bench.drive("i", packet(words, last=not elsewhere))
        await host.bench.drain(100_000, quiet=0)
        await host.bench.cycles(40 if cut == 3 else host.random.choice([1, 1, 2, 3, 12]))
        if elsewhere:
            await host.bench.pulse(dut.cut)
        await host.compare()
        assert dut.idle.value


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(closed=[False, True])
async def every_memory_ends_where_it_does(dut: Any, closed: bool) -> None:
    """Read and write up to the last word, one too far, and far away; skip a long frame."""
    host = await made(dut)
    dut.closed.value = closed
    replies: list[int] = []
    words: list[int] = []
    for space, depth in DEPTHS.items():
        far = [(1 << bit, 1) for bit in range(16)]
        near = [(depth - 1, 1), (depth - 1, 2), (depth - 3, 3), (depth - 3, 4), (depth, 1)]
        for address, count in (*near, (65535, 1), (65535, 65535), *far):
            chip = host.random.randrange(2 * boards())
            reading = gbus.read((chip, host.random.randrange(CORES)), space, address, count)
            replies += host._expect(reading, closed=closed)
            words += reading
            if count < 10:
                target = None if host.random.random() < 0.3 else (chip, host.random.randrange(CORES))
                writing = gbus.write(target, space, address, [host.random.getrandbits(16) for _ in range(count)])
                replies += host._expect(writing, closed=closed)
                words += writing
        for count in (depth, depth + 1):
            reading = gbus.read((0, 0), space, 0, count)
            replies += host._expect(reading, closed=closed)
            words += reading
    skipped = gbus.write((0, 1), Space.XM, 60000, [host.random.getrandbits(16) for _ in range(0x8181)])
    for frame in (skipped, gbus.read((0, 0), Space.STATUS, 3, 2)):
        replies += host._expect(frame, closed=closed)
        words += frame
    host.replies = iter(replies)
    host.bench.drive("i", packet(words))
    await host.compare()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def an_answer_is_announced_and_a_reset_leaves_nothing(dut: Any) -> None:
    host = await made(dut)
    for clocks in range(1, 12):
        words = gbus.read((0, 1), Space.WM, 5, 4)
        host.replies = iter([1, 2, 3, 4])
        host.bench.pace(stall={"answer": 1.0})
        host.bench.drive("i", packet(words))
        await host.bench.cycles(clocks)
        assert dut.idle.value == (clocks == 1)
        await host.bench.cycles(20)
        assert dut.answering.value
        await host.bench.reset()
        host.owed = 0
        host._frames = [[] for _ in range(boards())]
        await host.bench.cycles(2)
        assert dut.idle.value
        assert not dut.answering.value


def test_buffer_board() -> None:
    simulate(component(2), __name__, parameters={"boards": 2})


def test_buffer_board_of_one_board() -> None:
    simulate(component(1), __name__, parameters={"boards": 1})


def test_buffer_board_proofs() -> None:
    prove_all("dnp.buffer_board", PROOFS)
