"""FuseSoC core files of generated blocks, and the bench by which a machine's `sim` target looks at its registers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from contracts import MAGIC, VERSION
from contracts.registers import register

__all__ = ["core_file", "machine_bench"]


def core_file(module: str, description: str, bench: str | None = None, files: Sequence[str] = ()) -> str:
    """Return a FuseSoC core description (CAPI2) of a module.

    Targets ``lint`` (Verilator, all warnings), ``synth`` (Yosys for ECP5), and ``sim`` if there is a bench.

    Parameters
    ----------
    module
        Name of the module and stem of its file.
    description
        One line.
    bench
        Name of a bench in C++, if there is one.
    files
        Stems of its Verilog files; default: that of the module.
    """
    lines = [
        "CAPI=2:",
        f"name: atoll:blocks:{module}:{version('atoll')}",
        f"description: {description}",
        "filesets:",
        "  rtl:",
        f"    files: [{', '.join(f'{name}.v' for name in files or [module])}]",
        "    file_type: verilogSource",
    ]
    if bench:
        lines += ["  bench:", f"    files: [{bench}]", "    file_type: cppSource"]
    lines += [
        "targets:",
        "  default:",
        "    filesets: [rtl]",
        f"    toplevel: {module}",
        "  lint:",
        "    flow: lint",
        "    flow_options:",
        "      tool: verilator",
        "      verilator_options: [-Wall]",
        "    filesets: [rtl]",
        f"    toplevel: {module}",
        "  synth:",
        "    flow: generic",
        "    flow_options:",
        "      tool: yosys",
        "      arch: ecp5",
        "      output_format: json",
        "    filesets: [rtl]",
        f"    toplevel: {module}",
    ]
    if bench:
        lines += [
            "  sim:",
            "    flow: sim",
            "    flow_options:",
            "      tool: verilator",
            "      mode: cc",
            "      verilator_options: [--cc, --exe]",
            # The first is what Verilator sets by itself, except in packages that leave it empty.
            "      make_options: [CFG_CXXFLAGS_PCH_I=-include, OPT_FAST=-O1]",
            "    filesets: [rtl, bench]",
            f"    toplevel: {module}",
        ]
    return "\n".join([*lines, ""])


def machine_bench(module: str) -> str:
    """Return a bench in C++ that reads the registers ID and VERSION of a machine through its AXI4-Lite port."""
    return f"""// Reads ID and VERSION of the machine; written by `atoll generate`. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>

#include "V{module}.h"
#include "verilated.h"

static V{module} *machine;

static void cycle() {{
    machine->clk = 0;
    machine->eval();
    machine->clk = 1;
    machine->eval();
}}

static bool holds(const char *name, unsigned address, uint32_t expected) {{
    machine->s_axil_araddr = address;
    machine->s_axil_arvalid = 1;
    bool taken = false;
    for (int left = 100; left > 0; --left) {{
        machine->clk = 0;
        machine->eval();
        taken = machine->s_axil_arvalid && machine->s_axil_arready;
        const bool came = machine->s_axil_rvalid;
        const uint32_t data = machine->s_axil_rdata, answer = machine->s_axil_rresp;
        machine->clk = 1;
        machine->eval();
        if (taken) machine->s_axil_arvalid = 0;
        if (came) {{
            std::printf("%s: %#x, expected %#x\\n", name, data, expected);
            return answer == 0 && data == expected;
        }}
    }}
    std::printf("%s: no answer\\n", name);
    return false;
}}

int main(int argc, char **argv) {{
    Verilated::commandArgs(argc, argv);
    machine = new V{module};
    machine->rst = 1;
    machine->s_axil_rready = 1;
    cycle();
    cycle();
    machine->rst = 0;
    const bool known = holds("ID", {register("ID").address}, {MAGIC:#x}u);
    const bool good = holds("VERSION", {register("VERSION").address}, {VERSION}u) && known;
    delete machine;
    return good ? 0 : 1;
}}
"""
