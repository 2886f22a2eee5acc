# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""Address generator of one memory: operand pointers apart from result pointers, each modified after use (D3)."""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.dnp.arithmetic import WORD
from golden.dnp.isa import MODES
from hw.dnp.isa import ADDRESS

__all__ = ["POINTERS", "STAGES", "AddressGenerator", "Write"]

#: Operand pointers, and as many result pointers.
POINTERS = 4
#: Stages that follow the issue stage.
STAGES = 3
_KEEP, _RETURN = MODES.index(""), MODES.index("~")


class Write(data.Struct):
    """A word that an instruction on its way is going to write."""

    valid: unsigned(1)
    address: ADDRESS


def _at_least(value: Any, limit: int) -> Any:
    """Compare with a constant, as a tree of bits: synthesis would move a comparison behind the choice of a pointer."""
    if limit == 1 << len(value):
        return Const(0)
    # For a run of bits: whether it is greater than the constant's, and whether it is equal.
    runs = [(Const(0), bit) if limit >> at & 1 else (bit, ~bit) for at, bit in enumerate(value)]
    while len(runs) > 1:
        runs = [
            (high[0] | (high[1] & low[0]), high[1] & low[1]) for low, high in zip(runs[::2], runs[1::2], strict=True)
        ]
    return runs[0][0] | runs[0][1]


class AddressGenerator(wiring.Component):
    """Eight pointers; one operand and one result address a clock.

    What has to be known about the addresses is found for all pointers at once, before one is chosen.

    Parameters
    ----------
    depth
        Words of the memory, 2..65,536.
    past_start
        Where ``~`` leaves the operand pointer at the end of a repetition, counted from where it began: 1 for WM, so
        that the next column follows, 0 for XM, so that the same inputs are used again.

    Raises
    ------
    ValueError
        If `past_start` is neither 0 nor 1, or `depth` is out of range.
    """

    #: Operand pointer in use, and how it is modified (index of ``MODES``).
    source: In(2)
    source_mode: In(2)
    #: Result pointer in use, and whether it steps.
    result: In(2)
    result_step: In(1)
    #: What a step adds.
    stride: In(ADDRESS)
    #: The instruction uses the operand pointer, the result pointer, and goes ahead unless ``hold``, which comes late.
    use_source: In(1)
    use_result: In(1)
    hold: In(1)
    #: First and last pass of a repetition; both outside one.
    first: In(1)
    last: In(1)
    #: Addresses of this clock.
    source_address: Out(ADDRESS)
    result_address: Out(ADDRESS)
    #: Words that are going to be written.
    writes: In(Write).array(STAGES)
    #: The word at ``source_address`` is one of them; means nothing where that lies outside.
    source_pending: Out(1)
    #: The addresses lie past the end of the memory.
    source_outside: Out(1)
    result_outside: Out(1)
    #: The instruction loads a control register and uses no pointer, whether it goes ahead or not.
    loads: In(1)
    #: It goes ahead: load pointer ``load_pointer`` (operand pointers 0..3, result pointers 4..7) with ``load_value``.
    load: In(1)
    load_pointer: In(3)
    load_value: In(ADDRESS)
    #: All pointers, to be read back.
    pointers: Out(ADDRESS).array(2 * POINTERS)

    def __init__(self, depth: int, past_start: int) -> None:
        if not 2 <= depth <= 1 << WORD:
            raise ValueError(f"depth must be in 2..{1 << WORD}, not {depth!r}")
        if past_start not in (0, 1):
            raise ValueError(f"past_start must be in 0..1, not {past_start!r}")
        self.depth, self.past_start = depth, past_start
        #: Where the repetition's operand pointer began.
        self.began = Signal(ADDRESS)
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        """Pointers, the adder of a step, and the place where a repetition began."""
        m = Module()
        pointers = Array(self.pointers)
        results = Array(list(self.pointers)[POINTERS:])
        began = self.began
        m.d.comb += [
            self.source_address.eq(pointers[self.source]),
            self.result_address.eq(results[self.result]),
        ]
        bits = (self.depth - 1).bit_length()
        outside = [_at_least(pointer, self.depth) for pointer in self.pointers]
        pending = []
        for pointer in list(self.pointers)[:POINTERS]:
            hit: Any = 0
            for write in self.writes:
                # What is going to be written lies inside, where the upper bits are 0.
                hit |= write.valid & (write.address[:bits] == pointer[:bits])
            pending.append(hit)
        m.d.comb += [
            self.source_pending.eq(Array(pending)[self.source]),
            self.source_outside.eq(Array(outside[:POINTERS])[self.source]),
            self.result_outside.eq(Array(outside[POINTERS:])[self.result]),
        ]
        with m.If(self.use_source & self.first & ~self.hold):
            m.d.sync += began.eq(self.source_address)
        # New values are ready early; whether the instruction goes ahead is known late and only enables the registers.
        source_next, result_next = Signal(ADDRESS), Signal(ADDRESS)
        returns = (self.source_mode == _RETURN) & self.last
        base, addend = Signal(ADDRESS), Signal(ADDRESS)
        m.d.comb += [
            base.eq(Mux(returns & ~self.first, began, self.source_address)),
            addend.eq(Mux(returns, self.past_start, self.stride)),
            source_next.eq(base + addend),
            result_next.eq(self.result_address + self.stride),
        ]
        for index, pointer in enumerate(self.pointers):
            number = index % POINTERS
            if index < POINTERS:
                used = self.use_source & (self.source == number) & (self.source_mode != _KEEP)
                following = source_next
            else:
                used = self.use_result & (self.result == number) & self.result_step
                following = result_next
            with m.If((used & ~self.hold) | (self.load & (self.load_pointer == index))):
                m.d.sync += pointer.eq(Mux(self.loads, self.load_value, following))
        return m
