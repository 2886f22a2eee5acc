"""Whether a mutant behaves like the original at every port, as far as the rules of streams define that."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amaranth.hdl import Shape

from scripts.flows.ports import flat_ports
from scripts.flows.yosys import program
from tb.harness.formal import environment
from tb.harness.ports import StreamPort, stream_ports


def miter(component: Any, top: str, number: int, width: int) -> str:
    """Return Verilog that runs original (``mutsel`` 0) and mutant side by side and asserts equal outputs.

    Inputs keep the rules of streams. A payload counts only while its ``valid`` is high.
    """
    ports = [(name, inward, Shape.cast(shape).width) for name, inward, shape in flat_ports(component)]
    streams = {port.name: port for port in stream_ports(component)}
    declared = ["input clk", "input rst", *(f"input [{w - 1}:0] {n}" for n, inward, w in ports if inward)]
    lines = [f"module miter({', '.join(declared)});"]
    for side, value in (("a", 0), ("b", number)):
        lines += [f"  wire [{w - 1}:0] {side}_{n};" for n, inward, w in ports if not inward]
        connections = [f".{n}({n if inward else f'{side}_{n}'})" for n, inward, _ in ports]
        lines.append(
            f"  \\{top} {side} (.clk(clk), .rst(rst), .mutsel({width}'d{value})"
            + "".join(f", {connection}" for connection in connections)
            + ");"
        )
    for name, inward, _ in ports:
        if not inward:
            lines.append(f"  always @* assert ({_relevant(name, streams)} || a_{name} == b_{name});")
    for port in streams.values():
        if port.inward and not port.always_valid and not port.always_ready:
            lines += _rules(port)
    return "\n".join([*lines, "endmodule", ""])


def _relevant(name: str, streams: Mapping[str, StreamPort]) -> str:
    stem, _, last = name.rpartition("__")
    port = streams.get(stem)
    if port is not None and last == "payload" and not port.always_valid:
        return f"!a_{stem}__valid"
    return "1'b0"


def _rules(port: StreamPort) -> list[str]:
    name = port.name
    held = f"{name}__payload == {name}_held" if port.width else "1'b1"
    store = f"{name}_held <= {name}__payload;" if port.width else ""
    return [
        f"  reg {name}_waits = 0; reg [{max(1, port.width) - 1}:0] {name}_held = 0;",
        f"  always @(posedge clk) begin {name}_waits <= {name}__valid && !a_{name}__ready && !rst; {store} end",
        f"  always @* assume (!{name}_waits || rst || ({name}__valid && {held}));",
    ]


def compare(component: Any, folder: Path, number: int, depth: int, limit: float) -> bool:
    """Return whether mutant `number` equals the original over `depth` cycles from reset.

    Parameters
    ----------
    component
        A component with the same ports.
    folder
        Where ``mutated.il`` is.
    number
        Value of ``mutsel``.
    depth
        Cycles; a difference that needs more is not seen, so the depth has to fit the block.
    limit
        Seconds; a mutant undecided by then counts as different.
    """
    text = (folder / "mutated.il").read_text()
    found = re.search(r"attribute \\top 1\n(?:\s*attribute .*\n)*module (\S+)", text)
    assert found is not None, f"{folder}: no top module"
    top = found[1].removeprefix("\\")
    size = re.search(r"wire width (\d+) input \d+ \\mutsel", text)
    width = int(size[1]) if size else 1
    stem = f"equal{number}"
    (folder / f"{stem}.sv").write_text(miter(component, top, number, width))
    (folder / f"{stem}.sby").write_text(
        f"[options]\nmode bmc\ndepth {depth}\ntimeout {limit:.0f}\n[engines]\nsmtbmc yices\n"
        f"[script]\nread_rtlil mutated.il\nread_verilog -sv -formal {stem}.sv\n"
        "hierarchy -top miter\nproc\nflatten\nopt -full\nprep -top miter\n"
        f"[files]\nmutated.il\n{stem}.sv\n"
    )
    done = subprocess.run(
        [program("yowasp-sby"), "-f", "-d", stem, f"{stem}.sby"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    (folder / f"{stem}.log").write_text(done.stdout + done.stderr)
    return done.returncode == 0
