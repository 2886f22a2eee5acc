"""The programs of Fig. 4 (D8), each with what it must give by the equations of II.4, worked out on plain integers."""

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["PROGRAMS", "Program"]

_ONE = 0x7FFF
_TABLE_BASE = 200


def _clip(value: int) -> int:
    return max(-0x8000, min(_ONE, value))


def _times(a: int, b: int) -> int:
    return (a * b) >> 15


@dataclass(frozen=True)
class Program:
    """A program, what it works on, and what comes out.

    Attributes
    ----------
    text
        Its source.
    inputs
        Words that arrive, by port letter.
    check
        Given A, XM and the words sent by port, says whether they are right.
    clocks
        Clocks from the first instruction word to standing still, set-up included; neighbours always ready.
    """

    text: str
    check: Callable[[int, dict[int, int], dict[str, list[int]]], bool]
    clocks: int
    inputs: dict[str, list[int]] = field(default_factory=dict)


_WEIGHTS = [4096, -2048, 1024, 8191]  # Q3.12
_INPUTS = [16384, 8192, -32768, 32767]  # Q0.15
_PARTIAL = 1234
_O, _T = 20000, 30000
_DELTAS = [3000, -2500, 1200]


def _forward() -> int:
    total = _PARTIAL
    for weight, value in zip(_WEIGHTS, _INPUTS, strict=True):
        total = _clip(total + _times(weight, value))
    return total


def _output_delta() -> int:
    slope = _times(_O, _ONE - _O)
    return _clip(_times(slope, _clip(_T - _O)))


def _hidden_delta() -> int:
    total = 77
    for weight, delta in zip(_WEIGHTS, _DELTAS, strict=False):
        total = _clip(total + _times(weight, delta))
    return _clip(_times(_clip(_times(_O, total)), _ONE - _O))


_MEMORY = f"""
.wm
    .word {" ".join(map(str, _WEIGHTS))}
.xm
    .word {" ".join(map(str, _INPUTS))}
"""

#: The sum's table entry: an eighth of a unit above -8 for each index, at table_bits = 8.
_SUM = 0x1234
_ENTRY = _TABLE_BASE + ((_SUM + 0x8000) >> 8)

PROGRAMS: dict[str, Program] = {
    "forward": Program(
        f"""
        SET #4 RC
        SET #1 ICR
        INA W               ; the partial sum so far
        REP MADD WM+ XM+ A
        OUTA E
        HALT
        {_MEMORY}""",
        lambda a, xm, sent: sent["E"] == [_forward()] and a == _forward(),
        14,
        {"W": [_PARTIAL]},
    ),
    "non_linear_function": Program(
        f"""
        LDI #{_TABLE_BASE} TB
        INA N
        MOV A RF2
        MOV RF2 WA3
        MOV WM[3] A
        HALT
        .wm
        .org {_ENTRY}
        .word 0x5a5a""",
        lambda a, xm, sent: a == 0x5A5A,
        15,
        {"N": [_SUM]},
    ),
    "output_delta": Program(
        f"""
        LDI #{_O} RF0
        LDI #{_T} RF1
        MOV RF0 A
        NOT A
        MUL RF0 A
        MOV A RF2
        MOV RF1 A
        SUB RF0 A
        MUL RF2 A
        OUTA S
        HALT""",
        lambda a, xm, sent: sent["S"] == [_output_delta()],
        22,
    ),
    "hidden_delta": Program(
        f"""
        LDI #{_O} RF0
        SET #3 RC
        SET #1 ICR
        REP INX E XM+
        INA N
        REP MADD WM+ XM+ A
        MUL RF0 A
        MOV A RF1
        MOV RF0 A
        NOT A
        MUL RF1 A
        HALT
        {_MEMORY}""",
        lambda a, xm, sent: a == _hidden_delta() and [xm[i] for i in range(3)] == _DELTAS,
        26,
        {"E": _DELTAS, "N": [77]},
    ),
}
