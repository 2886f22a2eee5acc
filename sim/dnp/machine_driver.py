"""Driver of an array of DNP-IIs behind AXI4-Lite and AXI4-Stream (`hw.dnp.machine`, D10).

It speaks to the registers and to the two streams, and to nothing else. Every operation is a coroutine, as in
`sim.driver`, so that the same lines drive a simulation and hardware:

    with MappedRegisters("/dev/uio0") as registers, DeviceStreams("/dev/axis_fifo0") as streams:
        driver = MachineDriver(registers, streams)
        finished = now(driver.run(mapping, samples))
        network = now(driver.weights(mapping))
"""

from __future__ import annotations

import os
import select
import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from contracts import VERSION, ArrayError
from contracts.dnp import gbus
from contracts.dnp.board import BEAT, BeatKind, beats
from contracts.dnp.config import WORD
from contracts.dnp.gbus import Space
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import Edge, Grid
from contracts.registers import ARRAY_COUNTERS, ARRAY_MAGIC, REGISTER_BITS, array_register
from golden.dnp.arithmetic import Ints
from golden.dnp.array import ArrayModel
from golden.dnp.loading import contents
from golden.dnp.mapper import Mapping as Mapped
from golden.dnp.network import Network
from sim.driver import DriverError

__all__ = ["DeviceStreams", "Ended", "MachineDriver", "Registers", "Streams"]

#: Beats of a stream in a file: 32 bits each, in the computer's order of bytes.
_BEAT_BYTES = 4
#: Results of a packet while samples pass, so that a host need not hold those of a whole run at once.
_PACKET = 256
#: Counters wrap.
_COUNTS = 1 << REGISTER_BITS


class Registers(Protocol):
    """How a driver reaches the registers; `sim.driver.MappedRegisters` is one."""

    async def read(self, address: int) -> int:
        """Return the 32-bit register at a byte address."""

    async def write(self, address: int, value: int) -> None:
        """Write a 32-bit register."""

    async def wait(self) -> None:
        """Let some time pass; may return early when the interrupt comes."""


class Streams(Protocol):
    """How a driver reaches the two streams, packet by packet."""

    async def send(self, packet: Sequence[int]) -> None:
        """Hand a packet of beats over; it may return before the array has taken them."""

    async def receive(self) -> list[int]:
        """Return the next packet of beats, or nothing if none has ended for a while."""


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes
    ----------
    stopped
        The host ended it.
    code, processor
        First program that ended by an error, or code 0.
    counters
        What the run took, by the names of `contracts.registers.ARRAY_COUNTERS`.
    results
        Signed words that left by each edge port, by side and place, in order.
    """

    stopped: bool
    code: int
    processor: int
    counters: dict[str, int]
    results: dict[Edge, list[int]]

    def __str__(self) -> str:
        how = "stopped" if self.stopped else "done"
        if self.code:
            how += f", {StopCode(self.code).name} in processor {self.processor}"
        return f"{how} in {self.counters['clocks']} clocks"


class MachineDriver:
    """Loads arrays, runs them with words of the host, and reads them back.

    Parameters
    ----------
    registers, streams
        The ways to the array.
    patience
        Times that an operation waits and nothing happens before it is given up; `None` never gives up.
    """

    def __init__(self, registers: Registers, streams: Streams, patience: int | None = None) -> None:
        self.registers, self.streams, self._patience = registers, streams, patience
        self.grid, self._port = Grid(1, 1), 1
        # Words of frames that were sent, as WORDS_LOADED counts them.
        self._sent = 0
        self._results: dict[Edge, list[int]] = {}
        self._answers: list[int] = []
        self._ends: list[int] = []

    async def read_register(self, name: str) -> dict[str, int]:
        """Return the fields of a register."""
        entry = array_register(name)
        return entry.layout.unpack(await self.registers.read(entry.address))

    async def write_register(self, name: str, **fields: int) -> None:
        """Write a register; fields that are not named are 0."""
        entry = array_register(name)
        await self.registers.write(entry.address, entry.layout.pack(fields))

    async def identify(self) -> None:
        """Make sure that this is an array of the same version, and learn its size.

        Raises
        ------
        DriverError
            If it is not.
        """
        magic = (await self.read_register("ID"))["magic"]
        if magic != ARRAY_MAGIC:
            raise DriverError(f"register ID: {magic:#010x}, expected {ARRAY_MAGIC:#010x}: this is no array")
        version = (await self.read_register("VERSION"))["version"]
        if version != VERSION:
            raise DriverError(f"register VERSION: {version}, expected {VERSION}: programs and hardware do not fit")
        size = await self.read_register("SIZE")
        self.grid = Grid(size["rows"], size["columns"])
        self._port = (await self.read_register("BUFFERS"))["port"]

    async def check(self) -> None:
        """Make sure that the array has refused nothing since its errors were cleared.

        Raises
        ------
        DriverError
            If it has, with the first.
        """
        error = (await self.read_register("ERROR"))["error"]
        if error:
            info = (await self.read_register("INFO"))["info"]
            raise DriverError(f"register ERROR: {ArrayError(error).name}, info {info:#x}, expected none")

    async def load(self, machine: ArrayModel) -> None:
        """Write the memories of a golden machine and join the edges as it does.

        Raises
        ------
        DriverError
            If the machine is of another size.
        """
        await self.identify()
        if (machine.grid.rows, machine.grid.columns) != (self.grid.rows, self.grid.columns):
            wanted, found = machine.grid, self.grid
            raise DriverError(
                f"register SIZE: {found.rows} x {found.columns}, expected {wanted.rows} x {wanted.columns}"
            )
        self.grid = machine.grid
        await self._settle()
        await self.write_register("CONTROL", acknowledge=1, clear=1)
        self._sent = 0
        await self.write_register(
            "JOINTS", topology=machine.grid.topology, host=sum(1 << side for side in machine.grid.host)
        )
        for block in contents(machine):
            await self._frame(block.frame(self.grid))

    async def write(self, processor: int | None, space: Space, address: int, words: Sequence[int]) -> None:
        """Write words of a processor, or of all, between runs."""
        target = None if processor is None else self.grid.place(processor)
        await self._frame(gbus.write(target, space, address, words))

    async def read(self, processor: int, space: Space, address: int, count: int) -> list[int]:
        """Read signed words of a processor: of its memories between runs, of its status at any time.

        Raises
        ------
        DriverError
            If the array refuses it or does not answer.
        """
        await self._frame(gbus.read(self.grid.place(processor), space, address, count))
        while len(self._answers) < count:
            await self._receive(f"{len(self._answers)} of {count} words of processor {processor}")
        words, self._answers = self._answers[:count], self._answers[count:]
        return words

    async def feed(self, samples: Iterable[Mapping[Edge, Sequence[int]]]) -> None:
        """Send words for edge ports, before a run or during it.

        Words of a sample go to its ports in turn, as many at once as wait for a port, so that no port has to take all
        of its words before another one gets some.

        Parameters
        ----------
        samples
            Of each sample, the words by side and place of the port.
        """
        places = {edge: number for number, edge in enumerate(self.grid.edges())}
        for sample in samples:
            packet: list[int] = []
            for first in range(0, max(map(len, sample.values()), default=0), self._port):
                for edge, words in sample.items():
                    packet += beats(BeatKind.EDGE, words[first : first + self._port], places[edge])
            if packet:
                await self.streams.send(packet)

    async def start(self, packet: int = 0) -> None:
        """Start all programs behind the frames that were sent.

        Parameters
        ----------
        packet
            Results after which a packet ends; 0: with the run.
        """
        self._results = {}
        # What was sent may still be on its way to the array.
        await self._settle()
        await self.write_register("PACKET", words=packet)
        await self.write_register("CONTROL", start=1)

    async def finish(self) -> Ended:
        """Wait for the end of the run under way.

        Raises
        ------
        DriverError
            If it does not end, or the array has refused something.
        """
        while not self._ends:
            await self._receive("the end of the run")
        stopped = bool(self._ends.pop(0))
        await self.check()
        found = await self.read_register("STOP")
        counters = {name: (await self.read_register(name.upper()))["count"] for name in ARRAY_COUNTERS}
        await self.write_register("CONTROL", acknowledge=1)
        return Ended(stopped, found["code"], found["processor"], counters, self._results)

    async def stop(self) -> Ended:
        """End the run under way, drop what was sent for it, and say how it was."""
        await self.write_register("CONTROL", stop=1)
        ended = await self.finish()
        await self.write_register("CONTROL", flush=1)
        self._sent = (await self.read_register("WORDS_LOADED"))["count"]
        return ended

    async def run(self, mapping: Mapped, samples: Sequence[tuple[Ints, Ints | None]]) -> Ended:
        """Load a mapped network, let the samples pass or be learnt, and return what left the array."""
        await self.load(mapping.machine())
        await self.start(packet=_PACKET)
        await self.feed({edge: end.words for edge, end in mapping.feeds([sample]).items()} for sample in samples)
        return await self.finish()

    async def weights(self, mapping: Mapped) -> Network:
        """Read back the network that the programs have left."""
        used = max(layout.wm_used for layout in mapping.layouts)
        found = [await self.read(processor, Space.WM, 0, used) for processor in range(self.grid.processors)]
        return mapping.read(found)

    async def _frame(self, words: Sequence[int]) -> None:
        """Send a frame in a packet of its own."""
        self._sent += len(words)
        await self.streams.send(beats(BeatKind.G_BUS, words))

    async def _settle(self) -> None:
        """Wait until the array has taken the frames that were sent."""
        waits, before = 0, None
        while (loaded := (await self.read_register("WORDS_LOADED"))["count"]) != self._sent % _COUNTS:
            waits, before = waits + 1 if loaded == before else 0, loaded
            if self._patience is not None and waits > self._patience:
                raise DriverError(f"register WORDS_LOADED: {loaded} after {waits} waits, expected {self._sent}")
            await self.registers.wait()

    async def _receive(self, awaited: str) -> None:
        """Take the next packet apart."""
        waits = 0
        edges = self.grid.edges()
        while not (packet := await self.streams.receive()):
            await self.check()
            waits += 1
            if self._patience is not None and waits > self._patience:
                raise DriverError(f"no packet after {waits} waits, expected {awaited}")
        for beat in map(BEAT.unpack, packet):
            word = beat["word"] - ((beat["word"] >> WORD - 1) << WORD)
            if beat["kind"] == BeatKind.EDGE:
                self._results.setdefault(edges[beat["port"]], []).append(word)
            else:
                (self._answers if beat["kind"] == BeatKind.G_BUS else self._ends).append(word)


class DeviceStreams:
    """Streams behind a file of which a read or a write is a packet, such as that of Linux' AXI-Stream FIFO.

    While a packet cannot be written, those that come are read and kept: neither way waits for the other.

    Parameters
    ----------
    device
        The file, or a descriptor of an open one.
    pause
        Seconds that `receive` waits for a packet.
    most
        Most beats of a packet that comes.

    Raises
    ------
    DriverError
        If the file cannot be opened.
    """

    def __init__(self, device: str | os.PathLike[str] | int, pause: float = 1.0, most: int = 1 << 16) -> None:
        self._pause, self._most = pause, most
        self._kept: deque[list[int]] = deque()
        if isinstance(device, int):
            self._file = device
            return
        try:
            self._file = os.open(device, os.O_RDWR)
        except OSError as error:
            raise DriverError(f"{os.fspath(device)}: cannot open: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    async def send(self, packet: Sequence[int]) -> None:
        """Write a packet."""
        while True:
            come, room, _ = select.select([self._file], [self._file], [])
            if room:
                os.write(self._file, struct.pack(f"={len(packet)}I", *packet))
                return
            if come:
                self._kept.append(self._read())

    async def receive(self) -> list[int]:
        """Read a packet."""
        if self._kept:
            return self._kept.popleft()
        come, _, _ = select.select([self._file], [], [], self._pause)
        return self._read() if come else []

    def _read(self) -> list[int]:
        data = os.read(self._file, self._most * _BEAT_BYTES)
        return list(struct.unpack(f"={len(data) // _BEAT_BYTES}I", data))
