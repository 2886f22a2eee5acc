# mypy: disable-error-code="attr-defined,index"
"""Proof that G-buses see whole frames that the array can carry out, whatever a host sends (D7, D10)."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data

from contracts import ArrayError
from contracts.dnp.config import WORD, ProcessorConfig
from contracts.dnp.gbus import HEADER, Operation, Space
from hw.contracts import struct
from hw.dnp.buffer_board import BufferBoard
from sim.harness.formal import Proof, assert_stream, assume_stream

#: Memories of a few words keep frames short.
CONFIG = ProcessorConfig(wm_depth=3, xm_depth=2, p_depth=4, table_bits=1)
DEPTHS = {Space.PROGRAM: CONFIG.p_depth, Space.WM: CONFIG.wm_depth, Space.XM: CONFIG.xm_depth, Space.STATUS: 64}


class _Reader:
    """What a board makes of the words on its G-bus, by the rules of frames alone."""

    def __init__(self, m: Module, bus: Any, number: int, restart: Any) -> None:
        self.index = Signal(2, name=f"index_{number}")  # 0 header, 1 address, 2 count, 3 words
        self.header = Signal(struct(HEADER), name=f"header_{number}")
        self.address, self.left = Signal(WORD, name=f"address_{number}"), Signal(WORD, name=f"left_{number}")
        self.moves = bus.valid & bus.ready
        incoming = data.View(struct(HEADER), bus.payload)
        framed = (incoming.operation == Operation.WRITE) | (incoming.operation == Operation.READ)
        with m.If(self.moves):
            with m.Switch(self.index):
                with m.Case(0):
                    m.d.sync += Value.cast(self.header).eq(bus.payload)
                    with m.If(framed):
                        m.d.sync += self.index.eq(1)
                with m.Case(1):
                    m.d.sync += [self.address.eq(bus.payload), self.index.eq(2)]
                with m.Case(2):
                    m.d.sync += [self.left.eq(bus.payload), self.index.eq(3)]
                    with m.If((bus.payload == 0) | (self.header.operation == Operation.READ)):
                        m.d.sync += self.index.eq(0)
                with m.Case(3):
                    m.d.sync += self.left.eq(self.left - 1)
                    with m.If(self.left == 1):
                        m.d.sync += self.index.eq(0)
        with m.If(restart):
            m.d.sync += self.index.eq(0)
        #: The header of a frame, and its count, pass in this clock.
        self.begins = self.moves & (self.index == 0) & framed
        self.counted = self.moves & (self.index == 2)
        self.incoming = incoming


class BufferBoardSpec(Elaboratable):
    """Any host, any answers in their turn, memories that open and close between frames."""

    def __init__(self, boards: int) -> None:
        self.boards = boards

    def elaborate(self, platform: Any) -> Module:
        """Drive everything freely and read along on every G-bus."""
        m = Module()
        m.submodules.dut = dut = BufferBoard([[board] for board in range(self.boards)], 4, CONFIG)
        closed, toggles = Signal(), Signal()
        m.d.comb += [
            toggles.eq(AnySeq(1)),
            dut.closed.eq(closed),
            dut.cut.eq(AnySeq(1)),
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.word.eq(AnySeq(WORD)),
            dut.i.payload.last.eq(AnySeq(1)),
            dut.command.valid.eq(AnySeq(1)),
            dut.command.payload.eq(AnySeq(1)),
            dut.answer.ready.eq(AnySeq(1)),
            # One stream brings both.
            Assume(~(dut.cut & dut.i.valid)),
        ]
        with m.If(toggles & dut.idle & ~dut.i.valid):
            m.d.sync += closed.eq(~closed)
        assume_stream(m, dut.i, "i")
        assume_stream(m, dut.command, "command")
        restart = Signal()
        m.d.sync += restart.eq(dut.restart)
        readers = []
        for number, bus in enumerate(dut.g_o):
            m.d.comb += bus.ready.eq(AnySeq(1))
            readers.append(reader := _Reader(m, bus, number, restart))
            assert_stream(m, bus, f"g_o_{number}")
            self._frames(m, dut, reader, number, closed)
            self._commands(m, dut, reader, number)
        owed = self._answers(m, dut, readers)
        m.d.comb += [
            Cover(dut.restart),
            Cover((owed == 1) & dut.answer.valid & dut.answer.ready & (readers[0].left == 2)),
            Cover(readers[-1].moves & (readers[-1].index == 3) & (readers[-1].left == 1) & readers[-1].header.all),
            *(
                Cover(dut.refusal.code == code)
                for code in ArrayError
                if ArrayError.OPERATION <= code < ArrayError.ACCESS
            ),
        ]
        return m

    def _frames(self, m: Module, dut: BufferBoard, reader: _Reader, number: int, closed: Any) -> None:
        """Say which frames a board may see."""
        incoming, header = reader.incoming, reader.header
        status = incoming.space == Space.STATUS
        reading = incoming.operation == Operation.READ
        with m.If(reader.begins):
            m.d.comb += [
                Assert(Cat(incoming.all, incoming.chip == number).any()),
                Assert(~(incoming.all & reading)),
                Assert(reading | ~status),
                Assert(status | ~closed),
            ]
        with m.If(reader.counted):
            end = reader.address + dut.g_o[number].payload
            m.d.comb += Assert(dut.g_o[number].payload != 0)
            for space, depth in DEPTHS.items():
                m.d.comb += Assert((header.space != space) | (end <= depth))

    def _commands(self, m: Module, dut: BufferBoard, reader: _Reader, number: int) -> None:
        """Let nothing but commands stand between frames, each once on every board."""
        had, now, operation = Signal(name=f"had_{number}"), Signal(name=f"now_{number}"), reader.incoming.operation
        m.d.comb += now.eq(reader.moves & (reader.index == 0) & ~reader.begins)
        m.d.sync += had.eq((had | now) & ~dut.command.ready)
        m.d.comb += Assert(~dut.command.ready | had | now)
        with m.If(now):
            m.d.comb += [
                Assert(dut.command.valid & ~had & reader.incoming.all),
                Assert(operation == Mux(dut.command.payload, Operation.ON, Operation.OFF)),
            ]

    def _answers(self, m: Module, dut: BufferBoard, readers: list[_Reader]) -> Signal:
        """Let a board answer what it is asked for; nothing else moves until all of it has left."""
        owed = Signal(WORD)
        asked, which = Signal(), Signal(range(max(2, self.boards)))
        for number, reader in enumerate(readers):
            with m.If(reader.counted & (reader.header.operation == Operation.READ)):
                m.d.comb += asked.eq(1)
                m.d.sync += [owed.eq(dut.g_o[number].payload), which.eq(number)]
        for number, bus in enumerate(dut.g_i):
            m.d.comb += [
                bus.valid.eq(AnySeq(1)),
                bus.payload.eq(AnySeq(WORD)),
                Assume(~bus.valid | ((owed != 0) & (which == number))),
            ]
            with m.If(bus.valid):
                m.d.comb += Assert(dut.answer.valid & (dut.answer.payload.word == bus.payload))
        leaves = dut.answer.valid & dut.answer.ready
        with m.If(leaves):
            m.d.sync += owed.eq(owed - 1)
        m.d.comb += [
            Assert(~dut.answer.valid | (owed != 0)),
            Assert(~dut.answer.valid | (dut.answer.payload.last == (owed == 1))),
            Assert((owed == 0) | ~Cat(bus.valid for bus in dut.g_o).any()),
            Assert((owed == 0) | dut.answering),
            Assert(~(asked & leaves)),
        ]
        return owed


PROOFS = [
    Proof("only_whole_frames_pass", lambda: BufferBoardSpec(1), "bmc", 16),
    Proof("each_board_sees_its_own", lambda: BufferBoardSpec(2), "bmc", 12),
    Proof("reaches_its_states", lambda: BufferBoardSpec(2), "cover", 16),
]
