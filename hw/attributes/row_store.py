"""Row store: one memory for the rows of both levels, and their moves (A5-A7)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert, Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.formats import AttributeConfig
from hw.attributes.row_walk import RowStep, RowWalk, bank_depth, half_row
from hw.stream.queue import Queue

__all__ = ["FillBeat", "RowStore"]

#: Most beats that are being read or wait at `rows`.
READ_QUEUE = 4


class FillBeat(data.StructLayout):
    """A beat from memory for a row: ``row``, number of the ``beat`` in it, ``data``."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__(
            {"row": range(config.rows), "beat": range(max(2, config.row_beats)), "data": config.data_width}
        )


class RowStore(wiring.Component):
    """Rows in two banks, even and odd beats, so that two beats are read and two written in a cycle.

    A swap reads beat k of one row and beat k±1 of the other in every cycle, from different banks, and writes them
    crosswise two cycles later: it takes as many cycles as a row has beats, rounded up to an even number, and three
    more. A row that is read takes as many as it has beats. Moves are carried out one at a time, in order; rows from
    memory are written in cycles in which a bank's write port is free.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    beats : In
        Beats of a row; constant while anything is under way.
    i : stream of ``config.move``
    busy : Out(1)
        A move is under way, and reads or writes.
    active : Out
        That move.
    fill : stream of `FillBeat`
        Its row must not take part in the move under way.
    rows : stream of ``config.row``
        Rows of `MoveKind.READ`.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "beats": In(range(config.row_beats + 1)),
                "i": In(stream.Signature(config.move)),
                "busy": Out(1),
                "active": Out(config.move),
                "fill": In(stream.Signature(FillBeat(config))),
                "rows": Out(stream.Signature(config.row)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the banks, the delayed writes behind the walk, and the queue of beats that are read."""
        m = Module()
        config, half = self.config, half_row(self.config)
        ports = []
        for bank in range(2):
            m.submodules[f"bank_{bank}"] = memory = Memory(shape=config.data_width, depth=bank_depth(config), init=[])
            ports.append((memory.write_port(), memory.read_port()))
        m.submodules.walk = walk = RowWalk(config)
        m.submodules.queue = queue = Queue(config.row, READ_QUEUE)
        connect(m, flipped(self.i), walk.i)
        connect(m, queue.o, flipped(self.rows))

        # Writes follow the reads two cycles later.
        step, behind, further = walk.step, Signal(RowStep(config)), Signal(RowStep(config))
        held = [Signal(config.data_width, name=f"held_{bank}") for bank in range(2)]
        m.d.sync += [behind.eq(step), further.eq(behind)]
        m.d.comb += [
            walk.beats.eq(self.beats),
            walk.draining.eq((behind.valid & ~behind.read) | (further.valid & ~further.read)),
            self.active.eq(walk.active),
            self.busy.eq(walk.walking | behind.valid | further.valid),
        ]
        fill = self.fill.payload
        fill_address = Signal(range(bank_depth(config)))
        m.d.comb += fill_address.eq(fill.row * half + fill.beat[1:])
        writing = Signal(2)
        for bank, (write, read) in enumerate(ports):
            m.d.comb += [read.en.eq(1), read.addr.eq(Mux(step.odd == bank, step.first, step.second))]
            m.d.sync += held[bank].eq(read.data)
            # The bank that had the beat of the first row writes it to the second row; the other bank vice versa.
            straight = further.odd == bank
            m.d.comb += writing[bank].eq(further.valid & (further.swap | (further.copy & straight)))
            with m.If(writing[bank]):
                m.d.comb += [
                    write.en.eq(1),
                    write.addr.eq(Mux(straight, further.second, further.first)),
                    write.data.eq(held[bank]),
                ]
            with m.Else():
                m.d.comb += [
                    write.en.eq(self.fill.valid & (fill.beat[0] == bank)),
                    write.addr.eq(fill_address),
                    write.data.eq(fill.data),
                ]
        m.d.comb += self.fill.ready.eq(Mux(fill.beat[0], ~writing[1], ~writing[0]))

        # Every beat that is being read has a place in the queue.
        under_way = Signal(range(READ_QUEUE + 1))
        starts, ends = step.valid & step.read, self.rows.valid & self.rows.ready
        m.d.sync += under_way.eq(under_way + starts - ends)
        m.d.comb += [
            walk.room.eq(under_way != READ_QUEUE),
            queue.i.valid.eq(further.valid & further.read),
            queue.i.payload.data.eq(Mux(further.odd, held[1], held[0])),
            queue.i.payload.tag.eq(further.tag),
            queue.i.payload.last.eq(further.last),
        ]
        m.d.sync += [
            Assert(~queue.i.valid | queue.i.ready, "a beat came that there was no room for"),
            Cover(self.fill.valid & ~self.fill.ready, "a beat from memory waits for its bank"),
        ]
        return m
