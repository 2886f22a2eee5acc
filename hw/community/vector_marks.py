"""Vector marks: a bit for each slot says that the vector of its row is there (I6)."""

from amaranth.hdl import Assert, Cover, Module, Mux, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

__all__ = ["VectorMarks"]

#: Slots of a word of marks: the bits of a distributed RAM.
_MARKED = 4


class VectorMarks(wiring.Component):
    """Notes which vectors have come, in any order, until their slots are passed, in turn.

    The slots are a ring: a slot is used again only after it is passed. The meaning of a bit changes from each use of
    the slot to the next one, so no bit is cleared but after a reset, when nothing is taken.

    Parameters
    ----------
    slots
        Slots, a power of two.

    Attributes
    ----------
    came : stream of unsigned(log2(slots))
        A slot whose vector is complete: it can be read from the next cycle on. ``ready`` but while bits are cleared.
    slot : In
        Any slot that has been given away and is not passed.
    there : Out(1)
        Its vector has come, in the same cycle.
    oldest : Out(1)
        The vector of the slot in turn has come. A register and a memory decide it, no input.
    passes : In(1)
        The slot in turn is passed, which may be only while ``oldest`` is set.

    Raises
    ------
    ValueError
        If `slots` is no power of two from 2 on.
    """

    def __init__(self, slots: int) -> None:
        if slots < 2 or slots & (slots - 1):
            raise ValueError(f"slots must be a power of two from 2 on, not {slots!r}")
        self.slots = slots
        bits = unsigned(exact_log2(slots))
        super().__init__(
            {
                "came": In(stream.Signature(bits)),
                "slot": In(bits),
                "there": Out(1),
                "oldest": Out(1),
                "passes": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Change the bit of a slot whose vector comes; compare those that are read with the value of their round."""
        m = Module()
        # The bits of several slots are a word of a distributed RAM.
        low = min(exact_log2(_MARKED), len(self.slot) - 1)
        m.submodules.words = words = memory.Memory(shape=1 << low, depth=self.slots >> low, init=[])
        write = words.write_port()
        came, look, next_ = (words.read_port(domain="comb") for _ in range(3))
        # The slot in turn, and the value of its bit, and of those behind it, that says "there". Those in front of it
        # are passed, so they are in the next round.
        turn, round_, cleared = Signal(range(self.slots)), Signal(init=1), Signal()
        slot = self.came.payload
        m.d.comb += [
            self.came.ready.eq(cleared),
            write.en.eq(self.came.valid | ~cleared),
            write.addr.eq(Mux(cleared, slot, turn)[low:]),
            came.addr.eq(slot[low:]),
            write.data.eq(Mux(cleared, came.data ^ (1 << slot[:low]), 0)),
            look.addr.eq(self.slot[low:]),
            self.there.eq(cleared & (look.data.bit_select(self.slot[:low], 1) == round_ ^ (self.slot < turn))),
            next_.addr.eq(turn[low:]),
            self.oldest.eq(cleared & (next_.data.bit_select(turn[:low], 1) == round_)),
        ]
        with m.If(self.passes | ~cleared):
            m.d.sync += turn.eq(turn + 1)
            with m.If(turn == self.slots - 1):
                m.d.sync += [round_.eq(~round_ | ~cleared), cleared.eq(1)]
        comes = self.came.valid & cleared
        m.d.sync += [
            Assert(~self.passes | self.oldest, "a slot is passed only when its vector has come"),
            Cover(comes & (slot < turn), "a vector of the next round"),
            Cover(comes & (slot != turn), "a vector comes before an older one"),
            Cover(self.there & ~self.oldest, "a vector is used while an older one is missing"),
        ]
        return m
