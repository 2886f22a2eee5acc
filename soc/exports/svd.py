"""CMSIS-SVD description of the registers, for debuggers and generators of access code."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from contracts import VERSION
from contracts.layout import Field
from contracts.registers import MACHINE_MAP, REGISTER_BITS, Access, Register, RegisterMap

__all__ = ["svd"]

_ACCESS = {Access.READ: "read-only", Access.WRITE: "read-write", Access.ACT: "write-only"}
#: Bytes of the address block: a page.
_SPAN = 0x1000


def svd(base: int = 0, table: RegisterMap = MACHINE_MAP) -> str:
    """Return the description of a device with one Atoll.

    Parameters
    ----------
    base
        Byte address of its registers.
    table
        The registers.
    """
    device = Element("device", {"schemaVersion": "1.3", "xmlns:xs": "http://www.w3.org/2001/XMLSchema-instance",
                                "xs:noNamespaceSchemaLocation": "CMSIS-SVD.xsd"})  # fmt: skip
    for tag, text in (
        ("vendor", "Atoll"), ("name", table.name), ("version", str(VERSION)),
        ("description", table.doc), ("addressUnitBits", "8"),
        ("width", str(REGISTER_BITS)),
        ("size", str(REGISTER_BITS)), ("access", "read-write"), ("resetValue", "0x0"), ("resetMask", "0xffffffff"),
    ):  # fmt: skip
        SubElement(device, tag).text = text
    peripheral = SubElement(SubElement(device, "peripherals"), "peripheral")
    for tag, text in (
        ("name", table.name.upper()),
        ("description", f"{table.doc}, behind its registers"),
        ("baseAddress", f"{base:#x}"),
    ):
        SubElement(peripheral, tag).text = text
    block = SubElement(peripheral, "addressBlock")
    for tag, text in (("offset", "0x0"), ("size", f"{_SPAN:#x}"), ("usage", "registers")):
        SubElement(block, tag).text = text
    interrupt = SubElement(peripheral, "interrupt")
    for tag, text in (("name", table.name.upper()), ("description", table.interrupt), ("value", "0")):
        SubElement(interrupt, tag).text = text
    registers = SubElement(peripheral, "registers")
    for entry in table.entries:
        _register(SubElement(registers, "register"), entry)
    ElementTree.indent(device)
    return ElementTree.tostring(device, encoding="unicode", xml_declaration=True) + "\n"


def _register(element: Element, entry: Register) -> None:
    for tag, text in (
        ("name", entry.name), ("description", entry.layout.doc), ("addressOffset", f"{entry.address:#x}"),
        ("access", _ACCESS[entry.access]), ("resetValue", f"{entry.reset:#x}"),
    ):  # fmt: skip
        SubElement(element, tag).text = text
    fields = SubElement(element, "fields")
    for field in entry.layout.fields:
        if field.name != "reserved":
            _field(SubElement(fields, "field"), field, entry.layout.offsets[field.name])


def _field(element: Element, field: Field, at: int) -> None:
    for tag, text in (
        ("name", field.name), ("description", field.doc), ("bitOffset", str(at)), ("bitWidth", str(field.bits)),
    ):  # fmt: skip
        SubElement(element, tag).text = text
    if field.enum:
        values = SubElement(element, "enumeratedValues")
        for member in field.enum:
            value = SubElement(values, "enumeratedValue")
            for tag, text in (
                ("name", member.name),
                ("description", getattr(member, "doc", member.name.lower())),
                ("value", str(int(member))),
            ):
                SubElement(value, tag).text = text
