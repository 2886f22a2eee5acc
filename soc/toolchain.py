"""Compiling the firmware: Clang and its linker from the package `ziglang`, so no system compiler is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from contracts.errors import InputError
from sim.harness.compiler import ZIG
from soc.exports.c_header import c_header

__all__ = ["COMMAND_FIRMWARE", "FIRMWARE", "STRICT", "compile_firmware"]

_HERE = Path(__file__).parent
DRIVER, SOURCES = _HERE / "driver", _HERE / "firmware"
#: Files of the firmware that runs images: the start code first.
_COMMON = (*(SOURCES / name for name in ("start.S", "trap.c", "dram.c", "uart.c", "memory.c")), DRIVER / "atoll.c")
FIRMWARE = (*_COMMON, SOURCES / "main.c", SOURCES / "scheduler.c")
#: The same for cores that take single commands: the scheduler of A9.
COMMAND_FIRMWARE = (*_COMMON, SOURCES / "commands.c")
#: Every warning is an error.
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
_TARGET = ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m", "-mabi=ilp32")
_OPTIONS = (
    "-O2",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlib",
    "-ffunction-sections",
    "-Wl,--gc-sections",
    "-fno-sanitize=undefined",
)


def compile_firmware(header: str, folder: Path, sources: Sequence[Path] = FIRMWARE) -> list[int]:
    """Compile the firmware for a system.

    Parameters
    ----------
    header
        C header of the system, `soc.system.System.header`.
    folder
        For the program and all that is made on the way.
    sources
        Files in C and assembler.

    Returns
    -------
    list of int
        The program, 32-bit words from address 0 on.

    Raises
    ------
    InputError
        With the compiler's words, if it refuses them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "system.h").write_text(header)
    (folder / "atoll_registers.h").write_text(c_header())
    program, binary = folder / "firmware.elf", folder / "firmware.bin"
    includes = (f"-I{folder}", f"-I{DRIVER}", f"-I{SOURCES}")
    zig(
        "cc",
        *_TARGET,
        *STRICT,
        *_OPTIONS,
        *includes,
        "-T",
        str(SOURCES / "link.ld"),
        *map(str, sources),
        "-o",
        str(program),
    )
    zig("objcopy", "-O", "binary", str(program), str(binary))
    data = binary.read_bytes()
    data += bytes(-len(data) % 4)
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def zig(*arguments: str) -> None:
    """Run Zig's compiler.

    Raises
    ------
    InputError
        If it ends with an error.
    """
    done = subprocess.run([ZIG, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"ziglang {arguments[0]}", done.stderr.strip() or f"status {done.returncode}", "no complaint")
