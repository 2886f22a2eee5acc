"""Boards with an ECP5-85 and DRAM: their clocks, DRAM and pads, and the files that the open tools take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litedram.modules import MT41K256M16
from litedram.phy import ECP5DDRPHY
from litex.gen import LiteXModule
from litex.soc.cores.clock import ECP5PLL
from litex_boards.platforms import lambdaconcept_ecpix5
from migen import ClockDomain, If, Instance, Signal
from migen.genlib.resetsync import AsyncResetSynchronizer

from contracts.errors import InputError
from soc import CLOCK_HZ
from soc.system import System

__all__ = ["BOARDS", "Board", "board_of"]


@dataclass(frozen=True)
class Board:
    """A board that `atoll soc build` has been tried for.

    Attributes
    ----------
    name, title
        What the command takes, and what it is.
    clock_hz
        Clock of the system.
    databits
        Data pins of its DRAM.
    device
        Options of nextpnr.
    make
        Makes the system of the machine's Verilog, the clock and the words of the firmware.
    """

    name: str
    title: str
    clock_hz: int
    databits: int
    device: tuple[str, ...]
    make: Callable[[Path, int, Sequence[int]], System]


class _Clocks(LiteXModule):
    """Clocks of an ECP5 with DDR3: the system's is half of the DRAM's, divided beside the pads' clock tree.

    Parameters
    ----------
    platform
        With an oscillator ``clk100`` and a button ``rst_n``.
    clk_freq
        Of the system, in Hz.
    """

    def __init__(self, platform: Any, clk_freq: float) -> None:
        self.rst, self.stop, self.reset = Signal(), Signal(), Signal()
        for name in ("init", "por", "sys", "sys2x", "sys2x_i"):
            setattr(self, f"cd_{name}", ClockDomain(name, reset_less=name in ("por", "sys2x_i")))
        oscillator, button = platform.request("clk100"), platform.request("rst_n")
        # The power supplies settle before the PLL may lock.
        left = Signal(16, reset=0xFFFF)
        self.comb += self.cd_por.clk.eq(oscillator)
        self.sync.por += If(left != 0, left.eq(left - 1))
        self.pll = pll = ECP5PLL()
        self.comb += pll.reset.eq((left != 0) | ~button | self.rst)
        pll.register_clkin(oscillator, 100e6)
        pll.create_clkout(self.cd_sys2x_i, 2 * clk_freq, with_reset=False)
        pll.create_clkout(self.cd_init, 25e6)
        self.specials += [
            Instance("ECLKSYNCB", i_ECLKI=self.cd_sys2x_i.clk, i_STOP=self.stop, o_ECLKO=self.cd_sys2x.clk),
            Instance(
                "CLKDIVF", p_DIV="2.0", i_ALIGNWD=0, i_CLKI=self.cd_sys2x.clk, i_RST=self.reset, o_CDIVX=self.cd_sys.clk
            ),
            AsyncResetSynchronizer(self.cd_sys, ~pll.locked | self.reset),
            AsyncResetSynchronizer(self.cd_sys2x, ~pll.locked | self.reset),
        ]


class _Ecpix5(System):
    def __init__(self, machine: Path, clock_hz: int, firmware: Sequence[int]) -> None:
        platform = lambdaconcept_ecpix5.Platform(device="85F", toolchain="trellis")
        self.crg = clocks = _Clocks(platform, clock_hz)
        phy = ECP5DDRPHY(platform.request("ddram"), sys_clk_freq=clock_hz)
        super().__init__(platform, clock_hz, machine, phy, MT41K256M16(clock_hz, "1:2"), firmware=firmware)
        self.comb += [clocks.stop.eq(phy.init.stop), clocks.reset.eq(phy.init.reset)]


#: All of them, by name.
BOARDS = {
    board.name: board
    for board in (
        Board(
            "ecpix5",
            "LambdaConcept ECPIX-5 85F: LFE5UM5G-85F, 16 data pins of DDR3",
            CLOCK_HZ,
            16,
            ("--um5g-85k", "--package", "CABGA554", "--speed", "8"),
            _Ecpix5,
        ),
    )
}


def board_of(name: str) -> Board:
    """Return the board of this name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in BOARDS:
        raise InputError("BOARD", f"is {name!r}", " or ".join(sorted(BOARDS)))
    return BOARDS[name]
