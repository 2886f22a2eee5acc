# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""Address generator of one memory: operand pointers apart from result pointers, each modified after use (D3)."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from golden.dnp.isa import MODES
from hw.dnp.isa import ADDRESS

__all__ = ["POINTERS", "AddressGenerator"]

#: Operand pointers, and as many result pointers.
POINTERS = 4
_STEP, _RETURN = MODES.index("+"), MODES.index("~")


class AddressGenerator(wiring.Component):
    """Eight pointers; one operand and one result address a clock.

    Parameters
    ----------
    past_start
        Where ``~`` leaves the operand pointer at the end of a repetition, counted from where it began: 1 for WM, so
        that the next column follows, 0 for XM, so that the same inputs are used again.

    Raises
    ------
    ValueError
        If `past_start` is neither 0 nor 1.
    """

    #: Operand pointer in use, and how it is modified (index of ``MODES``).
    source: In(2)
    source_mode: In(2)
    #: Result pointer in use, and whether it steps.
    result: In(2)
    result_step: In(1)
    #: What a step adds.
    stride: In(ADDRESS)
    #: The instruction goes ahead and uses the operand pointer, the result pointer.
    use_source: In(1)
    use_result: In(1)
    #: First and last pass of a repetition; both outside one.
    first: In(1)
    last: In(1)
    #: Addresses of this clock.
    source_address: Out(ADDRESS)
    result_address: Out(ADDRESS)
    #: Load pointer ``load_pointer`` (operand pointers 0..3, result pointers 4..7) with ``load_value``.
    load: In(1)
    load_pointer: In(3)
    load_value: In(ADDRESS)
    #: All pointers, to be read back.
    pointers: Out(ADDRESS).array(2 * POINTERS)

    def __init__(self, past_start: int) -> None:
        if past_start not in (0, 1):
            raise ValueError(f"past_start must be in 0..1, not {past_start!r}")
        self.past_start = past_start
        super().__init__()

    def elaborate(self, platform: Any) -> Module:
        """Pointers, the adder of a step, and the place where a repetition began."""
        m = Module()
        pointers = Array(self.pointers)
        results = Array(list(self.pointers)[POINTERS:])
        began = Signal(ADDRESS)
        start = Signal(ADDRESS)
        m.d.comb += [
            self.source_address.eq(pointers[self.source]),
            self.result_address.eq(results[self.result]),
            start.eq(Mux(self.first, self.source_address, began)),
        ]
        with m.If(self.use_source):
            m.d.sync += began.eq(start)
            with m.If((self.source_mode == _RETURN) & self.last):
                m.d.sync += pointers[self.source].eq(start + self.past_start)
            with m.Elif((self.source_mode == _STEP) | (self.source_mode == _RETURN)):
                m.d.sync += pointers[self.source].eq(self.source_address + self.stride)
        with m.If(self.use_result & self.result_step):
            m.d.sync += results[self.result].eq(self.result_address + self.stride)
        with m.If(self.load):
            m.d.sync += pointers[self.load_pointer].eq(self.load_value)
        return m
