"""What instructions do in the add stage, vectorised over processors.

Each function takes the values an instruction has at hand and returns its result; where the result goes is told by
the traits of the instruction word.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contracts.dnp.config import WORD
from golden.dnp.arithmetic import Ints, invert, product, product_rounded, saturate, signed

__all__ = ["EFFECTS", "Values"]


@dataclass
class Values:
    """Operands of one instruction on several processors, each an int64 array of words.

    Attributes
    ----------
    a
        Accumulator.
    r
        The general register named among the operands.
    w, x
        Words read from WM and XM.
    source
        The value of a source operand, wherever it came from.
    word
        Word from the input port.
    constant
        Second instruction word, control register or shift distance.
    """

    a: Ints
    r: Ints
    w: Ints
    x: Ints
    source: Ints
    word: Ints
    constant: Ints


def _logical(value: Ints) -> Ints:
    return value & ((1 << WORD) - 1)


#: Result of every instruction that has one, by the name of its row.
EFFECTS: dict[str, Callable[[Values], Ints]] = {
    "MADD.WX": lambda v: saturate(v.a + product(v.w, v.x)),
    "MADD.RX": lambda v: saturate(v.a + product(v.r, v.x)),
    "MADD.RW": lambda v: saturate(v.a + product(v.r, v.w)),
    "MSUB.WX": lambda v: saturate(v.a - product(v.w, v.x)),
    "MSUB.RX": lambda v: saturate(v.a - product(v.r, v.x)),
    "MSUB.RW": lambda v: saturate(v.a - product(v.r, v.w)),
    "MUL.WX": lambda v: saturate(product(v.w, v.x)),
    "MUL.RX": lambda v: saturate(product(v.r, v.x)),
    "MUL.RW": lambda v: saturate(product(v.r, v.w)),
    "MUL.RA": lambda v: saturate(product(v.r, v.a)),
    "MULR.WX": lambda v: saturate(product_rounded(v.w, v.x)),
    "MULR.RX": lambda v: saturate(product_rounded(v.r, v.x)),
    "MULR.RW": lambda v: saturate(product_rounded(v.r, v.w)),
    "MULR.RA": lambda v: saturate(product_rounded(v.r, v.a)),
    "UPD": lambda v: saturate(v.w + product_rounded(v.r, v.x)),
    "SCL": lambda v: saturate(product_rounded(v.r, v.w)),
    "ADD": lambda v: saturate(v.a + v.source),
    "SUB": lambda v: saturate(v.a - v.source),
    "AND": lambda v: v.a & v.source,
    "OR": lambda v: v.a | v.source,
    "XOR": lambda v: v.a ^ v.source,
    "MOV.A": lambda v: v.source,
    "NOT": lambda v: invert(v.a),
    "NEG": lambda v: saturate(-v.a),
    "SHL": lambda v: signed(np.left_shift(v.a, v.constant)),
    "SHR": lambda v: np.right_shift(v.a, v.constant),
    "LSR": lambda v: signed(np.right_shift(_logical(v.a), v.constant)),
    "MOV.R": lambda v: v.source,
    "MOV.W": lambda v: v.source,
    "MOV.X": lambda v: v.source,
    "MOV.G": lambda v: v.constant,
    "LDI": lambda v: v.constant,
    "INA": lambda v: v.word,
    "INX": lambda v: v.word,
    "INW": lambda v: v.word,
    "INS": lambda v: saturate(v.a + v.word),
    "INSX": lambda v: saturate(v.x + v.word),
    "OUTA": lambda v: v.a,
    "OUT": lambda v: v.source,
    "PASS": lambda v: v.word,
    "FWD": lambda v: v.word,
    "OUTS": lambda v: saturate(v.x + v.word),
    "OUTS.A": lambda v: saturate(v.a + v.word),
}
