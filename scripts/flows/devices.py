"""Devices that `atoll synth` maps to, and how their cells are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts.errors import InputError

__all__ = ["ECP5", "XILINX", "Device", "device_of"]


@dataclass(frozen=True)
class Device:
    """A family of devices.

    Attributes
    ----------
    name, title
        What `--device` takes, and the title of tables.
    flat, apart
        Yosys commands that map the module ``{top}`` of a design as one module, and module by module.
    columns
        Names of the four figures.
    lut_cells, ff_cells, dsp_cells, bram_cells
        What a cell counts in each.
    """

    name: str
    title: str
    flat: str
    apart: str
    columns: tuple[str, str, str, str]
    lut_cells: Mapping[str, int]
    ff_cells: Mapping[str, int]
    dsp_cells: Mapping[str, int]
    bram_cells: Mapping[str, int]

    def luts(self, cells: Mapping[str, int]) -> int:
        """Return the LUTs of `cells`, given by type."""
        return self.figures(cells)[0]

    def figures(self, cells: Mapping[str, int]) -> tuple[int, int, int, int]:
        """Return LUTs, flip-flops, multipliers and block RAMs of `cells`, given by type."""
        luts, ffs, dsps, brams = (
            sum(number * cells.get(kind, 0) for kind, number in counted.items())
            for counted in (self.lut_cells, self.ff_cells, self.dsp_cells, self.bram_cells)
        )
        return luts, ffs, dsps, brams


#: Lattice ECP5. Without the wide multiplexers of a slice a block takes up to half the LUTs, at the same frequency. A
#: carry pair uses two LUTs, a 16x4 distributed RAM four and two to write it.
ECP5 = Device(
    name="ecp5",
    title="ECP5",
    flat="synth_ecp5 -top {top} -nowidelut",
    apart="synth_ecp5 -top {top} -nowidelut -noflatten",
    columns=("LUTs", "FFs", "DSPs", "BRAMs"),
    lut_cells={"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
    ff_cells={"TRELLIS_FF": 1},
    dsp_cells={"MULT18X18D": 1},
    bram_cells={"DP16KD": 1, "PDPW16KD": 1},
)

#: AMD UltraScale+, area only: nothing here places and routes it. LUTs have six inputs; a distributed RAM counts the
#: LUTs it is made of, a block RAM those of 18 kbit. Wide multiplexers and carries are beside the LUTs.
XILINX = Device(
    name="xilinx",
    title="UltraScale+ (synth_xilinx -family xcup)",
    flat="synth_xilinx -family xcup -noiopad -noclkbuf -top {top} -flatten",
    apart="synth_xilinx -family xcup -noiopad -noclkbuf -top {top}",
    columns=("LUT6", "FFs", "DSP48", "BRAM18"),
    lut_cells={
        **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
        "INV": 1,
        "SRL16E": 1,
        "SRLC32E": 1,
        "SRLC16E": 1,
        "RAM32X1S": 1,
        "RAM64X1S": 1,
        "RAM32X1D": 2,
        "RAM64X1D": 2,
        "RAM128X1D": 4,
        "RAM128X1S": 2,
        "RAM32M": 4,
        "RAM64M": 4,
        "RAM32M16": 8,
        "RAM64M8": 8,
        "RAM256X1S": 4,
        "RAM512X1S": 8,
        "RAM256X1D": 8,
        "RAM64X8SW": 8,
        "RAM32X16DR8": 8,
    },
    ff_cells=dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE", "FDRE_1", "FDSE_1", "LDCE", "LDPE"), 1),
    dsp_cells={"DSP48E2": 1},
    bram_cells={"RAMB18E2": 1, "RAMB36E2": 2, "RAMB18E1": 1, "RAMB36E1": 2},
)


def device_of(name: str) -> Device:
    """Return the device of this name.

    Raises
    ------
    InputError
        If there is none.
    """
    for device in (ECP5, XILINX):
        if device.name == name:
            return device
    raise InputError("--device", f"is {name!r}", f"{ECP5.name} or {XILINX.name}")
