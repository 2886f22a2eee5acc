"""The system as Verilog for Verilator: the same parts as on a board, with a model of the DRAM behind LiteDRAM."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from litedram.common import PhySettings, get_default_cl, get_default_cwl, get_sys_latency, get_sys_phase
from litedram.modules import MT41K256M16
from litedram.phy.model import BankModel, SDRAMPHYModel
from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
from litex.gen import LiteXModule
from migen import ClockDomain, Memory

from soc.simulation import ROWS
from soc.system import System

__all__ = ["SimulatedSystem", "Sources", "sources_of"]

_PORTS: list[tuple[Any, ...]] = [
    ("clk", 0, Pins(1)),
    ("rst", 0, Pins(1)),
    (
        "serial", 0,
        *(Subsignal(f"{way}_{name}", Pins(8 if name == "data" else 1))
          for way in ("source", "sink") for name in ("valid", "ready", "data")),
    ),
    ("irq", 0, Pins(1)),
]  # fmt: skip


class _Device(MT41K256M16):
    """The DRAM of an ECPIX-5 with its timing and fewer rows."""

    nrows = ROWS


def ecp5_settings(databits: int, clk_freq: float) -> PhySettings:
    """Return widths, phases and latencies of LiteDRAM's DDR3 interface for ECP5.

    Parameters
    ----------
    databits
        Data pins.
    clk_freq
        Clock of the system in Hz; the DRAM's is twice that.
    """
    cycle = 1 / (2 * clk_freq)
    cl, cwl = get_default_cl("DDR3", cycle), get_default_cwl("DDR3", cycle)
    reads, writes = get_sys_latency(2, cl), get_sys_latency(2, cwl)
    return PhySettings(
        phytype="SDRAMPHYModel",
        memtype="DDR3",
        databits=databits,
        dfi_databits=4 * databits,
        nphases=2,
        rdphase=get_sys_phase(2, reads, cl),
        wrphase=get_sys_phase(2, writes, cwl),
        cl=cl,
        cwl=cwl,
        read_latency=reads + 10,
        write_latency=writes,
    )


class _Clock(LiteXModule):
    def __init__(self, platform: Any) -> None:
        self.cd_sys = ClockDomain()
        self.comb += [self.cd_sys.clk.eq(platform.request("clk")), self.cd_sys.rst.eq(platform.request("rst"))]


@dataclass(frozen=True)
class Sources:
    """What the simulator is built from, and what it reads when it starts.

    Attributes
    ----------
    texts
        Verilog by file name.
    files
        Contents of memories by file name, to be put where the simulator runs.
    header
        C header of the system.
    top
        Name of the top module.
    """

    texts: dict[str, str]
    files: dict[str, str]
    header: str
    top: str


class SimulatedSystem(System):
    """The system with DRAM as on an ECPIX-5, at this clock.

    Parameters
    ----------
    machine
        Verilog of the machine.
    clk_freq
        Clock that DRAM timings are counted in, in Hz.
    databits
        Data pins of the DRAM; its beats are eight times as wide. 0: memory on the chip behind the system's bus.
    contents
        Of the DRAM from its first byte on.
    firmware
        Words of the program.
    """

    def __init__(
        self,
        machine: Path,
        clk_freq: float,
        databits: int,
        *,
        contents: bytes = b"",
        firmware: Sequence[int] = (),
    ) -> None:
        platform = GenericPlatform("simulation", list(_PORTS), name="system")
        phy, module = None, None
        if databits:
            module = _Device(clk_freq, "1:2")
            # The mode registers take more address bits than the rows that are modelled.
            module.geom_settings.addressbits = max(15, module.geom_settings.addressbits)
            phy = SDRAMPHYModel(module, ecp5_settings(databits, clk_freq), clk_freq=clk_freq)
            _fill(phy, contents, databits)
        self.crg = _Clock(platform)
        super().__init__(platform, clk_freq, machine, phy, module, firmware=firmware, uart="sim")
        self.comb += platform.request("irq").eq(self.atoll.irq)


def _fill(phy: SDRAMPHYModel, contents: bytes, databits: int) -> None:
    """Put contents into the banks: a row of each bank, then the next rows."""
    banks = [part for _, part in phy._submodules if isinstance(part, BankModel)]
    beat, columns = databits, 1 << phy.module.geom_settings.colbits  # bytes of eight columns; columns of a row
    beats = columns // 8
    data = contents + bytes(
        -len(contents) % (beat * beats * len(banks)) or (0 if contents else beat * beats * len(banks))
    )
    rows = np.frombuffer(data, np.uint8).reshape(-1, len(banks), beats, beat)[..., ::-1]
    for number, bank in enumerate(banks):
        (memory,) = (part for part in bank._fragment.specials if isinstance(part, Memory))
        # The model addresses columns by fours, and a beat is eight.
        words: list[int] = []
        for word in rows[:, number].reshape(-1, beat):
            words += [int.from_bytes(word.tobytes(), "big"), 0]
        memory.init = words


def sources_of(system: SimulatedSystem) -> Sources:
    """Return the Verilog of a system and the contents of its memories."""
    out = system.platform.get_verilog(system, name="system", regular_comb=False)
    texts = {
        "system.v": re.sub(r"^// +(Date|LiteX sha1|Auto-Generated by LiteX on) .*\n", "", out.main_source, flags=re.M)
    }
    for path, *_ in system.platform.sources:
        texts[os.path.basename(path)] = Path(path).read_text()
    return Sources(texts, dict(out.data_files), system.header(), "system")
