"""Seeds for which the numbers that are drawn are the ones wanted: mixing and shift register backwards (A2)."""

from __future__ import annotations

from collections.abc import Sequence

from golden.attributes.lfsr import FINAL_ROUNDS, FINAL_WORD, WORD, leap_masks

__all__ = ["seed_of", "state_before"]

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


def state_before(difference: int, leaps: int) -> int | None:
    """Return a state that differs by `difference` from the one so many numbers later; None if there is none."""
    # Rows of the matrix that takes a state to the difference, and behind each the bit it has to give.
    rows = [1 << bit for bit in range(WORD)]
    for _ in range(leaps):
        rows = [_combined(mask, rows) for mask in leap_masks()]
    system = [(row ^ 1 << bit) | (difference >> bit & 1) << WORD for bit, row in enumerate(rows)]
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
