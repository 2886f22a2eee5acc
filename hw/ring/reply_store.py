"""Reply store: has a place for each piece that is read, and hands pieces on in the order of their places."""

from amaranth.hdl import Assert, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.block_memory import NO_BYPASS, registered_read
from hw.memory.formats import CLIENTS_MAX, line_address_width
from hw.memory.window import WindowBeat
from hw.ring.line_formats import LAST_BEAT_BITS, TAG_BITS, Fill
from hw.stream.queue import Queue

__all__ = ["ReplyStore", "Reservation"]


class Reservation(data.StructLayout):
    """A piece whose beats will come.

    ``client``, ``last_beat``, ``last``: as of a `Piece`. ``line``: its line, for reports. ``remote``: it comes from the
    ring. ``lost``: it does not come.
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "client": range(CLIENTS_MAX),
                "last_beat": LAST_BEAT_BITS,
                "last": 1,
                "line": line_address_width(address_width),
                "remote": 1,
                "lost": 1,
            }
        )


class ReplyStore(wiring.Component):
    """Slots for pieces, used in turn. A slot is free again when all its beats have been handed on.

    Room is reserved before a piece is requested, so whatever arrives is taken at once.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    slots
        Pieces that are requested or wait for those in front of them, a power of two.
    beats
        Most beats of a piece, a power of two.

    Attributes
    ----------
    i : stream of `Reservation`
        ``ready`` if there is a free slot.
    slot : Out
        The slot that `i` gets.
    fill : stream of `Fill`, always ready
        Beats of reserved slots.
    cut : In(1)
        Nothing more comes from the ring: all that is awaited from there ends with an error. Stays once set.
    awaited : Out
        A bit for each slot: its beats come from the ring.
    o : stream of `WindowBeat`, always ready
    failure : stream of line addresses, always ready
        A piece that could not be read, with its first beat.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, slots: int = 32, beats: int = 8) -> None:
        if not 2 <= slots <= 1 << TAG_BITS or slots & (slots - 1):
            raise ValueError(f"slots must be a power of two in 2..{1 << TAG_BITS}, not {slots!r}")
        if not 1 <= beats <= 1 << LAST_BEAT_BITS or beats & (beats - 1):
            raise ValueError(f"beats must be a power of two in 1..{1 << LAST_BEAT_BITS}, not {beats!r}")
        self.data_width, self.slots, self.beats = data_width, slots, beats
        self._reservation = Reservation(address_width)
        #: Slots that are reserved and have not got all (read by proofs).
        self.waiting = Signal(slots)
        super().__init__(
            {
                "i": In(stream.Signature(self._reservation)),
                "slot": Out(TAG_BITS),
                "fill": In(stream.Signature(Fill(data_width), always_ready=True)),
                "cut": In(1),
                "awaited": Out(slots),
                "o": Out(stream.Signature(WindowBeat(data_width), always_ready=True)),
                "failure": Out(stream.Signature(line_address_width(address_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Reserve slots, fill them, empty the oldest."""
        m = Module()
        m.submodules.pieces = pieces = Queue(self._reservation, self.slots)
        remote, failed, tail = Signal(self.slots), Signal(self.slots), Signal(range(self.slots))
        free, fill, reserved = Signal(range(self.slots + 1), init=self.slots), self.fill, self.i.payload
        takes, frees = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(free != 0),
            takes.eq(self.i.valid & self.i.ready),
            pieces.i.valid.eq(takes),
            pieces.i.payload.eq(reserved),
            self.slot.eq(tail),
            self.awaited.eq(self.waiting & remote),
        ]
        m.d.sync += [free.eq(free - takes + frees), Assert(pieces.i.ready | (free == 0), "a piece has its place")]
        ends, begins = Signal(self.slots), Signal(self.slots)
        with m.If(fill.valid & fill.payload.last):
            m.d.comb += ends.eq(1 << fill.payload.slot)
        with m.If(takes):
            m.d.comb += begins.eq(1 << tail)
            m.d.sync += tail.eq(tail + 1)
        gone = Signal(self.slots)
        m.d.comb += gone.eq(Mux(self.cut, self.awaited, 0))
        m.d.sync += [
            self.waiting.eq((self.waiting & ~ends & ~gone) | Mux(reserved.lost, 0, begins)),
            remote.eq((remote & ~begins) | Mux(reserved.remote, begins, 0)),
            failed.eq(
                ((failed | gone) & ~begins)
                | Mux(reserved.lost, begins, 0)
                | Mux(fill.valid & fill.payload.error, 1 << fill.payload.slot, 0)
            ),
            Cover(free == 0, "all slots are taken"),
        ]
        m.d.comb += frees.eq(self._hand_on(m, pieces.o, failed))
        return m

    def _hand_on(self, m: Module, pieces: stream.Interface, failed: Signal) -> Signal:
        """Hand the beats of the oldest slot on when all are there; return whether its last one is read."""
        m.submodules.rows = rows = Memory(
            shape=self.data_width, depth=self.slots * self.beats, init=[], attrs=dict(NO_BYPASS)
        )
        bits, fill = exact_log2(self.beats), self.fill
        write, read = rows.write_port(), registered_read(m, rows)
        head, beat = Signal(range(self.slots)), Signal(LAST_BEAT_BITS)
        piece, reads, ends, bad = pieces.payload, Signal(), Signal(), Signal()
        m.d.comb += [
            write.en.eq(fill.valid),
            write.addr.eq((fill.payload.slot << bits) | fill.payload.beat),
            write.data.eq(fill.payload.data),
            reads.eq(pieces.valid & ~self.waiting.bit_select(head, 1)),
            bad.eq(failed.bit_select(head, 1)),
            read.addr.eq((head << bits) | beat),
            ends.eq(reads & (beat == piece.last_beat)),
            pieces.ready.eq(ends),
            self.failure.valid.eq(reads & bad & (beat == 0)),
            self.failure.payload.eq(piece.line),
            self.o.payload.data.eq(read.data),
        ]
        m.d.sync += [
            self.o.valid.eq(reads),
            self.o.payload.error.eq(bad),
            self.o.payload.client.eq(piece.client),
            self.o.payload.last.eq(ends & piece.last),
        ]
        with m.If(reads):
            m.d.sync += beat.eq(Mux(ends, 0, beat + 1))
        with m.If(ends):
            m.d.sync += head.eq(head + 1)
        return ends
