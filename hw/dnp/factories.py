"""Blocks as they are proved or synthesised alone, for the list of blocks."""

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import Grid
from hw.dnp.buffer_board import BufferBoard
from hw.dnp.edge_feeder import EdgeFeeder
from hw.dnp.instruction_issue import InstructionIssue
from hw.dnp.machine import ArrayConfig, NeuralMachine
from hw.host.array_port import ArrayPort

__all__ = ["CONFIG", "array_port", "buffer_board", "edge_feeder", "instruction_issue"]

#: Small memories keep the comparisons of addresses small.
CONFIG = ProcessorConfig(wm_depth=6, xm_depth=4, p_depth=12, table_bits=2)


def instruction_issue() -> InstructionIssue:
    """Make the issue stage as it is proved."""
    return InstructionIssue(CONFIG)


def buffer_board(boards: int = 1, chips: int = 4) -> BufferBoard:
    """Make a buffer board for boards of so many chips of the paper's processors."""
    return BufferBoard(
        [range(board * chips, (board + 1) * chips) for board in range(boards)], cores=4, config=ProcessorConfig()
    )


def edge_feeder(side: int = 4, depth: int = 16) -> EdgeFeeder:
    """Make an edge feeder for a square array."""
    return EdgeFeeder(Grid(side, side), depth)


def array_port(side: int = 4) -> ArrayPort:
    """Make the registers of a square array."""
    return ArrayPort(NeuralMachine(ArrayConfig(rows=side, columns=side)).sizes())
