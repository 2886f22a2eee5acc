"""Round-robin arbiter: several streams into one."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.lowest import next_one
from hw.stream.slice import Slice


def tagged(shape: ShapeLike, count: int) -> data.StructLayout:
    """Return the layout of an arbiter's output: the word and the number of the input it came from."""
    return data.StructLayout({"payload": shape, "source": range(count)})


class Arbiter(wiring.Component):
    """Merge `count` streams, each waiting input once per round.

    The input served next is kept in a register, so ``i[n].ready`` depends on registers only. The register advances
    after every word and whenever its input has none; a waiting word is taken after at most ``count - 1`` others. While
    several inputs wait, or one streams alone, one word passes per cycle; a word that arrives at an idle arbiter waits
    one more cycle if the register selects another input.

    Parameters
    ----------
    shape
        Shape of a word.
    count
        Number of inputs, at least 2.
    whole
        Words have a field ``last``; those up to one with ``last`` pass without others between them.
    wide
        Each input has a register for a word, all but one of these are 0, and ``o`` offers their OR: four inputs take a
        LUT a bit instead of three. But ``i[n].ready`` depends on ``o.ready``, and a word waits in one place only.

    Attributes
    ----------
    grant
        Number of the input served next (internal; read by proofs).
    takes
        One-hot: the input that is served if it has a word; none while the output has no room, unless words are wide
        (internal).

    Raises
    ------
    ValueError
        If `count` is below 2.
    """

    #: The streams to merge.
    i: stream.Interface
    #: Their words with the number of the input, see :func:`tagged`.
    o: stream.Interface

    def __init__(self, shape: ShapeLike, count: int, *, whole: bool = False, wide: bool = False) -> None:
        if count < 2:
            raise ValueError(f"count must be at least 2, not {count!r}")
        self.shape = shape
        self.count = count
        self.whole = whole
        self.wide = wide
        self.grant = Signal(range(count))
        self.takes = Signal(count, init=1)
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(count),
                "o": Out(stream.Signature(tagged(shape, count))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Serve the input that the grant register names, and choose the next one."""
        m = Module()
        grant, following = self.grant, Signal.like(self.grant)
        valid, offers, room, moves = Signal(self.count), Signal(), Signal(), Signal()
        m.d.comb += [
            *(valid[n].eq(port.valid) for n, port in enumerate(self.i)),
            offers.eq(valid.bit_select(grant, 1)),
            following.eq(grant),
            moves.eq(room),
        ]
        m.d.sync += grant.eq(following)
        (self._registers if self.wide else self._slice)(m, following, offers, room)
        if self.whole:
            # Between the words of one input the register stays, whether its next word is there or not.
            inside, last = Signal(), Cat(port.payload.last for port in self.i).bit_select(grant, 1)
            m.d.comb += moves.eq(Mux(offers, room & last, ~inside))
            with m.If(offers & room):
                m.d.sync += inside.eq(~last)
        with m.If(moves & valid.any()):
            m.d.comb += following.eq(next_one(valid, grant))
        m.d.sync += Cover(valid.all() & room, "all inputs wait")
        return m

    def _slice(self, m: Module, following: Signal, offers: Signal, room: Signal) -> None:
        """Choose a word, then cut the output's paths with a slice."""
        # Of more than two words side by side all but one are 0: fewer LUTs than a choice by number.
        merges = self.count > 2
        m.submodules.slice = out = Slice(tagged(self.shape, self.count), merges=merges)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        grant, takes, words = self.grant, self.takes, [Value.cast(port.payload) for port in self.i]
        m.d.comb += [
            room.eq(out.i.ready),
            out.i.valid.eq(offers),
            Value.cast(out.i.payload.payload).eq(
                reduce(or_, (word & take.replicate(len(word)) for word, take in zip(words, takes, strict=True)))
                if merges
                else Mux(grant, words[1], words[0])
            ),
            out.i.payload.source.eq(Mux(out.i.ready, grant, 0) if merges else grant),
            *(self.i[n].ready.eq(takes[n]) for n in range(self.count)),
        ]
        m.d.sync += [takes[n].eq(out.opens & (following == n)) for n in range(self.count)]

    def _registers(self, m: Module, following: Signal, offers: Signal, room: Signal) -> None:
        """Keep the word of the input that is served in its register, and clear the others, by their resets."""
        takes, held, source = self.takes, Signal(), Signal.like(self.grant)
        kept = [Signal(Value.cast(port.payload).shape(), name=f"kept_{n}") for n, port in enumerate(self.i)]
        m.d.comb += [
            room.eq(~held | self.o.ready),
            self.o.valid.eq(held),
            Value.cast(self.o.payload.payload).eq(reduce(or_, kept)),
            self.o.payload.source.eq(source),
            *(port.ready.eq(room & takes[n]) for n, port in enumerate(self.i)),
        ]
        m.d.sync += [takes[n].eq(following == n) for n in range(self.count)]
        with m.If(room):
            m.d.sync += [held.eq(offers), source.eq(self.grant)]
            m.d.sync += [word.eq(port.payload) for word, port in zip(kept, self.i, strict=True)]
        for word, take in zip(kept, takes, strict=True):
            # Not inside the condition above: there it would be a gate for each bit instead of the register's reset.
            with m.If(room & ~take):
                m.d.sync += word.eq(0)


def merge(
    m: Module, name: str, ports: Sequence[Any], shape: ShapeLike, *, whole: bool = False, wide: bool = False
) -> tuple[Any, Any, Any]:
    """Merge one or more streams into one.

    Parameters
    ----------
    m
        Gets a submodule.
    name
        Of the submodule.
    ports
        Streams to take words from.
    shape
        Shape of a word.
    whole, wide
        As for `Arbiter`.

    Returns
    -------
    tuple
        The stream, the word it offers and the number of the port it came from.
    """
    if len(ports) == 1:
        m.submodules[name] = one = Slice(shape)
        wiring.connect(m, ports[0], one.i)
        return one.o, one.o.payload, 0
    m.submodules[name] = many = Arbiter(shape, len(ports), whole=whole, wide=wide)
    for port, end in zip(ports, many.i, strict=True):
        wiring.connect(m, port, end)
    return many.o, many.o.payload.payload, many.o.payload.source
