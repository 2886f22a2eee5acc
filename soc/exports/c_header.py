"""C header of registers, codes and the formats that a driver reads: for `soc/driver` and for anybody's own."""

from __future__ import annotations

from collections.abc import Iterator

from contracts import COMPLETION, HEADER, LINE_BYTES, MAGIC, REGION, VERSION, ArrayError, Error, Opcode, RegionKind
from contracts.dnp.board import BEAT, BeatKind
from contracts.dnp.gbus import HEADER as FRAME_HEADER
from contracts.job import CHECK, JOB, JOB_MAGIC, NO_LABEL, RUN, SEGMENT
from contracts.layout import Layout
from contracts.registers import ARRAY_MAGIC, ARRAY_REGISTERS, COUNTERS, QUEUE_MAGIC, QUEUE_REGISTERS, REGISTERS

__all__ = ["c_header"]

#: Formats whose fields a driver or firmware reads from memory.
_FORMATS: tuple[Layout, ...] = (HEADER, REGION, COMPLETION, JOB, RUN, SEGMENT, CHECK)


def _snake(name: str) -> str:
    return "".join(f"_{c}" if c.isupper() and at else c for at, c in enumerate(name)).upper()


def _fields(prefix: str, layout: Layout) -> Iterator[str]:
    """Shift and mask of every field of a register."""
    for field in layout.fields:
        if field.name == "reserved":
            continue
        at, name = layout.offsets[field.name], f"{prefix}_{field.name.upper()}"
        yield f"#define {name}_SHIFT {at}u"
        yield f"#define {name}_MASK {((1 << field.bits) - 1) << at:#010x}u /* {field.doc} */"


def _offsets(layout: Layout) -> Iterator[str]:
    """Offset of every field of a format that is a whole number of bytes, and the size of the whole."""
    prefix = f"ATOLL_{_snake(layout.name)}"
    yield f"/* {layout.doc} */"
    for field in layout.fields:
        at = layout.offsets[field.name]
        if field.name != "reserved" and not at % 8 and not field.bits % 8:
            yield f"#define {prefix}_AT_{field.name.upper()} {at // 8}u /* {field.bits // 8} bytes: {field.doc} */"
    if not layout.bits % 8:
        yield f"#define {prefix}_SIZE {layout.bytes}u"
    yield ""


def c_header() -> str:
    """Return the header; everything in it is a macro, so it needs no other file and no compiler in particular."""
    lines = [
        "/* Registers, codes and formats of Atoll, written from one table by `atoll generate`. */",
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "#ifndef ATOLL_REGISTERS_H",
        "#define ATOLL_REGISTERS_H",
        "",
        f"#define ATOLL_MAGIC {MAGIC:#010x}u",
        f"#define ATOLL_FORMAT_VERSION {VERSION}u",
        f"#define ATOLL_LINE_BYTES {LINE_BYTES}u",
        f"#define ATOLL_COUNTERS {len(COUNTERS)}u",
        f"#define ATOLL_JOB_FIRST_WORD {JOB_MAGIC:#010x}u",
        f"#define ATOLL_NO_LABEL {NO_LABEL:#x}u",
        "",
        "/* Byte addresses of registers, and their fields. */",
    ]
    for entry in REGISTERS:
        lines.append(f"#define ATOLL_REG_{entry.name} {entry.address:#04x}u /* {entry.access}: {entry.layout.doc} */")
        lines += _fields(f"ATOLL_REG_{entry.name}", entry.layout)
    lines += ["", "/* The same of the port that queues commands for attribute cores. */"]
    lines.append(f"#define ATOLL_QUEUE_MAGIC {QUEUE_MAGIC:#010x}u")
    for entry in QUEUE_REGISTERS:
        if not entry.name.startswith("COMMAND_") or entry.name == "COMMAND_0":
            lines.append(f"#define ATOLL_QUEUE_{entry.name} {entry.address:#04x}u /* {entry.layout.doc} */")
            lines += _fields(f"ATOLL_QUEUE_{entry.name}", entry.layout)
    lines += ["", "/* The same of the port of an array of neural processors, and the words of its streams. */"]
    lines.append(f"#define ATOLL_ARRAY_MAGIC {ARRAY_MAGIC:#010x}u")
    for entry in ARRAY_REGISTERS:
        lines.append(f"#define ATOLL_ARRAY_{entry.name} {entry.address:#04x}u /* {entry.layout.doc} */")
        lines += _fields(f"ATOLL_ARRAY_{entry.name}", entry.layout)
    lines += _fields("ATOLL_ARRAY_BEAT", BEAT)
    lines += [f"#define ATOLL_ARRAY_BEAT_KIND_{kind.name} {int(kind)}u" for kind in BeatKind]
    lines += _fields("ATOLL_ARRAY_FRAME", FRAME_HEADER)
    lines += [f"#define ATOLL_ARRAY_REFUSED_{code.name} {int(code)}u /* {code.doc} */" for code in ArrayError]
    lines += ["", "/* Opcodes. */", *(f"#define ATOLL_OPCODE_{code.name} {int(code)}u" for code in Opcode)]
    lines += ["", "/* Error codes. */"]
    lines += [f"#define ATOLL_ERROR_{code.name} {int(code)}u /* {code.doc} */" for code in Error]
    lines += ["", "/* Every error code with its name, for a switch or a table. */", "#define ATOLL_ERRORS(X) \\"]
    lines.append(" \\\n".join(f'    X({int(code)}, "{code.name}")' for code in Error))
    lines += ["", "/* Kinds of regions of an image. */"]
    lines += [f"#define ATOLL_REGION_KIND_{kind.name} {int(kind)}u" for kind in RegionKind]
    lines += ["", "/* Formats in memory, little-endian: byte offsets. */"]
    for layout in _FORMATS:
        lines += _offsets(layout)
    return "\n".join([*lines, "#endif", ""])
