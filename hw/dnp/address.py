# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""Address generator of one memory: separate operand and result pointers, each modified after use (D3)."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD, pointer_bits
from contracts.dnp.isa import MODES
from hw.dnp.isa import ADDRESS

__all__ = ["POINTERS", "STAGES", "AddressGenerator", "address_bits", "pointer", "write_layout"]

#: Operand pointers, and as many result pointers.
POINTERS = 4
#: Stages that follow the issue stage.
STAGES = 3
_KEEP, _RETURN = MODES.index(""), MODES.index("~")


def address_bits(depth: int) -> Any:
    """Return the shape of an address inside a memory."""
    return unsigned((depth - 1).bit_length())


def pointer(value: Any, depth: int) -> Any:
    """Return what a pointer into a memory keeps of a value, see `contracts.dnp.config.pointer_bits`."""
    inside = pointer_bits(depth) - 1
    return Cat(value[:inside], value[inside:].any())


def write_layout(depth: int) -> data.StructLayout:
    """Return the layout of a pending write of an instruction in a later stage."""
    return data.StructLayout({"valid": unsigned(1), "address": address_bits(depth)})


def _at_least(value: Any, limit: int) -> Any:
    """Compare with a constant, as a tree of bits: synthesis would move a comparison behind the choice of a pointer."""
    if limit == 1 << len(value):
        return Const(0)
    # A pair for each run of bits: it is greater than the constant's; it is not less (either value if it is greater).
    # Bits below the constant's lowest 1 do not matter.
    lowest = (limit & -limit).bit_length() - 1
    runs = [(Const(0), bit) if limit >> at & 1 else (bit, Const(1)) for at, bit in enumerate(value) if at >= lowest]
    while len(runs) > 1:
        odd = len(runs) % 2
        pairs = zip(runs[odd::2], runs[odd + 1 :: 2], strict=True)
        runs = runs[:odd] + [(high[0] | (high[1] & low[0]), high[1] & low[1]) for low, high in pairs]
    return runs[0][0] | runs[0][1]


class AddressGenerator(wiring.Component):
    """Eight pointers; one operand and one result address a clock.

    The two pointers that an instruction uses are selected in the previous clock, while it is decoded, with the changes
    of the instruction in front of it, and are registered apart, so that comparisons begin with a register.

    Parameters
    ----------
    depth
        Words of the memory, 2..65,536.
    past_start
        Distance at which ``~`` leaves the operand pointer from its start at the end of a repetition: 1 for WM, so that
        the next column follows, 0 for XM, so that the same inputs are used again.
    step
        Increment of ``+``; `None` for the port ``stride``.

    Attributes
    ----------
    reads, source, source_mode
        The memory is read; operand pointer, and how it is modified (index of ``MODES``).
    stores, result, result_step
        It is written; result pointer, and whether it steps.
    stride
        Increment of a step, without `step`.
    go, ahead, hold
        The stage works in this clock; the instruction goes ahead unless ``hold``. ``go`` and ``hold`` are late.
    moves, next_source, next_result
        After this clock the stage has another instruction or another pass, with these pointers.
    present
        The stage holds an instruction that is not skipped: if the stage moves, it goes ahead. Early.
    first, last
        First and last pass of a repetition; both outside one.
    source_address, result_address
        Addresses of this clock.
    writes
        Pending writes.
    source_pending
        The operand is one of them; invalid if its address lies outside.
    source_outside, result_outside
        The addresses lie past the end of the memory.
    loads, loads_pointer, load_pointer
        The instruction loads a control register and uses no pointer, whether it goes ahead or not; the register is a
        pointer of this generator; its number (operand pointers 0..3, result pointers 4..7).
    load, load_value, load_last
        It goes ahead: load it with ``load_value``, the last operand pointer with ``load_last``, which is later.
    pointers
        All pointers, to be read back; `contracts.dnp.config.pointer_bits` wide, as are the addresses.
    began
        First operand address of the repetition. Internal, named for proofs.

    Raises
    ------
    ValueError
        If `past_start` is neither 0 nor 1, or `depth` is out of range.
    """

    reads: Signal
    source: Signal
    source_mode: Signal
    stores: Signal
    result: Signal
    result_step: Signal
    stride: Signal
    go: Signal
    ahead: Signal
    hold: Signal
    moves: Signal
    next_source: Signal
    next_result: Signal
    present: Signal
    first: Signal
    last: Signal
    source_address: Signal
    result_address: Signal
    writes: Any
    source_pending: Signal
    source_outside: Signal
    result_outside: Signal
    loads: Signal
    loads_pointer: Signal
    load_pointer: Signal
    load: Signal
    load_value: Signal
    load_last: Signal
    pointers: Any

    def __init__(self, depth: int, past_start: int, step: int | None = None) -> None:
        if not 2 <= depth <= 1 << WORD:
            raise ValueError(f"depth must be in 2..{1 << WORD}, not {depth!r}")
        if past_start not in (0, 1):
            raise ValueError(f"past_start must be in 0..1, not {past_start!r}")
        self.depth, self.past_start, self.step = depth, past_start, step
        self.began = Signal(address_bits(depth), reset_less=True)
        members = {
            name: In(1)
            for name in (
                "reads", "stores", "result_step", "go", "ahead", "hold", "moves", "present", "first", "last", "loads",
                "loads_pointer", "load",
            )
        }  # fmt: skip
        members |= {name: In(2) for name in ("source", "source_mode", "result", "next_source", "next_result")}
        members |= {name: In(ADDRESS) for name in ("load_value", "load_last")}
        members |= {name: Out(1) for name in ("source_pending", "source_outside", "result_outside")}
        kept = unsigned(pointer_bits(depth))
        members |= {name: Out(kept) for name in ("source_address", "result_address")}
        members |= {} if step is not None else {"stride": In(ADDRESS)}
        super().__init__(
            {
                **members,
                "load_pointer": In(3),
                "writes": In(write_layout(depth)).array(STAGES),
                "pointers": Out(kept).array(2 * POINTERS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Check the addresses, step the pointers, select those of the next clock."""
        m = Module()
        source_inside, result_inside = self._check(m)
        # New values are early; whether the instruction goes ahead is late and only enables the registers.
        source_next, result_next = Signal(ADDRESS), Signal(ADDRESS)
        stride = self.stride if self.step is None else Const(self.step)
        returns = (self.source_mode == _RETURN) & self.last
        base, addend = Signal(len(source_inside)), Signal.like(stride)
        m.d.comb += [
            base.eq(Mux(returns & ~self.first, self.began, source_inside)),
            addend.eq(Mux(returns, self.past_start, stride)),
            source_next.eq(base + addend),
            result_next.eq(result_inside + stride),
        ]
        source_steps = self.reads & (self.source_mode != _KEEP)
        result_steps = self.stores & self.result_step
        # New value of the pointer in use; the last operand pointer may be loaded with another value.
        source_value, result_value, last_value = (Signal.like(self.source_address) for _ in range(3))
        source_kept, result_kept, given, given_last = (
            pointer(value, self.depth) for value in (source_next, result_next, self.load_value, self.load_last)
        )
        m.d.comb += [
            source_value.eq(Mux(self.loads, given, source_kept)),
            result_value.eq(Mux(self.loads, given, result_kept)),
            last_value.eq(Mux(self.loads, given_last, source_kept)),
        ]
        for index, register in enumerate(self.pointers):
            value = source_value if index < POINTERS else result_value
            if index == POINTERS - 1:
                value = last_value
            steps = source_steps & (self.source == index) if index < POINTERS else result_steps
            if index >= POINTERS:
                steps &= self.result == index - POINTERS
            loaded = self.load & (self.load_pointer == index)
            with m.If(self.go & ((self.ahead & steps & ~self.hold) | loaded)):
                m.d.sync += register.eq(value)
        self._select(m, source_steps, result_steps, values=(source_value, result_value), last_value=last_value)
        return m

    def _check(self, m: Module) -> tuple[Any, Any]:
        """Compare the addresses with the memory's end and with pending writes; return their bits inside the memory."""
        bits = (self.depth - 1).bit_length()
        # Where the pointers step they are inside, and their upper bits are 0.
        source_inside, result_inside = self.source_address[:bits], self.result_address[:bits]
        m.d.comb += [
            self.source_outside.eq(_at_least(self.source_address, self.depth)),
            self.result_outside.eq(_at_least(self.result_address, self.depth)),
        ]
        pending: Any = 0
        for write in self.writes:
            pending |= write.valid & (write.address == source_inside)
        m.d.comb += self.source_pending.eq(self.reads & pending)
        with m.If(self.go & self.ahead & self.reads & self.first & ~self.hold):
            m.d.sync += self.began.eq(source_inside)
        return source_inside, result_inside

    def _select(
        self, m: Module, source_steps: Any, result_steps: Any, *, values: tuple[Signal, Signal], last_value: Signal
    ) -> None:
        """Register the two pointers of the next clock, with their changes in this one."""
        source_value, result_value = values
        sources, results = list(self.pointers)[:POINTERS], list(self.pointers)[POINTERS:]
        to_result, number = self.load_pointer[-1], self.load_pointer[:-1]
        source_changes = self.present & Mux(self.loads, self.loads_pointer & ~to_result, source_steps)
        result_changes = self.present & Mux(self.loads, self.loads_pointer & to_result, result_steps)
        new_source = source_changes & (self.next_source == Mux(self.loads, number, self.source))
        new_result = result_changes & (self.next_result == Mux(self.loads, number, self.result))
        by_table = self.loads & (number == POINTERS - 1)
        with m.If(self.go & self.moves):
            m.d.sync += [
                self.source_address.eq(
                    Mux(
                        new_source,
                        Mux(by_table, last_value, source_value),
                        Array(sources)[self.next_source],
                    )
                ),
                self.result_address.eq(Mux(new_result, result_value, Array(results)[self.next_result])),
            ]
