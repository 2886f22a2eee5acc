"""Random numbers of the sampler: a state mixed from five words, stepped by a shift register (A2)."""

from collections.abc import Iterable

from contracts.sampling import FINAL_ROUNDS, FINAL_WORD, WORD, leap_masks

__all__ = ["Generator", "mix"]

_MASK = (1 << WORD) - 1


def _round(state: int, word: int) -> int:
    state = (state + word) & _MASK
    state = (state + (state << 10)) & _MASK
    state ^= state >> 6
    state = (state + (state << 3)) & _MASK
    return state ^ (state >> 11)


def mix(words: Iterable[int]) -> int:
    """First state of a generator; never 0, the one state a shift register does not leave."""
    state = 0
    for word in words:
        state = _round(state, word & _MASK)
    for _ in range(FINAL_ROUNDS):
        state = _round(state, FINAL_WORD)
    return state or 1


_ROWS = leap_masks()
# A leap is linear, so each byte of the state contributes to the next one independently.
_BYTES = [
    [sum(((part << shift & mask).bit_count() & 1) << row for row, mask in enumerate(_ROWS)) for part in range(256)]
    for shift in range(0, WORD, 8)
]


class Generator:
    """Uniform bounded numbers by rejection.

    Parameters
    ----------
    words
        Words that are mixed into the state: seed, batch, root, hop, node.

    Attributes
    ----------
    state
        State of the register.
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

        If there are no more than `count` numbers, all of them in order, without a draw.
        """
        if population <= count:
            return list(range(population))
        chosen: list[int] = []
        for last in range(population - count, population):
            number = self.below(last + 1)
            chosen.append(last if number in chosen else number)
        return chosen
