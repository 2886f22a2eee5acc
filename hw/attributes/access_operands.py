"""Access operands: what SAMPLE and FETCH say alike about a graph and its attribute rows."""

from typing import Any

from amaranth.hdl import Value
from amaranth.utils import exact_log2

from contracts import ROW_BYTES, Opcode
from hw.attributes.formats import AttributeConfig
from hw.command.checks import Check
from hw.command.front_end import CommandFrontEnd
from hw.memory.formats import WORD_BYTES

__all__ = ["access_operands", "graph_checks", "graph_operands"]


def graph_checks(attribute: AttributeConfig, command: Any) -> list[Check]:
    """Return the checks of a graph and of attribute rows, in the order of their priority."""
    beat_bytes, row_bytes = attribute.data_width // 8, command.row_bytes
    row = (
        (row_bytes > attribute.row_beats * beat_bytes)
        | (row_bytes == 0)
        | row_bytes[: exact_log2(max(beat_bytes, ROW_BYTES))].any()
    )
    return [
        Check(row, row_bytes),
        Check(command.vertices > (1 << attribute.id_bits), command.vertices),
        Check(command.first_vertex != 0, command.first_vertex),
        Check(command.tiles == 0, command.tiles),
    ]


def graph_operands(front: CommandFrontEnd, opcode: Opcode) -> dict[str, Value]:
    """Return the graph of a command, relocated, by the names of `SampleSettings` and `AttributeSettings`."""
    command = front.view(opcode)
    return {
        "nodes": command.vertices,
        "offsets": front.words(opcode, "offsets"),
        "edges": front.words(opcode, "edges"),
        "edge_count": command.edge_count,
        "tiles": command.tiles,
    }


def access_operands(front: CommandFrontEnd, opcode: Opcode, attribute: AttributeConfig, access: Any) -> list[Any]:
    """Return assignments of a command's operands, relocated, to an `AccessSettings`."""
    command, settings = front.view(opcode), access.attribute
    return [
        *(settings[name].eq(value) for name, value in graph_operands(front, opcode).items()),
        settings.attributes.eq(front.words(opcode, "attributes")),
        settings.row_words.eq(command.row_bytes >> exact_log2(WORD_BYTES)),
        settings.beats.eq(command.row_bytes >> exact_log2(attribute.data_width // 8)),
        access.rows.eq(front.line(opcode, "rows")),
        access.targets.eq(command.targets),
    ]
