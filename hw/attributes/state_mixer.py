"""State mixer: first state of a sample's random numbers, and one leap of the shift register (A2)."""

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.sampling import FINAL_ROUNDS, FINAL_WORD, WORD, leap_masks

__all__ = ["MixRequest", "StateMixer", "leap"]

#: Words that are mixed into a state, in this order.
_WORDS = ("seed", "batch", "root", "hop", "node")
#: Seed and number of the batch, root and node by VID, hop.
MixRequest = data.StructLayout({name: unsigned(WORD) for name in _WORDS})


def leap(state: Value) -> Value:
    """State of the register 32 steps later."""
    return Cat((state & mask).xor() for mask in leap_masks())


class StateMixer(wiring.Component):
    """Mixes five words into a state in 24 cycles; see `golden.attributes.lfsr.mix`.

    Attributes
    ----------
    i : stream of `MixRequest`
    o : stream of unsigned(32), never 0
    """

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(MixRequest)), "o": Out(stream.Signature(unsigned(WORD)))})

    def elaborate(self, platform: object) -> Elaboratable:
        """Three cycles a round, with one addition each."""
        m = Module()
        rounds = len(_WORDS) + FINAL_ROUNDS
        request = Signal(MixRequest, reset_less=True)
        state, number, part = (Signal(shape, reset_less=True) for shape in (WORD, range(rounds + 1), range(3)))
        words = Array([*(request[name] for name in _WORDS), *[FINAL_WORD] * FINAL_ROUNDS])
        far, near = Signal(WORD), Signal(WORD)
        m.d.comb += [
            far.eq(state + (state << 10)),
            near.eq(state + (state << 3)),
            self.o.payload.eq(Mux(state == 0, 1, state)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [request.eq(self.i.payload), state.eq(0), number.eq(0), part.eq(0)]
                with m.If(self.i.valid):
                    m.next = "MIX"
            with m.State("MIX"):
                with m.Switch(part):
                    with m.Case(0):
                        m.d.sync += [state.eq(state + words[number]), part.eq(1)]
                    with m.Case(1):
                        m.d.sync += [state.eq(far ^ (far >> 6)), part.eq(2)]
                    with m.Default():
                        m.d.sync += [state.eq(near ^ (near >> 11)), part.eq(0), number.eq(number + 1)]
                        with m.If(number == rounds - 1):
                            m.next = "MIXED"
            with m.State("MIXED"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m
