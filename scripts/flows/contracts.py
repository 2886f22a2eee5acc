"""`atoll contracts`: the formats and codes that blocks share, as documentation."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import contracts
from contracts.dnp.board import BEAT
from contracts.job import CHECK, JOB, RUN, SEGMENT
from contracts.layout import Layout
from contracts.registers import ARRAY_REGISTERS, QUEUE_REGISTERS, REGISTERS
from scripts.flows.yosys import ROOT as ROOT

#: Codes in the order of the document.
ENUMERATIONS: tuple[type[IntEnum], ...] = (
    contracts.Model,
    contracts.Activation,
    contracts.Opcode,
    contracts.Error,
    contracts.ArrayError,
    contracts.RegionKind,
    contracts.PacketKind,
    contracts.Token,
    contracts.Matching,
    contracts.Split,
    contracts.Policy,
    contracts.Targets,
    contracts.Flow,
)
#: Constants with their units.
CONSTANTS = (
    ("LINE_BYTES", "alignment of regions and unit of addresses in commands, in bytes"),
    ("ROW_BYTES", "dense rows are padded to a multiple of this, in bytes"),
    ("NEEDED_ROW", "a needed list in memory is padded to a multiple of so many vertices, a bit each"),
    ("COMMAND_BYTES", "size of a command, in bytes"),
    ("VID_BITS", "width of a vertex ID"),
    ("VALUE_BITS", "width of a feature, weight or result"),
    ("ACCUMULATOR_BITS", "width of a combination sum"),
    ("PARTIAL_BITS", "width of an aggregation sum"),
    ("VERSION", "version of all formats"),
)


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    columns = list(columns)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [*lines, ""]


def _layout(layout: Layout) -> list[str]:
    rows = []
    for field in layout.fields:
        at = layout.offsets[field.name]
        bits = f"{at + field.bits - 1}:{at}" if field.bits > 1 else str(at)
        kind = field.enum.__name__ if field.enum else ("signed" if field.signed else "unsigned")
        rows.append((bits, f"`{field.name}`", field.bits, kind, field.doc))
    return [
        f"### {layout.name} ({layout.bits} bits)",
        "",
        layout.doc,
        "",
        *_table(["bits", "field", "width", "kind", "meaning"], rows),
    ]


def markdown() -> str:
    """Return the document; equal tables give equal text."""
    lines = [
        "# Contracts between blocks",
        "",
        "Written by `atoll contracts` from `contracts`; hardware, models, image writer and driver use the same",
        "table. Byte order is little-endian; the first field of a layout is at the least significant bit.",
        "",
        "## Constants",
        "",
        *_table(
            ["name", "value", "meaning"], [(f"`{name}`", getattr(contracts, name), doc) for name, doc in CONSTANTS]
        ),
        "## Codes",
        "",
    ]
    for kind in ENUMERATIONS:
        documented = (kind.__doc__ or "").strip()
        rows = [(int(member), f"`{member.name}`", getattr(member, "doc", "")) for member in kind]
        lines += [f"### {kind.__name__}", "", documented, "", *_table(["value", "name", "meaning"], rows)]
    lines += ["## Formats", ""]
    for layout in contracts.STREAMS:
        lines += _layout(layout)
    lines += ["## Commands", ""]
    for layout in contracts.COMMANDS.values():
        lines += _layout(layout)
    lines += [
        "## Registers",
        "",
        "Of the control port (`hw.host.control_port`), 32 bits each. Any other address, a write of a register that",
        "cannot be written, a start during a run, an image's address beyond the memory port and a unit beyond the last",
        "end in SLVERR and have no effect. UNITS has the number of units of the hardware, UNIT_CYCLES the count of the",
        "unit that UNIT selects ([host.md](host.md#work-of-units)).",
        "",
        *_table(
            ["address", "register", "access", "after reset", "meaning"],
            [(f"`{e.address:#04x}`", f"`{e.name}`", e.access, f"`{e.reset:#x}`", e.layout.doc) for e in REGISTERS],
        ),
    ]
    for entry in REGISTERS:
        lines += _layout(entry.layout)
    lines += [
        "## Registers of the queue of commands",
        "",
        "Of `hw.host.queue_port`, in front of attribute cores. Any other address, a write of a register that cannot",
        "be written, words of a command while one waits, a base beyond the memory port and `take` without a completion",
        "end in SLVERR and have no effect.",
        "",
        *_table(
            ["address", "register", "access", "after reset", "meaning"],
            [
                (f"`{e.address:#04x}`", f"`{e.name}`", e.access, f"`{e.reset:#x}`", e.layout.doc)
                for e in QUEUE_REGISTERS
            ],
        ),
    ]
    for entry in QUEUE_REGISTERS:
        if len(entry.layout.fields) > 1:
            lines += _layout(entry.layout)
    lines += [
        "## Array of neural processors",
        "",
        "Of `hw.host.array_port`, in front of an array of DNP-IIs ([dnp2.md](dnp2.md)). Any other address, a write of",
        "a register that cannot be written, and what the fields say is refused end in SLVERR and have no effect but",
        "on `ERROR` and `INFO`.",
        "",
        *_table(
            ["address", "register", "access", "meaning"],
            [(f"`{e.address:#04x}`", f"`{e.name}`", e.access, e.layout.doc) for e in ARRAY_REGISTERS],
        ),
    ]
    for entry in ARRAY_REGISTERS:
        lines += _layout(entry.layout)
    lines += ["Words on both streams:", "", *_layout(BEAT)]
    lines += ["## Jobs for the firmware", "", "What a host sends over the serial port ([soc.md](soc.md#jobs)).", ""]
    for layout in (JOB, RUN, SEGMENT, CHECK):
        lines += _layout(layout)
    return "\n".join(lines).rstrip() + "\n"
