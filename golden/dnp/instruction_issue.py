"""The issue stage: decoding, repetition, address generation, branches, and waiting for operands (D3, D5)."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import HIGHEST, WORD, pointer_bits
from contracts.dnp.isa import GENERAL, INSTRUCTIONS, IOPR_CODE, TABLE_POINTER, Control, StopCode
from golden.dnp.arithmetic import Ints, pointer, signed
from golden.dnp.decode import A_CODE, NONE, Trait, traits
from golden.dnp.state import COMMIT, MULTIPLY, OPERAND, Slot, State

__all__ = ["issue"]

Mask: TypeAlias = npt.NDArray[np.bool_]

_WORDS = 1 << WORD
_INDEX = {row.name: i for i, row in enumerate(INSTRUCTIONS)}
_BRANCHES = ("BN", "BP", "BZ", "BNZ")
_BRANCH_FIELD, _LOOP_FIELD = 8, 9
#: What completes in the issue stage and never enters the arithmetic pipeline.
_ISSUE_ONLY = np.zeros(len(INSTRUCTIONS) + 1, dtype=bool)
_ISSUE_ONLY[[_INDEX[name] for name in ("NOP", "JMP", "MOV.C", "SET", "LOOP", *_BRANCHES)]] = True


@dataclass
class _Step:
    """The word in the issue stage of every processor and what is known about it."""

    word: Ints
    t: npt.NDArray[np.int16]

    def __getitem__(self, trait: Trait) -> npt.NDArray[np.int16]:
        return self.t[:, trait]

    def named(self, name: str) -> Mask:
        return self.t[:, Trait.ROW] == _INDEX[name]


def _near(word: Ints, bits: int) -> Ints:
    field = word & ((1 << bits) - 1)
    return field - ((field >> (bits - 1)) << bits)


def _waits(s: State, step: _Step, wm_read: Ints, xm_read: Ints) -> Mask:
    """Whether something that is needed is still on its way through the arithmetic pipeline."""
    table = traits()
    wait = np.zeros(s.processors, dtype=bool)
    for stage in (OPERAND, MULTIPLY, COMMIT):
        slot = s.pipe[stage]
        valid = slot[Slot.VALID] == 1
        late = table[slot[Slot.WORD]]
        writes, clears = late[:, Trait.WRITES], late[:, Trait.CLEARS_A] == 1
        writes_a = (writes == A_CODE) | clears

        def pending(
            register: npt.NDArray[np.int16], writes: npt.NDArray[np.int16] = writes, writes_a: Mask = writes_a
        ) -> Mask:
            return (register >= 0) & np.where(register == A_CODE, writes_a, writes == register)

        wait |= valid & pending(step[Trait.ISSUE_READS])
        if stage != COMMIT:
            wait |= valid & pending(step[Trait.OPERAND_READS])
            wait |= valid & (step[Trait.OPERAND_READS_A] == 1) & writes_a
        wait |= valid & (wm_read >= 0) & (slot[Slot.WM_WRITE] == wm_read)
        wait |= valid & (xm_read >= 0) & (slot[Slot.XM_WRITE] == xm_read)
    return wait


def _store_control(s: State, who: Mask, which: Ints, value: Ints) -> None:
    """Write control registers; WA3 receives the address of the value's table entry (D8)."""
    rows = np.flatnonzero(who)
    if not rows.size:
        return
    register, word = which[rows], value[rows] % _WORDS
    entry = (word ^ (HIGHEST + 1)) >> (WORD - s.config.table_bits)
    word = np.where(register == TABLE_POINTER, (s.control[rows, Control.TB] + entry) % _WORDS, word)
    word = np.where(register == Control.IOPR, word & 3, word)
    word = np.where(register <= Control.WR3, pointer(word, s.config.wm_depth), word)
    xm = (register >= Control.XA0) & (register <= Control.XR3)
    s.control[rows, register] = np.where(xm, pointer(word, s.config.xm_depth), word)


def _register(s: State, which: npt.NDArray[np.int16]) -> Ints:
    rows = np.arange(s.processors)
    return np.where(which == A_CODE, s.a, s.rf[rows, np.clip(which, 0, GENERAL - 1)])


def issue(s: State, go: Mask) -> Ints:
    """One clock of the issue stage of the processors in ``go``.

    Returns
    -------
    Ints
        What enters the operand stage, shape (slots, P); columns outside ``go`` mean nothing.
    """
    rows = np.arange(s.processors)
    depth = s.config.p_depth
    live = go & s.fetched & ~s.stopping
    outside = s.pc >= depth
    fetched_word = s.p[rows, np.where(outside, 0, s.pc)]
    second = s.second & live
    word = np.where(second, s.first_word, fetched_word)
    step = _Step(word, traits()[word])
    slot = np.full((len(Slot), s.processors), NONE, dtype=np.int64)
    slot[Slot.VALID] = 0

    # Repetition: count of this pass, and whether it is the last one.
    repeat = (step[Trait.REPEAT] == 1) & ~second
    count = np.where(s.repeating, s.remaining, s.control[:, Control.RC])
    skip = repeat & (count == 0)
    last = ~repeat | (count <= 1)

    # Addresses; a result pointer is never an operand pointer (D3).
    address = {}
    for trait, base in (
        (Trait.WM_SOURCE, Control.WA0),
        (Trait.WM_RESULT, Control.WR0),
        (Trait.XM_SOURCE, Control.XA0),
        (Trait.XM_RESULT, Control.XR0),
    ):
        pointer = step[trait].astype(np.int64)
        address[trait] = np.where(pointer >= 0, s.control[rows, base + np.maximum(pointer, 0)], NONE)
    first_half = (step[Trait.TWO_WORDS] == 1) & ~second & live & ~outside
    simple = ~first_half & ~second

    code = np.full(s.processors, StopCode.NONE, dtype=np.int64)
    code[np.maximum(address[Trait.XM_SOURCE], address[Trait.XM_RESULT]) >= s.config.xm_depth] = StopCode.XM_RANGE
    code[np.maximum(address[Trait.WM_SOURCE], address[Trait.WM_RESULT]) >= s.config.wm_depth] = StopCode.WM_RANGE
    code[skip | second] = StopCode.NONE
    code[(step[Trait.ROW] == NONE)] = StopCode.OPCODE
    code[outside] = StopCode.PC_RANGE
    halt = (step.named("HALT") & ~outside) | (code != StopCode.NONE)

    undefined = (step[Trait.ROW] == NONE) | outside
    waits = simple & ~skip & ~undefined & _waits(s, step, address[Trait.WM_SOURCE], address[Trait.XM_SOURCE])
    act = live & ~waits & ~first_half
    stop = act & halt
    s.stopping |= stop
    act &= ~stop
    does = act & ~skip
    s.instructions += does

    # Into the arithmetic pipeline.
    control_code = np.clip(step[Trait.CONTROL], 0, None).astype(np.int64)
    from_control = s.control[rows, control_code]
    shift = word & 0xF
    constant = np.where(second, signed(fetched_word), np.where(step.named("MOV.G"), signed(from_control), shift))
    enters = does & ~_ISSUE_ONLY[step[Trait.ROW]] & ~(second & (step[Trait.CONTROL] >= 0))
    slot[Slot.VALID] = enters | stop
    slot[Slot.WORD] = word
    slot[Slot.CONSTANT] = constant
    slot[Slot.PC] = s.pc
    slot[Slot.STOP] = np.where(stop, code + 1, NONE)
    for name, trait in (
        (Slot.WM_READ, Trait.WM_SOURCE),
        (Slot.WM_WRITE, Trait.WM_RESULT),
        (Slot.XM_READ, Trait.XM_SOURCE),
        (Slot.XM_WRITE, Trait.XM_RESULT),
    ):
        slot[name] = np.where(enters, address[trait], NONE)
    for name, trait in ((Slot.PORT_IN, Trait.PORT_IN), (Slot.PORT_OUT, Trait.PORT_OUT)):
        port = step[trait].astype(np.int64)
        port = np.where(port == IOPR_CODE, s.control[:, Control.IOPR], port)
        slot[name] = np.where(enters, port, NONE)

    _control_effects(s, step, does, second, fetched_word)
    _modify_pointers(s, step, does & simple, repeat, last, address)
    s.remaining = np.where(does & repeat, count - 1, s.remaining)
    s.repeating = np.where(act, repeat & ~last, s.repeating)
    _next_word(s, step, go, live, act, first_half, second, last, fetched_word)
    return slot


def _control_effects(s: State, step: _Step, does: Mask, second: Mask, fetched_word: Ints) -> None:
    control_code = np.clip(step[Trait.CONTROL], 0, None).astype(np.int64)
    _store_control(s, does & step.named("MOV.C"), control_code, _register(s, step[Trait.ISSUE_READS]))
    _store_control(s, does & step.named("SET"), control_code, step.word & 0xFF)
    _store_control(s, does & second & (step[Trait.CONTROL] >= 0), control_code, fetched_word)


def _modify_pointers(s: State, step: _Step, does: Mask, repeat: Mask, last: Mask, address: dict[Trait, Ints]) -> None:
    """Post-modification: + steps by ICR (WM) or 1 (XM); ~ comes back at the end of a repetition."""
    rows = np.arange(s.processors)
    icr = s.control[:, Control.ICR]
    first = ~s.repeating
    start_w = np.where(first, address[Trait.WM_SOURCE], s.start_w)
    start_x = np.where(first, address[Trait.XM_SOURCE], s.start_x)
    for trait, base, stride, back, depth in (
        (Trait.WM_SOURCE, Control.WA0, icr, start_w + 1, s.config.wm_depth),
        (Trait.WM_RESULT, Control.WR0, icr, start_w, s.config.wm_depth),
        (Trait.XM_SOURCE, Control.XA0, 1, start_x, s.config.xm_depth),
        (Trait.XM_RESULT, Control.XR0, 1, start_x, s.config.xm_depth),
    ):
        mode = step.t[:, trait + 1]
        moves = does & (step[trait] >= 0) & (mode > 0)
        value = pointer(np.where((mode == 2) & last, back, address[trait] + stride), depth)
        chosen = np.flatnonzero(moves)
        s.control[rows[chosen], base + step[trait][chosen]] = value[chosen]
    s.start_w = np.where(does & repeat & first, start_w, s.start_w)
    s.start_x = np.where(does & repeat & first, start_x, s.start_x)


def _next_word(
    s: State,
    step: _Step,
    go: Mask,
    live: Mask,
    act: Mask,
    first_half: Mask,
    second: Mask,
    last: Mask,
    fetched_word: Ints,
) -> None:
    """Fetch on, branch, or hold the word that has to wait or repeat."""
    one = act & ~second
    taken = one & (
        (step.named("BN") & (s.a < 0))
        | (step.named("BP") & (s.a >= 0))
        | (step.named("BZ") & (s.a == 0))
        | (step.named("BNZ") & (s.a != 0))
    )
    target = s.pc + _near(step.word, _BRANCH_FIELD)
    loop = one & step.named("LOOP")
    if loop.any():
        counter = Control.LC0 + ((step.word >> _LOOP_FIELD) & 1)
        chosen = np.flatnonzero(loop)
        left = (s.control[chosen, counter[chosen]] - 1) % _WORDS
        s.control[chosen, counter[chosen]] = left
        again = np.zeros_like(taken)
        again[chosen] = left != 0
        taken |= again
        target = np.where(loop, s.pc + _near(step.word, _LOOP_FIELD), target)
    jump = act & second & step.named("JMP")
    taken |= jump
    target = pointer(np.where(jump, fetched_word, target), s.config.p_depth)

    s.first_word = np.where(first_half, step.word, s.first_word)
    s.second = np.where(live, first_half, s.second)
    advance = (go & ~s.fetched) | first_half | (act & last)
    s.pc = np.where(advance, s.pc_read, s.pc)
    s.fetched = np.where(advance, s.read & ~taken, s.fetched)
    s.pc_read = np.where(advance, s.pc_fetch, s.pc_read)
    s.read = np.where(advance, ~taken, s.read)
    s.pc_fetch = np.where(
        taken, target, np.where(advance, (s.pc_fetch + 1) % (1 << pointer_bits(s.config.p_depth)), s.pc_fetch)
    )
