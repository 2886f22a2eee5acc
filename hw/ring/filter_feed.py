"""Filter feed: reads every owner's part of the needed list ahead of its window (R4)."""

from typing import NamedTuple

from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from hw.memory.formats import RangeRequest, Word
from hw.stream.queue import Queue

__all__ = ["FilterFeed"]

#: Words of a refill, and words kept for an owner's window. When a pass begins, each owner's turn comes the sooner the
#: smaller a refill is.
_CHUNK = 8
_WAITING = 32
_PLACE_BITS = (_WAITING - 1).bit_length()


class _Parts(NamedTuple):
    """State of the owners' parts of the list.

    ``left``: words to request; ``following``: address of the next of them. ``held``: words requested and not handed on.
    ``come``, ``given``: places of the next word to arrive and to hand on; their additional bit tells full from empty.
    """

    left: Array
    following: Array
    held: Array
    come: Array
    given: Array


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
        Begin with the list; `address` and `counts` are constant from this cycle on.
    address : In
        Word address of the list, whose parts lie one behind another.
    counts : In
        Entries of every owner.
    request : stream of `RangeRequest`
    i : stream of `Word`
    fill : stream of owner and VID
    room : In(chiplets)
        Owners whose window has a free entry.
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
        """Request words of one owner's part at a time, keep them, and hand on one word a cycle."""
        m = Module()
        count = self.chiplets
        m.submodules.words = words = Memory(shape=32, depth=count * _WAITING, init=[])
        m.submodules.order = order = Queue(range(count), 2 * count)
        left, following, held = (
            Array(Signal(shape, name=f"{name}_{n}") for n in range(count))
            for name, shape in (("left", 32), ("following", len(self.address)), ("held", range(_WAITING + 1)))
        )
        come, given = (
            Array(Signal(range(2 * _WAITING), name=f"{name}_{n}") for n in range(count)) for name in ("come", "given")
        )
        parts = _Parts(left, following, held, come, given)
        active = Signal()

        turn, asking, words_asked = self._request(m, parts, active, order.i)
        self._receive(m, words.write_port(), order.o, come)
        gives, giving = self._give(m, parts, active, words.read_port(domain="comb"))
        for n in range(count):
            more, less = Mux(asking & (turn == n), words_asked, 0), giving & (gives == n)
            m.d.comb += self.exhausted[n].eq(active & (left[n] == 0) & (held[n] == 0))
            m.d.sync += held[n].eq(held[n] + more - less)
        self._begin(m, parts, active)
        return m

    def _choose(self, m: Module, name: str, wanted: list[Signal], step: ValueLike) -> Signal:
        """Return an owner's number that moves, with every `step`, to the next other owner whose bit is set."""
        turn = Signal(range(self.chiplets), name=name)
        with m.If(step | ~Array(wanted)[turn]):
            with m.Switch(turn):
                for n in range(self.chiplets):
                    with m.Case(n):
                        for distance in reversed(range(1, self.chiplets)):
                            with m.If(wanted[(n + distance) % self.chiplets]):
                                m.d.sync += turn.eq((n + distance) % self.chiplets)
        return turn

    def _request(
        self, m: Module, parts: _Parts, active: Signal, order: stream.Interface
    ) -> tuple[Signal, Signal, Signal]:
        """Request a chunk for an owner with room for one; return the owner, whether it is requested, and its words."""
        left, following = parts.left, parts.following
        wants = [Signal(name=f"wants_{n}") for n in range(self.chiplets)]
        for n, wanted in enumerate(wants):
            m.d.comb += wanted.eq(active & (left[n] != 0) & (parts.held[n] <= _WAITING - _CHUNK))
        asking = Signal()
        turn = self._choose(m, "asking_turn", wants, asking)
        words_asked = Signal(range(_CHUNK + 1))
        m.d.comb += [
            words_asked.eq(Mux(left[turn] >= _CHUNK, _CHUNK, left[turn])),
            self.request.payload.address.eq(following[turn]),
            self.request.payload.words.eq(words_asked),
            order.payload.eq(turn),
            self.request.valid.eq(Array(wants)[turn] & order.ready),
            order.valid.eq(self.request.valid & self.request.ready),
            asking.eq(order.valid),
        ]
        with m.If(asking):
            m.d.sync += [
                left[turn].eq(left[turn] - words_asked),
                following[turn].eq(following[turn] + words_asked),
            ]
        return turn, asking, words_asked

    def _receive(self, m: Module, write: WritePort, order: stream.Interface, come: Array) -> None:
        """Keep the words that arrive, at their owner's places."""
        place = order.payload
        m.d.comb += [
            self.i.ready.eq(order.valid),
            order.ready.eq(self.i.valid & self.i.payload.last),
            write.addr.eq(place * _WAITING + come[place][:_PLACE_BITS]),
            write.data.eq(self.i.payload.data),
            write.en.eq(self.i.valid & self.i.ready),
        ]
        with m.If(write.en):
            m.d.sync += come[place].eq(come[place] + 1)

    def _give(self, m: Module, parts: _Parts, active: Signal, read: ReadPort) -> tuple[Signal, Signal]:
        """Hand on a word of an owner whose window has room, so a turn never stalls; return the owner and whether."""
        come, given = parts.come, parts.given
        offers = [Signal(name=f"offers_{n}") for n in range(self.chiplets)]
        for n, offered in enumerate(offers):
            m.d.comb += offered.eq(active & (come[n] != given[n]) & self.room[n])
        giving = Signal()
        gives = self._choose(m, "giving_turn", offers, 1)
        m.d.comb += [
            self.fill.valid.eq(Array(offers)[gives]),
            self.fill.payload.owner.eq(gives),
            self.fill.payload.vid.eq(read.data),
            read.addr.eq(gives * _WAITING + given[gives][:_PLACE_BITS]),
            giving.eq(self.fill.valid & self.fill.ready),
        ]
        with m.If(giving):
            m.d.sync += given[gives].eq(given[gives] + 1)
        return gives, giving

    def _begin(self, m: Module, parts: _Parts, active: Signal) -> None:
        """After the start find the beginnings of the parts, one a cycle: they lie one behind another."""
        count, following = self.chiplets, parts.following
        located = Signal(range(count + 1), init=count)  # parts whose beginning is found
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
                m.d.sync += [parts.left[n].eq(self.counts[n]), parts.held[n].eq(0)]
                m.d.sync += [parts.come[n].eq(0), parts.given[n].eq(0)]
