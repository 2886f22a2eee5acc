"""A top module with a design and the AXI4 memories at its ports, as Verilog text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.memory_ports import sharing
from hw.memory.axi import ATTRIBUTES
from hw.stream.ports import flat_ports
from sim.models.activity import WINDOW
from sim.models.record_streams import record_source
from sim.models.verilog import Pin, held, instance, vector

__all__ = ["CONTROLS", "COUNTERS", "PAGE_BYTES", "SOURCES", "MemoryModel", "ports_of", "sources_of", "wrapper"]

#: Sources to be compiled with the wrapper.
SOURCES = tuple(
    Path(__file__).parent / name
    for name in ("axi_memory.sv", "axi_checker.sv", "activity_recorder.sv", "record_recorder.sv")
)
#: Source that a sparse memory needs beside them.
_PAGE_MAP = Path(__file__).parent / "page_map.sv"
#: Bytes of a page of a sparse memory: no burst crosses one.
PAGE_BYTES = 4096
#: Inputs of the model that a bench drives, with their widths in bits; 0 stands for the width of addresses.
CONTROLS: dict[str, int] = {
    "origin": 0,
    "latency": 16,
    "bandwidth_beats": 8,
    "bandwidth_cycles": 8,
    "stall": 40,
    "out_of_order": 1,
    "read_error_first": 0,
    "read_error_last": 0,
    "write_error_first": 0,
    "write_error_last": 0,
    "seed": 32,
    "load": 1,
    "dump": 1,
    "dump_first": 32,
    "dump_beats": 32,
}
#: Outputs of the model, with their widths in bits.
COUNTERS: dict[str, int] = {
    "beats_read": 64,
    "beats_written": 64,
    "bytes_read": 64,
    "bytes_written": 64,
    "busy_cycles": 64,
    "idle": 1,
}
#: Port of a design that says which parts work.
WATCHED = "working"
#: Signals of AXI4 that the model has no pins for: a top level drives them with constants.
_IGNORED = tuple(f"{channel}{name}" for channel in ("ar", "aw") for name in ATTRIBUTES)
#: Signals of AXI4 that the model drives.
_ANSWERS = ("arready", "rid", "rdata", "rresp", "rlast", "rvalid", "awready", "wready", "bid", "bresp", "bvalid")
#: Signals of AXI4 that the model receives.
_REQUESTS = (
    *(f"{channel}{signal}" for channel in ("ar", "aw") for signal in ("id", "addr", "len", "size", "burst", "prot")),
    *("arvalid", "rready", "awvalid", "wdata", "wstrb", "wlast", "wvalid", "bready"),
)


@dataclass(frozen=True)
class MemoryModel:
    """A memory behind an AXI4 port, or behind several of one design: ``m_axi``, ``m_axi_1`` and so on.

    Attributes
    ----------
    depth
        Size in beats.
    name
        Prefix of the model's controls and counters at the top, and of its plusargs.
    beats
        Beats of the longest burst.
    sparse
        The beats are those of pages anywhere in the address space, which `sim.models.sparse.SparseMemory` loads.
    """

    depth: int = 131072
    name: str = "mem"
    beats: int = 16
    sparse: bool = False


def sources_of(memories: Mapping[str, MemoryModel]) -> tuple[Path, ...]:
    """Return the sources to be compiled with the wrapper of a design with these memories."""
    return (*SOURCES, _PAGE_MAP) if any(model.sparse for model in memories.values()) else SOURCES


def ports_of(component: Any) -> Iterator[Pin]:
    """Every Verilog port but clock and reset."""
    return (Pin(port.name, port.inward, port.width) for port in flat_ports(component))


def _joined(prefixes: Sequence[str], signal: str) -> str:
    """Return a signal of several ports as a vector, the first port lowest."""
    names = [f"{prefix}_{signal}" for prefix in reversed(prefixes)]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _placed(signal: str) -> str:
    """Return the name of a signal between a page map and its memory; only addresses change."""
    return f"{signal}_placed" if signal in ("araddr", "awaddr") else signal


def _page_maps(
    model: MemoryModel, prefixes: Sequence[str], sides: Sequence[str], address: int, data: int
) -> Iterator[str]:
    """Yield a page map for every address channel of a sparse memory; widths are in bits."""
    parameters: dict[str, int | str] = {
        "ADDR_WIDTH": address,
        "PAGES": model.depth * data // 8 // PAGE_BYTES,
        "NAME": f'"{model.name}"',
    }
    for prefix in prefixes:
        for side in sides:
            mapped = f"{prefix}_{_placed(f'{side}addr')}"
            pins = {"address": f"{prefix}_{side}addr", "place": mapped, "load": f"{model.name}_load"}
            pins |= {"clk": "clk", "rst": "rst"}
            yield f"  wire {vector(address)}{mapped};"
            yield instance("page_map", f"{mapped}_pages", pins, parameters)


def wrapper(
    component: Any,
    design: str,
    toplevel: str,
    memories: Mapping[str, MemoryModel] | None = None,
    *,
    number: str = "",
    lively: Collection[str] = (),
) -> str:
    """Return a Verilog top with the design, a memory at each of its AXI4 ports and all other ports passed through.

    Parameters
    ----------
    component
        The design, an Amaranth component with flat AXI4 members (`hw.memory.axi.flat_members`); read channels,
        write channels or both.
    design
        Name of its module.
    toplevel
        Name of the wrapper.
    memories
        Model behind each port by the port's prefix; default: one behind ``m_axi``. Ports with the same prefix and a
        number from 1 on reach the same memory.
    number
        Verilog expression, for example a port of the design: its value follows the names of memories in plusargs, and
        those of recorders. If empty, memories have no number and recorders number 0.
    lively
        As for `held`.

    Returns
    -------
    str
        Verilog; to be compiled with `sources_of` its memories. Every control and counter of a memory is a port of the
        top, as ``mem_latency``. A port ``working`` goes to a recorder (`sim.models.activity`), and so do the records of
        a locator inside (`sim.models.records`).

    Raises
    ------
    ValueError
        If the design has no such AXI4 port.
    """
    memories = memories or {"m_axi": MemoryModel()}
    ports = {pin.name: pin for pin in ports_of(component)}
    shared = {prefix: sharing(prefix, ports) for prefix in memories}
    prefixes = [prefix for some in shared.values() for prefix in some]
    inner = {f"{prefix}_{signal}" for prefix in prefixes for signal in _REQUESTS + _ANSWERS + _IGNORED}
    common = {"clk": "clk", "rst": "rst"}
    further = [f"{domain}_{signal}" for domain in getattr(component, "domains", ())[1:] for signal in ("clk", "rst")]
    numbering = {"number": f"8'({number or 0})"}
    if WATCHED in ports:
        inner.add(WATCHED)
    outer = [
        Pin("rst", True),
        *(Pin(name, True) for name in further),
        *(pin for name, pin in ports.items() if name not in inner),
    ]
    body = [f"  wire {vector(pin.width)}{name};" for name, pin in ports.items() if name in inner]
    body.append(instance(design, "dut", {**common, **{name: name for name in (*further, *ports)}}))
    for prefix, model in memories.items():
        widths = {
            signal: ports[f"{prefix}_{signal}"].width
            for signal in _REQUESTS + _ANSWERS
            if f"{prefix}_{signal}" in ports
        }
        sides = [side for side in ("ar", "aw") if f"{side}addr" in widths]
        if not sides:
            raise ValueError(f"memories: the design has no AXI4 port {prefix!r}")
        address = widths[f"{sides[0]}addr"]
        own = [Pin(f"{model.name}_{control}", True, width or address) for control, width in CONTROLS.items()]
        own += [Pin(f"{model.name}_{counter}", False, width) for counter, width in COUNTERS.items()]
        outer += own
        data = widths["rdata"] if "rdata" in widths else widths["wdata"]
        parameters: dict[str, int | str] = {
            "DATA_WIDTH": data,
            "ADDR_WIDTH": address,
            "ID_WIDTH": widths[f"{sides[0]}id"],
            "DEPTH": model.depth,
            "MAX_BEATS": model.beats,
            "PORTS": len(shared[prefix]),
            "NAME": f'"{model.name}"',
            "NUMBERED": int(bool(number)),
        }
        if model.sparse:
            body += _page_maps(model, shared[prefix], sides, address, data)
        pins = {
            f"s_axi_{signal}": _joined(shared[prefix], _placed(signal) if model.sparse else signal)
            if signal in widths
            else "'0"
            for signal in _REQUESTS
        }
        pins |= {f"s_axi_{signal}": _joined(shared[prefix], signal) if signal in widths else "" for signal in _ANSWERS}
        pins |= {pin.name.removeprefix(f"{model.name}_"): pin.name for pin in own}
        body.append(instance("axi_memory", model.name, {**common, **pins, **numbering}, parameters))
    if WATCHED in ports:
        parameters = {"PARTS": ports[WATCHED].width, "WINDOW": WINDOW}
        body.append(instance("activity_recorder", "activity", {**common, WATCHED: WATCHED, **numbering}, parameters))
    if source := record_source(component):
        streams = {name: source.signals("dut", name) for name in ("valid", "ready", "payload")}
        parameters = {"STREAMS": source.streams}
        body.append(instance("record_recorder", "records", {**common, **streams, **numbering}, parameters))
    return held(toplevel, outer, body, lively=lively)
