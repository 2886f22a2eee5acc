"""Filter feed: reads every owner's part of the needed list ahead of its window (R4)."""

from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.memory.formats import RangeRequest, Word
from hw.stream.queue import Queue

__all__ = ["FilterFeed"]

#: Words of a refill, and words that wait for an owner's window.
_CHUNK = 16
_WAITING = 32


class FilterFeed(wiring.Component):
    """Reads each owner's part of the needed list ahead of its window.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    chiplets
        Most chiplets of a ring.

    Attributes
    ----------
    start : In(1)
        From the beginning of the list; `address` and `counts` are constant from here on.
    address : In
        Word address of the list, whose parts lie one behind another.
    counts : In
        Entries of every owner.
    request : stream of `RangeRequest`
    i : stream of `Word`
    fill : stream of owner and VID
    room : In(chiplets)
        Owners whose window can take an entry.
    exhausted : Out(chiplets)
        Owners whose entries have all been handed on.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4) -> None:
        self.chiplets = chiplets
        super().__init__(
            {
                "start": In(1),
                "address": In(RangeRequest(address_width)["address"].shape),
                "counts": In(data.ArrayLayout(32, chiplets)),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(Word())),
                "fill": Out(stream.Signature(data.StructLayout({"owner": range(chiplets), "vid": 32}))),
                "room": In(chiplets),
                "exhausted": Out(chiplets),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the requests, the words that wait and the way to the windows."""
        m = Module()
        count = self.chiplets
        owner_shape = range(count)
        m.submodules.words = words = Memory(shape=32, depth=count * _WAITING, init=[])
        read, write = words.read_port(domain="comb"), words.write_port()
        m.submodules.order = order = Queue(owner_shape, 2 * count)

        # Of each owner's part: what is to be asked for, where the next of it lies, and words that were asked for and
        # have not been handed on.
        left, following, held = (
            Array(Signal(shape, name=f"{name}_{n}") for n in range(count))
            for name, shape in (("left", 32), ("following", len(self.address)), ("held", range(_WAITING + 1)))
        )
        # Places of the next word to come and to hand on; one bit more than a place tells full from empty.
        come, given = (
            Array(Signal(range(2 * _WAITING), name=f"{name}_{n}") for n in range(count)) for name in ("come", "given")
        )
        active = Signal()
        located = Signal(range(count + 1), init=count)  # parts whose beginning is known

        def choose(name: str, wanted: list[object], step: object) -> Signal:
            """Move a turn to the nearest other owner that wants it, with every step."""
            turn = Signal(owner_shape, name=name)
            with m.If(step | ~Array(wanted)[turn]):
                with m.Switch(turn):
                    for n in range(count):
                        with m.Case(n):
                            for distance in reversed(range(1, count)):
                                with m.If(wanted[(n + distance) % count]):
                                    m.d.sync += turn.eq((n + distance) % count)
            return turn

        wants = [Signal(name=f"wants_{n}") for n in range(count)]
        offers = [Signal(name=f"offers_{n}") for n in range(count)]
        for n in range(count):
            m.d.comb += [
                wants[n].eq(active & (left[n] != 0) & (held[n] <= _WAITING - _CHUNK)),
                offers[n].eq(active & (come[n] != given[n]) & self.room[n]),
                self.exhausted[n].eq(active & (left[n] == 0) & (held[n] == 0)),
            ]

        asking = Signal()
        turn = choose("asking_turn", wants, asking)
        words_asked = Signal(range(_CHUNK + 1))
        m.d.comb += [
            words_asked.eq(Mux(left[turn] >= _CHUNK, _CHUNK, left[turn])),
            self.request.payload.address.eq(following[turn]),
            self.request.payload.words.eq(words_asked),
            order.i.payload.eq(turn),
            self.request.valid.eq(Array(wants)[turn] & order.i.ready),
            order.i.valid.eq(self.request.valid & self.request.ready),
            asking.eq(order.i.valid),
        ]
        with m.If(asking):
            m.d.sync += [
                left[turn].eq(left[turn] - words_asked),
                following[turn].eq(following[turn] + words_asked),
            ]

        place = order.o.payload
        m.d.comb += [
            self.i.ready.eq(order.o.valid),
            order.o.ready.eq(self.i.valid & self.i.payload.last),
            write.addr.eq(place * _WAITING + come[place][: (_WAITING - 1).bit_length()]),
            write.data.eq(self.i.payload.data),
            write.en.eq(self.i.valid & self.i.ready),
        ]
        with m.If(write.en):
            m.d.sync += come[place].eq(come[place] + 1)

        # Who offers has room, so a turn never waits.
        giving = Signal()
        gives = choose("giving_turn", offers, 1)
        m.d.comb += [
            self.fill.valid.eq(Array(offers)[gives]),
            self.fill.payload.owner.eq(gives),
            self.fill.payload.vid.eq(read.data),
            read.addr.eq(gives * _WAITING + given[gives][: (_WAITING - 1).bit_length()]),
            giving.eq(self.fill.valid & self.fill.ready),
        ]
        with m.If(giving):
            m.d.sync += given[gives].eq(given[gives] + 1)
        for n in range(count):
            more, less = Mux(asking & (turn == n), words_asked, 0), giving & (gives == n)
            m.d.sync += held[n].eq(held[n] + more - less)

        # Parts lie one behind another; the beginning of one a cycle.
        with m.If(located != count):
            m.d.sync += located.eq(located + 1)
            for n in range(1, count):
                with m.If(located == n):
                    m.d.sync += following[n].eq(following[n - 1] + self.counts[n - 1])
            with m.If(located == count - 1):
                m.d.sync += active.eq(1)
        with m.If(self.start):
            m.d.sync += [located.eq(1), active.eq(0), following[0].eq(self.address)]
            for n in range(count):
                m.d.sync += [left[n].eq(self.counts[n]), held[n].eq(0), come[n].eq(0), given[n].eq(0)]
        return m
