"""Attention in integers: where scores lie in a row, and the two tables of its arithmetic.

A granule of a head's combined row begins with its two scores, that of the vertex as a source and that of it as a
destination; its channels follow. So any granules of a head are a block of columns that can be summed alone.
"""

from dataclasses import dataclass

from contracts.errors import InputError
from contracts.weights import GRANULE

__all__ = [
    "CHANNELS",
    "COEFFICIENT_FRACTION",
    "COEFFICIENT_MAX",
    "EXPONENTIALS",
    "MARGIN_MAX",
    "RECIPROCALS",
    "RECIPROCAL_BITS",
    "SCORES",
    "SCORE_FRACTION",
    "STEP_FRACTION",
    "Heads",
]

#: Scores in front of each granule, and the channels that it has room for.
SCORES = 2
CHANNELS = GRANULE - SCORES

#: Fraction bits of a score times its slope, a logarithm to the base 2.
SCORE_FRACTION = 22
#: Fraction bits of the logarithm that the exponential is looked up with.
STEP_FRACTION = 10
#: Fraction bits of a coefficient and of the table of exponentials, and the largest coefficient.
COEFFICIENT_FRACTION = 15
COEFFICIENT_MAX = (1 << COEFFICIENT_FRACTION) - 1
#: Largest margin: the coefficient of a vertex's own row, 2^-margin, is never 0.
MARGIN_MAX = COEFFICIENT_FRACTION

#: 2^(n / 1024), 16 bits each with the top bit set.
EXPONENTIALS: tuple[int, ...] = tuple(
    round(2.0 ** (n / (1 << STEP_FRACTION)) * (1 << COEFFICIENT_FRACTION)) for n in range(1 << STEP_FRACTION)
)

#: Logarithm of the entries of the table of reciprocals.
RECIPROCAL_BITS = 8
#: 2^32 / D in the middle of each part of D = 2^16..2^17: 16 bits each with the top bit set.
RECIPROCALS: tuple[int, ...] = tuple(
    round((1 << 33 + RECIPROCAL_BITS) / ((2 * n + 1 << 16) + (1 << 17 + RECIPROCAL_BITS)))
    for n in range(1 << RECIPROCAL_BITS)
)


@dataclass(frozen=True)
class Heads:
    """Columns of an attention layer: heads one after another, each from a granule on.

    Attributes
    ----------
    heads
        Heads of a row.
    channels
        Channels of a head.

    Raises
    ------
    InputError
        If there is no head or no channel.
    """

    heads: int
    channels: int

    def __post_init__(self) -> None:
        for name in ("heads", "channels"):
            if getattr(self, name) < 1:
                raise InputError(name, f"there are {getattr(self, name)}", "at least one")

    @property
    def distance(self) -> int:
        """Columns from one head to the next."""
        return -(-self.channels // CHANNELS) * GRANULE

    @property
    def width(self) -> int:
        """Columns of a head without the padding behind it."""
        return self.channels + SCORES * -(-self.channels // CHANNELS)

    @property
    def columns(self) -> int:
        """Columns of a row, without padding behind the last head."""
        return (self.heads - 1) * self.distance + self.width

    def channel(self, head: int, number: int) -> int:
        """Return the column of a channel."""
        return head * self.distance + number // CHANNELS * GRANULE + SCORES + number % CHANNELS

    def places(self) -> list[int]:
        """Return the columns of all channels, head by head."""
        return [self.channel(head, number) for head in range(self.heads) for number in range(self.channels)]

    def block(self, head: int) -> range:
        """Return the columns of a head."""
        return range(head * self.distance, head * self.distance + self.width)
