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

        asked, come, given = (
            Array(Signal(32, name=f"{name}_{n}") for n in range(count)) for name in ("asked", "come", "given")
        )
        # Where the parts begin, relative to the list: sums of the counts below, made one a cycle after the start.
        first = Array(Signal(32, name=f"first_{n}") for n in range(count))
        active = Signal()
        summed = Signal(range(count + 1), init=count)

        def choose(name: str, wanted: list[object], step: object) -> Signal:
            """Move a turn to the nearest owner that wants it."""
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
                wants[n].eq(active & (asked[n] != self.counts[n]) & (asked[n] - given[n] <= _WAITING - _CHUNK)),
                offers[n].eq(active & (come[n] != given[n]) & self.room[n]),
                self.exhausted[n].eq(active & (given[n] == self.counts[n])),
            ]

        asking = Signal()
        left = Signal(32)
        turn = choose("asking_turn", wants, asking)
        m.d.comb += [
            left.eq(Array(self.counts[n] for n in range(count))[turn] - asked[turn]),
            self.request.payload.address.eq(self.address + first[turn] + asked[turn]),
            self.request.payload.words.eq(Mux(left > _CHUNK, _CHUNK, left)),
            order.i.payload.eq(turn),
            self.request.valid.eq(Array(wants)[turn] & order.i.ready),
            order.i.valid.eq(self.request.valid & self.request.ready),
            asking.eq(order.i.valid),
        ]
        with m.If(asking):
            m.d.sync += asked[turn].eq(asked[turn] + self.request.payload.words)

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

        giving = Signal()
        gives = choose("giving_turn", offers, giving)
        m.d.comb += [
            self.fill.valid.eq(Array(offers)[gives]),
            self.fill.payload.owner.eq(gives),
            self.fill.payload.vid.eq(read.data),
            read.addr.eq(gives * _WAITING + given[gives][: (_WAITING - 1).bit_length()]),
            giving.eq(self.fill.valid & self.fill.ready),
        ]
        with m.If(giving):
            m.d.sync += given[gives].eq(given[gives] + 1)

        with m.If(summed != count):
            m.d.sync += summed.eq(summed + 1)
            for n in range(1, count):
                with m.If(summed == n):
                    m.d.sync += first[n].eq(first[n - 1] + self.counts[n - 1])
            with m.If(summed == count - 1):
                m.d.sync += active.eq(1)
        with m.If(self.start):
            m.d.sync += [summed.eq(1), active.eq(0), first[0].eq(0)]
            for n in range(count):
                m.d.sync += [asked[n].eq(0), come[n].eq(0), given[n].eq(0)]
        return m
