"""Typed first-in first-out queue between two streams."""

from typing import Any, Literal

from amaranth.hdl import Assert, Cover, Module, Mux, Shape, ShapeLike, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import following
from hw.block_memory import NO_BYPASS, registered_read

#: Deepest queue that "auto" keeps in registers or distributed RAM; an ECP5 slice holds 16 rows.
SHALLOW = 32


class Queue(wiring.Component):
    """A queue of `depth` words.

    Both directions are cut: ``i.ready`` and ``o.valid`` come from registers of the queue alone. A word written
    to an empty queue can be read `latency` cycles later; one word passes per cycle from then on.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words held, at least 1.
    storage
        ``"distributed"`` reads its memory combinationally (registers or LUT RAM, latency 1), ``"block"`` reads it
        through a register (block RAM, latency 2); ``"auto"`` takes ``"block"`` above `SHALLOW` words.

    Attributes
    ----------
    latency
        Cycles from writing into an empty queue until the word is offered.

    Raises
    ------
    ValueError
        If `depth` is below 1, or below 3 with ``"block"`` storage, or `storage` is none of the three.
    """

    #: Words to write; ``ready`` while the queue is not full.
    i: stream.Interface
    #: Oldest word; ``valid`` while there is one.
    o: stream.Interface
    #: Words held now, 0 to `depth`.
    level: Signal

    def __init__(
        self, shape: ShapeLike, depth: int, *, storage: Literal["auto", "distributed", "block"] = "auto"
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        if storage not in ("auto", "distributed", "block"):
            raise ValueError(f"storage must be 'auto', 'distributed' or 'block', not {storage!r}")
        if storage == "block" and depth < 3:
            raise ValueError(f"depth must be at least 3 with storage 'block', not {depth!r}")
        self.shape = shape
        self.depth = depth
        self.block = storage == "block" or (storage == "auto" and depth > SHALLOW)
        self.latency = 2 if self.block else 1
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Keep the words in block RAM, or in the library's queue, which carries bare bits."""
        m = Module()
        if self.block:
            self._block(m)
        else:
            self._distributed(m)
        m.d.sync += Cover(~self.i.ready, "full")
        if self.depth > 1:
            m.d.sync += Cover(self.i.valid & self.i.ready & self.o.valid & self.o.ready, "write and read at once")
        return m

    def _distributed(self, m: Module) -> None:
        """Wrap the library's queue; its combinational one would address its only word with a vector of no bits."""
        kind = fifo.SyncFIFOBuffered if self.depth == 1 else fifo.SyncFIFO
        m.submodules.fifo = words = kind(width=Shape.cast(self.shape).width, depth=self.depth)
        m.d.comb += [
            words.w_data.eq(self.i.payload),
            words.w_en.eq(self.i.valid),
            self.i.ready.eq(words.w_rdy),
            self.o.payload.eq(words.r_data),
            self.o.valid.eq(words.r_rdy),
            words.r_en.eq(self.o.ready),
            self.level.eq(words.level),
        ]

    def _block(self, m: Module) -> None:
        """Keep all words but the oldest in block RAM, and the oldest in its output."""
        rows = self.depth - 1
        m.submodules.rows = memory = Memory(
            shape=Shape.cast(self.shape).width, depth=rows, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = memory.write_port(), registered_read(m, memory)
        # Words in block RAM, and whether there are none or as many as it holds.
        kept = Signal(range(rows + 1))
        some, room = Signal(), Signal(init=1)
        put, move = Signal(), Signal()
        m.d.comb += [
            put.eq(self.i.valid & room),
            move.eq(some & (~self.o.valid | self.o.ready)),
            self.i.ready.eq(room),
            write.en.eq(put),
            write.data.eq(self.i.payload),
            read.en.eq(move),
            self.o.payload.eq(read.data),
            self.level.eq(kept + self.o.valid),
        ]
        m.d.sync += [
            write.addr.eq(Mux(put, following(write.addr, rows), write.addr)),
            read.addr.eq(Mux(move, following(read.addr, rows), read.addr)),
        ]
        with m.If(put & ~move):
            m.d.sync += [kept.eq(kept + 1), some.eq(1), room.eq(kept != rows - 1)]
        with m.Elif(move & ~put):
            m.d.sync += [kept.eq(kept - 1), some.eq(kept != 1), room.eq(1)]
        with m.If(move):
            m.d.sync += self.o.valid.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        # The addresses are equal only while the memory is empty or full, so no word is read while it is written.
        ahead = Mux(write.addr < read.addr, write.addr + rows - read.addr, write.addr - read.addr)
        m.d.sync += [
            Assert(~(put & move & (write.addr == read.addr)), "a word is read while it is written"),
            Assert((write.addr < rows) & (read.addr < rows), "an address is in the memory"),
            Assert(
                Mux(ahead == 0, (kept == 0) | (kept == rows), kept == ahead), "all words between the addresses are kept"
            ),
            Assert((some == (kept != 0)) & (room == (kept != rows)), "the flags agree with the number of words"),
        ]
