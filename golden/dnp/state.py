"""Everything an array of processors remembers, one array axis over the processors."""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import GENERAL, PORTS, Control
from golden.dnp.arithmetic import Ints
from golden.dnp.decode import NONE

__all__ = ["COMMIT", "MULTIPLY", "OPERAND", "Slot", "State"]

#: Stages of the arithmetic pipeline, in the order an instruction passes them (D1).
OPERAND, MULTIPLY, COMMIT = range(3)


class Slot(IntEnum):
    """What an instruction carries through the arithmetic pipeline."""

    VALID = 0
    WORD = 1
    WM_READ = 2  # addresses, NONE where the memory is not used
    XM_READ = 3
    WM_WRITE = 4
    XM_WRITE = 5
    CONSTANT = 6
    PORT_IN = 7
    PORT_OUT = 8
    STOP = 9  # StopCode + 1; NONE if the instruction does not stop the processor
    PC = 10


@dataclass
class State:
    """State of P processors; all arrays are int64 or bool with the processors as first axis.

    Attributes
    ----------
    p, wm, xm
        Memories, shape (P, depth); p unsigned, the others signed words.
    a, rf, control
        Accumulator (P,), general registers (P, 8), control registers (P, 22), signed but for ``control``.
    pc_fetch
        Address given to the program memory.
    pc_read, read
        Address of the word being decoded, whether it is wanted.
    pc, fetched
        Address of the word in the issue stage, whether there is one.
    second, first_word
        Whether the word in the issue stage is the second one of ``first_word``.
    repeating, remaining, start_w, start_x
        Repetition in progress, how often it is still due, and where its operand pointers began.
    stopping
        A stop has been issued: nothing follows it.
    pipe
        Slots of the three stages, shape (3, slots, P).
    ors, irs, out_buffer, in_buffer
        Flags and data buffers of the ports, shape (P, 4) (D6).
    halted, code, stop_pc
        Whether, why and where a processor stands still.
    instructions, blocked
        Instructions issued, each repetition counted; clocks spent waiting for a partner.
    clocks
        Clocks from the start until the processor stood still.
    """

    config: ProcessorConfig
    processors: int
    p: Ints = field(init=False)
    wm: Ints = field(init=False)
    xm: Ints = field(init=False)

    def __post_init__(self) -> None:
        n = self.processors
        self.p = np.zeros((n, self.config.p_depth), dtype=np.int64)
        self.wm = np.zeros((n, self.config.wm_depth), dtype=np.int64)
        self.xm = np.zeros((n, self.config.xm_depth), dtype=np.int64)
        self.start()

    def start(self) -> None:
        """Go on-line: everything but the memories is cleared, the program begins at address 0 (D7)."""
        n = self.processors
        self.a = np.zeros(n, dtype=np.int64)
        self.rf = np.zeros((n, GENERAL), dtype=np.int64)
        self.control = np.zeros((n, len(Control)), dtype=np.int64)
        self.pc_fetch = np.zeros(n, dtype=np.int64)
        self.pc_read = np.zeros(n, dtype=np.int64)
        self.read = np.zeros(n, dtype=bool)
        self.pc = np.zeros(n, dtype=np.int64)
        self.fetched = np.zeros(n, dtype=bool)
        self.second = np.zeros(n, dtype=bool)
        self.first_word = np.zeros(n, dtype=np.int64)
        self.repeating = np.zeros(n, dtype=bool)
        self.remaining = np.zeros(n, dtype=np.int64)
        self.start_w = np.zeros(n, dtype=np.int64)
        self.start_x = np.zeros(n, dtype=np.int64)
        self.stopping = np.zeros(n, dtype=bool)
        self.pipe = np.full((3, len(Slot), n), NONE, dtype=np.int64)
        self.pipe[:, Slot.VALID] = 0
        self.ors = np.zeros((n, len(PORTS)), dtype=bool)
        self.irs = np.zeros((n, len(PORTS)), dtype=bool)
        self.out_buffer = np.zeros((n, len(PORTS)), dtype=np.int64)
        self.in_buffer = np.zeros((n, len(PORTS)), dtype=np.int64)
        self.halted = np.zeros(n, dtype=bool)
        self.code = np.zeros(n, dtype=np.int64)
        self.stop_pc = np.zeros(n, dtype=np.int64)
        self.instructions = np.zeros(n, dtype=np.int64)
        self.blocked = np.zeros(n, dtype=np.int64)
        self.clocks = np.zeros(n, dtype=np.int64)
