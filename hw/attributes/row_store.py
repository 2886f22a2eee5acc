"""Row store: the one memory with the rows of both levels, and what moves them (A5-A7)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert, Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.formats import AttributeConfig, MoveKind
from hw.stream.queue import Queue

__all__ = ["FillBeat", "RowStore"]

#: Beats that may be on their way to `rows` and wait there.
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
    more. One move is carried out at a time, in the order they come; rows from memory are written meanwhile
    where a bank's write port is free.

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
        """Build banks, the walk through the rows, and the delayed writes."""
        m = Module()
        config = self.config
        half = -(-config.row_beats // 2)  # rows of a bank that belong to one row of the store
        depth = config.rows * half
        ports = []
        for bank in range(2):
            m.submodules[f"bank_{bank}"] = memory = Memory(shape=config.data_width, depth=depth, init=[])
            ports.append((memory.write_port(), memory.read_port()))
        m.submodules.queue = queue = Queue(config.row, READ_QUEUE)
        connect(m, queue.o, flipped(self.rows))

        # A step: the beat of the first row, and the one beside it of the second.
        active, step = self.active, Signal(range(config.row_beats + 2))
        first, second = Signal(range(depth)), Signal(range(depth))
        even = Signal(range(config.row_beats + 2))
        walking, stepping, last = Signal(), Signal(), Signal()
        swaps, copies = active.kind == MoveKind.SWAP, active.kind == MoveKind.COPY
        reads = active.kind == MoveKind.READ
        room = Signal()
        m.d.sync += even.eq(self.beats + self.beats[0])
        m.d.comb += [
            last.eq(step + 1 == Mux(swaps, even, self.beats)),
            stepping.eq(walking & (~reads | room)),
        ]
        with m.If(stepping):
            m.d.sync += step.eq(step + 1)
            with m.If(last):
                m.d.sync += walking.eq(0)

        # Two cycles behind the reads, the writes.
        passed = data.StructLayout(
            {
                "valid": 1,
                "odd": 1,
                "swap": 1,
                "copy": 1,
                "read": 1,
                "last": 1,
                "first": range(depth),
                "second": range(depth),
            }
        )
        behind, further = Signal(passed), Signal(passed)
        held = [Signal(config.data_width, name=f"held_{bank}") for bank in range(2)]
        m.d.sync += [
            behind.valid.eq(stepping),
            behind.odd.eq(step[0]),
            behind.swap.eq(swaps),
            behind.copy.eq(copies),
            behind.read.eq(reads),
            behind.last.eq(last),
            behind.first.eq(first + step[1:]),
            behind.second.eq(second + step[1:]),
            further.eq(behind),
        ]
        m.d.comb += self.busy.eq(walking | behind.valid | further.valid)
        m.d.comb += self.i.ready.eq(~self.busy)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                active.eq(self.i.payload),
                first.eq(self.i.payload.first * half),
                second.eq(self.i.payload.second * half),
                step.eq(0),
                walking.eq(1),
            ]

        fill = self.fill.payload
        fill_address = Signal(range(depth))
        m.d.comb += fill_address.eq(fill.row * half + fill.beat[1:])
        writing = Signal(2)
        for bank, (write, read) in enumerate(ports):
            mine = step[0] == bank  # the bank of the first row's beat
            m.d.comb += [
                read.en.eq(1),
                read.addr.eq(Mux(mine, first, second) + step[1:]),
            ]
            m.d.sync += held[bank].eq(read.data)
            # The bank from which the first row was read takes it to the second row; the other one the other way.
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

        # Rows for the compute units; what is on its way has room in the queue.
        under_way = Signal(range(READ_QUEUE + 1))
        starts, ends = stepping & reads, self.rows.valid & self.rows.ready
        m.d.sync += under_way.eq(under_way + starts - ends)
        m.d.comb += [
            room.eq(under_way != READ_QUEUE),
            queue.i.valid.eq(further.valid & further.read),
            queue.i.payload.data.eq(Mux(further.odd, held[1], held[0])),
            queue.i.payload.tag.eq(active.tag),
            queue.i.payload.last.eq(further.last),
        ]
        m.d.sync += [
            Assert(~queue.i.valid | queue.i.ready, "a beat came that there was no room for"),
            Cover(self.fill.valid & ~self.fill.ready, "a beat from memory waits for its bank"),
            Cover(walking & reads & ~room, "the compute units hold up a row"),
        ]
        return m
