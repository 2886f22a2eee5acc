"""The driver in C on this computer: against images of the golden model, and against registers that Python plays.

Against the hardware it is tested in `test_soc.py`, by the firmware.
"""

import ctypes
import mmap
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import HEADER, LINE_BYTES, MAGIC, REGION, VERSION, Error, Model, RegionKind
from contracts.registers import COUNTERS, register
from golden.image import build_image
from golden.image_format import Image
from golden.model.network import infer
from sim.harness.compiler import C
from sim.problems import random_graph, random_problem
from soc.exports.c_header import c_header

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "soc" / "driver"
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
OK, DEVICE, OTHER_VERSION, BUSY, ADDRESS, TIME, IMAGE, RUN, REGISTER = 0, -1, -2, -3, -4, -5, -6, -7, -8

READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
SYNC = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Port(ctypes.Structure):
    """``struct atoll_port``."""

    _fields_ = [("context", ctypes.c_void_p), ("read", READ), ("write", WRITE), ("wait", WAIT),
                ("flush", SYNC), ("discard", SYNC)]  # fmt: skip


class Device(ctypes.Structure):
    """``struct atoll``."""

    _fields_ = [("port", Port)]


class Finished(ctypes.Structure):
    """``struct atoll_finished``."""

    _fields_ = [*((name, ctypes.c_uint32) for name in ("error", "layer", "tag", "info")),
                ("counters", ctypes.c_uint64 * len(COUNTERS))]  # fmt: skip


class Region(ctypes.Structure):
    """``struct atoll_region``."""

    _fields_ = [("offset", ctypes.c_size_t), *((name, ctypes.c_uint32)
                for name in ("kind", "layer", "bytes", "rows", "row_elements", "row_bytes"))]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "atoll_registers.h").write_text(c_header())
    built = folder / "driver.so"
    command = [*C, *STRICT, "-O1", "-shared", "-fPIC", f"-I{folder}", str(DRIVER / "atoll.c"), "-o", str(built)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(built))
    loaded.atoll_error_name.restype = ctypes.c_char_p
    loaded.atoll_status_name.restype = ctypes.c_char_p
    loaded.atoll_crc32.restype = ctypes.c_uint32
    loaded.atoll_element.restype = ctypes.c_int16
    loaded.atoll_class.restype = ctypes.c_uint32
    return loaded


class Played:
    """Registers that do what `contracts.registers` says of a run."""

    def __init__(self, library: Any, waits: int = 3, ends: int = Error.NONE, reach: int = 26) -> None:
        self.library, self.waits, self.ends, self.reach = library, waits, ends, reach
        self.work = [17, 0xFFFF_FFFF, 5]
        self.values = {"ID": MAGIC, "VERSION": VERSION, "UNITS": len(self.work)}
        self.written: list[tuple[str, int]] = []
        self.synced: list[tuple[str, int]] = []
        self.names = {register(name).address: name for name in self._names()}
        self.functions = (
            READ(self.read), WRITE(self.write), WAIT(self.wait),
            SYNC(lambda _, __, size: self.synced.append(("flush", size))),
            SYNC(lambda _, __, size: self.synced.append(("discard", size))),
        )  # fmt: skip
        self.device, self.port = Device(), Port(None, *self.functions)

    @staticmethod
    def _names() -> list[str]:
        counters = [f"{name.upper()}_{half}" for name in COUNTERS for half in ("LOW", "HIGH")]
        return ["ID", "VERSION", "CONTROL", "STATUS", "IMAGE", "INTERRUPT", "COMPLETION", "INFO",
                "UNITS", "UNIT", "UNIT_CYCLES", *counters]  # fmt: skip

    def read(self, _: Any, address: int) -> int:
        """Return a register."""
        return self.values.get(self.names[address], 0)

    def write(self, _: Any, address: int, value: int) -> None:
        """Keep a write, and what it changes."""
        name = self.names[address]
        self.written.append((name, value))
        refused = (name == "IMAGE" and value >> self.reach) or (name == "UNIT" and value >= len(self.work))
        if not refused:
            self.values[name] = value
        if name == "UNIT":
            self.values["UNIT_CYCLES"] = self.work[self.values.get("UNIT", 0)]
        if name == "CONTROL" and value & 1:
            self.values["STATUS"] = register("STATUS").layout.pack({"busy": 1})

    def wait(self, _: Any) -> int:
        """Let time pass; the run ends with the last wait."""
        self.waits -= 1
        if self.waits == 0:
            self.values["STATUS"] = register("STATUS").layout.pack({"done": 1})
            self.values["COMPLETION"] = register("COMPLETION").layout.pack({"error": self.ends, "layer": 1, "tag": 9})
            self.values |= {"INFO": 77, "CYCLES_LOW": 5, "CYCLES_HIGH": 2, "READ_BEATS_LOW": 6}
        return 0 if self.waits >= 0 else 1

    def open(self) -> int:
        """Return the status of `atoll_open`."""
        return int(self.library.atoll_open(ctypes.byref(self.device), ctypes.byref(self.port)))

    def run(self, physical: int, data: bytes) -> tuple[int, Finished]:
        """Return the status of `atoll_run`, and how the run ended."""
        finished = Finished()
        status = self.library.atoll_run(
            ctypes.byref(self.device),
            ctypes.c_uint64(physical),
            data,
            ctypes.c_size_t(len(data)),
            ctypes.byref(finished),
        )
        return int(status), finished


def test_a_run_goes_by_the_registers(library: Any) -> None:
    played = Played(library)
    assert played.open() == OK
    status, finished = played.run(0x7000_0040, b"image")
    assert status == OK
    control = register("CONTROL").layout
    assert played.written == [
        ("CONTROL", control.pack({"acknowledge": 1, "clear": 1})),
        ("IMAGE", 0x7000_0040 // LINE_BYTES),
        ("CONTROL", control.pack({"start": 1})),
        ("CONTROL", control.pack({"acknowledge": 1})),
    ]
    assert played.synced == [("flush", 5), ("discard", 5)]
    assert (finished.error, finished.layer, finished.tag, finished.info) == (0, 1, 9, 77)
    assert list(finished.counters) == [(2 << 32) + 5, 6, 0]


def test_the_work_of_every_unit_can_be_read(library: Any) -> None:
    played, cycles = Played(library), ctypes.c_uint32()
    assert played.open() == OK
    device = ctypes.byref(played.device)
    units = library.atoll_units(device)
    assert units == len(played.work)
    for number, work in enumerate(played.work):
        assert library.atoll_unit_cycles(device, ctypes.c_uint32(number), ctypes.byref(cycles)) == OK
        assert cycles.value == work
    assert library.atoll_unit_cycles(device, ctypes.c_uint32(units), ctypes.byref(cycles)) == REGISTER
    assert cycles.value == played.work[-1]


@pytest.mark.parametrize(
    ("values", "expected"), [({"ID": 5}, DEVICE), ({"VERSION": VERSION + 1}, OTHER_VERSION), ({}, OK)]
)
def test_another_device_is_refused_before_any_write(library: Any, values: dict[str, int], expected: int) -> None:
    played = Played(library)
    played.values |= values
    assert played.open() == expected
    assert not played.written


def test_what_cannot_be_started_is_refused(library: Any) -> None:
    played = Played(library, reach=20)
    assert played.open() == OK
    assert played.run(0x20, b"")[0] == ADDRESS
    assert played.run(LINE_BYTES << 32, b"")[0] == ADDRESS
    assert not played.written
    assert played.run(LINE_BYTES << 21, b"")[0] == REGISTER
    assert ("CONTROL", 1) not in played.written
    played.values["STATUS"] = register("STATUS").layout.pack({"busy": 1})
    assert played.run(0, b"")[0] == BUSY


def test_errors_of_a_run_and_a_run_that_does_not_end(library: Any) -> None:
    played = Played(library, ends=Error.MEMORY_READ)
    assert played.open() == OK
    status, finished = played.run(0, b"")
    assert (status, finished.error) == (RUN, Error.MEMORY_READ)
    assert library.atoll_error_name(finished.error) == b"MEMORY_READ"
    endless = Played(library, waits=-1)
    assert endless.open() == OK
    assert endless.run(0, b"")[0] == TIME


def test_every_error_and_status_has_a_name(library: Any) -> None:
    assert [library.atoll_error_name(int(code)).decode() for code in Error] == [code.name for code in Error]
    assert library.atoll_error_name(255) == b"unknown error"
    names = {library.atoll_status_name(status) for status in range(REGISTER, 1)}
    assert len(names) == 1 - REGISTER
    assert b"unknown status" not in names
    assert library.atoll_status_name(1) == b"unknown status"


@pytest.fixture(scope="module")
def image() -> Image:
    problem = random_problem(random_graph(1, 14, 40, features=5, density=0.6), Model.GCN, [6, 3], 1)
    made = build_image(problem)
    data = bytearray(made.data)
    region = made.region(RegionKind.RESULTS, 1)
    for number, row in enumerate(infer(problem)[-1].results):
        at = region.address + number * region.row_bytes
        data[at : at + 2 * row.size] = row.astype("<i2").tobytes()
    struct.pack_into("<I", data, HEADER.offsets["checksum"] // 8, zlib.crc32(data[LINE_BYTES:]))
    return Image.from_bytes(bytes(data))


def check(library: Any, data: bytes) -> int:
    return int(library.atoll_image_check(data, ctypes.c_size_t(len(data))))


def test_images_are_checked(library: Any, image: Image) -> None:
    assert check(library, image.data) == OK
    assert check(library, image.data[:32]) == IMAGE
    assert check(library, image.data + bytes(LINE_BYTES)) == IMAGE
    for at in (0, len(image.data) // 2, len(image.data) - 1):
        damaged = bytearray(image.data)
        damaged[at] ^= 4
        assert check(library, bytes(damaged)) == IMAGE, at

    def changed(field: str, value: int, form: str = "<I") -> bytes:
        data = bytearray(image.data)
        struct.pack_into(form, data, HEADER.offsets[field] // 8, value)
        return bytes(data)

    assert check(library, changed("version", VERSION + 1, "<H")) == OTHER_VERSION
    assert check(library, changed("region_table", 0)) == IMAGE
    assert check(library, changed("region_table", len(image.data) // LINE_BYTES)) == IMAGE
    assert check(library, changed("commands", 1 << 30)) == IMAGE


def test_regions_elements_and_classes(library: Any, image: Image) -> None:
    for wanted in image.regions:
        region = Region()
        assert library.atoll_image_region(image.data, int(wanted.kind), wanted.layer, ctypes.byref(region)) == OK
        assert region.offset == wanted.address
        for name in ("bytes", "rows", "row_elements", "row_bytes"):
            assert getattr(region, name) == getattr(wanted, name)
    results = Region()
    assert library.atoll_image_region(image.data, int(RegionKind.RESULTS), 9, ctypes.byref(results)) == IMAGE
    assert library.atoll_image_region(image.data, int(RegionKind.RESULTS), 1, ctypes.byref(results)) == OK
    wanted = image.region(RegionKind.RESULTS, 1)
    rows = image.rows(wanted, image.data[wanted.address : wanted.address + wanted.bytes])
    got = [[library.atoll_element(image.data, ctypes.byref(results), row, n) for n in range(3)] for row in range(14)]
    np.testing.assert_array_equal(got, rows)
    classes = [library.atoll_class(image.data, ctypes.byref(results), row) for row in range(14)]
    np.testing.assert_array_equal(classes, rows.argmax(axis=1))


def test_regions_lie_beyond_4_gib(library: Any) -> None:
    """Only the pages of an image of 6 GiB that are touched exist."""
    size, line, row_bytes = 6 << 30, (5 << 30) // LINE_BYTES + 7, 64
    entry = {"kind": RegionKind.RESULTS, "layer": 1, "line": line, "bytes": 3 * row_bytes, "rows": 3,
             "row_elements": 4, "row_bytes": row_bytes}  # fmt: skip
    with mmap.mmap(-1, size) as data:
        data[: HEADER.bytes] = HEADER.to_bytes({"lines": size // LINE_BYTES, "region_table": 1, "regions": 1})
        data[LINE_BYTES : LINE_BYTES + REGION.bytes] = REGION.to_bytes(entry)
        at = line * LINE_BYTES
        data[at + 2 * row_bytes : at + 2 * row_bytes + 8] = np.array([5, -6, 7, 2], "<i2").tobytes()
        first, region = ctypes.c_char.from_buffer(data), Region()
        image = ctypes.c_void_p(ctypes.addressof(first))
        assert library.atoll_image_region(image, int(RegionKind.RESULTS), 1, ctypes.byref(region)) == OK
        assert region.offset == at > 1 << 32
        assert [library.atoll_element(image, ctypes.byref(region), 2, n) for n in range(4)] == [5, -6, 7, 2]
        assert library.atoll_class(image, ctypes.byref(region), 2) == 2
        del first


def test_the_checksum_goes_on_from_one_piece_to_the_next(library: Any) -> None:
    data = np.random.default_rng(3).bytes(301)
    first = library.atoll_crc32(0, data[:100], ctypes.c_size_t(100))
    assert library.atoll_crc32(first, data[100:], ctypes.c_size_t(201)) == zlib.crc32(data)


def test_the_driver_for_linux_compiles(tmp_path: Path) -> None:
    (tmp_path / "atoll_registers.h").write_text(c_header())
    command = [*C, *STRICT, "-D_GNU_SOURCE", f"-I{tmp_path}", "-c", "-o", str(tmp_path / "linux.o")]
    subprocess.run([*command, str(DRIVER / "atoll_linux.c")], check=True)


def _compiled(tmp_path: Path, text: str, more: Callable[[], None] = lambda: None) -> subprocess.CompletedProcess[str]:
    more()
    (tmp_path / "program.c").write_text(text)
    (tmp_path / "atoll_registers.h").write_text(c_header())
    files = [str(tmp_path / "program.c"), str(DRIVER / "atoll.c"), str(DRIVER / "atoll_linux.c")]
    program = tmp_path / "program"
    command = [*C, *STRICT, "-D_GNU_SOURCE", f"-I{tmp_path}", f"-I{DRIVER}", *files, "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_driver_for_linux_maps_registers_and_memory_apart(tmp_path: Path) -> None:
    registers = bytearray(4096)
    done = register("STATUS").layout.pack({"done": 1})
    for name, value in {"ID": MAGIC, "VERSION": VERSION, "STATUS": done, "CYCLES_LOW": 4}.items():
        struct.pack_into("<I", registers, register(name).address, value)
    (tmp_path / "uio").write_bytes(registers)
    (tmp_path / "memory").write_bytes(bytes(8192))
    (tmp_path / "phys_addr").write_text("0x70000000\n")
    done_ = _compiled(
        tmp_path,
        """
#include <stdio.h>
#include <string.h>
#include "atoll_linux.h"
int main(void)
{
    struct atoll_linux system;
    struct atoll device;
    struct atoll_finished finished;
    if (atoll_linux_open(&system, "uio", "memory", "phys_addr", 8192) != 0)
        return 3;
    if (atoll_open(&device, &system.port) != ATOLL_OK)
        return 4;
    memcpy((char *)system.memory + 128, "image", 5);
    int status = atoll_run(&device, system.base + 128, (char *)system.memory + 128, 5, &finished);
    printf("%d %u\\n", status, (unsigned)finished.counters[0]);
    atoll_linux_close(&system);
    return atoll_linux_open(&system, "nothing", "memory", "phys_addr", 8192) == 0;
}
""",
    )
    assert (done_.returncode, done_.stdout) == (0, "0 4\n"), done_.stderr
    (line,) = struct.unpack_from("<I", (tmp_path / "uio").read_bytes(), register("IMAGE").address)
    assert line * LINE_BYTES == 0x70000000 + 128
    assert (tmp_path / "memory").read_bytes()[128:133] == b"image"
