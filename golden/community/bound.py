"""What sharing could save at most in practice: the commonest pair first, with all columns of a record in view."""

from collections.abc import Sequence

__all__ = ["greedy_saving"]


def greedy_saving(columns: Sequence[int]) -> int:
    """Return the operations that are saved when the pair with the most rows in common is split off, again and again.

    Sums of pairs count as one operation. It looks at all pairs before each step, which hardware cannot do as fast as it
    adds; so it is held beside what the hardware does.

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
