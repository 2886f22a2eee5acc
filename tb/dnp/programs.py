"""Random programs that are valid by construction: pointers stay inside their memories, loops end."""

import random

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import INSTRUCTIONS, PORTS, SET_TARGETS, Control, Instruction, Kind

__all__ = ["random_program"]

#: Instructions that need a place of their own: they end or leave a straight line.
_STRUCTURED = {"HALT", "JMP", "BN", "BP", "BZ", "BNZ", "LOOP", "MOV.C"}
#: Most passes of a repetition, largest ICR, and instructions between two settings of a pointer.
_MOST_PASSES, _MOST_STRIDE, _POINTER_LIFE = 6, 3, 8
#: A pointer moves at most this far between two settings.
_REACH = {"W": _MOST_PASSES * _MOST_STRIDE * (_POINTER_LIFE + 2), "X": _MOST_PASSES * (_POINTER_LIFE + 2)}
_TABLE_BASE = 5


class _Writer:
    def __init__(self, rng: random.Random, config: ProcessorConfig, ports: str) -> None:
        self.rng, self.config, self.ports = rng, config, ports
        self.lines: list[str] = []
        self.labels = 0
        self.life = dict.fromkeys((c for c in Control if c < Control.ICR), 0)

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def operand(self, kind: Kind, row: Instruction) -> str:
        rng = self.rng
        general = f"RF{rng.randrange(8)}"
        match kind:
            case Kind.ACCUMULATOR:
                return "A"
            case Kind.CLEARED:
                return "A!"
            case Kind.GENERAL:
                return general
            case Kind.SCALAR:
                return rng.choice([general, "A"])
            case Kind.WM_SOURCE | Kind.WM_RESULT | Kind.WM_BOTH:
                modes = "+~" if kind is Kind.WM_SOURCE else "+"
                pointer = rng.choice((0, 0, 1, 2))
                return f"WM[{pointer}]{rng.choice(['', *modes, '+'])}"
            case Kind.XM_SOURCE | Kind.XM_RESULT:
                modes = "+~" if kind is Kind.XM_SOURCE else "+"
                return f"XM[{rng.choice((0, 0, 1, 2, 3))}]{rng.choice(['', *modes, '+'])}"
            case Kind.SOURCE | Kind.SOURCE_KEPT:
                kept = [self.operand(k, row) for k in (Kind.WM_SOURCE, Kind.XM_SOURCE)]
                return rng.choice([general, "A", *kept, *(["A!"] if kind is Kind.SOURCE else [])])
            case Kind.CONTROL:
                return rng.choice(list(Control)).name
            case Kind.TARGET:
                return rng.choice([general, "A"])
            case Kind.PORT:
                return rng.choice(self.ports)
            case Kind.SHIFT:
                return f"#{rng.randrange(16)}"
            case Kind.WORD:
                return f"#{rng.choice([rng.randrange(-32768, 32768), -32768, 32767, 0])}"
            case _:
                raise AssertionError(f"{row.name}: no random operand of kind {kind}")

    def pointers(self) -> None:
        """Set every pointer that may have moved far."""
        for control in self.life:
            if control is Control.WA3:
                continue
            depth = self.config.wm_depth if control < Control.XA0 else self.config.xm_depth
            # Close together, so that reads meet writes that are still on their way.
            top = max(1, min(depth - _REACH[control.name[0]], 12))
            self.emit(f"LDI #{self.rng.randrange(top)} {control.name}")

    def plain(self, count: int) -> None:
        rng = self.rng
        rows = [row for row in INSTRUCTIONS if row.name not in _STRUCTURED and row.name != "SET"]
        if not self.ports:
            rows = [row for row in rows if not row.letter_of(Kind.PORT)]
        for _ in range(count):
            choice = rng.random()
            if choice < 0.08:
                self.emit(f"SET #{rng.randrange(_MOST_PASSES + 1)} RC")
            elif choice < 0.11:
                self.emit(f"SET #{rng.randrange(_MOST_STRIDE + 1)} ICR")
            elif choice < 0.15:
                self.emit(f"MOV {rng.choice(['A', 'RF1', 'RF2'])} {rng.choice(['WA3', 'IOPR'])}")
                self.emit("MOV WM[3] A")
            elif choice < 0.17:
                self.emit("LDI #7 RF7")
                self.emit("AND RF7 A")
                self.emit(f"MOV A {rng.choice(['XA1', 'WA1', 'XR2', 'WR0', 'RC', 'ICR'])}")
                self.emit(f"SET #{rng.randrange(_MOST_STRIDE + 1)} ICR")
            else:
                row = rng.choice(rows)
                operands = " ".join(self.operand(o.kind, row) for o in row.operands)
                repeat = "REP " if row.repeatable and rng.random() < 0.4 else ""
                self.emit(f"{repeat}{row.mnemonic} {operands}")

    def block(self) -> None:
        rng = self.rng
        kind = rng.randrange(5)
        self.labels += 1
        label = f"l{self.labels}"
        self.pointers()
        if kind == 0:
            self.plain(rng.randrange(2))
            self.emit(f"{rng.choice(['BN', 'BP', 'BZ', 'BNZ'])} {label}")
            self.plain(3)
            self.emit(f"{label}:")
        elif kind == 1:
            self.emit(f"JMP {label}")
            self.plain(2)
            self.emit(f"{label}:")
        elif kind == 2:
            counter = rng.randrange(2)
            self.emit(f"SET #{rng.randrange(1, 4)} LC{counter}")
            self.emit(f"{label}:")
            self.pointers()
            self.plain(3)
            self.emit(f"LOOP LC{counter} {label}")
        else:
            self.plain(_POINTER_LIFE)


def random_program(
    seed: int, blocks: int = 12, config: ProcessorConfig | None = None, ports: str = "".join(PORTS) + "I"
) -> str:
    """Text of a random program.

    Parameters
    ----------
    seed
        Seed of all choices.
    blocks
        Straight lines, branches, jumps and loops to string together.
    config
        Memory sizes.
    ports
        Ports it uses, by their letters; ``I`` is the one IOPR names.
    """
    writer = _Writer(random.Random(seed), config or ProcessorConfig(), ports)
    writer.ports = [{"I": "IO"}.get(letter, letter) for letter in ports]  # type: ignore[assignment]
    writer.emit(f"LDI #{_TABLE_BASE} TB")
    for target in SET_TARGETS:
        writer.emit(f"SET #{writer.rng.randrange(1, 3)} {target.name}")
    for _ in range(blocks):
        writer.block()
    writer.emit("HALT")
    return "\n".join(writer.lines)
