"""Chooser: different random numbers below a bound, every set equally likely (A2)."""

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.hdl import Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from contracts.sampling import WORD
from hw.attributes.state_mixer import leap
from hw.stream.slice import Slice

__all__ = ["COUNT_BITS", "Choice", "ChoiceRequest", "Chooser"]

#: Bits of a fan-out.
COUNT_BITS = 8


class ChoiceRequest(data.StructLayout):
    """``state`` of the generator, not 0; ``count`` different numbers below ``population``."""

    def __init__(self, bits: int) -> None:
        super().__init__({"state": unsigned(WORD), "population": unsigned(bits), "count": unsigned(COUNT_BITS)})


class Choice(data.StructLayout):
    """A number; ``last`` of its request; ``empty``: the request has no number, and ``last`` is set."""

    def __init__(self, bits: int) -> None:
        super().__init__({"number": unsigned(bits), "last": 1, "empty": 1})


class Chooser(wiring.Component):
    """Floyd's algorithm: number k is drawn below population - count + k, and replaced by the bound if it repeats.

    Numbers are bounded by rejection: as many bits as the bound has are taken from a shift register that makes 32 steps
    for each; a number above the bound is rejected. A number takes four cycles, and two more for every rejection. If the
    population is not larger than the count, all its numbers come, in order, one in a cycle.

    Parameters
    ----------
    most
        Largest count.
    bits
        Width of numbers and populations, at least that of a count.

    Attributes
    ----------
    i : stream of `ChoiceRequest`
        ``count`` is at most `most`.
    o : stream of `Choice`
        See `golden.attributes.lfsr.Generator.choose`.

    Raises
    ------
    ValueError
        If `most` or `bits` is out of its range.
    """

    def __init__(self, most: int = 16, bits: int = WORD) -> None:
        if not 1 <= most < 1 << COUNT_BITS:
            raise ValueError(f"most must be in 1..{(1 << COUNT_BITS) - 1}, not {most!r}")
        if not most.bit_length() <= bits <= WORD:
            raise ValueError(f"bits must be in {most.bit_length()}..{WORD}, not {bits!r}")
        self.most, self.bits = most, bits
        super().__init__({"i": In(stream.Signature(ChoiceRequest(bits))), "o": Out(stream.Signature(Choice(bits)))})

    def elaborate(self, platform: object) -> Elaboratable:
        """Draw, check against bound and earlier numbers, hand out."""
        m = Module()
        bits = self.bits
        m.submodules.out = out = Slice(Choice(bits))
        connect(m, out.o, flipped(self.o))
        state = Signal(WORD, reset_less=True)
        mask, bound, number, population = (
            Signal(bits, name=name, reset_less=True) for name in ("mask", "bound", "number", "population")
        )
        left = Signal(range(self.most + 1), reset_less=True)
        fits, known = Signal(reset_less=True), Signal(reset_less=True)
        # The last number is compared with all others, and no other with it; it overwrites the one before.
        chosen = Array(Signal(bits, name=f"chosen_{n}", reset_less=True) for n in range(max(1, self.most - 1)))
        have = Signal(range(self.most + 1))
        choice, request = out.i.payload, self.i.payload
        smeared = bound
        for shift in (1 << n for n in range(ceil_log2(bits))):
            wider = Signal(bits, name=f"smeared_{shift}")
            m.d.comb += wider.eq(smeared | smeared >> shift)
            smeared = wider
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    state.eq(request.state),
                    population.eq(request.population),
                    left.eq(request.count),
                    bound.eq(request.population - request.count),
                    number.eq(0),
                    have.eq(0),
                ]
                with m.If(self.i.valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                with m.If((population == 0) | (left == 0)):
                    m.next = "NONE"
                with m.Elif(population <= left):
                    m.next = "ALL"
                with m.Else():
                    m.next = "BOUND"
            with m.State("NONE"):
                m.d.comb += [out.i.valid.eq(1), choice.last.eq(1), choice.empty.eq(1)]
                with m.If(out.i.ready):
                    m.next = "IDLE"
            with m.State("ALL"):
                # The population is at most the count here, so its low bits suffice.
                few = len(left)
                m.d.comb += [
                    out.i.valid.eq(1),
                    choice.number.eq(number[:few]),
                    choice.last.eq(number[:few] + 1 == population[:few]),
                ]
                with m.If(out.i.ready):
                    m.d.sync += number.eq(number[:few] + 1)
                    with m.If(choice.last):
                        m.next = "IDLE"
            with m.State("BOUND"):
                m.d.sync += mask.eq(smeared)
                m.next = "DRAW"
            with m.State("DRAW"):
                m.d.sync += [number.eq(state & mask), state.eq(leap(state))]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [
                    fits.eq(number <= bound),
                    known.eq(Cat((have > n) & (chosen[n] == number) for n in range(len(chosen))).any()),
                ]
                m.next = "HAND_OUT"
            with m.State("HAND_OUT"):
                m.d.comb += [
                    out.i.valid.eq(fits),
                    choice.number.eq(Mux(known, bound, number)),
                    choice.last.eq(left == 1),
                ]
                with m.If(~fits):
                    m.next = "DRAW"
                with m.Elif(out.i.ready):
                    m.d.sync += [
                        chosen[have].eq(choice.number),
                        have.eq(have + 1),
                        left.eq(left - 1),
                        bound.eq(bound + 1),
                    ]
                    m.next = "BOUND"
                    with m.If(choice.last):
                        m.next = "IDLE"
                m.d.sync += [Cover(~fits, "a number is thrown away"), Cover(fits & known, "a number has come already")]
        return m
