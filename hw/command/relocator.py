"""Relocator: addresses of a command, counted from the image's base, and whether the memory port reaches them."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Opcode
from hw.command.operands import Operands
from hw.memory.formats import WORD_BYTES, line_address_width

__all__ = ["Relocator", "Slots", "in_beats", "in_words", "slots_of"]

Slots = Mapping[Opcode, tuple[str | None, ...]]


def in_words(line: Value) -> Value:
    """Return a line address in words of 32 bits."""
    return line << exact_log2(LINE_BYTES // WORD_BYTES)


def in_beats(line: Value, data_width: int) -> Value:
    """Return a line address in beats of `data_width` bits."""
    return line << exact_log2(8 * LINE_BYTES // data_width)


def slots_of(operands: Operands, slots: Slots | None = None) -> dict[Opcode, tuple[str | None, ...]]:
    """Return which operand each adder takes, for every opcode.

    Parameters
    ----------
    operands
        Of the unit.
    slots
        For each opcode the operands in the order of the adders, `None` for an adder that it does not use; an opcode
        that is not named has its lines in the order of the contract.

    Raises
    ------
    ValueError
        If the slots of an opcode are not its lines.
    """
    found: dict[Opcode, tuple[str | None, ...]] = {}
    for opcode, lines in operands.lines.items():
        chosen = (slots or {}).get(opcode, lines)
        if sorted(name for name in chosen if name) != sorted(lines):
            raise ValueError(f"slots of {opcode.name} must be its lines {lines}, not {chosen!r}")
        found[opcode] = tuple(chosen)
    return found


class Relocator(wiring.Component):
    """One adder for each line that a command can have; opcodes share them.

    Parameters
    ----------
    operands
        Of the unit.
    address_width
        Of the memory port, in bits.
    slots
        As `slots_of` returns them.
    registered
        Whether operands are chosen a cycle before they are added, and checked a cycle after.

    Attributes
    ----------
    base : In
        Line address of the image.
    bits : In
        Operands as `Operands.pack` returns them.
    unused : In
        For each slot: the address is not checked.
    lines : Out
        Line addresses, a cycle after `bits`, or two cycles if `registered`.
    beyond : Out(1)
        An address exceeds the memory port, in the same cycle, or the next if `registered`.
    operand : Out(32)
        The first such operand in the order of the contract.
    """

    def __init__(self, operands: Operands, address_width: int, slots: Slots, *, registered: bool = False) -> None:
        self.operands, self.slots, self.registered = operands, slots, registered
        self.count = max((len(names) for names in slots.values()), default=0)
        line = line_address_width(address_width)
        super().__init__(
            {
                "base": In(line),
                "bits": In(operands.width),
                "unused": In(self.count),
                "lines": Out(line).array(self.count),
                "beyond": Out(1),
                "operand": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Choose by opcode, add, compare."""
        m = Module()
        opcode = self.operands.view(self.bits, Opcode.NOP).opcode
        chosen = [Signal(32, name=f"operand_{n}") for n in range(self.count)]
        with m.Switch(opcode):
            for number, names in self.slots.items():
                view = self.operands.view(self.bits, number)
                with m.Case(number) if len(self.slots) > 1 else m.Default():
                    m.d.comb += [slot.eq(view[name]) for slot, name in zip(chosen, names, strict=False) if name]
        added = chosen
        if self.registered:
            added = [Signal(32, name=f"chosen_{n}", reset_less=True) for n in range(self.count)]
            m.d.sync += [register.eq(slot) for register, slot in zip(added, chosen, strict=True)]
        width = len(self.base)
        sums = [Signal(1 + max(width, 32), name=f"sum_{n}", reset_less=True) for n in range(self.count)]
        exceeds = Signal(self.count)
        m.d.sync += [sum_.eq(self.base + added[n]) for n, sum_ in enumerate(sums)]
        compared = Cat(sum_[width:].any() for sum_ in sums)
        if self.registered:
            m.d.sync += exceeds.eq(compared)
        else:
            m.d.comb += exceeds.eq(compared)
        m.d.comb += [line.eq(sum_) for line, sum_ in zip(self.lines, sums, strict=True)]
        with m.Switch(opcode):
            for number, names in self.slots.items():
                with m.Case(number) if len(self.slots) > 1 else m.Default():
                    for name in reversed(self.operands.lines[number]):
                        slot = names.index(name)
                        with m.If(exceeds[slot] & ~self.unused[slot]):
                            m.d.comb += [self.beyond.eq(1), self.operand.eq(added[slot])]
        return m
