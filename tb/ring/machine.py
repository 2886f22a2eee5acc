"""A ring of chiplets with their memories, as Verilog: one chiplet's module, once for each position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hw.ring.formats import RingConfig
from tb.harness import BuildOptions
from tb.harness.build import Build, build
from tb.harness.modules import module_sources
from tb.models.wrap import CONTROLS, COUNTERS, SOURCES, ports_of, vector

__all__ = ["LINK_COUNTERS", "build_ring", "ring_top"]

#: Outputs of the top for every link: words of 16 bits by kind of packet, headers, flits.
LINK_COUNTERS = ("feature_words", "partial_words", "control_packets", "flits")
#: Counts what crosses a link; the kind of a packet is in its header's lowest bits.
_LINK_MONITOR = """
module link_monitor #(parameter WIDTH = 64) (
  input clk, input rst, input tvalid, input [WIDTH-1:0] tdata, input tlast,
  output reg [63:0] feature_words, output reg [63:0] partial_words, output reg [63:0] control_packets,
  output reg [63:0] flits);
  reg in_packet;
  always @(posedge clk) begin
    if (rst) begin
      in_packet <= 0;
      feature_words <= 0;
      partial_words <= 0;
      control_packets <= 0;
      flits <= 0;
    end else if (tvalid) begin
      flits <= flits + 1;
      in_packet <= !tlast;
      if (!in_packet)
        case (tdata[1:0])
          0: feature_words <= feature_words + 64'(tdata[26:15]);
          1: partial_words <= partial_words + 64'(tdata[26:15]) * 2;
          default: control_packets <= control_packets + 1;
        endcase
    end
  end
endmodule
"""


def build_ring(component: Any, ring: RingConfig, name: str, depth: int, options: BuildOptions) -> Build:
    """Build the simulator of a ring, as in :func:`ring_top`, called `name`.

    Chiplets are compiled once for all positions: a large one would take minutes for each. What repeats inside them is
    not: it would save no time there, and a block that is simulated behind its ports takes twice as long.
    """
    sources = [*SOURCES, *module_sources(component, f"{name}_chiplet")]
    return build(
        component,
        f"{name}_chiplet",
        sources=sources,
        toplevel=name,
        texts={f"{name}.sv": ring_top(component, ring, f"{name}_chiplet", name, depth)},
        ports=(),
        options=replace(options, blocks=(f"{name}_chiplet",)),
    )


def ring_top(component: Any, ring: RingConfig, design: str, toplevel: str, depth: int) -> str:
    """Return a Verilog top with `chiplets` chiplets in a ring, each with a memory of its own.

    Parameters
    ----------
    component, ring, design
        The chiplet, its ring interface's sizes and the name of its module. Of the ring's chiplets, from 2, an input of
        the top says how many are in use.
    toplevel
        Name of the top.
    depth
        Size of a memory, in beats.

    Returns
    -------
    str
        Verilog. Ports of chiplet c are called ``c{c}_start__valid`` and so on, those of its memory ``mem{c}_latency``;
        ``reset`` has a bit for every chiplet beside the common ``rst``; memory controls that are the same for
        all are called ``mem_latency``. Memories begin at the byte address ``mem_origin``.
    """
    ports = {name: (inward, bits) for name, inward, bits in ports_of(component)}
    (_, address_width), (_, data_width) = ports["m_axi_araddr"], ports["m_axi_rdata"]
    width, chiplets = ring.link_width, ring.chiplets
    # Settings are common to all memories, files and errors are not.
    own = {"load", "dump", "dump_first", "dump_beats"}
    own |= {f"{kind}_error_{end}" for kind in ("read", "write") for end in ("first", "last")}
    declarations = ["input clk", "input rst", f"input [{chiplets - 1}:0] reset", "input [4:0] chiplets"]
    declarations.append(f"input {vector(address_width)}mem_origin")
    for control, bits in CONTROLS.items():
        if control not in own:
            declarations.append(f"input {vector(bits or address_width)}mem_{control}")
    wires: list[str] = []
    body: list[str] = []
    for n in reversed(range(chiplets)):
        pins = [
            ".clk(clk)",
            f".rst(rst | reset[{n}])",
            f".position(5'd{n})",
            ".chiplets(chiplets)",
        ]
        memory = [".clk(clk)", f".rst(rst | reset[{n}])"]
        # Link n leaves chiplet n; the link of the last chiplet in use goes to chiplet 0.
        for signal in ("tvalid", "tdata", "tlast", "tstate"):
            bits = ports[f"m_axis_{signal}"][1]
            wires.append(f"  wire {vector(bits)}link{n}_{signal};")
            pins.append(f".m_axis_{signal}(link{n}_{signal})")
            before = f"link{n - 1}_{signal}"
            if n == 0:
                every = ", ".join(f"link{k}_{signal}" for k in reversed(range(chiplets)))
                body.append(f"  wire [{chiplets - 1}:0][{bits - 1}:0] all_{signal} = {{{every}}};")
                before = f"all_{signal}[{max(1, (chiplets - 1).bit_length())}'(chiplets - 1)]"
            # Nothing goes past the last chiplet in use.
            gate = f" && chiplets > {n}" if signal == "tvalid" and n else ""
            pins.append(f".s_axis_{signal}({before}{gate})")
        for signal in ("tcredit", "tback"):
            wires.append(f"  wire {vector(ports[f's_axis_{signal}'][1])}{signal}{n};")
            pins.append(f".s_axis_{signal}({signal}{n})")
            pins.append(f".m_axis_{signal}(chiplets == {n + 1} ? {signal}0 : {signal}{(n + 1) % chiplets})")
        for name, (inward, bits) in ports.items():
            if name.startswith(("m_axis_", "s_axis_")) or name in ("position", "chiplets"):
                continue
            if name.startswith("m_axi_"):
                body.append(f"  wire {vector(bits)}c{n}_{name};")
                origin = " - mem_origin" if name.endswith("addr") else ""
                memory.append(f".{name.replace('m_axi', 's_axi')}(c{n}_{name}{origin})")
            else:
                declarations.append(f"{'input' if inward else 'output'} {vector(bits)}c{n}_{name}")
            pins.append(f".{name}(c{n}_{name})")
        for control, bits in CONTROLS.items():
            prefix = f"mem{n}" if control in own else "mem"
            if control in own:
                declarations.append(f"input {vector(bits or address_width)}{prefix}_{control}")
            # Each memory stalls in its own rhythm.
            memory.append(f".{control}({prefix}_{control}{f' + {n}' if control == 'seed' else ''})")
        for counter, bits in COUNTERS.items():
            declarations.append(f"output {vector(bits)}mem{n}_{counter}")
            memory.append(f".{counter}(mem{n}_{counter})")
        monitor = [
            ".clk(clk)",
            ".rst(rst)",
            *(f".{signal}(link{n}_{signal})" for signal in ("tvalid", "tdata", "tlast")),
        ]
        for counter in LINK_COUNTERS:
            declarations.append(f"output [63:0] link{n}_{counter}")
            monitor.append(f".{counter}(link{n}_{counter})")
        identity = ports["m_axi_arid"][1]
        separator = ",\n    "
        body += [
            f"  {design} chiplet_{n} (\n    {separator.join(pins)});",
            f"  axi_memory #(.DATA_WIDTH({data_width}), .ADDR_WIDTH({address_width}), .ID_WIDTH({identity}), "
            f'.DEPTH({depth}), .NAME("mem{n}")) memory_{n} (\n    {separator.join(memory)});',
            f"  link_monitor #(.WIDTH({width})) monitor_{n} (\n    {separator.join(monitor)});",
        ]
    declared = ",\n  ".join(declarations)
    return "\n".join([_LINK_MONITOR, f"module {toplevel} (\n  {declared});", *wires, *body, "endmodule", ""])
