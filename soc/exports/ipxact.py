"""IP-XACT component (IEEE 1685-2009) of a generated machine: bus interfaces, registers, ports and its file.

The bus types are those by which Vivado knows AXI, clocks, resets and interrupts; other tools map them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from contracts import VERSION
from contracts.memory_ports import sharing, signals_of
from contracts.registers import MACHINE_MAP, REGISTER_BITS, Access, RegisterMap

__all__ = ["SCHEMA", "ipxact"]

#: Name space of the schema that it keeps to.
SCHEMA = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_ACCESS = {Access.READ: "read-only", Access.WRITE: "read-write", Access.ACT: "write-only"}
_SPAN = 0x1000
#: Library of bus types, and the interfaces that a name of ports stands for: their type and role.
_LIBRARY = "xilinx.com"
_CLOCK, _RESET, _MEMORY, _CONTROL = "clk", "rst", "m_axi", "s_axil"


def ipxact(
    module: str, ports: Sequence[Mapping[str, Any]], clock_hz: int | None = None, table: RegisterMap = MACHINE_MAP
) -> str:
    """Return the component of a machine behind its control port.

    Parameters
    ----------
    module
        Name of the module and stem of its file.
    ports
        Its ports as in the list of `atoll generate`.
    clock_hz
        Frequency to say for the clock, in Hz; None: none.
    table
        Its registers.
    """
    ElementTree.register_namespace("spirit", SCHEMA)
    root = _add(None, "component")
    for tag, text in (("vendor", "atoll"), ("library", "machines"), ("name", module), ("version", f"{VERSION}.0")):
        _add(root, tag, text)
    names = [str(port["name"]) for port in ports]
    interfaces = _add(root, "busInterfaces")
    memories = sharing(_MEMORY, names)
    for prefix in memories:
        _memory(interfaces, names, prefix)
    _control(interfaces, names)
    _signal(interfaces, _RESET, "reset", "RST", {"POLARITY": "ACTIVE_HIGH"})
    frequency = {"FREQ_HZ": str(clock_hz)} if clock_hz else {}
    _signal(
        interfaces,
        _CLOCK,
        "clock",
        "CLK",
        {"ASSOCIATED_BUSIF": ":".join([*memories, _CONTROL]), "ASSOCIATED_RESET": _RESET, **frequency},
    )
    _signal(interfaces, "irq", "interrupt", "INTERRUPT", {"SENSITIVITY": "LEVEL_HIGH"}, master=True)
    spaces = _add(_add(root, "addressSpaces"), "addressSpace")
    width = next(int(port["width"]) for port in ports if port["name"] == f"{_MEMORY}_araddr")
    data = next(int(port["width"]) for port in ports if port["name"] == f"{_MEMORY}_rdata")
    for tag, text in (("name", _MEMORY), ("range", f"{1 << width:#x}"), ("width", str(data))):
        _add(spaces, tag, text)
    _registers(root, table)
    _model(root, module, ports)
    files = _add(_add(root, "fileSets"), "fileSet")
    _add(files, "name", "rtl")
    file = _add(files, "file")
    _add(file, "name", f"{module}.v")
    _add(file, "fileType", "verilogSource")
    _add(root, "description", "Accelerator for graph neural networks, behind AXI4 and AXI4-Lite")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(parent: Element | None, tag: str, text: str = "", **attributes: str) -> Element:
    named = {f"{{{SCHEMA}}}{name}": value for name, value in attributes.items()}
    element = (
        Element(f"{{{SCHEMA}}}{tag}", named) if parent is None else SubElement(parent, f"{{{SCHEMA}}}{tag}", named)
    )
    element.text = text or None
    return element


def _interface(parent: Element, name: str, library: str, kind: str) -> Element:
    interface = _add(parent, "busInterface")
    _add(interface, "name", name)
    for tag, suffix in (("busType", ""), ("abstractionType", "_rtl")):
        _add(interface, tag, vendor=_LIBRARY, library=library, name=f"{kind}{suffix}", version="1.0")
    return interface


def _finish(interface: Element, pairs: Iterable[tuple[str, str]], parameters: Mapping[str, str]) -> None:
    maps = _add(interface, "portMaps")
    for logical, physical in pairs:
        entry = _add(maps, "portMap")
        _add(_add(entry, "logicalPort"), "name", logical)
        _add(_add(entry, "physicalPort"), "name", physical)
    if parameters:
        listed = _add(interface, "parameters")
        for name, value in parameters.items():
            parameter = _add(listed, "parameter")
            _add(parameter, "name", name)
            _add(parameter, "value", value)


def _amba(names: Sequence[str], prefix: str) -> list[tuple[str, str]]:
    return [(name.removeprefix(f"{prefix}_").upper(), name) for name in signals_of(prefix, names)]


def _memory(parent: Element, names: Sequence[str], prefix: str) -> None:
    interface = _interface(parent, prefix, "interface", "aximm")
    _add(_add(interface, "master"), "addressSpaceRef", addressSpaceRef=_MEMORY)
    _finish(
        interface, _amba(names, prefix), {"PROTOCOL": "AXI4", "MAX_BURST_LENGTH": "16", "SUPPORTS_NARROW_BURST": "0"}
    )


def _control(parent: Element, names: Sequence[str]) -> None:
    interface = _interface(parent, _CONTROL, "interface", "aximm")
    _add(_add(interface, "slave"), "memoryMapRef", memoryMapRef=_CONTROL)
    _finish(interface, _amba(names, _CONTROL), {"PROTOCOL": "AXI4LITE"})


def _signal(
    parent: Element, name: str, kind: str, logical: str, parameters: Mapping[str, str], *, master: bool = False
) -> None:
    interface = _interface(parent, name, "signal", kind)
    _add(interface, "master" if master else "slave")
    _finish(interface, [(logical, name)], parameters)


def _registers(root: Element, table: RegisterMap) -> None:
    memory_map = _add(_add(root, "memoryMaps"), "memoryMap")
    _add(memory_map, "name", _CONTROL)
    block = _add(memory_map, "addressBlock")
    for tag, text in (
        ("name", "registers"), ("baseAddress", "0"), ("range", f"{_SPAN:#x}"), ("width", str(REGISTER_BITS)),
        ("usage", "register"),
    ):  # fmt: skip
        _add(block, tag, text)
    for entry in table.entries:
        register = _add(block, "register")
        for tag, text in (
            ("name", entry.name), ("description", entry.layout.doc), ("addressOffset", f"{entry.address:#x}"),
            ("size", str(REGISTER_BITS)), ("access", _ACCESS[entry.access]),
        ):  # fmt: skip
            _add(register, tag, text)
        _add(_add(register, "reset"), "value", f"{entry.reset:#x}")
        for field in entry.layout.fields:
            if field.name == "reserved":
                continue
            element = _add(register, "field")
            for tag, text in (
                ("name", field.name), ("description", field.doc), ("bitOffset", str(entry.layout.offsets[field.name])),
                ("bitWidth", str(field.bits)),
            ):  # fmt: skip
                _add(element, tag, text)


def _model(root: Element, module: str, ports: Sequence[Mapping[str, Any]]) -> None:
    model = _add(root, "model")
    view = _add(_add(model, "views"), "view")
    for tag, text in (
        ("name", "verilog"),
        ("envIdentifier", "verilogSource::"),
        ("language", "verilog"),
        ("modelName", module),
    ):
        _add(view, tag, text)
    _add(_add(view, "fileSetRef"), "localName", "rtl")
    listed = _add(model, "ports")
    for port in ports:
        element = _add(listed, "port")
        _add(element, "name", str(port["name"]))
        wire = _add(element, "wire")
        _add(wire, "direction", "in" if port["direction"] == "input" else "out")
        if int(port["width"]) > 1:
            vector = _add(wire, "vector")
            _add(vector, "left", str(int(port["width"]) - 1))
            _add(vector, "right", "0")
