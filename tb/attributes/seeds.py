"""Seeds for which the numbers that are drawn are the ones wanted: mixing and shift register backwards (A2)."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.sampling import FINAL_ROUNDS, FINAL_WORD, WORD, leap_masks

__all__ = ["seed_of", "state_before"]

_MASKS = leap_masks()

_MASK = (1 << WORD) - 1


def _unshifted(value: int, shift: int) -> int:
    """Return x of ``x ^ (x >> shift)``."""
    out = value
    while value:
        value >>= shift
        out ^= value
    return out


def _before(state: int, word: int) -> int:
    """Return the state before a round of mixing."""
    state = _unshifted(state, 11) * pow(9, -1, 1 << WORD) & _MASK
    state = _unshifted(state, 6) * pow(1025, -1, 1 << WORD) & _MASK
    return (state - word) & _MASK


def seed_of(state: int, words: Sequence[int]) -> int:
    """Return the seed for which mixing it and `words` (batch, root, hop, node) gives `state`."""
    for word in [*words, *[FINAL_WORD] * FINAL_ROUNDS][::-1]:
        state = _before(state, word)
    return _before(state, 0)


def state_before(difference: int, first: int, second: int) -> int | None:
    """Return a state from which the numbers `first` and `second` (from 0) differ by `difference`; None without one."""
    # Rows of the matrix that takes a state to the difference, and behind each the bit it has to give.
    power = [1 << bit for bit in range(WORD)]
    rows = [0] * WORD
    for number in range(max(first, second) + 1):
        if number in (first, second):
            rows = [row ^ other for row, other in zip(rows, power, strict=True)]
        power = [_combined(mask, power) for mask in _MASKS]
    system = [row | (difference >> bit & 1) << WORD for bit, row in enumerate(rows)]
    pivots: list[tuple[int, int]] = []
    for bit in range(WORD):
        row = next((row for row in system if row >> bit & 1), None)
        if row is None:
            continue
        system.remove(row)
        system = [other ^ row if other >> bit & 1 else other for other in system]
        pivots = [(at, other ^ row if other >> bit & 1 else other) for at, other in pivots] + [(bit, row)]
    if any(row >> WORD for row in system):
        return None
    return sum(1 << bit for bit, row in pivots if row >> WORD)


def _combined(mask: int, rows: Sequence[int]) -> int:
    out = 0
    for bit, row in enumerate(rows):
        if mask >> bit & 1:
            out ^= row
    return out
