"""Row feeder: sends rows of memory words to the ports of a chip's processors, a row for each in turn (D6)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts.dnp.config import WORD
from hw.dnp.port import WORD_STREAM
from hw.memory.formats import Word
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["RowFeeder"]


class RowFeeder(wiring.Component):
    """Sends row r to output r mod `ways`, lower half of a memory word first; each output has a queue of its own.

    Outputs are registers: a processor adds a word in the clock of its arrival, so it must not come from a block RAM.

    Parameters
    ----------
    ways
        Outputs, a power of two.
    depth
        Memory words that wait for an output; with fewer than those of a row, outputs wait for each other.

    Attributes
    ----------
    elements : In(16)
        Of a row, at least 1; a last half that is none of them is dropped. Constant from two cycles before a row on.
    i : stream of `Word`
        Rows, each up to its word marked ``last``.
    o : streams of signed(16)
    """

    def __init__(self, ways: int = 4, depth: int = 128) -> None:
        self.ways, self.depth = ways, depth
        super().__init__(
            {
                "elements": In(WORD),
                "i": In(stream.Signature(Word())),
                "o": Out(WORD_STREAM).array(ways),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Distribute the rows; each output counts the elements of its own."""
        m = Module()
        turn = Signal(range(self.ways))
        final = Signal(WORD)  # number of a row's last element
        m.d.sync += final.eq(self.elements - 1)
        with m.If(self.i.valid & self.i.ready & self.i.payload.last):
            m.d.sync += turn.eq(turn + 1)
        for n, o in enumerate(self.o):
            m.submodules[f"queue_{n}"] = queue = Queue(2 * WORD, self.depth)
            m.submodules[f"slice_{n}"] = halves = Slice(o.payload.shape())
            connect(m, halves.o, flipped(o))
            # The next element; whether it is the last, in a register because the comparison is long.
            element, last = Signal(WORD, name=f"element_{n}"), Signal(name=f"last_{n}")
            following = Signal(WORD, name=f"following_{n}")
            m.d.comb += [
                queue.i.payload.eq(self.i.payload.data),
                queue.i.valid.eq(self.i.valid & (turn == n)),
                following.eq(element),
                halves.i.valid.eq(queue.o.valid),
                halves.i.payload.eq(queue.o.payload.word_select(element[0], WORD)),
                queue.o.ready.eq(halves.i.ready & (last | element[0])),
            ]
            with m.If(turn == n):
                m.d.comb += self.i.ready.eq(queue.i.ready)
            with m.If(halves.i.valid & halves.i.ready):
                m.d.comb += following.eq(Mux(last, 0, element + 1))
            m.d.sync += [element.eq(following), last.eq(following == final)]
            m.d.sync += Cover(halves.i.valid & halves.i.ready & last & ~element[0], "half a word is dropped")
        return m
