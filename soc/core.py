"""A generated machine as a LiteX core: control registers, memory port and interrupt, in any system by three lines.

from soc.core import Atoll
self.atoll = Atoll(self.platform, "build/verilog/machine_small.v")
self.atoll.join(self)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from migen import ClockSignal, Instance, ResetSignal, Signal

from contracts.errors import InputError
from contracts.memory_ports import sharing
from soc.banked import BankedPort

__all__ = ["WINDOW", "Atoll"]

#: Bytes of the control registers on the system's bus: a page, so that an operating system can map them alone.
WINDOW = 0x1000
#: Signals of an address channel, of which ID and address have widths of their own.
_ADDRESS = ("addr", "len", "size", "burst", "lock", "cache", "prot", "qos")


class _Line:
    """An interrupt as LiteX' interrupt controller expects it."""

    def __init__(self, irq: Signal) -> None:
        self.irq = irq


class Atoll(LiteXModule):
    """The machine that `atoll generate machine` has written (A9, R17).

    Parameters
    ----------
    platform
        Of the system; it gets the machine's Verilog.
    verilog
        The generated file; its list of ports, ``*.ports.json``, is beside it.

    Attributes
    ----------
    control : AXILiteInterface
        Subordinate with the registers of `contracts.registers`.
    memories : list of AXIInterface
        Managers, as wide as the machine's ports, one for each.
    irq : Signal
        High while a run is done and not acknowledged.

    Raises
    ------
    InputError
        If the files are not those of a machine behind its control port.
    """

    def __init__(self, platform: Any, verilog: str | Path) -> None:
        self.verilog = path = Path(verilog)
        listed = path.with_name(f"{path.stem}.ports.json")
        try:
            ports = {port["name"]: int(port["width"]) for port in json.loads(listed.read_text())}
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(str(listed), "cannot be read", "the list of ports that `atoll generate` writes") from None
        if not path.exists() or not {"m_axi_araddr", "s_axil_awaddr", "irq"} <= set(ports):
            raise InputError(str(path), "is no machine behind a control port", "a file of `atoll generate machine`")
        widths = ports["m_axi_rdata"], ports["m_axi_araddr"]
        prefixes = sharing("m_axi", ports)
        self.memories = [AXIInterface(*widths, id_width=ports["m_axi_arid"]) for _ in prefixes]
        self.control = control = AXILiteInterface(32, 32)
        self.irq = Signal()
        self.ev = _Line(self.irq)
        pins: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": ResetSignal(), "o_irq": self.irq}
        for prefix, memory in zip(prefixes, self.memories, strict=True):
            pins |= _memory_pins(prefix, memory)
        pins |= _control_pins(control, ports["s_axil_awaddr"])
        self.specials += Instance(
            path.stem, **{pin: to for pin, to in pins.items() if pin[2:] in ports or "clk" in pin}
        )
        platform.add_source(str(path))

    def join(self, soc: Any, name: str = "atoll", sdram: Any = None) -> None:
        """Connect to a system: registers to its bus, interrupt to its CPU, and the memory ports.

        Parameters
        ----------
        soc
            The system, which has its CPU and memory.
        name
            Of the attribute of `soc` that this core is, and of the region and interrupt.
        sdram
            LiteDRAM core whose region ``main_ram`` holds the images; default: ``soc.sdram`` if there is one. Ports are
            wired to its crossbar, whose beats must be as wide. Without one, they become masters of the system's bus.

        Raises
        ------
        InputError
            If the widths differ.
        """
        soc.bus.add_slave(name, self.control, SoCRegion(size=WINDOW, cached=False, mode="rw"))
        if getattr(soc, "irq", None) is not None and soc.irq.enabled:
            soc.irq.add(name, use_loc_if_exists=True)
        sdram = sdram or getattr(soc, "sdram", None)
        if sdram is None:
            for n, memory in enumerate(self.memories):
                soc.bus.add_master(f"{name}_{n}" if n else name, memory)
            return
        width, own = sdram.crossbar.controller.data_width, self.memories[0].data_width
        if width != own:
            what = f"has a memory port of {own} bits"
            raise InputError(str(self.verilog), what, f"{width}, the width of the memory controller")
        for memory in self.memories:
            self.submodules += BankedPort(memory, sdram.crossbar, soc.bus.regions["main_ram"].origin)


def _memory_pins(name: str, axi: AXIInterface) -> dict[str, Any]:
    pins: dict[str, Any] = {}
    for prefix in ("ar", "aw"):
        channel = getattr(axi, prefix)
        pins |= {f"o_{name}_{prefix}{field}": getattr(channel, field) for field in _ADDRESS}
        pins |= {
            f"o_{name}_{prefix}id": channel.id,
            f"o_{name}_{prefix}valid": channel.valid,
            f"i_{name}_{prefix}ready": channel.ready,
        }
    r, w, b = axi.r, axi.w, axi.b
    pins |= {f"i_{name}_r{field}": getattr(r, field) for field in ("id", "data", "resp", "last", "valid")}
    pins |= {f"i_{name}_b{field}": getattr(b, field) for field in ("id", "resp", "valid")}
    pins |= {f"o_{name}_w{field}": getattr(w, field) for field in ("data", "strb", "last", "valid")}
    return pins | {f"o_{name}_rready": r.ready, f"o_{name}_bready": b.ready, f"i_{name}_wready": w.ready}


def _control_pins(axi: AXILiteInterface, address_width: int) -> dict[str, Any]:
    pins: dict[str, Any] = {}
    for prefix in ("ar", "aw"):
        channel = getattr(axi, prefix)
        pins |= {
            f"i_s_axil_{prefix}addr": channel.addr[:address_width],
            f"i_s_axil_{prefix}prot": 0,
            f"i_s_axil_{prefix}valid": channel.valid,
            f"o_s_axil_{prefix}ready": channel.ready,
        }
    pins |= {f"i_s_axil_w{name}": getattr(axi.w, name) for name in ("data", "strb", "valid")}
    pins |= {f"o_s_axil_r{name}": getattr(axi.r, name) for name in ("data", "resp", "valid")}
    pins |= {f"o_s_axil_b{name}": getattr(axi.b, name) for name in ("resp", "valid")}
    return pins | {"o_s_axil_wready": axi.w.ready, "i_s_axil_rready": axi.r.ready, "i_s_axil_bready": axi.b.ready}
