"""Random numbers of the sampler: a state mixed from what is sampled, stepped by a shift register (A2)."""

from collections.abc import Iterable

__all__ = ["LEAP", "TAPS", "WORD", "Generator", "leap_masks", "mix"]

#: Bits of the state, and so of seeds and IDs.
WORD = 32
_MASK = (1 << WORD) - 1
#: Feedback of the Galois register: x^32 + x^22 + x^2 + x + 1 has the full period 2^32 - 1.
TAPS = 0x80200003
#: Steps of the register for every number drawn, so that no bit is used twice.
LEAP = 32
#: Rounds without a word at the end of the mixing.
FINAL_ROUNDS = 3
#: What takes the place of a word in them.
FINAL_WORD = 0x9E3779B9


def _round(state: int, word: int) -> int:
    state = (state + word) & _MASK
    state = (state + (state << 10)) & _MASK
    state ^= state >> 6
    state = (state + (state << 3)) & _MASK
    return state ^ (state >> 11)


def mix(words: Iterable[int]) -> int:
    """State that a generator starts from; never 0, the one state a shift register does not leave."""
    state = 0
    for word in words:
        state = _round(state, word & _MASK)
    for _ in range(FINAL_ROUNDS):
        state = _round(state, FINAL_WORD)
    return state or 1


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


_ROWS = leap_masks()
# The state's bytes each decide a part of what follows, because a leap is linear.
_BYTES = [
    [sum(((part << shift & mask).bit_count() & 1) << row for row, mask in enumerate(_ROWS)) for part in range(256)]
    for shift in range(0, WORD, 8)
]


class Generator:
    """Uniform bounded numbers by rejection.

    Parameters
    ----------
    words
        What the state is mixed from: seed, batch, root, hop, node.

    Attributes
    ----------
    state
        Of the register.
    draws
        Numbers taken from the register so far, rejected ones too.
    """

    def __init__(self, words: Iterable[int]) -> None:
        self.state = mix(words)
        self.draws = 0

    def below(self, bound: int) -> int:
        """Uniform number in 0..bound-1; `bound` is at least 1."""
        mask = (1 << (bound - 1).bit_length()) - 1
        while True:
            state = self.state
            self.state = (
                _BYTES[0][state & 255]
                ^ _BYTES[1][state >> 8 & 255]
                ^ _BYTES[2][state >> 16 & 255]
                ^ _BYTES[3][state >> 24]
            )
            self.draws += 1
            if state & mask < bound:
                return state & mask

    def choose(self, population: int, count: int) -> list[int]:
        """`count` different numbers below `population`, every set of them equally likely (Floyd's algorithm).

        All of them, in order and without a draw, if there are not more.
        """
        if population <= count:
            return list(range(population))
        chosen: list[int] = []
        for last in range(population - count, population):
            number = self.below(last + 1)
            chosen.append(last if number in chosen else number)
        return chosen
