"""Sampling of mini-batches: limits, and the shift register behind its random numbers (A1, A2)."""

__all__ = [
    "FAN_OUT_MAX",
    "FINAL_ROUNDS",
    "FINAL_WORD",
    "HOPS_MAX",
    "LEAP",
    "NEGATIVE_HOP",
    "TAPS",
    "WORD",
    "leap_masks",
]

#: Most hops of a plan.
HOPS_MAX = 4
#: Largest fan-out of a hop, and largest number of negatives of a root.
FAN_OUT_MAX = 255
#: What takes the place of the hop when negatives are drawn.
NEGATIVE_HOP = 7

#: Bits of the state, and so of seeds and IDs.
WORD = 32
#: Feedback of the Galois register: x^32 + x^22 + x^2 + x + 1 has the full period 2^32 - 1.
TAPS = 0x80200003
#: Steps of the register for every number drawn, so that no bit is used twice.
LEAP = 32
#: Rounds without a word at the end of the mixing.
FINAL_ROUNDS = 3
#: What takes the place of a word in them.
FINAL_WORD = 0x9E3779B9


def _step(state: int) -> int:
    return (state >> 1) ^ (TAPS if state & 1 else 0)


def _leap(state: int) -> int:
    for _ in range(LEAP):
        state = _step(state)
    return state


def leap_masks() -> list[int]:
    """For every bit of the state after a leap the bits before it whose parity it is."""
    after = [_leap(1 << bit) for bit in range(WORD)]
    return [sum(1 << bit for bit in range(WORD) if after[bit] >> row & 1) for row in range(WORD)]
