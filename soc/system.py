"""The system of every board and of the simulation: soft core, memory controller, serial port, machine (A9, R17)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from litedram.init import get_sdram_phy_init_sequence
from litex.soc.integration.soc_core import SoCCore

from soc.core import Atoll

__all__ = ["CHIP_BYTES", "ROM_BYTES", "SRAM_BYTES", "System"]

#: Memory on the chip for the firmware: its code and constants, and its data and stack.
ROM_BYTES, SRAM_BYTES = 0x4000, 0x2000
#: Main memory of a system without DRAM.
CHIP_BYTES = 0x40000


class System(SoCCore):
    """VexRiscv with its caches, LiteDRAM, a serial port and the machine behind one bus.

    The machine's memory port goes to LiteDRAM's crossbar and not through the CPU's caches; there is no other cache in
    between, so the firmware discards its own data cache before it reads what the machine has written.

    Parameters
    ----------
    platform, clk_freq
        Of the board; clock in Hz.
    machine
        Verilog of the machine.
    phy, module
        DRAM interface and device; None: memory on the chip, of `CHIP_BYTES`, behind the system's bus.
    firmware
        Words of the program.
    uart
        Serial port, a name of LiteX.
    """

    def __init__(
        self,
        platform: Any,
        clk_freq: float,
        machine: str | Path,
        phy: Any = None,
        module: Any = None,
        *,
        firmware: Sequence[int] = (),
        uart: str = "serial",
    ) -> None:
        SoCCore.__init__(
            self,
            platform,
            clk_freq,
            cpu_type="vexriscv",
            cpu_variant="standard",
            integrated_rom_size=ROM_BYTES,
            integrated_rom_init=[*firmware] or [0],
            integrated_sram_size=SRAM_BYTES,
            integrated_main_ram_size=0 if phy else CHIP_BYTES,
            uart_name=uart,
            ident="",
        )
        if phy:
            self.ddrphy, self.device = phy, module
            # No second-level cache: the machine would not see what it holds.
            self.add_sdram("sdram", phy=phy, module=module, l2_cache_size=0)
        self.atoll = Atoll(platform, machine)
        self.atoll.join(self)

    def header(self) -> str:
        """Return the C header with the addresses of this system, its interrupts, and how its memory is woken up.

        Only after `finalize`.
        """
        lines = ["/* Addresses of this system; written by `atoll soc`. */", "#pragma once", ""]

        def define(name: str, value: int) -> None:
            lines.append(f"#define {name.upper()} {value:#x}u")

        define("clock_hz", round(self.sys_clk_freq))
        for name, region in self.bus.regions.items():
            if name not in ("csr",) and not name.startswith("io"):
                define(f"{name}_base", region.origin)
                define(f"{name}_size", region.size)
        for bank, region in self.csr.regions.items():
            at = region.origin
            if not isinstance(region.obj, list):
                continue
            for csr in region.obj:
                define(f"csr_{bank}_{csr.name}", at)
                at += 4 * -(-csr.size // 32)
        for name, number in self.irq.locs.items():
            define(f"irq_{name}", number)
        if not hasattr(self, "ddrphy"):
            return "\n".join([*lines, ""])
        settings = self.ddrphy.settings
        define("dram_phases", settings.nphases)
        define("dram_lanes", settings.databits // 8)
        define("dram_read_phase", settings.rdphase)
        define("dram_write_phase", settings.wrphase)
        if getattr(settings, "read_leveling", False):
            define("dram_bitslips", settings.bitslips)
            define("dram_delays", settings.delays)
        sequence, _ = get_sdram_phy_init_sequence(settings, self.device.timing_settings)
        lines += ["", "/* address, bank, command of the DFI injector, cycles to wait */", "#define DRAM_WAKE_UP \\"]
        steps = [f"    {{{a:#x}, {bank}, {_command(command)}, {wait}}}" for _, a, bank, command, wait in sequence]
        return "\n".join([*lines, ", \\\n".join(steps), ""])


#: Bits of the DFI injector's command and control registers, as LiteDRAM names them.
_DFI = {
    "DFII_CONTROL_SEL": 0x01, "DFII_CONTROL_CKE": 0x02, "DFII_CONTROL_ODT": 0x04, "DFII_CONTROL_RESET_N": 0x08,
    "DFII_COMMAND_CS": 0x01, "DFII_COMMAND_WE": 0x02, "DFII_COMMAND_CAS": 0x04, "DFII_COMMAND_RAS": 0x08,
    "DFII_COMMAND_WRDATA": 0x10, "DFII_COMMAND_RDDATA": 0x20,
}  # fmt: skip
#: Marks a step that writes the control register.
_CONTROL = 0x100


def _command(names: str) -> str:
    """Return the number of a step's command; steps of the control register are marked."""
    value = 0
    for name in names.split("|"):
        value |= _DFI[name] | (_CONTROL if "CONTROL" in name else 0)
    return f"{value:#x}"
