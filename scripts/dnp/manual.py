"""`docs/dnp2.md`: the reference manual, made from the table of instructions; ``python -m scripts.dnp.manual``."""

from __future__ import annotations

from pathlib import Path

from contracts.dnp.config import WORD, ProcessorConfig
from contracts.dnp.gbus import HEADER, Operation, Space
from contracts.dnp.isa import CONTROLS, INSTRUCTIONS, Kind, Operand, StopCode
from golden.dnp.array import DeadlockError
from golden.dnp.assembler import assemble
from scripts.dnp import programs

__all__ = ["TUTORIAL", "TUTORIAL_INPUTS", "manual"]

#: The tutorial's program.
TUTORIAL = """\
        SET #4 RC               ; four products
        SET #1 ICR              ; weights one after the other
        INA W                   ; partial sum from the west
        REP MADD WM[0]+ XM[0]+ A
        OUTA E
        HALT
.wm
        .word 4096 -2048 1024 8191      ; 1.0 -0.5 0.25 2.0 in Q3.12
.xm
        .word 16384 8192 -32768 32767   ; 0.5 0.25 -1.0 1.0 in Q0.15"""
TUTORIAL_INPUTS = {"W": [1234]}

_SHORT = {
    Kind.GENERAL: "RFn",
    Kind.ACCUMULATOR: "A",
    Kind.CLEARED: "A!",
    Kind.WM_SOURCE: "WM[i]",
    Kind.WM_RESULT: "WM[i]",
    Kind.WM_BOTH: "WM[i]",
    Kind.XM_SOURCE: "XM[i]",
    Kind.XM_RESULT: "XM[i]",
    Kind.SOURCE: "source",
    Kind.SOURCE_KEPT: "source",
    Kind.SCALAR: "RFn\\|A",
    Kind.CONTROL: "control",
    Kind.TARGET: "register",
    Kind.SET_TARGET: "RC\\|ICR\\|LC0\\|LC1",
    Kind.COUNTER: "LC0\\|LC1",
    Kind.PORT: "port",
    Kind.BYTE: "#byte",
    Kind.SHIFT: "#n",
    Kind.WORD: "#word",
    Kind.ADDRESS: "address",
    Kind.NEAR: "label",
}
_STOPS = {
    StopCode.NONE: "HALT",
    StopCode.OPCODE: "undefined instruction word",
    StopCode.WM_RANGE: "address past the end of WM",
    StopCode.XM_RANGE: "address past the end of XM",
    StopCode.PC_RANGE: "the program ran past the end of its memory",
}


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _operands(operands: tuple[Operand, ...]) -> str:
    return " ".join(_SHORT[operand.kind] for operand in operands)


def _instructions() -> str:
    rows = []
    for row in INSTRUCTIONS:
        taken = f" ({row.clocks_taken})" if row.clocks_taken else ""
        text = f"`{row.mnemonic}` {_operands(row.operands)}".strip()
        rows.append([text, f"`{row.pattern}`", f"{row.clocks}{taken}", row.effect])
    return _table(["instruction", "encoding", "clocks", "effect"], rows)


def manual() -> str:
    """Return the text of ``docs/dnp2.md``."""
    config = ProcessorConfig()
    image = assemble(TUTORIAL)
    stuck = programs.prepared(image, {}, config)
    try:
        stuck.run()
    except DeadlockError as error:
        deadlock = f"atoll: {programs.stuck('neuron.asm', error)}"
    clocks = [max(row.clocks, row.clocks_taken) for row in INSTRUCTIONS]
    rows = [[f.name, str(HEADER.offsets[f.name]), str(f.bits), f.doc] for f in HEADER.fields]
    codes = ", ".join(f"{op.value} {op.name}" for op in Operation)
    spaces = ", ".join(f"{space.value} {space.name}" for space in Space)
    parts = {
        "TUTORIAL": TUTORIAL,
        "LISTING": programs.listing(image.program),
        "RUN": programs.show(programs.run_golden(programs.prepared(image, TUTORIAL_INPUTS, config))),
        "TRACE": "\n".join(programs.trace(programs.prepared(image, TUTORIAL_INPUTS, config), image)),
        "DEADLOCK": deadlock,
        "SHIFT": str(WORD - config.table_bits),
        "ENTRIES": str(config.table_size),
        "CONTROLS": _table(
            ["code", "name", "what for"], [[str(int(c)), c.name, d] for c, d in sorted(CONTROLS.items())]
        ),
        "AVERAGE": f"{sum(clocks) / len(clocks):.3f}",
        "INSTRUCTIONS": _instructions(),
        "STOPS": _table(["code", "name", "cause"], [[str(int(c)), c.name, text] for c, text in _STOPS.items()]),
        "GBUS": _table(["field", "bit", "bits", "meaning"], rows)
        + f"\n\nOperations: {codes}. Spaces: {spaces}. A chip's processors are numbered row by row.",
    }
    text = Path(__file__).with_name("manual.md").read_text()
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


if __name__ == "__main__":
    Path("docs/dnp2.md").write_text(manual())
