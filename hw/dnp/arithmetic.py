# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""The 3-stage arithmetic pipeline: operands, product, sum; one multiply-accumulate a clock (D1, D2)."""

from collections.abc import Callable
from operator import mul
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import FRACTION, HIGHEST, LOWEST, WORD, ProcessorConfig
from contracts.dnp.isa import GENERAL, PORTS
from hw.dnp.address import address_bits
from hw.dnp.isa import ADDRESS, SIGNED_WORD, STOP_BITS, Left, Logic, Multiplicand, Multiplier, Right, Slot, Value
from hw.reset import partly_reset

__all__ = ["EFFECTS", "Arithmetic", "entry_layout", "flight_layout"]

#: -1 times -1 is +1: the product without its low bits has one bit more than a word.
_PRODUCT = signed(WORD + 1)
_SUM = signed(WORD + 2)


#: What an instruction does; nothing is done where there is none.
EFFECTS = ("write_a", "clear_a", "write_general", "write_wm", "write_xm")


def entry_layout(config: ProcessorConfig) -> data.StructLayout:
    """Return what the issue stage sends: an instruction (``valid``), or a stop with its code, or neither."""
    return data.StructLayout(
        {
            "valid": unsigned(1),
            "slot": Slot,
            "stop": unsigned(1),
            "code": unsigned(STOP_BITS),
            "pc": ADDRESS,
            "constant": signed(WORD),
            # What is written lies inside the memories, where the upper bits of an address are 0.
            "wm_address": address_bits(config.wm_depth),
            "xm_address": address_bits(config.xm_depth),
        }
    )


def flight_layout(config: ProcessorConfig) -> data.StructLayout:
    """Return what the issue stage has to know about an instruction on its way."""
    return data.StructLayout(
        {
            "writes_a": unsigned(1),
            "writes_general": unsigned(1),
            "target": unsigned(3),
            "writes_wm": unsigned(1),
            "writes_xm": unsigned(1),
            "wm_address": address_bits(config.wm_depth),
            "xm_address": address_bits(config.xm_depth),
        }
    )


class Arithmetic(wiring.Component):
    """Operand, multiply and add stages with A and RF0..RF7.

    Everything an instruction does to registers, memories and ports happens in the add stage, in program order. It is
    also the only place where an instruction waits for a partner; then all stages wait.

    What the add stage chooses from is chosen by one bit each, made ready a stage earlier, and so is the general
    register it reads. Where the instruction before is just writing to it, the add stage takes that result, kept apart.

    Parameters
    ----------
    config
        Memory sizes.
    multiply
        Returns the product of two factors; proofs put any word in its place.

    Attributes
    ----------
    go
        All stages move on; low while a port blocks or the processor stands still.
    entry
        Instruction from the issue stage.
    wm_word, xm_word
        Words read from the memories for the instruction in the operand stage.
    flights
        Instructions in the three stages.
    last
        The instruction in the add stage, and whether there is one.
    result
        Its result, for memories and ports.
    offline, given
        There is no instruction, and the result is ``given``, a clock later; nothing moves on meanwhile.
    port_words
        Words at the ports.
    receives, sends
        The ports at which the instruction in the add stage receives and sends, one bit each; 0 without an instruction.
    a, general
        Registers.
    from_a
        Inside: A itself is the second input of the adder.
    stages
        Inside: the instructions in the operand and multiply stages; proofs look at them.
    """

    go: Signal
    entry: Any
    wm_word: Signal
    xm_word: Signal
    flights: Any
    last: Any
    result: Signal
    offline: Signal
    given: Signal
    port_words: Any
    receives: Signal
    sends: Signal
    a: Signal
    general: Any

    def __init__(self, config: ProcessorConfig | None = None, multiply: Callable[[Any, Any], Any] = mul) -> None:
        self.config = config or ProcessorConfig()
        self.multiply = multiply
        self.from_a = Signal()
        self.layout = entry_layout(self.config)
        self.stages = [
            partly_reset(self.layout, "valid", "slot", "stop", name=name) for name in ("operand", "multiply")
        ]
        super().__init__(
            {
                "go": In(1),
                "entry": In(self.layout),
                "wm_word": In(SIGNED_WORD),
                "xm_word": In(SIGNED_WORD),
                "flights": Out(flight_layout(self.config)).array(3),
                "last": Out(self.layout),
                "result": Out(SIGNED_WORD),
                "offline": In(1),
                "given": In(SIGNED_WORD),
                "port_words": In(SIGNED_WORD).array(len(PORTS)),
                "receives": Out(len(PORTS)),
                "sends": Out(len(PORTS)),
                "a": Out(SIGNED_WORD),
                "general": Out(SIGNED_WORD).array(GENERAL),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Three stages, then what the add stage does."""
        m = Module()
        operand, multiply, add = *self.stages, self.last
        factors = [Signal(SIGNED_WORD, name=name, reset_less=True) for name in ("multiplicand", "multiplier")]
        values = [Signal(SIGNED_WORD, name=f"value_{stage}", reset_less=True) for stage in ("multiply", "add")]
        kept = Signal(_PRODUCT, reset_less=True)
        product, inverting = Signal(signed(2 * WORD)), Signal(_PRODUCT)
        m.d.comb += [product.eq(self.multiply(*factors)), inverting.eq(multiply.slot.subtract.replicate(WORD + 1))]
        general = Array(self.general)

        for flight, entry in zip(self.flights, (operand, multiply, add), strict=True):
            m.d.comb += [
                flight.writes_a.eq(entry.slot.write_a | entry.slot.clear_a),
                flight.writes_general.eq(entry.slot.write_general),
                flight.target.eq(entry.slot.target),
                flight.writes_wm.eq(entry.slot.write_wm),
                flight.writes_xm.eq(entry.slot.write_xm),
                flight.wm_address.eq(entry.wm_address),
                flight.xm_address.eq(entry.xm_address),
            ]

        # Rounding to nearest adds the product's highest dropped bit; the adder of the sum has room for it.
        half = Signal()
        with m.If(self.go):
            m.d.sync += [operand.eq(self.entry), multiply.eq(operand), add.eq(multiply)]
            for name in EFFECTS:
                m.d.sync += getattr(operand.slot, name).eq(getattr(self.entry.slot, name) & self.entry.valid)
            m.d.sync += factors[0].eq(
                Mux(operand.slot.multiplicand == Multiplicand.WM, self.wm_word, general[operand.slot.factor])
            )
            with m.Switch(operand.slot.multiplier):
                with m.Case(Multiplier.XM):
                    m.d.sync += factors[1].eq(self.xm_word)
                with m.Case(Multiplier.WM):
                    m.d.sync += factors[1].eq(self.wm_word)
                with m.Default():
                    m.d.sync += factors[1].eq(self.a)
            with m.Switch(operand.slot.value):
                with m.Case(Value.WM):
                    m.d.sync += values[0].eq(self.wm_word)
                with m.Case(Value.XM):
                    m.d.sync += values[0].eq(self.xm_word)
                with m.Default():
                    m.d.sync += values[0].eq(operand.constant)
            m.d.sync += values[1].eq(values[0])
            # What comes from earlier stages is 0 where it is not wanted, and needs no choice in the add stage; what is
            # to be subtracted is inverted here.
            m.d.sync += [kept.eq(0), half.eq(multiply.slot.rounded & product[FRACTION - 1])]
            with m.Switch(multiply.slot.right):
                with m.Case(Right.PRODUCT):
                    m.d.sync += kept.eq(product[FRACTION:] ^ inverting.as_unsigned())
                with m.Case(Right.VALUE):
                    m.d.sync += kept.eq(values[0] ^ inverting)
        named = multiply.slot.register
        wanted = (multiply.slot.right == Right.REGISTER) & ~named[-1]
        read, forwarded = Signal(SIGNED_WORD), Signal()
        latest, from_latest = Signal(SIGNED_WORD, reset_less=True), Signal()
        m.d.comb += forwarded.eq(add.slot.write_general & (add.slot.target == named[: len(add.slot.target)]))
        with m.If(self.go):
            m.d.sync += [read.eq(0), latest.eq(self.result), from_latest.eq(wanted & forwarded)]
            with m.If(wanted & ~forwarded):
                m.d.sync += read.eq(general[named[:-1]] ^ inverting)
        self._ports(m, multiply)
        self._add(m, add, self._right(m, multiply.slot, kept | read, latest, from_latest), values[1], half)
        # What the host writes takes the way of a result: 0 and the word are added.
        with m.If(self.offline):
            m.d.sync += [add.as_value().eq(0), kept.eq(self.given), read.eq(0), half.eq(0)]
            m.d.sync += [self.receives.eq(0), self.sends.eq(0), self.from_a.eq(0), from_latest.eq(0)]
        # Without an instruction there are no effects.
        with m.If(self.go):
            with m.If(add.slot.clear_a):
                m.d.sync += self.a.eq(0)
            with m.Elif(add.slot.write_a):
                m.d.sync += self.a.eq(self.result)
            with m.If(add.slot.write_general):
                m.d.sync += general[add.slot.target].eq(self.result)
        return m

    def _ports(self, m: Module, multiply: Any) -> None:
        """Tell the add stage's ports by one bit each; `multiply` is the instruction of the stage before."""
        slot = multiply.slot
        for wanted, port, ports in (
            (slot.receive, slot.receive_port, self.receives),
            (slot.send, slot.send_port, self.sends),
        ):
            with m.If(self.go):
                m.d.sync += ports.eq(Cat(multiply.valid & wanted & (port == index) for index in range(len(PORTS))))

    def _right(self, m: Module, slot: Any, early: Any, latest: Signal, from_latest: Signal) -> Any:
        """Choose the second input of the adder, inverted to be subtracted; `slot` is that of the multiply stage."""
        from_a, invert_a = self.from_a, Signal()
        with m.If(self.go):
            m.d.sync += [from_a.eq((slot.right == Right.REGISTER) & slot.register[-1]), invert_a.eq(slot.subtract)]
        gated = []
        for chosen, source in ((from_a, self.a ^ invert_a.replicate(WORD).as_signed()),
                               (from_latest, latest ^ invert_a.replicate(WORD).as_signed()),
                               *zip(self.receives, self.port_words, strict=True)):  # fmt: skip
            wide = Signal(_PRODUCT)
            m.d.comb += wide.eq(source)
            gated.append(wide & chosen.replicate(len(wide)).as_signed())
        a, forwarded, *ports = gated
        right = Signal(_PRODUCT)
        m.d.comb += right.eq((early | a | forwarded) | ((ports[0] | ports[1]) | (ports[2] | ports[3])))
        return right

    def _add(self, m: Module, add: Any, right: Any, value: Signal, half: Signal) -> None:
        """Adder with saturation, and the logic unit beside it."""
        slot = add.slot
        left = Signal(SIGNED_WORD)
        total = Signal(_SUM)
        with m.Switch(slot.left):
            with m.Case(Left.A):
                m.d.comb += left.eq(self.a)
            with m.Case(Left.VALUE):
                m.d.comb += left.eq(value)
            with m.Case(Left.ONE):
                m.d.comb += left.eq(HIGHEST)
        # One chain of carries: the place below the words brings the carry in. What is rounded is never subtracted.
        carry = slot.subtract | half
        m.d.comb += total.eq((Cat(1, left).as_signed() + Cat(carry, right).as_signed()) >> 1)
        distance = value[:4]
        logic = Signal(WORD)
        with m.Switch(slot.logic):
            with m.Case(Logic.AND):
                m.d.comb += logic.eq(self.a & right)
            with m.Case(Logic.OR):
                m.d.comb += logic.eq(self.a | right)
            with m.Case(Logic.XOR):
                m.d.comb += logic.eq(self.a ^ right)
            with m.Case(Logic.SHL):
                m.d.comb += logic.eq(self.a << distance)
            with m.Case(Logic.SHR):
                m.d.comb += logic.eq(self.a >> distance)
            with m.Case(Logic.LSR):
                m.d.comb += logic.eq(self.a.as_unsigned() >> distance)
        # The sum fits into a word if its upper bits all equal the word's sign. Whether it counts, and what takes its
        # place, hangs on these bits alone; the logic unit's result is 0 unless it is wanted.
        sums, fits, counts = Signal(), Signal(), Signal()
        highest, lowest = Signal(), Signal()
        m.d.comb += [
            sums.eq(slot.logic == Logic.ADDER),
            fits.eq(total[WORD - 1 :].all() | ~total[WORD - 1 :].any()),
            counts.eq(sums & fits),
            highest.eq(sums & ~fits & ~total[-1]),
            lowest.eq(sums & ~fits & total[-1]),
            self.result.eq(
                (total[:WORD] & counts.replicate(WORD))
                | logic
                | Mux(highest, HIGHEST, 0)
                | Mux(lowest, LOWEST & ((1 << WORD) - 1), 0)
            ),
        ]
