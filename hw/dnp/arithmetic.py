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
from hw.dnp.isa import SIGNED_WORD, Left, Logic, Multiplicand, Multiplier, Right, Slot, Value
from hw.reset import partly_reset

__all__ = ["EFFECTS", "Arithmetic", "entry_layout", "flight_layout"]

#: -1 times -1 is +1: the product without its low bits has one bit more than a word.
_PRODUCT = signed(WORD + 1)
_SUM = signed(WORD + 2)


#: Fields of `Slot` for the effects of an instruction, all 0 without one.
EFFECTS = ("write_a", "clear_a", "write_general", "write_wm", "write_xm")


def entry_layout(config: ProcessorConfig) -> data.StructLayout:
    """Return the layout of the issue stage's output: an instruction (``valid``), a stop, or neither."""
    return data.StructLayout(
        {
            "valid": unsigned(1),
            "slot": Slot,
            "stop": unsigned(1),
            "constant": signed(WORD),
            # Writes are inside the memories, where the upper bits of an address are 0.
            "wm_address": address_bits(config.wm_depth),
            "xm_address": address_bits(config.xm_depth),
        }
    )


def flight_layout(config: ProcessorConfig) -> data.StructLayout:
    """Return the layout in which the issue stage sees an instruction in a later stage."""
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

    All effects of an instruction on registers, memories and ports happen in the add stage, in program order. Only there
    does an instruction wait for a partner; then all stages stall.

    Each input of the add stage is selected by one bit, which is registered a stage earlier, as is the general register
    that it reads. If the previous instruction writes that register, its result is forwarded from a register of its
    own.

    Parameters
    ----------
    config
        Memory sizes.
    multiply
        Returns the product of two factors; proofs substitute an arbitrary word.

    Attributes
    ----------
    go
        All stages advance; low while a port blocks or the processor is stopped.
    entry
        Instruction from the issue stage.
    wm_word, xm_word
        Words read from the memories for the instruction in the operand stage.
    flights
        Instructions in the three stages.
    last
        Entry of the add stage.
    result
        Its result, for memories and ports.
    offline, given
        Off-line, a clock later, the result is ``given``; no stage advances.
    port_words
        Words at the ports.
    receives, sends
        The ports at which the instruction in the add stage receives and sends, one bit each; 0 without an instruction.
    a, general
        Registers.
    from_a
        A itself is the second input of the adder. Internal, named for proofs.
    stages
        Entries of the operand and multiply stages. Internal, named for proofs.
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
        # Until an instruction comes, there are no effects.
        kept = ("valid", "stop", *(f"slot.{name}" for name in EFFECTS))
        *self.stages, self.add = (partly_reset(self.layout, *kept, name=n) for n in ("operand", "multiply", "add"))
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
        """Move instructions on, form the inputs of each stage, add, carry out the effects."""
        m = Module()
        (operand, multiply), add = self.stages, self.add
        m.d.comb += self.last.eq(add)
        general = Array(self.general)
        self._flights(m)
        with m.If(self.go):
            m.d.sync += [operand.eq(self.entry), multiply.eq(operand), add.eq(multiply)]
            for name in EFFECTS:
                m.d.sync += getattr(operand.slot, name).eq(getattr(self.entry.slot, name) & self.entry.valid)

        factors = [Signal(SIGNED_WORD, name=name, reset_less=True) for name in ("multiplicand", "multiplier")]
        values = [Signal(SIGNED_WORD, name=f"value_{stage}", reset_less=True) for stage in ("multiply", "add")]
        self._operands(m, operand, general, factors, values)
        inverting = Signal(_PRODUCT)
        m.d.comb += inverting.eq(multiply.slot.subtract.replicate(WORD + 1))
        kept, half = self._product(m, multiply, factors, values[0], inverting)
        read, latest, from_latest = self._register(m, multiply, add, general, inverting)
        self._ports(m, multiply)
        self._add(m, add, self._right(m, multiply.slot, kept | read, latest, from_latest), values[1], half)
        # A word from the host passes the adder as a result does: 0 and the word are added.
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

    def _flights(self, m: Module) -> None:
        """Describe the instructions in the stages to the issue stage."""
        for flight, entry in zip(self.flights, (*self.stages, self.last), strict=True):
            m.d.comb += [
                flight.writes_a.eq(entry.slot.write_a | entry.slot.clear_a),
                flight.writes_general.eq(entry.slot.write_general),
                flight.target.eq(entry.slot.target),
                flight.writes_wm.eq(entry.slot.write_wm),
                flight.writes_xm.eq(entry.slot.write_xm),
                flight.wm_address.eq(entry.wm_address),
                flight.xm_address.eq(entry.xm_address),
            ]

    def _operands(self, m: Module, operand: Any, general: Any, factors: list[Signal], values: list[Signal]) -> None:
        """Choose the factors, and the value that passes beside the multiplier."""
        with m.If(self.go):
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

    def _product(
        self, m: Module, multiply: Any, factors: list[Signal], value: Signal, inverting: Signal
    ) -> tuple[Signal, Signal]:
        """Register the product or the value, or 0; return it, and the highest dropped bit of a product to be rounded.

        Rounding to nearest adds that bit; the adder of the sum has room for it. Inputs that are not selected are 0
        here and subtrahends are inverted here, which saves the add stage a choice.
        """
        kept, half = Signal(_PRODUCT, reset_less=True), Signal()
        product = Signal(signed(2 * WORD))
        m.d.comb += product.eq(self.multiply(*factors))
        with m.If(self.go):
            m.d.sync += [kept.eq(0), half.eq(multiply.slot.rounded & product[FRACTION - 1])]
            with m.Switch(multiply.slot.right):
                with m.Case(Right.PRODUCT):
                    m.d.sync += kept.eq(product[FRACTION:] ^ inverting.as_unsigned())
                with m.Case(Right.VALUE):
                    m.d.sync += kept.eq(value ^ inverting)
        return kept, half

    def _register(
        self, m: Module, multiply: Any, add: Any, general: Any, inverting: Signal
    ) -> tuple[Signal, Signal, Signal]:
        """Read the general register that is added, or 0; return it, the latest result, and whether that replaces it."""
        named = multiply.slot.register
        wanted = (multiply.slot.right == Right.REGISTER) & ~named[-1]
        read, forwarded = Signal(SIGNED_WORD), Signal()
        latest, from_latest = Signal(SIGNED_WORD, reset_less=True), Signal()
        m.d.comb += forwarded.eq(add.slot.write_general & (add.slot.target == named[: len(add.slot.target)]))
        with m.If(self.go):
            m.d.sync += [read.eq(0), latest.eq(self.result), from_latest.eq(wanted & forwarded)]
            with m.If(wanted & ~forwarded):
                m.d.sync += read.eq(general[named[:-1]] ^ inverting)
        return read, latest, from_latest

    def _ports(self, m: Module, multiply: Any) -> None:
        """Register one bit for each port that the instruction uses in the add stage."""
        slot = multiply.slot
        for wanted, port, ports in (
            (slot.receive, slot.receive_port, self.receives),
            (slot.send, slot.send_port, self.sends),
        ):
            with m.If(self.go):
                m.d.sync += ports.eq(Cat(multiply.valid & wanted & (port == index) for index in range(len(PORTS))))

    def _right(self, m: Module, slot: Any, early: Any, latest: Signal, from_latest: Signal) -> Any:
        """Return the second input of the adder, inverted for a subtraction; `slot` is that of the multiply stage."""
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
        """Add with saturation; the logic unit is beside the adder."""
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
        # One carry chain: the bit below the words brings the carry in. A rounded product is never subtracted.
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
        # The sum fits into a word if its upper bits all equal the word's sign. These bits alone decide whether it is
        # the result or which limit replaces it; the logic unit's output is 0 unless it is selected.
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
