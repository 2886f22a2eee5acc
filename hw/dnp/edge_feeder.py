# mypy: disable-error-code="attr-defined,index"
"""Edge feeder: brings words of the host to the edge ports of an array while its programs run (D6, D10)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from contracts import ArrayError
from contracts.dnp.board import BEAT
from contracts.dnp.topology import Grid, Topology
from hw.contracts import struct
from hw.dnp.formats import Refusal
from hw.dnp.port import WORD_STREAM
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["EdgeFeeder"]


class EdgeFeeder(wiring.Component):
    """The way in of the interface board: a queue and a register in front of each edge port.

    A word waits only for room in its own port's queue, and those behind it with it. Words for a port that is joined to
    another one or does not exist are refused. The registers are there because a processor adds a word in the clock of
    its arrival.

    Parameters
    ----------
    grid
        The array.
    depth
        Words that wait for each port.

    Attributes
    ----------
    topology, host : In
        Joints of the edges, as `hw.dnp.array.ProcessorArray` has them; constant from a clock before a word comes.
    i : stream of `contracts.dnp.board.BEAT`
        Words for edge ports.
    o : streams of signed(16)
        To the edge ports, in the order of ``Grid.edges()``.
    refusal : Out
        See `Refusal`.
    taken : Out(1)
        A word for an edge port was taken.
    """

    def __init__(self, grid: Grid, depth: int) -> None:
        self.grid, self.depth = grid, depth
        super().__init__(
            {
                "topology": In(2),
                "host": In(4),
                "i": In(stream.Signature(struct(BEAT))),
                "o": Out(WORD_STREAM).array(len(grid.edges())),
                "refusal": Out(Refusal()),
                "taken": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Lead each word to the queue of its port."""
        m = Module()
        i, refused, opens = self.i, Signal(), []
        queues = [Queue(o.payload.shape(), self.depth) for o in self.o]
        for number, (edge, queue, o) in enumerate(zip(self.grid.edges(), queues, self.o, strict=True)):
            m.submodules[f"queue_{number}"] = queue
            m.submodules[f"slice_{number}"] = register = Slice(queue.shape)
            connect(m, queue.o, register.i)
            connect(m, register.o, wiring.flipped(o))
            opens.append(Signal(name=f"open_{number}"))
            m.d.sync += opens[number].eq(self._open(edge))
            m.d.comb += queue.i.payload.eq(i.payload.word)
        m.d.comb += refused.eq(1)
        with m.Switch(i.payload.port):
            for number, queue in enumerate(queues):
                with m.Case(number):
                    m.d.comb += [
                        refused.eq(~opens[number]),
                        queue.i.valid.eq(i.valid & opens[number]),
                        i.ready.eq(queue.i.ready),
                    ]
        with m.If(refused):
            m.d.comb += i.ready.eq(1)
        m.d.comb += self.taken.eq(i.valid & i.ready & ~refused)
        with m.If(i.valid & refused):
            m.d.comb += [self.refusal.code.eq(ArrayError.PORT), self.refusal.info.eq(i.payload)]
        m.d.sync += Cover(i.valid & ~i.ready, "a word waits for the queue of its port")
        return m

    def _open(self, edge: tuple[int, int]) -> Any:
        """Whether the input of an edge port comes from the host."""
        shapes = [
            topology
            for topology in Topology
            if topology is not Topology.PASF or self.grid.rows == self.grid.columns
            if Grid(self.grid.rows, self.grid.columns, topology).joint(*edge) is not None
        ]
        return ~Cat(self.topology == topology for topology in shapes).any() | self.host[edge[0]]
