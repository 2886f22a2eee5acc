"""The issue stage as it is proved, for the list of blocks."""

from contracts.dnp.config import CoreConfig
from hw.dnp.issue import Issue

__all__ = ["CONFIG", "issue"]

#: Small memories keep the comparisons of addresses small.
CONFIG = CoreConfig(wm_depth=6, xm_depth=4, p_depth=12, table_bits=2)


def issue() -> Issue:
    """Make the issue stage as it is proved."""
    return Issue(CONFIG)
