"""Reciprocal: one over a sum of coefficients, as a scale."""

from contextlib import nullcontext

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Signal, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from contracts import SCALE
from contracts.attention import RECIPROCAL_BITS, RECIPROCALS
from hw.contracts import struct

__all__ = ["SUM_BITS", "Reciprocal"]

#: Bits of a sum of coefficients.
SUM_BITS = 31
#: Bits of a normalised sum, of which the first is set; of a mantissa; and of the error of the table's.
_DIVISOR_BITS, _MANTISSA_BITS, _ERROR_BITS = 17, 16, 17
#: A sum is shifted by multiples of this in the first step, by less in the second.
_STEP = 8


class Reciprocal(wiring.Component):
    """Fixed-latency pipeline, one sum a cycle, without back-pressure.

    The sum is normalised; a table gives the mantissa to 9 bits, and one Newton step doubles them. Its function is
    ``golden.model.attention.reciprocals``.

    Attributes
    ----------
    i : stream of unsigned(31), always ready
        Not 0.
    o : stream of `SCALE`, always ready
        `LATENCY` cycles after `i`.
    """

    #: Cycles from a sum to its reciprocal.
    LATENCY = 8

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(unsigned(SUM_BITS), always_ready=True)),
                "o": Out(stream.Signature(struct(SCALE), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the stages: two for the shift, two for the table, product, error, its product, and their sum."""
        m = Module()
        valid = Signal(self.LATENCY)
        m.d.sync += valid.eq(Cat(self.i.valid, valid[:-1]))
        divisor, exponent = self._normalise(m)
        first = self._look_up(m, divisor[_DIVISOR_BITS - 1 - RECIPROCAL_BITS : -1])

        product = Signal(_DIVISOR_BITS + _MANTISSA_BITS, reset_less=True)
        error = Signal(signed(_ERROR_BITS), reset_less=True)
        correction = Signal(signed(_ERROR_BITS + _MANTISSA_BITS), reset_less=True)
        mantissa = Signal(_MANTISSA_BITS + 1, reset_less=True)
        near = _later(m, first, 2)
        m.d.sync += [
            product.eq(_later(m, divisor, 2) * first),
            error.eq(((1 << 32) - product) >> 8),
            correction.eq(near * error),
            mantissa.eq(_later(m, near, 1) + ((correction + (1 << 23)) >> 24)),
        ]
        # The first bit of a mantissa is set; 1.0 itself is one of 2^16.
        whole = mantissa[-1]
        m.d.comb += [
            self.o.valid.eq(valid[-1]),
            self.o.payload.mantissa.eq(Cat(mantissa[: _MANTISSA_BITS - 1], 1)),
            self.o.payload.exponent.eq(_later(m, exponent, 6) - whole),
        ]
        m.d.sync += Cover(valid[-1] & whole, "a power of two")
        return m

    def _normalise(self, m: Module) -> tuple[Signal, Signal]:
        """Return, two cycles later, the sum with its first bit on top, rounded down; and the exponent less 1."""
        steps = -(-(SUM_BITS + 1) // _STEP)
        # One bit more below, so that the steps are whole.
        given = Signal(steps * _STEP)
        far = Signal(steps * _STEP, reset_less=True)
        high = Signal(range(steps), reset_less=True)
        m.d.comb += given.eq(self.i.payload << 1)
        # The last assignment wins, so the highest group stands last. The lowest needs no test, as a sum is not 0.
        for step in range(steps):
            with m.If(given.word_select(step, _STEP).any()) if step else nullcontext():
                m.d.sync += [far.eq(given << (steps - 1 - step) * _STEP), high.eq(step)]

        divisor = Signal(_DIVISOR_BITS, reset_less=True)
        exponent = Signal(5, reset_less=True)
        for place in range(_STEP):
            with m.If(far[-_STEP + place]) if place else nullcontext():
                shift = _STEP - 1 - place
                # The place of the first bit, less the one below, and one more.
                m.d.sync += [
                    divisor.eq(far[len(far) - shift - _DIVISOR_BITS : len(far) - shift]),
                    exponent.eq(high * _STEP + place),
                ]
        return divisor, exponent

    def _look_up(self, m: Module, index: Signal) -> Signal:
        """Return the table's mantissa, two cycles later."""
        m.submodules.table = table = Memory(shape=unsigned(_MANTISSA_BITS), depth=len(RECIPROCALS), init=RECIPROCALS)
        read = table.read_port()
        first = Signal(_MANTISSA_BITS, reset_less=True)
        m.d.comb += read.addr.eq(index)
        m.d.sync += first.eq(read.data)
        return first


def _later(m: Module, value: Signal, cycles: int) -> Signal:
    """Return a signal as it was some cycles ago."""
    for _ in range(cycles):
        register = Signal.like(value, reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value
