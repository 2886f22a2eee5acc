"""A ring of chiplets with their memories, as Verilog: one chiplet's module, once for each position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hw.ring.formats import RingConfig
from sim.harness import BuildOptions
from sim.harness.build import Build, build
from sim.harness.modules import module_sources
from sim.models.verilog import Pin, held, instance, vector
from sim.models.wrap import CONTROLS, COUNTERS, SOURCES, WATCHED, MemoryModel, ports_of, wrapper

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

    Chiplets are compiled once for all positions, with their memories, so that little crosses the border: a large one
    would take minutes for each. What repeats inside them is not: it would save no time there, and a block that is
    simulated behind its ports takes twice as long.
    """
    sources = [*SOURCES, *module_sources(component, f"{name}_chiplet")]
    return build(
        component,
        f"{name}_chiplet",
        sources=sources,
        toplevel=name,
        texts={f"{name}.sv": ring_top(component, ring, f"{name}_chiplet", name, depth)},
        ports=(),
        options=replace(options, blocks=(_node(name),)),
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
    ports = {pin.name: pin for pin in ports_of(component)}
    chiplets, address_width = ring.chiplets, ports["m_axi_araddr"].width
    # Settings are common to all memories, files and errors are not.
    own = {"load", "dump", "dump_first", "dump_beats"}
    own |= {f"{kind}_error_{end}" for kind in ("read", "write") for end in ("first", "last")}
    pins = [Pin("rst", True), Pin("reset", True, chiplets), Pin("chiplets", True, 5)]
    pins += [
        Pin(f"mem_{control}", True, bits or address_width) for control, bits in CONTROLS.items() if control not in own
    ]
    wires: list[str] = []
    body: list[str] = []
    for n in reversed(range(chiplets)):
        node = {"clk": "clk", "rst": f"rst | reset[{n}]", "position": f"5'd{n}", "chiplets": "chiplets"}
        # Link n leaves chiplet n; the link of the last chiplet in use goes to chiplet 0.
        for signal in ("tvalid", "tdata", "tlast", "tstate"):
            bits = ports[f"m_axis_{signal}"].width
            wires.append(f"  wire {vector(bits)}link{n}_{signal};")
            node[f"m_axis_{signal}"] = f"link{n}_{signal}"
            before = f"link{n - 1}_{signal}"
            if n == 0:
                every = ", ".join(f"link{k}_{signal}" for k in reversed(range(chiplets)))
                body.append(f"  wire [{chiplets - 1}:0][{bits - 1}:0] all_{signal} = {{{every}}};")
                before = f"all_{signal}[{max(1, (chiplets - 1).bit_length())}'(chiplets - 1)]"
            # Nothing goes past the last chiplet in use.
            gate = f" && chiplets > {n}" if signal == "tvalid" and n else ""
            node[f"s_axis_{signal}"] = f"{before}{gate}"
        for signal in ("tcredit", "tback"):
            wires.append(f"  wire {vector(ports[f's_axis_{signal}'].width)}{signal}{n};")
            node[f"s_axis_{signal}"] = f"{signal}{n}"
            node[f"m_axis_{signal}"] = f"chiplets == {n + 1} ? {signal}0 : {signal}{(n + 1) % chiplets}"
        for name, pin in ports.items():
            if name not in node and name != WATCHED and not name.startswith("m_axi_"):
                pins.append(pin._replace(name=f"c{n}_{name}"))
                node[name] = f"c{n}_{name}"
        for control, bits in CONTROLS.items():
            name = f"mem{n}_{control}" if control in own else f"mem_{control}"
            if control in own:
                pins.append(Pin(name, True, bits or address_width))
            # Each memory stalls in its own rhythm.
            node[f"mem_{control}"] = f"{name} + {n}" if control == "seed" else name
        for counter, bits in COUNTERS.items():
            pins.append(Pin(f"mem{n}_{counter}", False, bits))
            node[f"mem_{counter}"] = f"mem{n}_{counter}"
        monitor = {"clk": "clk", "rst": "rst"} | {name: f"link{n}_{name}" for name in ("tvalid", "tdata", "tlast")}
        for counter in LINK_COUNTERS:
            pins.append(Pin(f"link{n}_{counter}", False, 64))
            monitor[counter] = f"link{n}_{counter}"
        body.append(instance(_node(toplevel), f"chiplet_{n}", node))
        body.append(instance("link_monitor", f"monitor_{n}", monitor, {"WIDTH": ring.link_width}))
    links = [name for name in ports if "_axis_" in name]
    memories = {"m_axi": MemoryModel(depth)}
    chiplet = wrapper(component, design, _node(toplevel), memories, number="position", lively=links)
    return "\n".join([_LINK_MONITOR, chiplet, held(toplevel, pins, [*wires, *body])])


def _node(toplevel: str) -> str:
    """Return the name of the module of a chiplet with its memory."""
    return f"{toplevel}_node"
