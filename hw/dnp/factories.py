"""The issue stage as it is proved, for the list of blocks."""

from contracts.dnp.config import ProcessorConfig
from hw.dnp.instruction_issue import InstructionIssue

__all__ = ["CONFIG", "instruction_issue"]

#: Small memories keep the comparisons of addresses small.
CONFIG = ProcessorConfig(wm_depth=6, xm_depth=4, p_depth=12, table_bits=2)


def instruction_issue() -> InstructionIssue:
    """Make the issue stage as it is proved."""
    return InstructionIssue(CONFIG)
