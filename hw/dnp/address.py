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

    The two pointers that an instruction uses are chosen in the clock before it, while it is decoded, and kept beside
    the eight, with what the instruction before it does to them: comparing them begins with a register.

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

    #: The memory is read; operand pointer, and how it is modified (index of ``MODES``).
    reads: In(1)
    source: In(2)
    source_mode: In(2)
    #: It is written; result pointer, and whether it steps.
    stores: In(1)
    result: In(2)
    result_step: In(1)
    #: What a step adds.
    stride: In(ADDRESS)
    #: The stage works in this clock; the instruction goes ahead unless ``hold``. Both come late.
    go: In(1)
    ahead: In(1)
    hold: In(1)
    #: After this clock the stage has another instruction or another pass, with these pointers.
    moves: In(1)
    next_source: In(2)
    next_result: In(2)
    #: There is an instruction, and it is not skipped: where the stage moves, it goes ahead. Known early.
    present: In(1)
    #: First and last pass of a repetition; both outside one.
    first: In(1)
    last: In(1)
    #: Addresses of this clock.
    source_address: Out(ADDRESS)
    result_address: Out(ADDRESS)
    #: Words that are going to be written.
    writes: In(Write).array(STAGES)
    #: The operand is one of them; means nothing where its address lies outside.
    source_pending: Out(1)
    #: The addresses in use lie past the end of the memory.
    source_outside: Out(1)
    result_outside: Out(1)
    #: The instruction loads a control register and uses no pointer, whether it goes ahead or not; the register is one
    #: of these pointers, ``load_pointer`` (operand pointers 0..3, result pointers 4..7).
    loads: In(1)
    loads_pointer: In(1)
    load_pointer: In(3)
    #: It goes ahead: load it with ``load_value``, the last operand pointer with ``load_last``, which comes later.
    load: In(1)
    load_value: In(ADDRESS)
    load_last: In(ADDRESS)
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
        #: The pointers in use.
        self.source_now, self.result_now = Signal(ADDRESS), Signal(ADDRESS)
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        """Pointers, the adder of a step, and the place where a repetition began."""
        m = Module()
        sources, results = list(self.pointers)[:POINTERS], list(self.pointers)[POINTERS:]
        began = self.began
        m.d.comb += [
            self.source_address.eq(self.source_now),
            self.result_address.eq(self.result_now),
            self.source_outside.eq(_at_least(self.source_now, self.depth)),
            self.result_outside.eq(_at_least(self.result_now, self.depth)),
        ]
        bits = (self.depth - 1).bit_length()
        pending: Any = 0
        for write in self.writes:
            # What is going to be written lies inside, where the upper bits are 0.
            pending |= write.valid & (write.address[:bits] == self.source_address[:bits])
        m.d.comb += self.source_pending.eq(self.reads & pending)
        with m.If(self.go & self.ahead & self.reads & self.first & ~self.hold):
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
        source_steps = self.reads & (self.source_mode != _KEEP)
        result_steps = self.stores & self.result_step
        # What a pointer becomes; the last operand pointer may be loaded with something else.
        source_value, result_value = Signal(ADDRESS), Signal(ADDRESS)
        m.d.comb += [
            source_value.eq(Mux(self.loads, self.load_value, source_next)),
            result_value.eq(Mux(self.loads, self.load_value, result_next)),
        ]
        for index, pointer in enumerate(self.pointers):
            value = source_value if index < POINTERS else result_value
            if index == POINTERS - 1:
                value = Mux(self.loads, self.load_last, source_next)
            steps = source_steps & (self.source == index) if index < POINTERS else result_steps
            if index >= POINTERS:
                steps &= self.result == index - POINTERS
            loaded = self.load & (self.load_pointer == index)
            with m.If(self.go & ((self.ahead & steps & ~self.hold) | loaded)):
                m.d.sync += pointer.eq(value)
        # The pointers of the next clock, with what is done to them in this one.
        to_result, number = self.load_pointer[-1], self.load_pointer[:-1]
        source_changes = self.present & Mux(self.loads, self.loads_pointer & ~to_result, source_steps)
        result_changes = self.present & Mux(self.loads, self.loads_pointer & to_result, result_steps)
        new_source = source_changes & (self.next_source == Mux(self.loads, number, self.source))
        new_result = result_changes & (self.next_result == Mux(self.loads, number, self.result))
        by_table = self.loads & (number == POINTERS - 1)
        with m.If(self.go & self.moves):
            m.d.sync += [
                self.source_now.eq(
                    Mux(
                        new_source,
                        Mux(by_table, self.load_last, source_value),
                        Array(sources)[self.next_source],
                    )
                ),
                self.result_now.eq(Mux(new_result, result_value, Array(results)[self.next_result])),
            ]
        return m
