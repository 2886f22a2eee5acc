"""A bench's handle of an `axi_memory`: settings, contents, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocotb.triggers import RisingEdge

from sim.models.wrap import CONTROLS, COUNTERS

__all__ = ["Memory", "MemorySettings", "load_all", "plusargs"]

#: Channels in the order of the model's stall chances.
CHANNELS = ("ar", "r", "aw", "w", "b")
#: Latency that benchmarks are stated with, in cycles.
LATENCY = 100


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """How memories behave during a run.

    Attributes
    ----------
    latency
        Cycles to the first beat of a read.
    stall
        Chance that a channel stalls in a cycle.
    out_of_order
        Beats of different IDs come in any order.
    seed
        Of stalls and order; needs a reset to take effect.
    """

    latency: int = LATENCY
    stall: float = 0.0
    out_of_order: bool = False
    seed: int = 1


def plusargs(directory: Path, name: str = "mem") -> list[str]:
    """Plusargs that let `Memory` load and dump through files in `directory`.

    Parameters
    ----------
    directory
        Where the files are; it must exist when the simulation loads or dumps.
    name
        The model's name.
    """
    return [f"+{name}_{kind}={directory}/{name}_{kind}.bin" for kind in ("image", "dump", "pages")]


class Memory:
    """Settings, contents and counters of an `axi_memory` at the top level.

    Making one sets every control to its default: a latency of 100 cycles, full bandwidth, no stalls, in order, no
    errors.

    Parameters
    ----------
    dut
        cocotb's handle of the top.
    beat_bytes
        Bytes of a beat.
    directory
        Directory given to `plusargs`; needed to load or dump.
    name
        The model's name.
    common
        Prefix of the controls that it shares with other memories, if there are any.
    clock
        Its clock; default: that of the top.
    """

    def __init__(
        self,
        dut: Any,
        beat_bytes: int,
        directory: Path | None = None,
        name: str = "mem",
        common: str = "",
        clock: Any = None,
    ) -> None:
        self.clock = dut.clk if clock is None else clock
        self._dut, self._name, self._common, self.beat_bytes = dut, name, common, beat_bytes
        self._directory = directory
        for control in CONTROLS:
            self._control(control).value = 0
        self.latency(LATENCY)
        self.bandwidth(0, 0)
        self.read_errors(None)
        self.write_errors(None)

    def _control(self, control: str) -> Any:
        own = f"{self._name}_{control}"
        return getattr(self._dut, own if hasattr(self._dut, own) else f"{self._common}_{control}")

    def configure(self, settings: MemorySettings) -> None:
        """Set latency, stalls, order and seed as `settings` say."""
        self.latency(settings.latency)
        self.stall(settings.stall)
        self.out_of_order(settings.out_of_order)
        self.seed(settings.seed)

    def latency(self, cycles: int) -> None:
        """Cycles from AR to the first beat of R and from the last W to B, at least 1."""
        self._control("latency").value = cycles

    def bandwidth(self, beats: int, cycles: int) -> None:
        """At most `beats` in `cycles` each way; 0 cycles: a beat a cycle."""
        self._control("bandwidth_beats").value = beats
        self._control("bandwidth_cycles").value = cycles

    def stall(self, chance: float | Mapping[str, float]) -> None:
        """Chance of a stall in a cycle, of all channels or by channel (``ar r aw w b``), below 1."""
        chances = chance if isinstance(chance, Mapping) else dict.fromkeys(CHANNELS, chance)
        self._control("stall").value = sum(
            min(255, round(256 * chances.get(channel, 0))) << (8 * i) for i, channel in enumerate(CHANNELS)
        )

    def out_of_order(self, enabled: bool) -> None:
        """Let beats of different IDs come in any order, interleaved."""
        self._control("out_of_order").value = int(enabled)

    def seed(self, seed: int) -> None:
        """Seed of stalls and order, taken at the next reset."""
        self._control("seed").value = seed & 0xFFFFFFFF

    def read_errors(self, addresses: range | None) -> None:
        """Byte addresses whose reads end in SLVERR."""
        self._errors("read", addresses)

    def write_errors(self, addresses: range | None) -> None:
        """Byte addresses whose writes do nothing and end in SLVERR."""
        self._errors("write", addresses)

    def _errors(self, kind: str, addresses: range | None) -> None:
        first, last = (addresses[0], addresses[-1]) if addresses else (1, 0)
        self._control(f"{kind}_error_first").value = first
        self._control(f"{kind}_error_last").value = last

    async def load(self, image: bytes) -> None:
        """Write `image` to address 0 and up; takes a cycle. The rest of the memory keeps its contents."""
        await load_all([self], [image])

    async def dump(self, address: int, size: int) -> bytes:
        """Contents of `size` bytes from byte `address`; takes a cycle."""
        first = address // self.beat_bytes
        beats = -(-(address + size) // self.beat_bytes) - first
        self._control("dump_first").value = first
        self._control("dump_beats").value = beats
        await _pulse([self], "dump")
        offset = address - first * self.beat_bytes
        data = self._file("dump").read_bytes()[offset : offset + size]
        if len(data) < size:
            raise OSError(f"{self._file('dump')} has {len(data)} bytes, not {size}: is the disk full?")
        return data

    def _file(self, kind: str) -> Path:
        if self._directory is None:
            raise ValueError(f"directory must be given to use the memory's {kind} file, not None")
        return self._directory / f"{self._name}_{kind}.bin"

    def counters(self) -> dict[str, int]:
        """All counters since the last reset, by name."""
        return {counter: int(getattr(self._dut, f"{self._name}_{counter}").value) for counter in COUNTERS}


async def load_all(memories: Sequence[Memory], images: Sequence[bytes]) -> None:
    """Write an image into each memory as `Memory.load` does, into all of one clock in the same cycle."""
    for memory, image in zip(memories, images, strict=True):
        memory._file("image").write_bytes(image + bytes(-len(image) % memory.beat_bytes))
    await _pulse(memories, "load")


async def _pulse(memories: Sequence[Memory], control: str) -> None:
    """Raise a control of all memories for a cycle, or until each of several clocks has had one."""
    edges = [RisingEdge(clock) for clock in {id(memory.clock): memory.clock for memory in memories}.values()]
    for level in (1, 0):
        for memory in memories:
            memory._control(control).value = level
        for edge in edges:
            await edge
