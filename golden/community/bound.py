"""Practical bound of shared sums: greedy splitting of the commonest pair over all columns of a record."""

from collections.abc import Sequence

__all__ = ["greedy_saving"]


def greedy_saving(columns: Sequence[int]) -> int:
    """Return the operations saved by repeatedly splitting off the pair with the most common rows.

    Sums of pairs count as one operation. Each step compares all pairs, which hardware cannot do at the rate of its
    adders; so this serves as a reference for the hardware's savings.

    Parameters
    ----------
    columns
        See `golden.community.plan.columns_of`.
    """
    rest, saved = list(columns), 0
    while True:
        best, pair = 1, (0, 0)
        for left, column in enumerate(rest):
            if column.bit_count() <= best:
                continue
            for right in range(left):
                common = (column & rest[right]).bit_count()
                if common > best:
                    best, pair = common, (left, right)
        if best < 2:
            return saved
        common = rest[pair[0]] & rest[pair[1]]
        for index in pair:
            rest[index] ^= common
        rest.append(common)
        saved += best - 1
