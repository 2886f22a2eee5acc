"""The top of every simulated machine, as Verilog: chiplets with a memory each, in a ring if there are several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hw.ring.formats import RingConfig
from sim.models.verilog import Pin, held, instance, module, vector
from sim.models.wrap import CONTROLS, COUNTERS, WATCHED, MemoryModel, ports_of, wrapper

__all__ = ["LINK_COUNTERS", "clock_of", "machine_top", "node_of"]

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
#: Controls that each memory has for itself: files and errors. All memories share the other settings.
_OWN = frozenset(
    {"load", "dump", "dump_first", "dump_beats"}
    | {f"{kind}_error_{end}" for kind in ("read", "write") for end in ("first", "last")}
)


def node_of(toplevel: str) -> str:
    """Return the name of the module that holds a chiplet and its memory."""
    return f"{toplevel}_node"


def clock_of(n: int) -> str:
    """Return the name of the top's input for the clock of chiplet `n`, where each has a clock of its own."""
    return f"clk_{n}" if n else "clk"


def machine_top(component: Any, ring: RingConfig | None, design: str, toplevel: str, depth: int) -> str:
    """Return a Verilog top with chiplets and a memory for each.

    Parameters
    ----------
    component
        The chiplet, with whatever stands around it.
    ring
        Sizes of its ring interface; None: the chiplet has none and is alone.
    design
        Name of the chiplet's module.
    toplevel
        Name of the top.
    depth
        Size of a memory, in beats.

    Returns
    -------
    str
        Verilog. Ports of chiplet c are called ``c{c}_start__valid`` and so on, those of its memory ``mem{c}_load``;
        memory controls that all memories share are called ``mem_latency``. Memories begin at the byte address
        ``mem_origin``. A ring has two more inputs: ``chiplets`` selects how many chiplets are in use, from 1, and
        ``reset`` has a bit for every chiplet beside the common ``rst``. With clocks of their own, chiplet 0, its memory
        and its link run on ``clk``, the others on ``clk_1`` and so on; ``rst`` resets the links, too.
    """
    ports = {pin.name: pin for pin in ports_of(component)}
    chiplets, address_width = ring.chiplets if ring else 1, ports["m_axi_araddr"].width
    pins = [Pin("rst", True)]
    pins += [Pin("reset", True, chiplets), Pin("chiplets", True, 5)] if ring else []
    pins += [
        Pin(f"mem_{control}", True, bits or address_width) for control, bits in CONTROLS.items() if control not in _OWN
    ]
    clocks = [clock_of(n if ring and ring.crossing else 0) for n in range(chiplets)]
    pins += [Pin(clock, True) for clock in dict.fromkeys(clocks) if clock != "clk"]
    wires: list[str] = []
    body: list[str] = []
    for n in reversed(range(chiplets)):
        node = {"clk": clocks[n], "rst": "rst"}
        if ring:
            node |= {"rst": f"rst | reset[{n}]", "position": f"5'd{n}", "chiplets": "chiplets"}
            if ring.crossing:
                # A reset of a chiplet alone leaves its links alone.
                node |= {"link_clk": _before(n, clocks), "link_rst": "rst"}
            node |= _links(n, chiplets, ports, wires)
            pins += [Pin(f"link{n}_{counter}", False, 64) for counter in LINK_COUNTERS]
            monitor = {name: f"link{n}_{name}" for name in ("tvalid", "tdata", "tlast", *LINK_COUNTERS)}
            monitor |= {"clk": clocks[n], "rst": "rst"}
            body.append(instance("link_monitor", f"monitor_{n}", monitor, {"WIDTH": ring.link_width}))
        for name, pin in ports.items():
            if name not in node and name != WATCHED and not name.startswith("m_axi_"):
                pins.append(pin._replace(name=f"c{n}_{name}"))
                node[name] = f"c{n}_{name}"
        for pin in _memory_pins(n, address_width):
            pins.append(pin)
            node[pin.name.replace(f"mem{n}_", "mem_")] = pin.name
        # Each memory stalls in its own rhythm.
        node |= {f"mem_{control}": f"mem_{control}" for control in CONTROLS if control not in _OWN}
        node["mem_seed"] = f"mem_seed + {n}"
        body.append(instance(node_of(toplevel), f"chiplet_{n}", node))
    number = "position" if ring else "0"
    links = [name for name in ports if "_axis_" in name]
    links += ["link_clk"] if ring and ring.crossing else []
    memories = {"m_axi": MemoryModel(depth)}
    chiplet = wrapper(component, design, node_of(toplevel), memories, number=number, lively=links)
    # A node holds its inputs; with the logic of links around nodes, the top holds its own, too.
    lines = [*wires, *body]
    top = held(toplevel, pins, lines, lively=clocks) if ring else module(toplevel, pins, lines)
    return "\n".join([_LINK_MONITOR if ring else "", chiplet, top, ""])


def _memory_pins(n: int, address_width: int) -> Iterator[Pin]:
    """Yield the ports of the top that belong to memory `n` alone."""
    for control, bits in CONTROLS.items():
        if control in _OWN:
            yield Pin(f"mem{n}_{control}", True, bits or address_width)
    for counter, bits in COUNTERS.items():
        yield Pin(f"mem{n}_{counter}", False, bits)


def _before(n: int, signals: Sequence[str]) -> str:
    """Return that of `signals` of all chiplets which belongs to the one before `n`; before 0 is the last one in use."""
    if n:
        return signals[n - 1]
    # A chain, since an index into an array of links wider than 64 bits is an internal error of Verilator.
    others = "".join(f"chiplets == {k + 1} ? {signals[k]} : " for k in range(len(signals) - 1))
    return f"{others}{signals[-1]}"


def _links(n: int, chiplets: int, ports: dict[str, Pin], wires: list[str]) -> dict[str, str]:
    """Return the connections of chiplet `n`'s link ports; add the wires that they need to `wires`.

    Link n leaves chiplet n; the link of the last chiplet in use goes to chiplet 0.
    """
    node = {}
    for signal in ("tvalid", "tdata", "tuser", "tlast", "tstate"):
        if f"m_axis_{signal}" not in ports:
            continue  # a flit of one word has no count of words
        bits = ports[f"m_axis_{signal}"].width
        wires.append(f"  wire {vector(bits)}link{n}_{signal};")
        node[f"m_axis_{signal}"] = f"link{n}_{signal}"
        before = _before(n, [f"link{k}_{signal}" for k in range(chiplets)])
        # Nothing goes past the last chiplet in use.
        gate = f" && chiplets > {n}" if signal == "tvalid" and n else ""
        node[f"s_axis_{signal}"] = f"{before}{gate}"
    for signal in ("tcredit", "tback"):
        wires.append(f"  wire {vector(ports[f's_axis_{signal}'].width)}{signal}{n};")
        node[f"s_axis_{signal}"] = f"{signal}{n}"
        node[f"m_axis_{signal}"] = f"chiplets == {n + 1} ? {signal}0 : {signal}{(n + 1) % chiplets}"
    return node
