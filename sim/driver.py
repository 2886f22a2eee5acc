"""Driver of the accelerator: speaks to its control registers and its memory, and to nothing else.

Every operation is a coroutine over a :class:`Bus`, so that the same lines drive a simulation, where an access takes
simulated time, and hardware, where :func:`now` runs them at once:

    with MappedBus("/dev/uio0", "/dev/udmabuf0", memory_bytes=1 << 24) as bus:
        finished = now(Driver(bus).run(image))
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeVar

from contracts import LINE_BYTES, MAGIC, VERSION, Error
from contracts.registers import COUNTERS, REGISTER_BITS, REGISTERS, register

__all__ = ["Bus", "Driver", "DriverError", "Finished", "MappedBus", "now"]

T = TypeVar("T")


class DriverError(Exception):
    """The accelerator is not what it should be, or does not answer; one line."""


class Bus(Protocol):
    """How a driver reaches the accelerator."""

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
    """

    def __init__(self, bus: Bus, patience: int | None = None) -> None:
        self.bus, self._patience = bus, patience

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

    async def start(self, address: int = 0) -> None:
        """Start the image at a byte address; counters begin at 0.

        Raises
        ------
        DriverError
            If the address is not that of a line, or a run is under way.
        """
        if address % LINE_BYTES:
            raise DriverError(f"image at {address:#x}, expected a multiple of {LINE_BYTES}")
        if (await self.read("STATUS"))["busy"]:
            raise DriverError("register STATUS: busy, expected no run under way")
        await self.write("CONTROL", acknowledge=1, clear=1)
        await self.write("INTERRUPT", done=1)
        await self.write("IMAGE", line=address // LINE_BYTES)
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


class MappedBus:
    """Registers and memory mapped from files, such as those of Linux' UIO and a DMA buffer.

    Parameters
    ----------
    registers, memory
        Files to map. The memory is what the accelerator's memory port sees from address 0.
    memory_bytes
        Size of the memory.
    pause
        Seconds between looks at the status.

    Raises
    ------
    DriverError
        If a file cannot be mapped.
    """

    def __init__(
        self, registers: str | os.PathLike[str], memory: str | os.PathLike[str], memory_bytes: int, pause: float = 1e-3
    ) -> None:
        span = -(-(REGISTERS[-1].address + 4) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._registers = _mapped(registers, span)
        self._memory = _mapped(memory, memory_bytes)
        self._words = memoryview(self._registers).cast("I")
        self._pause = pause

    def __enter__(self) -> MappedBus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._words.release()
        self._registers.close()
        self._memory.close()

    async def read(self, address: int) -> int:
        """Return a register, in one access of 32 bits."""
        return self._words[address // 4]

    async def write(self, address: int, value: int) -> None:
        """Write a register, in one access of 32 bits."""
        self._words[address // 4] = value

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

    async def wait(self) -> None:
        """Sleep."""
        time.sleep(self._pause)


def _mapped(path: str | os.PathLike[str], size: int) -> mmap.mmap:
    try:
        with open(path, "r+b") as file:
            return mmap.mmap(file.fileno(), size)
    except (OSError, ValueError) as error:
        raise DriverError(f"{os.fspath(path)}: cannot map {size} bytes: {error}") from None
