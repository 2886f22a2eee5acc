# mypy: disable-error-code="attr-defined,index,arg-type"
"""Buffer board: brings frames from the host to the boards' G-buses, and their data back (D7, D10)."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Shape, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import ArrayError
from contracts.dnp.config import WORD, ProcessorConfig
from contracts.dnp.gbus import HEADER, Operation, off, on
from hw.contracts import struct
from hw.dnp.ccb import G_BUS
from hw.dnp.core import Space, Status
from hw.dnp.formats import FrameWord, Refusal

__all__ = ["BufferBoard"]

#: Words of a frame before its own: header, address, count.
_HEAD = 3
_ADDRESSED = (Operation.WRITE, Operation.READ)


class BufferBoard(wiring.Component):
    """Hands on whole frames that the array can carry out, and nothing of any other.

    A frame goes on when its first three words are there and have been checked. A frame for one chip goes to its board,
    one for all processors to every board, which may take a word in different clocks. Nothing follows a READ until its
    last word has left. A packet may hold several frames and ends behind one; if it ends within a WRITE whose words are
    under way, `restart` resets the chips' control blocks, which wait for the rest.

    Parameters
    ----------
    boards
        For each board the numbers of its chips.
    cores
        Processors of a chip.
    config
        Memory sizes of the processors.

    Attributes
    ----------
    i : stream of `FrameWord`
        Frames from the host; ``last`` at the end of a packet.
    cut : In(1)
        A packet ends in this clock with a word that is not for a G-bus.
    command : stream of unsigned(1)
        1: ON for all processors, 0: OFF. Sent before the next frame goes on.
    closed : In(1)
        Memories cannot be reached, as programs run or are about to.
    g_o, g_i : streams of unsigned(16)
        G-bus to and from each board.
    answer : stream of `FrameWord`
        Words that were read; ``last`` at the end of a frame's.
    refusal : Out
        See `Refusal`.
    idle : Out(1)
        All frames that were taken have been carried out.
    answering : Out(1)
        Words are being read.
    restart : Out(1)
        The array has to be reset in the next clock, for a clock.
    """

    def __init__(self, boards: Sequence[Sequence[int]], cores: int, config: ProcessorConfig) -> None:
        self.boards, self.cores, self.config = boards, cores, config
        super().__init__(
            {
                "i": In(stream.Signature(FrameWord())),
                "cut": In(1),
                "command": In(stream.Signature(unsigned(1))),
                "closed": In(1),
                "g_o": Out(G_BUS).array(len(boards)),
                "g_i": In(G_BUS).array(len(boards)),
                "answer": Out(stream.Signature(FrameWord())),
                "refusal": Out(Refusal()),
                "idle": Out(1),
                "answering": Out(1),
                "restart": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Collect a frame's head, check it, and send it with its words, or skip those."""
        m = Module()
        head = Array(Signal(WORD, name=name) for name in ("header", "address", "left"))
        header, left, reading = data.View(struct(HEADER), head[0]), head[2], Signal()
        place = Signal(range(_HEAD))
        # The packet ends in this clock; it has ended since the frame began.
        taken, ends, ended = Signal(), Signal(), Signal()
        word = self.i.payload.word
        m.d.comb += [
            reading.eq(header.operation == Operation.READ),
            taken.eq(self.i.valid & self.i.ready),
            ends.eq((taken & self.i.payload.last) | self.cut),
        ]
        m.d.sync += ended.eq(ended | ends)
        code, info = self._check(header, head[1], left)
        chosen, send, sent, outgoing = Signal(len(self.boards)), Signal(), Signal(), Signal(WORD)
        self._distribute(m, chosen, send, outgoing, sent)
        answered = self._answers(m, left)
        with m.FSM():
            with m.State("COLLECT"):
                with m.If(place == 0):
                    self._first_word(m, head[0], place, ended, taken)
                with m.Else():
                    m.d.comb += self.i.ready.eq(~self.command.valid & ~ended)
                    with m.If(taken):
                        m.d.sync += [head[place].eq(word), place.eq(place + 1)]
                    with m.If(taken & (place == _HEAD - 1)):
                        m.d.sync += place.eq(0)
                        m.next = "CHECK"
                    with m.Elif(ends | ended):
                        m.d.comb += self._refused(ArrayError.TRUNCATED, 0)
                        m.d.sync += place.eq(0)
                with m.If(self.command.valid):
                    m.next = "COMMAND"
            with m.State("COMMAND"):
                m.d.comb += [
                    chosen.eq(~0),
                    send.eq(1),
                    outgoing.eq(Mux(self.command.payload, on()[0], off()[0])),
                    self.command.ready.eq(sent),
                ]
                with m.If(sent):
                    m.next = "COLLECT"
            with m.State("CHECK"):
                right = code == ArrayError.NONE
                missing = (ended | ends) & ~reading & (left != 0) & right
                m.d.comb += self._refused(Mux(missing, ArrayError.TRUNCATED, code), Mux(missing, left, info))
                with m.If((left == 0) | missing | (~right & reading)):
                    m.next = "COLLECT"
                with m.Elif(right):
                    m.next = "HEAD"
                with m.Else():
                    m.next = "SKIP"
            with m.State("HEAD"):
                m.d.comb += [chosen.eq(self._chosen(header)), send.eq(1), outgoing.eq(head[place])]
                with m.If(sent):
                    m.d.sync += place.eq(place + 1)
                with m.If(sent & (place == _HEAD - 1)):
                    m.d.sync += place.eq(0)
                    m.next = "WORDS"
                    with m.If(reading):
                        m.next = "ANSWER"
            with m.State("WORDS"):
                m.d.comb += [
                    chosen.eq(self._chosen(header)),
                    send.eq(self.i.valid & ~ended),
                    outgoing.eq(word),
                    self.i.ready.eq(sent),
                ]
                with m.If(taken):
                    m.d.sync += left.eq(left - 1)
                with m.If(taken & (left == 1)):
                    m.next = "COLLECT"
                with m.Elif(ends | ended):
                    m.d.comb += self._refused(ArrayError.TRUNCATED, left - taken)
                    m.next = "ABORT"
            with m.State("ANSWER"):
                m.d.comb += self.answering.eq(1)
                with m.If(answered):
                    m.d.sync += left.eq(left - 1)
                with m.If(answered & (left == 1)):
                    m.next = "COLLECT"
            with m.State("SKIP"):
                m.d.comb += self.i.ready.eq(~ended)
                with m.If(taken):
                    m.d.sync += left.eq(left - 1)
                with m.If((taken & (left == 1)) | ends | ended):
                    m.next = "COLLECT"
            with m.State("ABORT"):
                m.d.comb += self.restart.eq(1)
                m.next = "RESET"
            with m.State("RESET"):
                m.next = "COLLECT"
        m.d.sync += Cover(self.restart, "a packet ends within a frame that is under way")
        return m

    def _first_word(self, m: Module, header: Signal, place: Signal, ended: Signal, taken: Signal) -> None:
        """Take the header of a frame, and refuse one that no words follow unless it is that of a NOP."""
        word, last = self.i.payload.word, self.i.payload.last
        operation = data.View(struct(HEADER), word).operation
        addressed = Cat(operation == known for known in _ADDRESSED).any()
        m.d.comb += [self.idle.eq(1), self.i.ready.eq(~self.command.valid)]
        m.d.sync += ended.eq(0)
        with m.If(taken):
            m.d.sync += header.eq(word)
            with m.If(addressed & ~last):
                m.d.sync += place.eq(1)
            with m.Elif(addressed):
                m.d.comb += self._refused(ArrayError.TRUNCATED, 0)
            with m.Elif(operation != Operation.NOP):
                m.d.comb += self._refused(ArrayError.OPERATION, word)

    def _refused(self, code: Any, info: Any) -> list[Any]:
        return [self.refusal.code.eq(code), self.refusal.info.eq(info)]

    def _chosen(self, header: Any) -> Any:
        """Return a bit for each board: the frame is for it."""
        return Cat(
            header.all | Cat(header.chip == chip for chip in chips).any() if len(self.boards) > 1 else 1
            for chips in self.boards
        )

    def _check(self, header: Any, address: Any, count: Any) -> tuple[Any, Any]:
        """Return what is wrong with a frame of this head, or ``NONE``, and the info; the first reason counts."""
        depths = {
            Space.PROGRAM: self.config.p_depth,
            Space.WM: self.config.wm_depth,
            Space.XM: self.config.xm_depth,
            Space.STATUS: 1 << Shape.cast(Status).width,
        }
        end = address + count
        beyond = Cat((header.space == space.value) & (end > depth) for space, depth in depths.items()).any()
        status, reading = header.space == Space.STATUS.value, header.operation == Operation.READ
        chips = sum(map(len, self.boards))
        reasons = (
            (reading & header.all, ArrayError.OPERATION),
            (~reading & status, ArrayError.OPERATION),
            (~header.all & ((header.chip >= chips) | (header.core >= self.cores)), ArrayError.TARGET),
            (self.closed & ~status, ArrayError.ONLINE),
            (beyond, ArrayError.RANGE),
        )
        code: Any = ArrayError.NONE
        for wrong, reason in reversed(reasons):
            code = Mux(wrong, reason, code)
        return code, Mux(code == ArrayError.RANGE, Cat(address, count), header)

    def _distribute(self, m: Module, chosen: Signal, send: Signal, word: Signal, sent: Signal) -> None:
        """Send a word to the boards that are chosen; it has been sent when the last of them takes it."""
        had = Signal(len(self.boards))  # boards that have taken the word while others have not
        ready = Cat(bus.ready for bus in self.g_o)
        m.d.comb += sent.eq(send & (~chosen | had | ready).all())
        m.d.sync += had.eq(Mux(sent | ~send, 0, had | (chosen & ready)))
        for board, bus in enumerate(self.g_o):
            m.d.comb += [bus.valid.eq(send & chosen[board] & ~had[board]), bus.payload.eq(word)]

    def _answers(self, m: Module, left: Signal) -> Any:
        """Join the boards' answers, of which one comes at a time; return whether a word leaves."""
        answer, word = self.answer, 0
        for bus in self.g_i:
            word |= Mux(bus.valid, bus.payload, 0)
            m.d.comb += bus.ready.eq(answer.ready)
        m.d.comb += [
            answer.valid.eq(Cat(bus.valid for bus in self.g_i).any()),
            answer.payload.word.eq(word),
            answer.payload.last.eq(left == 1),
        ]
        return answer.valid & answer.ready
