"""Driver of the accelerator: speaks to its control registers and its memory, and to nothing else.

Every operation is a coroutine over a :class:`Bus`, so that the same lines drive a simulation, where an access takes
simulated time, and hardware, where :func:`now` runs them at once:

    with MappedBus("/dev/uio0", "/dev/udmabuf0", memory_bytes=1 << 24) as bus:
        finished = now(Driver(bus, base=physical_base("/dev/udmabuf0")).run(image))

Addresses are offsets in the bus' memory everywhere; only the register IMAGE gets a physical address, with `base` added.
"""

from __future__ import annotations

import mmap
import os
import select
import stat
import struct
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from contracts import LINE_BYTES, MAGIC, VERSION, Error
from contracts.registers import COUNTERS, REGISTER_BITS, REGISTERS, register

__all__ = ["Bus", "Driver", "DriverError", "Finished", "MappedBus", "MappedRegisters", "now", "physical_base"]

T = TypeVar("T")


class DriverError(Exception):
    """The accelerator is not what it should be, or does not answer; one line."""


class Bus(Protocol):
    """How a driver reaches the accelerator: registers by their address, memory by offsets from its first byte."""

    async def read(self, address: int) -> int:
        """Return the 32-bit register at a byte address."""

    async def write(self, address: int, value: int) -> None:
        """Write a 32-bit register.

        Raises
        ------
        DriverError
            If the accelerator refuses it and the bus can tell.
        """

    async def load(self, address: int, contents: bytes) -> None:
        """Write bytes into the accelerator's memory."""

    async def dump(self, address: int, size: int) -> bytes:
        """Return bytes of the accelerator's memory."""

    async def wait(self) -> None:
        """Let some time pass; may return early when the interrupt comes."""


@dataclass(frozen=True)
class Finished:
    """How a run ended.

    Attributes
    ----------
    error
        0, or why it stopped.
    layer, tag, info
        Of the command that stopped it, see ``docs/contracts.md``.
    counters
        What the run took, by the names of the counters: cycles, beats.
    """

    error: int
    layer: int
    tag: int
    info: int
    counters: dict[str, int]

    def __str__(self) -> str:
        if not self.error:
            return f"done in {self.counters['cycles']} cycles"
        name = Error(self.error).name if self.error in set(Error) else f"error {self.error}"
        return f"{name} in layer {self.layer}, command {self.tag}, info {self.info:#x}"


class Driver:
    """Loads images, runs them, reads results back.

    Parameters
    ----------
    bus
        The way to the accelerator.
    patience
        Waits for the end of a run before it is given up; `None` never gives up.
    base
        Where the accelerator's memory port sees the first byte of the bus' memory; a multiple of 64.

    Raises
    ------
    DriverError
        If `base` is not that of a line.
    """

    def __init__(self, bus: Bus, patience: int | None = None, base: int = 0) -> None:
        if base < 0 or base % LINE_BYTES:
            raise DriverError(f"memory at {base:#x}, expected a multiple of {LINE_BYTES}")
        self.bus, self.base, self._patience = bus, base, patience

    async def read(self, name: str) -> dict[str, int]:
        """Return the fields of a register."""
        entry = register(name)
        return entry.layout.unpack(await self.bus.read(entry.address))

    async def write(self, name: str, **fields: int) -> None:
        """Write a register; fields that are not named are 0."""
        entry = register(name)
        await self.bus.write(entry.address, entry.layout.pack(fields))

    async def identify(self) -> None:
        """Make sure that this is an Atoll of the same version.

        Raises
        ------
        DriverError
            If it is not.
        """
        magic = (await self.read("ID"))["magic"]
        if magic != MAGIC:
            raise DriverError(f"register ID: {magic:#010x}, expected {MAGIC:#010x}: this is no Atoll")
        version = (await self.read("VERSION"))["version"]
        if version != VERSION:
            raise DriverError(f"register VERSION: {version}, expected {VERSION}: image and hardware do not fit")

    async def counters(self) -> dict[str, int]:
        """Return all counters since they were cleared."""
        found = {}
        for name in COUNTERS:
            low = (await self.read(f"{name.upper()}_LOW"))["low"]
            found[name] = low | (await self.read(f"{name.upper()}_HIGH"))["high"] << REGISTER_BITS
        return found

    async def working(self) -> list[int]:
        """Return by unit the cycles in which it has worked since the counters were cleared, modulo 2^32 (I5)."""
        found = []
        for number in range((await self.read("UNITS"))["count"]):
            await self.write("UNIT", number=number)
            found.append((await self.read("UNIT_CYCLES"))["cycles"])
        return found

    async def start(self, address: int = 0) -> None:
        """Start the image at an offset in the bus' memory; counters begin at 0.

        Raises
        ------
        DriverError
            If the offset is not that of a line, the register cannot hold the address, or a run is under way.
        """
        if address % LINE_BYTES:
            raise DriverError(f"image at {address:#x}, expected a multiple of {LINE_BYTES}")
        line = (self.base + address) // LINE_BYTES
        if line >> REGISTER_BITS:
            raise DriverError(f"image at physical {self.base + address:#x}, expected below 2^{REGISTER_BITS} lines")
        if (await self.read("STATUS"))["busy"]:
            raise DriverError("register STATUS: busy, expected no run under way")
        await self.write("CONTROL", acknowledge=1, clear=1)
        await self.write("INTERRUPT", done=1)
        await self.write("IMAGE", line=line)
        await self.write("CONTROL", start=1)

    async def finish(self) -> Finished:
        """Wait for the run under way to end.

        Raises
        ------
        DriverError
            If it does not end in time.
        """
        waits = 0
        while not (await self.read("STATUS"))["done"]:
            if self._patience is not None and waits >= self._patience:
                raise DriverError(f"register STATUS: not done after {waits} waits, expected the end of the run")
            await self.bus.wait()
            waits += 1
        ended = await self.read("COMPLETION")
        info = (await self.read("INFO"))["info"]
        await self.write("CONTROL", acknowledge=1)
        return Finished(ended["error"], ended["layer"], ended["tag"], info, await self.counters())

    async def run(self, image: bytes, address: int = 0) -> Finished:
        """Load an image, run it, and say how it ended."""
        await self.identify()
        await self.bus.load(address, image)
        await self.start(address)
        return await self.finish()


def now(work: Coroutine[Any, Any, T]) -> T:
    """Run a driver's operation on a bus that never has to wait for anybody else, such as :class:`MappedBus`.

    Raises
    ------
    RuntimeError
        If the bus does wait.
    """
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    work.close()
    raise RuntimeError("the bus waits; run the coroutine in its event loop instead")


def physical_base(memory: str | os.PathLike[str], sysfs: str | os.PathLike[str] = "/sys/class/u-dma-buf") -> int:
    """Return where memory ports see the first byte of a buffer of Linux' udmabuf.

    Parameters
    ----------
    memory
        Its device, such as ``/dev/udmabuf0``.
    sysfs
        Folder in which the kernel tells about buffers.

    Raises
    ------
    DriverError
        If the kernel does not say.
    """
    told = Path(sysfs) / Path(memory).name / "phys_addr"
    try:
        return int(told.read_text(), 0)
    except (OSError, ValueError) as error:
        raise DriverError(f"{told}: cannot read a physical address: {error}") from None


class MappedRegisters:
    """Registers mapped from a file, such as that of Linux' UIO. Waiting on a UIO device sleeps until its interrupt.

    Parameters
    ----------
    registers
        File to map.
    pause
        Seconds that `wait` sleeps at most.
    interrupt
        File that works as UIO's do: a word of 1 written enables the interrupt, a read of a word returns after it.
        Default: `registers` if that is a device, otherwise there is none.

    Raises
    ------
    DriverError
        If a file cannot be mapped.
    """

    def __init__(
        self,
        registers: str | os.PathLike[str],
        pause: float = 1e-3,
        interrupt: str | os.PathLike[str] | None = None,
    ) -> None:
        span = -(-(REGISTERS[-1].address + 4) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._registers = _mapped(registers, span)
        self._words = memoryview(self._registers).cast("I")
        self._pause, self._interrupt = pause, None
        if interrupt is not None or stat.S_ISCHR(os.stat(registers).st_mode):
            self._interrupt = _opened(interrupt or registers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._words.release()
        self._registers.close()
        if self._interrupt is not None:
            os.close(self._interrupt)

    async def read(self, address: int) -> int:
        """Return a register, in one access of 32 bits."""
        return self._words[address // 4]

    async def write(self, address: int, value: int) -> None:
        """Write a register, in one access of 32 bits."""
        self._words[address // 4] = value

    async def wait(self) -> None:
        """Sleep until the interrupt, or for as long as `pause` says."""
        if self._interrupt is None:
            time.sleep(self._pause)
            return
        os.write(self._interrupt, _WORD.pack(1))
        ready, _, _ = select.select([self._interrupt], [], [], self._pause)
        if ready:
            os.read(self._interrupt, _WORD.size)


class MappedBus(MappedRegisters):
    """Registers and memory mapped from files, such as those of Linux' UIO and udmabuf.

    The memory is opened with ``O_SYNC``, so udmabuf maps it without the CPU's caches: what is written is in memory for
    the memory port, and what the port has written is read.

    Parameters
    ----------
    registers, pause, interrupt
        As for `MappedRegisters`.
    memory
        File to map.
    memory_bytes
        Size of the memory.

    Raises
    ------
    DriverError
        If a file cannot be mapped.
    """

    def __init__(
        self,
        registers: str | os.PathLike[str],
        memory: str | os.PathLike[str],
        memory_bytes: int,
        pause: float = 1e-3,
        interrupt: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(registers, pause, interrupt)
        self._memory = _mapped(memory, memory_bytes)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, value, trace)
        self._memory.close()

    async def load(self, address: int, contents: bytes) -> None:
        """Copy bytes into the memory.

        Raises
        ------
        DriverError
            If the memory ends before they do.
        """
        if address + len(contents) > len(self._memory):
            room = len(self._memory) - address
            raise DriverError(f"image at {address:#x}: {len(contents)} bytes, expected at most {room} of the memory")
        self._memory[address : address + len(contents)] = contents

    async def dump(self, address: int, size: int) -> bytes:
        """Copy bytes out of the memory."""
        return self._memory[address : address + size]


#: What is read from and written to a UIO device.
_WORD = struct.Struct("=I")


def _opened(path: str | os.PathLike[str]) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_SYNC)
    except OSError as error:
        raise DriverError(f"{os.fspath(path)}: cannot open: {error}") from None


def _mapped(path: str | os.PathLike[str], size: int) -> mmap.mmap:
    try:
        handle = os.open(path, os.O_RDWR | os.O_SYNC)
        try:
            return mmap.mmap(handle, size)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise DriverError(f"{os.fspath(path)}: cannot map {size} bytes: {error}") from None
