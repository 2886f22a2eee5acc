"""Filter feed: reads every owner's part of the needed list ahead of its window (R4)."""

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Cover, Elaboratable, Module, Mux, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from hw.lowest import lowest_one, without_lowest
from hw.memory.formats import RangeRequest, Word
from hw.stream.queue import Queue

__all__ = ["FilterFeed"]

#: VIDs of a word of the list.
_WORD = 32
_BIT_BITS = (_WORD - 1).bit_length()
#: Words of a refill, and words kept for an owner's window. When a pass begins, each owner's turn comes the sooner the
#: smaller a refill is.
_CHUNK = 4
_WAITING = 16
_PLACE_BITS = (_WAITING - 1).bit_length()
#: A word of an owner's marks, and whether there are any.
_Marks = data.StructLayout({"marks": _WORD, "some": 1})
#: The word in use of an owner: its marks that were not handed on, and its place in the list.
_Used = data.StructLayout({"marks": _WORD, "place": 32 - _BIT_BITS})


def _asked(chiplets: int) -> data.StructLayout:
    """Words on their way: their owner, its first bit in the first of them, and its end in the last one."""
    return data.StructLayout({"owner": range(chiplets), "first": range(_WORD), "end": range(_WORD + 1)})


class _Parts(NamedTuple):
    """State of the owners' parts of the list.

    ``left``: words to request; ``following``: place of the next of them. ``held``: words requested and not in use yet.
    ``come``, ``given``: places of the next word to arrive and to use; their additional bit tells full from empty.
    ``begun``: words have been requested; ``marked``: the one in use has marks.
    """

    left: Array
    following: Array
    held: Array
    come: Array
    given: Array
    begun: Array
    marked: Array


class FilterFeed(wiring.Component):
    """Reads each owner's part of the needed list ahead of its window, and hands on the VIDs that are marked.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    chiplets
        Most chiplets of a ring.

    Attributes
    ----------
    start : In(1)
        Begin with the list; `address` and `boundaries` are constant from this cycle on.
    address : In
        Word address of the list, see `hw.ring.needed_list.NeededList`.
    boundaries : In
        First VID of each owner, and the end.
    request : stream of `RangeRequest`
    i : stream of `Word`
    fill : stream of owner and VID
        The VIDs of an owner ascend.
    room : In(chiplets)
        Owners whose window has a free entry.
    exhausted : Out(chiplets)
        Owners whose marks have all been handed on.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4) -> None:
        self.chiplets = chiplets
        super().__init__(
            {
                "start": In(1),
                "address": In(RangeRequest(address_width)["address"].shape),
                "boundaries": In(data.ArrayLayout(32, chiplets + 1)),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(Word())),
                "fill": Out(stream.Signature(data.StructLayout({"owner": range(chiplets), "vid": 32}))),
                "room": In(chiplets),
                "exhausted": Out(chiplets),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Request words of one owner's part at a time, keep them, and hand on one VID a cycle."""
        m = Module()
        count = self.chiplets
        m.submodules.words = words = Memory(shape=_Marks, depth=count * _WAITING, init=[])
        m.submodules.order = order = Queue(_asked(count), 2 * count)
        parts = _Parts(
            *(
                Array(Signal(shape, name=f"{name}_{n}") for n in range(count))
                for name, shape in (
                    ("left", 33 - _BIT_BITS),
                    ("following", 32 - _BIT_BITS),
                    ("held", range(_WAITING + 1)),
                    ("come", range(2 * _WAITING)),
                    ("given", range(2 * _WAITING)),
                    ("begun", 1),
                    ("marked", 1),
                )
            )
        )
        active = Signal()

        turn, asking, words_asked = self._request(m, parts, active, order.i)
        self._receive(m, words.write_port(), order.o, parts.come)
        gives, using = self._give(m, parts, active, words)
        for n in range(count):
            more, less = Mux(asking & (turn == n), words_asked, 0), using & (gives == n)
            m.d.comb += self.exhausted[n].eq(active & (parts.left[n] == 0) & (parts.held[n] == 0) & ~parts.marked[n])
            m.d.sync += parts.held[n].eq(parts.held[n] + more - less)
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
        words_asked, bounds = Signal(range(_CHUNK + 1)), self.boundaries
        first, end = (Array(bounds[n + more][:_BIT_BITS] for n in range(self.chiplets))[turn] for more in range(2))
        m.d.comb += [
            words_asked.eq(Mux(left[turn] >= _CHUNK, _CHUNK, left[turn])),
            self.request.payload.address.eq(self.address + following[turn]),
            self.request.payload.words.eq(words_asked),
            order.payload.owner.eq(turn),
            order.payload.first.eq(Mux(parts.begun[turn], 0, first)),
            order.payload.end.eq(Mux((left[turn] <= _CHUNK) & (end != 0), end, _WORD)),
            self.request.valid.eq(Array(wants)[turn] & order.ready),
            order.valid.eq(self.request.valid & self.request.ready),
            asking.eq(order.valid),
        ]
        with m.If(asking):
            m.d.sync += [
                left[turn].eq(left[turn] - words_asked),
                following[turn].eq(following[turn] + words_asked),
                parts.begun[turn].eq(1),
            ]
        return turn, asking, words_asked

    def _receive(self, m: Module, write: WritePort, order: stream.Interface, come: Array) -> None:
        """Keep the words that arrive, at their owner's places, without its neighbours' marks in the first and last."""
        asked, place, inside = order.payload, order.payload.owner, Signal()
        own = Cat((inside | (asked.first <= k)) & (~self.i.payload.last | (asked.end > k)) for k in range(_WORD))
        m.d.comb += [
            self.i.ready.eq(order.valid),
            order.ready.eq(self.i.valid & self.i.payload.last),
            write.addr.eq(place * _WAITING + come[place][:_PLACE_BITS]),
            write.data.marks.eq(self.i.payload.data & own),
            write.data.some.eq(write.data.marks.any()),
            write.en.eq(self.i.valid & self.i.ready),
        ]
        with m.If(write.en):
            m.d.sync += [come[place].eq(come[place] + 1), inside.eq(~self.i.payload.last)]

    def _give(self, m: Module, parts: _Parts, active: Signal, words: Memory) -> tuple[Signal, Signal]:
        """Hand on a VID of an owner whose window has room, or use its next word, so a turn never stalls.

        Returns
        -------
        The owner, and whether a word is used.
        """
        come, given = parts.come, parts.given
        m.submodules.used = used = Memory(shape=_Used, depth=self.chiplets, init=[])
        offers = [Signal(name=f"offers_{n}") for n in range(self.chiplets)]
        for n, offered in enumerate(offers):
            m.d.comb += offered.eq(active & Mux(parts.marked[n], self.room[n], come[n] != given[n]))
        gives, using, giving = self._choose(m, "giving_turn", offers, 1), Signal(), Signal()
        read, now, write = words.read_port(domain="comb"), used.read_port(domain="comb"), used.write_port()
        marks, place = now.data.marks, now.data.place
        bit, rest = lowest_one(marks)[1], without_lowest(marks)
        m.d.comb += [
            self.fill.valid.eq(Array(offers)[gives] & parts.marked[gives]),
            self.fill.payload.owner.eq(gives),
            self.fill.payload.vid.eq(Cat(bit, place)),
            read.addr.eq(gives * _WAITING + given[gives][:_PLACE_BITS]),
            now.addr.eq(gives),
            write.addr.eq(gives),
            giving.eq(self.fill.valid & self.fill.ready),
            using.eq(Array(offers)[gives] & ~parts.marked[gives]),
            write.en.eq(giving | using),
            write.data.marks.eq(Mux(using, read.data.marks, rest)),
            write.data.place.eq(Mux(using, parts.following[gives] - parts.held[gives], place)),
        ]
        with m.If(write.en):
            m.d.sync += parts.marked[gives].eq(Mux(using, read.data.some, rest.any()))
        with m.If(using):
            m.d.sync += given[gives].eq(given[gives] + 1)
        m.d.sync += Cover(using & ~read.data.some, "a word without marks")
        return gives, using

    def _begin(self, m: Module, parts: _Parts, active: Signal) -> None:
        """After the start find the words of the parts: choose the bounds of one, then count those of the one before."""
        count = self.chiplets
        # The part whose bounds are chosen, and the one whose words are counted.
        located, counted = Signal(range(count + 1), init=count), Signal(range(count + 1), init=count)
        begin, behind = Signal(32), Signal(32)
        first, end = (Array(self.boundaries[n + more] for n in range(count))[located] for more in range(2))
        m.d.sync += [begin.eq(first), behind.eq(end), counted.eq(located), located.eq(located + (located != count))]
        with m.If(counted != count):
            words = ((behind - 1)[_BIT_BITS:32] - begin[_BIT_BITS:] + 1)[: 33 - _BIT_BITS]
            m.d.sync += [
                active.eq(counted == count - 1),
                parts.following[counted].eq(begin[_BIT_BITS:]),
                parts.left[counted].eq(Mux(behind > begin, words, 0)),
            ]
        with m.If(self.start):
            m.d.sync += [located.eq(0), counted.eq(count), active.eq(0)]
            for n in range(count):
                m.d.sync += [state[n].eq(0) for state in (parts.left, parts.held, parts.come, parts.given)]
                m.d.sync += [parts.begun[n].eq(0), parts.marked[n].eq(0)]
